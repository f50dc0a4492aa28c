// --- numbers and times as they are read; every time is UTC ---

const DAY = 86400;

const iso = (seconds) => new Date(seconds * 1000).toISOString();
const dateText = (seconds) => iso(seconds).slice(0, 10);
const minuteText = (seconds) => iso(seconds).slice(0, 16).replace("T", " ");
const secondText = (seconds) => iso(seconds).slice(0, 19).replace("T", " ");

// To the nanosecond, where there are any.
function timestampText({ s, ns = 0 }) {
  const fraction = ns ? `.${String(ns).padStart(9, "0").replace(/0+$/, "")}` : "";
  return secondText(s) + fraction;
}

const WRITTEN_TIME = /^(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d(?::\d\d)?))?Z?$/;

// [s] of a time as it is written above, of a date its start; NaN of anything else.
function secondsOfText(text) {
  const [, date, time = "00:00"] = WRITTEN_TIME.exec(text) ?? [];
  return Date.parse(`${date}T${time}Z`) / 1000;
}

// Without seconds where there are none.
const timeText = (seconds) => secondText(seconds).replace(/:00$/, "");

const MAGNITUDES = [
  [1e12, "tn"],
  [1e9, "bn"],
  [1e6, "M"],
  [1e3, "k"],
];

// Few characters: 2.5k, 1M, 0.025.
function short(value) {
  const [size, letter] = MAGNITUDES.find(([least]) => Math.abs(value) >= least) ?? [1, ""];
  return String(Number((value / size).toPrecision(4))) + letter;
}

function grouped(value, decimals = 0) {
  return value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

function decimalsOf(step) {
  for (let decimals = 0; decimals < 12; decimals += 1) {
    if (Math.abs(Number(step.toFixed(decimals)) - step) <= 1e-6 * step) return decimals;
  }
  return 12;
}

const counted = (count, one, many = `${one}s`) =>
  `${grouped(Number(count))} ${Number(count) === 1 ? one : many}`;

const LENGTHS = [
  ["week", 604800],
  ["day", DAY],
  ["hour", 3600],
  ["minute", 60],
  ["second", 1],
];

function durationText(seconds) {
  const [name, size] = LENGTHS.find(([, least]) => seconds >= least && seconds % least === 0) ?? [
    "second",
    1,
  ];
  return counted(seconds / size, name);
}

const priceText = (value, step) => grouped(value, decimalsOf(step));

// A short text, or more digits of it where short texts of neighbours would be alike.
function amountText(value, step) {
  const [size, letter] = MAGNITUDES.find(([least]) => Math.abs(value) >= least) ?? [1, ""];
  return grouped(value / size, decimalsOf(step / size)) + letter;
}

function extentOf(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}
