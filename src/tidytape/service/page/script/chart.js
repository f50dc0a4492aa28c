// --- the chart of an answer: which drawing, of which of its series, fields and points ---

const DRAWINGS = {
  TRADE_SIDE_AGNOSTIC_AGG: drawCandles,
  TRADE_AGG: drawCandles,
  LIQUIDATION_AGG: drawBars,
  VOLUME_PROFILE_AGG: drawProfile,
  TPO_AGG: drawTpo,
  BLOCK_BOOK_SNAPSHOT_AGG: drawHeatmap,
  VENUEX_LIQUIDATION_AGG: drawHeatmap,
}; // and lines of all others

const FIELDS = { OPTION_OPEN_INTEREST_AGG: "oiClose" }; // where the first close is not what the type is about

const chart = (() => {
  let answer = null;
  let chosen = { group: 0, field: null, point: 0 };
  let shown = null;

  const drawOf = (kind) => DRAWINGS[kind.name] ?? drawLines;

  function groupsOf({ kind, series }) {
    if (drawOf(kind) === drawLines) return [{ label: "all", series }];
    if (drawOf(kind) !== drawBars) return series.map((market) => ({ label: market.label, series: [market] }));
    const sides = Map.groupBy(series, ({ id }) => labelOf({ ...id, side: undefined }));
    return [...sides].map(([label, members]) => ({ label, series: members }));
  }

  const numericOf = (kind) => kind.fields.filter((field) => field.kind === "double");

  function usualField(kind) {
    const numeric = numericOf(kind);
    const isClose = ({ name }) => (FIELDS[kind.name] ? name === FIELDS[kind.name] : /close$/i.test(name));
    return numeric.find(isClose) ?? numeric[0];
  }

  // --- what can be chosen ---

  function picker(label, options, selected, choose) {
    const option = (text, place) => html("option", { value: place, selected: place === selected }, text);
    const select = html("select", {}, ...options.map(option));
    select.addEventListener("change", () => choose(Number(select.value)));
    return html("label", { class: "inline" }, `${label} `, select);
  }

  function pointSlider(points) {
    const time = html("output", {}, timestampText(points[chosen.point].timestamp));
    const slider = html("input", { type: "range", min: 0, max: points.length - 1, value: chosen.point });
    slider.addEventListener("input", () => {
      chosen.point = Number(slider.value);
      time.textContent = timestampText(points[chosen.point].timestamp);
      draw();
    });
    return html("label", { class: "inline grow" }, "Point ", slider, " ", time);
  }

  function controls() {
    const groups = groupsOf(answer);
    const numeric = numericOf(answer.kind);
    const isOfPoint = [drawProfile, drawTpo].includes(drawOf(answer.kind));
    const points = groups.length ? inOrder(answer, groups[chosen.group].series[0].points) : [];
    const inputs = [];
    if (groups.length > 1) {
      const labels = groups.map(({ label }) => label);
      inputs.push(picker("Series", labels, chosen.group, (group) => choose({ group, point: 0 })));
    }
    if (drawOf(answer.kind) === drawLines && numeric.length > 1) {
      const names = numeric.map(({ column }) => column);
      const place = numeric.indexOf(chosen.field);
      inputs.push(picker("Value", names, place, (field) => choose({ field: numeric[field] })));
    }
    if (isOfPoint && points.length > 1) inputs.push(pointSlider(points));
    byId("chart-controls").replaceChildren(...inputs);
  }

  function choose(changed) {
    chosen = { ...chosen, ...changed };
    controls();
    draw();
  }

  // --- drawing ---

  const sizeOf = ({ clientWidth: width }) => ({ width, height: width < 560 ? 340 : 420 });

  function draw() {
    const host = byId("plot");
    if (!answer || !host.clientWidth) return;
    shown?.destroy();
    shown = null;
    const group = groupsOf(answer)[chosen.group];
    const drawing = group && drawOf(answer.kind)({ answer, series: group.series, ...chosen });
    const { legend = [], titles = [] } = drawing ?? {};
    byId("readout").textContent = "";
    byId("caption").textContent = "";
    byId("legend").replaceChildren(
      ...legend.map(([tone, text]) => html("li", {}, html("i", { class: tone }), text)),
    );
    byId("zoom-out").hidden = true;
    if (!drawing) {
      host.replaceChildren(html("p", { class: "empty" }, "No data in this window."));
      return;
    }
    host.replaceChildren(html("p", { class: "titles" }, ...titles.map((text) => html("span", {}, text))));
    shown = plotOf(host, drawing, sizeOf(host), { read, viewed });
  }

  function read(text) {
    byId("readout").textContent = text;
  }

  function viewed(caption, isWhole) {
    byId("caption").textContent = caption;
    byId("zoom-out").hidden = isWhole;
    const help = "Arrow keys read its values, plus and minus zoom, 0 shows the whole.";
    byId("plot").querySelector(".uplot").setAttribute("aria-label", `${caption} ${help}`);
  }

  byId("zoom-out").addEventListener("click", () => shown?.reset());

  return {
    show(newAnswer) {
      answer = newAnswer;
      chosen = { group: 0, field: usualField(answer.kind), point: 0 };
      controls();
      draw();
    },
    draw,
    fit() {
      const size = sizeOf(byId("plot"));
      if (shown && size.width && shown.plot.width !== size.width) shown.fit(size);
      else if (!shown) draw();
    },
    shown: () => shown,
  };
})();
