/* One board of cells with tokens on both axes, on a canvas: read by hovering or with the arrow keys, pressed by a click,
   a drag or the space bar. What a cell looks like is the caller's: cell(row, column) ->
   {colour, text, hidden, marked, corner}. */

function makeBoard(canvas, { cell, press, read }) {
  const SIZE = { smallest: 17, largest: 40, label: 104, writes: 28, canvas: 8000 };
  let [rows, columns] = [[], []];
  let at = null; // the cell being read: [row, column]
  let place = null; // pixels: {side, left, top}
  let painting = null; // what a drag goes on with: the value that press returned for its first cell
  let last = "";
  canvas.tabIndex = 0;
  canvas.setAttribute("role", "img");

  const inside = ([row, column]) => row >= 0 && column >= 0 && row < rows.length && column < columns.length;

  function fitted(context, text, room) {
    let shown = text;
    while (shown.length > 1 && context.measureText(shown).width > room) shown = `${[...shown].slice(0, -2).join("")}…`;
    return shown;
  }

  function layout(context) {
    context.font = `600 14px ${glassformer.colour("mono")}`;
    const widest = (tokens) => Math.min(SIZE.label, Math.max(...tokens.map((token) => context.measureText(token.label).width)));
    const left = Math.ceil(widest(rows)) + 14;
    const room = canvas.parentElement.clientWidth - left - 4;
    const side = Math.max(SIZE.smallest, Math.min(SIZE.largest, Math.floor(room / columns.length)));
    const upright = widest(columns) > side - 4;
    return { side, left, upright, top: upright ? Math.ceil(widest(columns)) + 12 : 26 };
  }

  function paintCell(context, look, ink, x, y) {
    const inner = place.side - 2;
    context.fillStyle = look.hidden ? ink.hidden : look.colour;
    context.fillRect(x, y, inner, inner);
    if (look.hidden) {
      context.save();
      context.beginPath();
      context.rect(x, y, inner, inner);
      context.clip();
      Object.assign(context, { strokeStyle: ink.muted, lineWidth: 1, globalAlpha: 0.35 });
      context.beginPath();
      for (let offset = -inner; offset < inner; offset += 6) {
        context.moveTo(x + offset, y + inner);
        context.lineTo(x + offset + inner, y);
      }
      context.stroke();
      context.restore();
    }
    if (look.text && place.side >= SIZE.writes) {
      Object.assign(context, { fillStyle: look.ink || ink.muted, textAlign: "center", font: `600 14px ${ink.mono}` });
      context.fillText(look.text, x + inner / 2, y + inner / 2 + 1);
    }
    if (look.corner) {
      context.fillStyle = ink.bad;
      context.beginPath();
      context.moveTo(x + inner, y);
      context.lineTo(x + inner, y + inner * 0.45);
      context.lineTo(x + inner * 0.55, y);
      context.fill();
    }
    if (look.marked) {
      Object.assign(context, { strokeStyle: ink.bad, lineWidth: 2 });
      context.strokeRect(x + 1, y + 1, inner - 2, inner - 2);
    }
  }

  function draw() {
    if (!rows.length || !canvas.parentElement.clientWidth) return;
    const names = ["mono", "text", "muted", "hidden", "accent", "bad", "ground"];
    const ink = Object.fromEntries(names.map((name) => [name, glassformer.colour(name)]));
    place = layout(canvas.getContext("2d"));
    const { side, left, top, upright } = place;
    const context = glassformer.fitCanvas(
      canvas, Math.min(SIZE.canvas, left + columns.length * side + 2), Math.min(SIZE.canvas, top + rows.length * side + 2));
    context.textBaseline = "middle";
    const labelInk = (on) => Object.assign(context, { fillStyle: on ? ink.accent : ink.text, font: `${on ? 800 : 600} 14px ${ink.mono}` });
    columns.forEach((token, column) => {
      labelInk(at && at[1] === column);
      context.save();
      context.translate(left + (column + 0.5) * side - 1, top - (upright ? 6 : 11));
      if (upright) context.rotate(-Math.PI / 2);
      context.textAlign = upright ? "left" : "center";
      context.fillText(fitted(context, token.label, upright ? SIZE.label : side), 0, 0);
      context.restore();
    });
    rows.forEach((token, row) => {
      labelInk(at && at[0] === row);
      context.textAlign = "right";
      context.fillText(fitted(context, token.label, SIZE.label), left - 8, top + (row + 0.5) * side - 1);
      columns.forEach((_, column) => paintCell(context, cell(row, column), ink, left + column * side, top + row * side));
    });
    if (at) {
      Object.assign(context, { strokeStyle: ink.text, lineWidth: 2 });
      context.strokeRect(left + at[1] * side - 1, top + at[0] * side - 1, side, side);
    }
  }

  function readAt(next) {
    at = next;
    read?.(at);
    draw();
  }

  function pressed(value) {
    if (!press || !at) return undefined;
    last = at.join();
    const result = press(at[0], at[1], value);
    draw();
    return result;
  }

  const under = (event) => [
    Math.floor((event.offsetY - place.top) / place.side), Math.floor((event.offsetX - place.left) / place.side)];

  canvas.addEventListener("pointermove", (event) => {
    if (!place) return;
    const next = under(event);
    if (!inside(next)) return at && painting === null ? readAt(null) : undefined;
    if (at?.join() !== next.join()) readAt(next);
    if (painting !== null && last !== next.join()) pressed(painting);
    return undefined;
  });
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !place || !inside(under(event))) return;
    at = under(event);
    painting = pressed() ?? null;
    if (painting !== null) canvas.setPointerCapture(event.pointerId);
    readAt(at);
  });
  for (const name of ["pointerup", "pointercancel"])
    canvas.addEventListener(name, () => {
      painting = null;
    });
  canvas.addEventListener("pointerleave", () => {
    if (painting === null && document.activeElement !== canvas) readAt(null);
  });
  canvas.addEventListener("blur", () => readAt(null));
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const isPress = event.key === " " || event.key === "Enter";
    if (!moves[event.key] && !isPress) return;
    event.preventDefault();
    event.stopPropagation();
    const now = at || [0, 0];
    if (isPress) {
      at = now;
      pressed();
      readAt(at);
      return;
    }
    const next = at ? now.map((start, axis) => start + moves[event.key][axis]) : now;
    if (inside(next)) readAt(next);
  });

  return {
    draw,
    show(nextRows, nextColumns, name) {
      [rows, columns] = [nextRows, nextColumns];
      if (at && !inside(at)) at = null;
      canvas.setAttribute("aria-label", name);
      draw();
    },
  };
}

/* How a weight is drawn: its colour on the scale, its percentage where there is room, hatched where nothing is seen. */
function weightLook(scale, weight, { hidden = false, marked = false } = {}) {
  const [r, g, b] = scale[Math.round(Math.min(1, weight) * 255)];
  const isLight = 0.299 * r + 0.587 * g + 0.114 * b > 140;
  return {
    hidden, marked, colour: `rgb(${r},${g},${b})`, ink: isLight ? "#10122b" : "#ffffff",
    text: weight >= 0.005 && !hidden ? String(Math.round(weight * 100)) : "",
  };
}
