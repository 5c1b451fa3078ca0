/* The curves of a training as it goes on, from deltas that each name the index of their first point.
   A point sent twice is dropped; when points are missing the view asks for all of them.
   Events: "gap" when points were missed; "finished" when a training is over. */
const find = (selector) => element.querySelector(selector);
const figures = Object.fromEntries([...element.querySelectorAll("[data-figure]")].map((box) => [box.dataset.figure, box]));
const panels = [...element.querySelectorAll(".gf-panel")].map((box) => ({
  name: box.dataset.panel, canvas: box.querySelector("canvas"), legend: box.querySelector("figcaption"),
}));
const targets = [0.95, 0.99];
let run = null; // everything known of the run on show
let pointed = null; // the step under the pointer
const schedule = repainter(draw);

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

const shown = (panel, value, digits) => (panel === "right" ? percent(value, digits) : number(value));

/* The last step on the axis. */
function lastStep() {
  const last = run.evaluations[run.evaluations.length - 1];
  return lastStepOf(Math.max(run.steps.loss.length, last ? last.step : 0, 1), run.total, run.state.code === "running");
}

function drawPanel({ name, canvas, legend }) {
  const series = seriesOf(name).filter(({ points }) => points.length);
  const values = series.flatMap(({ points }) => points.map((point) => point[1]));
  const isShare = name === "right";
  const highest = isShare ? 1 : round(Math.max(...values, 1e-9) * 1.02);
  const title = glassformer.t(`train.panel_${name}`);
  const words = glassformer.t(run.kind === "shipped" ? "train.not_kept" : "train.not_yet");
  paintPanel(canvas, {
    height: isShare ? 300 : 132, series, steps: lastStep(), highest, pointed, words, tickText: (value) => shown(name, value, 0),
    ticks: isShare ? [0, 0.25, 0.5, 0.75, 1] : [0, 0.5, 1].map((share) => share * highest), lines: isShare ? targets : [],
  });
  const says = series.map(({ key, points }) => `${glassformer.t(key)}: ${shown(name, points[points.length - 1][1])}`).join("; ");
  canvas.setAttribute("aria-label", `${title} ${says || words}`);
  fillPanelLegend(legend, title, name === "rate" ? [] : series);
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
    row.insertCell().append(...writtenTokens(sample.written));
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

for (const { canvas } of panels)
  onStepOf(canvas, () => pointed, (step) => {
    pointed = step;
    schedule();
  });
watch("value", receive);
glassformer.on("language", element, schedule);
glassformer.on("theme", element, () => {
  palette = {};
  schedule();
});
new ResizeObserver(schedule).observe(element);
glassformer.translate(element);
receive();
