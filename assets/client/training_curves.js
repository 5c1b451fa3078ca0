/* The curves of a training as it goes on, from deltas that each name the index of their first point.
   A point sent twice is dropped; when points are missing the view asks for all of them.
   Events: "gap" when points were missed; "finished" when a training is over. */
const find = (selector) => element.querySelector(selector);
const figures = Object.fromEntries([...element.querySelectorAll("[data-figure]")].map((box) => [box.dataset.figure, box]));
const panels = [...element.querySelectorAll(".gf-panel")].map((box) => ({
  name: box.dataset.panel, canvas: box.querySelector("canvas"), legend: box.querySelector("figcaption"),
}));
const margin = { left: 60, right: 14, top: 10, bottom: 26 };
const targets = [0.95, 0.99];
let run = null; // everything known of the run on show
let pointed = null; // the step under the pointer
let painting = false;
let spent = 0; // milliseconds the last painting took

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

function receive() {
  if (!props.value) return;
  const delta = JSON.parse(props.value);
  const isAnother = run && run.id !== delta.run;
  if (!run || isAnother)
    run = { id: delta.run, steps: { loss: [], token_accuracy: [], learning_rate: [] }, evaluations: [], samples: null, finished: false };
  const complete = [
    ...Object.entries(run.steps).map(([name, list]) => merge(list, delta.first_step, delta.steps[name])),
    merge(run.evaluations, delta.first_evaluation, delta.evaluations),
  ].every(Boolean);
  const { steps, evaluations, samples, ...facts } = delta;
  Object.assign(run, facts, { samples: samples || run.samples, samples_step: samples ? delta.samples_step : run.samples_step });
  if (!complete) {
    if (!run.asked) trigger("gap", {});
    run.asked = true;
    return;
  }
  run.asked = false;
  schedule();
  // On a phone the button stands a screen above the curves: bring what it started into view.
  if (isAnother && run.kind !== "shipped" && element.getBoundingClientRect().top > window.innerHeight - 80)
    element.scrollIntoView({ behavior: "smooth", block: "start" });
  const isOver = !["running", "waiting", "shipped"].includes(run.state.code);
  if (isOver && !run.finished) {
    run.finished = true;
    trigger("finished", {});
  }
}

/* One painting at a time, however many deltas came, and never more than a quarter of a slow machine's time:
   the page must go on hearing clicks, Stop above all. */
function schedule() {
  if (painting) return;
  painting = true;
  const paint = () => {
    painting = false;
    const began = performance.now();
    draw();
    spent = performance.now() - began;
  };
  setTimeout(() => requestAnimationFrame(paint), Math.min(1000, 3 * spent));
}

function stateSentence() {
  const { code, values } = run.state;
  const shown = { ...values };
  if (values.exact !== undefined) shown.exact = values.exact === null ? "?" : percent(values.exact);
  if (code === "deadline") shown.seconds = Math.round(run.limit);
  if (code === "shipped") shown.time = run.seconds ? seconds(run.seconds) : "?";
  const fits = run.kind === "fitting" && ["running", "steps"].includes(code);
  const nothing = ["stopped", "deadline"].includes(code) && values.exact === null;
  const ending = code === "stopped" && values.kept === null ? "_waiting" : nothing ? "_unmeasured" : "";
  return glassformer.t(`train.state_${code}${fits ? "_fitting" : ending}`, shown);
}

function drawFigures() {
  const last = run.evaluations[run.evaluations.length - 1];
  const done = run.steps.loss.length || (last ? last.step : 0);
  const losses = run.steps.loss;
  const loss = losses.length ? losses[losses.length - 1] : last && last.loss;
  figures.exact.textContent = last ? percent(last.exact_match) : "–";
  figures.exact_more.textContent = last && last.n ? glassformer.t("train.of_n", { n: last.n, step: last.step }) : "";
  figures.tokens.textContent = last && last.token_accuracy !== null ? percent(last.token_accuracy) : "–";
  figures.loss.textContent = loss === null || loss === undefined ? "–" : number(loss);
  figures.step.textContent = `${done} / ${run.total}`;
  figures.time.textContent = run.seconds === null ? "–" : seconds(run.seconds);
  const running = run.state.code === "running" && done > 0;
  const left = Math.min((run.seconds / Math.max(done, 1)) * (run.total - done), Math.max(0, run.limit - run.seconds));
  figures.left.textContent = running ? glassformer.t("train.left", { time: seconds(left) }) : glassformer.t("train.on_device", { device: run.device });
  const progress = find(".gf-progress");
  progress.firstElementChild.style.width = `${(100 * done) / run.total}%`;
  progress.setAttribute("aria-valuemax", run.total);
  progress.setAttribute("aria-valuenow", done);
  const sentence = stateSentence();
  if (find(".gf-curves-sentence").textContent !== sentence) find(".gf-curves-sentence").textContent = sentence;
  find(".gf-curves").dataset.state = run.state.code;
  find(".gf-curves-badge").textContent = glassformer.t(`train.badge_${run.kind}`);
}

const perStep = (name) => run.steps[name].map((value, i) => [i + 1, value]);
const perEvaluation = (name) => run.evaluations.filter((entry) => entry[name] !== null).map((entry) => [entry.step, entry[name]]);

function seriesOf(panel) {
  if (panel === "loss")
    return [
      { key: "train.loss_batch", points: perStep("loss"), colour: "accent", width: 1.2, faint: true },
      { key: "train.loss_unseen", points: perEvaluation("loss"), colour: "decoder-self", width: 2.5, dots: true },
    ];
  if (panel === "rate")
    return [{ key: "train.learning_rate", points: perStep("learning_rate"), colour: "encoder-self", width: 2.5 }];
  return [
    { key: "train.tokens_batch", points: perStep("token_accuracy"), colour: "muted", width: 1, faint: true },
    { key: "train.tokens_unseen", points: perEvaluation("token_accuracy"), colour: "encoder-self", width: 2.5, dots: true },
    { key: "train.exact_unseen", points: perEvaluation("exact_match"), colour: "accent", width: 3, dots: true },
  ];
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
function lastStep() {
  const last = run.evaluations[run.evaluations.length - 1];
  const done = Math.max(run.steps.loss.length, last ? last.step : 0, 1);
  if (run.state.code !== "running") return done;
  const grid = roundStep(Math.max(done, 50) / 4);
  return Math.min(run.total, Math.ceil((done * 1.02) / grid) * grid);
}

function drawPanel({ name, canvas, legend }) {
  const width = canvas.parentElement.clientWidth;
  if (!width) return;
  const height = name === "right" ? 300 : 132;
  const context = glassformer.fitCanvas(canvas, width, height);
  const series = seriesOf(name).filter(({ points }) => points.length);
  const inner = { width: width - margin.left - margin.right, height: height - margin.top - margin.bottom };
  const values = series.flatMap(({ points }) => points.map((point) => point[1]));
  if (!values.length) return drawNothing(context, canvas, legend, name, width, height);
  const highest = name === "right" ? 1 : round(Math.max(...values, 1e-9) * 1.02);
  const steps = lastStep();
  const x = (step) => margin.left + (inner.width * step) / steps;
  const y = (value) => margin.top + inner.height * (1 - value / highest);

  context.font = `14px ${getComputedStyle(element).getPropertyValue("--gf-font") || "sans-serif"}`;
  context.lineWidth = 1;
  context.textBaseline = "middle";
  context.textAlign = "right";
  const ticks = name === "right" ? [0, 0.25, 0.5, 0.75, 1] : [0, 0.5, 1].map((share) => share * highest);
  for (const tick of ticks) {
    context.strokeStyle = colour("line");
    context.beginPath();
    context.moveTo(margin.left, Math.round(y(tick)) + 0.5);
    context.lineTo(width - margin.right, Math.round(y(tick)) + 0.5);
    context.stroke();
    context.fillStyle = colour("muted");
    context.fillText(name === "right" ? percent(tick, 0) : number(tick), margin.left - 8, y(tick));
  }
  context.textBaseline = "top";
  const grid = roundStep(steps / Math.max(2, Math.floor(inner.width / 90)));
  for (let tick = 0; tick <= steps; tick += grid) {
    context.textAlign = tick === 0 ? "left" : x(tick) > width - margin.right - 18 ? "right" : "center";
    context.fillText(String(Math.round(tick)), x(tick), height - margin.bottom + 7);
  }
  if (name === "right")
    for (const target of targets) {
      context.strokeStyle = colour("good");
      context.setLineDash([5, 4]);
      context.beginPath();
      context.moveTo(margin.left, y(target));
      context.lineTo(width - margin.right, y(target));
      context.stroke();
      context.setLineDash([]);
    }
  for (const { points, colour: name, width: stroke, faint, dots } of series) {
    context.strokeStyle = context.fillStyle = colour(name);
    context.globalAlpha = faint ? 0.55 : 1;
    context.lineWidth = stroke;
    context.lineJoin = "round";
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
  if (pointed !== null && pointed <= steps) {
    context.strokeStyle = colour("text");
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x(pointed), margin.top);
    context.lineTo(x(pointed), height - margin.bottom);
    context.stroke();
  }
  canvas.dataset.last = steps;
  canvas.setAttribute("aria-label", `${glassformer.t(`train.panel_${name}`)} ${series.map(({ key, points }) => `${glassformer.t(key)}: ${shown(name, points[points.length - 1][1])}`).join("; ")}`);
  fillLegend(legend, name, series);
}

/* A curve that was not kept of a recorded training, or has no point yet. */
function drawNothing(context, canvas, legend, name, width, height) {
  context.fillStyle = colour("muted");
  context.font = `14px ${getComputedStyle(element).getPropertyValue("--gf-font") || "sans-serif"}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  const words = glassformer.t(run.kind === "shipped" ? "train.not_kept" : "train.not_yet");
  context.fillText(words, width / 2, height / 2);
  canvas.dataset.last = 0;
  canvas.setAttribute("aria-label", `${glassformer.t(`train.panel_${name}`)} ${words}`);
  fillLegend(legend, name, []);
}

const shown = (panel, value) => (panel === "right" ? percent(value) : number(value));

function fillLegend(legend, name, series) {
  const words = [glassformer.t(`train.panel_${name}`), ...series.map(({ key }) => glassformer.t(key))].join("|");
  if (legend.dataset.words === words) return;
  legend.dataset.words = words;
  const title = document.createElement("strong");
  title.textContent = glassformer.t(`train.panel_${name}`);
  legend.replaceChildren(title, ...(name === "rate" ? [] : series).map(({ key, colour, faint }) => {
    const entry = document.createElement("span");
    entry.className = "gf-legend";
    entry.style.setProperty("--gf-legend", `var(--gf-${colour})`);
    entry.classList.toggle("gf-legend-faint", Boolean(faint));
    entry.textContent = glassformer.t(key);
    return entry;
  }));
}

function drawTargets() {
  const box = find(".gf-targets");
  if (run.kind === "fitting") return box.replaceChildren();
  box.replaceChildren(...targets.map((target) => {
    const reached = run.evaluations.find((entry) => entry.exact_match >= target);
    const chip = document.createElement("span");
    chip.className = "gf-target";
    chip.classList.toggle("gf-target-reached", Boolean(reached));
    const values = { percent: percent(target, 0), ...(reached ? { step: reached.step, time: reached.seconds === null ? "" : seconds(reached.seconds) } : {}) };
    chip.textContent = glassformer.t(!reached ? "train.target_open" : reached.seconds === null ? "train.target_reached_step" : "train.target_reached", values);
    return chip;
  }));
}

/* The values at the step under the pointer, or what the pointer is for. */
function drawReadout() {
  const box = find(".gf-readout");
  if (pointed === null) {
    box.textContent = glassformer.t("train.readout_hint");
    return;
  }
  const parts = [glassformer.t("train.readout_step", { step: pointed })];
  const i = pointed - 1;
  if (i >= 0 && i < run.steps.loss.length)
    parts.push(
      `${glassformer.t("train.loss_batch")} ${number(run.steps.loss[i])}`,
      `${glassformer.t("train.tokens_batch")} ${percent(run.steps.token_accuracy[i])}`,
      `${glassformer.t("train.learning_rate")} ${number(run.steps.learning_rate[i])}`,
    );
  const before = run.evaluations.filter((entry) => entry.step <= pointed).pop();
  if (before) parts.push(`${glassformer.t("train.exact_unseen")} ${percent(before.exact_match)} (${glassformer.t("train.readout_step", { step: before.step })})`);
  box.textContent = parts.join(" · ");
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

function drawSamples() {
  const box = find(".gf-samples");
  const version = `${run.id}|${run.samples_step}|${glassformer.language}`;
  if (box.dataset.version === version) return;
  box.dataset.version = version;
  find(".gf-samples-step").textContent = run.samples && run.samples.length
    ? glassformer.t(run.kind === "fitting" ? "train.samples_step_fitting" : "train.samples_step", { step: run.samples_step })
    : glassformer.t("train.samples_none");
  if (!run.samples) return box.replaceChildren();
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  for (const key of ["source", "expected", "written"]) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = glassformer.t(`train.samples_${key}`);
    head.append(cell);
  }
  const body = table.createTBody();
  for (const sample of run.samples) {
    const row = body.insertRow();
    row.insertCell().append(tokens(sample.source, "gf-tokens"));
    row.insertCell().append(tokens(sample.expected, "gf-tokens"));
    const written = tokens(sample.written.tokens, "gf-tokens");
    for (let i = 0; i < sample.written.missing; i += 1) {
      const gap = document.createElement("span");
      gap.className = "gf-wrong";
      gap.textContent = "–";
      written.append(gap);
    }
    const isRight = !sample.written.missing && sample.written.tokens.every((token) => token.right);
    const mark = document.createElement("span");
    mark.className = isRight ? "gf-mark gf-mark-right" : "gf-mark gf-mark-wrong";
    mark.textContent = glassformer.t(isRight ? "train.right" : "train.wrong");
    row.insertCell().append(written, mark);
    ["source", "expected", "written"].forEach((key, i) => {
      row.cells[i].dataset.word = glassformer.t(`train.samples_${key}`); // stands before the cell on a phone
    });
  }
  box.replaceChildren(table);
}

function draw() {
  if (!run || !element.isConnected) return;
  drawFigures();
  panels.forEach(drawPanel);
  drawTargets();
  drawReadout();
  drawSamples();
}

for (const { canvas } of panels) {
  const point = (step) => {
    pointed = step === null ? null : Math.max(0, Math.min(Number(canvas.dataset.last), step));
    schedule();
  };
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const share = (event.clientX - box.left - margin.left) / (box.width - margin.left - margin.right);
    point(Math.round(share * Number(canvas.dataset.last)));
  });
  canvas.addEventListener("pointerleave", () => point(null));
  canvas.addEventListener("blur", () => point(null));
  canvas.addEventListener("keydown", (event) => {
    const jump = { ArrowLeft: -1, ArrowRight: 1, PageUp: -50, PageDown: 50 }[event.key];
    if (event.key === "Home") point(0);
    else if (event.key === "End") point(Number(canvas.dataset.last));
    else if (jump) point((pointed ?? 0) + jump);
    else return;
    event.preventDefault();
  });
}
watch("value", receive);
glassformer.on("language", element, schedule);
glassformer.on("theme", element, () => {
  palette = {};
  schedule();
});
new ResizeObserver(schedule).observe(element);
glassformer.translate(element);
receive();
