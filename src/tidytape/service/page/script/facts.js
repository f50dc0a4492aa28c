// --- facts of the service's catalogue, as the service itself wrote them into this page ---

const FACTS = JSON.parse(byId("facts").textContent);
const KINDS = new Map(FACTS.types.map((kind) => [kind.name, kind]));
const INTERVALS = new Map(FACTS.choices.interval.map((one) => [one.value, one]));

const REPEATABLE = new Set(["exchange"]); // of what may be given several times, what this page gives so

// [s] between two points
function stepOf(query) {
  return query.interval ? INTERVALS.get(query.interval).seconds : FACTS.stepWithoutInterval;
}
