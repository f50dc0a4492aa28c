// --- heatmaps: how much at which price over time, one colour per side of a book ---

const USUAL = 0.99; // quantile that has the full colour; what is above it has it too

function drawHeatmap({ answer, series: [one], width, height: pixels }) {
  const box = boxOf(width, pixels);
  const span = windowOf(answer.query);
  const cells = cellsOf(answer, one, box);
  if (!cells) return null;
  const { step, height, low, rows, joined, skipped } = cells;
  const x = linear(span, [box.left, box.right]);
  const domain = [low, low + rows * height];
  const y = linear(domain, [box.bottom, box.top]);
  const amount = answer.kind.levels[0].fields.at(-1);
  const unit = unitOf(amount.unit, one.id, answer.query);
  const strong = quantileOf(cells.layers.flatMap(({ sums }) => [...sums.values()]), USUAL);
  return {
    canvas: { shape: painted(cells, strong), left: x(cells.start), right: x(cells.start + cells.columns * step), top: y(domain[1]), bottom: y(low) },
    parts: [
      titleOf(box, withUnit("Price", unitOf(fieldOf(answer.kind, "price").unit, one.id, answer.query))),
      valueAxis(y, domain, box, priceText),
      timeAxis(x, span, box),
      svg("path", { class: "middle", d: middleLine(answer, one, step, x, y) }),
    ],
    caption: `${one.label}: ${counted(one.points.length, "point")}, levels of ${cells.level}${joined > 1 ? `, ${joined} summed in each row` : ""}`
      + `${skipped > 1 ? `, every ${skipped}th point drawn` : ""}. The full colour is ${short(strong)} ${unit} and more, which 1% of the cells have.`,
    legend: cells.layers.map(({ tone, name }) => [tone, name]),
    along: "x",
    stops: Array.from({ length: cells.columns }, (_, column) => x(cells.start + (column + 0.5) * step)),
    tell: (column, { y: at }) => heatText(cells, column, Math.floor((y.inverse(at) - low) / height), unit),
  };
}

// Sums by row * columns + column, one map per array of levels; where there is none, nothing rested.
function cellsOf(answer, { points }, box) {
  const ordered = inOrder(answer, points);
  const interval = stepOf(answer.query);
  const skipped = Math.max(1, Math.ceil(answer.query.period / interval / (box.right - box.left)));
  const step = interval * skipped;
  const start = ordered.length ? secondsOf(ordered[0].timestamp) : 0;
  const drawn = ordered.filter((point) => Math.round((secondsOf(point.timestamp) - start) / interval) % skipped === 0);
  const layers = answer.kind.levels.map((levels) => ({
    name: levels.bookSide ?? levels.fields.at(-1).column,
    tone: levels.bookSide === "ASK" ? "sell" : "buy",
    levels: drawn.map((point) => [...levelsOf(point, levels)]),
    amount: levels.fields.at(-1).name,
  }));
  const prices = layers.flatMap(({ levels }) => levels.flatMap((column) => column.map(({ price }) => price)));
  if (!prices.length) return null;
  const level = heightOf(prices);
  const [lowest, highest] = extentOf(prices);
  const least = (Math.round((highest - lowest) / level) + 1) / ((box.bottom - box.top) / 2);
  const joined = least <= 1 ? 1 : Math.ceil(stepFor(least, 1));
  const height = level * joined;
  const rowOf = (price) => Math.floor(price / height + 1e-6);
  const columns = Math.round((secondsOf(drawn.at(-1).timestamp) - start) / step) + 1;
  const base = rowOf(lowest);
  for (const layer of layers) {
    layer.sums = new Map();
    layer.levels.forEach((column, place) => {
      const at = Math.round((secondsOf(drawn[place].timestamp) - start) / step);
      for (const { price, [layer.amount]: amount } of column) {
        const cell = (rowOf(price) - base) * columns + at;
        layer.sums.set(cell, (layer.sums.get(cell) ?? 0) + amount);
      }
    });
  }
  return { layers, columns, rows: rowOf(highest) - base + 1, low: base * height, height, level, start, step, joined, skipped };
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
function middleLine(answer, { points }, step, x, y) {
  const [bids, asks] = answer.kind.levels;
  if (!asks) return "";
  const middle = (point) => (point[bids.name]?.[0] + point[asks.name]?.[0]) / 2;
  const known = inOrder(answer, points).filter((point) => isNumber(middle(point)));
  const place = (point) => `${x(secondsOf(point.timestamp) + stepOf(answer.query) / 2)} ${y(middle(point))}`;
  return known.length > 1 ? `M${known.map(place).join("L")}` : "";
}

function heatText({ layers, columns, rows, start, step, low, height }, column, row, unit) {
  const time = minuteText(start + column * step);
  if (row < 0 || row >= rows) return time;
  const told = layers
    .filter(({ sums }) => sums.has(row * columns + column))
    .map(({ name, sums }) => `${name} ${short(sums.get(row * columns + column))} ${unit}`);
  return [time, rowText(low + row * height, height), ...told].join(" · ");
}
