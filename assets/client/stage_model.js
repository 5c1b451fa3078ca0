/* What the stage shows at a selection: which row asks, what has been computed so far, and the sentence that says it.
   Rows are queries (they ask), columns are keys (they are asked); both count from 0 here and from 1 on the page. */

const NOBODY = { query: null, key: null };

/* Change only what differs, and words within the node that holds them: whatever is put into the page is styled and laid
   out anew, and even a property that is set to what it was makes the browser look again. */
function setText(node, text) {
  const words = String(text);
  const holder = node.firstChild ?? node; // a text node has none
  if (holder.nodeType !== Node.TEXT_NODE) node.textContent = words;
  else if (holder.data !== words) holder.data = words;
}
function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}
function setProperty(node, name, value) {
  if (node[name] !== value) node[name] = value;
}

/* Put ``nodes`` into a box; where those in it are of the same kind, only their words. */
function setNodes(box, nodes) {
  const isSame = nodes.length === box.childNodes.length && nodes.every((node, i) => node.nodeName === box.childNodes[i].nodeName);
  if (isSame) nodes.forEach((node, i) => setText(box.childNodes[i], node.textContent));
  else box.replaceChildren(...nodes);
}

/* End what is too long for its element with an ellipsis, and only that: each element that cuts off what it holds is one
   more piece for the browser to put together with every frame. */
function cutWhereTooLong(elements) {
  for (const element of elements) element.classList.remove("gf-stage-cut");
  const tooLong = elements.filter(({ scrollWidth, clientWidth, scrollHeight, clientHeight }) => scrollWidth > clientWidth || scrollHeight > clientHeight);
  for (const element of tooLong) element.classList.add("gf-stage-cut");
}

/* "93 %", with one decimal where that says more; what is nearly none or nearly all is not rounded to it. */
function percent(weight, decimals = 0) {
  if (weight > 0 && weight < 0.0005) return "< 0.1 %";
  if (weight < 1 && weight >= 0.9995) return "> 99.9 %";
  const fine = weight > 0 && (weight < 0.1 || weight >= 0.995) && weight < 1;
  return `${(weight * 100).toFixed(fine ? 1 : decimals)} %`;
}

/* The same within a sentence: "under 0.1 %", "over 99.9 %". */
function percentWords(weight, decimals = 0) {
  const number = percent(weight, decimals);
  if (number[0] === "<") return glassformer.t("decode.under", { percent: number.slice(2) });
  return number[0] === ">" ? glassformer.t("decode.over", { percent: number.slice(2) }) : number;
}

/* How many rows of the chosen kind exist at a step: the encoder has read all of the source before the first one. */
function reachedRows(kind, step, rows) {
  return kind === "encoder_self" ? rows : Math.min(step, rows);
}

/* May this row look at this column at all? The future and padding are hidden. */
function isHidden(kind, row, column) {
  if (kind === "decoder_self") return column > row;
  const key = glassformer.trace.source[column];
  return key.special && key.label === "<pad>";
}

/* The row and column in question: what the pointer is on, else what is pinned, else the row of this step.
   {query: null, key} is a whole column; both null means every row (encoder) or no row at all (step 0). */
function focusAt(selection, hover, rows) {
  const reached = reachedRows(selection.kind, selection.step, rows);
  const within = ({ query, key }) => ({ query: query !== null && query < reached ? query : null, key });
  const current = selection.kind === "encoder_self" || reached === 0 ? null : reached - 1;
  for (const [source, place] of [["hover", within(hover)], ["pin", within(selection)]])
    if (place.query !== null || place.key !== null) return { ...place, current, reached, source };
  return { query: current, key: null, current, reached, source: "step" };
}

/* The columns of a row by weight, the heaviest first. */
function heaviest(pattern, row) {
  return Array.from({ length: pattern.columns }, (_, column) => ({ column, weight: pattern.get(row, column) }))
    .sort((a, b) => b.weight - a.weight);
}

/* The heaviest cell of the first rows, or null where none of them sees anything. */
function strongestCell(pattern, reached) {
  let best = null;
  for (let row = 0; row < reached; row += 1)
    for (let column = 0; column < pattern.columns; column += 1) {
      const weight = pattern.get(row, column);
      if (weight > 0 && (!best || weight > best.weight)) best = { row, column, weight };
    }
  return best;
}

/* The direction a head of the encoder prefers: the offset with the largest mean weight over the rows that have it. */
function favouriteOffset(pattern) {
  let best = { offset: 0, weight: 0 };
  for (let offset = -3; offset <= 3; offset += 1) {
    let sum = 0;
    for (let row = 0; row < pattern.rows; row += 1)
      if (row + offset >= 0 && row + offset < pattern.columns) sum += pattern.get(row, row + offset);
    if (sum / pattern.rows > best.weight) best = { offset, weight: sum / pattern.rows };
  }
  return best;
}

function whereBack(row, column) {
  const back = row - column;
  if (back === 0) return glassformer.t("decode.here");
  return back === 1 ? glassformer.t("decode.one_back") : glassformer.t("decode.n_back", { n: back });
}

/* One sentence as {key, values}: what the lines show. A value {token} is set as a token, in its own type. */
function lookSentence(selection, focus) {
  const { kind, layer, head } = selection;
  const { trace } = glassformer;
  const pattern = glassformer.headPattern(kind, layer, head);
  const queries = glassformer.queryTokens(kind);
  const keys = glassformer.keyTokens(kind);
  const place = { layer: layer + 1, head: head + 1 };
  const { query, key, reached } = focus;
  if (query !== null && key !== null)
    return {
      key: "say_cell",
      values: { ...place, query: queries[query], key: keys[key], position: key + 1, percent: percentWords(pattern.get(query, key)) },
    };
  if (key !== null) {
    const looks = Array.from({ length: reached }, (_, row) => ({ row, weight: pattern.get(row, key) }));
    const most = looks.reduce((best, look) => (look.weight > best.weight ? look : best), { row: null, weight: 0 });
    const values = { ...place, key: keys[key], position: key + 1 };
    if (most.row === null) return { key: "say_column_nobody", values };
    return { key: "say_column", values: { ...values, query: queries[most.row], percent: percentWords(most.weight) } };
  }
  if (query === null) {
    if (kind !== "encoder_self") return { key: "say_start", values: {} };
    const { offset, weight } = favouriteOffset(pattern);
    if (weight >= 0.35) {
      const side = offset === 0 ? "offset_0" : offset < 0 ? "offset_before" : "offset_after";
      const words = glassformer.t(`decode.${side}`, { n: Math.abs(offset) });
      return { key: "say_encoder_all", values: { ...place, percent: percentWords(weight), offset: words, n: pattern.rows } };
    }
    const cell = strongestCell(pattern, reached);
    return {
      key: "say_encoder_spread",
      values: { ...place, query: queries[cell.row], key: keys[cell.column], percent: percentWords(cell.weight) },
    };
  }
  const [first, second] = heaviest(pattern, query);
  const values = {
    ...place, key: keys[first.column], percent: percentWords(first.weight), position: first.column + 1,
  };
  if (kind === "encoder_self") {
    Object.assign(values, { query: queries[query], row: query + 1 });
    return { key: first.weight > 0 ? "say_encoder" : "say_encoder_nothing", values };
  }
  values.token = trace.steps[query].token;
  const name = kind === "cross" ? "say_cross" : "say_decoder";
  if (first.weight === 0) return { key: `${name}_nothing`, values };
  if (kind === "decoder_self") values.where = whereBack(query, first.column);
  if (first.weight >= 0.6 || !second || second.weight < 0.1) return { key: name, values };
  return {
    key: `${name}_two`,
    values: {
      ...values, key2: keys[second.column], percent2: percentWords(second.weight), position2: second.column + 1,
      where2: kind === "decoder_self" ? whereBack(query, second.column) : "",
    },
  };
}

/* How sure the model is of what it writes from a row, as {key, values}; null for a row that writes nothing. */
function sureSentence(selection, focus) {
  if (selection.kind === "encoder_self" || focus.query === null || focus.key !== null) return null;
  const step = glassformer.trace.steps[focus.query];
  const [first, second] = step.candidates;
  if (!first) return null;
  const values = { token: step.token, percent: percentWords(Math.exp(step.log_prob)) };
  if (!second || first[1] > 0.9) return { key: "say_sure", values };
  const other = second[0] === step.token.label ? first : second;
  return { key: "say_runner_up", values: { ...values, second: { label: other[0] }, percent2: percentWords(other[1]) } };
}

/* A sentence as nodes (a key without a dot is one of the stage's): its words as text, its tokens each in a <bdi>, so that no token bends the words around it. */
function sentenceNodes({ key, values }) {
  const marked = Object.fromEntries(Object.keys(values).map((name) => [name, `\u0000${name}\u0000`]));
  return glassformer.t(key.includes(".") ? key : `decode.${key}`, marked).split("\u0000").map((part, i) => {
    if (i % 2 === 0) return document.createTextNode(part);
    const value = values[part];
    if (typeof value !== "object") {
      const number = document.createElement(part.startsWith("percent") ? "strong" : "span");
      number.textContent = String(value);
      return number;
    }
    const token = document.createElement("bdi");
    token.className = "gf-stage-say-token";
    token.textContent = value.label;
    return token;
  });
}
