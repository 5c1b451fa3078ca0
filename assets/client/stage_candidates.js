/* The tokens that could have been written at this step, with their probabilities as bars. */

const N_SHOWN = 8;

function makeCandidates(root) {
  const name = root.querySelector(".gf-stage-candidates-name");
  const list = root.querySelector(".gf-stage-candidates ol");
  const rest = root.querySelector(".gf-stage-rest");

  /* The rows stay, so that the bars grow and shrink from one step to the next. */
  const rows = Array.from({ length: N_SHOWN }, () => {
    const row = document.createElement("li");
    const token = glassformer.tokenChip({ label: "" }, "span");
    const track = document.createElement("span");
    track.className = "gf-stage-track";
    const bar = document.createElement("span");
    track.append(bar);
    const number = document.createElement("span");
    number.className = "gf-stage-number";
    row.append(token, track, number);
    list.append(row);
    return { row, token, bar, number };
  });

  function draw({ step }) {
    const { trace } = glassformer;
    const written = step === 0 ? null : trace.steps[step - 1];
    name.textContent = written ? glassformer.t("decode.candidates", { step }) : glassformer.t("decode.candidates_none");
    list.hidden = !written;
    const shown = written ? written.candidates.slice(0, N_SHOWN) : [];
    rows.forEach(({ row, token, bar, number }, i) => {
      row.hidden = i >= shown.length;
      if (row.hidden) return;
      const [label, probability] = shown[i];
      const isWritten = label === written.token.label;
      row.classList.toggle("gf-stage-is-written", isWritten);
      setText(token, label);
      token.title = label;
      bar.style.transform = `scaleX(${probability.toFixed(4)})`;
      setText(number, percent(probability, 1));
      setAttribute(row, "aria-current", isWritten);
    });
    const others = 1 - shown.reduce((sum, [, probability]) => sum + probability, 0);
    rest.textContent = written
      ? glassformer.t("decode.rest", { percent: percent(Math.max(0, others), 1) })
      : glassformer.t("decode.candidates_wait");
  }

  return { draw };
}
