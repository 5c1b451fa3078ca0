/* One written token taken apart, line by line along the decoder: how long its residual stream is, what each component adds
   to its logit, and what the network would answer if it ended there. All steps come at once; another step asks nobody.
   Event: "ask" {run}. */
const steps = element.querySelector(".gf-xray-steps");
const sentence = element.querySelector(".gf-xray-sentence");
const table = element.querySelector("table");
const foot = element.querySelector(".gf-xray-foot");
let view = null;

/* The chosen step counted from 0: the token written last. */
const at = () => Math.max(0, Math.min(view.written.length, glassformer.selection.step) - 1);
const label = () => view.written[at()].label;

function bar(share, className) {
  const made = node("span", `gf-xray-bar ${className}`);
  made.style.setProperty("--gf-share", String(Math.max(0, Math.min(1, share))));
  return made;
}

/* A bar to the left of the middle for what is taken away, to the right for what is added. */
function shareCell(value, largest) {
  const made = node("td", "gf-xray-share", node("span", "gf-xray-both"), node("b", "", (value > 0 ? "+" : "") + numberText(value)));
  const fill = bar(Math.abs(value) / largest, value < 0 ? "gf-xray-less" : "gf-xray-more");
  made.firstChild.append(fill);
  made.dataset.value = value;
  return made;
}

function normCell(length, written, largest) {
  const bars = node("span", "gf-xray-lengths", bar(length / largest, "gf-xray-stream-bar"));
  if (written !== null) bars.append(bar(written / largest, "gf-xray-written-bar"));
  const made = node("td", "gf-xray-norm", bars, node("b", "", numberText(length)));
  if (written !== null) made.append(node("small", "", t("xray.wrote", { n: numberText(written) })));
  return made;
}

/* What would be answered at this point: the best tokens, and the place of the written one where it is none of them. */
function lensCell(point) {
  const made = node("td", "gf-xray-lens");
  const step = at();
  const isFirst = (i) => i === 0 && view.ranks[point][step] === 1;
  view.candidates[point][step].forEach(([token, share], i) => {
    const chip = node("span", "gf-xray-candidate", node("i", "", token), node("small", "", percentText(share)));
    chip.classList.toggle("gf-xray-is-written", token === label() || isFirst(i));
    chip.style.setProperty("--gf-share", share);
    chip.dir = "auto";
    made.append(chip);
  });
  const rank = view.ranks[point][step];
  if (rank > view.candidates[point][step].length)
    made.append(node("span", "gf-xray-rank", t("xray.rank", { token: label(), rank, of: view.n_vocabulary, percent: percentText(view.probabilities[point][step]) })));
  return made;
}

const shareOf = (component) => view.shares[view.components.indexOf(component)][at()];

/* The components of the logit by name, the biases last. */
function componentWords(name) {
  if (name === "bias") return t("xray.component_bias");
  if (name.startsWith("tgt_embedding")) return t(name.endsWith("hook_embed") ? "xray.part_embed" : "xray.part_pos_embed");
  return sublayerWords(name);
}

function drawTable() {
  const step = at();
  const { before, written, after } = view.norms;
  const longest = Math.max(before[0][step], ...after.map((line) => line[step]), ...written.map((line) => line[step]));
  const largest = Math.max(...view.shares.map((line) => Math.abs(line[step])), 1e-9);
  const head = ["after", "stream", "share", "lens"].map((name) => {
    const made = node("th", "", node("span", "", t(`xray.column_${name}`, { token: label() })));
    made.scope = "col";
    made.append(node("small", "", t(`xray.column_${name}_says`)));
    return made;
  });
  const line = (name, className, ...cells) => {
    const first = node("th", "", ...(Array.isArray(name) ? name : [name]));
    first.scope = "row";
    // On a narrow screen, where a line becomes a block, each cell says which column it is.
    cells.forEach((cell, i) => {
      if (cell.childNodes.length) cell.dataset.column = t(`xray.column_${["stream", "share", "lens"][i]}`, { token: label() });
    });
    return node("tr", className, first, ...cells);
  };
  const [embed, position] = view.components;
  const both = node("td", "gf-xray-share-two");
  for (const component of [embed, position]) {
    const cell = shareCell(shareOf(component), largest);
    const part = node("span", "gf-xray-share", ...cell.childNodes, node("small", "", componentWords(component)));
    part.dataset.value = shareOf(component);
    both.append(part);
  }
  const rows = [line(t("xray.row_start"), "gf-xray-layer-end", normCell(before[0][step], null, longest), both, lensCell(0))];
  view.sublayers.forEach((name, i) => {
    const kind = name.split(".").pop();
    const isEnd = i + 1 === view.sublayers.length || name.split(".")[2] !== view.sublayers[i + 1].split(".")[2];
    const row = line(sublayerWords(name), isEnd ? "gf-xray-layer-end" : "", normCell(after[i][step], written[i][step], longest), shareCell(shareOf(name), largest), lensCell(i + 1));
    row.dataset.kind = kind;
    rows.push(row);
  });
  rows.push(line(t("xray.component_bias"), "", node("td", ""), shareCell(shareOf("bias"), largest), node("td", "")));
  const sum = view.shares.reduce((total, values) => total + values[step], 0);
  const total = node("td", "gf-xray-sum", node("b", "", t("xray.sum", { sum: numberText(sum), logit: numberText(view.logits[step]) })));
  total.dataset.value = sum;
  rows.push(line(t("xray.row_sum"), "gf-xray-sum-row", node("td", ""), total, node("td", "")));
  table.replaceChildren(node("thead", "", node("tr", "", ...head)), node("tbody", "", ...rows));
}

/* What is to be seen, in words: when the written token came first for good, and who added most to its logit. */
function say() {
  const step = at();
  const points = [t("xray.point_start"), ...view.sublayers.map((name) => sublayerWords(name))];
  const last = points.length - 1;
  let since = last + 1;
  while (since > 0 && view.ranks[since - 1][step] === 1) since -= 1;
  const [first, share] = view.candidates[0][step][0];
  const words = [t("xray.say_start", { step: step + 1, token: label(), first, percent: percentText(share) })];
  if (since === 0) words.push(t("xray.say_always", { token: label(), final: percentText(view.probabilities[last][step]) }));
  else if (since > last) words.push(t("xray.say_never", { token: label(), rank: view.ranks[last][step] }));
  else words.push(t("xray.say_since", { token: label(), where: points[since], percent: percentText(view.probabilities[since][step]), final: percentText(view.probabilities[last][step]) }));
  const most = view.components.reduce((best, name) => (shareOf(name) > shareOf(best) ? name : best));
  words.push(t("xray.say_share", { logit: numberText(view.logits[step]), most: componentWords(most), share: numberText(shareOf(most)) }));
  sentence.textContent = words.join(glassformer.language === "zh" ? "" : " ");
}

function drawSteps() {
  steps.replaceChildren(...view.written.map((token, i) => {
    const chip = glassformer.tokenChip(token);
    chip.setAttribute("aria-pressed", String(i === at()));
    chip.setAttribute("aria-label", t("xray.step_n", { n: i + 1, token: token.label }));
    chip.addEventListener("click", () => {
      glassformer.select({ step: i + 1 });
      steps.children[i]?.focus();
    });
    return chip;
  }));
}

function draw() {
  if (!view) return;
  drawSteps();
  say();
  drawTable();
  foot.textContent = t(view.norm_first ? "xray.foot_pre" : "xray.foot_post");
}

watch("value", () => {
  if (!props.value) return;
  view = JSON.parse(props.value);
  draw();
});
let askedFor = "";
glassformer.on("language", element, draw);
glassformer.whenStale(element, () => {
  if (askedFor === glassformer.trace.id) return;
  askedFor = glassformer.trace.id;
  trigger("ask", { run: glassformer.trace.id });
});
glassformer.on("selection", element, ({ changed }) => {
  if (changed.includes("step")) draw();
});
glassformer.translate(element);
