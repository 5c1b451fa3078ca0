/* What the token of the chosen step hangs on: each token that was read, with the length of the logit's gradient there.
   Event: "ask" {run, step} (step from 0) when another is chosen and the view is on show; one question at a time. */
const sentence = element.querySelector(".gf-xray-sentence");
const sides = element.querySelector(".gf-xray-sides");
let view = null;
let isSeen = false;
let timer = 0;
let waiting = 0;
let asked = "";

const wantedStep = () => Math.max(0, Math.min(glassformer.trace.steps.length, glassformer.selection.step) - 1);
const wanted = () => `${glassformer.trace.id}|${wantedStep()}`;

const signed = (value) => (value > 0 ? "+" : "") + numberText(value);

/* Wait for a moment of rest: a slider passes many steps. */
function check() {
  clearTimeout(timer);
  if (!isSeen || !glassformer.trace || waiting || asked === wanted()) return;
  timer = setTimeout(() => {
    asked = wanted();
    waiting = setTimeout(answered, 15000);
    trigger("ask", { run: glassformer.trace.id, step: wantedStep() });
  }, 250);
}

function answered() {
  clearTimeout(waiting);
  waiting = 0;
  check();
}

function drawSide(side, largest) {
  const { tokens, saliency, times_input: timesInput } = view.sides[side];
  const list = node("ul", "gf-xray-tokens");
  tokens.forEach((token, i) => {
    const column = node("span", "gf-xray-column");
    column.style.setProperty("--gf-share", String(saliency[i] / largest));
    const item = node("li", "", column, node("b", "", numberText(saliency[i])), glassformer.tokenChip(token, "span"), node("small", "", signed(timesInput[i])));
    item.dataset.value = saliency[i];
    list.append(item);
  });
  return node("section", "gf-xray-side", node("h3", "", t(`xray.side_${side}`)), list);
}

function draw() {
  if (!view) return;
  const all = Object.values(view.sides).flatMap((side) => side.saliency);
  const largest = Math.max(...all, 1e-12);
  sides.replaceChildren(...Object.keys(view.sides).map((side) => drawSide(side, largest)));
  const { source } = view.sides;
  const most = source.saliency.indexOf(Math.max(...source.saliency));
  const sum = source.saliency.reduce((total, value) => total + value, 0) || 1;
  sentence.textContent = t("xray.say_saliency", {
    step: view.step + 1, token: view.token.label, most: source.tokens[most].label, place: most + 1,
    value: numberText(source.saliency[most]), percent: ((source.saliency[most] / sum) * 100).toFixed(0),
  });
}

watch("value", () => {
  if (!props.value) return;
  view = JSON.parse(props.value);
  draw();
  answered();
});
new IntersectionObserver((entries) => {
  isSeen = entries[entries.length - 1].isIntersecting;
  check();
}).observe(element);
glassformer.on("trace", element, () => {
  view = null; // what another run hangs on is not shown while this one waits to be looked at
  sides.replaceChildren();
  sentence.textContent = "";
  check();
});
glassformer.on("language", element, draw);
glassformer.on("selection", element, ({ changed }) => {
  if (changed.includes("step")) check();
});
glassformer.translate(element);
