// --- what the lake holds ---

const MARKETS_PER_PAGE = 8;
const NAMES_IN_A_ROW = 3;

const lake = (() => {
  let holdings = []; // { type, exchange, subjects, first, last }
  let shown = 0; // markets
  const searching = turns();

  // --- figures and data types ---

  async function load(signal) {
    holdings = (await service.ask("holdings", "", signal)).body.holdings; // first: the others then know it
    showTypes();
    const types = new URLSearchParams(typesHeld().map((name) => ["type", name]));
    const [coins, symbols] = await Promise.all([
      service.ask("v1/coins", "", signal),
      holdings.length ? service.ask("v1/symbols", types, signal) : { body: { rawSymbols: [] } },
      searched(),
    ]);
    showFigures(coins.body.coins, symbols.body.rawSymbols);
  }

  const typesHeld = () => [...new Set(holdings.map(({ type }) => type))];
  const exchangesOf = (type) =>
    holdings.filter((one) => one.type === type && one.exchange !== null).map(({ exchange }) => exchange);

  function spanOf(rows) {
    if (!rows.length) return null;
    return [
      extentOf(rows.map(({ first }) => secondsOf(first)))[0],
      extentOf(rows.map(({ last }) => secondsOf(last)))[1],
    ];
  }

  function showFigures(coins, symbols) {
    const exchanges = new Set(holdings.map(({ exchange }) => exchange).filter((exchange) => exchange !== null));
    const span = spanOf(holdings);
    const figures = [
      counted(typesHeld().length, "data type"),
      counted(exchanges.size, "exchange"),
      counted(coins.length, "coin"),
      counted(symbols.length, "symbol"),
    ].map((text) => text.split(/ (.*)/));
    if (span) figures.push([`${minuteText(span[0])} to ${minuteText(span[1])}`, "UTC"]);
    byId("lake-figures").replaceChildren(
      ...figures.map(([much, what]) => html("span", {}, html("b", {}, much), ` ${what}`)),
    );
  }

  function showTypes() {
    const rows = typesHeld().map((name) => {
      const held = holdings.filter(({ type }) => type === name);
      return typeRow(KINDS.get(name), held);
    });
    const none = html("tr", {}, html("td", { colspan: 4, class: "quiet" }, "This lake is empty."));
    byId("types").tBodies[0].replaceChildren(...(rows.length ? rows : [none]));
  }

  function typeRow(kind, held) {
    const button = html("button", { type: "button", class: "link" }, kind.title);
    button.addEventListener("click", () => builder.chooseType(kind.name));
    const [first, last] = spanOf(held);
    const exchanges = exchangesOf(kind.name);
    return html(
      "tr",
      {},
      html("td", {}, button, html("small", { class: "quiet block" }, ...breakable(kind.name))),
      html("td", { title: exchanges.join(", ") }, shortList(exchanges) || "–"),
      html("td", { class: "number" }, grouped(held.reduce((sum, { subjects }) => sum + subjects, 0))),
      html("td", { class: "time" }, minuteText(first), html("br"), minuteText(last)),
    );
  }

  // A long name may be broken after each underscore.
  const breakable = (name) => name.split(/(?<=_)/).flatMap((part) => [part, html("wbr")]);

  function shortList(names) {
    const first = names.slice(0, NAMES_IN_A_ROW);
    const more = names.length - first.length;
    return first.join(", ") + (more ? ` and ${more} more` : "");
  }

  // --- markets ---

  async function searched() {
    shown = 0;
    byId("markets").tBodies[0].replaceChildren();
    await more(searching.next());
  }

  async function more(signal) {
    const parameters = new URLSearchParams({ pageSize: MARKETS_PER_PAGE + 1, pageOffset: shown });
    const text = byId("search").value.trim();
    if (text) parameters.set("symbolFilter", text);
    const { symbols } = (await service.ask("v1/markets", parameters, signal)).body;
    const page = symbols.slice(0, MARKETS_PER_PAGE); // one more than is shown tells whether there are more
    byId("markets").tBodies[0].append(...page.map(marketRow));
    shown += page.length;
    byId("markets-more").hidden = symbols.length === page.length;
    byId("markets-note").textContent = shown ? "" : "No market is called so.";
  }

  function marketRow(market) {
    const { exchange, rawSymbol, normalizedSymbol, category, tenor, fullName, lastPrice } = market;
    const button = html("button", { type: "button", class: "link", title: fullName }, rawSymbol);
    button.addEventListener("click", () => builder.chooseMarket(market));
    const cells = [exchange, button, normalizedSymbol ?? "", [category, tenor].filter(Boolean).join(" ")];
    return html(
      "tr",
      {},
      ...cells.map((cell) => html("td", {}, cell)),
      html("td", { class: "number" }, isNumber(lastPrice) ? String(Number(lastPrice.toPrecision(8))) : ""),
    );
  }

  const here = byId("lake-refusal");
  byId("search").addEventListener(
    "input",
    debounced(() => guarded(here, () => searched()), 200),
  );
  byId("search-form").addEventListener("submit", (event) => event.preventDefault());
  byId("markets-more").addEventListener("click", () => guarded(here, () => more(searching.next())));

  return { load, typesHeld, exchangesOf, spanOf };
})();
