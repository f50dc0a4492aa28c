// --- profiles: how much at which price, of one point ---

const PIXELS_PER_LEVEL = 3; // else several levels are joined in one bar

// The height of a level: the least distance of two prices, as the decimal it is.
function heightOf(prices) {
  const ordered = [...new Set(prices)].sort((a, b) => a - b);
  const gaps = ordered
    .slice(1)
    .map((price, place) => price - ordered[place])
    .filter((gap) => gap > 1e-10 * Math.abs(ordered[0] || 1));
  return gaps.length ? Number(extentOf(gaps)[0].toPrecision(6)) : Math.abs(ordered[0]) / 1000 || 1;
}

// So many levels are joined that a bar can be seen: 1, 2, 5, 10, 20 ...
function levelsJoined(levels, most) {
  const least = levels / most;
  if (least <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((digit) => digit * power).find((joined) => joined >= least);
}

// What profiles share: `levels` of one point in bars of one or more levels, prices upwards.
function uprightDrawing({ kind }, { id }, levels, rowOf) {
  const prices = levels.map(({ price }) => price);
  const height = heightOf(prices);
  const [low, high] = extentOf(prices);
  const unit = fieldUnit(kind, "price", id);
  return {
    isUpright: true,
    extent: [low, high + height],
    step: height,
    least: 4 * height,
    joined: (span, pixels) => levelsJoined(span / height, pixels / PIXELS_PER_LEVEL),
    rows(joined) {
      const bars = Map.groupBy(levels, ({ price }) => Math.floor(Math.round(price / height) / joined));
      const rows = [...bars].map(([bar, members]) => {
        const price = bar * joined * height;
        return { at: price + (joined * height) / 2, price, ...rowOf(members) };
      });
      return rows.sort((a, b) => a.at - b.at);
    },
    titles: [withUnit("Price", unit)],
    scales: { y: { ori: 0, range: (_, low, high) => [0, (high || 1) * 1.02] } },
  };
}

const uprightAxes = (label, text) => [
  valueAxis("x", priceText, { side: 3, space: 30 }),
  valueAxis("y", text, { side: 2, size: 26, space: 70, label }),
];

const joinedText = (joined) => (joined > 1 ? `, ${joined} in each bar. ${AS_SERVED}` : ".");

const rowText = (price, height) => `from ${priceText(price, height)} to ${priceText(price + height, height)}`;

// A price that has a name.
function markPrice({ ctx, bbox, valToPos }, price, name) {
  if (!isNumber(price)) return;
  const y = Math.round(valToPos(price, "x", true));
  const ratio = uPlot.pxRatio;
  const right = bbox.left + bbox.width;
  ctx.strokeStyle = ctx.fillStyle = colour("ink");
  ctx.lineWidth = ratio;
  ctx.setLineDash([5 * ratio, 3 * ratio]);
  ctx.beginPath();
  ctx.moveTo(bbox.left, y);
  ctx.lineTo(right, y);
  ctx.stroke();
  ctx.setLineDash([]);
  ctx.font = `600 ${12 * ratio}px system-ui, sans-serif`;
  ctx.textAlign = "right";
  ctx.textBaseline = "bottom";
  ctx.lineWidth = 3 * ratio;
  ctx.strokeStyle = colour("card"); // so that it is read on bars too
  ctx.strokeText(name, right - 4 * ratio, y - ratio);
  ctx.fillText(name, right - 4 * ratio, y - ratio);
}

// --- volume profile ---

const sumOf = (members, name) => members.reduce((sum, level) => sum + (level[name] ?? 0), 0);

// The service sends the volumes of levels if trades have no side; else they are the sums of the sides.
const volumeOf = ({ buyVolume, sellVolume, volume }) => volume ?? (buyVolume ?? 0) + (sellVolume ?? 0);

const lacksSide = ({ buyVolume, sellVolume }) => !isNumber(buyVolume) || !isNumber(sellVolume);

function drawProfile({ answer, series: [market], point: place }) {
  const point = inOrder(answer, market.points)[place];
  const volumes = point?.levelVolumes ?? [];
  const levels = point
    ? [...levelsOf(point, answer.kind.levels[0])].map((level, place) => ({ ...level, volume: volumes[place] }))
    : [];
  if (!levels.length) return null;
  const largest = levels.reduce((most, level) => (volumeOf(level) > volumeOf(most) ? level : most));
  const drawing = uprightDrawing(answer, market, levels, (members) => {
    const total = members.reduce((sum, level) => sum + volumeOf(level), 0);
    if (members.some(lacksSide)) return { buy: 0, sell: 0, total };
    return { buy: sumOf(members, "buyVolume"), sell: sumOf(members, "sellVolume"), total };
  });
  const unit = fieldUnit(answer.kind, "buyVolume", market.id);
  return {
    ...drawing,
    series: [unseen("total")],
    axes: uprightAxes(withUnit("Volume", unit), amountText),
    paint(plot, rows, step) {
      fillBoxes(
        plot,
        colour("quiet"),
        rows.map(({ price, total }) => [price, price + step, 0, total]),
      );
      fillBoxes(
        plot,
        colour("buy"),
        rows.map(({ price, buy }) => [price, price + step, 0, buy]),
      );
      fillBoxes(
        plot,
        colour("sell"),
        rows.map(({ price, buy, sell }) => [price, price + step, buy, buy + sell]),
      );
      markPrice(plot, largest.price + drawing.step / 2, "largest");
    },
    caption: (joined) =>
      `${market.label}: ${counted(levels.length, "level")} of ${drawing.step}${joinedText(joined)}`,
    legend: [
      ["buy", "aggressive buys"],
      ["sell", "aggressive sells"],
      ...(levels.some(lacksSide) ? [["quiet", "side not known"]] : []),
    ],
    tell({ price, buy, sell, total }, step) {
      const sides = buy + sell ? `buy ${short(buy)} · sell ${short(sell)}` : `${short(total)}, side not known,`;
      return `${rowText(price, step)} · ${sides} ${unit}`;
    },
  };
}

// --- market profile: a cell per time block that touched a level ---

const WIDEST_CELL = 26; // pixels
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

function drawTpo({ answer, series: [market], point: place }) {
  const point = inOrder(answer, market.points)[place];
  if (!point?.levels?.length) return null;
  const drawing = uprightDrawing(answer, market, point.levels, (members) => {
    const blocks = [...new Set(members.flatMap((member) => member.block_ids))].sort((a, b) => a - b);
    return { blocks, count: blocks.length };
  });
  const last = Math.max(1, ...point.levels.flatMap(({ block_ids: blocks }) => blocks));
  const middle = drawing.step / 2;
  return {
    ...drawing,
    series: [unseen("count")],
    scales: {
      y: { ori: 0, range: (plot, low, high) => [0, Math.max(high * 1.02, plot.width / WIDEST_CELL)] },
    },
    axes: uprightAxes("Time blocks that touched the price [TPO]", amountText),
    paint(plot, rows, step) {
      paintBlocks(plot, rows, step, last);
      const { ibr_low: low, ibr_high: high } = point;
      const breadth = plot.scales.y.max / 200;
      if (isNumber(low) && isNumber(high))
        fillBoxes(plot, colour("quiet"), [[low, high + drawing.step, 0, breadth]]);
      markPrice(plot, point.poc_price + middle, "POC");
      markPrice(plot, point.vah_price + middle, "VAH");
      markPrice(plot, point.val_price + middle, "VAL");
    },
    caption: (joined) =>
      [
        `${market.label}: ${counted(point.total_tpo_count ?? 0, "TPO")} of ${point.block_size_minutes} minutes`,
        `on ${counted(point.levels.length, "level")} of ${drawing.step}${joinedText(joined)}`,
      ].join(" "),
    legend: [
      ["first-block", "first block"],
      ["last-block", "last block"],
      ["balance", "initial balance"],
    ],
    tell: ({ price, blocks }, step) =>
      `${rowText(price, step)} · ${counted(blocks.length, "block")}: ${blocks.join(", ")}`,
  };
}

// A colour per block, from the first's to the last's, and its letter where there is room.
function paintBlocks(plot, rows, step, last) {
  const { ctx, valToPos } = plot;
  const breadth = valToPos(1, "y", true) - valToPos(0, "y", true);
  const height = valToPos(0, "x", true) - valToPos(step, "x", true);
  const hasLetters = Math.min(breadth, height) >= 9 * uPlot.pxRatio;
  const cells = rows.flatMap(({ price, blocks }) => blocks.map((block, place) => ({ price, block, place })));
  const [first, end] = [colour("first-block"), colour("last-block")];
  for (const [block, alike] of Map.groupBy(cells, (cell) => cell.block)) {
    const fill = `color-mix(in oklab, ${end} ${(100 * block) / last}%, ${first})`;
    fillBoxes(
      plot,
      fill,
      alike.map(({ price, place }) => [price + step * 0.08, price + step, place, place + 0.92]),
    );
  }
  if (!hasLetters) return;
  ctx.fillStyle = colour("card");
  ctx.font = `${9 * uPlot.pxRatio}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  for (const { price, block, place } of cells) {
    const letter = LETTERS[block % LETTERS.length];
    ctx.fillText(letter, valToPos(place + 0.46, "y", true), valToPos(price + step * 0.54, "x", true));
  }
}
