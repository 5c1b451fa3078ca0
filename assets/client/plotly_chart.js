/* A Plotly figure in the page's theme, with its summary and, when opened, its table.
   Events: "refresh" {version} when it is on show and stale; "cell" {x, y, curve} when a point is clicked. */
const plot = element.querySelector(".gf-chart-plot");
const summary = element.querySelector(".gf-chart-summary");
const details = element.querySelector(".gf-chart-table");
let chart = null;
let drawnAt = 0;

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

async function draw() {
  if (!chart || !plot.offsetParent) return;
  const Plotly = await plotly();
  const template = window.glassformerTemplates[glassformer.isDark() ? "dark" : "light"];
  drawnAt = plot.clientWidth;
  await Plotly.react(plot, chart.figure.data, { ...chart.figure.layout, template, width: drawnAt }, {
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
  summary.textContent = chart.summary;
  plot.setAttribute("aria-label", chart.summary);
  fillTable();
  draw();
}

details.addEventListener("toggle", fillTable);
watch("value", receive);
glassformer.on("theme", element, draw);
new ResizeObserver(() => {
  if (plot.clientWidth && plot.clientWidth !== drawnAt) draw();
}).observe(plot);
glassformer.whenStale(element, (version) => trigger("refresh", { version }));
glassformer.translate(element);
receive();
