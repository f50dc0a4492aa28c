// --- profiles: how much at which price, of one point ---

const PIXELS_PER_LEVEL = 3;

// The height of a level: the least distance of two prices, as the decimal it is.
function heightOf(prices) {
  const ordered = [...new Set(prices)].toSorted((a, b) => a - b);
  const gaps = ordered
    .slice(1)
    .map((price, place) => price - ordered[place])
    .filter((gap) => gap > 1e-10 * Math.abs(ordered[0] || 1));
  return gaps.length ? Number(extentOf(gaps)[0].toPrecision(6)) : Math.abs(ordered[0]) / 1000 || 1;
}

// Levels in rows of one height, so many levels in each that a row can be seen.
function rowsOfLevels(levels, pixels) {
  const height = heightOf(levels.map(({ price }) => price));
  const [low, high] = extentOf(levels.map(({ price }) => Math.round(price / height)));
  const least = ((high - low + 1) * PIXELS_PER_LEVEL) / pixels;
  const joined = least <= 1 ? 1 : Math.ceil(stepFor(least, 1));
  const rows = Map.groupBy(levels, ({ price }) => Math.floor(Math.round(price / height) / joined));
  const found = [...rows].map(([row, members]) => ({ price: row * joined * height, members }));
  return {
    rows: found.toSorted((a, b) => a.price - b.price),
    height: height * joined,
    level: height,
    joined,
  };
}

function priceScale(rows, height, box) {
  const [low, high] = extentOf(rows.map(({ price }) => price));
  const domain = [low, high + height];
  return { y: linear(domain, [box.bottom, box.top]), domain };
}

const sumOf = (members, name) => members.reduce((sum, one) => sum + (one[name] ?? 0), 0);

function drawProfile({ answer, series: [one], point: place, width, height: pixels }) {
  const box = boxOf(width, pixels);
  const point = inOrder(answer, one.points)[place];
  const levels = point ? [...levelsOf(point, answer.kind.levels[0])] : [];
  if (!levels.length) return null;
  const { rows, height, level, joined } = rowsOfLevels(levels, box.bottom - box.top);
  const sums = rows.map(({ price, members }) => ({
    price,
    buy: sumOf(members, "buyVolume"),
    sell: sumOf(members, "sellVolume"),
  }));
  const { y, domain } = priceScale(sums, height, box);
  const most = [0, extentOf(sums.map(({ buy, sell }) => buy + sell))[1] * 1.02 || 1];
  const x = linear(most, [box.left, box.right]);
  const largest = levels.toSorted((a, b) => b.buyVolume + b.sellVolume - (a.buyVolume + a.sellVolume))[0];
  return {
    parts: [
      titleOf(box, withUnit("Price", unitOf(fieldOf(answer.kind, "price").unit, one.id))),
      valueAxis(y, domain, box, priceText),
      amountAxis(
        x,
        most,
        box,
        withUnit("Volume", unitOf(fieldOf(answer.kind, "buyVolume").unit, one.id)),
      ),
      ...sums.flatMap((row) => profileShapes(row, height, x, y)),
      ...priceMark("largest", largest.price + level / 2, y, box),
    ],
    caption: `${one.label}: ${counted(levels.length, "level")} of ${level}${joinedText(joined)}`,
    legend: [
      ["buy", "aggressive buys"],
      ["sell", "aggressive sells"],
    ],
    along: "y",
    stops: sums.map(({ price }) => y(price + height / 2)),
    tell: (stop) =>
      `${rowText(sums[stop].price, height)} · buy ${short(sums[stop].buy)} · sell ${short(sums[stop].sell)}`,
  };
}

const joinedText = (joined) => (joined > 1 ? `, ${joined} in each bar. ${AS_SERVED}` : ".");

const rowText = (price, height) => `from ${priceText(price, height)} to ${priceText(price + height, height)}`;

function profileShapes({ price, buy, sell }, height, x, y) {
  const whole = y(price) - y(price + height);
  const thick = whole > 5 ? whole - 1 : whole;
  const bar = (name, from, to) =>
    svg("rect", {
      class: `level ${name}`,
      x: x(from),
      y: y(price + height),
      width: Math.max(0, x(to) - x(from)),
      height: thick,
    });
  return [bar("buy", 0, buy), bar("sell", buy, buy + sell)];
}

function priceMark(name, price, y, box) {
  if (!isNumber(price)) return [];
  return [
    svg("path", { class: "mark", d: `M${box.left} ${y(price)}H${box.right}` }),
    svg("text", { class: "mark-name", x: box.right, y: y(price) - 4, "text-anchor": "end" }, name),
  ];
}

// --- market profile: a cell per time block that touched a level ---

const MOST_CELLS = 8000;
const WIDEST_CELL = 26;
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

function drawTpo({ answer, series: [one], point: place, width, height: pixels }) {
  const box = boxOf(width, pixels);
  const point = inOrder(answer, one.points)[place];
  if (!point?.levels?.length) return null;
  const { rows, height, level, joined } = rowsOfLevels(point.levels, box.bottom - box.top);
  const counts = rows.map(({ price, members }) => ({
    price,
    blocks: [...new Set(members.flatMap((member) => member.block_ids))].toSorted((a, b) => a - b),
  }));
  const { y, domain } = priceScale(counts, height, box);
  const longest = extentOf(counts.map(({ blocks }) => blocks.length))[1];
  const most = [0, Math.max(longest * 1.02, (box.right - box.left) / WIDEST_CELL)];
  const x = linear(most, [box.left, box.right]);
  return {
    parts: [
      titleOf(box, withUnit("Price", unitOf(fieldOf(answer.kind, "price").unit, one.id))),
      valueAxis(y, domain, box, priceText),
      amountAxis(x, most, box, "Time blocks that touched the price [TPO]"),
      ...initialBalance(point, level, y, box),
      ...tpoShapes(counts, height, x, y),
      ...priceMark("POC", point.poc_price + level / 2, y, box),
      ...priceMark("VAH", point.vah_price + level / 2, y, box),
      ...priceMark("VAL", point.val_price + level / 2, y, box),
    ],
    caption: [
      `${one.label}: ${counted(point.total_tpo_count ?? 0, "TPO")} of ${point.block_size_minutes} minutes`,
      `on ${counted(point.levels.length, "level")} of ${level}${joinedText(joined)}`,
    ].join(" "),
    legend: [
      ["first-block", "first block"],
      ["last-block", "last block"],
      ["balance", "initial balance"],
    ],
    along: "y",
    stops: counts.map(({ price }) => y(price + height / 2)),
    tell: (stop) => {
      const { price, blocks } = counts[stop];
      return `${rowText(price, height)} · ${counted(blocks.length, "block")}: ${blocks.join(", ")}`;
    },
  };
}

function tpoShapes(counts, height, x, y) {
  const total = counts.reduce((sum, { blocks }) => sum + blocks.length, 0);
  const last = Math.max(1, ...counts.map(({ blocks }) => blocks.at(-1)));
  const [breadth, thick] = [x(1) - x(0), y(0) - y(height)];
  const gap = Math.min(1, breadth * 0.15, thick * 0.15);
  const hasLetters = breadth >= 9 && thick >= 9;
  const cell = (price, block, place) => {
    const at = { x: x(place), y: y(price + height), width: breadth - gap, height: thick - gap };
    const shape = svg("rect", { class: "tpo", ...at });
    shape.style.fill = `color-mix(in oklab, var(--last-block) ${(100 * block) / last}%, var(--first-block))`;
    if (!hasLetters) return [shape];
    const letter = LETTERS[block % LETTERS.length];
    return [
      shape,
      svg(
        "text",
        { class: "letter", x: at.x + breadth / 2, y: at.y + thick / 2 + 3.5, "text-anchor": "middle" },
        letter,
      ),
    ];
  };
  if (total <= MOST_CELLS)
    return counts.flatMap(({ price, blocks }) => blocks.flatMap((block, place) => cell(price, block, place)));
  return counts.map(({ price, blocks }) =>
    svg("rect", {
      class: "tpo plain",
      x: x(0),
      y: y(price + height),
      width: x(blocks.length) - x(0),
      height: thick - gap,
    }),
  );
}

function initialBalance({ ibr_low: low, ibr_high: high }, level, y, box) {
  if (!isNumber(low) || !isNumber(high)) return [];
  const top = y(high + level);
  return [
    svg("rect", { class: "balance", x: box.left - 4, y: top, width: 3, height: Math.max(1, y(low) - top) }),
  ];
}
