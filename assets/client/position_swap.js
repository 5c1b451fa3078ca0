/* Two tokens change places: how much of the encoder's output changes, with positions and without them. */
const texts = element.querySelector(".gf-swap-texts");
const results = element.querySelector(".gf-swap-results");
const summary = element.querySelector(".gf-chart-summary");
const { t, node } = glassformer;

function line(label, tokens, marked) {
  const row = node("div", "gf-swap-line");
  const chips = node("div", "gf-swap-chips");
  tokens.forEach((token, i) => {
    const chip = glassformer.tokenChip(token, "span");
    chip.classList.toggle("gf-swap-moved", marked.includes(i));
    chips.append(chip);
  });
  row.append(node("span", "gf-field-label", label), chips);
  return row;
}

/* A number as people read it; what is only rounding keeps its power of ten. */
const shown = (value) => (value >= 0.001 ? value.toFixed(3) : value.toExponential(1));

function draw() {
  if (!props.value) return;
  const { tokens, first, second, with_positions: seen, without } = JSON.parse(props.value);
  const swapped = [...tokens];
  [swapped[first], swapped[second]] = [tokens[second], tokens[first]];
  texts.replaceChildren(
    line(t("positions.swap_before"), tokens, [first, second]),
    line(t("positions.swap_after"), swapped, [first, second]),
  );
  results.replaceChildren(
    ...[["with", seen], ["without", without]].map(([name, value]) => {
      const box = node("div", "gf-swap-result");
      box.append(
        node("span", "gf-field-label", t(`positions.swap_${name}`)),
        node("strong", "", shown(value)),
        node("span", "gf-swap-verdict", t(value > 0.001 ? "positions.swap_noticed" : "positions.swap_unnoticed")),
      );
      return box;
    }),
  );
  summary.textContent = t("positions.swap_note");
}

watch("value", draw);
glassformer.on("language", element, draw);
draw();
