/* What the model would write under each setting of the masks, all from the same fed tokens (teacher forcing). */
const table = element.querySelector("table");
const summary = element.querySelector(".gf-effects-summary");
const { t, node } = glassformer;

const signed = (value) => (Math.abs(value) < 0.00005 ? "0.0000" : `${value > 0 ? "+" : "−"}${Math.abs(value).toFixed(4)}`);
const minus = (value) => value.toFixed(4).replace("-", "−");
const small = (value) => (value === 0 ? "0" : value >= 0.001 ? value.toFixed(3) : value.toExponential(1).replace("-", "−"));

function line(row, unpadded) {
  const tokens = node("div", "gf-effects-tokens");
  row.predicted.forEach((token, i) => {
    const chip = glassformer.tokenChip(token, "span");
    chip.classList.toggle("gf-chip-wrong", !row.is_right[i]);
    if (!row.is_right[i]) chip.title = t("masks.effects_wrong");
    tokens.append(chip);
  });
  const name = node("th", "", node("strong", "", t(`masks.setting_${row.name}`)), node("span", "", t(`masks.setting_${row.name}_text`)));
  name.scope = "row";
  const right = row.is_right.filter(Boolean).length;
  const cells = [`${right} / ${row.is_right.length}`, `${(row.lowest * 100).toFixed(2)} %`, minus(row.log_prob), signed(row.log_prob - unpadded), small(row.moved)];
  const made = node("tr", row.name === "all" ? "gf-effects-usual" : "", name, node("td", "", tokens), ...cells.map((text) => node("td", "gf-number", text)));
  made.dataset.setting = row.name;
  return made;
}

function draw() {
  if (!props.value) return;
  const { rows, unpadded } = JSON.parse(props.value);
  const heads = ["setting", "predicted", "right", "lowest", "log_prob", "change", "moved"].map((name) => {
    const head = node("th", "", t(`masks.effects_${name}`));
    head.scope = "col";
    return head;
  });
  table.replaceChildren(node("thead", "", node("tr", "", ...heads)), node("tbody", "", ...rows.map((row) => line(row, unpadded))));
  const worst = rows.reduce((a, b) => (b.log_prob < a.log_prob ? b : a));
  const wrong = Math.max(...rows.map((row) => row.is_right.filter((right) => !right).length));
  summary.textContent = t("masks.effects_summary", { usual: minus(rows[0].log_prob), unpadded: minus(unpadded) }) + " "
    + t(wrong ? "masks.effects_worst_wrong" : "masks.effects_worst", { setting: t(`masks.setting_${worst.name}`), log_prob: minus(worst.log_prob), wrong });
}

watch("value", draw);
glassformer.on("language", element, draw);
glassformer.translate(element);
draw();
