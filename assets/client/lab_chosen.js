/* The faults that are switched on. They are kept on the lab's own element, so that the bench that breaks and the bench
   that proves agree, whichever of them has been opened. It opens with one that shows at first sight. */
const { node } = glassformer;
const lab = element.closest(".gf-lab");
const FIRST_FAULT = "no_positions";

const chosenFaults = {
  get: () => (lab.dataset.faults ?? FIRST_FAULT).split(" ").filter(Boolean),
  set(names) {
    lab.dataset.faults = names.join(" ");
    lab.dispatchEvent(new CustomEvent("gf-faults"));
  },
  onChange(callback) {
    lab.addEventListener("gf-faults", () => { if (element.isConnected) callback(); });
  },
};

function openBench(name) {
  lab.querySelector(`[role=tab][data-tab-id=lab_${name}]`).click();
}

function button(className, words, onClick) {
  const made = node("button", className, words);
  made.type = "button";
  made.addEventListener("click", onClick);
  return made;
}

/* The words of a key with its {values} put in: a token as a chip, all else strong. Every value is set as text. */
function withValues(key, values) {
  const marks = Object.fromEntries(Object.keys(values).map((name) => [name, `\u0000${name}\u0000`]));
  return glassformer.t(key, marks).split("\u0000").map((part, i) => {
    if (i % 2 === 0) return part;
    const value = values[part];
    return value?.label === undefined ? node("strong", "", String(value)) : glassformer.tokenChip(value, "span");
  });
}

/* Names of faults as one text: "A", "A and B", "A, B and C". */
function namesOf(faults) {
  return new Intl.ListFormat(glassformer.language, { type: "conjunction" }).format(faults.map((name) => glassformer.t(`lab.fault_${name}`)));
}

/* Ask again whenever what is asked for has changed while the element is on show. question() is a text, or "".
   again() asks the same once more; take(question) says that its answer is on show already. */
function whenAskedAnew(question, ask) {
  let visible = false;
  let asked = "";
  const check = () => {
    const wanted = question();
    if (!visible || !wanted || wanted === asked) return;
    asked = wanted;
    ask(wanted);
  };
  new IntersectionObserver((entries) => {
    visible = entries[entries.length - 1].isIntersecting;
    check();
  }).observe(element);
  glassformer.on("trace", element, check);
  chosenFaults.onChange(check);
  return { again: () => { asked = ""; check(); }, take: (answered) => { asked = answered; } };
}
