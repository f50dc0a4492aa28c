// --- an answer: series of points, each point the payload without its envelope ---

function answerOf(body, query, requestId) {
  const kind = KINDS.get(query.type);
  const series = body.series.map(({ id, points }) => ({
    id,
    label: labelOf(id),
    points: points.map((point) => payloadOf(kind, point)),
  }));
  return { kind, query, series, requestId };
}

const payloadOf = (kind, { Point: point }) => (kind.envelope && point[kind.envelope]) || point;

function labelOf(id) {
  const symbol = id.rawSymbol ?? id.normalizedSymbol ?? id.coin;
  return [id.exchange, symbol, id.tenor, id.side].filter(Boolean).join(" ");
}

// What all series say alike of themselves.
function sharedBy(series) {
  const told = Object.entries(series[0]?.id ?? {});
  return Object.fromEntries(told.filter(([name, value]) => series.every(({ id }) => id[name] === value)));
}

const secondsOf = ({ s, ns = 0 }) => s + ns / 1e9;

// Below 0 where the first is earlier, 0 where both are the same.
const inTime = (one, other) => one.s - other.s || (one.ns ?? 0) - (other.ns ?? 0);

const NEWEST_FIRST = FACTS.choices.sortDirection.find(({ label }) => label === "desc").value;

// Oldest first, whichever way they were asked for.
function inOrder(answer, points) {
  return answer.query.sortDirection === NEWEST_FIRST ? points.toReversed() : points;
}

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

// A level as an object, of arrays of objects and of flat arrays alike.
function* levelsOf(point, levels) {
  const values = point[levels.name] ?? [];
  if (!levels.flat) {
    yield* values;
    return;
  }
  const names = levels.fields.map((field) => field.name);
  for (let at = 0; at < values.length; at += names.length) {
    yield Object.fromEntries(names.map((name, place) => [name, values[at + place]]));
  }
}

const levelCount = (point, levels) =>
  (point[levels.name]?.length ?? 0) / (levels.flat ? levels.fields.length : 1);

// --- units, with the names of what is traded where a series tells them ---

function unitOf(unit, id) {
  const amounts = { COIN: "coin", USD: "USD" };
  const chosen = unit === "coin or USD, see amount_unit" ? (amounts[id.amountUnit] ?? "") : unit;
  const names = { coin: id.coin ?? "coin", quote: quoteOf(id) };
  return chosen
    .split(" ")
    .map((word) => names[word] ?? word)
    .join(" ");
}

function quoteOf({ coin, normalizedSymbol: symbol }) {
  return coin && symbol?.startsWith(`${coin}-`) ? symbol.slice(coin.length + 1) : "quote";
}

const withUnit = (name, unit) => (unit ? `${name} [${unit}]` : name);
