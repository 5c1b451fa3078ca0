/* What a bench's runs have in common: a run's payload with its patterns decoded, questions to the server one at a time,
   and two outputs beside each other as aligned chips. */
const { node } = glassformer;

function openedRun(text) {
  const run = JSON.parse(text);
  for (const pattern of Object.values(run.patterns)) pattern.values = glassformer.decodeArray(pattern);
  return run;
}

const signed = (number, digits = 2) => {
  const text = Math.abs(number).toFixed(digits);
  return Number(text) === 0 ? text : `${number < 0 ? "−" : "+"}${text}`;
};
const shareText = (share) => (share > 0 && share < 0.001 ? "<0.1" : (share * 100).toFixed(share < 0.0995 ? 1 : 0));
const timesText = (ratio) => (ratio >= 0.01 ? ratio.toFixed(2) : ratio.toExponential(1).replace("e-", " · 10^−"));

/* One question at a time; what changed meanwhile is asked when the answer is in. An answer lost is not waited for. */
function makeAsker(ask) {
  const PATIENCE = 20_000;
  let [number, waits, again, since, pause] = [0, false, false, 0, null];

  function send() {
    pause = null;
    if (waits && performance.now() - since < PATIENCE) {
      again = true;
      return;
    }
    [waits, again, since] = [true, false, performance.now()];
    number += 1;
    ask(number);
  }

  return {
    send,
    soon() {
      clearTimeout(pause);
      pause = setTimeout(send, 120);
    },
    get waits() { return waits || pause !== null; },
    /* Whether an answer is the one that is waited for. */
    answered(asked) {
      if (asked !== number) return false;
      waits = false;
      if (again) send();
      return true;
    },
    forget() {
      [waits, again] = [false, false];
      number += 1;
      clearTimeout(pause);
      pause = null;
    },
  };
}

/* Both outputs as chips, one column a pair, differences marked; and in numbers what it did to the earlier output.
   ``idle`` is what to say while nothing is changed. */
function drawOutcome(box, before, outcome, { idle, waits }) {
  const { t } = glassformer;
  const after = outcome ? outcome.run : before;
  const pairs = outcome ? outcome.pairs : before.steps.map((_, i) => [i, i]);
  const usual = outcome ? outcome.usual : before.steps.map((step) => step.log_prob);
  const forced = outcome ? outcome.forced : usual;
  const chip = (token, isDifferent) => {
    const made = token ? glassformer.tokenChip(token.token, "span") : node("span", "gf-chip gf-out-gap", "∅");
    made.classList.toggle("gf-out-different", isDifferent);
    return made;
  };
  const columns = pairs.map(([i, j]) => {
    const [first, second] = [i === null ? null : before.steps[i], j === null ? null : after.steps[j]];
    const isDifferent = !first || !second || first.token.label !== second.token.label;
    const column = node("li", "gf-out-pair", chip(first, false), chip(second, isDifferent));
    if (first) {
      const [was, is] = [Math.exp(usual[i]), Math.exp(forced[i])];
      column.append(node("small", "", idle ? shareText(was) : `${shareText(was)}→${shareText(is)}`));
      column.title = t("lab_surgery.token_says", { token: first.token.label, was: shareText(was), is: shareText(is) });
    } else column.append(node("small", "", "\u00a0"));
    return column;
  });
  const head = node("li", "gf-out-pair gf-out-names", node("span", "", t("lab_surgery.before")), node("span", "", t("lab_surgery.after")), node("small", "", "p, %"));
  const sums = [usual, forced].map((values) => values.reduce((total, value) => total + value, 0));
  const change = sums[1] - sums[0];
  const values = {
    different: outcome?.n_different ?? 0, total: pairs.length, was: signed(sums[0]), is: signed(sums[1]),
    change: signed(change), times: timesText(Math.exp(change)), now: signed(outcome ? outcome.log_prob : before.log_prob),
  };
  const verdict = values.different ? "differs" : "same";
  const isKnown = Boolean(outcome);
  const says = [node("p", "gf-out-verdict", idle || t(`lab_surgery.${isKnown ? verdict : "decoding"}`, values))];
  if (!idle && isKnown) says.push(node("p", "gf-out-number", node("b", "", values.change), ` ${t("lab_surgery.change_says", values)}`));
  if (!idle && isKnown && values.different) says.push(node("p", "gf-out-text", t("lab_surgery.now_says", values)));
  if (outcome && !outcome.run.finished) says.push(node("p", "gf-out-text", t("lab_surgery.no_end", { n: after.steps.length })));
  box.replaceChildren(node("ul", "gf-out-pairs", head, ...columns), ...says);
  box.classList.toggle("gf-out-waits", waits);
}
