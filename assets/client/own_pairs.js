/* Scores of the visitor's own pairs: three numbers, what was left out, and a table to sort and to choose from.
   Every text of a pair is set as text. Event "decode" {source}: this source is to become the run on display. */
const box = element.querySelector(".gf-scores");
const numbers = element.querySelector(".gf-scores-numbers");
const facts = element.querySelector(".gf-scores-facts");
const scroll = element.querySelector(".gf-scores-scroll");
const orders = element.querySelectorAll("[data-order]");
const { t, node } = glassformer;
const COLUMNS = ["source", "reference", "written", "score"];
let report = null;
let order = { column: "score", falls: false };

function drawNumbers() {
  const explained = {
    bleu: t("own_pairs.bleu_text", { unit: t(`own_pairs.${report.bleu_unit}`) }),
    chrf: t("own_pairs.chrf_text"),
    exact: t("own_pairs.exact_text"),
  };
  numbers.replaceChildren(
    ...Object.entries(explained).map(([name, text]) =>
      node(
        "div",
        "gf-scores-number",
        node("dt", "", t(`own_pairs.${name}`)),
        node("dd", "gf-scores-value", report.scores[name]),
        node("dd", "gf-scores-explain", text),
      ),
    ),
  );
  facts.replaceChildren(...report.facts.map(({ key, values }) => node("li", "", t(`own_pairs.${key}`, values))));
}

function sorted() {
  const { column, falls } = order;
  const collator = new Intl.Collator(glassformer.language, { numeric: true });
  const rows = [...report.rows].sort((a, b) => (column === "score" ? a.score - b.score : collator.compare(a[column], b[column])));
  return falls ? rows.reverse() : rows;
}

function choose(source) {
  trigger("decode", { source });
  document.querySelector(".gf-stage")?.scrollIntoView({ block: "start" });
}

function heading(column) {
  const button = node("button", "", t(`own_pairs.column_${column}`));
  button.type = "button";
  button.addEventListener("click", () => {
    order = { column, falls: order.column === column && !order.falls };
    drawTable();
    scroll.querySelector(`[data-column="${column}"] button`).focus();
  });
  const cell = node("th", "", button);
  cell.scope = "col";
  cell.dataset.column = column;
  if (order.column === column) cell.setAttribute("aria-sort", order.falls ? "descending" : "ascending");
  return cell;
}

function row(pair) {
  const source = node("button", "gf-scores-source", pair.source);
  source.type = "button";
  source.title = t("own_pairs.decode");
  const fill = node("span", "");
  fill.style.width = `${pair.score}%`;
  const mark = pair.exact ? [node("span", "gf-scores-exact", t("own_pairs.right"))] : [];
  const made = node(
    "tr",
    "",
    node("td", "", source),
    node("td", "", pair.reference),
    node("td", "", pair.written || "∅"),
    node("td", "gf-scores-score", `${pair.score.toFixed(1)} `, ...mark, node("span", "gf-scores-track", fill)),
  );
  for (const text of [source, made.cells[1], made.cells[2]]) text.dir = "auto";
  made.cells[1].dataset.name = t("own_pairs.column_reference");
  made.cells[2].dataset.name = t("own_pairs.column_written");
  made.addEventListener("click", () => choose(pair.source));
  return made;
}

function drawTable() {
  const table = node("table", "");
  table.createTHead().insertRow().append(...COLUMNS.map(heading));
  table.createTBody().append(...sorted().map(row));
  scroll.replaceChildren(table);
  for (const button of orders)
    button.setAttribute("aria-pressed", String(order.column === "score" && order.falls === (button.dataset.order === "best")));
}

function draw() {
  box.hidden = !report;
  if (!report) return;
  drawNumbers();
  drawTable();
}

function receive() {
  if (!props.value) return;
  report = JSON.parse(props.value);
  order = { column: "score", falls: false };
  draw();
  scroll.scrollTop = 0;
}

for (const button of orders)
  button.addEventListener("click", () => {
    order = { column: "score", falls: button.dataset.order === "best" };
    drawTable();
    scroll.scrollTop = 0;
  });
watch("value", receive);
glassformer.on("language", element, draw);
glassformer.translate(element);
receive();
