/* What was put into the run on display, and the way back. Shown wherever a token can be put in. */

function makeChangeBar(box, goBack) {
  const words = document.createElement("p");
  const undo = document.createElement("button");
  const undoAll = document.createElement("button");
  for (const button of [undo, undoAll]) button.type = "button";
  undo.addEventListener("click", () => goBack(false));
  undoAll.addEventListener("click", () => goBack(true));
  box.replaceChildren(words, undo, undoAll);

  function sentence({ is_branch: isBranch, step, token, instead }) {
    const { trace } = glassformer;
    if (!isBranch) return { key: `tree.changed_${trace.search}`, values: { step, token, instead: instead ?? { label: "∅" } } };
    const given = trace.steps.slice(0, step).map((each) => each.token.label).join(" ");
    return { key: "tree.branch", values: { given: { label: given } } };
  }

  function draw() {
    const change = glassformer.trace?.change;
    if (box.hidden && !change) return;
    box.hidden = !change;
    if (!change) return;
    words.replaceChildren(...sentenceNodes(sentence(change)));
    undo.hidden = change.is_branch;
    undoAll.hidden = !change.is_branch && change.n < 2;
    undo.textContent = glassformer.t("tree.back");
    undoAll.textContent = glassformer.t("tree.back_all");
  }

  return { draw };
}
