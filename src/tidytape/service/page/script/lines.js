// --- lines, dots and bars over time ---

const MOST_LINES = 8;

// One value of every series: a line over intervals, broken where some are missing; dots of what has no intervals.
function drawLines({ answer, series, field, width, height }) {
  const box = boxOf(width, height);
  const span = windowOf(answer.query);
  const drawn = series.slice(0, MOST_LINES).map((one) => ({ ...one, values: valuesOf(answer, one, field) }));
  const all = drawn.flatMap(({ values }) => values);
  if (!all.length) return null;
  const x = linear(span, [box.left, box.right]);
  const domain = padded(...extentOf(all.map(({ value }) => value)));
  const y = linear(domain, [box.bottom, box.top]);
  const shapes = answer.query.interval ? lineShapes : dotShapes;
  const unit = unitOf(field.unit, sharedBy(series));
  return {
    parts: [
      titleOf(box, withUnit(field.doc, unit)),
      valueAxis(y, domain, box, isPrice(field) ? priceText : amountText),
      timeAxis(x, span, box),
      ...drawn.map(({ values }, place) =>
        svg("g", { class: `tone-${place}` }, ...shapes(values, x, y, stepOf(answer.query))),
      ),
    ],
    caption: linesCaption(series, drawn.length),
    legend: drawn.map(({ label }, place) => [`tone-${place}`, label]),
    along: "x",
    ...lineReadout(drawn, x),
  };
}

const isPrice = ({ unit }) => unit.includes(" per "); // or a rate: what is never shortened to thousands

function valuesOf(answer, { points }, field) {
  const middle = answer.query.interval ? stepOf(answer.query) / 2 : 0;
  return inOrder(answer, points)
    .filter((point) => isNumber(point[field.name]))
    .map((point) => ({
      at: secondsOf(point.timestamp) + middle,
      start: point.timestamp,
      value: point[field.name],
    }));
}

function lineShapes(values, x, y, step) {
  const runs = [];
  values.forEach((one, place) => {
    if (!place || one.at - values[place - 1].at > step * 1.5) runs.push([]);
    runs.at(-1).push(one);
  });
  const path = (run) =>
    `M${thinned(run, x)
      .map(({ at, value }) => `${x(at)} ${y(value)}`)
      .join("L")}`;
  const d = runs
    .filter((run) => run.length > 1)
    .map(path)
    .join("");
  const lone = runs.filter((run) => run.length === 1).flat();
  return [svg("path", { class: "series", d }), ...dotShapes(lone, x, y)];
}

// Of each column of pixels the lowest and the highest value: a line through them looks like one through all.
function thinned(values, x) {
  if (values.length < 2000) return values;
  const columns = Map.groupBy(values, ({ at }) => Math.round(x(at)));
  return [...columns.values()].flatMap((column) => {
    const ordered = column.toSorted((a, b) => a.value - b.value);
    return [...new Set([ordered[0], ordered.at(-1)])].toSorted((a, b) => a.at - b.at);
  });
}

// What would lie on top of each other is drawn once.
function dotShapes(values, x, y) {
  const places = new Map(
    values.map(({ at, value }) => [`${Math.round(x(at))} ${Math.round(y(value))}`, [x(at), y(value)]]),
  );
  const r = places.size > 500 ? 1.5 : 2.6;
  return [...places.values()].map(([cx, cy]) => svg("circle", { class: "dot", cx, cy, r }));
}

function linesCaption(series, drawn) {
  const points = counted(
    series.reduce((sum, one) => sum + one.points.length, 0),
    "point",
  );
  const many = `${points} in ${counted(series.length, "series", "series")}`;
  return drawn < series.length ? `${many}; the first ${drawn} are drawn.` : `${many}.`;
}

function lineReadout(drawn, x) {
  const times = [...new Set(drawn.flatMap(({ values }) => values.map(({ at }) => at)))].toSorted(
    (a, b) => a - b,
  );
  const known = drawn.map(({ values }) => new Map(values.map((one) => [one.at, one])));
  return {
    stops: times.map(x),
    tell: (stop) => {
      const there = known.map((values) => values.get(times[stop]));
      const told = there.map((one, place) => one && `${drawn[place].label} ${one.value}`).filter(Boolean);
      return [timestampText(there.find(Boolean).start), ...told].join(" · ");
    },
  };
}

// --- bars: one side upwards, the other downwards ---

const PIXELS_PER_BAR = 2.5; // else several intervals are summed in one
const UPWARDS = "BUY";

function drawBars({ answer, series, field, width, height }) {
  const box = boxOf(width, height);
  const span = windowOf(answer.query);
  const { bars, step, joined } = barsOf(
    answer,
    series,
    field,
    Math.floor((box.right - box.left) / PIXELS_PER_BAR),
  );
  if (!bars.length) return null;
  const x = linear(span, [box.left, box.right]);
  const domain = padded(...extentOf([0, ...bars.map(({ value, isUp }) => (isUp ? value : -value))]));
  const y = linear(domain, [box.bottom, box.top]);
  const unit = unitOf(field.unit, sharedBy(series));
  return {
    parts: [
      titleOf(box, withUnit(field.doc, unit)),
      valueAxis(y, domain, box, (value, apart) => amountText(Math.abs(value), apart)),
      svg("path", { class: "line", d: `M${box.left} ${crisp(y(0))}H${box.right}` }),
      timeAxis(x, span, box),
      ...bars.map((bar) => barShape(bar, step, x, y)),
    ],
    caption: barsCaption(series, bars.length, step, joined),
    legend: series.map(({ id }) =>
      id.side === UPWARDS ? ["buy", `${id.side}, upwards`] : ["sell", `${id.side}, downwards`],
    ),
    along: "x",
    stops: bars.map(({ start }) => x(start + step / 2)),
    tell: (stop) => `${minuteText(bars[stop].start)} · ${bars[stop].side} ${bars[stop].value} ${unit}`,
  };
}

function barsOf(answer, series, field, most) {
  const interval = stepOf(answer.query);
  const joined = Math.max(1, Math.ceil(answer.query.period / interval / most));
  const step = interval * joined;
  const bars = series.flatMap(({ id, points }) =>
    summed(answer.query, points, field, step).map((bar) => ({
      ...bar,
      side: id.side,
      isUp: id.side === UPWARDS,
    })),
  );
  return { bars: bars.toSorted((a, b) => a.start - b.start), step, joined };
}

function summed(query, points, field, step) {
  const sums = new Map();
  for (const point of points.filter((one) => isNumber(one[field.name]))) {
    const start = query.from + Math.floor((secondsOf(point.timestamp) - query.from) / step) * step;
    sums.set(start, (sums.get(start) ?? 0) + point[field.name]);
  }
  return [...sums].map(([start, value]) => ({ start, value }));
}

function barsCaption(series, drawn, step, joined) {
  const all = `${labelOf({ ...series[0].id, side: undefined })}: ${counted(drawn, "bar")} of ${durationText(step)}`;
  return joined === 1 ? `${all}.` : `${all}, ${joined} intervals summed in each. ${AS_SERVED}`;
}

function barShape({ start, value, isUp }, step, x, y) {
  const breadth = Math.max(1, (x(start + step) - x(start)) * BODY);
  const [top, foot] = isUp ? [y(value), y(0)] : [y(0), y(-value)];
  return svg("rect", {
    class: `bar ${isUp ? "buy" : "sell"}`,
    x: x(start + step / 2) - breadth / 2,
    y: top,
    width: breadth,
    height: Math.max(0.5, foot - top),
  });
}
