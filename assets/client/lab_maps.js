/* Patterns of two runs beside each other: all heads as pairs of small maps on one canvas, and a pair of large ones.
   Nothing in here asks for the run on display: every run is handed in. Rows are queries, columns are keys. */

const LAB_CELL = { smallest: 18, largest: 46, writesFrom: 34, label: 104, small: 58, between: 4 };

/* The weights of one head of a run; what its kind was divided by is multiplied out again. */
function weightsOf(run, kind, layer, head) {
  const pattern = glassformer.headPattern(kind, layer, head, run);
  const largest = run.largest?.[kind] ?? 1;
  return { rows: pattern.rows, columns: pattern.columns, get: (row, column) => pattern.get(row, column) * largest };
}

/* Must this cell stay hidden in a sound network? The future of the target, and padding. */
function mustBeHidden(run, kind, row, column) {
  if (kind === "decoder_self" && column > row) return true;
  const key = glassformer.keyTokens(kind, run)[column];
  return Boolean(key.special && key.label === "<pad>");
}

/* What share of a head's attention falls on cells that must stay hidden, over all its rows. */
function leakOf(run, kind, layer, head) {
  const pattern = weightsOf(run, kind, layer, head);
  let [leak, all] = [0, 0];
  for (let row = 0; row < pattern.rows; row += 1)
    for (let column = 0; column < pattern.columns; column += 1) {
      const weight = pattern.get(row, column);
      all += weight;
      if (mustBeHidden(run, kind, row, column)) leak += weight;
    }
  return all ? leak / all : 0;
}

/* The key a row looks at most, or null where it sees nothing. */
function favourite(pattern, row) {
  let best = null;
  for (let column = 0; column < pattern.columns; column += 1) {
    const weight = pattern.get(row, column);
    if (weight > 0 && (best === null || weight > best.weight)) best = { column, weight };
  }
  return best;
}

function mapColours() {
  const rgb = (name) => [1, 3, 5].map((start) => parseInt(glassformer.colour(name).slice(start, start + 2), 16));
  const names = ["ground", "text", "muted", "line", "bad", "accent", "mono"];
  return { scale: glassformer.scale("sequential"), hidden: rgb("hidden"), ...Object.fromEntries(names.map((name) => [name, glassformer.colour(name)])) };
}

/* One head as a picture, a pixel a cell. */
function mapPicture(run, kind, layer, head, colours) {
  const pattern = weightsOf(run, kind, layer, head);
  const bitmap = new OffscreenCanvas(pattern.columns, pattern.rows);
  const image = new ImageData(pattern.columns, pattern.rows);
  for (let row = 0; row < pattern.rows; row += 1)
    for (let column = 0; column < pattern.columns; column += 1) {
      const weight = pattern.get(row, column);
      const colour = weight === 0 && mustBeHidden(run, kind, row, column) ? colours.hidden : colours.scale[Math.round(Math.min(1, weight) * 255)];
      image.data.set([...colour, 255], 4 * (row * pattern.columns + column));
    }
  bitmap.getContext("2d").putImageData(image, 0, 0);
  return { bitmap, pattern };
}

/* Where the hidden cells begin, as a line: the steps of the causal mask, and the edge of the padding. */
function hiddenEdge(context, run, kind, left, top, cell) {
  const keys = glassformer.keyTokens(kind, run);
  const rows = glassformer.queryTokens(kind, run).length;
  context.beginPath();
  if (kind === "decoder_self")
    for (let row = 0; row < rows; row += 1) {
      const x = left + Math.min(keys.length, row + 1) * cell;
      if (row === 0) context.moveTo(x, top);
      context.lineTo(x, top + row * cell);
      context.lineTo(x, top + (row + 1) * cell);
    }
  const pad = keys.findIndex((key) => key.special && key.label === "<pad>");
  if (pad > 0 && kind !== "decoder_self") {
    context.moveTo(left + pad * cell, top);
    context.lineTo(left + pad * cell, top + rows * cell);
  }
  context.stroke();
}

function shortened(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  const letters = [...text];
  while (letters.length > 1 && context.measureText(`${letters.join("")}…`).width > room) letters.pop();
  return `${letters.join("")}…`;
}

/* A large map with its tokens along both axes. Returns where its cells are. */
function drawLargeMap(canvas, { run, kind, layer, head, room, queryRow, colours }) {
  const { bitmap, pattern } = mapPicture(run, kind, layer, head, colours);
  const [queries, keys] = [glassformer.queryTokens(kind, run), glassformer.keyTokens(kind, run)];
  const font = `600 14px ${colours.mono}`;
  const ruler = new OffscreenCanvas(1, 1).getContext("2d");
  ruler.font = font;
  const widest = (tokens) => Math.min(LAB_CELL.label, Math.ceil(Math.max(...tokens.map((token) => ruler.measureText(token.label).width))));
  const left = widest(queries) + 10;
  const cell = Math.max(LAB_CELL.smallest, Math.min(LAB_CELL.largest, Math.floor((room - left - 2) / pattern.columns)));
  const upright = widest(keys) > cell - 4;
  const top = upright ? widest(keys) + 10 : 24;
  const [width, height] = [left + pattern.columns * cell + 2, top + pattern.rows * cell + 2];
  const context = glassformer.fitCanvas(canvas, width, height);
  context.font = font;
  context.textBaseline = "middle";
  context.imageSmoothingEnabled = false;
  context.drawImage(bitmap, left, top, pattern.columns * cell, pattern.rows * cell);
  context.fillStyle = colours.ground;
  for (let i = 1; i < pattern.columns; i += 1) context.fillRect(left + i * cell - 0.5, top, 1, pattern.rows * cell);
  for (let i = 1; i < pattern.rows; i += 1) context.fillRect(left, top + i * cell - 0.5, pattern.columns * cell, 1);
  queries.forEach((token, row) => {
    context.fillStyle = row === queryRow ? colours.text : colours.muted;
    context.textAlign = "right";
    context.fillText(shortened(context, token.label, LAB_CELL.label), left - 7, top + (row + 0.5) * cell);
  });
  keys.forEach((token, column) => {
    context.save();
    context.fillStyle = colours.muted;
    context.translate(left + (column + 0.5) * cell, upright ? top - 6 : top - 11);
    if (upright) context.rotate(-Math.PI / 2);
    context.textAlign = upright ? "left" : "center";
    context.fillText(shortened(context, token.label, LAB_CELL.label), 0, 0);
    context.restore();
  });
  if (cell >= LAB_CELL.writesFrom) {
    context.textAlign = "center";
    for (let row = 0; row < pattern.rows; row += 1)
      for (let column = 0; column < pattern.columns; column += 1) {
        const weight = pattern.get(row, column);
        if (weight < 0.05) continue;
        context.fillStyle = weight > 0.5 ? colours.ground : colours.text;
        context.fillText(String(Math.round(weight * 100)), left + (column + 0.5) * cell, top + (row + 0.5) * cell + 1);
      }
  }
  context.lineWidth = 2;
  context.strokeStyle = colours.bad;
  hiddenEdge(context, run, kind, left, top, cell);
  if (queryRow !== null && queryRow < pattern.rows) {
    context.strokeStyle = colours.accent;
    context.lineWidth = 3;
    context.strokeRect(left + 1.5, top + queryRow * cell + 1.5, pattern.columns * cell - 3, cell - 3);
  }
  return { left, top, cell, pattern, queries, keys };
}

/* The cell of a large map under a pointer, or null. */
function cellUnder(event, canvas, { left, top, cell, pattern }) {
  const box = canvas.getBoundingClientRect();
  const column = Math.floor((event.clientX - box.left - left) / cell);
  const row = Math.floor((event.clientY - box.top - top) / cell);
  return row >= 0 && row < pattern.rows && column >= 0 && column < pattern.columns ? { row, column } : null;
}

/* All heads of a kind, a button each with its maps before and after. All maps share one canvas under the buttons. */
function drawAllHeads(box, { runs, kind, chosen, choose, colours }) {
  const [layers, heads] = runs[0].patterns[kind].shape;
  const size = LAB_CELL.small;
  const pair = runs.length * (size + LAB_CELL.between) - LAB_CELL.between;
  let grid = box.querySelector(".gf-lab-maps");
  const name = JSON.stringify([layers, heads, kind, glassformer.language, runs.length]);
  if (grid?.dataset.name !== name) {
    const focused = box.contains(document.activeElement);
    grid = node("div", "gf-lab-maps");
    grid.dataset.name = name;
    grid.setAttribute("role", "radiogroup");
    grid.setAttribute("aria-label", glassformer.t("decode.heads"));
    grid.style.gridTemplateColumns = `repeat(${heads}, ${pair + 12}px)`;
    const canvas = document.createElement("canvas");
    canvas.setAttribute("aria-hidden", "true");
    grid.append(canvas);
    for (let layer = 0; layer < layers; layer += 1)
      for (let head = 0; head < heads; head += 1) {
        const made = button("gf-lab-map", node("span", "", `L${layer + 1} H${head + 1}`), () => choose(layer, head));
        made.setAttribute("role", "radio");
        made.setAttribute("aria-label", glassformer.t("decode.head_label", { layer: layer + 1, head: head + 1 }));
        made.style.paddingTop = `${size + 8}px`;
        grid.append(made);
      }
    grid.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -heads, ArrowDown: heads }[event.key];
      if (!move) return;
      event.preventDefault();
      const all = [...grid.querySelectorAll("button")];
      const next = (all.indexOf(document.activeElement) + move + all.length) % all.length;
      all[next].focus();
      all[next].click();
    });
    box.replaceChildren(grid);
    if (focused) grid.querySelector("button").focus();
  }
  const outer = grid.getBoundingClientRect();
  const context = glassformer.fitCanvas(grid.querySelector("canvas"), grid.offsetWidth, grid.offsetHeight);
  context.imageSmoothingEnabled = false;
  [...grid.querySelectorAll("button")].forEach((each, i) => {
    const [layer, head] = [Math.floor(i / heads), i % heads];
    const isChosen = layer === chosen.layer && head === chosen.head;
    each.setAttribute("aria-checked", String(isChosen));
    each.tabIndex = isChosen ? 0 : -1;
    const inner = each.getBoundingClientRect();
    runs.forEach((run, n) => {
      const { bitmap } = mapPicture(run, kind, layer, head, colours);
      const x = inner.left - outer.left + 6 + n * (size + LAB_CELL.between);
      context.drawImage(bitmap, x, inner.top - outer.top + 6, size, size);
    });
  });
}
