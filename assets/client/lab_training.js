/* A training fault at a time: a healthy and a faulty training, their curves over each other, and what they show.
   A pair on show is a recorded one until the visitor has trained their own. It comes in deltas, as a training does.
   Events: "ask" on first show, for the records; "train" {fault}; "halt"; "gap" when points were missed. */
const { node, t } = glassformer;
const SIDES = ["healthy", "faulty"];
const COLOURS = { healthy: "good", faulty: "bad" };
const DASH = { faulty: [7, 4] };
const SMOOTHED = 9; // batches that a point of a curve with one a step is the mean of
const find = (selector) => element.querySelector(selector);
const list = find(".gf-pair-list");
const go = find(".gf-pair-go");
const stop = find(".gf-pair-stop");
const panels = [...element.querySelectorAll(".gf-panel")].map((box) => ({
  name: box.dataset.panel, canvas: box.querySelector("canvas"), legend: box.querySelector("figcaption"),
}));
const pairs = {}; // fault -> the pair on show of it
let chosen = "leaking_causal_mask";
let records = null;
let training = null; // the fault whose pair goes on
let asked = false; // whether the points that were missed were asked for
let pointed = null;
const schedule = repainter(draw);

const isGoingOn = (pair) => ["waiting", "running"].includes(pair.state.code);
const share = (value, digits = 0) => percent(value, value > 0 && value < 1 ? Math.max(digits, 1) : digits).replace(/\.0(?= %)/, "").replace(" %", "\u00a0%");

function receive() {
  if (!props.value) return;
  const answer = JSON.parse(props.value);
  if (answer.problem) {
    if (training && !pairs[training].run) pairs[training] = records[training];
    training = null;
    find(".gf-lab-problem").textContent = answer.problem;
  }
  find(".gf-lab-problem").hidden = !answer.problem;
  if (answer.records) {
    records = answer.records;
    for (const fault of Object.keys(records)) pairs[fault] ??= records[fault];
  }
  if (answer.pair) take(answer.pair);
  schedule();
}

/* A delta of the visitor's own pair. */
function take(delta) {
  const before = pairs[delta.fault];
  const kept = before && before.run === delta.run ? before.sides : {};
  const sides = {};
  let complete = true;
  for (const name of SIDES) {
    const { steps, evaluations, samples, ...facts } = delta.sides[name];
    const had = kept[name] ?? { steps: Object.fromEntries(Object.keys(steps).map((curve) => [curve, []])), evaluations: [], samples: null };
    for (const [curve, points] of Object.entries(had.steps)) complete = merge(points, facts.first_step, steps[curve]) && complete;
    complete = merge(had.evaluations, facts.first_evaluation, evaluations) && complete;
    sides[name] = { ...facts, steps: had.steps, evaluations: had.evaluations, samples: samples ?? had.samples, samples_step: samples ? facts.samples_step : had.samples_step };
  }
  pairs[delta.fault] = { ...delta, sides };
  if (!complete && !asked) trigger("gap", {});
  asked = !complete;
  training = isGoingOn(delta) ? delta.fault : training === delta.fault ? null : training;
}

/* --- The list of faults --- */

function choose(fault) {
  chosen = fault;
  pointed = null;
  draw();
}

function drawList() {
  const faults = Object.keys(records);
  if (!list.children.length)
    list.replaceChildren(...faults.map((fault) => {
      const each = node("button", "gf-pair-fault", node("span", "gf-pair-fault-name"), node("span", "gf-pair-fault-cost"));
      each.type = "button";
      each.dataset.bug = fault;
      each.setAttribute("role", "radio");
      each.addEventListener("click", () => choose(fault));
      return each;
    }));
  for (const each of list.children) {
    const fault = each.dataset.bug;
    const { cost } = pairs[fault].verdict;
    each.firstElementChild.textContent = t(`lab.training_${fault}`);
    each.lastElementChild.textContent = fault === training ? t("lab_training.goes_on") : cost === null ? "" : points(cost);
    each.lastElementChild.classList.toggle("gf-pair-costly", cost > 5);
    each.setAttribute("aria-checked", String(fault === chosen));
    each.tabIndex = fault === chosen ? 0 : -1;
  }
}

list.addEventListener("keydown", (event) => {
  const move = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
  if (!move || !records) return;
  event.preventDefault();
  const faults = Object.keys(records);
  choose(faults[(faults.indexOf(chosen) + move + faults.length) % faults.length]);
  list.querySelector("[aria-checked=true]").focus();
});

/* --- What is said --- */

/* Points lost, with a real minus: −87; a gain has a plus. */
const points = (cost) => (cost > 0 ? `−${cost}` : cost < 0 ? `+${-cost}` : "±0");

function findingWords({ key, values }) {
  const shown = Object.fromEntries(Object.entries(values).map(([name, value]) => [
    name, ["tokens", "healthy_tokens", "exact", "healthy_exact", "ratio"].includes(name) ? share(value) : value,
  ]));
  return t(`lab_training.find_${key}`, shown);
}

function stateWords(pair) {
  const { code, values } = pair.state;
  const steps = pair.sides.healthy.figures.steps;
  if (code === "recorded") return t("lab_training.state_recorded", { time: seconds(pair.seconds) });
  if (code === "stopped" && !steps) return t("train.state_stopped_waiting");
  if (code === "running") return t("lab_training.state_running", { step: steps, total: pair.total });
  const known = ["waiting", "stopped", "deadline", "failed"].includes(code) ? code : "done";
  return t(`lab_training.state_${known}`, { ...values, step: steps, seconds: Math.round(pair.limit), time: seconds(pair.seconds) });
}

function drawWords(pair) {
  find(".gf-pair-name").textContent = t(`lab.training_${chosen}`);
  const words = [["changes", `lab_training.changes_${chosen}`], ["why", `lab.training_${chosen}_why`], ["bug", `lab.training_${chosen}_bug`]];
  find(".gf-pair-why").replaceChildren(...words.map(([part, key]) => node("div", "", node("dt", "", t(`lab_training.${part}`)), node("dd", "", t(key, pair.setting)))));
  const { setting } = pair;
  find(".gf-pair-setting").textContent = t("lab_training.setting", {
    ...setting, task: t(`train.task_${pair.task}`), steps: pair.total, rate: number(setting.learning_rate),
  });
}

function drawState(pair) {
  go.disabled = Boolean(training);
  stop.disabled = !training;
  const sentence = stateWords(pair);
  if (find(".gf-pair-sentence").textContent !== sentence) find(".gf-pair-sentence").textContent = sentence;
  find(".gf-curves-badge").textContent = t(`lab_training.badge_${pair.kind}`);
  find(".gf-pair").dataset.state = pair.state.code;
  const progress = find(".gf-progress");
  const done = pair.sides.healthy.figures.steps;
  progress.hidden = !isGoingOn(pair);
  progress.firstElementChild.style.width = `${(100 * done) / pair.total}%`;
  progress.setAttribute("aria-valuemax", pair.total);
  progress.setAttribute("aria-valuenow", done);
}

function drawVerdict(pair) {
  const { cost, findings } = pair.verdict;
  find(".gf-pair-cost-number").textContent = cost === null ? "–" : points(cost);
  find(".gf-pair-cost-number").classList.toggle("gf-pair-costly", cost > 5);
  find(".gf-pair-cost-label").textContent = t("lab_training.cost");
  const says = isGoingOn(pair) ? [t("lab_training.watch")] : findings.length ? findings.map(findingWords) : [t("lab_training.find_nothing")];
  const key = says.join("|");
  if (find(".gf-pair-says").dataset.says === key) return;
  find(".gf-pair-says").dataset.says = key;
  find(".gf-pair-says").replaceChildren(...says.map((words) => node("p", "", words)));
}

/* --- Curves --- */

/* A value a step as the mean of those around it: single batches leap. */
function smooth(values) {
  const half = Math.floor(SMOOTHED / 2);
  return values.map((_, i) => {
    const around = values.slice(Math.max(0, i - half), i + half + 1);
    return [i + 1, around.reduce((sum, value) => sum + value, 0) / around.length];
  });
}

function seriesOf(panel, pair) {
  return SIDES.map((name) => {
    const { steps, evaluations } = pair.sides[name];
    const isExact = panel === "exact";
    const curve = isExact ? evaluations.map((entry) => [entry.step, entry.exact_match]) : smooth(steps[panel === "loss" ? "loss" : "token_accuracy"]);
    return { key: `lab_training.${name}`, points: curve, colour: COLOURS[name], width: 2.5, dots: isExact, dash: DASH[name], name };
  });
}

function drawPanel({ name, canvas, legend }, pair) {
  const series = seriesOf(name, pair);
  const isLoss = name === "loss";
  const healthy = pair.sides.healthy.steps.loss;
  // A loss that leaps out of the picture is cut off at twice the healthy one's largest.
  const highest = isLoss ? round(Math.max(0.1, ...(healthy.length ? healthy.map((value) => 1.3 * value) : [1]))) : 1;
  const done = Math.max(...SIDES.map((side) => pair.sides[side].figures.steps), 1);
  const title = t(`lab_training.panel_${name}`);
  const read = (value) => (isLoss ? number(value) : share(value));
  const words = t("train.not_yet");
  paintPanel(canvas, {
    height: 190, series, steps: isGoingOn(pair) ? pair.total : done, highest, pointed, words, tickText: read,
    ticks: (isLoss ? [0, 0.5, 1] : [0, 0.25, 0.5, 0.75, 1]).map((part) => part * highest),
  });
  const says = series.filter((each) => each.points.length).map((each) => `${t(each.key)}: ${read(each.points[each.points.length - 1][1])}`).join("; ");
  canvas.setAttribute("aria-label", `${title} ${says || words}`);
  fillPanelLegend(legend, title, series);
}

function drawReadout(pair) {
  const box = find(".gf-readout");
  if (pointed === null) {
    box.textContent = t("train.readout_hint");
    return;
  }
  const sides = SIDES.map((name) => {
    const { steps, evaluations } = pair.sides[name];
    const i = pointed - 1;
    const parts = [];
    const measured = evaluations.filter((entry) => entry.step <= pointed).pop();
    if (measured) parts.push(`${t("lab_training.panel_exact")} ${share(measured.exact_match)}`);
    if (i >= 0 && i < steps.loss.length)
      parts.push(`${t("lab_training.panel_tokens")} ${share(steps.token_accuracy[i])}`, `${t("lab_training.panel_loss")} ${number(steps.loss[i])}`);
    return `${t(`lab_training.${name}`)}: ${parts.join(", ") || "–"}`;
  });
  box.textContent = [t("train.readout_step", { step: pointed }), ...sides].join(" · ");
}

/* --- What both write --- */

function drawSamples(pair) {
  const box = find(".gf-samples");
  const { healthy, faulty } = pair.sides;
  const version = [pair.run, healthy.samples_step, faulty.samples_step, glassformer.language].join("|");
  if (box.dataset.version === version) return;
  box.dataset.version = version;
  const isThere = healthy.samples?.length && faulty.samples?.length;
  find(".gf-samples-step").textContent = isThere
    ? t(healthy.samples_step === faulty.samples_step ? "lab_training.samples_step" : "lab_training.samples_steps", { step: healthy.samples_step, faulty: faulty.samples_step })
    : t("train.samples_none");
  if (!isThere) return box.replaceChildren();
  const titles = ["train.samples_source", "train.samples_expected", "lab_training.healthy_writes", "lab_training.faulty_writes"].map((key) => t(key));
  const head = node("tr", "", ...titles.map((title) => {
    const cell = node("th", "", title);
    cell.scope = "col";
    return cell;
  }));
  const rows = healthy.samples.map((sample, i) => {
    const cells = [[tokens(sample.source, "gf-tokens")], [tokens(sample.expected, "gf-tokens")], writtenOrNothing(sample.written), writtenOrNothing(faulty.samples[i].written)];
    return node("tr", "", ...cells.map((parts, column) => {
      const cell = node("td", "", ...parts);
      cell.dataset.word = titles[column]; // stands before the cell on a phone
      return cell;
    }));
  });
  box.replaceChildren(node("table", "", node("thead", "", head), node("tbody", "", ...rows)));
}

function writtenOrNothing(written) {
  return written.tokens.length ? writtenTokens(written) : [node("span", "gf-pair-nothing", t("lab_training.nothing"))];
}

function draw() {
  if (!records || !element.isConnected) return;
  const pair = pairs[chosen];
  drawList();
  drawWords(pair);
  drawState(pair);
  drawVerdict(pair);
  for (const panel of panels) drawPanel(panel, pair);
  drawReadout(pair);
  drawSamples(pair);
}

go.addEventListener("click", () => {
  if (training || !records) return;
  training = chosen;
  find(".gf-lab-problem").hidden = true;
  trigger("train", { fault: chosen });
  draw();
  const box = find(".gf-pair-state");
  if (box.getBoundingClientRect().top > window.innerHeight - 200) box.scrollIntoView({ behavior: "smooth", block: "start" });
});
stop.addEventListener("click", () => {
  stop.disabled = true;
  trigger("halt", {});
});
for (const { canvas } of panels)
  onStepOf(canvas, () => pointed, (step) => {
    pointed = step;
    schedule();
  });
let wanted = false;
new IntersectionObserver((entries) => {
  if (wanted || !entries[entries.length - 1].isIntersecting) return;
  wanted = true;
  trigger("ask", {});
}).observe(element);
watch("value", receive);
glassformer.on("language", element, schedule);
glassformer.on("theme", element, () => {
  palette = {};
  schedule();
});
new ResizeObserver(schedule).observe(element);
glassformer.translate(element);
receive();
