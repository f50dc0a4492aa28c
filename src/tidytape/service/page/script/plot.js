// --- a plot: uPlot draws axes, lines and the cursor; boxes, zoom and the reading of values are ours ---

// A drawing is what a plot shows:
//   extent [from, to] of x: seconds, or prices where `isUpright`
//   step, least: what a row takes up of x; how little of x a zoom may show
//   joined(span, pixels): how many steps stand in one row where so much of x is shown
//   rows(joined): [{ at, ... }] in the order of `at`, the middle of the row
//   series: [{ name, ... }] of uPlot, each with the name of its value in a row; scales, axes: uPlot's
//   paint(plot, rows, step): what is drawn beside the series
//   viewed(plot, changed): called after a zoom; it calls `changed` when the caption has become another one
//   removed(): called when another drawing takes its place
//   titles, legend [[tone, text]], caption(joined, count), tell(row, step, plot): texts

const FONT = "12px system-ui, sans-serif";

// A colour of the style sheet.
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const clamped = (value, low, high) => Math.min(high, Math.max(low, value));

// --- axes and scales ---

function axis(own) {
  const line = { stroke: colour("grid"), width: 1 };
  return {
    stroke: colour("quiet"),
    font: FONT,
    labelFont: FONT,
    labelSize: 20,
    grid: line,
    ticks: { ...line, size: 4 },
    ...own,
  };
}

function timeAxis() {
  return axis({
    size: 26,
    space: 84,
    label: ({ scales: { x } }) => `Time [UTC], ${daysText(x.min, x.max)}`,
    values: (_, times, place, space, step) => times.map((at) => timeTickText(at, step)),
  });
}

function daysText(from, to) {
  const [first, last] = [dateText(from), dateText(to - 1e-3)];
  return first === last ? first : `${first} to ${last}`;
}

function timeTickText(at, step) {
  if (step >= DAY || at % DAY === 0) return dateText(at);
  return iso(at).slice(11, step < 1 ? 23 : step < 60 ? 19 : 16);
}

function valueAxis(scale, text, own = {}) {
  return axis({
    scale,
    size: (_, texts) => 14 + 7 * Math.max(4, ...(texts ?? []).map((label) => label?.length ?? 0)),
    values: (_, values, place, space, step) =>
      values.map((value) => (value === null ? "" : text(value, step))),
    ...own,
  });
}

// Room below and above, and some height for what never changes.
function padded(low, high, [below, above] = [0.05, 0.05]) {
  if (low === null) return [0, 1];
  const height = high - low || Math.abs(high) * 0.02 || 1;
  return [low - height * below, high + height * above];
}

// --- shapes, in the values of a plot ---

// Values that only give a scale its range; `paint` draws them.
const unseen = (name, scale = "y") => ({ name, scale, paths: () => null, points: { show: false } });

// Boxes of one colour, each from where to where along x and from which value to which, and seen however thin.
function fillBoxes({ ctx, scales, valToPos }, fill, boxes, scale = "y") {
  const least = uPlot.pxRatio;
  ctx.fillStyle = fill;
  ctx.beginPath();
  for (const [from, to, low, high] of boxes) {
    const [x, width] = edges(valToPos(from, "x", true), valToPos(to, "x", true), least);
    const [y, height] = edges(valToPos(low, scale, true), valToPos(high, scale, true), least);
    if (scales.x.ori === 0) ctx.rect(x, y, width, height);
    else ctx.rect(y, x, height, width);
  }
  ctx.fill();
}

// Where a side of a box begins, and its length, in whole pixels.
function edges(from, to, least) {
  const length = Math.max(least, Math.abs(Math.round(to) - Math.round(from)));
  return [Math.round((from + to - length) / 2), length];
}

// --- the plot ---

const KEY_STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 };
const KEY_ZOOMS = { "+": 0.5, "-": 2 };

// Draw into an element. `read` gets the text of the values under the cursor; `viewed` gets, after each zoom, the caption
// and whether the whole extent is shown.
function plotOf(host, first, size, { read, viewed }) {
  const { isUpright = false } = first;
  let drawing = first;
  let rows = [];
  let joined = 0;
  let place = -1; // of the row that is read
  let isWhole = true;

  const pixels = ({ width, height }) => (isUpright ? height : width) - 60;

  function dataFor(span, room) {
    joined = drawing.joined(span, room);
    rows = drawing.rows(joined);
    const values = drawing.series.map(({ name }) => rows.map((row) => row[name] ?? null));
    return [rows.map(({ at }) => at), ...values];
  }

  function paint(plot) {
    const { ctx, bbox } = plot;
    const [first, last] = plot.series[0].idxs;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    drawing.paint?.(plot, rows.slice(Math.max(0, first - 1), last + 2), drawing.step * joined);
    ctx.restore();
  }

  function reading(drawn) {
    if (drawn.cursor.idx == null) return;
    place = drawn.cursor.idx;
    read(drawing.tell(rows[place], drawing.step * joined, drawn));
  }

  function selected({ select: { left, top, width, height } }) {
    const ends = isUpright ? [top + height, top] : [left, left + width];
    show(...ends.map((end) => plot.posToVal(end, "x")));
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  }

  // Of the drawing that is shown then.
  function range(name, ...known) {
    const { range: own } = drawing.scales[name];
    return Array.isArray(own) ? own : own(...known);
  }

  const scaleOf = ([name, own]) => [
    name,
    { ...own, range: (plot, low, high) => range(name, plot, low, high) },
  ];

  const plot = new uPlot(
    {
      ...size,
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
      legend: { show: false },
      padding: [10, (_, side, hasAxis) => (hasAxis[1] ? 0 : 34), 0, 0], // the last label of x stands out
      cursor: {
        y: isUpright || Boolean(drawing.hasCrosshair),
        x: !isUpright,
        drag: { x: true, y: false, setScale: false, dist: 5 },
        bind: { dblclick: () => () => show(...drawing.extent) },
      },
      axes: drawing.axes,
      scales: {
        x: {
          time: !isUpright,
          ori: Number(isUpright),
          min: drawing.extent[0],
          max: drawing.extent[1],
          range: (_, from, to) => [from, to],
        },
        ...Object.fromEntries(Object.entries(drawing.scales).map(scaleOf)),
      },
      series: [{}, ...drawing.series],
      hooks: { draw: [paint], setCursor: [reading], setSelect: [selected] },
    },
    dataFor(drawing.extent[1] - drawing.extent[0], pixels(size)),
    host,
  );

  // Show a part of x: no less than the least, nothing outside of the whole.
  function show(from, to) {
    const [first, last] = drawing.extent;
    const span = clamped(to - from, Math.min(drawing.least, last - first), last - first);
    const start = clamped((from + to - span) / 2, first, last - span);
    plot.batch(() => {
      if (drawing.joined(span, pixels(plot)) !== joined) plot.setData(dataFor(span, pixels(plot)), false);
      plot.setScale("x", { min: start, max: start + span });
    });
    isWhole = span === last - first;
    // What is left to the browser: to scroll the page, along which one finger moves nothing of ours.
    const scrolls = isWhole ? "pan-x pan-y" : "pan-x";
    plot.over.style.touchAction = isUpright ? scrolls : "pan-y";
    const tell = () => viewed(drawing.caption(joined, rows.length), isWhole);
    drawing.viewed?.(plot, tell);
    tell();
  }

  const shown = () => [plot.scales.x.min, plot.scales.x.max];

  function zoom(factor, share = 0.5) {
    const [from, to] = shown();
    const fixed = from + share * (to - from);
    show(fixed - (fixed - from) * factor, fixed + (to - fixed) * factor);
  }

  // Where along x a pointer is, of the part that is shown.
  function shareOf({ clientX, clientY }) {
    const { left, bottom, width, height } = plot.over.getBoundingClientRect();
    return isUpright ? (bottom - clientY) / height : (clientX - left) / width;
  }

  function wheeled(event) {
    const [from, to] = shown();
    if (event.deltaY > 0 && isWhole) return; // the page scrolls on
    event.preventDefault();
    zoom(Math.exp(clamped(event.deltaY / 400, -1, 1)), shareOf(event));
  }

  function pressed(event) {
    const [direction, factor] = [KEY_STEPS[event.key], KEY_ZOOMS[event.key]];
    if (factor) zoom(factor);
    if (event.key === "0") show(...drawing.extent);
    if (direction && rows.length) readRow(clamped(place + direction, 0, rows.length - 1));
    if (direction) event.preventDefault();
  }

  function readRow(next) {
    const [from, to] = shown();
    const { at } = rows[next];
    if (at < from || at > to) show(at - (to - from) / 2, at + (to - from) / 2);
    const along = plot.valToPos(at, "x");
    const { width, height } = plot.rect;
    plot.setCursor(isUpright ? { left: width / 2, top: along } : { left: along, top: height / 2 });
    place = next;
  }

  followFingers(plot.over, shareOf, shown, show);
  plot.over.addEventListener("wheel", wheeled, { passive: false });
  plot.root.addEventListener("keydown", pressed);
  filled(plot.root, { tabindex: 0, role: "img" }, []);
  show(...drawing.extent);
  return {
    plot,
    rows: () => rows,
    reset: () => show(...drawing.extent),
    // Whether another drawing can take the place of this one as it stands.
    canShow: ({ series, isUpright: other = false }) =>
      series.length === drawing.series.length && other === isUpright,
    // Show another drawing: the whole of it, or the part that was shown; at the end of time it moves on.
    grow(next) {
      const [from, to] = shown();
      const wasAtEnd = !isUpright && Math.abs(to - drawing.extent[1]) < drawing.step / 2;
      drawing.removed?.();
      drawing = next;
      joined = 0; // so that its rows are made
      const [first, last] = drawing.extent;
      place = Math.min(place, rows.length - 1);
      if (isWhole) show(first, last);
      else if (wasAtEnd) show(last - (to - from), last);
      else show(from, to);
    },
    fit(changed) {
      plot.setSize(changed);
      show(...shown());
    },
    destroy: () => plot.destroy(),
  };
}

// What a finger touched stays under it: one moves the part that is shown, two stretch it.
function followFingers(over, shareOf, shown, show) {
  const fingers = new Map(); // { share, value }, by pointer

  function anchor() {
    const [from, to] = shown();
    for (const finger of fingers.values()) finger.value = from + finger.share * (to - from);
  }

  function lifted({ pointerId }) {
    fingers.delete(pointerId);
    anchor();
  }

  function moved(event) {
    if (!fingers.has(event.pointerId)) return;
    fingers.get(event.pointerId).share = shareOf(event);
    const [first, second] = fingers.values();
    const [from, to] = shown();
    const apart = second ? second.share - first.share : 0;
    const span = Math.abs(apart) > 0.02 ? Math.abs((second.value - first.value) / apart) : to - from;
    show(first.value - first.share * span, first.value + (1 - first.share) * span);
  }

  over.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse") return; // a mouse selects
    fingers.set(event.pointerId, { share: shareOf(event) });
    anchor();
  });
  over.addEventListener("pointermove", moved);
  over.addEventListener("pointerup", lifted);
  over.addEventListener("pointercancel", lifted);
  // Two fingers are ours even where one scrolls the page.
  const keep = (event) => event.touches.length > 1 && event.preventDefault();
  over.addEventListener("touchstart", keep, { passive: false });
}
