// --- the form that builds a query: it offers what the facts say a type takes, and what the lake holds of it ---

const LISTED = {
  rawSymbol: "symbols",
  coin: "coins",
  normalizedSymbol: "normalized-symbols",
  tenor: "tenors",
  category: "categories",
};
const WAYS = {
  rawSymbol: "symbol",
  coin: "coin",
  normalizedSymbol: "normalized symbol",
  tokenName: "token name",
};
const MOST_OFFERED = 2000; // names in a list to choose from; others can be typed

const builder = (() => {
  const form = byId("query");
  const here = byId("query-refusal");
  const loading = turns();
  let kind = null;
  let lists = {}; // what there is, by parameter
  let span = null; // [s] of the first and the last event of what is selected
  let isOwnWindow = false; // the caller chose it
  let end = ""; // of the window, as text; a stream has none unless it is written

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

  const isLive = () => byId("live").checked;

  function withWindow({ from, to, ...query }) {
    const [first, last] = [from, to].map((text) => secondsOfText(text ?? ""));
    const ends = { from: first, period: last - first };
    if (isLive() && to === undefined) delete ends.period;
    if (isLive() && from === undefined) delete ends.from;
    return { ...query, ...ends };
  }

  // --- what the type offers ---

  function showParameters() {
    for (const fieldset of form.querySelectorAll("[data-parameter]")) {
      const name = fieldset.dataset.parameter;
      toggled(fieldset, kind.takes.includes(name) && !(name in WAYS));
    }
    const { choices, defaultFundingInterval, defaultTpoBlock } = FACTS;
    showOptions(byId("interval"), choices.interval, kind.intervalOptional ? "none" : undefined);
    showOptions(byId("side"), choices.side, "both");
    showOptions(byId("tpoBlock"), choices.tpoBlockSizeMinutes, `${defaultTpoBlock} min, unless chosen`);
    showOptions(byId("tpoSession"), choices.tpoSession, "as long as the interval");
    showOptions(byId("sortDirection"), choices.sortDirection, "oldest first, unless chosen");
    byId("fundingInterval").placeholder = defaultFundingInterval;
    byId("maxDepth").placeholder =
      kind.includedDepth === null ? "" : `${grouped(kind.includedDepth)} weigh no more`;
    byId("maxDepth").value = firstAsked(kind).maxDepth ?? "";
    byId("groupBy").value = kind.groupBy?.value ?? "";
    byId("groupBy-how").textContent = kind.groupBy ? `(${kind.groupBy.label.replaceAll("_", " ")})` : "";
    showLive();
  }

  // A stream takes less, needs no end, and may begin with the interval in progress.
  function showLive() {
    const streamed = Object.values(FACTS.streamParameters);
    for (const name of Object.values(FACTS.parameters).filter((one) => !streamed.includes(one))) {
      const fieldset = form.querySelector(`[data-parameter="${name}"]`);
      toggled(fieldset, kind.takes.includes(name) && !isLive());
    }
    byId("to").placeholder = isLive() ? "no end" : "2024-08-10 00:00";
    byId("from").placeholder = isLive() ? "now" : "2024-08-09 00:00";
    byId("send").textContent = isLive() ? "Go live" : "Send";
  }

  function changeLive() {
    const to = byId("to");
    if (isLive()) [end, to.value] = [to.value, ""];
    else to.value ||= end;
    showLive();
    return looked(loadSpan); // up to where history is weighed
  }

  function showExchanges(wanted) {
    const exchanges = lake.exchangesOf(kind.name);
    const before = wanted ?? checked("exchange");
    const kept = exchanges.filter((exchange) => before.includes(exchange));
    const first = kind.needsExchange ? exchanges.slice(0, 1) : [];
    const chosen = kind.takesExchanges ? kept : kept.slice(0, 1);
    const type = kind.takesExchanges ? "checkbox" : "radio";
    showChips(
      byId("exchanges"),
      "exchange",
      type,
      exchanges.map((exchange) => [exchange, exchange]),
      chosen.length ? chosen : first,
    );
    toggled(form.querySelector("[data-parameter=exchange]"), exchanges.length > 0);
  }

  function showWays() {
    const known = kind.ways.map((way) => [way.join("+"), way.map((name) => WAYS[name]).join(" and ")]);
    const empty = kind.ways
      .filter((way) => way.some((name) => lists[name]?.length === 0))
      .map((way) => way.join("+"));
    const [before] = checked("way");
    const usable = known.map(([value]) => value).filter((value) => !empty.includes(value));
    showChips(
      byId("ways"),
      "way",
      "radio",
      known,
      usable.includes(before) ? [before] : usable.slice(0, 1),
      empty,
    );
    byId("way").hidden = known.length < 2;
    showSelectors();
  }

  function showSelectors() {
    const [way = ""] = checked("way");
    for (const name of Object.keys(WAYS)) {
      toggled(form.querySelector(`[data-parameter=${name}]`), way.split("+").includes(name));
    }
  }

  const checked = (name) =>
    [...form.querySelectorAll(`input[name="${name}"]:checked`)].map(({ value }) => value);

  // --- what the lake holds of it ---

  function filters(names) {
    const query = read();
    const pairs = ["type", "exchange", ...names].flatMap((name) =>
      [query[name] ?? []].flat().map((value) => [name, value]),
    );
    return new URLSearchParams(pairs);
  }

  async function loadLists(signal) {
    const needed = Object.keys(LISTED).filter(
      (name) => kind.takes.includes(name) && (!(name in WAYS) || kind.ways.flat().includes(name)),
    );
    const asked = needed.map(async (name) => {
      const { body } = await service.ask(`v1/${LISTED[name]}`, filters([]), signal);
      return [name, body[FACTS.lists[LISTED[name]]]];
    });
    lists = Object.fromEntries(await Promise.all(asked));
    for (const name of needed.filter((one) => one in WAYS)) offer(name);
    const choice = (value) => ({
      value,
      label: FACTS.choices.tenor.find((one) => one.value === value)?.label ?? value,
    });
    showOptions(byId("tenor"), (lists.tenor ?? []).map(choice), kind.needsTenor ? undefined : "all");
    showOptions(
      byId("category"),
      (lists.category ?? []).map((value) => ({ value, label: value })),
      "all",
    );
    toggled(byId("category").parentElement, lists.category?.length > 1);
    showWays();
  }

  function offer(name) {
    const names = lists[name];
    byId(name).list.replaceChildren(
      ...names.slice(0, MOST_OFFERED).map((value) => html("option", { value })),
    );
    if (!names.includes(byId(name).value)) byId(name).value = names[0] ?? "";
  }

  async function loadSpan(signal) {
    const { body } = await service.ask(
      "holdings",
      filters(["rawSymbol", "coin", "normalizedSymbol"]),
      signal,
    );
    span = lake.spanOf(body.holdings);
    byId("held").textContent = span
      ? `Held: ${minuteText(span[0])} to ${minuteText(span[1])}.`
      : "The lake holds nothing of it.";
    if (span && !isOwnWindow) suggestWindow();
  }

  // --- the window ---

  function setWindow(seconds) {
    if (!span) return;
    const [from, to] = newestWindow(
      span,
      seconds,
      stepOf(read()),
      INTERVALS.get(byId("interval").value)?.offset,
    );
    byId("from").value = timeText(from);
    end = timeText(to);
    byId("to").value = isLive() ? "" : end;
  }

  function suggestWindow() {
    byId("interval").value = firstInterval(kind, span);
    setWindow(firstAsked(kind).seconds);
  }

  // By its own length, back or on.
  function moveWindow(direction) {
    const { from, period } = read();
    if (!(period > 0) || from + direction * period < 0) return;
    byId("from").value = timeText(from + direction * period);
    byId("to").value = timeText(from + direction * period + period);
  }

  function windowButton(text, label, move) {
    const button = html(
      "button",
      { type: "button", class: "small", "aria-label": label, title: label },
      text,
    );
    button.addEventListener("click", () => {
      isOwnWindow = true;
      move();
      refresh();
    });
    return button;
  }

  // --- what it weighs, and what is wrong with it ---

  function refresh() {
    if (!kind) return;
    const query = read();
    const wrong = faults(query, isLive());
    const last = span && span[1];
    const weigh = () => (isLive() ? historyWeight(query, last) : weight(query));
    const how = () => (isLive() ? historyText(query, last) : weightText(query));
    const cost = wrong.length ? null : weigh();
    const notes = [...wrong, ...(cost === null ? [] : warnings(query, cost))];
    say(byId("weight"), cost === null ? "Weight –" : `Weight ${grouped(cost)}`);
    say(byId("weight-how"), cost === null ? "" : how());
    say(byId("faults"), notes.join("\n"), () =>
      byId("faults").replaceChildren(...notes.map((text) => html("li", {}, text))),
    );
    byId("send").disabled = wrong.length > 0;
    showLines(wrong.length ? null : query);
  }

  function linesOf(query) {
    if (isLive()) return streamLines(query);
    return [
      ["URL", pointsAddress(query)],
      ["curl", curlLine(query)],
      ["Python", pythonLine(query)],
    ];
  }

  function showLines(query) {
    const lines = query ? linesOf(query) : [];
    say(byId("lines"), lines.join("\n"), () => {
      const none = [html("dd", { class: "quiet" }, "The query is not complete yet.")];
      byId("lines").replaceChildren(
        ...(lines.length ? lines.flatMap(([name, text]) => lineOf(name, text)) : none),
      );
    });
  }

  // --- choosing ---

  // One thing is looked up at a time, and the form says for how long.
  async function looked(up) {
    const signal = loading.next();
    form.setAttribute("aria-busy", true);
    refresh();
    try {
      await up(signal);
    } finally {
      if (loading.isCurrent(signal)) form.setAttribute("aria-busy", false);
    }
    refresh();
  }

  async function loadAll(signal) {
    await loadLists(signal);
    await loadSpan(signal);
  }

  async function chosen(name, exchanges) {
    kind = KINDS.get(name);
    byId("type").value = name;
    isOwnWindow = false;
    lists = {};
    showParameters();
    showExchanges(exchanges);
    showWays();
    await looked(loadAll);
  }

  async function chooseMarket({ exchange, rawSymbol, tenor }) {
    const { types } = (await service.ask("v1/types", new URLSearchParams({ exchange, rawSymbol }))).body;
    if (!types.length) return;
    byId("type").focus();
    await chosen(types.includes(kind.name) ? kind.name : types[0], [exchange]);
    const way = kind.ways.find((names) => names.includes("rawSymbol"));
    const radio = [...form.querySelectorAll("input[name=way]")].find(({ value }) => value === way?.join("+"));
    if (radio) radio.checked = true;
    byId("rawSymbol").value = rawSymbol;
    if (tenor && kind.takes.includes("tenor")) byId("tenor").value = tenor;
    showSelectors();
    await changed(byId("rawSymbol"));
  }

  async function changed({ id, name }) {
    if (id === "live") return changeLive();
    if (name === "type") return chosen(byId("type").value);
    if (name === "exchange") return looked(loadAll);
    if (name === "way") showSelectors();
    if (["from", "to", "interval"].includes(name)) isOwnWindow = true;
    if (name === "way" || name in WAYS) return looked(loadSpan);
    return refresh();
  }

  form.addEventListener("change", ({ target }) => guarded(here, () => changed(target)));
  form.addEventListener("input", refresh);
  document.addEventListener("quota", refresh);
  byId("spans").append(
    ...WINDOWS.map(([text, seconds]) => windowButton(text, `The newest ${text}`, () => setWindow(seconds))),
    windowButton("←", "Earlier, by the length of the window", () => moveWindow(-1)),
    windowButton("→", "Later, by the length of the window", () => moveWindow(1)),
  );

  return {
    read,
    isLive,
    // What the history of a query weighs, as far as the lake was known to hold it.
    historyWeight: (query) => historyWeight(query, span && span[1]),
    // Offer what the lake holds; what no tier of this key includes is listed and cannot be chosen.
    async open() {
      const held = lake.typesHeld().map((name) => KINDS.get(name));
      const option = (one) =>
        html(
          "option",
          { value: one.name, disabled: !quota.permits(one) },
          `${one.title}${quota.permits(one) ? "" : " (not in this tier)"}`,
        );
      byId("type").replaceChildren(...held.map(option));
      const usual = held.find(({ name }) => name === "TRADE_SIDE_AGNOSTIC_AGG") ?? held.find(quota.permits);
      if (usual) await chosen(usual.name);
      else byId("query").hidden = true;
    },
    chooseType: (name) =>
      guarded(here, async () => {
        byId("type").focus();
        await chosen(name);
      }),
    chooseMarket: (market) => guarded(here, () => chooseMarket(market)),
  };
})();
