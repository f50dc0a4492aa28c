// --- heatmaps: how much at which price over time, one colour per side of a book ---

const USUAL = 0.99; // quantile that has the full colour; what is above it has it too
const PIXELS_PER_CELL = 2; // of its height

function drawHeatmap({ answer, series: [market] }) {
  const { query, kind } = answer;
  const points = inOrder(answer, market.points);
  const layers = kind.levels.map((levels) => layerOf(points, levels));
  const prices = new Set();
  for (const layer of layers) layer.prices.forEach((price) => prices.add(price));
  if (!prices.size) return null;
  const level = heightOf(prices);
  const [lowest, highest] = extentOf(prices);
  const unit = unitOf(kind.levels[0].fields.at(-1).unit, market.id);
  const step = stepOf(query);
  const heat = { points, layers, level, lowest, highest, query, isStock: Boolean(kind.levels[0].bookSide) };
  const canvas = html("canvas", { class: "heat" });
  let cells = null; // that are painted, of the part that was shown then
  let repaint = 0;

  function paintCells(plot) {
    cells = cellsOf(heat, plot);
    paintHeat(canvas, cells);
    place(plot);
  }

  // Zooming stretches the canvas; once it rests, its cells are made anew.
  function place({ valToPos, bbox, under }) {
    if (!canvas.isConnected) under.append(canvas);
    const [left, right] = [cells.start, cells.start + cells.columns * cells.step].map((at) =>
      valToPos(at, "x"),
    );
    const [top, bottom] = [cells.low + cells.rows * cells.height, cells.low].map((price) =>
      valToPos(price, "y"),
    );
    Object.assign(canvas.style, {
      left: `${left}px`,
      top: `${top}px`,
      width: `${right - left}px`,
      height: `${bottom - top}px`,
    });
  }

  return {
    ...overTime(query),
    joined: () => 1,
    rows: () => points.map((point) => middleRow(kind, point, step)),
    hasCrosshair: true,
    titles: [withUnit("Price", fieldUnit(kind, "price", market.id))],
    series: [{ name: "middle", stroke: colour("ink"), width: 1.4, points: { show: false } }],
    scales: { y: { range: [lowest - level / 2, highest + level * 1.5] } },
    axes: [timeAxis(), valueAxis("y", priceText)],
    viewed(plot, changed) {
      clearTimeout(repaint);
      if (!cells) {
        paintCells(plot);
        return;
      }
      place(plot);
      repaint = setTimeout(() => {
        if (!plot.root.isConnected) return; // another answer took its place
        paintCells(plot);
        changed();
      }, 80);
    },
    removed() {
      clearTimeout(repaint);
      canvas.remove();
    },
    caption: () => heatmapCaption(market, cells, unit),
    legend: layers.map(({ tone, name }) => [tone, name]),
    tell: (row, _, plot) => heatmapText(cells, row.start, plot.posToVal(plot.cursor.top, "y"), unit),
  };
}

// Prices and amounts of all points in a row; `ends` says where those of each point end.
function layerOf(points, levels) {
  const names = levels.fields.map(({ name }) => name);
  const amount = names.at(-1);
  const [prices, amounts, ends] = [[], [], []];
  const note = (price, value) => {
    prices.push(price);
    amounts.push(value);
  };
  for (const { [levels.name]: values = [] } of points) {
    if (!levels.flat) values.forEach((level) => note(level.price, level[amount]));
    for (let at = 0; levels.flat && at < values.length; at += names.length)
      note(values[at + names.indexOf("price")], values[at + names.length - 1]);
    ends.push(prices.length);
  }
  const tone = levels.bookSide === "ASK" ? "sell" : "buy";
  return { name: levels.bookSide ?? levels.fields.at(-1).column, tone, prices, amounts, ends };
}

// Between the best bid and the best ask, which are the first of their arrays; nothing where there is only one array.
function middleRow({ levels: [bids, asks] }, point, step) {
  const start = secondsOf(point.timestamp);
  const middle = asks && (point[bids.name]?.[0] + point[asks.name]?.[0]) / 2;
  return { at: start + step / 2, start, middle: isNumber(middle) ? middle : null };
}

// --- cells: of the part that is shown, no more columns and rows than can be seen ---

function cellsOf(heat, { scales: { x }, width, height: pixels }) {
  const { points, layers, level, lowest, highest, query, isStock } = heat;
  const interval = stepOf(query);
  const joined = joinedOf((x.max - x.min) / interval, width);
  const step = interval * joined;
  const times = points.map(({ timestamp }) => secondsOf(timestamp));
  const shown = times.filter((time) => time + interval > x.min && time < x.max);
  const start = times[0] + Math.floor(((shown[0] ?? times[0]) - times[0]) / step) * step;
  const columns = Math.floor(((shown.at(-1) ?? times[0]) - start) / step) + 1;
  const summed = levelsJoined((highest - lowest) / level + 1, pixels / PIXELS_PER_CELL);
  const height = level * summed;
  const bottom = Math.floor(lowest / height + 1e-6);
  const rows = Math.floor(highest / height + 1e-6) - bottom + 1;
  const sums = layers.map(() => new Float64Array(rows * columns));
  times.forEach((time, place) => {
    const column = Math.floor((time - start) / step);
    if (column < 0 || column >= columns) return;
    // A column may have several intervals. A book is a stock, so the first one is drawn; a flow is summed.
    if (isStock && Math.round((time - start) / interval) % joined) return;
    layers.forEach(({ prices, amounts, ends }, layer) => {
      for (let at = ends[place - 1] ?? 0; at < ends[place]; at += 1) {
        const row = Math.floor(prices[at] / height + 1e-6) - bottom;
        sums[layer][row * columns + column] += amounts[at];
      }
    });
  });
  const strong = quantileOf(sums, USUAL);
  const grid = { start, step, joined, columns, low: bottom * height, height, level, summed, rows };
  return {
    ...grid,
    isStock,
    strong,
    layers: layers.map(({ name, tone }, layer) => ({ name, tone, sums: sums[layer] })),
  };
}

function quantileOf(layers, share) {
  const positive = layers.flatMap((sums) => Array.from(sums.filter((amount) => amount > 0)));
  const amounts = new Float64Array(positive).sort();
  return amounts[Math.min(amounts.length - 1, Math.floor(amounts.length * share))] ?? 1;
}

// A pixel per cell; the browser stretches it without smoothing, which would blur one interval into the next.
function paintHeat(canvas, { layers, columns, rows, strong }) {
  Object.assign(canvas, { width: columns, height: rows });
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  for (const { sums, tone } of layers) {
    const rgb = colour(`${tone}-heat`)
      .match(/\w\w/g)
      .map((byte) => parseInt(byte, 16));
    sums.forEach((amount, cell) => {
      if (!(amount > 0)) return;
      const [row, column] = [Math.floor(cell / columns), cell % columns];
      const opacity = 0.08 + 0.92 * Math.sqrt(Math.min(1, amount / strong));
      const at = ((rows - 1 - row) * columns + column) * 4;
      for (let part = 0; part < 3; part += 1) image.data[at + part] = rgb[part];
      image.data[at + 3] = Math.round(255 * opacity);
    });
  }
  context.putImageData(image, 0, 0);
}

function heatmapCaption({ label, points }, { level, summed, joined, isStock, strong }, unit) {
  const parts = [`${label}: ${counted(points.length, "point")}`, `levels of ${level}`];
  if (summed > 1) parts.push(`${summed} summed in each row`);
  if (joined > 1)
    parts.push(isStock ? `one point in ${joined} drawn` : `${joined} intervals summed in each column`);
  return `${parts.join(", ")}. The full colour is ${short(strong)} ${unit} and more, which 1% of the cells have.`;
}

function heatmapText({ layers, columns, rows, start, step, low, height }, time, price, unit) {
  const column = Math.floor((time - start) / step);
  const row = Math.floor((price - low) / height);
  const begin = minuteText(start + column * step);
  if (row < 0 || row >= rows || column < 0 || column >= columns) return minuteText(time);
  const amounts = layers
    .map(({ name, sums }) => [name, sums[row * columns + column]])
    .filter(([, amount]) => amount > 0)
    .map(([name, amount]) => `${name} ${short(amount)} ${unit}`);
  return [begin, rowText(low + row * height, height), ...amounts].join(" · ");
}
