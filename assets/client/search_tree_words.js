/* A tree in words and numbers: what a node says, what stands behind an output, and the table twin. */

const { t } = glassformer;
const number = (value) => value.toFixed(3).replace("-", "−");
const probabilityOf = (tree, node) => Math.exp(tree.log_probs[node]);
const totalOf = (tree, node) => pathTo(tree, node).reduce((sum, each) => sum + tree.log_probs[each], 0);

/* The nodes from the first written token to a node. */
function pathTo(tree, node) {
  const path = [];
  for (let each = node; each > 0; each = tree.parents[each]) path.unshift(each);
  return path;
}

/* Who passes through a node, in words: "greedy, beams 1, 2, sample 3". */
function passing(tree, node) {
  const names = tree.greedy[node] ? [t("tree.greedy")] : [];
  for (const [search, numbers] of [["beam", tree.beams[node]], ["sample", tree.samples[node]]])
    if (numbers.length) names.push(t(`tree.${search}_${numbers.length > 1 ? "many" : "one"}`, { numbers: numbers.join(", ") }));
  if (tree.pruned_at[node] > tree.depths[node]) names.push(t("tree.dropped_later", { step: tree.pruned_at[node] }));
  else if (tree.pruned_at[node]) names.push(t("tree.dropped", { step: tree.pruned_at[node] }));
  return names.join(t("tree.comma"));
}

function nodeFacts(tree, node) {
  if (!node) return t("tree.start");
  return t("tree.node_facts", {
    token: tree.chips[node].label, step: tree.depths[node], percent: percentWords(probabilityOf(tree, node), 1),
    total: number(totalOf(tree, node)), passing: passing(tree, node),
  });
}

/* Outputs that end in one place: who wrote them, their log-probability, for beams what they are ranked by. */
function endLabel(tree, paths) {
  const label = document.createElement("div");
  label.className = "gf-tree-end";
  for (const search of SEARCHES) {
    const numbers = paths.filter((path) => path.search === search).map((path) => path.number);
    if (!numbers.length) continue;
    const name = document.createElement("span");
    name.className = `gf-tree-badge gf-tree-is-${search}`;
    name.textContent = search === "greedy" ? t("tree.greedy") : t(`tree.${search}_${numbers.length > 1 ? "many" : "one"}`, { numbers: numbers.join(", ") });
    label.append(name);
  }
  const total = document.createElement("span");
  total.textContent = t("tree.log_prob", { log_prob: number(paths[0].log_prob) });
  label.append(total);
  const beam = paths.find((path) => path.search === "beam");
  if (beam && tree.length_penalty > 0) {
    const score = document.createElement("span");
    score.textContent = t("tree.score", { score: number(beam.score) });
    label.append(score);
  }
  if (!paths[0].finished) {
    const cut = document.createElement("span");
    cut.textContent = t("tree.no_eos");
    label.append(cut);
  }
  return label;
}

/* Every node with what was written before it, in the order of the picture. */
function tableOf(tree) {
  const table = document.createElement("table");
  const row = (cells, isHead) => {
    const line = table.insertRow();
    cells.forEach((cell, i) => {
      const box = document.createElement(isHead || i === 0 ? "th" : "td");
      if (isHead || i === 0) box.scope = isHead ? "col" : "row";
      box.textContent = cell;
      line.append(box);
    });
  };
  row(["prefix", "token", "step", "probability", "total", "passing"].map((name) => t(`tree.table_${name}`)), true);
  const visit = [0];
  while (visit.length) {
    const node = visit.pop();
    visit.push(...[...tree.children[node]].reverse());
    if (!node) continue;
    const before = pathTo(tree, tree.parents[node]).map((each) => tree.chips[each].label).join(" ");
    row([before || "–", tree.chips[node].label, tree.depths[node], percent(probabilityOf(tree, node), 2), number(totalOf(tree, node)), passing(tree, node)], false);
  }
  return table;
}
