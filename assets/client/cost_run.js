/* What the run on display costs: a headline, why a cache pays, why long texts are dear, and every part with its formula.
   Event: "ask" when a new run is on display. */
const at = (name) => element.querySelector(`.gf-cost-${name}`);
const slider = at("token").querySelector("input");
const drawCache = makeChart(at("cache").querySelector(".gf-cost-plot"));
const drawLength = makeChart(at("length").querySelector(".gf-cost-plot"));
let costs = null;
let book = "parameters";
let way = "cached";
let token = 1;

const pressBook = segments(at("books"), ["parameters", "once", "token", "memory"].map((name) => [name, `cost.book_${name}`]), (name) => { book = name; drawParts(); });
const pressWay = segments(at("ways"), [["cached", "cost.cached"], ["uncached", "cost.uncached"]], (name) => { way = name; drawParts(); });

function figure(name, shown, exact) {
  const made = node("li", "", node("span", "", t(`cost.figure_${name}`)), node("strong", "", shown), node("small", "", t(`cost.figure_${name}_says`, exact)));
  made.dataset.figure = name;
  return made;
}

function drawHead() {
  const { books, sizes, presets } = costs;
  const [cached, uncached] = [true, false].map((each) => operationsOf(books, sizes, each));
  at("headline").replaceChildren(...filled("cost.headline", {
    s: sizes.S, t: sizes.T, parameters: short(sizes.W), operations: short(cached), uncached: short(uncached), ratio: times(uncached / cached),
  }));
  at("example").hidden = !costs.is_example;
  at("example").textContent = t("cost.is_example", { text: costs.text });
  const memory = books.memory;
  const cache = valueOf(memory.self_cache, sizes) + valueOf(memory.cross_cache, sizes);
  const patterns = ["encoder", "decoder", "cross"].reduce((sum, kind) => sum + valueOf(memory[`${kind}_patterns`], sizes), 0);
  const base = withParameters(books, { ...sizes, ...presets.base }).W;
  at("figures").replaceChildren(
    figure("parameters", whole(sizes.W), { n: times(base / sizes.W) }),
    figure("operations", short(cached), { once: short(totalOf(books.once, sizes)), token: short(cached - totalOf(books.once, sizes)), t: sizes.T }),
    figure("cache", bytes(cache), { token: bytes(valueOf(books.cache.per_token, sizes)), source: bytes(valueOf(memory.cross_cache, sizes)) }),
    figure("patterns", bytes(patterns), { n: whole(patterns / sizes.b) }),
  );
}

function drawCurves(isNew) {
  const { books, sizes } = costs;
  const last = { ...sizes, t: sizes.P };
  const [cached, uncached] = [books.token, books.token_uncached].map((each) => totalOf(each, sizes));
  at("cache").querySelector("p").replaceChildren(...filled("cost.cache_text", {
    t: sizes.T, cached: short(cached), uncached: short(uncached), p: sizes.P, ratio: times(totalOf(books.token_uncached, last) / totalOf(books.token, last)),
  }));
  drawCache(cacheSpec(books, sizes, sizes.P, { x: sizes.T, name: t("cost.text_ends", { n: sizes.T }) }), isNew);
  const layer = { ...sizes, Le: 1 };
  at("length").querySelector("p").replaceChildren(...filled("cost.length_text", {
    n: whole(totalOf(books.turning_point, sizes)), s: sizes.S, p: sizes.P,
    share: percent(valueOf(books.encoding.encoder_scores, layer) / totalOf(books.encoding, layer)),
  }));
  drawLength(lengthSpec(books, sizes), isNew);
}

function drawParts() {
  const { books, sizes } = costs;
  const isToken = book === "token";
  at("ways").hidden = at("token").hidden = !isToken;
  pressBook(book);
  pressWay(way);
  slider.max = sizes.P;
  slider.value = token;
  at("token").querySelector("output").textContent = whole(token);
  slider.setAttribute("aria-valuetext", t("cost.token_n", { n: token }));
  const shown = isToken && way === "uncached" ? books.token_uncached : books[book];
  const key = isToken ? `cost.says_token_${way}` : `cost.says_${book}`;
  const tied = book === "parameters" && !sizes.untied ? t("cost.says_tied") : "";
  at("says").replaceChildren(...filled(key, { n: token, s: sizes.S, t: sizes.T, reserved: bytes(valueOf(books.cache.reserved, sizes)), p: sizes.P }), tied);
  const heading = { parameters: "parameters", memory: "bytes" }[book] ?? "operations";
  fillParts(element.querySelector(".gf-cost-table"), shown, { ...sizes, t: token }, book === "memory" ? bytes : whole, heading);
}

function draw(isNew) {
  if (!costs) return;
  element.firstElementChild.classList.remove("gf-cost-empty");
  drawHead();
  drawCurves(isNew === true);
  drawParts();
}

function receive() {
  if (!props.value) return;
  costs = JSON.parse(props.value);
  token = costs.sizes.T;
  draw(true);
}

slider.addEventListener("input", () => { token = Number(slider.value); drawParts(); });
watch("value", receive);
askForCosts(draw);
glassformer.translate(element);
receive();
