// --- heatmaps: how much at which price over time, one colour per side of a book ---

const USUAL = 0.99; // quantile that has the full colour; what is above it has it too
const PIXELS_PER_ROW = 2;

function drawHeatmap({ answer, series: [one], width, height: pixels }) {
  const box = boxOf(width, pixels);
  const span = windowOf(answer.query);
  const cells = cellsOf(answer, one, box);
  if (!cells) return null;
  const x = linear(span, [box.left, box.right]);
  const domain = [cells.low, cells.low + cells.rows * cells.height];
  const y = linear(domain, [box.bottom, box.top]);
  const unit = unitOf(answer.kind.levels[0].fields.at(-1).unit, one.id);
  const strong = quantileOf(
    cells.layers.flatMap(({ sums }) => [...sums.values()]),
    USUAL,
  );
  const column = (place) => x(cells.start + place * cells.step);
  return {
    canvas: {
      shape: painted(cells, strong),
      left: column(0),
      right: column(cells.columns),
      top: box.top,
      bottom: box.bottom,
    },
    parts: [
      titleOf(box, withUnit("Price", unitOf(fieldOf(answer.kind, "price").unit, one.id))),
      valueAxis(y, domain, box, priceText),
      timeAxis(x, span, box),
      svg("path", { class: "middle", d: middleLine(answer, one, x, y) }),
    ],
    caption: heatmapCaption(one, cells, `${short(strong)} ${unit}`),
    legend: cells.layers.map(({ tone, name }) => [tone, name]),
    along: "x",
    stops: Array.from({ length: cells.columns }, (_, place) => column(place + 0.5)),
    tell: (stop, { y: at }) =>
      heatmapText(cells, stop, Math.floor((y.inverse(at) - cells.low) / cells.height), unit),
  };
}

// The grid, and on it a layer per array of levels: its sums by row * columns + column, none where nothing was.
function cellsOf(answer, { points }, box) {
  const ordered = inOrder(answer, points);
  const layers = layersOf(answer.kind, ordered);
  const prices = layers.flatMap(({ columns }) =>
    columns.flatMap((levels) => levels.map(({ price }) => price)),
  );
  if (!prices.length) return null;
  const grid = { ...timesOf(answer, ordered, box), ...pricesOf(prices, box) };
  return { ...grid, layers: layers.map((layer) => ({ ...layer, sums: sumsOf(layer, ordered, grid) })) };
}

function layersOf(kind, points) {
  return kind.levels.map((levels) => ({
    name: levels.bookSide ?? levels.fields.at(-1).column,
    tone: levels.bookSide === "ASK" ? "sell" : "buy",
    amount: levels.fields.at(-1).name,
    columns: points.map((point) => [...levelsOf(point, levels)]),
  }));
}

// Where intervals are more than pixels, a column has several: a book stands, so it is one of theirs; a flow adds up.
function timesOf({ kind, query }, points, box) {
  const interval = stepOf(query);
  const joined = Math.max(1, Math.ceil(query.period / interval / (box.right - box.left)));
  const step = interval * joined;
  const start = secondsOf(points[0].timestamp);
  const columns = Math.floor((secondsOf(points.at(-1).timestamp) - start) / step) + 1;
  return { start, step, columns, joined, isStock: kind.levels.some(({ bookSide }) => bookSide) };
}

function pricesOf(prices, box) {
  const level = heightOf(prices);
  const [lowest, highest] = extentOf(prices);
  const least = (((highest - lowest) / level + 1) * PIXELS_PER_ROW) / (box.bottom - box.top);
  const summed = least <= 1 ? 1 : Math.ceil(stepFor(least, 1));
  const height = level * summed;
  const rowOf = (price) => Math.floor(price / height + 1e-6) - Math.floor(lowest / height + 1e-6);
  return {
    level,
    summed,
    height,
    rowOf,
    rows: rowOf(highest) + 1,
    low: Math.floor(lowest / height + 1e-6) * height,
  };
}

function sumsOf({ amount, columns: levels }, points, { start, step, columns, joined, isStock, rowOf }) {
  const sums = new Map();
  points.forEach((point, place) => {
    const since = secondsOf(point.timestamp) - start;
    if (isStock && Math.round((since * joined) / step) % joined) return;
    for (const { price, [amount]: value } of levels[place]) {
      const cell = rowOf(price) * columns + Math.floor(since / step);
      sums.set(cell, (sums.get(cell) ?? 0) + value);
    }
  });
  return sums;
}

function quantileOf(values, share) {
  const ordered = Float64Array.from(values.filter((value) => value > 0)).sort();
  return ordered[Math.min(ordered.length - 1, Math.floor(ordered.length * share))] ?? 1;
}

// A pixel per cell; the browser stretches it without smoothing, which would blur one interval into the next.
function painted({ layers, columns, rows }, strong) {
  const canvas = html("canvas", { width: columns, height: rows });
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (const { sums, tone } of layers) {
    const colour = rgbOf(`--${tone}-heat`);
    for (const [cell, amount] of sums) {
      const [row, column] = [Math.floor(cell / columns), cell % columns];
      const opacity = amount > 0 ? 0.08 + 0.92 * Math.sqrt(Math.min(1, amount / strong)) : 0;
      image.data.set([...colour, Math.round(255 * opacity)], ((rows - 1 - row) * columns + column) * 4);
    }
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

// A colour of the style sheet, "#rrggbb", as three bytes.
function rgbOf(name) {
  const text = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
}

// Between the best bid and the best ask, which are the first of their arrays; nothing where there is only one array.
function middleLine(answer, { points }, x, y) {
  const [bids, asks] = answer.kind.levels;
  if (!asks) return "";
  const middle = (point) => (point[bids.name]?.[0] + point[asks.name]?.[0]) / 2;
  const known = inOrder(answer, points).filter((point) => isNumber(middle(point)));
  const place = (point) => `${x(secondsOf(point.timestamp) + stepOf(answer.query) / 2)} ${y(middle(point))}`;
  return known.length > 1 ? `M${known.map(place).join("L")}` : "";
}

function heatmapCaption({ label, points }, { level, summed, joined, isStock }, strong) {
  const parts = [`${label}: ${counted(points.length, "point")}`, `levels of ${level}`];
  if (summed > 1) parts.push(`${summed} summed in each row`);
  if (joined > 1)
    parts.push(isStock ? `one point in ${joined} drawn` : `${joined} intervals summed in each column`);
  return `${parts.join(", ")}. The full colour is ${strong} and more, which 1% of the cells have.`;
}

function heatmapText({ layers, columns, rows, start, step, low, height }, column, row, unit) {
  const time = minuteText(start + column * step);
  if (row < 0 || row >= rows) return time;
  const told = layers
    .filter(({ sums }) => sums.has(row * columns + column))
    .map(({ name, sums }) => `${name} ${short(sums.get(row * columns + column))} ${unit}`);
  return [time, rowText(low + row * height, height), ...told].join(" · ");
}
