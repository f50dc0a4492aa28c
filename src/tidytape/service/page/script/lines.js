// --- lines, dots and bars over time ---

const MOST_LINES = 8;

// One value of every series: a line over intervals, broken where some are missing; dots of what has no intervals.
function drawLines({ answer, series, field, width, height }) {
  const box = boxOf(width, height);
  const span = windowOf(answer.query);
  const x = linear(span, [box.left, box.right]);
  const drawn = series.slice(0, MOST_LINES).map((one) => ({ ...one, values: valuesOf(answer, one, field) }));
  const all = drawn.flatMap(({ values }) => values);
  if (!all.length) return null;
  const domain = padded(...extentOf(all.map(({ value }) => value)));
  const y = linear(domain, [box.bottom, box.top]);
  const shape = answer.query.interval ? lineShapes : dotShapes;
  const unit = unitOf(field.unit, sharedBy(series), answer.query);
  return {
    parts: [
      titleOf(box, withUnit(field.doc, unit)),
      valueAxis(y, domain, box, amountText),
      timeAxis(x, span, box),
      ...drawn.map(({ values }, place) => svg("g", { class: `tone-${place}` }, ...shape(values, stepOf(answer.query), x, y))),
    ],
    caption: linesCaption(series, drawn.length),
    legend: drawn.map(({ label }, place) => [`tone-${place}`, label]),
    along: "x",
    ...lineReadout(drawn, x),
  };
}

function valuesOf(answer, { points }, field) {
  const middle = answer.query.interval ? stepOf(answer.query) / 2 : 0;
  return inOrder(answer, points)
    .filter((point) => isNumber(point[field.name]))
    .map((point) => ({ at: secondsOf(point.timestamp) + middle, start: point.timestamp, value: point[field.name] }));
}

function lineShapes(values, step, x, y) {
  const runs = [];
  values.forEach((one, place) => {
    if (!place || one.at - values[place - 1].at > step * 1.5) runs.push([]);
    runs.at(-1).push(one);
  });
  const thin = runs.map((run) => thinned(run, x));
  const lone = thin.filter((run) => run.length === 1).flat();
  const d = thin.filter((run) => run.length > 1).map((run) => `M${run.map(({ at, value }) => `${x(at)} ${y(value)}`).join("L")}`);
  return [svg("path", { class: "series", d: d.join("") }), ...dotShapes(lone, step, x, y)];
}

function dotShapes(values, step, x, y) {
  return thinned(values, x).map(({ at, value }) => svg("circle", { class: "dot", cx: x(at), cy: y(value), r: 2.6 }));
}

// Of each column of pixels the lowest and the highest value: nothing that could be seen is lost.
function thinned(values, x) {
  if (values.length < 2000) return values;
  const columns = Map.groupBy(values, ({ at }) => Math.round(x(at)));
  return [...columns.values()].flatMap((column) => {
    const ordered = column.toSorted((a, b) => a.value - b.value);
    return [...new Set([ordered[0], ordered.at(-1)])].toSorted((a, b) => a.at - b.at);
  });
}

function linesCaption(series, drawn) {
  const points = counted(series.reduce((sum, one) => sum + one.points.length, 0), "point");
  const many = `${points} in ${counted(series.length, "series", "series")}`;
  return drawn < series.length ? `${many}; the first ${drawn} are drawn.` : `${many}.`;
}

function lineReadout(drawn, x) {
  const times = [...new Set(drawn.flatMap(({ values }) => values.map(({ at }) => at)))].toSorted((a, b) => a - b);
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

const PIXELS_PER_BAR = 2.5;
const UPWARDS = "BUY";

function drawBars({ answer, series, field, width, height }) {
  const box = boxOf(width, height);
  const span = windowOf(answer.query);
  const interval = stepOf(answer.query);
  const joined = Math.max(1, Math.ceil(answer.query.period / interval / ((box.right - box.left) / PIXELS_PER_BAR)));
  const step = interval * joined;
  const bars = series.flatMap((one) => summed(answer, one, field, step).map((bar) => ({ ...bar, isUp: one.id.side === UPWARDS, side: one.id.side })));
  if (!bars.length) return null;
  const x = linear(span, [box.left, box.right]);
  const domain = padded(...extentOf([0, ...bars.map(({ value, isUp }) => (isUp ? value : -value))]));
  const y = linear(domain, [box.bottom, box.top]);
  const unit = unitOf(field.unit, series[0].id, answer.query);
  const magnitude = (value, at) => amountText(Math.abs(value), at);
  const stops = bars.toSorted((a, b) => a.start - b.start);
  return {
    parts: [
      titleOf(box, withUnit(field.doc, unit)),
      valueAxis(y, domain, box, magnitude),
      svg("path", { class: "line", d: `M${box.left} ${crisp(y(0))}H${box.right}` }),
      timeAxis(x, span, box),
      ...bars.map((bar) => barShape(bar, step, x, y)),
    ],
    caption: `${labelOf({ ...series[0].id, side: undefined })}: ${counted(bars.length, "bar")} of ${durationText(step)}`
      + `${joined > 1 ? `, ${joined} intervals summed in each. The rows below are as served.` : "."}`,
    legend: series.map(({ id }) => [id.side === UPWARDS ? "buy" : "sell", `${id.side}, ${id.side === UPWARDS ? "upwards" : "downwards"}`]),
    along: "x",
    stops: stops.map(({ start }) => x(start + step / 2)),
    tell: (stop) => `${minuteText(stops[stop].start)} · ${stops[stop].side} ${stops[stop].value} ${unit}`,
  };
}

function summed({ query }, { points }, field, step) {
  const sums = new Map();
  for (const point of points.filter((one) => isNumber(one[field.name]))) {
    const start = query.from + Math.floor((secondsOf(point.timestamp) - query.from) / step) * step;
    sums.set(start, (sums.get(start) ?? 0) + point[field.name]);
  }
  return [...sums].map(([start, value]) => ({ start, value }));
}

function barShape({ start, value, isUp }, step, x, y) {
  const breadth = Math.max(1, (x(start + step) - x(start)) * BODY);
  const [top, foot] = isUp ? [y(value), y(0)] : [y(0), y(-value)];
  return svg("rect", {
    class: `bar ${isUp ? "buy" : "sell"}`,
    x: x(start + step / 2) - breadth / 2, y: top, width: breadth, height: Math.max(0.5, foot - top),
  });
}
