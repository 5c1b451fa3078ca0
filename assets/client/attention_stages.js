/* The four stages of a map, each with the number that the chosen cell has there. The choice is selection.stage. */
const buttons = [...element.querySelectorAll("[data-stage]")];
const says = element.querySelector(".gf-att-stage-says");
let facts = { numbers: {}, d_head: null, model: true };

function stage() {
  return facts.model ? glassformer.selection.stage ?? "softmax" : "softmax";
}

function draw() {
  for (const button of buttons) {
    const { stage: name } = button.dataset;
    button.setAttribute("aria-checked", String(name === stage()));
    button.tabIndex = name === stage() ? 0 : -1;
    button.setAttribute("aria-disabled", String(!facts.model && name !== "softmax"));
    button.querySelector("b").textContent = facts.numbers[name] ?? "";
  }
  says.textContent = glassformer.t(`attention.stage_${stage()}_says`, { n: facts.d_head ?? "d_head" });
}

function choose(button) {
  if (button.getAttribute("aria-disabled") === "true") return;
  glassformer.select({ stage: button.dataset.stage });
  button.focus();
}

for (const button of buttons) button.addEventListener("click", () => choose(button));
element.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
  if (!step) return;
  event.preventDefault();
  event.stopPropagation();
  const next = buttons[buttons.findIndex((button) => button.dataset.stage === stage()) + step];
  if (next) choose(next);
});
watch("value", () => {
  if (props.value) facts = JSON.parse(props.value);
  draw();
});
glassformer.on("language", element, draw);
glassformer.on("selection", element, ({ changed }) => {
  if (changed.includes("stage")) draw();
});
glassformer.translate(element);
draw();
