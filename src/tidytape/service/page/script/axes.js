// --- scales and axes; a box is { left, right, top, bottom } in pixels ---

const HALF_DIGIT = 3.5; // pixels
const MARGIN = { left: 58, right: 12, top: 24, bottom: 38 };

const boxOf = (width, height) => ({
  left: MARGIN.left,
  right: width - MARGIN.right,
  top: MARGIN.top,
  bottom: height - MARGIN.bottom,
});

function linear([from, to], [low, high]) {
  const slope = (high - low) / (to - from || 1);
  const scale = (value) => low + (value - from) * slope;
  scale.inverse = (pixel) => from + (pixel - low) / (slope || 1);
  return scale;
}

// Room above and below, and some height for what never changes.
function padded(low, high, share = 0.05) {
  const room = (high - low) * share || Math.abs(high) * 0.01 || 1;
  return [low - room, high + room];
}

function extentOf(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

function stepFor(span, most) {
  const power = 10 ** Math.floor(Math.log10(span / most));
  return [1, 2, 2.5, 5, 10].map((one) => one * power).find((step) => span / step <= most);
}

function ticksOf(low, high, most) {
  const step = stepFor(high - low, most);
  const count = Math.floor(high / step + 1e-9) - Math.ceil(low / step - 1e-9) + 1;
  return {
    step,
    values: Array.from({ length: count }, (_, place) => (Math.ceil(low / step - 1e-9) + place) * step),
  };
}

const TIME_STEPS = [
  1,
  2,
  5,
  10,
  15,
  30,
  60,
  120,
  300,
  600,
  900,
  1800,
  3600,
  7200,
  10800,
  21600,
  43200,
  DAY,
  2 * DAY,
  5 * DAY,
  10 * DAY,
];
const MONTH_STEPS = [1, 2, 3, 6, 12, 24, 60, 120, 240];
const MONTH = 30 * DAY; // about

function timeTicks(low, high, most) {
  const step = TIME_STEPS.find((one) => (high - low) / one <= most);
  if (!step) return monthTicks(low, high, most);
  const count = Math.floor(high / step) - Math.ceil(low / step) + 1;
  const times = Array.from({ length: count }, (_, place) => (Math.ceil(low / step) + place) * step);
  return times.map((at) => ({ at, text: timeTickText(at, step) }));
}

function monthTicks(low, high, most) {
  const months = MONTH_STEPS.find((one) => (high - low) / (one * MONTH) <= most);
  const found = [];
  for (let month = 12 * new Date(low * 1000).getUTCFullYear(); ; month += months) {
    const at = Date.UTC(Math.floor(month / 12), month % 12) / 1000;
    if (at > high) return found;
    if (at >= low) found.push({ at, text: dateText(at).slice(0, 7) });
  }
}

function timeTickText(at, step) {
  if (step >= DAY || at % DAY === 0) return dateText(at);
  return iso(at).slice(11, step < 60 ? 19 : 16);
}

// --- what of them is drawn ---

function titleOf(box, text) {
  return svg("text", { class: "title", x: 6, y: box.top - 10 }, text);
}

function gridLines(scale, values, box) {
  const d = values.map((value) => `M${box.left} ${crisp(scale(value))}H${box.right}`).join("");
  return svg("path", { class: "grid", d });
}

const crisp = (pixel) => Math.round(pixel) + 0.5;

function valueAxis(scale, domain, box, text = short) {
  const { step, values } = ticksOf(...domain, Math.max(2, Math.floor((box.bottom - box.top) / 42)));
  const label = (value) =>
    svg(
      "text",
      { class: "tick", x: box.left - 7, y: scale(value) + 4, "text-anchor": "end" },
      text(value, step),
    );
  return svg("g", { class: "axis" }, gridLines(scale, values, box), ...values.map(label));
}

const priceText = (value, step) => grouped(value, decimalsOf(step));

// A short text, or more digits of it where short texts of neighbours would be alike.
const amountText = (value, step) => {
  const [size, letter] = MAGNITUDES.find(([least]) => Math.abs(value) >= least) ?? [1, ""];
  return grouped(value / size, decimalsOf(step / size)) + letter;
};

function across(scale, ticks, box, name) {
  const marks = ticks.map(({ at }) => `M${crisp(scale(at))} ${box.bottom}v5`).join("");
  const label = ({ at, text }) => {
    const isLast = scale(at) + text.length * HALF_DIGIT > box.right + MARGIN.right;
    const x = isLast ? box.right + MARGIN.right : scale(at);
    return svg(
      "text",
      { class: "tick", x, y: box.bottom + 18, "text-anchor": isLast ? "end" : "middle" },
      text,
    );
  };
  return svg(
    "g",
    { class: "axis" },
    svg("path", { class: "line", d: `M${box.left} ${box.bottom + 0.5}H${box.right}${marks}` }),
    ...ticks.map(label),
    svg("text", { class: "title", x: box.right, y: box.bottom + 34, "text-anchor": "end" }, name),
  );
}

function timeAxis(scale, [low, high], box) {
  const ticks = timeTicks(low, high, Math.max(2, Math.floor((box.right - box.left) / 90)));
  const days =
    dateText(low) === dateText(high - 1) ? dateText(low) : `${dateText(low)} to ${dateText(high - 1)}`;
  return across(scale, ticks, box, `Time [UTC], ${days}`);
}

function amountAxis(scale, domain, box, name) {
  const { step, values } = ticksOf(...domain, Math.max(2, Math.floor((box.right - box.left) / 80)));
  return across(
    scale,
    values.map((at) => ({ at, text: amountText(at, step) })),
    box,
    name,
  );
}

const AS_SERVED = "The rows below are as served.";

// --- a drawing: parts of a picture, and what a pointer over it tells ---
// { parts, canvas?, caption, legend: [[class, text]], along: "x" | "y", stops: [pixel along it], tell(stop, pixels) }

function fieldOf(kind, name) {
  return [...kind.fields, ...kind.levels.flatMap((levels) => levels.fields)].find(
    (field) => field.name === name,
  );
}

const windowOf = ({ from, period }) => [from, from + period];
