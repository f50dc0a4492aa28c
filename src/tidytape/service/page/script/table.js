// --- the first rows, one per point or per level ---

const SHOWN_ROWS = 50;
const KEY = ["exchange", "rawSymbol", "tokenName", "tenor", "side"];

const rowsOfPoint = (kind, point) =>
  kind.levels.length ? kind.levels.reduce((sum, levels) => sum + levelCount(point, levels), 0) : 1;

function rowCount({ kind, series }) {
  const ofSeries = ({ points }) => points.reduce((sum, point) => sum + rowsOfPoint(kind, point), 0);
  return series.reduce((sum, one) => sum + ofSeries(one), 0);
}

// Yield pairs of a series and an object with all values of a row.
function* rowsOf({ kind, series }) {
  for (const one of series) {
    for (const point of one.points) {
      if (!kind.levels.length) yield { ...one.id, ...point };
      for (const levels of kind.levels) {
        const side = levels.bookSide ? { side: levels.bookSide } : {};
        for (const level of levelsOf(point, levels)) yield { ...one.id, ...point, ...side, ...level };
      }
    }
  }
}

function firstOf(rows, most) {
  const found = [];
  for (const row of rows) {
    found.push(row);
    if (found.length === most) break;
  }
  return found;
}

function columnsOf({ kind, series, query }) {
  const isBook = kind.levels.some((levels) => levels.bookSide);
  const isTold = ({ name }) => (isBook && name === "side") || series.some(({ id }) => id[name] !== undefined);
  const identity = FACTS.identity.filter((field) => field.name !== "interval" && isTold(field));
  const [timestamp, ...rest] = kind.fields;
  const own = rest.filter((field) => !identity.some((other) => other.name === field.name));
  const levels = kind.levels[0]?.fields ?? [];
  const id = sharedBy(series);
  // The values before what describes the market: the right end of a wide table is out of sight.
  const isKey = ({ name }) => KEY.includes(name);
  const [key, descriptions] = [identity.filter(isKey), identity.filter((field) => !isKey(field))];
  return [timestamp, ...key, ...levels, ...own, ...descriptions].map((field) => ({
    ...field,
    unit: unitOf(field.unit, id),
  }));
}

function cellText(value) {
  if (value === undefined || value === null) return "";
  if (Array.isArray(value)) return value.join(", ");
  return typeof value === "object" ? timestampText(value) : String(value);
}

// The rows of another object may be listed, and a column may be added after the timestamp.
function showRows(answer, { title = "First rows", listed = answer, added = [] } = {}) {
  const columns = columnsOf(answer);
  columns.splice(columns.findIndex(({ name }) => name === "timestamp") + 1, 0, ...added);
  const rows = firstOf(rowsOf(listed), SHOWN_ROWS);
  const count = rowCount(answer);
  byId("rows-title").textContent = title;
  byId("rows-count").textContent =
    rows.length < count ? `${rows.length} of ${counted(count, "row")}` : counted(count, "row");
  const isNumeric = ({ kind }) => kind === "double" || kind === "int64";
  const head = ({ column, unit, doc, ...field }) =>
    html(
      "th",
      { scope: "col", class: isNumeric(field) && "number", title: doc },
      column,
      unit && html("small", {}, ` [${unit}]`),
    );
  const cell = (row, field) => html("td", { class: isNumeric(field) && "number" }, cellText(row[field.name]));
  const table = byId("rows");
  table.tHead.replaceChildren(html("tr", {}, ...columns.map(head)));
  table.tBodies[0].replaceChildren(
    ...rows.map((row) => html("tr", {}, ...columns.map((field) => cell(row, field)))),
  );
}
