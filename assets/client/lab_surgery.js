/* Cut into it. The cuts live here; the server decodes again under all of them and answers with a whole run.
   Events: "refresh" when the map is stale, "cut" {cuts, asked} when the cuts have changed. */
const { t } = glassformer;
const find = (selector) => element.querySelector(selector);
const acts = [...element.querySelectorAll("[data-act]")];
const [sliderBox, slider] = [find(".gf-cut-slider"), find(".gf-cut-slider input")];
const AMOUNTS = { scale: { min: -2, max: 3, step: 0.25, field: "factor", start: 2 }, pin: { min: 0, max: 1, step: 0.05, field: "weight", start: 1 } };
const MOST_CUTS = 64;
let map = null; // the measured heads and the run as it was
let outcome = null; // what came of the cuts; null as long as there are none
let cuts = [];
let pinning = null; // the head whose cells are being chosen while it has no pin yet
let measuredFor = "";

const asker = makeAsker((asked) => trigger("cut", { cuts, asked }));

/* The head in focus, held within what the bench's own run has. */
function chosen() {
  const { kind, layer, head } = glassformer.selection;
  const [layers, heads] = map.heads[kind].change.shape;
  return { kind, layer: Math.min(layer, layers - 1), head: Math.min(head, heads - 1) };
}
const isOf = (head) => (cut) => cut.act && cut.kind === head.kind && cut.layer === head.layer && cut.head === head.head;
const cutsOf = (head) => cuts.filter(isOf(head));
const nameOf = ({ kind, layer, head }) => t("lab_surgery.head_name", { kind: t(`attention.kind_${kind}`), layer: layer + 1, head: head + 1 });

function actOf(head) {
  const [first] = cutsOf(head);
  return first ? first.act : pinning && isOf(head)({ ...pinning, act: "pin" }) ? "pin" : "none";
}

function cutWords(cut) {
  if (cut.stack) return t("lab_surgery.cut_part", { stack: t(`lab_surgery.stack_${cut.stack}`), layer: cut.layer + 1, part: t(`lab_surgery.part_${cut.kind}`) });
  const run = outcome ? outcome.run : map.run;
  const label = (tokens, i) => tokens[i]?.label ?? `${i + 1}`;
  const values = { head: nameOf(cut), factor: String(cut.factor ?? "").replace("-", "−") };
  if (cut.act === "pin")
    Object.assign(values, { query: label(glassformer.queryTokens(cut.kind, run), cut.query), key: label(glassformer.keyTokens(cut.kind, run), cut.key), weight: Math.round(cut.weight * 100) });
  return t(`lab_surgery.cut_${cut.act}`, values);
}

function changed(next) {
  cuts = next.slice(0, MOST_CUTS);
  if (cuts.length) asker.soon();
  else {
    asker.forget();
    outcome = null;
  }
  draw();
}

function choose(act) {
  const head = chosen();
  if (act === actOf(head)) return;
  const others = cuts.filter((cut) => !isOf(head)(cut));
  pinning = act === "pin" ? head : null;
  const amount = act === "scale" ? { factor: AMOUNTS.scale.start } : {};
  changed(act === "none" || act === "pin" ? others : [...others, { ...head, act, ...amount }]);
}

function pin(query, key) {
  const head = chosen();
  if (actOf(head) !== "pin" || (head.kind === "decoder_self" && key > query)) return;
  const own = cutsOf(head);
  const same = own.find((cut) => cut.query === query && cut.key === key);
  const others = cuts.filter((cut) => !(isOf(head)(cut) && cut.query === query));
  pinning = head;
  changed(same ? others : [...others, { ...head, act: "pin", query, key, weight: Number(slider.value) }]);
}

function moveSlider() {
  const head = chosen();
  const act = actOf(head);
  if (!AMOUNTS[act]) return;
  const { field } = AMOUNTS[act];
  changed(cuts.map((cut) => (isOf(head)(cut) ? { ...cut, [field]: Number(slider.value) } : cut)));
}

const boards = ["before", "after"].map((when) => {
  const run = () => (when === "after" && outcome ? outcome.run : map.run);
  const board = makeBoard(find(`[data-board=${when}]`), {
    cell(row, column) {
      const head = chosen();
      const pattern = glassformer.headPattern(head.kind, head.layer, head.head, run());
      const marked = cutsOf(head).some((cut) => cut.act === "pin" && cut.query === row && cut.key === column);
      return weightLook(glassformer.scale("sequential"), pattern.get(row, column), { marked, hidden: head.kind === "decoder_self" && column > row });
    },
    press: pin,
    read: (at) => readCell(when, at),
  });
  return { when, board, run };
});

function readCell(when, at) {
  const line = find(".gf-cut-read");
  if (!at) {
    line.textContent = t("lab_surgery.read_hint");
    return;
  }
  const { kind, layer, head } = chosen();
  const weight = (run) => {
    const pattern = glassformer.headPattern(kind, layer, head, run);
    return at[0] < pattern.rows && at[1] < pattern.columns ? `${(pattern.get(...at) * 100).toFixed(1)} %` : "–";
  };
  const { run } = boards.find((each) => each.when === when);
  line.textContent = t("lab_surgery.read", {
    query: glassformer.queryTokens(kind, run())[at[0]].label, key: glassformer.keyTokens(kind, run())[at[1]].label,
    was: weight(map.run), is: weight(outcome ? outcome.run : map.run),
  });
}

function drawSays() {
  const { sharpest, matters, n } = map.disagreement;
  const numbers = (head, name) => ({
    [`${name}_name`]: nameOf(head), [`${name}_weight`]: Math.round(head.strongest * 100),
    [`${name}_change`]: signed(head.change, 3), [`${name}_rank`]: head.rank,
  });
  const same = nameOf(sharpest) === nameOf(matters);
  find(".gf-cut-says").textContent = t(`lab_surgery.${same ? "agree" : "disagree"}`, { ...numbers(sharpest, "sharp"), ...numbers(matters, "most"), n });
}

function drawFocus() {
  const head = chosen();
  const measures = map.heads[head.kind];
  const act = actOf(head);
  const change = ofHead(measures.change, head.layer, head.head);
  find(".gf-cut-name").textContent = nameOf(head);
  find(".gf-cut-facts").textContent = t("lab_surgery.facts", {
    change: signed(change, 3), times: timesText(Math.exp(change)),
    strongest: Math.round(ofHead(measures.strongest, head.layer, head.head) * 100),
    written: ofHead(measures.written, head.layer, head.head).toFixed(1),
  });
  for (const button of acts) button.setAttribute("aria-pressed", String(button.dataset.act === act));
  find(".gf-cut-act-says").textContent = t(`lab_surgery.act_${act}_says`);
  const amount = AMOUNTS[act];
  sliderBox.hidden = !amount;
  if (amount) {
    const { min, max, step, field, start } = amount;
    const value = cutsOf(head)[0]?.[field] ?? (slider.max === String(max) ? slider.value : start);
    Object.assign(slider, { min, max, step });
    slider.value = value;
    sliderBox.querySelector("span").textContent = t(`lab_surgery.amount_${act}`);
    sliderBox.querySelector("output").textContent = act === "pin" ? `${Math.round(value * 100)} %` : `× ${String(value).replace("-", "−")}`;
  }
  find(".gf-cut-boards").classList.toggle("gf-cut-pinning", act === "pin");
  for (const { when, board, run } of boards) {
    const name = `${t(`lab_surgery.pattern_${when}`)}: ${nameOf(head)}`;
    board.show(glassformer.queryTokens(head.kind, run()), glassformer.keyTokens(head.kind, run()), name);
  }
  drawKeys(head, measures);
}

/* Each key's mean weight beside the mean length of what it adds: long against short where the two disagree. */
function drawKeys(head, measures) {
  const [weights, lengths] = ["attention", "value_weighted"].map((name) => ofHead(measures[name], head.layer, head.head));
  const [mostWeight, mostLength] = [weights, lengths].map((values) => Math.max(...values, 1e-12));
  const bar = (share, text, className) => {
    const inner = node("i", className);
    inner.style.width = `${share * 100}%`;
    return node("td", "", node("span", "gf-cut-bar", inner), node("span", "gf-cut-bar-value", text));
  };
  const rows = glassformer.keyTokens(head.kind, map.run).map((token, i) => {
    const name = node("th", "", glassformer.tokenChip(token, "span"));
    name.scope = "row";
    return node("tr", "", name, bar(weights[i] / mostWeight, `${(weights[i] * 100).toFixed(1)} %`, "gf-cut-bar-weight"), bar(lengths[i] / mostLength, lengths[i].toFixed(2), "gf-cut-bar-length"));
  });
  const head_ = ["key", "attention", "value_weighted"].map((name) => {
    const made = node("th", "", t(`lab_surgery.column_${name}`));
    made.scope = "col";
    return made;
  });
  find(".gf-cut-keys").replaceChildren(node("table", "", node("thead", "", node("tr", "", ...head_)), node("tbody", "", ...rows)));
}

function drawParts() {
  const stacks = ["encoder", "decoder"].map((stack) => {
    const list = node("div", "gf-cut-stack", node("h3", "", t(`lab_surgery.stack_${stack}`)));
    let layer = -1;
    for (const part of map.sublayers.filter((each) => each.stack === stack)) {
      if (part.layer !== layer) list.append(node("span", "gf-cut-layer", t("attention.layer", { n: part.layer + 1 })));
      layer = part.layer;
      const same = (cut) => cut.stack === stack && cut.layer === part.layer && cut.kind === part.kind;
      const isOn = !cuts.some(same);
      const button = node("button", "gf-cut-switch", node("span", "", t(`lab_surgery.part_${part.kind}`)), node("b", "", t(isOn ? "lab_surgery.on" : "lab_surgery.zeroed")));
      button.type = "button";
      button.dataset.part = `${stack}.${part.layer}.${part.kind}`;
      button.setAttribute("role", "switch");
      button.setAttribute("aria-checked", String(isOn));
      button.addEventListener("click", () => {
        changed(isOn ? [...cuts, { stack, layer: part.layer, kind: part.kind }] : cuts.filter((cut) => !same(cut)));
        find(`[data-part="${button.dataset.part}"]`).focus();
      });
      list.append(button);
    }
    return list;
  });
  find(".gf-cut-stacks").replaceChildren(...stacks);
}

function drawResult() {
  const chips = cuts.map((cut) => {
    const made = node("button", "gf-cut-chip", node("span", "", cutWords(cut)), node("b", "", "×"));
    made.type = "button";
    made.setAttribute("aria-label", t("lab_surgery.remove", { cut: cutWords(cut) }));
    made.addEventListener("click", () => changed(cuts.filter((each) => each !== cut)));
    return made;
  });
  if (cuts.length > 1) {
    const all = node("button", "gf-cut-all", t("lab_surgery.remove_all"));
    all.type = "button";
    all.addEventListener("click", () => {
      pinning = null;
      changed([]);
    });
    chips.push(all);
  }
  find(".gf-cut-list").replaceChildren(...chips);
  drawOutcome(find(".gf-out"), map.run, outcome, { idle: !cuts.length && t("lab_surgery.untouched"), waits: asker.waits });
}

function draw() {
  find(".gf-cut").classList.toggle("gf-cut-empty", !map);
  if (!map) return;
  const focused = document.activeElement;
  headMap.mark(chosen(), (kind, layer, head) => cutsOf({ kind, layer, head }).map(cutWords).join(" "));
  drawFocus();
  drawParts();
  drawResult();
  readCell("before", null);
  if (focused?.isConnected && element.contains(focused)) focused.focus({ preventScroll: true });
}

const headMap = makeHeadMap(find(".gf-cut-map"), (head) => {
  glassformer.select({ kind: head.kind });
  glassformer.select(head);
  draw();
});

/* Another text keeps the cuts, where the network has the same parts; pinned cells belong to a text and go. */
function keepWhatFits(next) {
  const sizes = (each) => JSON.stringify([each.run.task, each.run.model, each.sublayers, KINDS.map((kind) => each.heads[kind].change.shape)]);
  const fits = map && sizes(map) === sizes(next);
  cuts = fits ? cuts.filter((cut) => cut.act !== "pin") : [];
}

function say(sentence) {
  find(".gf-bench-problem").textContent = sentence;
  find(".gf-bench-problem").hidden = !sentence;
}

function receiveHeads(answer) {
  answer.run = openedRun(answer.run);
  opened(answer.heads);
  const isFirst = !map;
  keepWhatFits(answer);
  [map, outcome, pinning] = [answer, null, null];
  asker.forget();
  const { kind, layer, head, query, key } = glassformer.selection;
  // Whoever comes here before choosing a head anywhere finds the one that matters most.
  if (isFirst && kind === "cross" && !layer && !head && query === null && key === null) {
    const { matters } = map.disagreement;
    glassformer.select({ kind: matters.kind });
    glassformer.select({ layer: matters.layer, head: matters.head });
  }
  say(answer.is_example ? t("lab_surgery.example", { text: answer.run.source.map((token) => token.label).join(" ") }) : "");
  find(".gf-cut-progress").hidden = true;
  headMap.show(map.heads);
  drawSays();
  if (cuts.length) asker.send();
  draw();
}

function receive() {
  if (!props.value) return;
  const answer = JSON.parse(props.value);
  if (answer.part === "progress") {
    find(".gf-cut-progress").textContent = t("lab_surgery.progress", answer);
    find(".gf-cut-progress").hidden = false;
  } else if (answer.part === "heads") receiveHeads(answer);
  else if (answer.part === "problem") {
    if (answer.asked !== null) asker.answered(answer.asked);
    say(answer.sentence);
    if (map) draw();
  } else if (map && answer.made_for === map.made_for && asker.answered(answer.asked) && cuts.length) {
    answer.run = openedRun(answer.run);
    outcome = answer;
    say("");
    draw();
  }
}

for (const button of acts) button.addEventListener("click", () => choose(button.dataset.act));
slider.addEventListener("input", moveSlider);
glassformer.whenStale(element, () => {
  if (measuredFor === glassformer.trace.id) return; // only the language has changed
  measuredFor = glassformer.trace.id;
  trigger("refresh", {});
});
glassformer.on("selection", element, ({ changed: names }) => {
  if (map && ["kind", "layer", "head"].some((name) => names.includes(name))) draw();
});
for (const name of ["language", "theme"])
  glassformer.on(name, element, () => {
    if (!map) return;
    headMap.build();
    drawSays();
    draw();
  });
let drawnAt = 0;
new ResizeObserver(() => {
  if (!map || element.clientWidth === drawnAt) return;
  drawnAt = element.clientWidth;
  for (const { board } of boards) board.draw();
}).observe(element);
watch("value", receive);
glassformer.translate(element);
draw();
receive();
