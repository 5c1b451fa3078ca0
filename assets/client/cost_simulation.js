/* Sliders over the sizes of a network and a text, and what they would cost. All is computed here, from formulas that the
   server sent; nothing is asked while a slider moves. Event: "ask" when a new run is on display. */
const at = (name) => element.querySelector(`.gf-cost-${name}`);
const check = element.querySelector(".gf-cost-check input");
const drawCache = makeChart(at("cache").querySelector(".gf-cost-plot"));
const drawLength = makeChart(at("length").querySelector(".gf-cost-plot"));
const POWERS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384];
const between = (low, high) => POWERS.filter((n) => n >= low && n <= high).flatMap((n) => (n * 1.5 <= high && Number.isInteger(n * 1.5) && n >= 16 ? [n, n * 1.5] : [n]));
const upTo = (most) => Array.from({ length: most }, (_, i) => i + 1);
const VOCABULARIES = [16, 32, 64, 128, 256, 512, 1000, 2000, 4000, 8000, 16000, 32000, 37000, 50000, 100000, 250000];
const STOPS = {
  D: between(16, 4096), H: [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64], F: between(16, 16384), Le: upTo(48), Ld: upTo(48), Vs: VOCABULARIES, Vt: VOCABULARIES,
  S: between(1, 16384), T: between(1, 16384), B: POWERS.slice(0, 11),
};
const FURTHEST = 64; // written tokens on the curve, at least
const KIND_COLOURS = { scores: "bad", projections: "encoder-self", feed_forward: "muted", output: "cross" };
const sliders = {};
let costs = null;
let sizes = null;
let preset = "own";

const pressPreset = segments(at("presets"), ["own", "base", "big"].map((name) => [name, `cost.preset_${name}`]), choose);

function choose(name) {
  preset = name;
  sizes = name === "own" ? { ...costs.sizes } : { ...sizes, ...costs.presets[name] };
  draw();
}

/* The stops of a slider, with the value that a preset gave among them; heads must share the width out evenly. */
function stopsOf(letter) {
  const stops = [...new Set([...STOPS[letter], sizes[letter], costs.sizes[letter]])].sort((a, b) => a - b);
  return letter === "H" ? stops.filter((n) => sizes.D % n === 0) : stops;
}

function move(letter, value) {
  preset = "";
  sizes[letter] = value;
  if (letter === "Vs" && !sizes.separate) sizes.Vt = value;
  if (letter === "D" && value % sizes.H) sizes.H = Math.max(...STOPS.H.filter((n) => n <= sizes.H && value % n === 0));
  draw();
}

function makeSliders() {
  for (const letter of Object.keys(STOPS)) {
    const input = node("input", "");
    input.type = "range";
    input.min = 0;
    input.dataset.letter = letter;
    input.addEventListener("input", () => move(letter, stopsOf(letter)[Number(input.value)]));
    const words = node("span", "", t(`cost.size_${letter}`));
    words.dataset.text = `cost.size_${letter}`;
    sliders[letter] = { input, output: node("output", "") };
    at("sliders").append(node("label", "gf-slider", words, sliders[letter].output, input));
  }
}

function drawSliders() {
  for (const [letter, { input, output }] of Object.entries(sliders)) {
    const stops = stopsOf(letter);
    input.max = stops.length - 1;
    input.value = stops.indexOf(sizes[letter]);
    input.disabled = letter === "Vt" && !sizes.separate;
    output.textContent = whole(sizes[letter]);
    input.setAttribute("aria-valuetext", whole(sizes[letter]));
  }
  check.checked = !sizes.separate;
  pressPreset(preset);
}

function figure(name, value, shown, values) {
  const made = node("li", "", node("span", "", t(name === "operations" ? "cost.figure_batch" : `cost.figure_${name}`)), node("strong", "", shown), node("small", "", t(`cost.simulated_${name}_says`, values)));
  made.dataset.figure = name;
  made.dataset.value = Math.round(value);
  return made;
}

function drawOutcome() {
  const { books } = costs;
  const [cached, uncached] = [true, false].map((each) => operationsOf(books, sizes, each));
  const memory = books.memory;
  const cache = valueOf(memory.self_cache, sizes) + valueOf(memory.cross_cache, sizes);
  const patterns = ["encoder", "decoder", "cross"].reduce((sum, kind) => sum + valueOf(memory[`${kind}_patterns`], sizes), 0);
  at("headline").replaceChildren(...filled("cost.simulated_headline", { parameters: short(sizes.W), operations: short(cached), ratio: times(uncached / cached) }));
  at("figures").replaceChildren(
    figure("parameters", sizes.W, short(sizes.W), { bytes: bytes(valueOf(memory.weights, sizes)) }),
    figure("operations", cached, short(cached), { uncached: short(uncached) }),
    figure("cache", cache, bytes(cache), { token: bytes(valueOf(books.cache.per_token, sizes)) }),
    figure("patterns", patterns, bytes(patterns), { n: whole(patterns / sizes.b) }),
  );
  const kinds = kindsOf(costs, sizes);
  const total = kinds.reduce((sum, [, value]) => sum + value, 0);
  at("stack").replaceChildren(...kinds.map(([kind, value]) => {
    const piece = node("span", "");
    piece.style.flexGrow = value / total;
    piece.style.background = `var(--gf-${KIND_COLOURS[kind]})`;
    return piece;
  }));
  at("stack").setAttribute("aria-label", kinds.map(([kind, value]) => `${t(`cost.kind_${kind}`)} ${percent(value / total)}`).join(", "));
  at("shares").replaceChildren(...kinds.map(([kind, value]) => {
    const swatch = node("span", "gf-cost-swatch");
    swatch.style.setProperty("--gf-swatch", `var(--gf-${KIND_COLOURS[kind]})`);
    const made = node("li", "", swatch, node("span", "", t(`cost.kind_${kind}`)), node("b", "", percent(value / total)));
    made.dataset.kind = kind;
    made.dataset.value = Math.round(value);
    return made;
  }));
}

function drawPaper() {
  const { paper, presets, books } = costs;
  const counted = (name) => withParameters(books, { ...sizes, ...presets[name] }).W;
  at("paper").querySelector("summary").textContent = t("cost.paper_question", { stated: short(paper.base.stated), counted: short(counted("base")) });
  if (preset in presets) at("paper").open = true;
  at("paper").querySelector("p").replaceChildren(...filled("cost.paper", {
    stated: short(paper.base.stated), counted: short(counted("base")), big_stated: short(paper.big.stated), big_counted: short(counted("big")),
    vocabulary: whole(paper.base.vocabulary), big_vocabulary: whole(paper.big.vocabulary),
    apart: short(withParameters(books, { ...sizes, ...presets.base, separate: 1, untied: 1 }).W),
  }));
}

function draw() {
  if (!costs) return;
  element.firstElementChild.classList.remove("gf-cost-empty");
  sizes = withParameters(costs.books, sizes);
  drawSliders();
  drawOutcome();
  drawPaper();
  drawCache(cacheSpec(costs.books, sizes, Math.max(FURTHEST, 2 * sizes.T), { x: sizes.T, name: `T = ${whole(sizes.T)}` }), true);
  drawLength(lengthSpec(costs.books, sizes), true);
  const { once, writing } = costs.books;
  const joined = Object.fromEntries([...Object.entries(once).map(([part, terms]) => [part, terms]), ...Object.entries(writing).map(([part, terms]) => [part, terms])]);
  fillParts(element.querySelector(".gf-cost-table"), joined, sizes, short, "operations");
}

function receive() {
  if (!props.value) return;
  costs = JSON.parse(props.value);
  if (preset === "own" || !sizes) choose("own");
  else draw();
}

check.addEventListener("change", () => {
  preset = "";
  sizes.separate = Number(!check.checked);
  sizes.untied = check.checked ? 0 : sizes.untied;
  if (check.checked) sizes.Vt = sizes.Vs;
  draw();
});
makeSliders();
watch("value", receive);
askForCosts(draw);
glassformer.translate(element);
receive();
