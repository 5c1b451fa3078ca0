/* A reference above what the model wrote by itself, one column a position, broken into lines that fit the width.
   A bar is a probability; its colour says what the decoder was fed. Every token is set as text. */
const box = element.querySelector(".gf-reference");
const say = element.querySelector(".gf-reference-say");
const facts = element.querySelector(".gf-reference-facts");
const lines = element.querySelector(".gf-reference-lines");
const { t, node } = glassformer;
// In px, as the style sheet has them: a column and the names of the rows, on a wide and on a narrow place.
const WIDE = { column: 92, names: 190 };
const NARROW = { column: 78, names: 96, upTo: 560 };
let comparison = null;
let perLine = 0;

/* The words of a key with its {values} put in: a chip as a chip, all else as text. */
function sentence(key, values) {
  const marks = Object.fromEntries(Object.keys(values).map((name) => [name, `\u0000${name}\u0000`]));
  return t(`reference.${key}`, marks).split("\u0000").map((part, i) => {
    if (i % 2 === 0) return part;
    const value = values[part];
    return value?.label === undefined ? node("strong", "", String(value)) : glassformer.tokenChip(value, "span");
  });
}

function bar(share, kind) {
  if (!share) return [node("span", "gf-reference-none", "–")];
  const fill = node("span", "");
  fill.style.width = `${share.share * 100}%`;
  return [node("span", "gf-reference-number", share.text), node("span", `gf-reference-track gf-reference-${kind}`, fill)];
}

function chip(token, differs) {
  if (!token) return [node("span", "gf-reference-none", "–")];
  const made = glassformer.tokenChip(token, "span");
  made.classList.toggle("gf-reference-differs", differs);
  return [made];
}

/* Under its probability, what the model would rather have had there. */
function forcedCell(column) {
  const cell = bar(column.fed_reference, "forced");
  if (column.choice) cell.push(node("span", "gf-reference-rather", ...sentence("rather", column.choice)));
  return cell;
}

const ROWS = [
  ["reference", (column) => chip(column.reference, false), "gf-reference-tokens"],
  ["given_reference", forcedCell, ""],
  ["given_own", (column) => bar(column.fed_own, "free"), ""],
  ["written", (column) => chip(column.written, column.differs), "gf-reference-tokens gf-reference-second"],
  ["written_probability", (column) => bar(column.own, "free"), ""],
];

function heading(column, position) {
  const cell = node("th", "gf-reference-cell gf-reference-position", String(position + 1));
  cell.scope = "col";
  if (position === comparison.parts_at) cell.append(node("span", "gf-reference-flag", t("reference.flag")));
  return cell;
}

function line(columns, start) {
  const table = node("table", "");
  table.setAttribute("aria-label", t("reference.line_label", { first: start + 1, last: start + columns.length }));
  const head = table.insertRow();
  head.append(node("td", "gf-reference-cell gf-reference-name"), ...columns.map((column, i) => heading(column, start + i)));
  for (const [name, cellOf, className] of ROWS) {
    const row = table.insertRow();
    row.className = className;
    const label = node("th", "gf-reference-cell gf-reference-name", t(`reference.row_${name}`));
    label.scope = "row";
    row.append(label, ...columns.map((column) => node("td", "gf-reference-cell", ...cellOf(column))));
  }
  const place = comparison.parts_at;
  if (place !== null)
    for (const row of table.rows)
      [...row.cells].slice(1).forEach((cell, i) => {
        cell.classList.toggle("gf-reference-parts", start + i === place);
        cell.classList.toggle("gf-reference-after", start + i >= place);
      });
  return table;
}

function columnsPerLine() {
  const { column, names } = lines.clientWidth < NARROW.upTo ? NARROW : WIDE;
  return Math.max(2, Math.floor((lines.clientWidth - names) / column));
}

function draw() {
  if (!comparison) return;
  const { columns, verdict, facts: said } = comparison;
  box.hidden = false;
  perLine = columnsPerLine();
  say.replaceChildren(...sentence(verdict.key, verdict.values));
  facts.replaceChildren(...said.map(({ key, values }) => node("li", "", ...sentence(key, values))));
  const made = [];
  for (let start = 0; start < columns.length; start += perLine) made.push(line(columns.slice(start, start + perLine), start));
  lines.replaceChildren(...made);
}

function receive() {
  if (!props.value) return;
  comparison = JSON.parse(props.value);
  draw();
}

watch("value", receive);
glassformer.on("language", element, draw);
new ResizeObserver(() => {
  if (comparison && lines.clientWidth && columnsPerLine() !== perLine) draw();
}).observe(lines);
glassformer.whenStale(element, (version) => trigger("refresh", { version }));
glassformer.translate(element);
receive();
