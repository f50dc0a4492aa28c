// --- a query: an object of parameters by their names on the wire; `exchange` is a list, times are seconds ---

function parametersOf(query, names = FACTS.parameters) {
  const pairs = [];
  for (const name of Object.values(names)) {
    for (const value of [query[name] ?? []].flat()) pairs.push([name, String(value)]);
  }
  return new URLSearchParams(pairs);
}

// Relative to the page, so that it works below a prefix too.
const addressOf = (path, parameters) => {
  const address = new URL(path, document.baseURI);
  address.search = parameters;
  return address.href;
};

// --- what is wrong with it, before it is sent; the service refuses the rest, which weighs nothing ---

function faults(query, isLive = false) {
  const kind = KINDS.get(query.type);
  if (!kind) return ["A data type is needed."];
  const ofWindow = isLive ? faultsOfStream(query, kind) : faultsOfWindow(query, kind);
  return [...faultsOfSelection(query, kind), ...ofWindow, ...faultsOfOptions(query, kind)];
}

const LABELS = {
  rawSymbol: "a symbol",
  coin: "a coin",
  normalizedSymbol: "a normalized symbol",
  tokenName: "a token",
};

function faultsOfSelection(query, kind) {
  const found = [];
  const exchanges = query.exchange ?? [];
  const given = Object.keys(LABELS).filter((name) => query[name]);
  const isWay = (way) => way.length === given.length && way.every((name) => given.includes(name));
  if (kind.needsExchange && !exchanges.length) found.push("An exchange is needed.");
  if (!kind.takesExchanges && exchanges.length > 1) found.push("It is of one exchange at a time.");
  if (!kind.ways.some(isWay)) {
    const ways = kind.ways.map((way) => way.map((name) => LABELS[name]).join(" and "));
    found.push(`Markets are selected by ${ways.join(", or ")}.`);
  }
  if (kind.needsTenor && !query.tenor) found.push("A tenor is needed.");
  return found;
}

function faultsOfWindow(query, kind) {
  if (!query.interval && !kind.intervalOptional) return ["An interval is needed."];
  if (!(query.from >= 0) || !Number.isInteger(query.period))
    return ["Both ends of the window are needed, as 2024-08-09 or 2024-08-09 14:30."];
  if (query.period <= 0) return ["The window ends before it begins."];
  // Raw trades are counted by the service: a window of them may be of any length.
  if (!query.interval) return [];
  const most = kind.maxPoints;
  if (pointsOf(query) <= most) return [];
  const longest = durationText(most * stepOf(query));
  return [
    `${counted(pointsOf(query), "point")} are more than the ${grouped(most)} of one request: ` +
      `take ${longest} at most, or a longer interval.`,
  ];
}

// A stream may begin with the interval in progress, and have no end.
function faultsOfStream({ interval, from, period }, kind) {
  if (!interval && !kind.intervalOptional) return ["An interval is needed."];
  if (from === undefined) return period === undefined ? [] : ["A stream that ends needs a beginning."];
  if (!(from >= 0) || (period !== undefined && !Number.isInteger(period)))
    return ["The ends of the window are written as 2024-08-09 or 2024-08-09 14:30."];
  return period <= 0 ? ["The window ends before it begins."] : [];
}

function faultsOfOptions(query, kind) {
  const found = Object.keys(query)
    .filter((name) => !kind.takes.includes(name))
    .map((name) => `${name} means nothing for ${kind.name}.`);
  if ("transform.groupBy.type" in query && query.rawSymbol && !kind.groupByRawSymbol) {
    found.push("Exchanges are joined by coin or normalized symbol: symbols are those of one exchange.");
  }
  if (query.maxDepth && !/^[1-9]\d{0,17}$/.test(query.maxDepth))
    found.push("Price levels are a whole number above 0.");
  if (query.blockSize && !(Number(query.blockSize) > 0))
    found.push("The height of a level is a number above 0.");
  return found;
}

// --- how to ask it from elsewhere; the key is left out, and read from the environment ---

const KEY_VARIABLE = "TIDYTAPE_API_KEY";

function curlLine(query) {
  // An address has no quote in it: what could be one is percent-encoded.
  return `curl --compressed -H "${FACTS.keyHeader}: $${KEY_VARIABLE}" '${pointsAddress(query)}'`;
}

const pointsAddress = (query) => addressOf("v1/points", parametersOf(query));

const streamParameters = (query) => parametersOf(query, FACTS.streamParameters);

// As above; -N shows each line as it comes.
const streamLines = (query) => {
  const address = addressOf("v1/stream", streamParameters(query));
  return [
    ["URL", address],
    ["curl", `curl -N -H "${FACTS.keyHeader}: $${KEY_VARIABLE}" '${address}'`],
    ["Python", `${pythonClient()}.stream(${pythonArguments(query).join(", ").replace(/^type=/, "")})`],
  ];
};

const pythonLine = (query) =>
  `${pythonClient()}.points(tidytape.PointsQuery(${pythonArguments(query).join(", ")}))`;

function pythonClient() {
  const address = [JSON.stringify(addressOf(".", "").replace(/\/$/, ""))];
  if (FACTS.keyHeader.toLowerCase() !== "x-service-key")
    address.push(`auth_header=${JSON.stringify(FACTS.keyHeader)}`);
  return `tidytape.Client(${address.join(", ")})`;
}

function pythonArguments(query) {
  const found = [];
  for (const [field, name] of Object.entries(FACTS.parameters)) {
    if (query[name] !== undefined) found.push(`${field}=${pythonValue(query, name)}`);
  }
  return found;
}

const COUNTS = new Set(["maxDepth", "tpoBlockSizeMinutes", "transform.normalize.fundingInterval"]);

function pythonValue(query, name) {
  if (name === "from") return JSON.stringify(iso(query.from).replace(".000", ""));
  if (name === "period") return JSON.stringify(iso(query.from + query.period).replace(".000", ""));
  if (name === "gapfill") return "True";
  const value = query[name];
  if (COUNTS.has(name)) return value;
  if (!Array.isArray(value)) return JSON.stringify(value);
  return value.length === 1
    ? JSON.stringify(value[0])
    : `[${value.map((one) => JSON.stringify(one)).join(", ")}]`;
}
