// --- windows that are offered ---

const WINDOWS = [
  ["1 h", 3600],
  ["6 h", 21600],
  ["1 d", DAY],
  ["1 w", 7 * DAY],
  ["30 d", 30 * DAY],
  ["all", Infinity],
];
const FEWEST_POINTS = 12; // of a first answer; else a shorter interval is taken

// What is asked first: a window that shows what the type is like, and weighs little.
const FIRST = {
  TRADE: { interval: "", seconds: 600 },
  FUNDING_RATE_AGG: { interval: "HOUR", seconds: 30 * DAY },
  TOKEN_SUPPLY_AGG: { interval: "DAY", seconds: 365 * DAY },
  IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG: { interval: "HOUR", seconds: 30 * DAY },
  SKEW_OPTION_SUMMARY_AGG: { interval: "HOUR", seconds: 30 * DAY },
  OPTION_OPEN_INTEREST_AGG: { interval: "HOUR", seconds: 30 * DAY },
  CME_OPEN_INTEREST_AGG: { interval: "HOUR", seconds: 30 * DAY },
  VOLUME_PROFILE_AGG: { interval: "DAY", seconds: 7 * DAY, isOne: true },
  TPO_AGG: { interval: "DAY", seconds: 7 * DAY, isOne: true },
  BLOCK_BOOK_SNAPSHOT_AGG: { interval: "MINUTE", seconds: 7200, maxDepth: 300 },
};
const FIRST_OF_OTHERS = { interval: "FIVE_MINUTES", seconds: DAY };

const firstAsked = (kind) => FIRST[kind.name] ?? FIRST_OF_OTHERS;

// The type's, or a shorter one where there would be few points; of profiles, one is worth showing.
function firstInterval(kind, [first, last]) {
  const { interval, seconds, isOne = false } = firstAsked(kind);
  const length = Math.min(seconds, last - first);
  const longest = INTERVALS.get(interval)?.seconds ?? 0;
  const fitting = FACTS.choices.interval.filter((one) => one.seconds <= longest);
  const chosen = fitting.findLast((one) => isOne || length / one.seconds >= FEWEST_POINTS) ?? fitting[0];
  return chosen?.value ?? "";
}

// [s] whole intervals up to that of the newest event, as many as fit into a length, and none before the oldest.
function newestWindow([first, last], seconds, step, offset = 0) {
  const start = (at) => Math.floor((at - offset) / step) * step + offset;
  const end = start(last) + step;
  return [Math.max(start(first), end - Math.max(seconds, step)), end];
}
