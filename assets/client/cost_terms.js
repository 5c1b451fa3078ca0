/* Formulas of what a network costs. They come from the server as sums of products [numerator, denominator, letters];
   here sizes are put in, and they are written out. No formula of a cost stands in these scripts. */
const { node, t } = glassformer;
const LETTERS = { Le: ["L", "enc"], Ld: ["L", "dec"], Vs: ["V", "src"], Vt: ["V", "tgt"] };
const SWITCHES = ["separate", "untied", "learned", "pre"];

const valueOf = (terms, sizes) =>
  terms.reduce((sum, [over, under, letters]) => sum + letters.reduce((product, letter) => product * sizes[letter], over) / under, 0);
const totalOf = (book, sizes) => Object.values(book).reduce((sum, terms) => sum + valueOf(terms, sizes), 0);

/* The same sizes with W, the number of parameters. */
const withParameters = (books, sizes) => ({ ...sizes, W: totalOf(books.parameters, sizes) });

/* All operations of one text. */
const operationsOf = (books, sizes, cached) =>
  totalOf(books[cached ? "once" : "encoding"], sizes) + totalOf(books[cached ? "writing" : "writing_uncached"], sizes);

/* Numbers as they are read: whole, or from a million on short ("5.14 million", "514万"). */
const whole = (number) => new Intl.NumberFormat(glassformer.language).format(Math.round(number));
function short(number) {
  if (number < 1e6) return whole(number);
  const options = { notation: "compact", compactDisplay: "long", minimumSignificantDigits: 3, maximumSignificantDigits: 3 };
  return new Intl.NumberFormat(glassformer.language, options).format(number);
}
function tiny(number) {
  const options = { notation: "compact", maximumSignificantDigits: 3 };
  return new Intl.NumberFormat(glassformer.language, options).format(number);
}
function bytes(number) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  const power = number < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(number) / 3));
  const shown = number / 1000 ** power;
  return `${power && shown < 999.5 ? shown.toPrecision(3) : Math.round(shown)} ${units[power]}`;
}
const percent = (share) => (share > 0 && share < 0.001 ? "<0.1 %" : `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)} %`);
const times = (ratio) => (ratio < 9.95 ? ratio.toFixed(1) : whole(ratio));
const milliseconds = (number) => `${number < 10 ? number.toFixed(2) : number < 100 ? number.toFixed(1) : Math.round(number)} ms`;

/* n with an exponent; a dash where there is none. */
function powerOf(exponent) {
  return node("span", "gf-cost-power", "n", node("sup", "", exponent === null ? "–" : exponent.toFixed(1)));
}

/* The words of a key with its {values} put in, each strong and set as text, or an element as it is. */
function filled(key, values) {
  const marks = Object.fromEntries(Object.keys(values).map((name) => [name, `\u0000${name}\u0000`]));
  return t(key, marks).split("\u0000").map((part, i) => (i % 2 ? node("strong", "", values[part] instanceof Element ? values[part] : String(values[part])) : part));
}

function letterNodes(letter, power) {
  const [main, below] = LETTERS[letter] ?? [letter];
  return [node("i", "", main), ...(below ? [node("sub", "", below)] : []), ...(power > 1 ? [node("sup", "", String(power))] : [])];
}

/* A formula in letters, and the same with numbers put in. What is switched off, and a batch of 1, is left out. */
function formulaNodes(terms, sizes) {
  const shown = terms.filter(([, , letters]) => letters.every((letter) => sizes[letter] !== 0));
  const inLetters = [];
  const inNumbers = [];
  shown.forEach(([over, under, letters], i) => {
    const powers = new Map();
    for (const letter of letters) powers.set(letter, (powers.get(letter) ?? 0) + 1);
    for (const one of [...SWITCHES, ...(sizes.B === 1 ? ["B"] : [])]) powers.delete(one);
    const factor = under === 1 ? String(over) : `${over}/${under}`;
    if (i) {
      inLetters.push(" + ");
      inNumbers.push(" + ");
    }
    const [letterParts, numberParts] = [factor === "1" && powers.size ? [] : [[factor]], factor === "1" && powers.size ? [] : [[factor]]];
    for (const [letter, power] of powers) {
      letterParts.push(letterNodes(letter, power));
      numberParts.push([whole(sizes[letter]), ...(power > 1 ? [node("sup", "", String(power))] : [])]);
    }
    inLetters.push(...letterParts.flatMap((part, j) => (j ? ["·", ...part] : part)));
    inNumbers.push(...numberParts.flatMap((part, j) => (j ? [" · ", ...part] : part)));
  });
  return [node("span", "gf-cost-letters", ...inLetters), node("span", "gf-cost-numbers", "= ", ...inNumbers)];
}

/* Ask when the element is on show and a new run is on display; in another language only draw again. */
function askForCosts(draw) {
  let asked = null;
  glassformer.whenStale(element, () => {
    if (asked === glassformer.trace.id) return;
    asked = glassformer.trace.id;
    trigger("ask", {});
  });
  glassformer.on("language", element, draw);
}
