/* What the views of trainings share: lists of points that grow, numbers as they are read, and a panel of curves. */
const margin = { left: 60, right: 14, top: 10, bottom: 26 };
let palette = {}; // asked for once a theme: each question makes the browser work out its styles anew
const colour = (name) => (palette[name] ??= glassformer.colour(name));
const percent = (share, digits = 1) => `${(share * 100).toFixed(digits)} %`;
const seconds = (value) => glassformer.t("train.n_seconds", { n: value < 100 ? value.toFixed(1) : Math.round(value) });
const number = (value) => (value === 0 ? "0" : Math.abs(value) >= 100 || Math.abs(value) < 0.001 ? value.toExponential(1) : String(Number(value.toPrecision(3))));

/* Add the points of a delta that are not there yet. False: some before them are missing. */
function merge(list, first, points) {
  if (first > list.length) return false;
  list.push(...points.slice(list.length - first));
  return true;
}

/* The next round number. */
function round(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((factor) => factor * power).find((candidate) => candidate >= value * 0.999);
}

/* The next round distance between two marks on an axis of steps. */
function roundStep(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= value * 0.999);
}

/* The last step on the axis: while a training runs it grows in rounds, at the end it fits. */
function lastStepOf(done, total, isRunning) {
  if (!isRunning) return Math.max(done, 1);
  const grid = roundStep(Math.max(done, 50) / 4);
  return Math.min(total, Math.ceil((done * 1.02) / grid) * grid);
}

const panelFont = () => `14px ${getComputedStyle(element).getPropertyValue("--gf-font") || "sans-serif"}`;

/* Curves over steps: series are {points: [step, value], colour, width, faint, dots, dash}; ticks are values, and
   lines the values drawn across as goals. Where there is no point yet, words stand instead. */
function paintPanel(canvas, { height, series, steps, highest, ticks, tickText, lines = [], pointed = null, words }) {
  const width = canvas.parentElement.clientWidth;
  if (!width) return;
  const context = glassformer.fitCanvas(canvas, width, height);
  context.font = panelFont();
  context.textBaseline = "middle";
  if (!series.some(({ points }) => points.length)) {
    context.fillStyle = colour("muted");
    context.textAlign = "center";
    context.fillText(words, width / 2, height / 2);
    canvas.dataset.last = 0;
    return;
  }
  const inner = { width: width - margin.left - margin.right, height: height - margin.top - margin.bottom };
  const x = (step) => margin.left + (inner.width * step) / steps;
  const y = (value) => margin.top + inner.height * (1 - Math.min(value, highest) / highest);
  const across = (value) => {
    context.beginPath();
    context.moveTo(margin.left, Math.round(y(value)) + 0.5);
    context.lineTo(width - margin.right, Math.round(y(value)) + 0.5);
    context.stroke();
  };
  context.lineWidth = 1;
  context.textAlign = "right";
  for (const tick of ticks) {
    context.strokeStyle = colour("line");
    across(tick);
    context.fillStyle = colour("muted");
    context.fillText(tickText(tick), margin.left - 8, y(tick));
  }
  context.textBaseline = "top";
  const grid = roundStep(steps / Math.max(2, Math.floor(inner.width / 90)));
  for (let tick = 0; tick <= steps; tick += grid) {
    context.textAlign = tick === 0 ? "left" : x(tick) > width - margin.right - 18 ? "right" : "center";
    context.fillText(String(Math.round(tick)), x(tick), height - margin.bottom + 7);
  }
  context.strokeStyle = colour("good");
  context.setLineDash([5, 4]);
  lines.forEach(across);
  for (const { points, colour: name, width: stroke, faint, dots, dash } of series) {
    context.strokeStyle = context.fillStyle = colour(name);
    context.globalAlpha = faint ? 0.55 : 1;
    context.lineWidth = stroke;
    context.lineJoin = "round";
    context.setLineDash(dash ?? []);
    context.beginPath();
    for (const [step, value] of points) context.lineTo(x(step), y(value));
    context.stroke();
    context.globalAlpha = 1;
    if (!dots) continue;
    for (const [step, value] of points) {
      context.beginPath();
      context.arc(x(step), y(value), points.length > 30 ? 2 : 3, 0, 2 * Math.PI);
      context.fill();
    }
  }
  context.setLineDash([]);
  if (pointed !== null && pointed <= steps) {
    context.strokeStyle = colour("text");
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x(pointed), margin.top);
    context.lineTo(x(pointed), height - margin.bottom);
    context.stroke();
  }
  canvas.dataset.last = steps;
}

/* Pointer and keys choose a step of a panel: point(step), null for none; pointed() is the one chosen now. */
function onStepOf(canvas, pointed, point) {
  const last = () => Number(canvas.dataset.last);
  const within = (step) => point(Math.max(0, Math.min(last(), step)));
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    within(Math.round((last() * (event.clientX - box.left - margin.left)) / (box.width - margin.left - margin.right)));
  });
  canvas.addEventListener("pointerleave", () => point(null));
  canvas.addEventListener("blur", () => point(null));
  canvas.addEventListener("keydown", (event) => {
    const from = pointed() ?? 0;
    const wanted = { ArrowLeft: from - 1, ArrowRight: from + 1, PageUp: from - 50, PageDown: from + 50, Home: 0, End: last() }[event.key];
    if (wanted === undefined) return;
    within(wanted);
    event.preventDefault();
  });
}

/* One repaint at a time, however many deltas came, and never more than a quarter of a slow machine's time:
   the page must go on hearing clicks, Stop above all. */
function repainter(draw) {
  let painting = false;
  let spent = 0; // milliseconds the last painting took
  return () => {
    if (painting) return;
    painting = true;
    const paint = () => {
      painting = false;
      const began = performance.now();
      draw();
      spent = performance.now() - began;
    };
    setTimeout(() => requestAnimationFrame(paint), Math.min(1000, 3 * spent));
  };
}

/* A legend below a panel's title: series are {key, colour, faint, dash}. */
function fillPanelLegend(legend, titleText, series) {
  const words = [titleText, ...series.map(({ key }) => glassformer.t(key))].join("|");
  if (legend.dataset.words === words) return;
  legend.dataset.words = words;
  legend.replaceChildren(glassformer.node("strong", "", titleText), ...series.map(({ key, colour, faint, dash }) => {
    const entry = glassformer.node("span", "gf-legend", glassformer.t(key));
    entry.style.setProperty("--gf-legend", `var(--gf-${colour})`);
    entry.classList.toggle("gf-legend-faint", Boolean(faint));
    entry.classList.toggle("gf-legend-dashed", Boolean(dash));
    return entry;
  }));
}

function tokens(list, className) {
  const box = document.createElement("span");
  box.className = className;
  for (const token of list) {
    const piece = document.createElement("span");
    piece.textContent = token.label ?? token;
    if (token.right === false) piece.className = "gf-wrong";
    box.append(piece);
  }
  return box;
}

/* What was written: its tokens, wrong ones marked, a dash for each that is missing, and whether it is right. */
function writtenTokens({ tokens: list, missing }) {
  const written = tokens(list, "gf-tokens");
  for (let i = 0; i < missing; i += 1) written.append(glassformer.node("span", "gf-wrong", "–"));
  const isRight = !missing && list.every((token) => token.right);
  const mark = glassformer.node("span", `gf-mark gf-mark-${isRight ? "right" : "wrong"}`, glassformer.t(isRight ? "train.right" : "train.wrong"));
  return [written, mark];
}
