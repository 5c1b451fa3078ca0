/* A table of parts: a bar, the number, its share, and its formula with the sizes put in. */
const PART_COLOURS = {
  encoder_attention: "encoder-self", encoder_projections: "encoder-self", encoder_scores: "encoder-self", encoder_patterns: "encoder-self",
  decoder_attention: "decoder-self", decoder_projections: "decoder-self", decoder_scores: "decoder-self", decoder_patterns: "decoder-self", self_cache: "decoder-self",
  cross_attention: "cross", cross_projections: "cross", cross_scores: "cross", cross_keys_values: "cross", cross_patterns: "cross", cross_cache: "cross",
};

function partRow(part, terms, sizes, most, total, show) {
  const value = valueOf(terms, sizes);
  const fill = node("span", "gf-cost-fill");
  fill.style.width = `${Math.max(0.4, (value / most) * 100)}%`;
  fill.style.background = `var(--gf-${PART_COLOURS[part] ?? "muted"})`;
  const bar = node("span", "gf-cost-bar", fill);
  bar.setAttribute("aria-hidden", "true");
  const name = node("th", "", t(`cost.part_${part}`));
  name.scope = "row";
  const row = node("tr", "", name, node("td", "gf-cost-bar-cell", bar), node("td", "gf-cost-value", show(value)),
    node("td", "gf-cost-share", percent(value / total)), node("td", "gf-cost-formula", ...formulaNodes(terms, sizes)));
  row.dataset.part = part;
  row.dataset.value = Math.round(value);
  return row;
}

/* Parts that cost nothing are left out. */
function fillParts(table, book, sizes, show, heading) {
  const parts = Object.entries(book).filter(([, terms]) => valueOf(terms, sizes) > 0);
  const values = parts.map(([, terms]) => valueOf(terms, sizes));
  const total = values.reduce((sum, value) => sum + value, 0);
  const heads = ["part", null, heading, "share", "formula"].map((name, i) => {
    const head = node(name ? "th" : "td", ["", "", "gf-cost-value", "gf-cost-share", ""][i], name ? t(`cost.column_${name}`) : "");
    if (name) head.scope = "col";
    return head;
  });
  const last = node("th", "", t("cost.total"));
  last.scope = "row";
  const sum = node("tr", "gf-cost-total", last, node("td", ""), node("td", "gf-cost-value", show(total)), node("td", ""), node("td", ""));
  sum.dataset.value = Math.round(total);
  table.replaceChildren(
    node("thead", "", node("tr", "", ...heads)),
    node("tbody", "", ...parts.map(([part, terms]) => partRow(part, terms, sizes, Math.max(...values), total, show)), sum),
  );
}

/* Buttons of which one is pressed. choices: [[value, key of its words]]. */
function segments(box, choices, choose) {
  const buttons = choices.map(([value, key]) => {
    const made = node("button", "", t(key));
    made.type = "button";
    made.dataset.text = key;
    made.dataset.value = value;
    made.addEventListener("click", () => { press(value); choose(value); });
    return made;
  });
  function press(value) {
    for (const each of buttons) each.setAttribute("aria-pressed", String(each.dataset.value === value));
  }
  box.replaceChildren(...buttons);
  return press;
}
