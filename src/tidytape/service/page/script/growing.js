// --- an answer that grows: the newest value of each point, of so many rows at most ---

const MOST_ROWS = 100_000; // points, or levels of points; beyond them the oldest go
const KEPT = 0.9; // of them, so that not every point makes another one go
const CHANGES = ["revision", "final", "update"]; // in the order in which a line means them
const CHANGE = { name: "change", column: "change", kind: "string", unit: "", doc: "How the point came last" };

// Where the first point stands that is not before a time; of `isAfter`, that is after it.
function placeInTime(points, timestamp, isAfter = false) {
  let [low, high] = [0, points.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const distance = inTime(points[middle].timestamp, timestamp);
    if (distance < 0 || (isAfter && distance === 0)) low = middle + 1;
    else high = middle;
  }
  return low;
}

function growing(query, most = MOST_ROWS) {
  const kind = KINDS.get(query.type);
  const series = new Map();
  let rows = 0;
  let over = null; // start of the last interval that is over
  let gone = null; // time up to which points were let go
  const sizeOf = (point) => Math.max(1, rowsOfPoint(kind, point));
  const nameOf = (id) => JSON.stringify(FACTS.identity.map(({ name }) => id[name]));

  function seriesOf(id) {
    const name = nameOf(id);
    if (!series.has(name)) series.set(name, { points: [] });
    return Object.assign(series.get(name), { id, label: labelOf(id) }); // what describes a series may change
  }

  function put(points, point) {
    if (gone && inTime(point.timestamp, gone) <= 0) return;
    const isEvent = kind.intervalOptional; // several may have the same time, and each comes once
    const place = placeInTime(points, point.timestamp, isEvent);
    const there = points[place];
    const isThere = !isEvent && there && inTime(there.timestamp, point.timestamp) === 0;
    points.splice(place, isThere ? 1 : 0, point);
    rows += sizeOf(point) - (isThere ? sizeOf(there) : 0);
  }

  function letGo() {
    const points = [...series.values()].flatMap((one) => one.points);
    points.sort((a, b) => inTime(a.timestamp, b.timestamp));
    const newest = points.at(-1).timestamp;
    let left = rows;
    for (const point of points) {
      if (left <= most * KEPT || inTime(point.timestamp, newest) === 0) break;
      left -= sizeOf(point);
      gone = point.timestamp;
    }
    if (!gone) return;
    for (const [name, one] of series) {
      for (const point of one.points.splice(0, placeInTime(one.points, gone, true))) rows -= sizeOf(point);
      if (!one.points.length) series.delete(name);
    }
  }

  function extent() {
    const step = stepOf(query);
    const members = [...series.values()].map(({ points }) => points);
    const [from] = extentOf(members.map((points) => points[0].timestamp.s));
    const [, last] = extentOf(members.map((points) => points.at(-1).timestamp.s));
    return { from, period: Math.max(last + step - from, FEWEST_POINTS * step) };
  }

  return {
    apply(line) {
      for (const change of CHANGES) {
        for (const { id, points } of line[change] ?? []) {
          const one = seriesOf(id);
          for (const point of points) put(one.points, { ...payloadOf(kind, point), change });
        }
      }
      over = line.over?.[query.type] ?? over;
      if (rows > most) letGo();
    },
    // As it is now: what is applied later does not change it.
    answer() {
      const members = [...series.values()].map((one) => ({ ...one, points: one.points.slice() }));
      const shown = members.length ? { ...query, ...extent() } : query;
      return { kind, query: shown, series: members, empty: "Nothing has come yet." };
    },
    // The newest points, newest first, as series of one point each.
    newest(count) {
      const points = [...series.values()].flatMap(({ id, points }) =>
        points.slice(-count).map((point) => ({ id, points: [point] })),
      );
      points.sort((a, b) => inTime(b.points[0].timestamp, a.points[0].timestamp));
      return { kind, series: points.slice(0, count) };
    },
    over: () => over,
    gone: () => gone,
  };
}
