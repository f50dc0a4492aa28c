// --- the form that builds a query: it offers what the facts say a type takes, and what the lake holds of it ---

const LISTED = { rawSymbol: "symbols", coin: "coins", normalizedSymbol: "normalized-symbols", tenor: "tenors", category: "categories" };
const WAYS = { rawSymbol: "symbol", coin: "coin", normalizedSymbol: "normalized symbol", tokenName: "token name" };
const WINDOWS = [["1 h", 3600], ["6 h", 21600], ["1 d", DAY], ["1 w", 7 * DAY], ["30 d", 30 * DAY], ["all", Infinity]];
const MOST_OFFERED = 2000; // names in a list to choose from; others can be typed

// What is asked first: a window that shows what the type is like, and weighs little.
const FIRST = {
  TRADE: { interval: "", seconds: 600 },
  FUNDING_RATE_AGG: { interval: "HOUR", seconds: 30 * DAY },
  TOKEN_SUPPLY_AGG: { interval: "DAY", seconds: 365 * DAY },
  IMPLIED_VOLATILITY_OPTION_SUMMARY_AGG: { interval: "HOUR", seconds: 30 * DAY },
  SKEW_OPTION_SUMMARY_AGG: { interval: "HOUR", seconds: 30 * DAY },
  OPTION_OPEN_INTEREST_AGG: { interval: "HOUR", seconds: 30 * DAY },
  CME_OPEN_INTEREST_AGG: { interval: "HOUR", seconds: 30 * DAY },
  VOLUME_PROFILE_AGG: { interval: "DAY", seconds: 7 * DAY },
  TPO_AGG: { interval: "DAY", seconds: 7 * DAY },
  BLOCK_BOOK_SNAPSHOT_AGG: { interval: "MINUTE", seconds: 7200, maxDepth: 300 },
};
const FIRST_OF_OTHERS = { interval: "FIVE_MINUTES", seconds: DAY };
const FEWEST_POINTS = 12; // else a shorter interval is taken

const builder = (() => {
  const form = byId("query");
  const loading = turns();
  let kind = null;
  let lists = {}; // what there is, by parameter
  let span = null; // [s] of the first and the last event of what is selected
  let isOwnWindow = false; // the caller chose it

  // --- the query as it stands ---

  function read() {
    const query = {};
    for (const [name, text] of new FormData(form)) {
      const value = text.trim();
      if (!value || name === "way") continue;
      if (REPEATABLE.has(name)) (query[name] ??= []).push(value);
      else query[name] = value;
    }
    return withWindow(query);
  }

  function withWindow({ from, to, ...query }) {
    const [first, last] = [from, to].map((text) => secondsOfText(text ?? ""));
    return { ...query, from: first, period: last - first };
  }

  // --- what the type offers ---

  function optionsOf(select, choices, none) {
    const before = select.value;
    const empty = none === undefined ? [] : [html("option", { value: "" }, none)];
    select.replaceChildren(...empty, ...choices.map(({ value, label }) => html("option", { value }, label)));
    if (choices.some(({ value }) => value === before)) select.value = before;
  }

  function showParameters() {
    for (const fieldset of form.querySelectorAll("[data-parameter]")) {
      const name = fieldset.dataset.parameter;
      toggled(fieldset, kind.takes.includes(name) && !(name in WAYS));
    }
    const { choices, defaultFundingInterval, defaultTpoBlock } = FACTS;
    optionsOf(byId("interval"), choices.interval, kind.intervalOptional ? "none" : undefined);
    optionsOf(byId("side"), choices.side, "both");
    optionsOf(byId("tpoBlock"), choices.tpoBlockSizeMinutes, `${defaultTpoBlock} min, unless chosen`);
    optionsOf(byId("tpoSession"), choices.tpoSession, "as long as the interval");
    optionsOf(byId("sortDirection"), choices.sortDirection, "oldest first, unless chosen");
    byId("fundingInterval").placeholder = defaultFundingInterval;
    byId("maxDepth").placeholder = kind.includedDepth === null ? "" : `${grouped(kind.includedDepth)} weigh no more`;
    byId("maxDepth").value = FIRST[kind.name]?.maxDepth ?? "";
    byId("groupBy").value = kind.groupBy?.value ?? "";
    byId("groupBy-how").textContent = kind.groupBy ? `(${kind.groupBy.label.replaceAll("_", " ")})` : "";
  }

  function showVenues(wanted) {
    const venues = lake.venuesOf(kind.name);
    const before = wanted ?? checked("exchange");
    const kept = venues.filter((venue) => before.includes(venue));
    const first = kind.needsExchange ? venues.slice(0, 1) : [];
    const chosen = kind.takesExchanges ? kept : kept.slice(0, 1);
    const type = kind.takesExchanges ? "checkbox" : "radio";
    showChips("venues", "exchange", type, venues.map((venue) => [venue, venue]), chosen.length ? chosen : first);
    toggled(form.querySelector("[data-parameter=exchange]"), venues.length > 0);
  }

  function showWays() {
    const known = kind.ways.map((way) => [way.join("+"), way.map((name) => WAYS[name]).join(" and ")]);
    const empty = kind.ways.filter((way) => way.some((name) => lists[name]?.length === 0)).map((way) => way.join("+"));
    const [before] = checked("way");
    const usable = known.map(([value]) => value).filter((value) => !empty.includes(value));
    showChips("ways", "way", "radio", known, usable.includes(before) ? [before] : usable.slice(0, 1), empty);
    byId("way").hidden = known.length < 2;
    showSelectors();
  }

  function showSelectors() {
    const [way = ""] = checked("way");
    for (const name of Object.keys(WAYS)) {
      toggled(form.querySelector(`[data-parameter=${name}]`), way.split("+").includes(name));
    }
  }

  function showChips(host, name, type, choices, chosen, disabled = []) {
    const chip = ([value, text]) => html(
      "label", { class: "chip" },
      html("input", { type, name, value, checked: chosen.includes(value), disabled: disabled.includes(value) }),
      html("span", {}, text),
    );
    byId(host).replaceChildren(...choices.map(chip));
  }

  const checked = (name) => [...form.querySelectorAll(`input[name="${name}"]:checked`)].map(({ value }) => value);

  // --- what the lake holds of it ---

  function filters(names) {
    const query = read();
    const pairs = ["type", "exchange", ...names].flatMap((name) => [query[name] ?? []].flat().map((value) => [name, value]));
    return new URLSearchParams(pairs);
  }

  async function loadLists(signal) {
    const needed = Object.keys(LISTED).filter((name) => kind.takes.includes(name) && (!(name in WAYS) || kind.ways.flat().includes(name)));
    const asked = needed.map(async (name) => {
      const { body } = await service.ask(`v1/${LISTED[name]}`, filters([]), signal);
      return [name, body[FACTS.lists[LISTED[name]]]];
    });
    lists = Object.fromEntries(await Promise.all(asked));
    for (const name of needed.filter((one) => one in WAYS)) offer(name);
    const choice = (value) => ({ value, label: FACTS.choices.tenor.find((one) => one.value === value)?.label ?? value });
    optionsOf(byId("tenor"), (lists.tenor ?? []).map(choice), kind.needsTenor ? undefined : "all");
    optionsOf(byId("category"), (lists.category ?? []).map((value) => ({ value, label: value })), "all");
    toggled(byId("category").parentElement, lists.category?.length > 1);
    showWays();
  }

  function offer(name) {
    const names = lists[name];
    byId(name).list.replaceChildren(...names.slice(0, MOST_OFFERED).map((value) => html("option", { value })));
    if (!names.includes(byId(name).value)) byId(name).value = names[0] ?? "";
  }

  async function loadSpan(signal) {
    const { body } = await service.ask("holdings", filters(["rawSymbol", "coin", "normalizedSymbol"]), signal);
    span = lake.spanOf(body.holdings);
    byId("held").textContent = span ? `Held: ${minuteText(span[0])} to ${minuteText(span[1])}.` : "The lake holds nothing of it.";
    if (span && !isOwnWindow) suggestWindow();
  }

  // --- the window ---

  function setWindow(seconds) {
    if (!span) return;
    const step = stepOf(read());
    const offset = INTERVALS.get(byId("interval").value)?.offset ?? 0;
    const down = (at) => Math.floor((at - offset) / step) * step + offset;
    const last = down(span[1]) + step; // the interval of the newest event is in it
    byId("to").value = timeText(last);
    byId("from").value = timeText(Math.max(down(span[0]), last - Math.max(seconds, step)));
  }

  // By its own length, back or on.
  function moveWindow(direction) {
    const { from, period } = read();
    if (!(period > 0) || from + direction * period < 0) return;
    byId("from").value = timeText(from + direction * period);
    byId("to").value = timeText(from + direction * period + period);
  }

  function suggestWindow() {
    const { interval, seconds } = FIRST[kind.name] ?? FIRST_OF_OTHERS;
    const length = Math.min(seconds, span[1] - span[0]);
    const finer = FACTS.choices.interval.filter((one) => one.seconds <= (INTERVALS.get(interval)?.seconds ?? 0));
    const isOfProfiles = kind.levels.length && seconds >= DAY; // one of them is worth showing
    const enough = finer.findLast((one) => isOfProfiles || length / one.seconds >= FEWEST_POINTS) ?? finer[0];
    byId("interval").value = enough?.value ?? "";
    setWindow(seconds);
  }

  function windowButton(text, label, move) {
    const button = html("button", { type: "button", class: "small", "aria-label": label, title: label }, text);
    button.addEventListener("click", () => {
      isOwnWindow = true;
      move();
      refresh();
    });
    return button;
  }

  // --- what it weighs, and what is wrong with it ---

  function warnings(query, cost) {
    const found = [];
    if (!quota.isKnown()) return found;
    if (!quota.permits(kind)) found.push("The tier of this key does not include this type.");
    if (isAggregation(query) && !quota.aggregates()) found.push("The tier of this key does not join venues.");
    const days = quota.historyDays();
    if (days !== null && query.from < (Math.floor(Date.now() / 1000 / DAY) - days) * DAY) {
      found.push(`The tier of this key reaches ${counted(days, "day")} back.`);
    }
    if (cost > quota.capacity()) found.push("That is more than this key can ever hold: take a shorter window.");
    else if (cost > quota.remaining()) found.push(`That is more than is left: wait ${quota.wait(Number(cost))} s.`);
    return found;
  }

  function refresh() {
    if (!kind) return;
    const query = read();
    const wrong = faults(query);
    const cost = wrong.length ? null : weight(query);
    const notes = [...wrong, ...(cost === null ? [] : warnings(query, cost))];
    say(byId("weight"), cost === null ? "Weight –" : `Weight ${grouped(cost)}`);
    say(byId("weight-how"), cost === null ? "" : weightText(query));
    say(byId("faults"), notes.join("\n"), () => byId("faults").replaceChildren(...notes.map((text) => html("li", {}, text))));
    byId("send").disabled = wrong.length > 0;
    showLines(wrong.length ? null : query);
  }

  // Only what is new is written, for it is read aloud.
  function say(element, text, write = () => { element.textContent = text; }) {
    if (element.dataset.said === text) return;
    element.dataset.said = text;
    write();
  }

  function showLines(query) {
    const lines = query ? [["URL", pointsAddress(query)], ["curl", curlLine(query)], ["Python", pythonLine(query)]] : [];
    say(byId("lines"), lines.join("\n"), () => {
      const none = [html("dd", { class: "quiet" }, "The query is not complete yet.")];
      byId("lines").replaceChildren(...(lines.length ? lines.flatMap(([name, text]) => lineOf(name, text)) : none));
    });
  }

  // --- choosing ---

  async function loaded() {
    const signal = loading.next();
    refresh();
    await loadLists(signal);
    await loadSpan(signal);
    refresh();
  }

  async function chosen(name, venues) {
    kind = KINDS.get(name);
    byId("type").value = name;
    isOwnWindow = false;
    lists = {};
    showParameters();
    showVenues(venues);
    showWays();
    await loaded();
  }

  async function chooseMarket({ exchange, rawSymbol, tenor }) {
    const { types } = (await service.ask("v1/types", new URLSearchParams({ exchange, rawSymbol }))).body;
    if (!types.length) return;
    await chosen(types.includes(kind.name) ? kind.name : types[0], [exchange]);
    const way = kind.ways.find((names) => names.includes("rawSymbol"));
    const radio = [...form.querySelectorAll("input[name=way]")].find(({ value }) => value === way?.join("+"));
    if (radio) radio.checked = true;
    byId("rawSymbol").value = rawSymbol;
    if (tenor && kind.takes.includes("tenor")) byId("tenor").value = tenor;
    showSelectors();
    await changed(byId("rawSymbol"));
    byId("type").focus();
  }

  async function changed({ name }) {
    if (name === "type") return chosen(byId("type").value);
    if (name === "exchange") return loaded();
    if (name === "way") showSelectors();
    if (name === "from" || name === "to") isOwnWindow = true;
    if (name === "way" || name in WAYS) await loadSpan(loading.next());
    return refresh();
  }

  form.addEventListener("change", ({ target }) => lake.guarded(() => changed(target)));
  form.addEventListener("input", refresh);
  document.addEventListener("quota", refresh);
  byId("spans").append(
    ...WINDOWS.map(([text, seconds]) => windowButton(text, `The newest ${text}`, () => setWindow(seconds))),
    windowButton("←", "Earlier, by the length of the window", () => moveWindow(-1)),
    windowButton("→", "Later, by the length of the window", () => moveWindow(1)),
  );

  return {
    read,
    // Offer what the lake holds; what no tier of this key includes is listed and cannot be chosen.
    async open() {
      const held = lake.typesHeld().map((name) => KINDS.get(name));
      const option = (one) => html(
        "option", { value: one.name, disabled: !quota.permits(one) }, `${one.title}${quota.permits(one) ? "" : " (not in this tier)"}`,
      );
      byId("type").replaceChildren(...held.map(option));
      const usual = held.find(({ name }) => name === "TRADE_SIDE_AGNOSTIC_AGG") ?? held.find(quota.permits);
      if (usual) await chosen(usual.name);
      else byId("query").hidden = true;
    },
    chooseType: (name) => lake.guarded(async () => {
      await chosen(name);
      byId("type").focus();
    }),
    chooseMarket,
  };
})();
