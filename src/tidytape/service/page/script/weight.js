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

function weightText(query) {
  const kind = KINDS.get(query.type);
  const parts = [
    `at most ${counted(pointsOf(query), "point")} a series`,
    `${kind.multiplier} for each ${grouped(FACTS.pointsPerWeight)} begun`,
  ];
  if (isAggregation(query)) parts.push(`${query.exchange.length} venues joined`);
  const depths = depthsBeyond(query, kind);
  if (depths > 0n) parts.push(counted(depths, "depth") + " beyond the included one");
  return parts.join(" · ");
}
