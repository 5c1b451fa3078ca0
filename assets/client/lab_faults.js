/* Break it: the toggles of all faults, and a sound run beside one under those that are switched on.
   Event: "ask" {faults}. The answer is a payload of both runs, or {problem}: the sentence of a refusal. */
const at = (name) => element.querySelector(`.gf-faults-${name}`);
const problem = element.querySelector(".gf-lab-problem");
const result = at("result");
const allOff = element.querySelector(".gf-lab-quiet");
const canvases = [...at("pair").querySelectorAll("canvas")];
const { t } = glassformer;
const WIDE = { column: 92, names: 96 };
const STACKED = "(max-width: 860px)"; // as in the style sheet
const NARROW = { column: 76, names: 72, upTo: 560 };
let found = null; // the latest answer, its runs ready to draw
let refused = null;
let place = 0; // the column of both outputs that is looked at
let perLine = 0;
let geometry = []; // of the two large maps

function receive() {
  if (!props.value) return;
  const answer = JSON.parse(props.value);
  result.classList.remove("gf-lab-busy");
  if (answer.problem) {
    refused = answer.problem;
    if (found) {
      asking.take(question(found.chosen)); // the toggle that cannot be goes back, and what is on show is its answer
      chosenFaults.set(found.chosen);
    }
    return draw();
  }
  for (const side of ["before", "after"]) {
    answer[side] = JSON.parse(answer[side]);
    for (const pattern of Object.values(answer[side].patterns)) pattern.values = glassformer.decodeArray(pattern);
  }
  found = answer;
  // Looked at first: a token that another took the place of; else one that only one of them has.
  const isOther = found.pairs.map((pair) => differs(pair));
  const first = found.pairs.findIndex((pair, n) => isOther[n] && !pair.includes(null));
  place = first >= 0 ? first : Math.max(isOther.indexOf(true), 0);
  return draw();
}

function differs([i, j]) {
  return i === null || j === null || found.before.steps[i].token.label !== found.after.steps[j].token.label;
}

/* --- The toggles --- */

function toggle(name, part) {
  const chosen = chosenFaults.get();
  refused = null;
  if (chosen.includes(name)) return chosenFaults.set(chosen.filter((each) => each !== name));
  if (part === "causal mask") glassformer.select({ kind: "decoder_self" });
  return chosenFaults.set([...chosen, name]);
}

function drawToggles() {
  const chosen = chosenFaults.get();
  allOff.disabled = !chosen.length;
  if (at("groups").dataset.language !== glassformer.language) {
    at("groups").dataset.language = glassformer.language;
    at("groups").replaceChildren(...found.groups.map(([group, faults]) => {
      const summary = node("summary", "", t(`lab_faults.group_${group}`), node("span", "gf-faults-n-on"));
      // Where the list stands above all else, only what is switched on takes room.
      const open = !window.matchMedia(STACKED).matches || faults.some(({ name }) => chosen.includes(name));
      const made = node("details", "gf-faults-group", summary, ...faults.map(({ name, part }) => {
        const each = button("gf-fault-toggle", node("span", "gf-fault-box"), () => toggle(name, part));
        each.append(node("span", "", t(`lab.fault_${name}`)));
        each.dataset.fault = name;
        return each;
      }));
      made.open = open;
      return made;
    }));
  }
  for (const each of at("groups").querySelectorAll("button")) each.setAttribute("aria-pressed", String(chosen.includes(each.dataset.fault)));
  for (const group of at("groups").children) {
    const n = group.querySelectorAll("[aria-pressed=true]").length;
    group.querySelector(".gf-faults-n-on").textContent = n ? t("lab_faults.n_on", { n }) : "";
  }
}

/* --- What came of it --- */

function verdict() {
  const { chosen, n_different: n, pairs, distance } = found;
  const values = { faults: namesOf(chosen), n, total: pairs.length, percent: percent(distance, 1) };
  if (!chosen.length) return withValues("lab_faults.say_none", {});
  if (n) return withValues(chosen.length > 1 ? "lab_faults.say_changed_many" : "lab_faults.say_changed", values);
  return withValues(distance >= 0.0005 ? "lab_faults.say_inside" : "lab_faults.say_nothing", values);
}

function figure(number, label, explained) {
  return node("div", "gf-faults-figure", node("p", "", node("strong", "", number), " ", label), node("p", "gf-lab-hint", explained));
}

function partOf(name) {
  return found.groups.flatMap(([, faults]) => faults).find((fault) => fault.name === name).part;
}

function drawTop() {
  const { n_different: n, pairs, distance, distances } = found;
  at("say").replaceChildren(...verdict());
  if (found.chosen.length && !n) at("say").append(" ", button("gf-lab-quiet", t("lab_faults.prove"), () => openBench("proofs")));
  at("figures").replaceChildren(
    figure(t("lab_faults.of", { n, total: pairs.length }), t("lab_faults.tokens"), t("lab_faults.tokens_explained")),
    figure(percent(distance, 1), t("lab_faults.distance"), t("lab_faults.distance_explained", { n: distances.length })),
  );
  const notes = [];
  if (found.is_example) notes.push(t("lab_faults.note_example"));
  if (found.n_padding) notes.push(t("lab_faults.note_padding", { n: found.n_padding }));
  if (found.n_given) notes.push(t("lab_faults.note_given", { n: found.n_given }));
  if (found.is_cut_off) notes.push(t("lab_faults.note_cut", { n: found.after.steps.length }));
  if (found.chosen.some((name) => partOf(name) === "causal mask")) notes.push(t("lab_faults.note_causal"));
  if (found.chosen.includes("dropout_left_on")) notes.push(t("lab_faults.note_random"));
  const items = notes.map((words) => node("li", "", words));
  if (found.chosen.includes("dropout_left_on")) items.at(-1).append(" ", button("gf-lab-quiet", t("lab_faults.again"), asking.again));
  at("notes").replaceChildren(...items);
}

/* --- Both outputs, a column a token --- */

function cellOf(run, index, mark) {
  if (index === null) return node("span", "gf-faults-none", "–");
  const chip = glassformer.tokenChip(run.steps[index].token, "span");
  if (mark) chip.classList.add(mark);
  chip.title = run.steps[index].token.label;
  return chip;
}

function line(pairs, start) {
  const table = node("table", "");
  table.setAttribute("aria-label", t("lab_faults.line_label", { first: start + 1, last: start + pairs.length }));
  const rows = ["", "before", "after", "distance_row"].map((name) => {
    const row = table.insertRow();
    const label = node("th", "gf-faults-name", name && t(`lab_faults.${name}`));
    label.scope = "row";
    row.append(name ? label : node("td", "gf-faults-name"));
    return row;
  });
  pairs.forEach((pair, n) => {
    const column = start + n;
    const [i, j] = pair;
    const isOther = differs(pair);
    const position = button("gf-faults-position", String(column + 1), () => choosePlace(column));
    position.setAttribute("aria-label", t(isOther ? "lab_faults.place_other" : "lab_faults.place", { n: column + 1 }));
    position.setAttribute("aria-pressed", String(column === place));
    if (isOther) position.append(node("span", "gf-faults-sign", i === null ? "+" : j === null ? "−" : "≠"));
    const distance = node("span", "gf-faults-none", "–");
    if (i !== null) {
      const fill = node("span", "");
      fill.style.height = `${found.distances[i] * 100}%`;
      distance.className = "gf-faults-distance";
      distance.replaceChildren(node("span", "gf-faults-track", fill), node("span", "gf-faults-number", percent(found.distances[i])));
    }
    const cells = [position, cellOf(found.before, i, ""), cellOf(found.after, j, isOther ? "gf-faults-differs" : ""), distance];
    rows.forEach((row, r) => {
      const cell = node("td", "gf-faults-cell", cells[r]);
      cell.classList.toggle("gf-faults-here", column === place);
      if (r) cell.addEventListener("click", () => choosePlace(column));
      row.append(cell);
    });
  });
  return table;
}

function columnsPerLine() {
  const { column, names } = at("lines").clientWidth < NARROW.upTo ? NARROW : WIDE;
  return Math.max(2, Math.floor((at("lines").clientWidth - names) / column));
}

function drawLines() {
  perLine = columnsPerLine();
  const lines = [];
  for (let start = 0; start < found.pairs.length; start += perLine) lines.push(line(found.pairs.slice(start, start + perLine), start));
  at("lines").replaceChildren(...lines);
}

function choosePlace(column) {
  if (!found || column === place) return;
  const focused = element.ownerDocument.activeElement?.classList.contains("gf-faults-position");
  place = column;
  drawLines();
  drawCandidates();
  drawMaps();
  if (focused) at("lines").querySelector("[aria-pressed=true]").focus();
}

at("lines").addEventListener("keydown", (event) => {
  const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!move || !found) return;
  event.preventDefault();
  choosePlace(Math.max(0, Math.min(found.pairs.length - 1, place + move)));
});

/* --- Why: each fault that is on --- */

function drawWhy() {
  const known = Object.fromEntries(found.groups.flatMap(([, faults]) => faults.map((fault) => [fault.name, fault])));
  at("why").replaceChildren(...found.chosen.map((name) => {
    const parts = [["purpose", `lab_faults.purpose_${name}`], ["why", `lab.fault_${name}_why`], ["bug", `lab.fault_${name}_bug`]];
    const words = node("dl", "", ...parts.flatMap(([part, key]) => [node("dt", "", t(`lab_faults.${part}`)), node("dd", "", t(key))]));
    const proofs = node("ul", "gf-faults-proofs", ...known[name].must_fail.map((proof) => node("li", "", t(`lab.proof_${proof}`))));
    return node("article", "gf-faults-card", node("h4", "", t(`lab.fault_${name}`)), words,
      node("div", "gf-faults-must", node("span", "", t("lab_faults.must_fail")), proofs,
        button("gf-lab-button", t("lab_faults.prove"), () => openBench("proofs"))));
  }));
}

/* --- Candidates at the chosen place --- */

function candidateList(run, index, name) {
  const list = node("ol", "");
  if (index === null) list.append(node("li", "gf-faults-none", t("lab_faults.no_step")));
  else
    for (const [token, probability] of run.steps[index].candidates) {
      const fill = node("span", "");
      fill.style.width = `${probability * 100}%`;
      const chip = glassformer.tokenChip({ label: token, special: /^<(bos|eos|pad|unk)>$/.test(token) }, "span");
      list.append(node("li", "", chip, node("span", "gf-faults-bar", fill), node("span", "gf-faults-number", percent(probability, 1))));
    }
  return node("div", `gf-faults-${name}-side`, node("h4", "", t(`lab_faults.${name}`)), list);
}

function drawCandidates() {
  const [i, j] = found.pairs[place];
  at("candidates-title").textContent = t("lab_faults.candidates", { n: place + 1 });
  at("candidates").replaceChildren(candidateList(found.before, i, "before"), candidateList(found.after, j, "after"));
}

/* --- Patterns --- */

function chosenHead() {
  const { kind, layer, head } = glassformer.selection;
  const [layers, heads] = found.before.patterns[kind].shape;
  return { kind, layer: Math.min(layer, layers - 1), head: Math.min(head, heads - 1) };
}

function queryRows(kind) {
  const [i, j] = found.pairs[place];
  if (kind !== "encoder_self") return [i, j];
  const row = Math.min(place, found.before.source.length - 1);
  return [row, row];
}

function rowWords(run, { kind, layer, head }, row) {
  const best = row === null ? null : favourite(weightsOf(run, kind, layer, head), row);
  const query = row === null ? null : glassformer.queryTokens(kind, run)[row];
  if (!best) return row === null ? null : withValues("lab_faults.row_nothing", { query });
  return withValues("lab_faults.row", { query, key: glassformer.keyTokens(kind, run)[best.column], percent: percentWords(best.weight, 1) });
}

/* "Sound: " or "Faulty: ", before what is said of that run. */
const side = (n) => t("lab_faults.side", { side: t(`lab_faults.${n ? "after" : "before"}`) });

function drawMaps() {
  const chosen = chosenHead();
  const runs = [found.before, found.after];
  const colours = mapColours();
  for (const each of at("kinds").children) each.setAttribute("aria-pressed", String(each.dataset.kind === chosen.kind));
  const choose = (layer, head) => glassformer.select({ kind: chosen.kind, layer, head });
  drawAllHeads(element.querySelector(".gf-lab-maps-box"), { runs, kind: chosen.kind, chosen, choose, colours });
  const rows = queryRows(chosen.kind);
  geometry = runs.map((run, n) => {
    const room = canvases[n].parentElement.clientWidth;
    const drawn = drawLargeMap(canvases[n], { run, ...chosen, room, queryRow: rows[n], colours });
    canvases[n].setAttribute("aria-label", t("lab_faults.map_label", {
      side: t(`lab_faults.${n ? "after" : "before"}`), layer: chosen.layer + 1, head: chosen.head + 1,
      kind: t(`decode.kind_${chosen.kind}`), rows: drawn.pattern.rows, columns: drawn.pattern.columns,
    }));
    return drawn;
  });
  const [before, after] = runs.map((run, n) => rowWords(run, chosen, rows[n]));
  const said = [t("lab_faults.head", { layer: chosen.layer + 1, head: chosen.head + 1, kind: t(`decode.kind_${chosen.kind}`) }), " "];
  if (before) said.push(side(0), ...before, " ");
  if (after) said.push(side(1), ...after, " ");
  const leak = leakOf(found.after, chosen.kind, chosen.layer, chosen.head);
  if (leak > 0) said.push(node("span", "gf-faults-leak", t("lab_faults.leak", { percent: percentWords(leak, 1) })));
  at("head-say").replaceChildren(...said);
  at("readout").textContent = t("lab_faults.readout_hint");
  drawTable();
}

function drawTable() {
  const details = element.querySelector("details.gf-chart-table");
  if (!details.open || !geometry.length) return;
  details.querySelector("div").replaceChildren(...geometry.map(({ pattern, queries, keys }, n) => {
    const head = node("tr", "", node("th", ""), ...keys.map((key) => node("th", "", key.label)));
    const body = queries.map((query, row) => node("tr", "", node("th", "", query.label), ...keys.map((_, column) => node("td", "", percent(pattern.get(row, column), 1)))));
    return node("table", "", node("caption", "", t(`lab_faults.${n ? "after" : "before"}`)), head, ...body);
  }));
}
element.querySelector("details.gf-chart-table").addEventListener("toggle", drawTable);

function readCell(n, { row, column }) {
  const { pattern, queries, keys } = geometry[n];
  at("readout").replaceChildren(side(n), ...withValues("lab_faults.row", {
    query: queries[row], key: keys[column], percent: percentWords(pattern.get(row, column), 1),
  }));
}

canvases.forEach((canvas, n) => {
  let pinned = { row: 0, column: 0 };
  canvas.addEventListener("pointermove", (event) => {
    const cell = geometry[n] && cellUnder(event, canvas, geometry[n]);
    if (cell) readCell(n, cell);
  });
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!move || !geometry[n]) return;
    event.preventDefault();
    const { rows, columns } = geometry[n].pattern;
    const within = (value, most) => Math.max(0, Math.min(most - 1, value));
    pinned = { row: within(pinned.row + move[0], rows), column: within(pinned.column + move[1], columns) };
    readCell(n, pinned);
  });
});

function draw() {
  problem.hidden = !refused;
  problem.textContent = refused ?? "";
  if (!found) return;
  result.hidden = false;
  drawToggles();
  drawTop();
  drawLines();
  drawWhy();
  drawCandidates();
  drawMaps();
}

for (const each of at("kinds").children) each.addEventListener("click", () => glassformer.select({ kind: each.dataset.kind }));
allOff.addEventListener("click", () => {
  refused = null;
  chosenFaults.set([]);
});

const question = (faults) => glassformer.trace && JSON.stringify([glassformer.trace.id, faults]);
const asking = whenAskedAnew(
  () => question(chosenFaults.get()),
  () => {
    result.classList.add("gf-lab-busy");
    trigger("ask", { faults: chosenFaults.get() });
  },
);
chosenFaults.onChange(() => { if (found) drawToggles(); });
glassformer.on("trace", element, () => { refused = null; });
glassformer.on("selection", element, ({ changed }) => {
  if (found && changed.some((name) => ["kind", "layer", "head"].includes(name))) drawMaps();
});
for (const event of ["language", "theme"]) glassformer.on(event, element, draw);
new ResizeObserver(() => {
  if (!found || !at("lines").clientWidth) return;
  if (columnsPerLine() !== perLine) drawLines();
  drawMaps();
}).observe(result);
watch("value", receive);
glassformer.translate(element);
receive();
