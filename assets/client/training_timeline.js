/* Every head's map of one probe at every evaluation of a training, to scrub and to play.
   It follows the newest snapshot unless the visitor looks at an earlier one. Event: "gap" when snapshots were missed. */
const find = (selector) => element.querySelector(selector);
const slider = find("input");
const strip = find(".gf-timeline-track canvas");
const grid = find(".gf-timeline-grid");
const large = find(".gf-timeline-large canvas");
const kinds = ["encoder_self", "decoder_self", "cross"];
const colours = { encoder_self: "encoder-self", decoder_self: "decoder-self", cross: "cross" };
let run = null;
let at = 0; // the snapshot on show
let follows = true;
let chosen = null; // the head drawn large; at first the last cross-attention, where the task shows
let pointed = null; // row and column of the large map
let timer = null;
let shades = null;

const percent = (share) => (share === null || share === undefined ? "?" : `${(share * 100).toFixed(1)} %`);

function receive() {
  if (!props.value) return;
  const delta = JSON.parse(props.value);
  if (!run || run.id !== delta.run) {
    run = { id: delta.run, snapshots: [], probe: null };
    follows = true;
    pointed = null;
    stop();
  }
  if (delta.first_snapshot > run.snapshots.length) {
    if (!run.asked) trigger("gap", {});
    run.asked = true;
    return;
  }
  run.asked = false;
  for (const snapshot of delta.snapshots.slice(run.snapshots.length - delta.first_snapshot)) {
    for (const pattern of Object.values(snapshot.patterns)) pattern.values = glassformer.decodeArray(pattern);
    run.snapshots.push(snapshot);
  }
  Object.assign(run, { kind: delta.kind, task: delta.task, over: delta.over, probe: delta.probe || run.probe });
  if (!run.snapshots.length) return;
  if (follows) at = run.snapshots.length - 1;
  buildGrid();
  draw();
}

/* The weights of one head of the snapshot on show. */
function map({ kind, layer, head }) {
  const { shape, values } = run.snapshots[at].patterns[kind];
  const [, heads, rows, columns] = shape;
  const start = (layer * heads + head) * rows * columns;
  return { rows, columns, get: (row, column) => values[start + row * columns + column] / 65535 };
}

const queries = (kind) => (kind === "encoder_self" ? run.probe.source : run.probe.target_in);
const keys = (kind) => (kind === "decoder_self" ? run.probe.target_in : run.probe.source);
const isHidden = (kind, row, column) => kind === "decoder_self" && column > row;

/* One row a layer of each kind, one button a head; made anew only for another network or language. */
function buildGrid() {
  const { patterns } = run.snapshots[0];
  const version = `${run.id}|${glassformer.language}`;
  if (grid.dataset.version === version) return;
  grid.dataset.version = version;
  if (!chosen || chosen.layer >= patterns[chosen.kind].shape[0] || chosen.head >= patterns[chosen.kind].shape[1])
    chosen = { kind: "cross", layer: patterns.cross.shape[0] - 1, head: 0 };
  const rows = [];
  for (const kind of kinds)
    for (let layer = 0; layer < patterns[kind].shape[0]; layer += 1) {
      const row = document.createElement("div");
      row.className = "gf-map-row";
      row.style.setProperty("--gf-kind", `var(--gf-${colours[kind]})`);
      const name = document.createElement("span");
      name.className = "gf-map-name";
      name.textContent = glassformer.t("train.map_row", { kind: glassformer.t(`train.kind_${kind}`), layer: layer + 1 });
      row.append(name);
      for (let head = 0; head < patterns[kind].shape[1]; head += 1) {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "gf-map";
        Object.assign(button.dataset, { kind, layer, head });
        button.setAttribute("aria-label", headName({ kind, layer, head }));
        button.title = headName({ kind, layer, head });
        button.append(document.createElement("canvas"));
        button.addEventListener("click", () => {
          chosen = { kind, layer, head };
          draw();
        });
        row.append(button);
      }
      rows.push(row);
    }
  grid.replaceChildren(...rows);
  grid.classList.toggle("gf-timeline-dense", rows.length > 6 || patterns.cross.shape[1] > 4);
}

const headName = ({ kind, layer, head }) =>
  glassformer.t("train.head_name", { kind: glassformer.t(`train.kind_${kind}`), layer: layer + 1, head: head + 1 });

/* A map on a canvas of one pixel a cell, which the style sheet enlarges without smoothing. */
function paintSmall(canvas, address) {
  const { rows, columns, get } = map(address);
  canvas.width = columns;
  canvas.height = rows;
  const context = canvas.getContext("2d");
  const picture = context.createImageData(columns, rows);
  const hidden = shades.hidden;
  for (let row = 0; row < rows; row += 1)
    for (let column = 0; column < columns; column += 1) {
      const colour = isHidden(address.kind, row, column) ? hidden : shades.scale[Math.round(get(row, column) * 255)];
      picture.data.set([...colour, 255], (row * columns + column) * 4);
    }
  context.putImageData(picture, 0, 0);
}

function paintLarge() {
  if (!run || !run.snapshots.length) return;
  const { kind } = chosen;
  const { rows, columns, get } = map(chosen);
  const room = large.parentElement.clientWidth;
  if (!room) return;
  const cell = Math.max(18, Math.min(46, Math.floor((room - 72) / columns)));
  const left = 64;
  const top = 40;
  const context = glassformer.fitCanvas(large, left + cell * columns + 2, top + cell * rows + 2);
  const style = getComputedStyle(element);
  context.font = `600 14px ${style.getPropertyValue("--gf-mono") || "monospace"}`;
  for (let row = 0; row < rows; row += 1)
    for (let column = 0; column < columns; column += 1) {
      const hidden = isHidden(kind, row, column);
      const [r, g, b] = hidden ? shades.hidden : shades.scale[Math.round(get(row, column) * 255)];
      context.fillStyle = `rgb(${r},${g},${b})`;
      context.fillRect(left + column * cell, top + row * cell, cell - 1, cell - 1);
    }
  const label = (token, x, y, width) => {
    let text = token.label;
    while (text.length > 1 && context.measureText(text).width > width) text = `${text.slice(0, -2)}…`;
    context.fillText(text, x, y);
  };
  context.textBaseline = "middle";
  for (let row = 0; row < rows; row += 1) {
    context.fillStyle = glassformer.colour(pointed && pointed.row === row ? "accent" : "text");
    context.textAlign = "right";
    label(queries(kind)[row], left - 8, top + (row + 0.5) * cell, left - 10);
  }
  for (let column = 0; column < columns; column += 1) {
    context.fillStyle = glassformer.colour(pointed && pointed.column === column ? "accent" : "text");
    context.textAlign = "center";
    label(keys(kind)[column], left + (column + 0.5) * cell, top - 14, cell * 1.4);
  }
  if (pointed && pointed.row < rows && pointed.column < columns) {
    context.strokeStyle = glassformer.colour("text");
    context.lineWidth = 2;
    context.strokeRect(left + pointed.column * cell, top + pointed.row * cell, cell - 1, cell - 1);
  }
  large.dataset.cell = cell;
  find(".gf-timeline-large figcaption").textContent = headName(chosen);
  large.setAttribute("aria-label", `${headName(chosen)}. ${glassformer.t("train.at_step", { step: run.snapshots[at].step })}`);
  drawCell(get, rows, columns);
}

function drawCell(get, rows, columns) {
  const box = find(".gf-timeline-cell");
  if (!pointed || pointed.row >= rows || pointed.column >= columns) {
    box.textContent = glassformer.t("train.cell_hint");
    return;
  }
  const { row, column } = pointed;
  box.textContent = isHidden(chosen.kind, row, column)
    ? glassformer.t("train.cell_hidden")
    : glassformer.t("train.cell", {
        query: queries(chosen.kind)[row].label, row: row + 1, key: keys(chosen.kind)[column].label, column: column + 1, weight: percent(get(row, column)),
      });
}

/* Exact match at each snapshot, as bars above the slider's places. */
function paintStrip() {
  const width = strip.parentElement.clientWidth;
  if (!width) return;
  const height = 46;
  const context = glassformer.fitCanvas(strip, width, height);
  const thumb = 18; // the slider's first and last places lie half a thumb from its ends
  const n = run.snapshots.length;
  const step = n > 1 ? (width - thumb) / (n - 1) : 0;
  const bar = Math.max(3, Math.min(22, step * 0.7 || 22));
  run.snapshots.forEach((snapshot, i) => {
    const x = n > 1 ? thumb / 2 + i * step : thumb / 2;
    context.fillStyle = glassformer.colour(i === at ? "accent" : "line");
    const tall = Math.max(2, (snapshot.exact_match || 0) * (height - 4));
    context.fillRect(Math.max(0, Math.min(width - bar, x - bar / 2)), height - tall, bar, tall);
  });
}

function drawSays() {
  const box = find(".gf-timeline-says");
  const { written } = run.snapshots[at];
  const part = (key) => {
    const word = document.createElement("span");
    word.className = "gf-says-word";
    word.textContent = glassformer.t(key);
    return word;
  };
  const list = (items) => {
    const group = document.createElement("span");
    group.className = "gf-tokens";
    for (const token of items) {
      const piece = document.createElement("span");
      piece.textContent = token.label;
      if (token.right === false) piece.className = "gf-wrong";
      group.append(piece);
    }
    return group;
  };
  const missing = Array.from({ length: written.missing }, () => ({ label: "–", right: false }));
  const asked = run.probe.source.filter((token) => !token.special);
  box.replaceChildren(part("train.says_source"), list(asked), part("train.says_written"), list([...written.tokens, ...missing]));
}

function draw() {
  if (!run || !run.snapshots.length || !element.isConnected) return;
  shades ??= { scale: glassformer.scale("sequential"), hidden: [1, 3, 5].map((start) => parseInt(glassformer.colour("hidden").slice(start, start + 2), 16)) };
  const snapshot = run.snapshots[at];
  slider.max = run.snapshots.length - 1;
  slider.value = at;
  const now = glassformer.t("train.timeline_now", { step: snapshot.step, exact: percent(snapshot.exact_match) });
  slider.setAttribute("aria-valuetext", now);
  find(".gf-timeline-now").textContent = now;
  find(".gf-timeline-about").textContent = glassformer.t(`train.timeline_about_${run.kind}`, { task: run.task });
  for (const button of grid.querySelectorAll(".gf-map")) {
    const address = { kind: button.dataset.kind, layer: Number(button.dataset.layer), head: Number(button.dataset.head) };
    paintSmall(button.firstElementChild, address);
    const isChosen = address.kind === chosen.kind && address.layer === chosen.layer && address.head === chosen.head;
    button.setAttribute("aria-pressed", String(isChosen));
  }
  paintStrip();
  drawSays();
  paintLarge();
}

function show(index) {
  at = Math.max(0, Math.min(run.snapshots.length - 1, index));
  follows = at === run.snapshots.length - 1;
  draw();
}

function stop() {
  clearInterval(timer);
  timer = null;
  find(".gf-timeline-play").classList.remove("gf-playing");
}

find(".gf-timeline-play").addEventListener("click", () => {
  if (!run || !run.snapshots.length) return;
  if (timer) return stop();
  if (at === run.snapshots.length - 1) show(0);
  find(".gf-timeline-play").classList.add("gf-playing");
  timer = setInterval(() => {
    if (!element.isConnected || at >= run.snapshots.length - 1) return stop();
    show(at + 1);
  }, run.snapshots.length < 4 ? 900 : 300);
});
slider.addEventListener("input", () => {
  stop();
  show(Number(slider.value));
});
large.addEventListener("pointermove", (event) => {
  const box = large.getBoundingClientRect();
  const cell = Number(large.dataset.cell);
  const column = Math.floor((event.clientX - box.left - 64) / cell);
  const row = Math.floor((event.clientY - box.top - 40) / cell);
  pointed = column >= 0 && row >= 0 ? { row, column } : null;
  paintLarge();
});
large.addEventListener("pointerleave", () => {
  pointed = null;
  if (run) paintLarge();
});
large.addEventListener("keydown", (event) => {
  const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
  if (!move || !run) return;
  const { rows, columns } = map(chosen);
  const from = pointed || { row: 0, column: 0 };
  pointed = {
    row: Math.max(0, Math.min(rows - 1, from.row + move[0])),
    column: Math.max(0, Math.min(columns - 1, from.column + move[1])),
  };
  event.preventDefault();
  paintLarge();
});
watch("value", receive);
glassformer.on("language", element, () => {
  if (!run || !run.snapshots.length) return;
  buildGrid();
  draw();
});
glassformer.on("theme", element, () => {
  shades = null;
  draw();
});
new ResizeObserver(draw).observe(element);
glassformer.translate(element);
receive();
