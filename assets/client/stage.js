/* The stage: one run, step by step. It draws from glassformer.trace and glassformer.selection alone and asks the
   server only for a run that goes on from another token. Events: "force" {step, candidate or text}, "back" {all}.
   The other parts are stage_model.js, stage_flow.js, stage_maps.js, stage_candidates.js and change.js. */
const root = element.querySelector(".gf-stage");
const slider = root.querySelector("input[type=range]");
const done = root.querySelector(".gf-stage-done"); // the part of the slider's track that lies behind
const playButton = root.querySelector("[data-act=play]");
const playWord = root.querySelector(".gf-stage-play-word");
const stepOf = root.querySelector(".gf-stage-step-of");
const buttons = Object.fromEntries(["first", "back", "forward", "last"].map((act) => [act, root.querySelector(`[data-act=${act}]`)]));
const speedButtons = [...root.querySelectorAll("[data-speed]")];
const kindButtons = [...root.querySelectorAll("button[data-kind]")];
const tipBox = root.querySelector(".gf-stage-tip");
const STEP_TIME = 1100; // milliseconds a step at speed 1
const MOVE_TIME = 420; // of which the lines move
const LISTEN_TIME = 150; // milliseconds until a step is announced

let hovered = NOBODY;
let speed = 1;
let timer = null; // set while playing
let onShow = false; // whether this tab is the one that is looked at
let announcement = null; // the timer of the next one
let movement = null; // the lines on their way: {start, time}

const flow = makeFlow(root, { hover: setHover, pin });
const maps = makeMaps(root, { hover: setHover, pin, choose: (layer, head) => glassformer.select({ layer, head }), tip: showTip });
const candidates = makeCandidates(root, (wish) => trigger("force", wish));
const change = makeChangeBar(root.querySelector(".gf-change"), (all) => trigger("back", { all }));

/* Drawing */
function current() {
  const { selection } = glassformer;
  const pattern = glassformer.headPattern(selection.kind, selection.layer, selection.head);
  return { selection, pattern, focus: focusAt(selection, hovered, pattern.rows) };
}

function draw({ move = false } = {}) {
  if (!glassformer.trace || !onShow) return;
  const { selection, pattern, focus } = current();
  flow.mark(selection, focus, pattern);
  maps.draw(selection, focus);
  candidates.draw(selection);
  change.draw();
  drawBar(selection);
  const sentences = say(selection, focus);
  const { layer, head, kind, step } = selection;
  const place = { layer: layer + 1, head: head + 1, sentence: sentences };
  flow.label(glassformer.t("decode.map_label_short", place));
  maps.label(glassformer.t("decode.map_label", {
    ...place, kind: glassformer.t(`decode.kind_${kind}`), step, steps: glassformer.trace.steps.length,
    rows: pattern.rows, columns: pattern.columns,
  }));
  const still = !move || window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  movement = still ? null : { start: performance.now(), time: MOVE_TIME / Math.max(1, speed) };
  if (still) flow.draw(selection, focus, pattern, 1);
  else requestAnimationFrame(moveLines);
}

function moveLines(now) {
  if (!movement || !root.isConnected) return;
  const share = Math.min(1, Math.max(0, (now - movement.start) / movement.time));
  const { selection, pattern, focus } = current();
  flow.draw(selection, focus, pattern, share);
  if (share >= 1) movement = null;
  else requestAnimationFrame(moveLines);
}

/* The sentence that leads the eye. Returns it as plain text. */
function say(selection, focus) {
  const box = root.querySelector(".gf-stage-say");
  const sentences = [lookSentence(selection, focus), sureSentence(selection, focus)].filter(Boolean);
  setNodes(box, sentences.flatMap((sentence, i) => [...(i ? [document.createTextNode(" ")] : []), ...sentenceNodes(sentence)]));
  return box.textContent;
}

function drawBar({ step, kind }) {
  const steps = glassformer.trace.steps.length;
  const playing = timer !== null;
  setAttribute(slider, "max", steps);
  slider.value = step;
  done.style.backgroundSize = `${(100 * step) / steps}% 100%`;
  const words = glassformer.t("decode.step_of", { step, steps });
  setAttribute(slider, "aria-valuetext", words);
  setText(stepOf, words);
  for (const [act, button] of Object.entries(buttons)) setProperty(button, "disabled", step === { first: 0, back: 0, forward: steps, last: steps }[act]);
  root.classList.toggle("gf-stage-plays", playing);
  playButton.classList.toggle("gf-stage-is-playing", playing);
  setText(playWord, glassformer.t(`decode.${playing ? "pause" : step === steps ? "replay" : "play"}`));
  setAttribute(playButton, "aria-label", glassformer.t(playing ? "decode.pause_label" : "decode.play_label"));
  for (const button of speedButtons) setAttribute(button, "aria-pressed", Number(button.dataset.speed) === speed);
  for (const button of kindButtons) setAttribute(button, "aria-pressed", button.dataset.kind === kind);
}

/* What was written, for those who listen: once the step stays, since nobody can hear thirty a second. */
function announce() {
  clearTimeout(announcement);
  announcement = setTimeout(() => {
    const { steps } = glassformer.trace;
    const { step } = glassformer.selection;
    setText(root.querySelector(".gf-stage-live"), step === 0
      ? glassformer.t("decode.live_start", { steps: steps.length })
      : glassformer.t("decode.live_step", {
        step, steps: steps.length, token: steps[step - 1].token.label, percent: percentWords(Math.exp(steps[step - 1].log_prob)),
      }));
  }, LISTEN_TIME);
}

/* Pointing and pinning */
function setHover(place) {
  const next = place ?? NOBODY;
  if (next.query === hovered.query && next.key === hovered.key) return;
  hovered = next;
  draw();
}

/* Pin a place, or let it go when it is pinned already. */
function pin({ query, key }) {
  const { selection } = glassformer;
  const same = selection.query === query && selection.key === key;
  glassformer.select(same ? NOBODY : { query, key });
}

function showTip(sentence, x, y) {
  tipBox.hidden = !sentence;
  if (!sentence) return;
  tipBox.replaceChildren(...sentenceNodes(sentence));
  const box = root.getBoundingClientRect();
  const left = Math.max(4, Math.min(x - box.left + 14, box.width - tipBox.offsetWidth - 4));
  tipBox.style.transform = `translate(${left}px, ${y - box.top + 18}px)`;
}

/* Time */
function goTo(step) {
  glassformer.select({ step: Math.max(0, Math.min(glassformer.trace.steps.length, step)) });
}

function pause() {
  clearTimeout(timer);
  timer = null;
  if (glassformer.trace) drawBar(glassformer.selection);
}

function tick() {
  if (!onShow) return pause();
  const { step } = glassformer.selection;
  if (step >= glassformer.trace.steps.length) return pause();
  goTo(step + 1);
  timer = setTimeout(tick, STEP_TIME / speed);
  return drawBar(glassformer.selection);
}

function play() {
  if (!glassformer.trace) return;
  if (glassformer.selection.query !== null || glassformer.selection.key !== null) glassformer.select(NOBODY);
  if (glassformer.selection.step >= glassformer.trace.steps.length) goTo(0);
  timer = setTimeout(tick, Math.min(500, STEP_TIME / speed));
  drawBar(glassformer.selection);
}

const ACTS = {
  first: () => { pause(); goTo(0); },
  back: () => { pause(); goTo(glassformer.selection.step - 1); },
  play: () => (timer === null ? play() : pause()),
  forward: () => { pause(); goTo(glassformer.selection.step + 1); },
  last: () => { pause(); goTo(glassformer.trace.steps.length); },
};

/* Keys move the stage only when it, or nothing, has the focus: never from a field, a tab or another view. */
function onKey(event) {
  if (!root.isConnected) return document.removeEventListener("keydown", onKey);
  if (!onShow || !glassformer.trace || event.ctrlKey || event.metaKey || event.altKey) return undefined;
  const { target } = event;
  const isOurs = root.contains(target);
  if (!isOurs && target !== document.body && target !== document.documentElement) return undefined;
  if (event.key === "Escape") {
    showTip(null);
    return glassformer.select(NOBODY);
  }
  if (target.matches("input, textarea, select")) return undefined;
  if (event.key === " " && target.matches("button")) return undefined;
  const act = { ArrowLeft: "back", ArrowRight: "forward", Home: "first", End: "last", " ": "play" }[event.key];
  if (!act) return undefined;
  event.preventDefault();
  return ACTS[act]();
}
document.addEventListener("keydown", onKey);

root.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button || !glassformer.trace) return;
  const { act, speed: chosenSpeed, kind } = button.dataset;
  if (act) ACTS[act]();
  if (chosenSpeed) { speed = Number(chosenSpeed); drawBar(glassformer.selection); }
  if (kind) glassformer.select({ kind });
});
slider.addEventListener("input", () => {
  const step = Number(slider.value); // before pause, which puts the slider where the run is
  pause();
  goTo(step);
});

/* The run, the selection, the words, the theme, the room there is */
function rebuild() {
  if (!glassformer.trace) return;
  hovered = NOBODY;
  pause();
  maps.forget();
  flow.build(glassformer.trace);
  candidates.forget();
  onShow = flow.layout();
  draw();
  maps.follow(current().focus);
  announce();
}
glassformer.on("trace", element, rebuild);
glassformer.on("selection", element, ({ changed }) => {
  if (!onShow) return;
  if (changed.includes("kind")) hovered = NOBODY;
  draw({ move: timer !== null || changed.includes("head") || changed.includes("layer") });
  if (changed.includes("step") || changed.includes("query")) maps.follow(current().focus);
  if (changed.includes("step")) announce();
  root.getBoundingClientRect(); // lays the page out now, in the time that is free until the next frame, and not within it
});
glassformer.on("language", element, () => { draw(); if (glassformer.trace) announce(); });
glassformer.on("theme", element, () => { maps.forget(); flow.forget(); draw(); });
new ResizeObserver(() => {
  onShow = flow.layout();
  if (!onShow) return;
  maps.layout();
  draw();
}).observe(flow.element);
glassformer.translate(element);
rebuild();
