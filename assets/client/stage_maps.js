/* The strip of all heads as small maps, and the chosen head large with its tokens on both axes.
   Every map is painted once, a pixel a cell, and only the state of its rows is laid over it while scrubbing. */

const CELL = { smallest: 26, widest: 76, highest: 44, writesFrom: 38 };

function makeMaps(root, { hover, pin, choose, tip }) {
  const strip = root.querySelector(".gf-strip");
  const large = root.querySelector(".gf-large");
  const canvas = large.querySelector("canvas");
  const axes = { rows: root.querySelector(".gf-rows"), columns: root.querySelector(".gf-columns") };
  const pictures = new Map(); // "kind/layer/head" -> {bitmap, blank: rows that see nothing}
  let buttons = []; // [layer][head] -> {button, canvas, context, width, height}
  let built = "";
  let cell = { width: 30, height: 30 };
  let context = null;
  let paint = null; // colours of the theme in force

  function colours() {
    const names = ["ground", "text", "muted", "line", "hidden", "cross", "encoder-self", "decoder-self"];
    paint ??= { scale: glassformer.scale("sequential"), ...Object.fromEntries(names.map((name) => [name, glassformer.colour(name)])) };
    return paint;
  }

  /* One head as a picture of columns x rows pixels. */
  function picture(kind, layer, head) {
    const name = `${kind}/${layer}/${head}`;
    if (pictures.has(name)) return pictures.get(name);
    const pattern = glassformer.headPattern(kind, layer, head);
    const { scale, hidden } = colours();
    const bitmap = new OffscreenCanvas(pattern.columns, pattern.rows);
    const image = new ImageData(pattern.columns, pattern.rows);
    const hiddenColour = [1, 3, 5].map((start) => parseInt(hidden.slice(start, start + 2), 16));
    const blank = [];
    for (let row = 0; row < pattern.rows; row += 1) {
      let sum = 0;
      for (let column = 0; column < pattern.columns; column += 1) {
        const weight = pattern.get(row, column);
        sum += weight;
        const colour = weight === 0 && isHidden(kind, row, column) ? hiddenColour : scale[Math.round(weight * 255)];
        image.data.set([...colour, 255], 4 * (row * pattern.columns + column));
      }
      if (sum === 0) blank.push(row);
    }
    bitmap.getContext("2d").putImageData(image, 0, 0);
    const made = { bitmap, blank, pattern };
    pictures.set(name, made);
    return made;
  }

  /* Slanted lines over a row that sees nothing. */
  function hatch(target, x, y, width, height) {
    target.save();
    target.beginPath();
    target.rect(x, y, width, height);
    target.clip();
    target.fillStyle = paint.ground;
    target.fillRect(x, y, width, height);
    target.strokeStyle = paint.muted;
    target.lineWidth = 1;
    target.beginPath();
    for (let start = x - height; start < x + width; start += 6) {
      target.moveTo(start, y + height);
      target.lineTo(start + height, y);
    }
    target.stroke();
    target.restore();
  }

  /* A picture with the state of its rows: what has not asked yet is dimmed, the row and column in question outlined. */
  function drawMap(target, made, width, height, kind, focus, isLarge) {
    const { rows, columns } = made.pattern;
    const row = height / rows;
    const column = width / columns;
    const colour = paint[KIND_COLOUR[kind]];
    target.imageSmoothingEnabled = false;
    target.clearRect(0, 0, width, height);
    target.drawImage(made.bitmap, 0, 0, width, height);
    for (const blank of made.blank) hatch(target, 0, blank * row, width, row);
    if (isLarge) drawGrid(target, made, row, column, width, height, focus);
    if (focus.reached < rows) {
      target.globalAlpha = 0.82;
      target.fillStyle = paint.ground;
      target.fillRect(0, focus.reached * row, width, height - focus.reached * row);
      target.globalAlpha = 1;
    }
    target.strokeStyle = colour;
    target.lineWidth = isLarge ? 3 : 2;
    const inset = target.lineWidth / 2;
    const outline = (x, y, w, h) => target.strokeRect(x + inset, y + inset, Math.max(1, w - 2 * inset), Math.max(1, h - 2 * inset));
    if (focus.query !== null) outline(0, focus.query * row, width, Math.max(row, 3));
    if (focus.key !== null) outline(focus.key * column, 0, Math.max(column, 3), focus.reached * row);
    if (isLarge && focus.current !== null && focus.current !== focus.query) {
      target.setLineDash([5, 4]);
      outline(0, focus.current * row, width, row);
      target.setLineDash([]);
    }
  }

  function drawGrid(target, { pattern }, row, column, width, height, focus) {
    target.fillStyle = paint.ground;
    for (let i = 1; i < pattern.columns; i += 1) target.fillRect(i * column - 0.5, 0, 1, height);
    for (let i = 1; i < pattern.rows; i += 1) target.fillRect(0, i * row - 0.5, width, 1);
    if (column < CELL.writesFrom) return;
    target.font = `600 13px ${getComputedStyle(large).getPropertyValue("--gf-mono")}`;
    Object.assign(target, { textAlign: "center", textBaseline: "middle" });
    for (let i = 0; i < focus.reached; i += 1)
      for (let j = 0; j < pattern.columns; j += 1) {
        const weight = pattern.get(i, j);
        if (weight < 0.05) continue;
        target.fillStyle = weight > 0.5 ? paint.ground : paint.text;
        target.fillText(String(Math.round(weight * 100)), (j + 0.5) * column, (i + 0.5) * row + 1);
      }
  }

  /* The frame of both: buttons for a run and a kind, labels along the axes. */
  function build(kind) {
    const { trace } = glassformer;
    const [layers, heads, rows, columns] = trace.patterns[kind].shape;
    const name = [trace.id, kind, glassformer.language].join("|");
    if (name === built) return;
    built = name;
    strip.replaceChildren();
    buttons = Array.from({ length: layers }, (_, layer) => {
      const line = document.createElement("div");
      line.className = "gf-layer";
      strip.append(line);
      return Array.from({ length: heads }, (_, head) => makeHead(line, layer, head, rows, columns));
    });
    fillAxis(axes.rows, glassformer.queryTokens(kind), "query");
    fillAxis(axes.columns, glassformer.keyTokens(kind), "key");
    layout();
  }

  function makeHead(line, layer, head, rows, columns) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "gf-head" });
    button.setAttribute("role", "radio");
    Object.assign(button.dataset, { layer, head });
    button.setAttribute("aria-label", glassformer.t("decode.head_label", { layer: layer + 1, head: head + 1 }));
    const picture_ = document.createElement("canvas");
    const heads = glassformer.trace.patterns[glassformer.selection.kind].shape[1];
    const width = Math.max(60, Math.min(104, Math.floor(strip.clientWidth / heads) - 20));
    const height = Math.round(Math.min(1.15 * width, Math.max(40, (width * rows) / columns)));
    const name = document.createElement("span");
    name.textContent = `L${layer + 1} H${head + 1}`;
    button.append(picture_, name);
    line.append(button);
    return { button, context: glassformer.fitCanvas(picture_, width, height), width, height };
  }

  function fillAxis(axis, tokens, part) {
    axis.replaceChildren(...tokens.map((token, index) => {
      const label = document.createElement("span");
      label.className = "gf-axis-token";
      label.classList.toggle("gf-chip-unknown", Boolean(token.unknown));
      label.dataset[part] = index;
      label.dir = "auto";
      label.title = token.label;
      label.textContent = token.label;
      return label;
    }));
  }

  /* Cells as large as the room allows, never too small to read: beyond that the map scrolls, its labels stay. */
  function layout() {
    if (!glassformer.trace || !large.clientWidth) return;
    const { kind } = glassformer.selection;
    const [, , rows, columns] = glassformer.trace.patterns[kind].shape;
    const room = large.clientWidth - axes.rows.offsetWidth - 2;
    const width = Math.max(CELL.smallest, Math.min(CELL.widest, Math.floor(room / columns)));
    cell = { width, height: Math.max(CELL.smallest, Math.min(CELL.highest, width)) };
    large.style.setProperty("--cell-width", `${cell.width}px`);
    large.style.setProperty("--cell-height", `${cell.height}px`);
    const keys = [...axes.columns.children];
    const upright = keys.some((label) => label.textContent.length * 9 > cell.width - 4);
    axes.columns.classList.toggle("gf-upright", upright);
    context = glassformer.fitCanvas(canvas, columns * cell.width, rows * cell.height);
  }

  function draw(selection, focus) {
    colours();
    build(selection.kind);
    const { kind } = selection;
    buttons.forEach((line, layer) => line.forEach(({ button, context: small, width, height }, head) => {
      const chosen = layer === selection.layer && head === selection.head;
      button.setAttribute("aria-checked", String(chosen));
      button.tabIndex = chosen ? 0 : -1;
      drawMap(small, picture(kind, layer, head), width, height, kind, focus, false);
    }));
    if (!context) return;
    const made = picture(kind, selection.layer, selection.head);
    const { rows, columns } = made.pattern;
    drawMap(context, made, columns * cell.width, rows * cell.height, kind, focus, true);
    for (const label of axes.rows.children) {
      const index = Number(label.dataset.query);
      label.classList.toggle("gf-on", index === focus.query);
      label.classList.toggle("gf-later", index >= focus.reached);
    }
    for (const label of axes.columns.children) label.classList.toggle("gf-on", Number(label.dataset.key) === focus.key);
    root.querySelector(".gf-large-name").textContent = glassformer.t("decode.large_name", {
      layer: selection.layer + 1, head: selection.head + 1, kind: glassformer.t(`decode.kind_${kind}`),
    });
  }

  /* Bring the row in question into the map's window, without moving the page. */
  function follow(focus) {
    const row = focus.query ?? focus.current;
    if (row === null) return;
    const top = row * cell.height;
    const shownHeight = large.clientHeight - axes.columns.offsetHeight;
    if (top < large.scrollTop) large.scrollTop = top;
    else if (top + cell.height > large.scrollTop + shownHeight) large.scrollTop = top + cell.height - shownHeight;
  }

  function cellAt(event) {
    const { target } = event;
    if (target.dataset.query !== undefined) return { query: Number(target.dataset.query), key: null };
    if (target.dataset.key !== undefined) return { query: null, key: Number(target.dataset.key) };
    if (target !== canvas) return null;
    const box = canvas.getBoundingClientRect();
    const { rows, columns } = picture(glassformer.selection.kind, 0, 0).pattern;
    const inside = (value, n) => Math.max(0, Math.min(n - 1, Math.floor(value)));
    return {
      query: inside((event.clientY - box.top) / cell.height, rows),
      key: inside((event.clientX - box.left) / cell.width, columns),
    };
  }

  function cellWords({ query, key }) {
    const { kind, layer, head, step } = glassformer.selection;
    const pattern = glassformer.headPattern(kind, layer, head);
    const reached = reachedRows(kind, step, pattern.rows);
    const values = {
      query: glassformer.queryTokens(kind)[query], row: query + 1, key: glassformer.keyTokens(kind)[key], column: key + 1,
      percent: percent(pattern.get(query, key), 1),
    };
    if (query >= reached) return { key: "cell_later", values };
    return { key: isHidden(kind, query, key) && pattern.get(query, key) === 0 ? "cell_hidden" : "cell_tip", values };
  }

  large.addEventListener("pointermove", (event) => {
    if (event.pointerType === "touch") return;
    const place = cellAt(event);
    hover(place);
    const { clientX: x, clientY: y } = event;
    if (place && place.query !== null && place.key !== null) tip(cellWords(place), x, y);
    else tip(null);
  });
  large.addEventListener("pointerleave", () => { hover(null); tip(null); });
  large.addEventListener("click", (event) => {
    const place = cellAt(event);
    if (place) pin(place);
  });
  large.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    const { kind, step, query, key } = glassformer.selection;
    const { rows, columns } = picture(kind, 0, 0).pattern;
    const reached = reachedRows(kind, step, rows);
    if (!reached) return;
    const within = (value, n) => Math.max(0, Math.min(n - 1, value));
    const next = query === null || key === null
      ? { query: within(query ?? reached - 1, reached), key: key ?? 0 }
      : { query: within(query + move[0], reached), key: within(key + move[1], columns) };
    glassformer.select(next);
  });

  strip.addEventListener("click", (event) => {
    const button = event.target.closest(".gf-head");
    if (button) choose(Number(button.dataset.layer), Number(button.dataset.head));
  });
  strip.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    const { layer, head } = glassformer.selection;
    const wrap = (value, n) => (value + n) % n;
    const next = [wrap(layer + move[0], buttons.length), wrap(head + move[1], buttons[0].length)];
    choose(...next);
    buttons[next[0]][next[1]].button.focus();
  });
  strip.addEventListener("pointerover", (event) => {
    const button = event.target.closest(".gf-head");
    if (!button || event.pointerType === "touch") return tip(null);
    const [layer, head] = [Number(button.dataset.layer), Number(button.dataset.head)];
    const { kind, step } = glassformer.selection;
    const { pattern } = picture(kind, layer, head);
    const best = strongestCell(pattern, reachedRows(kind, step, pattern.rows));
    const values = { layer: layer + 1, head: head + 1 };
    const box = button.getBoundingClientRect();
    if (!best) return tip({ key: "head_tip_nothing", values }, box.left, box.bottom);
    Object.assign(values, {
      query: glassformer.queryTokens(kind)[best.row], key: glassformer.keyTokens(kind)[best.column], percent: percent(best.weight, 1),
    });
    return tip({ key: "head_tip", values }, box.left, box.bottom);
  });
  strip.addEventListener("pointerleave", () => tip(null));

  return {
    draw, layout, follow,
    forget() { pictures.clear(); paint = null; },
    label: (text) => canvas.setAttribute("aria-label", text),
    element: large,
  };
}
