/* Paint masks. The three masks live here, cell by cell; the server decodes again under them and answers with a whole run.
   Events: "refresh" when the run is stale, "paint" {encoder, decoder, cross, asked} when a cell has changed. */
const { t } = glassformer;
const find = (selector) => element.querySelector(selector);
const KIND_OF = { encoder: "encoder_self", decoder: "decoder_self", cross: "cross" };
const MASK_OF = { encoder_self: "encoder", decoder_self: "decoder", cross: "cross" };
const MOST_UNDO = 200;
const PRESETS = {
  usual: null,
  no_causal: () => true,
  previous: (row, column) => column === row - 1,
  itself: (row, column) => column === row,
  same_place: (row, column) => column === row,
  nothing: () => false,
};
const OFFERED = {
  encoder: ["usual", "previous", "itself", "nothing"],
  decoder: ["usual", "no_causal", "previous", "itself", "nothing"],
  cross: ["usual", "same_place", "nothing"],
};
const selects = Object.fromEntries(["kind", "layer", "head"].map((name) => [name, find(`[name=${name}]`)]));
let base = null; // the run as it was, and its usual masks
let masks = null; // {name: [rows of booleans]}
let outcome = null; // what came of the painted masks; null while they are the usual ones
let history = [];
let madeFor = "";

const rowsOf = (mask) => mask.map((row) => row.map((seen) => (seen ? "1" : "0")).join(""));
const copyOf = (all) => Object.fromEntries(Object.entries(all).map(([name, mask]) => [name, mask.map((row) => [...row])]));
const same = (one, other) => rowsOf(one).join() === rowsOf(other).join();
const isUsual = () => Object.keys(masks).every((name) => same(masks[name], base.masks[name]));
const presetOf = (name, preset) => base.masks[name].map((row, i) => row.map((seen, j) => (PRESETS[preset] ? PRESETS[preset](i, j) : seen)));
const blindRows = (mask) => mask.filter((row) => !row.some(Boolean)).length;

let askedMasks = null; // those that the answer waited for is about: others may be painted meanwhile
const asker = makeAsker((asked) => {
  askedMasks = copyOf(masks);
  trigger("paint", { ...Object.fromEntries(Object.entries(masks).map(([name, mask]) => [name, rowsOf(mask)])), asked });
});

function changed() {
  if (isUsual()) {
    asker.forget();
    outcome = null;
  } else asker.soon();
  drawWords();
  drawResult();
}

function remember() {
  history = [...history.slice(1 - MOST_UNDO), copyOf(masks)];
}

function take(next) {
  masks = next;
  changed();
  for (const { board } of painters) board.draw();
}

/* The frame of the three boards: title, presets, the board, and what it comes to. */
const painters = Object.keys(KIND_OF).map((name) => {
  const figure = find(`[data-mask=${name}]`);
  const canvas = node("canvas", "");
  const presets = OFFERED[name].map((preset) => {
    const button = node("button", "");
    button.type = "button";
    button.dataset.preset = preset;
    button.addEventListener("click", () => {
      if (!base || same(masks[name], presetOf(name, preset))) return;
      remember();
      take({ ...masks, [name]: presetOf(name, preset) });
    });
    return button;
  });
  const box = node("div", "gf-board-scroll", canvas);
  figure.append(node("figcaption", ""), node("div", "gf-studio-buttons", ...presets), box, node("p", "gf-studio-note"));
  const board = makeBoard(canvas, {
    cell(row, column) {
      const seen = masks[name][row][column];
      return { hidden: !seen, colour: glassformer.colour("sequential-2"), corner: seen !== base.masks[name][row][column] };
    },
    press(row, column, value) {
      if (value === undefined) remember();
      masks[name][row][column] = value ?? !masks[name][row][column];
      changed();
      return masks[name][row][column];
    },
    read: (at) => readCell(name, at),
  });
  return { name, figure, board, presets };
});

function readCell(name, at) {
  const line = find(".gf-cut-read");
  if (!at || !base) {
    line.textContent = t("lab_masks.read_hint");
    return;
  }
  const [query, key] = [glassformer.queryTokens(KIND_OF[name], base.run)[at[0]].label, glassformer.keyTokens(KIND_OF[name], base.run)[at[1]].label];
  line.textContent = t(`lab_masks.read_${masks[name][at[0]][at[1]] ? "seen" : "hidden"}`, { mask: t(`attention.kind_${KIND_OF[name]}`), query, key });
}

/* Whether a cell of a run's pattern was hidden: by what is painted, and beyond it by the usual rules. */
function isHidden(kind, row, column, used) {
  const mask = used[MASK_OF[kind]];
  if (row < mask.length && column < mask[0].length) return !mask[row][column];
  return kind === "decoder_self" && column > row;
}

function chosen() {
  const { kind, layer, head } = glassformer.selection;
  const [layers, heads] = base.run.patterns[kind].shape;
  return { kind, layer: Math.min(layer, layers - 1), head: Math.min(head, heads - 1), layers, heads };
}

const runs = {
  before: () => ({ run: base.run, used: base.masks }),
  after: () => (outcome ? { run: outcome.run, used: outcome.masks } : { run: base.run, used: base.masks }),
};
const boards = Object.entries(runs).map(([when, of]) => {
  const board = makeBoard(find(`[data-board=${when}]`), {
    cell(row, column) {
      const { kind, layer, head } = chosen();
      const { run, used } = of();
      const weight = glassformer.headPattern(kind, layer, head, run).get(row, column);
      return weightLook(glassformer.scale("sequential"), weight, { hidden: isHidden(kind, row, column, used) });
    },
    read(at) {
      const line = find(".gf-studio-weight");
      const { kind, layer, head } = chosen();
      const { run } = of();
      line.textContent = at ? t("lab_masks.read_weight", {
        query: glassformer.queryTokens(kind, run)[at[0]].label, key: glassformer.keyTokens(kind, run)[at[1]].label,
        weight: (glassformer.headPattern(kind, layer, head, run).get(...at) * 100).toFixed(1),
      }) : t("lab_masks.weight_hint");
    },
  });
  return { when, of, board };
});

function drawWords() {
  for (const { name, figure, presets } of painters) {
    const mask = masks[name];
    figure.querySelector("figcaption").replaceChildren(
      node("span", "", t(`attention.kind_${KIND_OF[name]}`)), node("code", "", `${mask.length} × ${mask[0].length}`));
    for (const button of presets) {
      button.textContent = t(`lab_masks.preset_${button.dataset.preset}`);
      button.setAttribute("aria-pressed", String(same(mask, presetOf(name, button.dataset.preset))));
    }
    const painted = mask.flat().filter((seen, i) => seen !== base.masks[name].flat()[i]).length;
    const blind = blindRows(mask);
    const note = figure.querySelector(".gf-studio-note");
    const says = [t(painted ? "lab_masks.painted" : "lab_masks.as_usual", { n: painted })];
    if (blind) says.push(t(blind === mask.length ? "lab_masks.all_blind" : "lab_masks.some_blind", { n: blind, total: mask.length }));
    note.textContent = says.join(" ");
    note.classList.toggle("gf-studio-warns", blind > 0);
  }
  find("[data-do=undo]").disabled = !history.length;
  find("[data-do=reset]").disabled = isUsual();
}

function drawPainters() {
  for (const { name, board } of painters)
    board.show(glassformer.queryTokens(KIND_OF[name], base.run), glassformer.keyTokens(KIND_OF[name], base.run),
      t("lab_masks.board_label", { mask: t(`attention.kind_${KIND_OF[name]}`) }));
}

function drawAttention() {
  const { kind, layer, head, layers, heads } = chosen();
  const fill = (select, values, value) => {
    select.replaceChildren(...values.map(([id, text]) => new Option(text, id)));
    select.value = String(value);
  };
  const counted = (n) => Array.from({ length: n }, (_, i) => [String(i), String(i + 1)]);
  fill(selects.kind, Object.values(KIND_OF).map((each) => [each, t(`attention.kind_${each}`)]), kind);
  fill(selects.layer, counted(layers), layer);
  fill(selects.head, counted(heads), head);
  for (const { when, of, board } of boards) {
    const { run } = of();
    board.show(glassformer.queryTokens(kind, run), glassformer.keyTokens(kind, run), t(`lab_masks.pattern_${when}`));
  }
  const { run, used } = runs.after();
  const pattern = glassformer.headPattern(kind, layer, head, run);
  const blind = glassformer.queryTokens(kind, run).filter((_, row) => Array.from({ length: pattern.columns }, (__, column) => isHidden(kind, row, column, used)).every(Boolean));
  find(".gf-studio-blind").textContent = blind.length ? t("lab_masks.sees_nothing", { tokens: blind.map((token) => token.label).join("  "), n: blind.length }) : "";
}

function drawResult() {
  drawOutcome(find(".gf-out"), base.run, outcome, { idle: isUsual() && t("lab_masks.untouched"), waits: asker.waits });
}

function draw() {
  find(".gf-studio").classList.toggle("gf-studio-empty", !base);
  if (!base) return;
  drawWords();
  drawPainters();
  drawAttention();
  drawResult();
  readCell("encoder", null);
  find(".gf-studio-weight").textContent = t("lab_masks.weight_hint");
}

function say(sentence) {
  find(".gf-bench-problem").textContent = sentence;
  find(".gf-bench-problem").hidden = !sentence;
}

function receive() {
  if (!props.value) return;
  const answer = JSON.parse(props.value);
  if (answer.part === "usual") {
    answer.run = openedRun(answer.run);
    for (const [name, rows] of Object.entries(answer.masks)) answer.masks[name] = rows.map((row) => [...row].map((cell) => cell === "1"));
    [base, masks, outcome, history] = [answer, copyOf(answer.masks), null, []];
    asker.forget();
    say(answer.is_example ? t("lab_surgery.example", { text: answer.run.source.map((token) => token.label).join(" ") }) : "");
    draw();
  } else if (answer.part === "problem") {
    if (answer.asked !== null) asker.answered(answer.asked);
    say(answer.sentence);
    if (base) drawResult();
  } else if (base && answer.made_for === base.made_for) {
    const used = askedMasks;
    if (!asker.answered(answer.asked) || isUsual()) return;
    outcome = { ...answer, run: openedRun(answer.run), masks: used };
    say("");
    drawAttention();
    drawResult();
  }
}

find("[data-do=undo]").addEventListener("click", () => {
  if (history.length) take(history.pop());
});
find("[data-do=reset]").addEventListener("click", () => {
  remember();
  take(copyOf(base.masks));
});
selects.kind.addEventListener("change", () => glassformer.select({ kind: selects.kind.value }));
for (const name of ["layer", "head"]) selects[name].addEventListener("change", () => glassformer.select({ [name]: Number(selects[name].value) }));
glassformer.whenStale(element, () => {
  if (madeFor === glassformer.trace.id) return; // only the language has changed
  madeFor = glassformer.trace.id;
  trigger("refresh", {});
});
glassformer.on("selection", element, ({ changed: names }) => {
  if (base && ["kind", "layer", "head"].some((name) => names.includes(name))) drawAttention();
});
for (const name of ["language", "theme"]) glassformer.on(name, element, draw);
let drawnAt = 0;
new ResizeObserver(() => {
  if (!base || element.clientWidth === drawnAt) return;
  drawnAt = element.clientWidth;
  for (const { board } of [...painters, ...boards]) board.draw();
}).observe(element);
watch("value", receive);
glassformer.translate(element);
draw();
receive();
