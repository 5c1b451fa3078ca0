/* The two curves that matter: a token's cost as the target grows, with and without a cache; a layer's cost by its length. */
const MOST_POINTS = 160;

function evenly(from, to) {
  const n = Math.min(MOST_POINTS, to - from + 1);
  return [...new Set(Array.from({ length: n }, (_, i) => Math.round(from + ((to - from) * i) / Math.max(1, n - 1))))];
}

/* Operations to write the token with the number t, up to ``most`` of them. */
function cacheSpec(books, sizes, most, mark) {
  const points = (book) => [...new Set([...evenly(1, most), mark.x])].sort((a, b) => a - b).map((each) => [each, totalOf(book, { ...sizes, t: each })]);
  return {
    label: t("cost.cache_chart"),
    series: [
      { name: t("cost.uncached"), colour: "decoder-self", points: points(books.token_uncached) },
      { name: t("cost.cached"), colour: "accent", points: points(books.token) },
    ],
    x: { name: t("cost.token_axis"), show: whole, at: (n) => t("cost.token_n", { n: whole(n) }) },
    y: { name: t("cost.operations_axis"), show: short, tick: tiny },
    mark,
    at: mark.x,
  };
}

/* The scores of one encoder layer, which grow with the square of the length, and all else in it. */
function lengthSpec(books, sizes, mark) {
  const one = (S) => ({ ...sizes, B: 1, Le: 1, S });
  const scores = (S) => valueOf(books.encoding.encoder_scores, one(S));
  const all = (S) => totalOf(books.encoding, one(S));
  const turning = totalOf(books.turning_point, sizes);
  const lengths = [...new Set([...evenly(1, Math.round(turning * 2.2)), turning, ...(mark && mark.x <= turning * 2.2 ? [mark.x] : [])])].sort((a, b) => a - b);
  return {
    label: t("cost.length_chart"),
    series: [
      { name: t("cost.squared"), colour: "bad", points: lengths.map((S) => [S, scores(S)]) },
      { name: t("cost.linear"), colour: "muted", points: lengths.map((S) => [S, all(S) - scores(S)]) },
    ],
    x: { name: t("cost.length_axis"), show: whole, at: (n) => t("cost.length_n", { n: whole(n) }) },
    y: { name: t("cost.layer_axis"), show: short, tick: tiny },
    mark: { x: turning, name: t("cost.turning", { n: whole(turning) }) },
    at: turning,
  };
}

/* Shares of the operations of one text by kind: [[name, operations]], and which part belongs to which kind. */
function kindsOf(costs, sizes) {
  const books = [costs.books.once, costs.books.writing];
  return Object.entries(costs.kinds).map(([kind, parts]) => [
    kind, books.reduce((sum, book) => sum + parts.reduce((within, part) => within + (book[part] ? valueOf(book[part], sizes) : 0), 0), 0),
  ]);
}
