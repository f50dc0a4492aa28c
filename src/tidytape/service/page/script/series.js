// --- over time: candles with their volume, lines, dots, bars ---

const PIXELS_PER_ROW = 2.5; // else several intervals are joined in one
const VOLUME_SHARE = 0.2; // of the height
const BODY = 0.72; // of the interval; the rest keeps neighbours apart
const AS_SERVED = "The rows below are as served.";

const joinedOf = (count, most) => Math.max(1, Math.ceil(count / Math.max(1, most)));

function overTime(query) {
  const step = stepOf(query);
  return {
    extent: [query.from, query.from + query.period],
    step,
    least: 4 * step,
    joined: (span, pixels) => joinedOf(span / step, pixels / PIXELS_PER_ROW),
  };
}

// The unit of a field of a type, or of its levels.
function fieldUnit(kind, name, id) {
  const fields = [...kind.fields, ...kind.levels.flatMap((levels) => levels.fields)];
  return unitOf(fields.find((field) => field.name === name).unit, id);
}

// --- candles ---

function drawCandles({ answer, series: [market] }) {
  const { query, kind } = answer;
  const points = inOrder(answer, market.points);
  if (!points.some(isCandle)) return null;
  return {
    ...overTime(query),
    rows: (joined) => joinedCandles(query, points, joined),
    titles: [
      withUnit("Price", fieldUnit(kind, "close", market.id)),
      withUnit("Volume", fieldUnit(kind, "volume", market.id)),
    ],
    series: [unseen("low"), unseen("high"), unseen("volume", "volume")],
    scales: {
      y: { range: (_, low, high) => padded(low, high, [VOLUME_SHARE * 1.4, 0.05]) },
      volume: { range: (_, low, high) => [0, (high || 1) / VOLUME_SHARE] },
    },
    axes: [
      timeAxis(),
      valueAxis("y", priceText),
      valueAxis("volume", amountText, {
        side: 1,
        space: 20,
        grid: { show: false },
        filter: ({ scales }, values) =>
          values.map((value) => (value <= scales.volume.max * VOLUME_SHARE * 1.05 ? value : null)),
      }),
    ],
    paint: paintCandles,
    caption: (joined, count) => candlesCaption(market, points.length, count, joined, stepOf(query)),
    legend: [
      ["up", "closed higher"],
      ["down", "closed lower"],
    ],
    tell: candleText,
  };
}

const isCandle = ({ open, high, low, close }) =>
  isNumber(open) && isNumber(high) && isNumber(low) && isNumber(close);

// Candles of so many intervals each; an interval without a price has none.
function joinedCandles(query, points, joined) {
  const length = stepOf(query) * joined;
  const candles = [];
  for (const point of points) {
    if (!isCandle(point)) continue;
    const { timestamp, open, high, low, close, volume = 0 } = point;
    const time = secondsOf(timestamp);
    const start = joined === 1 ? time : startOf(query, time, length);
    const last = candles.at(-1);
    if (last?.start === start) {
      last.high = Math.max(last.high, high);
      last.low = Math.min(last.low, low);
      last.close = close;
      last.volume += volume;
    } else {
      candles.push({ at: start + length / 2, start, open, high, low, close, volume });
    }
  }
  return candles;
}

const startOf = ({ from }, time, length) => from + Math.floor((time - from) / length) * length;

function directionOf({ open, close }) {
  if (close > open) return "up";
  return close < open ? "down" : "flat";
}

function paintCandles(plot, candles, step) {
  const half = (step * BODY) / 2;
  for (const [direction, alike] of Map.groupBy(candles, directionOf)) {
    const fill = colour(direction);
    const wicks = alike.map(({ at, low, high }) => [at, at, low, high]);
    const bodies = alike.map(({ at, open, close }) => [at - half, at + half, open, close]);
    const volumes = alike.map(({ at, volume }) => [at - half, at + half, 0, volume]);
    fillBoxes(plot, fill, wicks);
    fillBoxes(plot, fill, bodies);
    plot.ctx.globalAlpha = 0.5;
    fillBoxes(plot, fill, volumes, "volume");
    plot.ctx.globalAlpha = 1;
  }
}

function candlesCaption({ label }, served, drawn, joined, interval) {
  const all = `${label}: ${counted(served, "candle")}`;
  if (joined === 1) return `${all} of ${durationText(interval)}.`;
  return `${all}, drawn as ${grouped(drawn)} of ${durationText(interval * joined)}, ${joined} intervals each. ${AS_SERVED}`;
}

function candleText({ start, open, high, low, close, volume }, step) {
  const values = { open, high, low, close, volume: short(volume) };
  const texts = Object.entries(values).map((pair) => pair.join(" "));
  return [`${minuteText(start)}, ${durationText(step)}`, ...texts].join(" · ");
}

// --- lines over intervals, broken where some are missing; dots of events ---

const MOST_LINES = 8;

function drawLines({ answer, series, field }) {
  const { query } = answer;
  const drawn = series.slice(0, MOST_LINES);
  const rows = lineRows(answer, drawn, field);
  if (!rows.length) return null;
  const unit = unitOf(field.unit, sharedBy(series));
  const time = overTime(query);
  return {
    ...time,
    least: query.interval ? time.least : Math.min(query.period, 1),
    joined: () => 1,
    rows: () => rows,
    titles: [withUnit(field.doc, unit)],
    series: drawn.map((_, place) => lineOrDots(place, query.interval)),
    scales: { y: { range: (_, low, high) => padded(low, high) } },
    axes: [timeAxis(), valueAxis("y", isPrice(field) ? priceText : amountText)],
    caption: () => linesCaption(series, drawn.length),
    legend: drawn.map(({ label }, place) => [`tone-${place}`, label]),
    tell: (row) => lineText(row, drawn),
  };
}

const isPrice = ({ unit }) => unit.includes(" per "); // or a rate: what is never shortened to thousands

function lineOrDots(place, isLine) {
  const name = valueName(place);
  const tone = colour(`tone-${place}`);
  return isLine
    ? { name, stroke: tone, width: 1.6, points: { show: true, size: 5, fill: tone, filter: lone } }
    : { name, fill: tone, paths: dots, points: { show: false } };
}

const valueName = (place) => `value ${place}`;

// The values of all series by time, and a row without any where intervals are missing, so that no line crosses them.
function lineRows({ query }, drawn, field) {
  const step = stepOf(query);
  const middle = query.interval ? step / 2 : 0;
  const rows = new Map();
  drawn.forEach(({ points }, place) => {
    const name = valueName(place);
    for (const { timestamp, [field.name]: value } of points) {
      if (!isNumber(value)) continue;
      const time = secondsOf(timestamp);
      const key = query.interval ? Math.round((time - query.from) / step) : rows.size; // events stay apart
      const row = rows.get(key);
      if (row) row[name] = value;
      else rows.set(key, { at: time + middle, start: timestamp, [name]: value });
    }
  });
  const ordered = [...rows.values()].sort((a, b) => a.at - b.at);
  const withGaps = [];
  for (const row of ordered) {
    const last = withGaps.at(-1);
    if (query.interval && last && row.at - last.at > step * 1.5) withGaps.push({ at: last.at + step });
    withGaps.push(row);
  }
  return withGaps;
}

// Values that no line reaches.
function lone({ data, series }, place) {
  const values = data[place];
  const [first, last] = series[place].idxs;
  const places = [];
  for (let at = first; at <= last; at += 1) {
    if (values[at] !== null && values[at - 1] == null && values[at + 1] == null) places.push(at);
  }
  return places;
}

// What would lie on top of each other is drawn once.
function dots({ data, valToPos }, place, first, last) {
  const [times, values] = [data[0], data[place]];
  const radius = (last - first > 500 ? 1.5 : 2.6) * uPlot.pxRatio;
  const drawn = new Set();
  const fill = new Path2D();
  for (let at = first; at <= last; at += 1) {
    if (values[at] === null) continue;
    const x = Math.round(valToPos(times[at], "x", true));
    const y = Math.round(valToPos(values[at], "y", true));
    const pixel = x * 65536 + y;
    if (drawn.has(pixel)) continue;
    drawn.add(pixel);
    fill.moveTo(x + radius, y);
    fill.arc(x, y, radius, 0, 2 * Math.PI);
  }
  return { fill };
}

function linesCaption(series, drawn) {
  const points = series.reduce((sum, market) => sum + market.points.length, 0);
  const many = `${counted(points, "point")} in ${counted(series.length, "series", "series")}`;
  return drawn < series.length ? `${many}; the first ${drawn} are drawn.` : `${many}.`;
}

function lineText(row, drawn) {
  if (!row.start) return `${timeText(row.at)} · no data`;
  const values = drawn.map(({ label }, place) => [label, row[valueName(place)]]);
  const texts = values.filter(([, value]) => value !== undefined).map((pair) => pair.join(" "));
  return [timestampText(row.start), ...texts].join(" · ");
}

// --- bars: liquidated longs upwards, in the colour of sells, because they were sold; liquidated shorts downwards ---

const UPWARDS = "BUY";

function drawBars({ answer, series, field }) {
  const { query } = answer;
  const unit = unitOf(field.unit, sharedBy(series));
  if (!series.some(({ points }) => points.some((point) => isNumber(point[field.name])))) return null;
  return {
    ...overTime(query),
    rows: (joined) => barRows(query, series, field, joined),
    titles: [withUnit(field.doc, unit)],
    series: [unseen("buy"), unseen("sell")],
    scales: { y: { range: (_, low, high) => padded(Math.min(0, low), Math.max(0, high)) } },
    axes: [timeAxis(), valueAxis("y", (value, step) => amountText(Math.abs(value), step))],
    paint: paintBars,
    caption: (joined, count) => barsCaption(series, count, joined, stepOf(query)),
    legend: series.map(({ id }) =>
      id.side === UPWARDS ? ["sell", "longs liquidated, upwards"] : ["buy", "shorts liquidated, downwards"],
    ),
    tell: ({ start, buy, sell }) => {
      const volumes = { longs: buy, shorts: sell && -sell };
      const texts = Object.entries(volumes).filter(([, value]) => value !== undefined);
      return [minuteText(start), ...texts.map(([side, value]) => `${side} ${value} ${unit}`)].join(" · ");
    },
  };
}

function barRows(query, series, field, joined) {
  const length = stepOf(query) * joined;
  const rows = new Map();
  for (const { id, points } of series) {
    const [name, sign] = id.side === UPWARDS ? ["buy", 1] : ["sell", -1];
    for (const { timestamp, [field.name]: value } of points) {
      if (!isNumber(value)) continue;
      const start = startOf(query, secondsOf(timestamp), length);
      const row = rows.get(start) ?? { at: start + length / 2, start };
      row[name] = (row[name] ?? 0) + sign * value;
      rows.set(start, row);
    }
  }
  return [...rows.values()].sort((a, b) => a.at - b.at);
}

function paintBars(plot, rows, step) {
  const half = (step * BODY) / 2;
  for (const side of ["buy", "sell"]) {
    const there = rows.filter((row) => row[side]);
    fillBoxes(
      plot,
      colour(side === "buy" ? "sell" : "buy"), // a long was sold, a short was bought back
      there.map((row) => [row.at - half, row.at + half, 0, row[side]]),
    );
  }
  fillBoxes(plot, colour("quiet"), [[plot.scales.x.min, plot.scales.x.max, 0, 0]]);
}

function barsCaption(series, drawn, joined, interval) {
  const label = labelOf({ ...series[0].id, side: undefined });
  const all = `${label}: ${counted(drawn, "bar")} of ${durationText(interval * joined)}`;
  return joined === 1 ? `${all}.` : `${all}, ${joined} intervals summed in each. ${AS_SERVED}`;
}
