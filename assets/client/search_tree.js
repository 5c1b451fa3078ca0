/* The search tree. Drawn from the payload of viz/search_tree.py; the other parts are search_tree_layout.js, change.js
   and stage_model.js. Events: "refresh" when it is on show and made for another text, model or search; "node" {path}
   when a prefix is to be put on display; "back" {all}. */
const root = element.querySelector(".gf-tree");
const legend = root.querySelector(".gf-tree-legend");
const hint = root.querySelector(".gf-tree-hint");
const scroll = root.querySelector(".gf-tree-scroll");
const canvas = root.querySelector(".gf-tree-canvas");
const svg = root.querySelector("svg");
const lines = root.querySelector(".gf-tree-lines");
const nodeLayer = root.querySelector(".gf-tree-nodes");
const endLayer = root.querySelector(".gf-tree-ends");
const details = root.querySelector("details");
const live = root.querySelector(".gf-tree-live");
const hidden = new Set(); // of SEARCHES and "pruned"
let tree = null;
let asked = null; // the key of the tree that was asked for
let boxes = []; // the element of each node
let strands = []; // the lines that lead to each node
let visible = [];
let here = { path: [], node: 0 }; // the nodes of the run on display, and the one at the step on display
let inSight = false;
let wanted = null; // the node that was chosen, to be said once it is on display

const change = makeChangeBar(root.querySelector(".gf-change"), (all) => trigger("back", { all }));
const childrenOf = (node) => tree.children[node].filter((child) => visible[child]);

/* Building: once a tree */
function build() {
  const { log_probs: logProbs } = tree;
  tree.children = tree.parents.map(() => []);
  tree.parents.forEach((parent, node) => { if (parent >= 0) tree.children[parent].push(node); });
  for (const children of tree.children) children.sort((a, b) => logProbs[b] - logProbs[a]);
  boxes = tree.chips.map((chip, node) => {
    const box = document.createElement("div");
    const searches = searchesOf(tree, node);
    box.className = "gf-tree-node";
    box.classList.toggle("gf-tree-pruned", node > 0 && !searches.length);
    box.dataset.node = node;
    box.tabIndex = node === 0 ? 0 : -1; // Tab finds the tree before it was ever in sight
    box.setAttribute("role", "treeitem");
    box.setAttribute("aria-level", tree.depths[node] + 1);
    const label = document.createElement("bdi");
    label.className = "gf-tree-token";
    label.classList.toggle("gf-tree-special", chip.special);
    label.textContent = chip.label;
    box.append(label);
    if (node > 0) {
      const share = document.createElement("span");
      share.textContent = percent(probabilityOf(tree, node)).replace(/ /g, "\u202f");
      box.append(share);
    }
    const stripe = document.createElement("i");
    for (const search of node ? searches : []) {
      const part = document.createElement("b");
      part.className = `gf-tree-is-${search}`;
      stripe.append(part);
    }
    box.append(stripe);
    return box;
  });
  nodeLayer.replaceChildren(...boxes);
  buildLegend();
  words();
  layout();
  fillTable();
}

function words() {
  boxes.forEach((box, node) => {
    box.setAttribute("aria-label", nodeFacts(tree, node));
    box.title = nodeFacts(tree, node);
  });
  hint.textContent = t("tree.hint");
}

function buildLegend() {
  const counts = {
    greedy: 1,
    beam: tree.paths.filter((path) => path.search === "beam").length,
    sample: tree.paths.filter((path) => path.search === "sample").length,
    pruned: tree.parents.filter((_, node) => node > 0 && !searchesOf(tree, node).length).length,
  };
  legend.replaceChildren(...[...SEARCHES, "pruned"].map((name) => {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.search = name;
    button.className = `gf-tree-filter gf-tree-is-${name}`;
    button.setAttribute("aria-pressed", String(!hidden.has(name)));
    button.append(document.createElement("i"), t(`tree.legend_${name}`, { n: counts[name] }));
    button.title = t("tree.filter");
    return button;
  }));
  const left = tree.n_left_out;
  if (!left) return;
  const note = document.createElement("span");
  note.textContent = t("tree.left_out", { n: left, shown: tree.parents.length });
  legend.append(note);
}

/* Layout: once a tree, a filter, a width of the fonts */
function layout() {
  if (!tree) return;
  visible = [];
  tree.parents.forEach((parent, node) => {
    const searches = searchesOf(tree, node);
    const wantedHere = searches.some((search) => !hidden.has(search)) || (tree.pruned_at[node] > 0 && !hidden.has("pruned"));
    visible[node] = node === 0 || (visible[parent] && wantedHere);
    boxes[node].hidden = !visible[node];
  });
  const rows = hidden.has("pruned") ? tree.rows_kept : tree.rows;
  const widths = boxes.map((box, node) => (visible[node] ? box.offsetWidth : 0));
  if (!widths[0]) return; // not on show
  const { lefts, widest } = columnsOf(tree, widths, visible, scroll.clientWidth);
  const drawn = [];
  strands = boxes.map(() => []);
  const bottom = Math.max(...rows.filter((_, node) => visible[node]));
  boxes.forEach((box, node) => {
    if (!visible[node]) return;
    const depth = tree.depths[node];
    box.style.transform = `translate(${lefts[depth]}px, ${middle(rows[node]) - 16}px)`;
    const parent = tree.parents[node];
    if (parent < 0) return;
    strands[node] = strandsOf({
      from: lefts[depth - 1] + widths[parent], turn: lefts[depth - 1] + widest[depth - 1], to: lefts[depth],
      fromY: middle(rows[parent]), toY: middle(rows[node]), probability: probabilityOf(tree, node),
      searches: searchesOf(tree, node).filter((search) => !hidden.has(search)),
    });
    drawn.push(...strands[node]);
  });
  const ends = endsOf().map(({ node, paths }) => {
    const label = endLabel(tree, paths);
    const left = lefts[tree.depths[node]] + widths[node] + 12;
    label.style.transform = `translate(${left}px, ${middle(rows[node]) - 16}px)`;
    return { label, left };
  });
  endLayer.replaceChildren(...ends.map(({ label }) => label));
  lines.replaceChildren(...drawn);
  const rights = boxes.map((_, node) => (visible[node] ? lefts[tree.depths[node]] + widths[node] : 0));
  const width = Math.max(...rights, ...ends.map(({ label, left }) => left + label.offsetWidth)) + EDGE;
  const height = middle(bottom) + ROW / 2 + EDGE;
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  svg.setAttribute("width", width);
  svg.setAttribute("height", height);
  mark();
}

/* Outputs that end in the same node share a label. */
function endsOf() {
  const ends = new Map();
  for (const path of tree.paths) {
    const node = path.nodes[path.nodes.length - 1];
    if (path.nodes.length !== path.n_steps || hidden.has(path.search) || !visible[node]) continue;
    ends.set(node, [...(ends.get(node) || []), path]);
  }
  return [...ends].map(([node, paths]) => ({ node, paths }));
}

/* Marking: with each step and each run. The nodes that the run on display goes through, and the one of this step. */
function mark() {
  if (!tree || !glassformer.trace || !inSight) return; // scrubbing on the stage pays nothing for a tree out of sight
  const { trace, selection } = glassformer;
  const path = [0];
  const isOurs = trace.tree === tree.key;
  for (const token of isOurs ? trace.written : []) {
    const next = tree.children[path[path.length - 1]].find((child) => tree.tokens[child] === token);
    if (next === undefined) break;
    path.push(next);
  }
  here = { path, node: path[selection.step] ?? null };
  boxes.forEach((box, node) => {
    box.classList.toggle("gf-tree-on", path.includes(node) && tree.depths[node] <= selection.step);
    box.classList.toggle("gf-tree-on-later", path.includes(node) && tree.depths[node] > selection.step);
    setAttribute(box, "aria-selected", node === here.node);
    box.tabIndex = node === (here.node !== null && visible[here.node] ? here.node : 0) ? 0 : -1;
  });
  drawDetail();
}

/* The chosen node in words, and where one head looked while its token was written. */
function drawDetail() {
  const { trace, selection } = glassformer;
  const { step } = selection;
  const [layers, heads] = trace.patterns.cross.shape;
  const layer = Math.min(selection.layer, layers - 1);
  const head = Math.min(selection.head, heads - 1);
  const inTree = here.node !== null;
  root.querySelector(".gf-tree-facts").textContent = inTree ? nodeFacts(tree, here.node) : t("tree.outside", { step: here.path.length });
  const source = root.querySelector(".gf-tree-source");
  const look = root.querySelector(".gf-tree-look");
  look.replaceChildren();
  source.replaceChildren();
  if (step === 0) return;
  look.append(...sentenceNodes({ key: "tree.look", values: { token: trace.steps[step - 1].token, layer: layer + 1, head: head + 1 } }));
  const pattern = glassformer.headPattern("cross", layer, head);
  source.append(...trace.source.map((token, column) => {
    const slot = document.createElement("span");
    const chip = glassformer.tokenChip(token, "span");
    const weight = pattern.get(step - 1, column);
    chip.style.setProperty("--heat", `${Math.round(weight * 60)}%`);
    const share = document.createElement("span");
    share.textContent = percent(weight).replace(/ /g, "\u202f");
    slot.append(chip, share);
    return slot;
  }));
}

/* Pointing: the way from the start to a node stands out. */
function light(node) {
  root.classList.toggle("gf-tree-dim", node !== null);
  const path = node === null ? [] : [0, ...pathTo(tree, node)];
  boxes.forEach((box, each) => box.classList.toggle("gf-tree-lit", path.includes(each)));
  strands.forEach((paths, each) => {
    for (const line of paths) line.classList.toggle("gf-tree-lit", path.includes(each));
  });
}

/* Choosing: a node of the run on display is only a step of it; any other one is a run of its own, made by the server. */
function choose(node) {
  if (!tree || glassformer.trace.tree !== tree.key) return;
  focusOn(node);
  wanted = node;
  const ownStep = here.path.indexOf(node);
  if (ownStep >= 0) {
    glassformer.select({ step: ownStep, query: null, key: null });
    announce();
  } else trigger("node", { path: pathTo(tree, node).map((each) => tree.token_ids[each]) });
}

function announce() {
  if (wanted === null || here.node !== wanted) return;
  live.textContent = t("tree.live", { facts: nodeFacts(tree, wanted) });
  wanted = null;
}

function focusOn(node) {
  for (const box of boxes) box.tabIndex = -1;
  boxes[node].tabIndex = 0;
  boxes[node].focus({ preventScroll: false });
}

/* The node above or below in the same column. */
function beside(node, direction) {
  const rows = hidden.has("pruned") ? tree.rows_kept : tree.rows;
  const others = tree.depths.map((_, each) => each)
    .filter((each) => visible[each] && tree.depths[each] === tree.depths[node] && (rows[each] - rows[node]) * direction > 0);
  others.sort((a, b) => (rows[a] - rows[b]) * direction);
  return others[0];
}

nodeLayer.addEventListener("keydown", (event) => {
  const node = Number(event.target.dataset.node);
  if (Number.isNaN(node) || event.ctrlKey || event.metaKey || event.altKey) return;
  let end = node;
  while (childrenOf(end).length) [end] = childrenOf(end);
  const next = {
    ArrowRight: () => childrenOf(node)[0], ArrowLeft: () => (node ? tree.parents[node] : undefined),
    ArrowDown: () => beside(node, 1), ArrowUp: () => beside(node, -1), Home: () => 0, End: () => end,
    Enter: () => choose(node), " ": () => choose(node),
  }[event.key];
  if (!next) return;
  event.preventDefault();
  const to = next();
  if (to !== undefined) focusOn(to);
});
nodeLayer.addEventListener("click", (event) => {
  const box = event.target.closest(".gf-tree-node");
  if (box) choose(Number(box.dataset.node));
});
nodeLayer.addEventListener("pointerover", (event) => {
  const box = event.target.closest(".gf-tree-node");
  if (event.pointerType !== "touch") light(box ? Number(box.dataset.node) : null);
});
nodeLayer.addEventListener("pointerleave", () => light(null));
legend.addEventListener("click", (event) => {
  const name = event.target.closest("button")?.dataset.search;
  if (!name) return;
  if (hidden.has(name)) hidden.delete(name);
  else hidden.add(name);
  event.target.closest("button").setAttribute("aria-pressed", String(!hidden.has(name)));
  layout();
});
root.querySelector(".gf-tree-to-stage").addEventListener("click", () => {
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  document.querySelector(".gf-stage").scrollIntoView({ behavior: still ? "auto" : "smooth" });
});

function fillTable() {
  if (tree && details.open) details.querySelector("div").replaceChildren(tableOf(tree));
}
details.addEventListener("toggle", fillTable);

/* The run, the selection, the words */
function drawState() {
  const { trace } = glassformer;
  const isFixed = Boolean(trace) && trace.tree === null;
  root.classList.toggle("gf-tree-none", isFixed);
  root.classList.toggle("gf-tree-stale", Boolean(tree && trace && trace.tree !== tree.key));
  if (isFixed) hint.textContent = t("tree.fixed");
  else hint.textContent = t("tree.hint");
  hint.hidden = Boolean(trace?.change);
  change.draw();
}
function receive() {
  if (!props.value) return;
  const next = JSON.parse(props.value);
  if (tree && next.key === tree.key) return;
  tree = next;
  build();
  drawState();
}
watch("value", receive);
glassformer.whenStale(element, (version) => {
  const { trace } = glassformer;
  if (trace.tree === null || trace.tree === tree?.key || trace.tree === asked) return;
  asked = trace.tree;
  trigger("refresh", { version });
});
glassformer.on("trace", element, () => { drawState(); mark(); announce(); });
glassformer.on("selection", element, ({ changed }) => {
  if (["step", "layer", "head"].some((name) => changed.includes(name))) mark();
});
glassformer.on("language", element, () => {
  laidOutFor = 0; // where the tree is not on show it cannot be laid out with other words now: it is when it comes
  drawState();
  if (!tree) return;
  buildLegend();
  words();
  layout();
  fillTable();
});
new IntersectionObserver((entries) => {
  inSight = entries[entries.length - 1].isIntersecting;
  mark();
}).observe(root);
let laidOutFor = 0; // px
new ResizeObserver(() => {
  if (!scroll.clientWidth || scroll.clientWidth === laidOutFor) return;
  laidOutFor = scroll.clientWidth;
  layout();
}).observe(scroll);
glassformer.translate(element);
drawState();
receive();
