/* The values of one part: what it is, its figures, a picture of its numbers, formula and line of code. */
const FORMULA_PIECE = /([_^])\{([^}]*)\}/g;

function formulaNode(text) {
  const made = node("code", "gf-xray-formula");
  let end = 0;
  for (const found of text.matchAll(FORMULA_PIECE)) {
    made.append(text.slice(end, found.index), node(found[1] === "_" ? "sub" : "sup", "", found[2]));
    end = found.index + found[0].length;
  }
  made.append(text.slice(end));
  return made;
}

/* The numbers of a part, and where each stands: get(head, row, column); null stands for what is hidden. */
function numbersOf(part) {
  const [, rows, columns] = part.values.shape;
  const codes = glassformer.decodeArray(part.values);
  const step = (part.values.high - part.values.low) / 65534;
  return {
    rows,
    columns,
    get: (head, row, column) => {
      const code = codes[(head * rows + row) * columns + column];
      return code === 65535 ? null : part.values.low + code * step;
    },
  };
}

function fitted(context, text, room) {
  let shown = text;
  while (shown.length > 1 && context.measureText(shown).width > room) shown = `${[...shown].slice(0, shown.endsWith("…") ? -2 : -1).join("")}…`;
  return shown;
}

class Heatmap {
  constructor(part, head, writtenRow) {
    Object.assign(this, { part, head, writtenRow, numbers: numbersOf(part), at: null });
    this.canvas = node("canvas", "gf-xray-canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.readout = node("p", "gf-xray-readout");
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.move(null));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  /* Room on the left and above for the tokens, then cells as large as fit the width. */
  paint(width) {
    if (width < 40) return;
    const { part, numbers } = this;
    const probe = this.canvas.getContext("2d");
    const font = `500 14px ${glassformer.colour("mono") || "monospace"}`;
    probe.font = font;
    const widest = (chips) => Math.max(0, ...chips.map((chip) => probe.measureText(chip.label).width));
    const left = Math.min(110, widest(part.rows)) + 12;
    const showsTokens = part.columns !== null;
    // Columns of tokens stay wide enough for their labels and scroll where they do not fit; others get as thin as need be.
    const cellWidth = Math.max(showsTokens ? 16 : 0.5, Math.min(46, (width - left - 4) / numbers.columns));
    const top = showsTokens ? Math.min(90, widest(part.columns)) + 12 : 24;
    const cellHeight = Math.max(17, Math.min(30, part.columns === null ? 26 : cellWidth, 520 / numbers.rows));
    const place = { left, top, cellWidth, cellHeight };
    this.place = place;
    const height = top + cellHeight * numbers.rows + 2;
    const context = glassformer.fitCanvas(this.canvas, Math.ceil(left + cellWidth * numbers.columns + 4), Math.ceil(height));
    context.font = font;
    context.textBaseline = "middle";
    const colours = glassformer.scale(part.is_weight ? "sequential" : "diverging");
    const reach = part.is_weight ? 1 : Math.max(Math.abs(part.values.low), Math.abs(part.values.high)) || 1;
    const gap = cellWidth >= 8 ? 1 : 0;
    for (let row = 0; row < numbers.rows; row += 1) {
      const y = top + row * cellHeight;
      context.fillStyle = glassformer.colour(row === this.writtenRow ? "accent" : "text");
      context.textAlign = "right";
      context.fillText(fitted(context, part.rows[row].label, left - 10), left - 8, y + cellHeight / 2);
      for (let column = 0; column < numbers.columns; column += 1) {
        const value = numbers.get(this.head, row, column);
        const share = part.is_weight ? value : (value / reach + 1) / 2;
        context.fillStyle = value === null ? glassformer.colour("hidden") : `rgb(${colours[Math.max(0, Math.min(255, Math.round(share * 255)))].join()})`;
        context.fillRect(left + column * cellWidth, y, Math.max(cellWidth - gap, 0.6), cellHeight - 1);
      }
    }
    context.fillStyle = glassformer.colour("muted");
    if (showsTokens) {
      context.textAlign = "left";
      for (let column = 0; column < numbers.columns; column += 1) {
        context.save();
        context.translate(left + (column + 0.5) * cellWidth, top - 6);
        context.rotate(-Math.PI / 2);
        context.fillText(fitted(context, part.columns[column].label, top - 10), 0, 0);
        context.restore();
      }
    } else {
      context.textAlign = "center";
      const every = [1, 2, 4, 8, 16, 32, 64, 128, 256].find((n) => n * cellWidth >= 44) || 512;
      for (let column = 0; column < numbers.columns; column += every)
        context.fillText(String(column), left + (column + 0.5) * cellWidth, 12);
    }
    if (this.at) {
      context.strokeStyle = glassformer.colour("text");
      context.lineWidth = 2;
      context.strokeRect(left + this.at.column * cellWidth - 1, top + this.at.row * cellHeight - 1, cellWidth + 2, cellHeight + 1);
    }
    this.say();
  }

  say() {
    const { part, numbers, at } = this;
    if (!at) {
      this.readout.textContent = t("xray.readout_idle");
      return;
    }
    const value = numbers.get(this.head, at.row, at.column);
    const column = part.columns ? `${at.column} ${part.columns[at.column].label}` : String(at.column);
    const words = { row: `${at.row} ${part.rows[at.row].label}`, column };
    this.readout.textContent = value === null ? t("xray.readout_hidden", words) : t("xray.readout", { ...words, value: numberText(value) });
  }

  move(at) {
    this.at = at;
    this.paint(this.width);
  }

  point(event) {
    const box = this.canvas.getBoundingClientRect();
    const { left, top, cellWidth, cellHeight } = this.place;
    const column = Math.floor((event.clientX - box.left - left) / cellWidth);
    const row = Math.floor((event.clientY - box.top - top) / cellHeight);
    const inside = row >= 0 && column >= 0 && row < this.numbers.rows && column < this.numbers.columns;
    if (inside && this.at && this.at.row === row && this.at.column === column) return;
    if (inside || this.at) this.move(inside ? { row, column } : null);
  }

  key(event) {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const bound = (value, size) => Math.max(0, Math.min(size - 1, value));
    const from = this.at || { row: 0, column: 0 };
    this.move(this.at ? { row: bound(from.row + step[0], this.numbers.rows), column: bound(from.column + step[1], this.numbers.columns) } : from);
  }
}

function tableOf(part, head) {
  const numbers = numbersOf(part);
  const table = node("table", "");
  const header = node("tr", "", node("th", ""));
  for (let column = 0; column < numbers.columns; column += 1)
    header.append(node("th", "", part.columns ? part.columns[column].label : String(column)));
  table.append(header);
  for (let row = 0; row < numbers.rows; row += 1) {
    const line = node("tr", "", node("th", "", part.rows[row].label));
    for (let column = 0; column < numbers.columns; column += 1) {
      const value = numbers.get(head, row, column);
      line.append(node("td", "", value === null ? "−∞" : numberText(value)));
    }
    table.append(line);
  }
  return table;
}

/* Every weight of the part, its length, and that of the gradient of the run's loss by it. */
function weightsNode({ loss, rows }) {
  const cell = (tag, words, scope) => {
    const made = node(tag, "", words);
    if (scope) made.scope = scope;
    return made;
  };
  const head = node("tr", "", ...["weight", "shape", "norm", "gradient"].map((key) => cell("th", t(`xray.weights_${key}`), "col")));
  const body = rows.map(({ name, shape, norm, gradient }) => {
    const short = name.split(".").slice(-2).join(".");
    const named = cell("th", short, "row");
    named.title = name;
    return node("tr", "", named, cell("td", shapeText(shape)), cell("td", numberText(norm)), cell("td", numberText(gradient)));
  });
  const table = node("table", "", node("thead", "", head), node("tbody", "", ...body));
  return node("div", "gf-xray-weights", node("span", "gf-field-label", t("xray.weights")), table, node("p", "gf-xray-columns-note", t("xray.weights_says", { loss: numberText(loss) })));
}

/* Everything beside the picture. chooseHead(head) is called by the head picker. */
function panelOf(part, picture, head, step, chooseHead) {
  const { hook, places, name } = partWords(part.address);
  const shown = part.has_heads ? head : 0;
  const facts = part.figures[shown];
  const fact = (label, value, more) => node("div", "gf-xray-fact", node("dt", "", label), node("dd", "", value, ...(more ? [node("small", "", more)] : [])));
  const made = [
    node("p", "gf-xray-place", places.join(" · ")),
    node("h3", "", name),
    node("p", "gf-xray-says", t(`xray.says_${hook}`)),
  ];
  if (part.has_heads) {
    const heads = node("div", "gf-segments gf-xray-heads");
    heads.setAttribute("role", "group");
    heads.setAttribute("aria-label", t("xray.head"));
    part.figures.forEach((_, i) => {
      const button = node("button", "", String(i + 1));
      button.type = "button";
      button.setAttribute("aria-pressed", String(i === shown));
      button.setAttribute("aria-label", t("xray.head_n", { n: i + 1 }));
      button.addEventListener("click", () => chooseHead(i));
      heads.append(button);
    });
    made.push(node("div", "gf-xray-head-row", node("span", "gf-field-label", t("xray.head")), heads));
  }
  const written = part.rows_are === "T" ? Math.max(0, Math.min(part.rows.length, step) - 1) : null;
  const heatmap = new Heatmap(part, shown, written);
  heatmap.canvas.setAttribute("aria-label", t("xray.canvas_label", { name, shape: shapeText(part.shape) }));
  const scroll = node("div", "gf-xray-canvas-scroll", heatmap.canvas);
  made.push(scroll, heatmap.readout);
  if (part.n_columns > heatmap.numbers.columns)
    made.push(node("p", "gf-xray-columns-note", t(part.columns ? "xray.columns_strongest" : "xray.columns_first", { n: heatmap.numbers.columns, all: part.n_columns })));
  const share = (part.n_parameters / picture.n_parameters) * 100;
  made.push(node("dl", "gf-xray-facts",
    fact(t("xray.shape"), shapeText(part.shape), `[${part.axes.join(", ")}]`),
    fact(t("xray.mean"), numberText(facts.mean)),
    fact(t("xray.std"), numberText(facts.std)),
    fact(t("xray.min"), numberText(facts.min)),
    fact(t("xray.max"), numberText(facts.max)),
    fact(t("xray.parameters"), part.n_parameters.toLocaleString("en"), part.n_parameters ? t("xray.parameters_share", { share: share.toFixed(1) }) : t("xray.parameters_none")),
  ));
  if (facts.n_hidden) made.push(node("p", "gf-xray-columns-note", t("xray.n_hidden", { n: facts.n_hidden })));
  if (part.weights) made.push(weightsNode(part.weights));
  const code = node("div", "gf-code", node("small", "", part.code.place), node("code", "", part.code.text));
  made.push(node("div", "gf-xray-line-of", node("span", "gf-field-label", t("xray.formula")), formulaNode(part.formula)));
  made.push(node("div", "gf-xray-line-of", node("span", "gf-field-label", t("xray.code")), code));
  const table = node("div", "gf-table-scroll");
  table.tabIndex = 0;
  table.setAttribute("aria-label", t("common.as_table"));
  const details = node("details", "gf-chart-table", node("summary", "", t("common.as_table")), table);
  details.addEventListener("toggle", () => {
    if (details.open && !table.firstChild) table.append(tableOf(part, shown));
  });
  made.push(details);
  return { nodes: made, heatmap, scroll };
}
