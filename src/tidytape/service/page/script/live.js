// --- a live query: its stream, drawn as it grows, with its state in words ---

const REDRAW = 500; // [ms] between two drawings at least
const SHARE = 10; // and so many times as long as a drawing takes

// Call a function after changes, however many there are, now and then, and not while the page is hidden.
function drawnNowAndThen(draw, signal) {
  let timer = 0;
  let earliest = 0;
  let isDue = false;

  function run() {
    timer = 0;
    if (document.hidden || !asking.isCurrent(signal)) return;
    isDue = false;
    const began = performance.now();
    draw();
    const end = performance.now();
    earliest = end + Math.max(REDRAW, SHARE * (end - began));
  }

  function soon() {
    isDue = true;
    if (!timer) timer = setTimeout(run, Math.max(0, earliest - performance.now()));
  }

  const seen = () => isDue && soon();
  document.addEventListener("visibilitychange", seen);
  return {
    soon,
    end() {
      document.removeEventListener("visibilitychange", seen);
      clearTimeout(timer);
      if (isDue) run();
    },
  };
}

function showGrown(state) {
  const answer = state.answer();
  chart.grow(answer);
  showRows(answer, { title: "Newest rows", listed: state.newest(SHOWN_ROWS), added: [CHANGE] });
  const newest = answer.series.length ? state.newest(1).series[0].points[0].timestamp : null;
  const points = answer.series.reduce((sum, one) => sum + one.points.length, 0);
  byId("live-figures").textContent = [
    newest ? `Newest point ${timestampText(newest)}` : "No point yet",
    state.over() && `the interval of ${timestampText(state.over())} is over`,
    `${counted(points, "point")} in ${counted(answer.series.length, "series", "series")}`,
    state.gone() && `those up to ${timestampText(state.gone())} were let go`,
  ]
    .filter(Boolean)
    .join(" · ");
}

async function goLive(query, signal) {
  const state = growing(query);
  const weighed = builder.historyWeight(query);
  const drawing = drawnNowAndThen(() => showGrown(state), signal);
  const now = () => secondText(Date.now() / 1000);
  let begin = null;

  const opened = (requestId) => {
    const again = begin ? ` Connected again at ${now()}.` : "";
    begin ??= now();
    const weight = `weight of the history ${grouped(weighed)}, of what is live 0`;
    tell(`Live since ${begin} UTC.${again} ${KINDS.get(query.type).title} · ${weight} · request ${requestId}`);
    if (again) return;
    byId("answer-body").hidden = false;
    byId("live-figures").hidden = false;
    chart.show(state.answer());
    showGrown(state);
  };
  const applied = (line) => {
    state.apply(line);
    drawing.soon();
  };
  const waits = (why, seconds) => tell(`Connecting again in ${counted(seconds, "second")}: ${why}.`);

  waiting(false);
  byId("stop").hidden = false;
  tell("Opening the stream …");
  byId("answer-refusal").replaceChildren();
  try {
    const { code, message } = await followed(query, signal, { opened, applied, waits });
    ended(`Ended at ${now()} UTC: ${message} (${code}).`);
  } catch (error) {
    if (error.name === "AbortError" && asking.isCurrent(signal)) ended(`Stopped at ${now()} UTC.`);
    if (error.name === "AbortError") return;
    if (!(error instanceof Refusal)) throw error;
    byId("answer-body").hidden = !begin;
    ended(begin ? `Ended at ${now()} UTC: the service refused to go on.` : "The service refused.");
    showRefusal(byId("answer-refusal"), error);
  } finally {
    drawing.end();
  }
}

function ended(why) {
  waiting(false);
  tell(why);
}
