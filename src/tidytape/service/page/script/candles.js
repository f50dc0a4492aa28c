// --- candles over their volume ---

const PIXELS_PER_CANDLE = 2.5; // else several intervals are joined in one
const VOLUME_SHARE = 0.22; // of the height
const BODY = 0.72; // of the interval; the rest keeps neighbours apart

function drawCandles({ answer, series: [one], width, height }) {
  const box = boxOf(width, height);
  const floor = box.bottom - (box.bottom - box.top) * VOLUME_SHARE;
  const [prices, volumes] = [
    { ...box, bottom: floor - 22 },
    { ...box, top: floor },
  ];
  const { candles, joined, step } = joinedCandles(
    answer,
    one.points,
    Math.floor((box.right - box.left) / PIXELS_PER_CANDLE),
  );
  if (!candles.length) return null;
  const span = windowOf(answer.query);
  const x = linear(span, [box.left, box.right]);
  const domain = padded(...extentOf(candles.flatMap(({ low, high }) => [low, high])));
  const y = linear(domain, [prices.bottom, prices.top]);
  const most = [0, extentOf(candles.map(({ volume }) => volume))[1] * 1.05 || 1];
  const v = linear(most, [volumes.bottom, volumes.top]);
  const unit = (name) => unitOf(fieldOf(answer.kind, name).unit, one.id);
  return {
    parts: [
      titleOf(prices, withUnit("Price", unit("close"))),
      valueAxis(y, domain, prices, priceText),
      titleOf(volumes, withUnit("Volume", unit("volume"))),
      valueAxis(v, most, volumes, amountText),
      timeAxis(x, span, box),
      ...candles.map((candle) => candleShape(candle, step, x, y)),
      ...candles.map((candle) => volumeShape(candle, step, x, v)),
    ],
    caption: candlesCaption(one, candles.length, joined, step),
    legend: [
      ["up", "closed higher"],
      ["down", "closed lower"],
    ],
    along: "x",
    stops: candles.map(({ start }) => x(start + step / 2)),
    tell: (stop) => candleText(candles[stop], step),
  };
}

function joinedCandles({ query }, points, most) {
  const interval = stepOf(query);
  const joined = Math.max(1, Math.ceil(query.period / interval / most));
  const step = interval * joined;
  const found = new Map();
  for (const point of points) {
    if (![point.open, point.high, point.low, point.close].every(isNumber)) continue; // a gap
    const start = query.from + Math.floor((secondsOf(point.timestamp) - query.from) / step) * step;
    join(found, joined === 1 ? secondsOf(point.timestamp) : start, point);
  }
  const candles = [...found.values()].toSorted((a, b) => a.start - b.start);
  return { candles, joined, step };
}

function join(found, start, { open, high, low, close, volume = 0, timestamp }) {
  const at = secondsOf(timestamp);
  const known = found.get(start);
  if (!known) {
    found.set(start, { start, open, high, low, close, volume, first: at, last: at });
    return;
  }
  known.high = Math.max(known.high, high);
  known.low = Math.min(known.low, low);
  known.volume += volume;
  if (at < known.first) Object.assign(known, { first: at, open });
  if (at > known.last) Object.assign(known, { last: at, close });
}

function directionOf({ open, close }) {
  if (close > open) return "up";
  return close < open ? "down" : "flat";
}

function candleShape(candle, step, x, y) {
  const { start, open, high, low, close } = candle;
  const middle = x(start + step / 2);
  const breadth = Math.max(1, (x(start + step) - x(start)) * BODY);
  const top = y(Math.max(open, close));
  return svg(
    "g",
    { class: `candle ${directionOf(candle)}` },
    svg("path", { d: `M${middle} ${y(high)}V${y(low)}` }),
    svg("rect", {
      x: middle - breadth / 2,
      y: top,
      width: breadth,
      height: Math.max(1, y(Math.min(open, close)) - top),
    }),
  );
}

function volumeShape({ start, volume, open, close }, step, x, v) {
  const breadth = Math.max(1, (x(start + step) - x(start)) * BODY);
  const top = v(volume);
  return svg("rect", {
    class: `volume ${directionOf({ open, close })}`,
    x: x(start + step / 2) - breadth / 2,
    y: top,
    width: breadth,
    height: Math.max(0, v(0) - top),
  });
}

function candlesCaption({ label, points }, drawn, joined, step) {
  const all = `${label}: ${counted(points.length, "candle")}`;
  if (joined === 1) return `${all} of ${durationText(step)}.`;
  return `${all}, drawn as ${grouped(drawn)} of ${durationText(step)}, ${joined} intervals each. ${AS_SERVED}`;
}

function candleText({ start, open, high, low, close, volume }, step) {
  const length = durationText(step);
  const told = { open, high, low, close, volume: short(volume) };
  return [`${minuteText(start)}, ${length}`, ...Object.entries(told).map((pair) => pair.join(" "))].join(
    " · ",
  );
}
