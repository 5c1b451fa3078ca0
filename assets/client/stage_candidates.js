/* The tokens that could have been written at this step, with their probabilities as bars. Each can be written instead:
   force({step, candidate}) for the one at that place, force({step, text}) for any other token, as typed. */

const N_SHOWN = 8;
const MAY_BE_CUT = 6; // characters: of so many even the widest fit

function makeCandidates(root, force) {
  const name = root.querySelector(".gf-stage-candidates-name");
  const list = root.querySelector(".gf-stage-candidates ol");
  const rest = root.querySelector(".gf-stage-rest");
  const hint = root.querySelector(".gf-stage-candidates-hint");
  const another = root.querySelector(".gf-stage-another");
  const [field, write] = ["input", "button"].map((tag) => another.querySelector(tag));

  /* The rows stay, so that the bars grow and shrink from one step to the next. */
  const rows = Array.from({ length: N_SHOWN }, (_, candidate) => {
    const row = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    const token = glassformer.tokenChip({ label: "" }, "span");
    const track = document.createElement("span");
    track.className = "gf-stage-track";
    const bar = document.createElement("span");
    track.append(bar);
    const number = document.createElement("span");
    number.className = "gf-stage-number";
    button.append(token, track, number);
    row.append(button);
    list.append(row);
    button.addEventListener("click", () => {
      const { step } = glassformer.selection;
      if (button.getAttribute("aria-disabled") !== "true") force({ step, candidate });
    });
    return { row, button, token, bar, number };
  });
  another.addEventListener("submit", (event) => {
    event.preventDefault();
    const { step } = glassformer.selection;
    if (field.value && step > 0 && !glassformer.trace.is_fixed) force({ step, text: field.value });
  });

  function draw({ step }) {
    const { trace } = glassformer;
    const written = step === 0 ? null : trace.steps[step - 1];
    setText(name, written ? glassformer.t("decode.candidates", { step }) : glassformer.t("decode.candidates_none"));
    setProperty(list, "hidden", !written);
    const shown = written ? written.candidates.slice(0, N_SHOWN) : [];
    rows.forEach(({ row, button, token, bar, number }, i) => {
      setProperty(row, "hidden", i >= shown.length);
      if (row.hidden) return;
      const [label, probability] = shown[i];
      const isWritten = label === written.token.label;
      const share = percent(probability, 1);
      row.classList.toggle("gf-stage-is-written", isWritten);
      setText(token, label);
      token.classList.toggle("gf-stage-cut", label.length > MAY_BE_CUT);
      bar.style.backgroundSize = `${(100 * probability).toFixed(2)}% 100%`; // painted anew, but nothing is laid out
      setText(number, share);
      setAttribute(button, "aria-current", isWritten);
      setAttribute(button, "aria-disabled", isWritten || trace.is_fixed);
      const words = glassformer.t(`decode.${isWritten ? "is_written" : "write_instead"}`, { token: label, step, percent: percentWords(probability, 1) });
      setAttribute(button, "aria-label", words);
      setAttribute(button, "title", words);
    });
    const others = 1 - shown.reduce((sum, [, probability]) => sum + probability, 0);
    setText(rest, written
      ? glassformer.t("decode.rest", { percent: percent(Math.max(0, others), 1) })
      : glassformer.t("decode.candidates_wait"));
    setText(hint, glassformer.t(`decode.candidates_${trace.is_fixed ? "fixed" : "hint"}`));
    for (const part of [hint, another]) setProperty(part, "hidden", !written);
    setProperty(field, "placeholder", glassformer.t("decode.another_example"));
    for (const part of [field, write]) setProperty(part, "disabled", Boolean(trace.is_fixed));
  }

  return { draw, forget() { field.value = ""; } };
}
