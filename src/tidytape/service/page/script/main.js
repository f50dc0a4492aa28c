// --- the page: a key first, then what there is, then questions ---

const asking = turns();
const entering = turns();

// --- the key ---

async function enter(event) {
  event.preventDefault();
  const field = byId("key");
  service.use(field.value.trim());
  byId("entry-refusal").replaceChildren();
  const signal = entering.next();
  try {
    await service.ask("v1/usage", "", signal);
    field.value = "";
    toggled(byId("entry"), false);
    toggled(byId("account"), true);
    toggled(byId("room"), true);
    byId("lake-title").focus();
    await guarded(byId("lake-refusal"), async () => {
      await lake.load(signal);
      await builder.open();
    });
  } catch (error) {
    if (error.name === "AbortError") return;
    if (!(error instanceof Refusal)) throw error;
    service.forget();
    showRefusal(byId("entry-refusal"), error);
    field.select();
  }
}

// Everything that the key has brought goes with it: loading the page again is the surest way.
function forget() {
  service.forget();
  location.reload();
}

// --- a question ---

async function send(event) {
  event.preventDefault();
  const query = builder.read();
  if (faults(query, builder.isLive()).length) return;
  const signal = asking.next();
  byId("live-figures").hidden = true;
  if (builder.isLive()) {
    await goLive(query, signal);
    return;
  }
  waiting(true);
  tell("Asking …");
  byId("answer-refusal").replaceChildren();
  try {
    const { body, requestId } = await service.ask("v1/points", parametersOf(query), signal);
    show(answerOf(body, query, requestId));
    waiting(false);
  } catch (error) {
    if (error.name === "AbortError" && asking.isCurrent(signal)) stopped();
    if (error.name === "AbortError") return;
    waiting(false);
    if (!(error instanceof Refusal)) throw error;
    byId("answer-body").hidden = true;
    tell("The service refused.");
    showRefusal(byId("answer-refusal"), error);
  }
}

function stopped() {
  waiting(false);
  tell("Stopped. What was not answered is not charged.");
}

function waiting(isWaiting) {
  byId("answer").setAttribute("aria-busy", isWaiting);
  byId("stop").hidden = !isWaiting;
}

const tell = (text) => byId("answer-status").replaceChildren(text);

function show(answer) {
  const { query, series, requestId } = answer;
  byId("answer-body").hidden = false;
  tell(
    [
      KINDS.get(query.type).title,
      `${counted(rowCount(answer), "row")} in ${counted(series.length, "series", "series")}`,
      `weight ${grouped(weight(query))}`,
      `request ${requestId}`,
    ].join(" · "),
  );
  chart.show(answer);
  showRows(answer);
}

// --- lines to copy ---

function lineOf(name, text) {
  const code = html("code", { tabindex: 0 }, text);
  const button = html("button", { type: "button", class: "small", "aria-label": `Copy ${name}` }, "Copy");
  button.addEventListener("click", () => copied(text, code, button));
  return [html("dt", {}, name), html("dd", {}, code, button)];
}

async function copied(text, code, button) {
  try {
    await navigator.clipboard.writeText(text); // not there on an address without https, nor where it is not allowed
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(code);
    button.textContent = "Selected";
  }
  setTimeout(() => {
    button.textContent = "Copy";
  }, 1500);
}

// --- beginning ---

byId("key-header").textContent = FACTS.keyHeader;
byId("key-form").addEventListener("submit", enter);
byId("forget").addEventListener("click", forget);
byId("query").addEventListener("submit", send);
byId("stop").addEventListener("click", () => asking.stop());
addEventListener("pagehide", () => asking.stop());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", chart.draw);
new ResizeObserver(debounced(chart.fit, 100)).observe(byId("plot"));
byId("key").focus();
