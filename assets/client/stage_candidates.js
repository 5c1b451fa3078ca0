/* The tokens that could have been written at this step, with their probabilities as bars. Each can be written instead:
   force({step, candidate}) for the one at that place, force({step, text}) for any other token, as typed. */

const N_SHOWN = 8;

function makeCandidates(root, force) {
  const name = root.querySelector(".gf-stage-candidates-name");
  const list = root.querySelector(".gf-stage-candidates ol");
  const rest = root.querySelector(".gf-stage-rest");
  const hint = root.querySelector(".gf-stage-candidates-hint");
  const another = root.querySelector(".gf-stage-another");
  const field = another.querySelector("input");

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
    name.textContent = written ? glassformer.t("decode.candidates", { step }) : glassformer.t("decode.candidates_none");
    list.hidden = !written;
    const shown = written ? written.candidates.slice(0, N_SHOWN) : [];
    rows.forEach(({ row, button, token, bar, number }, i) => {
      row.hidden = i >= shown.length;
      if (row.hidden) return;
      const [label, probability] = shown[i];
      const isWritten = label === written.token.label;
      const share = percent(probability, 1);
      row.classList.toggle("gf-stage-is-written", isWritten);
      setText(token, label);
      bar.style.transform = `scaleX(${probability.toFixed(4)})`;
      setText(number, share);
      setAttribute(button, "aria-current", isWritten);
      setAttribute(button, "aria-disabled", isWritten || trace.is_fixed);
      const words = glassformer.t(`decode.${isWritten ? "is_written" : "write_instead"}`, { token: label, step, percent: percentWords(probability, 1) });
      setAttribute(button, "aria-label", words);
      setAttribute(button, "title", words);
    });
    const others = 1 - shown.reduce((sum, [, probability]) => sum + probability, 0);
    rest.textContent = written
      ? glassformer.t("decode.rest", { percent: percent(Math.max(0, others), 1) })
      : glassformer.t("decode.candidates_wait");
    setText(hint, glassformer.t(`decode.candidates_${trace.is_fixed ? "fixed" : "hint"}`));
    hint.hidden = another.hidden = !written;
    field.placeholder = glassformer.t("decode.another_example");
    field.disabled = another.querySelector("button").disabled = trace.is_fixed;
  }

  return { draw, forget() { field.value = ""; } };
}
