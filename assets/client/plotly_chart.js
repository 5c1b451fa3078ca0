/* A Plotly figure in the page's theme, with its summary and, when opened, its table.
   Events: "refresh" {version} when it is on show and stale; "cell" {x, y, curve} when a point is clicked.
   A figure may name the page's colours as "var(--gf-name)". Facts that may come with it, none of them needed:
   selects {x: "key", y: "query"}: which parts of the shared selection a click on a point sets.
   outlines {x: "key", y: "query"}: the parts of the selection whose cell is outlined.
   width {min, max} in px: narrower than min it scrolls, wider than max it stops growing.
   text_from in px: narrower than this, texts in cells or at points are left out. */
const plot = element.querySelector(".gf-chart-plot");
const summary = element.querySelector(".gf-chart-summary");
const details = element.querySelector(".gf-chart-table");
let chart = null;
let drawnAt = 0;
let revision = 0;

/* plotly.js comes from this server, once, when the first figure is looked at. */
function plotly() {
  window.glassformerPlotly ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = `${(window.gradio_config?.root || "").replace(/\/$/, "")}/plotly/plotly.min.js`;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => {
      window.glassformerPlotly = undefined;
      reject(new Error(`cannot load ${script.src}`));
    };
    document.head.append(script);
  });
  return window.glassformerPlotly;
}

/* A copy of a part of the figure in which every var(--gf-name) is the colour that the theme in force gives it. */
function themed(part) {
  if (typeof part === "string") return part.replace(/var\(--gf-([\w-]+)\)/g, (_, name) => glassformer.colour(name));
  if (Array.isArray(part)) return part.map(themed);
  if (part && typeof part === "object")
    return Object.fromEntries(Object.entries(part).map(([name, value]) => [name, themed(value)]));
  return part;
}

/* The outline of the cell that the selection names; an outline in the ground's colour keeps it apart from any cell. */
function shapes() {
  const own = themed(chart.figure.layout.shapes || []);
  if (!chart.outlines) return own;
  const [column, row] = [chart.outlines.x, chart.outlines.y].map((name) => glassformer.selection[name] ?? null);
  if (column === null || row === null) return own;
  const box = { type: "rect", x0: column - 0.5, x1: column + 0.5, y0: row - 0.5, y1: row + 0.5 };
  const lines = [["ground", 7], ["text", 3]].map(([name, width]) => ({ color: glassformer.colour(name), width }));
  return [...own, ...lines.map((line) => ({ ...box, line }))];
}

async function draw() {
  if (!chart || !plot.offsetParent) return;
  const Plotly = await plotly();
  const template = window.glassformerTemplates[glassformer.isDark() ? "dark" : "light"];
  const { min, max } = chart.width || {};
  plot.style.minWidth = min ? `${min}px` : "";
  plot.style.maxWidth = max ? `${max}px` : "";
  drawnAt = plot.clientWidth;
  // uirevision: a new theme or width keeps the visitor's zoom, a new figure does not.
  const layout = { ...themed(chart.figure.layout), shapes: shapes(), template, width: drawnAt, uirevision: revision };
  const wordless = drawnAt < (chart.text_from || 0);
  const data = themed(chart.figure.data).map((trace) => (wordless ? { ...trace, texttemplate: "" } : trace));
  await Plotly.react(plot, data, layout, {
    displaylogo: false,
    showSendToCloud: false,
    responsive: false,
    modeBarButtonsToRemove: ["select2d", "lasso2d", "autoScale2d"],
    toImageButtonOptions: { filename: chart.filename || "glassformer", scale: 2 },
  });
  if (!plot.dataset.listens) {
    plot.dataset.listens = "yes";
    plot.on("plotly_click", ({ points: [point] }) => {
      trigger("cell", { x: point.x, y: point.y, curve: point.curveNumber });
      if (chart.selects) glassformer.select({ [chart.selects.x]: point.x, [chart.selects.y]: point.y });
    });
  }
}

function fillTable() {
  if (!chart || !details.open) return;
  const table = document.createElement("table");
  const rows = [chart.table.columns, ...chart.table.rows];
  rows.forEach((cells, i) => {
    const row = table.insertRow();
    cells.forEach((cell, j) => {
      const box = document.createElement(i === 0 || j === 0 ? "th" : "td");
      if (i === 0 || j === 0) box.scope = i === 0 ? "col" : "row";
      box.textContent = cell === null ? "" : String(cell);
      row.append(box);
    });
  });
  details.querySelector("div").replaceChildren(table);
}

function receive() {
  if (!props.value) return;
  chart = JSON.parse(props.value);
  revision += 1;
  summary.textContent = chart.summary;
  plot.setAttribute("aria-label", chart.summary);
  fillTable();
  draw();
}

details.addEventListener("toggle", fillTable);
watch("value", receive);
glassformer.on("theme", element, draw);
glassformer.on("selection", element, ({ changed }) => {
  if (!chart?.outlines || !plot.dataset.listens || !Object.values(chart.outlines).some((name) => changed.includes(name))) return;
  window.Plotly.relayout(plot, { shapes: shapes() });
});
new ResizeObserver(() => {
  if (plot.clientWidth && plot.clientWidth !== drawnAt) draw();
}).observe(plot);
glassformer.whenStale(element, (version) => trigger("refresh", { version }));
glassformer.translate(element);
receive();
