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
  let drawing = null;
  let at = -1; // the stop that is told, none before the first
  let drawnWidth = 0; // pixels

  const drawOf = (kind) => DRAWINGS[kind.name] ?? drawLines;

  function groupsOf({ kind, series }) {
    if (drawOf(kind) === drawLines) return [{ label: "all", series }];
    if (drawOf(kind) !== drawBars) return series.map((one) => ({ label: one.label, series: [one] }));
    const sides = Map.groupBy(series, ({ id }) => labelOf({ ...id, side: undefined }));
    return [...sides].map(([label, members]) => ({ label, series: members }));
  }

  function fieldsOf(kind) {
    const numeric = kind.fields.filter((field) => field.kind === "double");
    const usual =
      numeric.find(({ name }) => name === FIELDS[kind.name]) ??
      numeric.find(({ name }) => /close$/i.test(name));
    return { numeric, usual: usual ?? numeric[0] };
  }

  // --- what can be chosen ---

  function picker(label, options, selected, choose) {
    const select = html(
      "select",
      {},
      ...options.map((text, place) => html("option", { value: place, selected: place === selected }, text)),
    );
    select.addEventListener("change", () => choose(Number(select.value)));
    return html("label", { class: "inline" }, `${label} `, select);
  }

  function pointSlider(points) {
    const told = html("output", {}, timestampText(points[chosen.point].timestamp));
    const slider = html("input", { type: "range", min: 0, max: points.length - 1, value: chosen.point });
    slider.addEventListener("input", () => {
      chosen.point = Number(slider.value);
      told.textContent = timestampText(points[chosen.point].timestamp);
      draw();
    });
    return html("label", { class: "inline grow" }, "Point ", slider, " ", told);
  }

  function controls() {
    const groups = groupsOf(answer);
    const { numeric } = fieldsOf(answer.kind);
    const isOfPoint = [drawProfile, drawTpo].includes(drawOf(answer.kind));
    const points = groups.length ? inOrder(answer, groups[chosen.group].series[0].points) : [];
    const found = [];
    if (groups.length > 1) {
      found.push(
        picker(
          "Series",
          groups.map(({ label }) => label),
          chosen.group,
          (group) => choose({ group, point: 0 }),
        ),
      );
    }
    if (drawOf(answer.kind) === drawLines && numeric.length > 1) {
      const place = numeric.indexOf(chosen.field);
      found.push(
        picker(
          "Value",
          numeric.map(({ column }) => column),
          place,
          (field) => choose({ field: numeric[field] }),
        ),
      );
    }
    if (isOfPoint && points.length > 1) found.push(pointSlider(points));
    byId("chart-controls").replaceChildren(...found);
  }

  function choose(changed) {
    chosen = { ...chosen, ...changed };
    controls();
    draw();
  }

  // --- drawing ---

  function draw() {
    const host = byId("plot");
    if (!answer || !host.clientWidth) return;
    const [width, height] = [host.clientWidth, host.clientWidth < 560 ? 340 : 420];
    drawnWidth = width;
    const group = groupsOf(answer)[chosen.group];
    drawing = group ? drawOf(answer.kind)({ answer, series: group.series, ...chosen, width, height }) : null;
    at = -1;
    byId("readout").textContent = "";
    byId("legend").replaceChildren(
      ...(drawing?.legend ?? []).map(([tone, text]) => html("li", {}, html("i", { class: tone }), text)),
    );
    byId("caption").textContent = drawing?.caption ?? "";
    host.replaceChildren(
      ...(drawing
        ? pictureOf(drawing, width, height)
        : [html("p", { class: "empty" }, "No data in this window.")]),
    );
  }

  function pictureOf({ parts, caption, canvas }, width, height) {
    const cursor = svg("path", { class: "cursor", id: "cursor" });
    const picture = svg(
      "svg",
      {
        width,
        height,
        viewBox: `0 0 ${width} ${height}`,
        role: "img",
        tabindex: 0,
        "aria-label": `${caption} Arrow keys read its values.`,
      },
      ...parts,
      cursor,
    );
    picture.addEventListener("pointermove", ({ clientX, clientY }) => {
      const { left, top } = picture.getBoundingClientRect();
      told({ x: clientX - left, y: clientY - top });
    });
    picture.addEventListener("keydown", stepped);
    if (!canvas) return [picture];
    const { shape, left, right, top, bottom } = canvas; // below the picture
    Object.assign(shape.style, {
      left: `${left}px`,
      top: `${top}px`,
      width: `${right - left}px`,
      height: `${bottom - top}px`,
    });
    return [shape, picture];
  }

  // --- what is under the pointer, or where the arrow keys went ---

  function told(pixels) {
    const { stops, along } = drawing;
    const far = (place) => Math.abs(stops[place] - pixels[along]);
    at = stops.reduce((best, _, place) => (far(place) < far(best) ? place : best), 0);
    tell(pixels);
  }

  const KEYS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 };

  function stepped(event) {
    if (!KEYS[event.key]) return;
    event.preventDefault();
    at = Math.max(0, Math.min(drawing.stops.length - 1, at + KEYS[event.key]));
    const { width, height } = byId("plot").getBoundingClientRect();
    tell({ x: width / 2, y: height / 2, [drawing.along]: drawing.stops[at] });
  }

  function tell(pixels) {
    const box = boxOf(byId("plot").clientWidth, Number(byId("plot").lastElementChild.getAttribute("height")));
    const place = crisp(drawing.stops[at]);
    const line =
      drawing.along === "x" ? `M${place} ${box.top}V${box.bottom}` : `M${box.left} ${place}H${box.right}`;
    byId("cursor").setAttribute("d", line);
    byId("readout").textContent = drawing.tell(at, pixels);
  }

  return {
    show(found) {
      answer = found;
      chosen = { group: 0, field: fieldsOf(found.kind).usual, point: 0 };
      controls();
      draw();
    },
    draw,
    fit() {
      if (byId("plot").clientWidth !== drawnWidth) draw();
    },
  };
})();
