/* A chart of lines as SVG: a legend that reads the values at one place, moved by mouse or arrow keys, and a table twin. */
const OUTLIER = 1.6; // times what 95 in 100 values stay below: where an axis that cuts ends
const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

function drawn(tag, attributes, text) {
  const made = document.createElementNS(SVG_NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/* Round steps from 0 (or from the smallest power of 10) to the largest value. */
function ticksOf(low, high, log, wanted) {
  if (log) {
    const powers = [];
    for (let power = Math.ceil(Math.log10(low) - 1e-9); power <= Math.log10(high) + 1e-9; power += 1) powers.push(10 ** power);
    const every = Math.ceil(powers.length / wanted);
    return powers.filter((_, i) => i % every === 0);
  }
  const raw = high / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw - 1e-12);
  return Array.from({ length: Math.floor(high / step + 1e-9) + 1 }, (_, i) => i * step);
}

/* spec: {label, series: [{name, tail, colour, points: [[x, y]]}], x: {name, log, ticks, show}, y: {name, log, show, tick},
   mark: {x, name}, at}. With y.cuts a few values far above all others end at the upper edge. show(value) words a value,
   tick(value) one at the axis; at is the place read first; tail() is an element behind a name in the legend.
   A chart is drawn again by calling it again; the place that is read stays where the visitor put it. */
function makeChart(box) {
  const HEIGHT = 300;
  const legend = node("ul", "gf-cost-legend");
  const svg = drawn("svg", { tabindex: 0, role: "slider", class: "gf-cost-chart", height: HEIGHT });
  const table = node("table", "");
  const scroll = node("div", "gf-table-scroll", table);
  scroll.tabIndex = 0;
  const title = node("summary", "");
  const details = node("details", "gf-chart-table", title, scroll);
  const yName = node("p", "gf-cost-axis", "");
  box.replaceChildren(legend, yName, svg, details);
  let spec = null;
  let place = null;
  let width = 0;
  let move = () => {};

  const places = () => [...new Set(spec.series.flatMap(({ points }) => points.map(([x]) => x)))].sort((a, b) => a - b);
  const nearest = (x) => places().reduce((best, each) => (Math.abs(each - x) < Math.abs(best - x) ? each : best));

  function fillTable() {
    if (!details.open || !spec) return;
    const cell = (tag, words, scope) => {
      const made = node(tag, "", words);
      if (scope) made.scope = scope;
      return made;
    };
    const rows = places().map((x) => node("tr", "", cell("th", spec.x.show(x), "row"), ...spec.series.map(({ points }) => {
      const point = points.find(([at]) => at === x);
      return cell("td", point ? spec.y.show(point[1]) : "");
    })));
    table.replaceChildren(node("tr", "", cell("th", spec.x.name, "col"), ...spec.series.map(({ name }) => cell("th", name, "col"))), ...rows);
  }

  function draw() {
    width = box.clientWidth;
    if (!spec || !width) return;
    const [left, right, top, bottom] = [68, 16, 22, 46];
    const xs = places();
    const ys = spec.series.flatMap(({ points }) => points.map(([, y]) => y));
    const usual = [...ys].sort((a, b) => a - b)[Math.floor(ys.length * 0.95)];
    const cut = spec.y.cuts && Math.max(...ys) > OUTLIER * usual;
    const high = cut ? OUTLIER * usual : Math.max(...ys) * (spec.y.log ? 1.3 : 1.05);
    const low = spec.y.log ? Math.min(...ys) / 1.3 : 0;
    const scaled = (log, from, to, start, end) => (value) => {
      const share = log ? Math.log(value / from) / Math.log(to / from) : (value - from) / (to - from || 1);
      return start + (end - start) * share;
    };
    const X = scaled(spec.x.log, spec.x.log ? xs[0] : Math.min(0, xs[0]), xs[xs.length - 1], left, width - right);
    const exactY = scaled(spec.y.log, low, high, HEIGHT - bottom, top);
    const Y = (value) => Math.max(top, exactY(value));
    const made = [];
    const narrow = width < 420;
    for (const tick of ticksOf(low, high, spec.y.log, 5)) {
      made.push(drawn("line", { class: "gf-cost-grid", x1: left, x2: width - right, y1: Y(tick), y2: Y(tick) }));
      made.push(drawn("text", { class: "gf-cost-tick", x: left - 8, y: Y(tick) + 5, "text-anchor": "end" }, spec.y.tick(tick)));
    }
    const xTicks = spec.x.ticks ? spec.x.ticks.filter((_, i) => !narrow || i % 2 === 0) : ticksOf(0, xs[xs.length - 1], false, narrow ? 3 : 6);
    for (const tick of xTicks)
      made.push(drawn("text", { class: "gf-cost-tick", x: X(tick), y: HEIGHT - bottom + 20, "text-anchor": "middle" }, spec.x.show(tick)));
    made.push(drawn("line", { class: "gf-cost-base", x1: left, x2: width - right, y1: HEIGHT - bottom, y2: HEIGHT - bottom }));
    made.push(drawn("text", { class: "gf-cost-tick", x: (left + width - right) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, spec.x.name));
    if (spec.mark) {
      const at = X(spec.mark.x);
      const anchor = at > width - 170 ? "end" : "start";
      made.push(drawn("line", { class: "gf-cost-mark", x1: at, x2: at, y1: top, y2: HEIGHT - bottom }));
      made.push(drawn("text", { class: "gf-cost-mark-name", x: at + (anchor === "end" ? -6 : 6), y: 14, "text-anchor": anchor }, spec.mark.name));
    }
    for (const { points, colour } of spec.series) {
      const path = points.map(([x, y], i) => `${i ? "L" : "M"}${X(x).toFixed(1)},${Y(y).toFixed(1)}`).join("");
      made.push(drawn("path", { class: "gf-cost-line", d: path, style: `stroke: var(--gf-${colour})` }));
      if (points.length < 12)
        for (const [x, y] of points) made.push(drawn("circle", { cx: X(x), cy: Y(y), r: 3.5, style: `fill: var(--gf-${colour})` }));
    }
    const reader = drawn("g", {});
    svg.setAttribute("width", width);
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    svg.setAttribute("aria-label", spec.label);
    svg.setAttribute("aria-valuemin", xs[0]);
    svg.setAttribute("aria-valuemax", xs[xs.length - 1]);
    svg.replaceChildren(...made, reader);
    yName.textContent = cut ? t("cost.cut", { axis: spec.y.name }) : spec.y.name;
    title.textContent = t("common.as_table");
    scroll.setAttribute("aria-label", t("common.as_table"));

    move = (x) => {
      place = nearest(x);
      const read = spec.series.map((series) => [series, series.points.find(([at]) => at === place)]);
      legend.replaceChildren(
        node("li", "gf-cost-place", spec.x.at(place)),
        ...read.map(([{ name, tail, colour }, point]) => {
          const swatch = node("span", "gf-cost-swatch");
          swatch.style.setProperty("--gf-swatch", `var(--gf-${colour})`);
          return node("li", "", swatch, node("span", "", name, ...(tail ? [" ~ ", tail()] : [])), node("b", "", point ? spec.y.show(point[1]) : "–"));
        }),
      );
      reader.replaceChildren(
        drawn("line", { class: "gf-cost-reader", x1: X(place), x2: X(place), y1: top, y2: HEIGHT - bottom }),
        ...read.filter(([, point]) => point).map(([{ colour }, [px, py]]) =>
          drawn("circle", { class: "gf-cost-dot", cx: X(px), cy: Y(py), r: 5.5, style: `fill: var(--gf-${colour})` })),
      );
      svg.setAttribute("aria-valuenow", place);
      svg.setAttribute("aria-valuetext", legend.innerText.replace(/\s*\n\s*/g, " "));
    };
    svg.onpointermove = (event) => {
      const share = (event.offsetX - left) / (width - left - right);
      const [from, to] = [spec.x.log ? xs[0] : Math.min(0, xs[0]), xs[xs.length - 1]];
      move(spec.x.log ? from * (to / from) ** share : from + share * (to - from));
    };
    move(place ?? spec.at);
    fillTable();
  }

  svg.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10 }[event.key];
    if (!spec || (!step && event.key !== "Home" && event.key !== "End")) return;
    event.preventDefault();
    const all = places();
    const next = step ? all.indexOf(place) + step : event.key === "Home" ? 0 : all.length - 1;
    move(all[Math.max(0, Math.min(all.length - 1, next))]);
  });
  details.addEventListener("toggle", fillTable);
  new ResizeObserver(() => { if (box.clientWidth !== width) draw(); }).observe(box);

  /* start: read the first place again, for lines of something else. */
  return (given, start) => {
    spec = given;
    if (start) place = null;
    draw();
  };
}
