// --- the caller's quota: from the headers of the last answer, and refilled since as the service refills it ---

const quota = (() => {
  let known = null; // { limit, remaining, used, at [ms of this page] }
  let ticking = 0;

  const tiers = () => FACTS.tiers.filter((tier) => known && tier.perMinute === known.limit);

  // [weight] the bucket can hold; the headers do not say it, the tiers do
  function capacity() {
    const fitting = tiers()
      .map((tier) => tier.burst)
      .filter((burst) => burst >= known.remaining);
    return fitting.length ? Math.min(...fitting) : Math.max(known.remaining, known.limit);
  }

  function remaining() {
    const refilled = ((performance.now() - known.at) / 1000) * (known.limit / FACTS.weightWindow);
    return Math.min(capacity(), Math.floor(known.remaining + refilled));
  }

  function show() {
    if (!known) return;
    const [left, most] = [remaining(), capacity()];
    const names = [...new Set(tiers().map((tier) => tier.name))].join(" or ");
    byId("quota-text").textContent = `${grouped(left)} of ${grouped(most)} weight left`;
    byId("quota-more").textContent = [
      names && `tier ${names}`,
      `refills ${grouped(known.limit)} a minute`,
      `${grouped(known.used)} used in the minute before the last answer`,
    ]
      .filter(Boolean)
      .join(" · ");
    const meter = byId("quota-meter");
    meter.setAttribute("aria-valuenow", left);
    meter.setAttribute("aria-valuemax", most);
    meter.dataset.level = left < most * 0.2 ? "low" : "good";
    meter.firstElementChild.style.inlineSize = `${(100 * left) / most}%`;
    clearTimeout(ticking);
    if (left < most) ticking = setTimeout(tick, 500);
  }

  function tick() {
    show();
    document.dispatchEvent(new Event("quota"));
  }

  return {
    note(headers) {
      if (!headers.has("X-RateLimit-Limit")) return;
      const [limit, left, used] = ["Limit", "Remaining", "Used"].map((name) =>
        Number(headers.get(`X-RateLimit-${name}`)),
      );
      known = { limit, remaining: left, used, at: performance.now() };
      tick();
    },
    isKnown: () => known !== null,
    remaining,
    capacity,
    // [s] until a weight can be admitted
    wait: (needed) => Math.ceil(((needed - remaining()) * FACTS.weightWindow) / known.limit),
    // Some tier that this key may be of includes it.
    permits: (kind) => {
      const rank = FACTS.ranks.indexOf(kind.tier);
      return !tiers().length || tiers().some((tier) => FACTS.ranks.indexOf(tier.rank) >= rank);
    },
    aggregates: () => !tiers().length || tiers().some((tier) => tier.aggregation),
    // [d] back that the widest of those tiers reaches; null without limit
    historyDays: () => {
      const days = tiers().map((tier) => tier.historyDays);
      return !days.length || days.includes(null) ? null : Math.max(...days);
    },
  };
})();

// What the service would refuse for want of quota or tier, as far as the headers tell.
function warnings(query, cost) {
  if (!quota.isKnown()) return [];
  const found = [];
  if (!quota.permits(KINDS.get(query.type))) found.push("The tier of this key does not include this type.");
  if (isAggregation(query) && !quota.aggregates()) found.push("The tier of this key does not join exchanges.");
  const days = quota.historyDays();
  if (days !== null && query.from < (Math.floor(Date.now() / 1000 / DAY) - days) * DAY) {
    found.push(`The tier of this key reaches ${counted(days, "day")} back.`);
  }
  if (cost > quota.capacity()) {
    found.push("That is more than this key can ever hold: take a shorter window.");
  } else if (cost > quota.remaining()) {
    found.push(`That is more than is left: wait ${quota.wait(Number(cost))} s.`);
  }
  return found;
}
