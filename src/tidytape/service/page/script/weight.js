// --- what a query weighs: `tidytape.budget.weight` in exact integers, over the catalogue's facts ---

const quotientUp = (dividend, divisor) => (dividend + divisor - 1n) / divisor;

function pointsOf(query) {
  return quotientUp(BigInt(query.period), BigInt(stepOf(query)));
}

function isAggregation(query) {
  return "transform.groupBy.type" in query && (query.exchange ?? []).length > 1;
}

function depthsBeyond(query, kind) {
  if (!query.maxDepth || kind.includedDepth === null) return 0n;
  return (BigInt(query.maxDepth) - 1n) / BigInt(kind.includedDepth);
}

function weight(query) {
  const kind = KINDS.get(query.type);
  const whole = BigInt(FACTS.surchargeParts);
  const thousands = quotientUp(BigInt(query.period), BigInt(stepOf(query) * FACTS.pointsPerWeight));
  const exchanges = isAggregation(query) ? BigInt(query.exchange.length) : 0n;
  const base = thousands * BigInt(kind.multiplier);
  return quotientUp(base * (whole + exchanges) * (whole + depthsBeyond(query, kind)), whole * whole);
}

// [s] Where the interval or session begins that a second lies in; itself where points lie anywhere.
function startOfPoint(query, second) {
  const { label: session } = FACTS.choices.tpoSession.find(({ value }) => value === query.tpoSession) ?? {};
  if (session === "monthly") return Date.parse(`${iso(second).slice(0, 7)}-01T00:00Z`) / 1000;
  const name = { daily: "DAY", weekly: "WEEK" }[session] ?? query.interval;
  if (!name) return second;
  const { seconds, offset } = INTERVALS.get(name);
  return Math.floor((second - offset) / seconds) * seconds + offset;
}

// The intervals of a stream that are over, as queries; `last` [s] is the newest event that the lake holds of it.
function historyOf(query, last) {
  if (query.from === undefined || last === null) return [];
  const end = Math.min(Math.floor(last), query.from + (query.period ?? Infinity));
  const [from, to] = [query.from, end].map((second) => startOfPoint(query, second));
  const most = KINDS.get(query.type).maxPoints;
  const length = Math.floor(most / FACTS.pointsPerWeight) * FACTS.pointsPerWeight * stepOf(query);
  const parts = [];
  for (let start = from; start < to; start += length) {
    parts.push({ ...query, from: start, period: Math.min(length, to - start) });
  }
  return parts;
}

const historyWeight = (query, last) =>
  historyOf(query, last).reduce((sum, part) => sum + weight(part), 0n);

function historyText(query, last) {
  const parts = historyOf(query, last);
  if (!parts.length) return "what is live weighs nothing";
  const { from, period } = parts.at(-1);
  const all = { ...query, from: parts[0].from, period: from + period - parts[0].from };
  return `history up to ${minuteText(from + period)}: ${weightText(all)} · what is live weighs nothing`;
}

function weightText(query) {
  const kind = KINDS.get(query.type);
  const parts = [
    `at most ${counted(pointsOf(query), "point")} a series`,
    `${kind.multiplier} for each ${grouped(FACTS.pointsPerWeight)} begun`,
  ];
  if (isAggregation(query)) parts.push(`${query.exchange.length} exchanges joined`);
  const depths = depthsBeyond(query, kind);
  if (depths > 0n) parts.push(counted(depths, "depth") + " beyond the included one");
  return parts.join(" · ");
}
