/* Prove it: the faults in force, how many proofs hold under them, and a table of all.
   Event: "ask" {faults, asked}; asked comes back with every answer, so that one to an earlier question is dropped. */
const at = (name) => element.querySelector(`.gf-proofs-${name}`);
const problem = element.querySelector(".gf-lab-problem");
const table = element.querySelector("table");
const { t } = glassformer;
let found = null;
let refused = null;
let wanted = "";
let n_asked = 0;

function receive() {
  if (!props.value) return;
  const answer = JSON.parse(props.value);
  if (!answer.problem && answer.asked !== wanted) return;
  refused = answer.problem ?? null;
  if (!refused) found = answer;
  draw();
}

function drawFaults() {
  const chosen = chosenFaults.get();
  const chips = chosen.map((name) => {
    const words = t(`lab.fault_${name}`);
    const chip = button("gf-proofs-chip", words, () => chosenFaults.set(chosen.filter((each) => each !== name)));
    chip.append(node("span", "", "×"));
    chip.setAttribute("aria-label", t("lab_proofs.remove", { fault: words }));
    return chip;
  });
  at("chips").replaceChildren(...(chips.length ? chips : [node("span", "gf-lab-hint", t("lab_proofs.no_faults"))]));
  at("clear").hidden = !chosen.length;
}

function headline() {
  const { verdict, chosen, rows, n_all: all, n_hold: hold, n_fail: fail } = found;
  const faults = namesOf(chosen);
  let key = verdict;
  if (verdict === "other" && !chosen.length) key = "other_sound";
  if (verdict === "as_named" && chosen.length > 1) key = "as_named_many";
  return [t(`lab_proofs.headline_${verdict}`, { n: rows.length, all, hold }), withValues(`lab_proofs.text_${key}`, { faults, fail })];
}

function mark(row) {
  const made = node("span", `gf-proof-mark gf-proof-${row.holds ? "holds" : "fails"}`, row.holds ? "✓" : "✗");
  made.setAttribute("aria-hidden", "true");
  return made;
}

/* What the tick or the cross means here: as it must be, or not. */
function resultWords(row) {
  const words = [node("strong", row.holds ? "gf-proof-holds" : "gf-proof-fails", t(row.holds ? "lab_proofs.holds" : "lab_proofs.fails"))];
  if (!row.holds) words.push(node("span", "", t(row.expected_to_fail ? "lab_proofs.expected" : "lab_proofs.unexpected")));
  else if (row.expected_to_fail) words.splice(0, 1, node("span", "", t("lab_proofs.still_holds")));
  return words;
}

function bar(row) {
  const fill = node("span", "gf-proof-fill");
  fill.style.width = `${row.share * 100}%`;
  const track = node("span", "gf-proof-track", fill);
  if (!row.exact) {
    const allowed = node("span", "gf-proof-allowed");
    allowed.style.left = `${row.allowed_share * 100}%`;
    track.append(allowed);
  }
  track.setAttribute("aria-hidden", "true");
  return track;
}

function line(row) {
  const done = row.done.map(([key, value]) => `${t(`lab_proofs.done_${key}`)} ${value}`).join(" · ");
  const name = node("th", "", node("strong", "", t(`lab.proof_${row.name}`)), node("span", "", t(`lab.proof_${row.name}_done`)), node("span", "gf-proof-done", done));
  name.scope = "row";
  const made = node("tr", row.holds ? "" : "gf-proof-failing",
    node("td", "gf-proof-mark-cell", mark(row)), name,
    node("td", "gf-proof-result", ...resultWords(row)),
    node("td", "gf-number", node("span", "", row.deviation), bar(row)),
    node("td", "gf-number", row.exact ? t("lab_proofs.exact") : t("lab_proofs.up_to", { n: row.tolerance })),
    node("td", "gf-number", t("lab_proofs.milliseconds", { n: row.milliseconds < 10 ? row.milliseconds.toFixed(1) : Math.round(row.milliseconds) })));
  made.dataset.proof = row.name;
  return made;
}

function draw() {
  problem.hidden = !refused;
  problem.textContent = refused ?? "";
  drawFaults();
  if (!found) return;
  const [count, words] = headline();
  at("count").textContent = count;
  at("text").replaceChildren(...words);
  const isRunning = found.verdict === "running";
  element.firstElementChild.dataset.verdict = found.verdict;
  at("progress").hidden = !isRunning;
  at("progress").firstElementChild.style.width = `${(found.rows.length / found.n_all) * 100}%`;
  at("again").disabled = isRunning;
  at("subject").replaceChildren(...withValues("lab_proofs.subject", { model: found.model, text: found.text }));
  const heads = ["", "proof", "result", "deviation", "tolerance", "time"].map((name) => {
    const head = node(name ? "th" : "td", "", name && t(`lab_proofs.column_${name}`));
    if (name) head.scope = "col";
    return head;
  });
  table.replaceChildren(node("thead", "", node("tr", "", ...heads)), node("tbody", "", ...found.rows.map(line)));
}

const asking = whenAskedAnew(
  () => glassformer.trace && JSON.stringify([glassformer.trace.id, chosenFaults.get()]),
  () => {
    n_asked += 1;
    wanted = `${n_asked}|${glassformer.trace.id}|${chosenFaults.get().join(" ")}`;
    trigger("ask", { faults: chosenFaults.get(), asked: wanted });
  },
);
at("again").addEventListener("click", asking.again);
at("clear").addEventListener("click", () => chosenFaults.set([]));
at("break").addEventListener("click", () => openBench("faults"));
chosenFaults.onChange(drawFaults);
glassformer.on("language", element, draw);
watch("value", receive);
glassformer.translate(element);
draw();
receive();
