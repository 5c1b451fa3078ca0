/* The strip of all heads as small maps, and the chosen head large with its tokens on both axes.
   Every map is painted once, a pixel a cell, and what a step changes lies over it (stage_marks.js). The canvases take a
   finished picture (bitmaprenderer): one that could be drawn on is copied with every frame, whether it changed or not.
   The small maps share one canvas that lies over their buttons: a browser handles one large canvas with ease, a
   hundred small ones not at all. */

// Pixels. A browser draws nothing at all on a canvas that is larger than it likes.
const CELL = { smallest: 20, widest: 76, highest: 44, writesFrom: 38, canvas: 8000 };
const SMALLEST_MAP = 46; // as wide as its label

function makeMaps(root, { hover, pin, choose, tip }) {
  const strip = root.querySelector(".gf-stage-strip");
  const large = root.querySelector(".gf-stage-large");
  const stripCanvas = document.createElement("canvas");
  stripCanvas.setAttribute("aria-hidden", "true"); // the buttons beneath it say what is on it
  const canvas = large.querySelector("canvas");
  const marks = { small: makeMarks(2), large: makeMarks(3) };
  canvas.after(marks.large.element);
  const axes = { rows: root.querySelector(".gf-stage-rows"), columns: root.querySelector(".gf-stage-columns") };
  const pictures = new Map(); // "kind/layer/head" -> {bitmap, blank: rows that see nothing}
  let buttons = []; // [layer][head] -> {button, frame, x, y}: the place of its map on the strip's canvas
  let small = { canvas: null, width: 0, height: 0 }; // the size of the strip's canvas, and of one map on it
  let built = "";
  let cell = { width: 30, height: 30 };
  let scrolled = 0; // how far the large map is scrolled, and how much of its height shows: asking for them is slow
  let opening = 0;
  let isInView = true; // until the browser says otherwise
  let latest = null; // the focus that is not marked yet
  let following = false; // whether the large map is to be scrolled to it
  let paint = null; // colours of the theme in force
  let painted = {}; // which pictures the canvases show: {strip, large}

  function colours() {
    // Read once: asking for a computed style in the midst of drawing makes the browser lay the page out again.
    const names = ["mono", "ground", "text", "muted", "hidden"];
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

  /* Paint a picture of so many CSS pixels and put it on a canvas of the page. */
  function show(onto, width, height, painting) {
    const drawn = new OffscreenCanvas(1, 1);
    painting(glassformer.fitCanvas(drawn, width, height));
    Object.assign(onto.style, { width: `${width}px`, height: `${height}px` });
    onto.getContext("bitmaprenderer").transferFromImageBitmap(drawn.transferToImageBitmap());
  }

  function paintMap(target, { bitmap, blank, pattern }, width, height) {
    target.imageSmoothingEnabled = false;
    target.drawImage(bitmap, 0, 0, width, height);
    const row = height / pattern.rows;
    for (const index of blank) hatch(target, 0, index * row, width, row);
  }

  /* Lines between the cells and, where there is room, what each comes to in percent. */
  function paintGrid(target, pattern) {
    const { width: column, height: row } = cell;
    const [width, height] = [pattern.columns * column, pattern.rows * row];
    target.fillStyle = paint.ground;
    for (let i = 1; i < pattern.columns; i += 1) target.fillRect(i * column - 0.5, 0, 1, height);
    for (let i = 1; i < pattern.rows; i += 1) target.fillRect(0, i * row - 0.5, width, 1);
    if (column < CELL.writesFrom) return;
    target.font = `600 13px ${paint.mono}`;
    Object.assign(target, { textAlign: "center", textBaseline: "middle" });
    for (let i = 0; i < pattern.rows; i += 1)
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
    const [layers, heads] = trace.patterns[kind].shape;
    const name = [trace.id, kind, glassformer.language].join("|");
    if (name === built) return;
    built = name;
    strip.replaceChildren(stripCanvas, marks.small.element);
    buttons = Array.from({ length: layers }, (_, layer) => {
      const line = document.createElement("div");
      line.className = "gf-stage-layer";
      strip.append(line);
      return Array.from({ length: heads }, (_, head) => makeHead(line, layer, head));
    });
    fillAxis(axes.rows, glassformer.queryTokens(kind), "query");
    fillAxis(axes.columns, glassformer.keyTokens(kind), "key");
    layout();
  }

  function makeHead(line, layer, head) {
    const button = document.createElement("button");
    Object.assign(button, { type: "button", className: "gf-stage-head" });
    button.setAttribute("role", "radio");
    Object.assign(button.dataset, { layer, head });
    button.setAttribute("aria-label", glassformer.t("decode.head_label", { layer: layer + 1, head: head + 1 }));
    const frame = document.createElement("span");
    frame.className = "gf-stage-frame";
    const name = document.createElement("span");
    name.textContent = `L${layer + 1} H${head + 1}`;
    button.append(frame, name);
    line.append(button);
    return { button, frame, x: 0, y: 0 };
  }

  function fillAxis(axis, tokens, part) {
    axis.replaceChildren(...tokens.map((token, index) => {
      const label = document.createElement("span");
      label.className = "gf-stage-axis-token";
      label.classList.toggle("gf-chip-unknown", Boolean(token.unknown));
      label.dataset[part] = index;
      label.dir = "auto";
      label.title = token.label;
      label.textContent = token.label;
      return label;
    }));
  }

  function layoutStrip(heads, rows, columns) {
    const roomFor = (perRow) => Math.floor(strip.clientWidth / perRow) - 20;
    let perRow = heads; // where a layer does not fit into one row, it takes equal ones
    while (perRow > 1 && roomFor(perRow) < SMALLEST_MAP) perRow = Math.ceil(perRow / 2);
    const width = Math.max(SMALLEST_MAP, Math.min(104, roomFor(perRow)));
    const height = Math.round(Math.min(1.15 * width, Math.max(40, (width * rows) / columns)));
    strip.style.setProperty("--map-width", `${width}px`);
    strip.style.setProperty("--map-height", `${height}px`);
    const box = strip.getBoundingClientRect();
    small = { width, height, canvas: [box.width, box.height] };
    for (const place of buttons.flat()) {
      const frame = place.frame.getBoundingClientRect();
      place.x = frame.left - box.left;
      place.y = frame.top - box.top;
    }
    const lines = new Map(); // top -> the maps that stand there side by side
    for (const { x, y } of buttons.flat()) lines.set(y, [...(lines.get(y) ?? []), x]);
    marks.small.layout(lines, { width, height, rows, columns });
  }

  /* Cells as large as the room allows, never too small to read: beyond that the map scrolls, its labels stay. */
  function layout() {
    if (!glassformer.trace || !large.clientWidth) return;
    painted = {};
    const { kind } = glassformer.selection;
    const [, heads, rows, columns] = glassformer.trace.patterns[kind].shape;
    layoutStrip(heads, rows, columns);
    const room = large.clientWidth - axes.rows.offsetWidth - 2;
    const largest = Math.max(1, Math.floor(CELL.canvas / Math.max(rows, columns)));
    const width = Math.min(largest, Math.max(CELL.smallest, Math.min(CELL.widest, Math.floor(room / columns))));
    cell = { width, height: Math.min(largest, Math.max(CELL.smallest, Math.min(CELL.highest, width))) };
    large.style.setProperty("--cell-width", `${cell.width}px`);
    large.style.setProperty("--cell-height", `${cell.height}px`);
    const labels = [...axes.columns.children];
    for (const label of labels) label.classList.remove("gf-stage-upright");
    const tooWide = labels.filter((label) => label.scrollWidth > label.clientWidth);
    for (const label of tooWide) label.classList.add("gf-stage-upright");
    cutWhereTooLong([...axes.rows.children, ...labels]);
    marks.large.layout(new Map([[0, [0]]]), { width: columns * cell.width, height: rows * cell.height, rows, columns });
    opening = large.clientHeight - axes.columns.offsetHeight;
    scrolled = large.scrollTop;
  }

  function paintStrip(kind) {
    if (painted.strip === kind) return;
    painted.strip = kind;
    show(stripCanvas, ...small.canvas, (target) => buttons.forEach((line, layer) => line.forEach(({ x, y }, head) => {
      target.save();
      target.translate(x, y);
      paintMap(target, picture(kind, layer, head), small.width, small.height);
      target.restore();
    })));
  }

  function paintLarge(kind, layer, head) {
    const name = `${kind}/${layer}/${head}`;
    if (painted.large === name) return;
    painted.large = name;
    const made = picture(kind, layer, head);
    const { rows, columns } = made.pattern;
    show(canvas, columns * cell.width, rows * cell.height, (target) => {
      paintMap(target, made, columns * cell.width, rows * cell.height);
      paintGrid(target, made.pattern);
    });
  }

  function draw(selection, focus) {
    colours();
    build(selection.kind);
    const { kind } = selection;
    buttons.forEach((line, layer) => line.forEach(({ button }, head) => {
      const chosen = layer === selection.layer && head === selection.head;
      setAttribute(button, "aria-checked", chosen);
      setAttribute(button, "tabindex", chosen ? 0 : -1);
    }));
    if (small.canvas) {
      paintStrip(kind);
      paintLarge(kind, selection.layer, selection.head);
    }
    setText(root.querySelector(".gf-stage-large-name"), glassformer.t("decode.large_name", {
      layer: selection.layer + 1, head: selection.head + 1, kind: glassformer.t(`decode.kind_${kind}`),
    }));
    latest = focus;
    if (isInView) mark();
  }

  /* What a step changes. Scrubbing with the maps below the window does without it, until they come into view. */
  function mark() {
    const focus = latest;
    if (!focus || !small.canvas) return;
    latest = null;
    marks.small.show(focus);
    marks.large.show(focus);
    for (const label of axes.rows.children) {
      const index = Number(label.dataset.query);
      label.classList.toggle("gf-stage-on", index === focus.query);
      label.classList.toggle("gf-stage-later", index >= focus.reached);
    }
    for (const label of axes.columns.children) label.classList.toggle("gf-stage-on", Number(label.dataset.key) === focus.key);
    if (following) follow(focus);
  }
  new IntersectionObserver((entries) => {
    isInView = entries[entries.length - 1].isIntersecting;
    if (isInView) mark();
  }, { rootMargin: "100px" }).observe(root.querySelector(".gf-stage-maps"));

  /* Bring the row in question into the map's window, without moving the page. */
  function follow(focus) {
    following = !isInView;
    if (following) return;
    const row = focus.query ?? focus.current;
    if (row === null) return;
    const top = row * cell.height;
    if (top >= scrolled && top + cell.height <= scrolled + opening) return;
    large.scrollTop = scrolled = Math.max(0, top - 0.7 * opening);
  }
  large.addEventListener("scroll", () => { scrolled = large.scrollTop; }, { passive: true });

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
      percent: percentWords(pattern.get(query, key), 1),
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
    const button = event.target.closest(".gf-stage-head");
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
    const button = event.target.closest(".gf-stage-head");
    if (!button || event.pointerType === "touch") return tip(null);
    const [layer, head] = [Number(button.dataset.layer), Number(button.dataset.head)];
    const { kind, step } = glassformer.selection;
    const { pattern } = picture(kind, layer, head);
    const best = strongestCell(pattern, reachedRows(kind, step, pattern.rows));
    const values = { layer: layer + 1, head: head + 1 };
    const box = button.getBoundingClientRect();
    if (!best) return tip({ key: "head_tip_nothing", values }, box.left, box.bottom);
    Object.assign(values, {
      query: glassformer.queryTokens(kind)[best.row], key: glassformer.keyTokens(kind)[best.column], percent: percentWords(best.weight, 1),
    });
    return tip({ key: "head_tip", values }, box.left, box.bottom);
  });
  strip.addEventListener("pointerleave", () => tip(null));

  return {
    draw, layout, follow,
    forget() { pictures.clear(); paint = null; painted = {}; },
    label: (text) => setAttribute(canvas, "aria-label", text),
    element: large,
  };
}
