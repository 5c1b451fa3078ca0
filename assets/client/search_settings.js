/* The search in use and its settings. Event: "choose" {search} at every change; the page then decodes again. */
const methods = [...element.querySelectorAll("[data-method]")];
const groups = [...element.querySelectorAll("[data-for]")];
const fields = [...element.querySelectorAll("input")];
const seed = element.querySelector("[name=seed]");
const PAUSE = 180; // milliseconds after the last change of a slider
const SEEDS = 1_000_000;
const SEEDS_A_TREE = 4; // the tree draws a sample from each of so many seeds
let search = null;
let pause = null;

const shown = {
  top_k: (value) => (value === 0 ? glassformer.t("search.all") : String(value)),
  beam_width: String,
};

function draw() {
  if (!search) return;
  for (const button of methods) button.setAttribute("aria-pressed", String(button.dataset.method === search.method));
  for (const group of groups) group.hidden = group.dataset.for !== search.method;
  for (const field of fields) {
    const value = search[field.name];
    if (document.activeElement !== field || field.type !== "number") field.value = value;
    if (field.type !== "range") continue;
    const words = (shown[field.name] ?? ((each) => each.toFixed(2)))(value);
    field.parentElement.querySelector("output").textContent = words;
    field.setAttribute("aria-valuetext", words);
    field.style.setProperty("--done", `${(100 * (value - field.min)) / (field.max - field.min)}%`);
  }
  element.querySelector(".gf-search-says").textContent = glassformer.t(`search.says_${search.method}`);
  element.querySelector(".gf-search-again").title = glassformer.t("search.again_explain");
}

/* Tell the server, once nothing more is coming. */
function choose(patch, wait = 0) {
  search = { ...search, ...patch };
  draw();
  clearTimeout(pause);
  const { widest_beam: _, ...settings } = search;
  pause = setTimeout(() => trigger("choose", { search: settings }), wait);
}

for (const button of methods)
  button.addEventListener("click", () => {
    if (button.dataset.method !== search.method) choose({ method: button.dataset.method });
  });
for (const field of fields)
  field.addEventListener("input", () => {
    const value = field.valueAsNumber;
    const within = Number.isFinite(value) && value >= Number(field.min) && value <= Number(field.max);
    if (field.type === "range") choose({ [field.name]: value }, PAUSE);
    else if (within && Number.isInteger(value)) choose({ [field.name]: value }, 2 * PAUSE);
  });
seed.addEventListener("blur", draw); // what was no seed gives way to the one in use
element.querySelector(".gf-search-again").addEventListener("click", () => {
  choose({ seed: (search.seed + SEEDS_A_TREE) % SEEDS });
});

function receive() {
  search = JSON.parse(props.value);
  draw();
}
watch("value", receive);
glassformer.on("language", element, draw);
glassformer.translate(element);
receive();
