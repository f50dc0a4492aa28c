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
  let offered = ""; // which controls stand
  let moveSlider = () => {};

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

  const pointsShown = () => {
    const group = groupsOf(answer)[chosen.group];
    return inOrder(answer, group?.series[0]?.points ?? []); // a group of lines may be empty
  };

  function pointSlider() {
    const time = html("output");
    const slider = html("input", { type: "range", min: 0 });
    moveSlider = (points) => {
      slider.max = points.length - 1;
      slider.value = chosen.point;
      time.textContent = timestampText(points[chosen.point].timestamp);
    };
    slider.addEventListener("input", () => {
      chosen.point = Number(slider.value);
      moveSlider(pointsShown());
      draw();
    });
    return html("label", { class: "inline grow" }, "Point ", slider, " ", time);
  }

  function controls() {
    const groups = groupsOf(answer);
    const numeric = numericOf(answer.kind);
    const isOfPoint = [drawProfile, drawTpo].includes(drawOf(answer.kind));
    const points = pointsShown();
    const labels = groups.map(({ label }) => label);
    const hasSlider = isOfPoint && points.length > 1;
    const offer = JSON.stringify([answer.kind.name, labels, hasSlider]);
    // Those that stand keep the focus.
    if (offer === offered) {
      if (hasSlider) moveSlider(points);
      return;
    }
    offered = offer;
    const inputs = [];
    if (groups.length > 1) {
      inputs.push(picker("Series", labels, chosen.group, (group) => choose({ group, point: 0 })));
    }
    if (drawOf(answer.kind) === drawLines && numeric.length > 1) {
      const names = numeric.map(({ column }) => column);
      const place = numeric.indexOf(chosen.field);
      inputs.push(picker("Value", names, place, (field) => choose({ field: numeric[field] })));
    }
    if (hasSlider) {
      inputs.push(pointSlider());
      moveSlider(points);
    }
    byId("chart-controls").replaceChildren(...inputs);
  }

  function choose(changed) {
    chosen = { ...chosen, ...changed };
    controls();
    draw();
  }

  // --- drawing ---

  const sizeOf = ({ clientWidth: width }) => ({ width, height: width < 560 ? 340 : 420 });

  function drawn() {
    const group = groupsOf(answer)[chosen.group];
    return group && drawOf(answer.kind)({ answer, series: group.series, ...chosen });
  }

  function showLegend({ legend = [] }) {
    byId("legend").replaceChildren(
      ...legend.map(([tone, text]) => html("li", {}, html("i", { class: tone }), text)),
    );
  }

  function draw() {
    const host = byId("plot");
    if (!answer || !host.clientWidth) return;
    const drawing = drawn();
    shown?.destroy();
    shown = null;
    const { titles = [] } = drawing ?? {};
    byId("readout").textContent = "";
    byId("caption").textContent = "";
    showLegend(drawing ?? {});
    byId("zoom-out").hidden = true;
    if (!drawing) {
      host.replaceChildren(html("p", { class: "empty" }, answer.empty ?? "No data in this window."));
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
      offered = "";
      controls();
      draw();
    },
    // Show an answer that has become longer: what is chosen stays, and of profiles the newest one is followed.
    grow(longer) {
      const label = groupsOf(answer)[chosen.group]?.label;
      const points = pointsShown();
      const isNewest = chosen.point >= points.length - 1;
      const time = points[chosen.point]?.timestamp;
      answer = longer;
      const group = groupsOf(answer).findIndex((one) => one.label === label);
      chosen.group = Math.max(0, group);
      const now = pointsShown();
      const place = isNewest ? now.length - 1 : now.findIndex((point) => inTime(point.timestamp, time) === 0);
      chosen.point = Math.max(0, place);
      controls();
      const drawing = shown && byId("plot").clientWidth ? drawn() : null;
      if (!drawing || !shown.canShow(drawing)) {
        draw();
        return;
      }
      showLegend(drawing);
      shown.grow(drawing);
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
