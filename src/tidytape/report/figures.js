"use strict";
{
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const isNarrow = innerWidth <= 600;
  const draw = (place) => {
    const figure = figures[place.id];
    if (!figure) return;
    delete figures[place.id];
    if (isNarrow) {
      // A finger moves the page, and there is room for less.
      figure.layout.dragmode = false;
      figure.layout.title.subtitle.font.size = 10;
      figure.layout.margin = { l: 10, r: 10, t: figure.layout.margin.t, b: 10 };
      for (const name of Object.keys(figure.layout)) {
        const axis = figure.layout[name];
        if (axis?.type === "date") Object.assign(axis, { nticks: 4, tickangle: 0 });
      }
    }
    const displayModeBar = isNarrow ? false : "hover";
    Plotly.newPlot(place, figure.data, figure.layout, { responsive: true, displaylogo: false, displayModeBar });
  };
  // A figure is drawn when it comes near the window: all of them at once would take seconds.
  const watch = new IntersectionObserver(
    (entries) => {
      for (const entry of entries.filter((one) => one.isIntersecting)) {
        watch.unobserve(entry.target);
        draw(entry.target);
      }
    },
    { rootMargin: "800px" },
  );
  const places = document.querySelectorAll(".plot");
  places.forEach((place) => watch.observe(place));
  addEventListener("beforeprint", () => places.forEach(draw));
}
