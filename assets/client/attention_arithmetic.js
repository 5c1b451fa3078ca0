/* Chooses a cell, asks for what the tab shows of it, and shows its derivation. Event: "choose".
   Nothing is asked while the tab is hidden; when it comes on show it asks for what is selected by then.
   One question at a time: what was selected while an answer is awaited is asked when it has come. */
const body = element.querySelector(".gf-sum-body");
const said = element.querySelector(".gf-sum-said");
const [queryPick, keyPick] = element.querySelectorAll("select");
let wanted = null; // what is selected: {name, choice}
let asked = ""; // the name of what was asked for last
let html = "";
let map = null; // what the chart shows, in the server's words
let timer = 0; // a question about to be asked
let waiting = 0; // an answer is awaited, though not for ever
const WIDE = 28; // from so many columns on, a map gets the whole width and its arithmetic stands below it

/* The selected cell. What is not pinned is found: a row's strongest key, and of all rows the one whose strongest
   key has the least, since there the softmax has something to decide. The first row of the decoder has only one key
   to see, so it comes last. */
function cell() {
  const { kind, layer, head, query, key } = glassformer.selection;
  const pattern = glassformer.headPattern(kind, layer, head);
  const rows = query !== null && query < pattern.rows ? [query] : [...Array(pattern.rows).keys()];
  const columns = key !== null && key < pattern.columns ? [key] : [...Array(pattern.columns).keys()];
  let chosen = null;
  for (const row of rows) {
    const strongest = columns.reduce((best, column) => (pattern.get(row, column) > pattern.get(row, best) ? column : best));
    const weight = kind === "decoder_self" && row === 0 ? 2 : pattern.get(row, strongest);
    if (!chosen || weight < chosen.weight) chosen = { query: row, key: strongest, weight };
  }
  return chosen;
}

function fill(select, tokens, key, chosen) {
  const words = tokens.map((token, i) => glassformer.t(key, { n: i, token: token.label }));
  if (select.length !== words.length || words.some((text, i) => select.options[i].textContent !== text))
    select.replaceChildren(...words.map((text, i) => {
      const option = document.createElement("option");
      option.value = i;
      option.textContent = text;
      return option;
    }));
  select.value = String(chosen);
}

function askSoon() {
  clearTimeout(timer);
  if (wanted && wanted.name !== asked) timer = setTimeout(ask, 40);
}

function ask() {
  if (!element.offsetParent) return; // gone from show meanwhile; check() asks when it is back
  asked = wanted.name;
  clearTimeout(waiting);
  waiting = setTimeout(goOn, 10000);
  trigger("choose", { ...wanted.choice, map });
  map = null; // until the answer is here, nobody knows what the chart will show
}

function goOn() {
  clearTimeout(waiting);
  waiting = 0;
  askSoon();
}

function check() {
  if (!glassformer.trace || !element.offsetParent) return;
  const { kind, layer, head } = glassformer.selection;
  const stage = glassformer.selection.stage ?? "softmax";
  const { query, key } = cell();
  fill(queryPick, glassformer.queryTokens(kind), "attention.pick_row", query);
  fill(keyPick, glassformer.keyTokens(kind), "attention.pick_column", key);
  body.dataset.stage = stage;
  element.closest(".gf-att-pair").classList.toggle("gf-att-wide", glassformer.keyTokens(kind).length > WIDE);
  const name = [glassformer.version(), kind, layer, head, stage, query, key].join("|");
  wanted = { name, choice: { id: glassformer.trace.id, kind, layer, head, stage, query, key } };
  if (!waiting) askSoon();
  // Last, since it calls every listener, this one too: the chart outlines the cell.
  glassformer.select({ focusQuery: query, focusKey: key });
}

function receive() {
  if (!props.value) return;
  const answer = JSON.parse(props.value);
  map = answer.map;
  said.textContent = answer.said;
  if (answer.html !== html) body.innerHTML = answer.html; // made and escaped by viz/arithmetic.py
  html = answer.html;
  goOn();
}

queryPick.addEventListener("change", () => glassformer.select({ query: Number(queryPick.value), key: Number(keyPick.value) }));
keyPick.addEventListener("change", () => glassformer.select({ query: Number(queryPick.value), key: Number(keyPick.value) }));
watch("value", receive);
glassformer.on("language", element, check);
glassformer.on("trace", element, () => {
  goOn(); // a question on the run before gets no answer any more
  check();
});
glassformer.on("selection", element, ({ changed }) => {
  if (["kind", "layer", "head", "stage", "query", "key"].some((name) => changed.includes(name))) check();
});
new ResizeObserver(() => {
  const width = body.querySelector(".gf-step")?.clientWidth ?? body.clientWidth;
  body.dataset.room = width < 340 ? "tiny" : width < 480 ? "small" : width < 520 ? "medium" : "large";
  check();
}).observe(element);
glassformer.translate(element);
receive();
check();
