/* A row of boards: masks with what their cells hold, and attention weights under a mask. Cells are painted on a canvas;
   hover or the arrow keys read one cell of all boards of the view. Colours always mean the same: only the printed digit
   follows the convention, which stands on the tab's panel. */
const { t, node } = glassformer;
const panel = element.closest("[role=tabpanel]") || element;
const frame = element.querySelector(".gf-boards");
const readout = element.querySelector(".gf-board-readout");
const details = element.querySelector("details");
const [PADDING, FUTURE, BLIND] = [1, 2, 4];
const TOP_MOST = 84;
let view = null;
let boards = [];
let at = null; // the cell being read: {row, column}
let drawnAt = 0;

const convention = () => panel.dataset.convention || "attend";
const rowsOf = (board) => board.rows || board.copies || [null];
const printed = (board, row, column) => board[convention()].cells[(board.rows ? row : 0) * board.columns.length + column];
const whyOf = (board, row, column) => board.why.cells[(board.rows ? row : 0) * board.columns.length + column];
const weightOf = (board, row, column) => board.weights.cells[row * board.columns.length + column];
const percent = (weight) => (weight === 0 ? "0" : weight < 0.0001 ? "< 0.01 %" : `${(weight * 100).toFixed(2)} %`);

function reasonWords(bits) {
  const names = [[PADDING, "padding"], [FUTURE, "future"], [BLIND, "blind"]].filter(([bit]) => bits & bit);
  return names.map(([, name]) => t(`masks.why_${name}`)).join(t("masks.and"));
}

function place(label, index) {
  return label ? `${index} ${label.label}` : t("masks.every_query");
}

const title = (board) => t(`masks.board_${board.name}`);

/* The line below a board's title: the shape of its tensor, or which head's weights it shows. */
function subtitle(board) {
  if (board.kind) return t("masks.where", { layer: board.layer + 1, head: board.head + 1 });
  return `[${board.axes.join(", ")}] = [${board.shape.join(", ")}]`;
}

/* What was measured under a board of weights, in a sentence. */
function fact(board) {
  if (board.type === "mask") {
    const hidden = board.why.cells.filter((bits) => bits > 0).length;
    return t("masks.fact_mask", { hidden, cells: board.why.cells.length });
  }
  const parts = [];
  if (board.columns.some((chip) => chip.pad)) parts.push(t("masks.fact_padding", { share: percent(board.on_padding) }));
  if (board.on_future !== undefined) parts.push(t("masks.fact_future", { share: percent(board.on_future) }));
  return parts.length ? parts.join(t("masks.semicolon")) : t("masks.fact_no_padding");
}

function codeLine(board) {
  if (!board.code) return "";
  const made = node("div", "gf-code");
  made.append(node("small", "", `${board.code.file}:${board.code.line}`), node("code", "", board.code.code));
  return made;
}

function build() {
  const made = [];
  boards = view.boards.map((board, i) => {
    for (const name of ["why", "attend", "ignore", "weights"])
      if (board[name]) board[name].cells = glassformer.decodeArray(board[name]);
    const canvas = node("canvas", "gf-board-canvas");
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    const head = node("div", "gf-board-head", node("strong", ""), node("span", "gf-shape"));
    const notes = node("div", "gf-board-notes", node("p", "gf-board-fact"), codeLine(board));
    const box = node("div", "gf-board", head, node("div", "gf-board-body", node("div", "gf-board-scroll", canvas), notes));
    box.dataset.board = board.name;
    if (i > 0 && view.operators.length) made.push(node("span", "gf-board-operator", view.operators[i - 1]));
    made.push(box);
    listen(canvas, board);
    return { ...board, canvas, box };
  });
  frame.replaceChildren(...made);
  frame.classList.toggle("gf-boards-one", boards.length === 1);
  word();
}

function word() {
  boards.forEach((board) => {
    board.box.querySelector("strong").textContent = title(board);
    board.box.querySelector(".gf-shape").textContent = subtitle(board);
    const sentence = fact(board);
    const line = board.box.querySelector(".gf-board-fact");
    line.textContent = sentence;
    const leaks = board.type === "weights" && ((board.on_padding || 0) > 0 || (board.on_future || 0) > 0);
    line.classList.toggle("gf-leak", leaks);
    board.canvas.setAttribute("aria-label", `${title(board)}, ${subtitle(board)}. ${sentence} ${t("masks.axes")}`);
  });
}

/* Cells as large as fit beside each other, from 34 px down to 16 px; below that fewer boards stand in a line. */
function layout() {
  const width = frame.clientWidth;
  const context = boards[0].canvas.getContext("2d");
  const mono = getComputedStyle(document.body).getPropertyValue("--gf-mono");
  context.font = `600 14px ${mono}`;
  const wide = (chip) => (chip ? context.measureText(chip.label).width : context.measureText(t("masks.every_query")).width);
  const left = Math.min(110, Math.max(...boards.flatMap((board) => (board.copies ? board.copies : rowsOf(board)).map(wide)))) + 12;
  const top = Math.min(TOP_MOST, Math.max(...boards.flatMap((board) => board.columns.map(wide)))) + 12;
  const columns = Math.max(...boards.map((board) => board.columns.length));
  const between = view.operators.length ? 70 : 24;
  for (let inLine = boards.length; inLine >= 1; inLine -= 1) {
    if (boards.length > 2 && inLine === 3 && !view.operators.length) continue;
    const slot = Math.floor((width - between * (inLine - 1)) / inLine);
    const cell = Math.floor((slot - left - 2) / columns);
    if (cell >= 20 || inLine === 1) return { slot, cell: Math.max(16, Math.min(34, cell)), left, top, mono };
  }
  return null;
}

function hatch(context, x, y, size, bits, colour) {
  context.save();
  context.beginPath();
  context.rect(x, y, size, size);
  context.clip();
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.globalAlpha *= 0.35;
  context.beginPath();
  for (let offset = -size; offset < size * 2; offset += 6) {
    if (bits & (PADDING | BLIND)) { context.moveTo(x + offset, y + size); context.lineTo(x + offset + size, y); }
    if (bits & (FUTURE | BLIND)) { context.moveTo(x + offset, y); context.lineTo(x + offset + size, y + size); }
  }
  context.stroke();
  context.restore();
}

function label(context, text, x, y, room, upright) {
  context.save();
  context.translate(x, y);
  if (upright) context.rotate(-Math.PI / 2);
  let shown = text;
  while (shown.length > 1 && context.measureText(shown).width > room) shown = `${[...shown].slice(0, -2).join("")}…`;
  context.fillText(shown, 0, 0);
  context.restore();
}

function paintCell(context, board, row, column, x, y, look) {
  const { cell, ink } = look;
  const bits = whyOf(board, row, column);
  const inner = cell - 2;
  const copied = !board.rows && row > 0;
  context.globalAlpha = copied ? 0.65 : 1;
  let text = "";
  let textColour = ink.text;
  if (bits) {
    context.fillStyle = ink.hidden;
    context.fillRect(x, y, inner, inner);
    hatch(context, x, y, inner, bits, ink.muted);
  }
  if (board.type === "mask") {
    if (!bits) {
      context.fillStyle = ink.attend;
      context.fillRect(x, y, inner, inner);
    }
    text = String(printed(board, row, column));
    textColour = bits ? ink.muted : ink.text;
  } else if (!bits) {
    const weight = weightOf(board, row, column);
    const [r, g, b] = look.scale[Math.round(Math.min(1, weight) * 255)];
    context.fillStyle = `rgb(${r},${g},${b})`;
    context.fillRect(x, y, inner, inner);
    text = weight >= 0.005 ? String(Math.round(weight * 100)) : "";
    textColour = 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#10122b" : "#ffffff";
  } else text = "0";
  if (text && cell >= 20) {
    context.fillStyle = board.type === "weights" && bits ? ink.muted : textColour;
    context.textAlign = "center";
    context.font = `600 ${cell >= 28 ? 14 : 12}px ${look.mono}`;
    context.fillText(text, x + inner / 2, y + inner / 2 + 1);
  }
  context.globalAlpha = 1;
}

function paint(board, look) {
  const { cell, left, top, ink } = look;
  const rows = rowsOf(board);
  const firstPad = board.columns.findIndex((chip) => chip.pad);
  const [width, height] = [left + board.columns.length * cell + 2, top + rows.length * cell + 4];
  const context = glassformer.fitCanvas(board.canvas, width, height);
  board.look = look;
  board.box.style.width = `${look.slot}px`;
  context.textBaseline = "middle";
  const bold = (on) => { context.font = `${on ? 800 : 600} 14px ${look.mono}`; };
  board.columns.forEach((chip, column) => {
    const active = at && at.column === column;
    context.fillStyle = active ? ink.accent : chip.pad ? ink.bad : ink.text;
    bold(active);
    const upright = context.measureText(chip.label).width > cell - 2;
    context.textAlign = upright ? "left" : "center";
    label(context, chip.label, left + (column + 0.5) * cell - 1, top - 8, upright ? TOP_MOST : cell, upright);
  });
  rows.forEach((chip, row) => {
    const active = at && at.row === row;
    context.fillStyle = active ? ink.accent : chip && chip.pad ? ink.bad : ink.text;
    bold(active);
    context.textAlign = "right";
    label(context, chip ? chip.label : t("masks.every_query"), left - 8, top + (row + 0.5) * cell - 1, left - 10, false);
    board.columns.forEach((_, column) => paintCell(context, board, row, column, left + column * cell, top + row * cell, look));
  });
  context.lineWidth = 2;
  context.strokeStyle = ink.bad;
  // Pads that nothing hides, and a future that nothing hides, are framed: that is where weight leaks.
  if (board.type === "weights" && firstPad >= 0 && board.on_padding > 0)
    context.strokeRect(left + firstPad * cell - 1.5, top - 1.5, (board.columns.length - firstPad) * cell + 1, rows.length * cell + 1);
  if (board.type === "weights" && board.on_future > 0) stairs(context, left, top, cell, firstPad < 0 ? rows.length : firstPad);
  if (!board.rows && board.copies) {
    context.strokeStyle = ink.accent;
    context.strokeRect(left - 2, top - 2, board.columns.length * cell + 2, cell + 2);
  }
  if (at && at.row < rows.length && at.column < board.columns.length) {
    context.strokeStyle = ink.text;
    context.strokeRect(left + at.column * cell - 1, top + at.row * cell - 1, cell, cell);
  }
}

function stairs(context, left, top, cell, count) {
  context.beginPath();
  for (let i = 0; i < count - 1; i += 1) {
    context.moveTo(left + (i + 1) * cell - 1, top + i * cell - 1);
    context.lineTo(left + (i + 1) * cell - 1, top + (i + 1) * cell - 1);
    context.lineTo(left + (i + 2) * cell - 1, top + (i + 1) * cell - 1);
  }
  context.stroke();
}

function draw() {
  if (!boards.length || !frame.clientWidth) return;
  drawnAt = frame.clientWidth;
  const { colour } = glassformer;
  const ink = { text: colour("text"), muted: colour("muted"), line: colour("line"), hidden: colour("hidden"),
    attend: colour("sequential-2"), accent: colour("accent"), bad: colour("bad") };
  const look = { ...layout(), ink, scale: glassformer.scale("sequential") };
  for (const board of boards) paint(board, look);
  read();
}

/* What stands at the cell being read, on every board of the view, in a box beside the board that is pointed at. */
function read() {
  readout.hidden = !at;
  if (!at) return;
  const [first] = boards;
  const asks = rowsOf(boards[boards.length - 1])[at.row];
  const lines = boards.filter((board) => at.row < rowsOf(board).length && at.column < board.columns.length).map((board) => {
    const bits = whyOf(board, at.row, at.column);
    const state = bits ? t("masks.cell_hidden", { why: reasonWords(bits) }) : t("masks.cell_seen");
    const value = board.type === "mask" ? (printed(board, at.row, at.column) ? "True" : "False") : percent(weightOf(board, at.row, at.column));
    return node("span", "", node("strong", "", value), boards.length > 1 ? ` ${t(`masks.board_${board.name}`)}: ${state}` : ` ${state}`);
  });
  const head = t("masks.cell", { query: place(asks, at.row), key: place(first.columns[at.column], at.column) });
  readout.replaceChildren(node("span", "gf-readout-head", head), ...lines);
  const { cell, left, top } = at.board.look;
  const origin = at.board.canvas.getBoundingClientRect();
  const outer = element.querySelector(".gf-mask-view").getBoundingClientRect();
  const x = origin.left - outer.left + left + (at.column + 1) * cell + 10;
  const room = outer.width - readout.offsetWidth;
  // Beside the cell, or on its other side where there is no room; never over the cell itself.
  readout.style.left = `${Math.max(0, x <= room ? x : x - readout.offsetWidth - cell - 20)}px`;
  readout.style.top = `${origin.top - outer.top + top + (at.row + 1) * cell + 8}px`;
}

function listen(canvas, board) {
  const move = (row, column) => {
    const rows = rowsOf(board).length;
    const on = boards.find((other) => other.canvas === canvas);
    at = { row: Math.max(0, Math.min(rows - 1, row)), column: Math.max(0, Math.min(board.columns.length - 1, column)), board: on };
    draw();
  };
  const leave = () => {
    at = null;
    draw();
  };
  canvas.addEventListener("pointermove", (event) => {
    const { cell, left, top } = boards[0].look;
    const [column, row] = [Math.floor((event.offsetX - left) / cell), Math.floor((event.offsetY - top) / cell)];
    if (row < 0 || column < 0 || row >= rowsOf(board).length || column >= board.columns.length) leave();
    else if (!at || at.row !== row || at.column !== column) move(row, column);
  });
  canvas.addEventListener("pointerleave", leave);
  canvas.addEventListener("blur", leave);
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    if (at) move(at.row + step[0], at.column + step[1]);
    else move(0, 0);
  });
}

/* Every board as a table: what a cell holds, in the convention in force, or its weight. */
function fillTables() {
  if (!boards.length || !details.open) return;
  const tables = boards.map((board) => {
    const table = document.createElement("table");
    table.createCaption().textContent = `${title(board)}, ${subtitle(board)}`;
    const heads = [t("masks.table_corner"), ...board.columns.map((chip) => chip.label)];
    const head = table.insertRow();
    for (const text of heads) {
      const cell = node("th", "", text);
      cell.scope = "col";
      head.append(cell);
    }
    rowsOf(board).forEach((chip, row) => {
      const line = table.insertRow();
      const first = node("th", "", chip ? chip.label : t("masks.every_query"));
      first.scope = "row";
      line.append(first);
      board.columns.forEach((_, column) => {
        const value = board.type === "mask" ? (printed(board, row, column) ? "True" : "False") : String(Number(weightOf(board, row, column).toPrecision(6)));
        line.append(node("td", "", value));
      });
    });
    return table;
  });
  details.querySelector("div").replaceChildren(...tables);
}

function receive() {
  if (!props.value) return;
  view = JSON.parse(props.value);
  at = null;
  build();
  draw();
  fillTables();
}

function redraw() {
  if (!element.isConnected || !boards.length) return;
  word();
  draw();
  fillTables();
}

panel.addEventListener("gf-convention", redraw);
details.addEventListener("toggle", fillTables);
new ResizeObserver(() => {
  if (frame.clientWidth && frame.clientWidth !== drawnAt) draw();
}).observe(frame);
watch("value", receive);
glassformer.on("theme", element, draw);
glassformer.on("language", element, redraw);
glassformer.translate(element);
receive();
