/* The three kinds of attention, and all heads of one as small maps. A choice goes to the shared selection. */
const kinds = [...element.querySelectorAll("[data-kind]")];
const grid = element.querySelector(".gf-att-grid");
let drawn = ""; // what the grid shows; "" when it must be drawn anew

/* Rows and columns of a small map, one pixel a cell; the browser enlarges it without blurring. */
function paint(canvas, kind, layer, head, colours, hidden) {
  const pattern = glassformer.headPattern(kind, layer, head);
  const keys = glassformer.keyTokens(kind);
  [canvas.width, canvas.height] = [pattern.columns, pattern.rows];
  const context = canvas.getContext("2d");
  const image = context.createImageData(pattern.columns, pattern.rows);
  for (let row = 0; row < pattern.rows; row += 1)
    for (let column = 0; column < pattern.columns; column += 1) {
      const padding = keys[column].special && keys[column].label === "<pad>";
      const masked = padding || (kind === "decoder_self" && column > row);
      const colour = masked ? hidden : colours[Math.round(pattern.get(row, column) * 255)];
      image.data.set([...colour, 255], (row * pattern.columns + column) * 4);
    }
  context.putImageData(image, 0, 0);
}

function heading(text, className) {
  const box = document.createElement("span");
  box.className = className;
  box.textContent = text;
  return box;
}

function build(kind) {
  const [layers, heads] = glassformer.trace.patterns[kind].shape;
  const colours = glassformer.scale("sequential");
  const hidden = [1, 3, 5].map((start) => parseInt(glassformer.colour("hidden").slice(start, start + 2), 16));
  const cells = [heading("", "gf-att-corner")];
  for (let head = 0; head < heads; head += 1)
    cells.push(heading(heads > 5 ? String(head + 1) : glassformer.t("attention.head", { n: head + 1 }), "gf-att-column"));
  for (let layer = 0; layer < layers; layer += 1) {
    cells.push(heading(glassformer.t("attention.layer", { n: layer + 1 }), "gf-att-row"));
    for (let head = 0; head < heads; head += 1) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "gf-att-head";
      button.setAttribute("role", "radio");
      Object.assign(button.dataset, { layer, head });
      const name = glassformer.t("attention.head_name", { layer: layer + 1, head: head + 1 });
      button.setAttribute("aria-label", name);
      button.title = name;
      const canvas = document.createElement("canvas");
      canvas.setAttribute("aria-hidden", "true");
      paint(canvas, kind, layer, head, colours, hidden);
      button.append(canvas);
      cells.push(button);
    }
  }
  grid.style.setProperty("--gf-heads", heads);
  grid.replaceChildren(...cells);
}

/* Mark what is chosen. Only the chosen one can be reached with Tab; the arrow keys go on from there. */
function mark() {
  const { kind, layer, head } = glassformer.selection;
  for (const button of kinds) {
    button.setAttribute("aria-checked", String(button.dataset.kind === kind));
    button.tabIndex = button.dataset.kind === kind ? 0 : -1;
  }
  for (const button of grid.querySelectorAll("button")) {
    const chosen = Number(button.dataset.layer) === layer && Number(button.dataset.head) === head;
    button.setAttribute("aria-checked", String(chosen));
    button.tabIndex = chosen ? 0 : -1;
  }
}

function draw() {
  if (!glassformer.trace || !element.offsetParent) return;
  const { kind } = glassformer.selection;
  const wanted = `${glassformer.version()}|${kind}|${glassformer.isDark()}`;
  if (drawn !== wanted) build(kind);
  drawn = wanted;
  mark();
}

/* The head whose rows are, on average, the most sure of one key. */
function strongestHead(kind) {
  const [layers, heads] = glassformer.trace.patterns[kind].shape;
  let best = { strength: -1, layer: 0, head: 0 };
  for (let layer = 0; layer < layers; layer += 1)
    for (let head = 0; head < heads; head += 1) {
      const pattern = glassformer.headPattern(kind, layer, head);
      let strength = 0;
      for (let row = 0; row < pattern.rows; row += 1) {
        let most = 0;
        for (let column = 0; column < pattern.columns; column += 1) most = Math.max(most, pattern.get(row, column));
        strength += most / pattern.rows;
      }
      if (strength > best.strength) best = { strength, layer, head };
    }
  return { layer: best.layer, head: best.head };
}

/* Arrow keys move and choose, as in any radio group; at an edge they stay. */
function onArrow(event, rows, columns, place, choose) {
  const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const ends = { Home: [0, 0], End: [rows - 1, columns - 1] };
  if (!moves[event.key] && !ends[event.key]) return;
  event.preventDefault();
  event.stopPropagation();
  const [row, column] = ends[event.key] || place.map((start, axis) => start + moves[event.key][axis]);
  if (row >= 0 && row < rows && column >= 0 && column < columns) choose(row, column);
}

for (const button of kinds) button.addEventListener("click", () => glassformer.select({ kind: button.dataset.kind }));
element.querySelector(".gf-att-kinds").addEventListener("keydown", (event) => {
  const step = { ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1 }[event.key];
  if (!step) return;
  event.preventDefault();
  event.stopPropagation();
  const place = kinds.findIndex((button) => button.dataset.kind === glassformer.selection.kind);
  const next = kinds[(place + step + kinds.length) % kinds.length];
  glassformer.select({ kind: next.dataset.kind });
  next.focus();
});
grid.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button) glassformer.select({ layer: Number(button.dataset.layer), head: Number(button.dataset.head) });
});
grid.addEventListener("keydown", (event) => {
  const { kind, layer, head } = glassformer.selection;
  const [layers, heads] = glassformer.trace.patterns[kind].shape;
  onArrow(event, layers, heads, [layer, head], (nextLayer, nextHead) => {
    glassformer.select({ layer: nextLayer, head: nextHead });
    grid.querySelector(`[data-layer="${nextLayer}"][data-head="${nextHead}"]`).focus();
  });
});
for (const name of ["trace", "language", "theme"]) glassformer.on(name, element, draw);
glassformer.on("selection", element, ({ changed }) => {
  if (["kind", "layer", "head"].some((name) => changed.includes(name))) draw();
});
new ResizeObserver(draw).observe(element);
glassformer.translate(element);
// Whoever comes here before choosing a head anywhere finds the one with the most to see.
const { kind, layer, head, query, key } = glassformer.selection;
if (glassformer.trace && kind === "cross" && !layer && !head && query === null && key === null)
  glassformer.select(strongestHead("cross"));
draw();
