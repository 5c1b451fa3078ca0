/* What the tab of masks is about: how much padding, which layer and head, which query sees nothing, and how a mask is
   printed. Event: "ask" {n_padding, layer, head, blind, is_blind} when the tab is on show and something changed.
   The convention stays in the browser: the panel gets data-convention and an event "gf-convention". The boards of the
   blind query answer with "gf-blind" {blind, is_blind} on the same panel. */
const panel = element.closest("[role=tabpanel]") || element;
const padding = element.querySelector("[name=n_padding]");
const [layer, head] = [element.querySelector("[name=layer]"), element.querySelector("[name=head]")];
const conventions = [...element.querySelectorAll("[data-convention]")];
const { t } = glassformer;
let found = null;
let blind = { blind: null, is_blind: true };
let visible = false;
let asked = "";
let pause = null;

function ask() {
  const { trace, selection } = glassformer;
  if (!visible || !trace) return;
  const last = Math.min(trace.target_in.length, found ? found.n_steps : trace.target_in.length) - 1;
  const query = blind.blind === null ? Math.floor(last / 2) : Math.min(blind.blind, last);
  const wish = { n_padding: Number(padding.value), layer: selection.layer, head: selection.head, blind: query, is_blind: blind.is_blind };
  const version = JSON.stringify([trace.id, wish]);
  if (version === asked) return;
  asked = version;
  trigger("ask", wish);
}

/* While the slider moves, ask at most every 80 ms. */
function askSoon() {
  clearTimeout(pause);
  pause = setTimeout(ask, 80);
}

function options(select, count, chosen) {
  if (select.options.length !== count)
    select.replaceChildren(...Array.from({ length: count }, (_, i) => new Option(String(i + 1), String(i))));
  select.value = String(Math.min(chosen, count - 1));
}

function draw() {
  const { trace, selection } = glassformer;
  if (!trace) return;
  padding.previousElementSibling.textContent = t("masks.padding_value", { n: padding.value });
  const stacks = ["encoder_self", "decoder_self"].map((kind) => trace.patterns[kind].shape);
  options(layer, Math.max(...stacks.map(([layers]) => layers)), selection.layer);
  options(head, stacks[0][1], selection.head);
  const convention = panel.dataset.convention || "attend";
  for (const button of conventions) button.setAttribute("aria-pressed", String(button.dataset.convention === convention));
  element.querySelector(".gf-mask-convention-note").textContent = t(`masks.note_${convention}`);
  const notes = [];
  if (found && found.fits < found.asked && found.asked === Number(padding.value))
    notes.push(t("masks.note_fits", { fits: found.fits, longest: found.max_len }));
  if (found && found.n_steps < found.n_written) notes.push(t("masks.note_steps", { shown: found.n_steps, written: found.n_written }));
  if (padding.value === "0") notes.push(t("masks.note_no_padding"));
  element.querySelector(".gf-mask-note").textContent = notes.join(" ");
}

/* A layer that only one of the stacks has is chosen together with a kind of attention that has it. */
function chooseLayer() {
  const wanted = Number(layer.value);
  const { trace, selection } = glassformer;
  const has = (kind) => wanted < trace.patterns[kind].shape[0];
  const kind = has(selection.kind) ? selection.kind : ["cross", "encoder_self"].find(has);
  glassformer.select({ kind });
  glassformer.select({ layer: wanted });
}

function receive() {
  if (!props.value) return;
  found = JSON.parse(props.value);
  draw();
}

padding.addEventListener("input", () => {
  draw();
  askSoon();
});
layer.addEventListener("change", chooseLayer);
head.addEventListener("change", () => glassformer.select({ head: Number(head.value) }));
for (const button of conventions)
  button.addEventListener("click", () => {
    panel.dataset.convention = button.dataset.convention;
    draw();
    panel.dispatchEvent(new CustomEvent("gf-convention"));
  });
panel.addEventListener("gf-blind", ({ detail }) => {
  if (!element.isConnected) return;
  blind = detail;
  ask();
});
new IntersectionObserver((entries) => {
  visible = entries[entries.length - 1].isIntersecting;
  ask();
}).observe(panel);
glassformer.on("selection", element, ({ changed }) => {
  if (!changed.includes("layer") && !changed.includes("head")) return;
  draw();
  ask();
});
glassformer.on("trace", element, () => {
  draw();
  ask();
});
glassformer.on("language", element, draw);
watch("value", receive);
glassformer.translate(element);
draw();
receive();
