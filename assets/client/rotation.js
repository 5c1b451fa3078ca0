/* One pair of dimensions drawn as a clock. x is the sine (dimension 2i), y the cosine (2i + 1), so position 0 stands at
   twelve and positions run clockwise. Turning the hand of position p by k times the frequency must give position p + k.
   All points are the numbers the model stores; only the last line of the residuals uses the formula in double precision. */
const { t } = glassformer;
const SVG = "http://www.w3.org/2000/svg";
const RADIUS = 100;
const find = (selector) => element.querySelector(selector);
const [clock, clocks, equation] = [find(".gf-clock"), find(".gf-clocks"), find(".gf-equation")];
const play = find(".gf-rotation-play");
const sliders = Object.fromEntries([...element.querySelectorAll("input")].map((input) => [input.name, input]));
let model = null;
let values = null;
let timer = null;

const point = (pair, position) => [0, 1].map((i) => values[position * 2 * model.n_pairs + 2 * pair + i]);
const matrix = (angle) => [[Math.cos(angle), Math.sin(angle)], [-Math.sin(angle), Math.cos(angle)]];
const turned = ([row0, row1], [x, y]) => [row0[0] * x + row0[1] * y, row1[0] * x + row1[1] * y];
const distance = ([x0, y0], [x1, y1]) => Math.hypot(x1 - x0, y1 - y0);

/* The angle of a shift: by the formula where there is one, else the turn that fits all positions best. */
function angleOf(pair, shift) {
  if (model.kind === "sinusoidal") return shift * model.frequencies[pair];
  let along = 0;
  let across = 0;
  for (let p = 0; p + shift < model.n_positions; p += 1) {
    const [x, y] = point(pair, p);
    const [nextX, nextY] = point(pair, p + shift);
    along += x * nextX + y * nextY;
    across += y * nextX - x * nextY;
  }
  return Math.atan2(across, along);
}

function largestResidual(pair, shift, turn) {
  let largest = 0;
  for (let p = 0; p + shift < model.n_positions; p += 1)
    largest = Math.max(largest, distance(turned(turn, point(pair, p)), point(pair, p + shift)));
  return largest;
}

function svg(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function html(tag, className, ...children) {
  const made = document.createElement(tag);
  made.className = className;
  made.append(...children);
  return made;
}

const number = (value) => (Object.is(value, -0) ? 0 : value).toFixed(4).replace("-", "−");
const small = (value) => (value === 0 ? "0" : value >= 0.01 ? value.toFixed(3) : value.toExponential(1).replace("-", "−"));

/* The largest distance of a point of this pair from the centre: learned points need not lie on a circle of radius 1. */
function reach(pair) {
  let largest = 0;
  for (let p = 0; p < model.n_positions; p += 1) largest = Math.max(largest, Math.hypot(...point(pair, p)));
  return largest || 1;
}

function drawClock(pair, position, shift, angle) {
  const scale = model.kind === "sinusoidal" ? RADIUS : RADIUS / reach(pair);
  const place = ([x, y]) => [x * scale, -y * scale];
  const [from, to] = [place(point(pair, position)), place(point(pair, position + shift))];
  const meant = place(turned(matrix(angle), point(pair, position)));
  const parts = [
    svg("line", { x1: -118, x2: 118, y1: 0, y2: 0, class: "gf-clock-axis" }),
    svg("line", { x1: 0, x2: 0, y1: -118, y2: 118, class: "gf-clock-axis" }),
    svg("text", { x: 128, y: -5, "text-anchor": "end", class: "gf-clock-label" }, model.kind === "sinusoidal" ? "sin" : String(2 * pair)),
    svg("text", { x: 5, y: -119, class: "gf-clock-label" }, model.kind === "sinusoidal" ? "cos" : String(2 * pair + 1)),
  ];
  if (model.kind === "sinusoidal") parts.push(svg("circle", { r: RADIUS, class: "gf-clock-rim" }));
  for (let p = 0; p < model.n_positions; p += 1) {
    const [cx, cy] = place(point(pair, p));
    parts.push(svg("circle", { cx, cy, r: 2.2, class: "gf-clock-dot" }));
  }
  parts.push(arc(point(pair, position), angle));
  for (const [end, name] of [[from, "from"], [to, "to"]])
    parts.push(svg("line", { x1: 0, y1: 0, x2: end[0], y2: end[1], class: `gf-clock-hand gf-clock-${name}` }));
  parts.push(svg("circle", { cx: from[0], cy: from[1], r: 6, class: "gf-clock-end gf-clock-from" }));
  parts.push(svg("circle", { cx: to[0], cy: to[1], r: 6, class: "gf-clock-end gf-clock-to" }));
  parts.push(svg("circle", { cx: meant[0], cy: meant[1], r: 10, class: "gf-clock-meant" }));
  clock.replaceChildren(...parts);
}

/* The turn from the first hand on, with an arrow head; more than a full turn is drawn as a spiral. */
function arc([x, y], angle) {
  const start = Math.atan2(x, y);
  const shown = Math.sign(angle) * Math.min(Math.abs(angle), 6 * Math.PI);
  const steps = Math.max(2, Math.ceil(Math.abs(shown) / 0.08));
  const points = Array.from({ length: steps + 1 }, (_, i) => {
    const radius = 34 + (14 * Math.abs(shown) * i) / steps / (2 * Math.PI);
    const turn = start + (shown * i) / steps;
    return `${(radius * Math.sin(turn)).toFixed(2)},${(-radius * Math.cos(turn)).toFixed(2)}`;
  });
  return svg("polyline", { points: points.join(" "), class: "gf-clock-arc", "marker-end": "" });
}

function column(...cells) {
  return html("span", "gf-matrix gf-matrix-1", ...cells.map((cell) => html("span", "", number(cell))));
}

function labelled(node, label, className = "") {
  return html("span", `gf-term ${className}`, node, html("small", "", label));
}

function drawEquation(pair, position, shift, turn) {
  const square = html("span", "gf-matrix gf-matrix-2", ...turn.flat().map((cell) => html("span", "", number(cell))));
  const start = point(pair, position);
  equation.replaceChildren(
    labelled(square, model.kind === "sinusoidal" ? t("positions.matrix_label", { k: shift }) : t("positions.matrix_label_fit", { k: shift }), "gf-term-turn"),
    html("span", "gf-operator", "×"),
    labelled(column(...start), `PE(${position})`, "gf-term-from"),
    html("span", "gf-operator", "="),
    labelled(column(...turned(turn, start)), t("positions.turned_label"), "gf-term-meant"),
    html("span", "gf-operator", model.kind === "sinusoidal" ? "=" : "≠"),
    labelled(column(...point(pair, position + shift)), `PE(${position + shift})`, "gf-term-to"),
  );
}

/* The same with the formula in double precision: what is left is the rounding of the arithmetic alone. */
function exactResidual(pair, position, shift, turn) {
  const frequency = model.frequencies[pair];
  const exact = (p) => [Math.sin(p * frequency), Math.cos(p * frequency)];
  return distance(turned(turn, exact(position)), exact(position + shift));
}

function drawResiduals(pair, position, shift, turn) {
  const here = distance(turned(turn, point(pair, position)), point(pair, position + shift));
  const rows = [
    ["here", small(here)],
    ["all", small(largestResidual(pair, shift, turn))],
  ];
  if (model.kind === "sinusoidal") rows.push(["exact", small(exactResidual(pair, position, shift, turn))]);
  else rows.push(["size", small(reach(pair))]);
  find(".gf-residuals").replaceChildren(
    ...rows.flatMap(([name, value]) => {
      const term = html("dt", "", t(`positions.residual_${name}`));
      const detail = html("dd", "", value);
      detail.dataset.residual = name;
      return [term, detail];
    }),
  );
  find(".gf-rotation-verdict").textContent = t(`positions.verdict_${model.kind === "sinusoidal" ? "sinusoidal" : "learned"}`, { k: shift });
}

/* A small clock for each pair (at most 32, evenly chosen), fast ones first; a press chooses its pair. */
function drawClocks(chosen, position, shift) {
  const count = Math.min(model.n_pairs, 32);
  const pairs = Array.from({ length: count }, (_, i) => Math.round((i * (model.n_pairs - 1)) / Math.max(1, count - 1)));
  if (clocks.childElementCount !== count)
    clocks.replaceChildren(...pairs.map(() => {
      const button = html("button", "gf-small-clock");
      button.type = "button";
      button.append(svg("svg", { viewBox: "-22 -22 44 44", "aria-hidden": "true" }), html("span", ""));
      button.addEventListener("click", () => {
        sliders.pair.value = button.dataset.pair;
        draw();
      });
      return button;
    }));
  pairs.forEach((pair, i) => {
    const button = clocks.children[i];
    const scale = 18 / (model.kind === "sinusoidal" ? 1 : reach(pair));
    const hands = [[position, "from"], [position + shift, "to"]].map(([p, name]) => {
      const [x, y] = point(pair, p);
      return svg("line", { x1: 0, y1: 0, x2: x * scale, y2: -y * scale, class: `gf-clock-hand gf-clock-${name}` });
    });
    button.dataset.pair = String(pair);
    button.setAttribute("aria-pressed", String(pair === chosen));
    button.setAttribute("aria-label", t("positions.clock_label", { n: pair }));
    button.querySelector("span").textContent = String(pair);
    button.querySelector("svg").replaceChildren(svg("circle", { r: 19, class: "gf-clock-rim" }), ...hands);
  });
}

function draw() {
  if (!model || !model.n_pairs || model.kind === "none") return;
  const shift = Number(sliders.shift.value);
  sliders.position.max = String(model.n_positions - 1 - shift);
  const [pair, position] = [Number(sliders.pair.value), Number(sliders.position.value)];
  const angle = angleOf(pair, shift);
  const turn = matrix(angle);
  const turns = (2 * Math.PI) / model.frequencies[pair];
  sliders.pair.previousElementSibling.textContent = t("positions.pair_value", { n: pair, even: 2 * pair, odd: 2 * pair + 1 });
  const token = model.tokens[position];
  sliders.position.previousElementSibling.textContent = token ? t("positions.position_value", { p: position, token: token.label }) : `p = ${position}`;
  sliders.shift.previousElementSibling.textContent = `k = ${shift}`;
  const sentence = t(`positions.angle_${model.kind === "sinusoidal" ? "sinusoidal" : "learned"}`, {
    k: shift,
    degrees: ((angle * 180) / Math.PI).toFixed(1),
    radians: angle.toFixed(4),
    turn: turns < 100 ? turns.toFixed(2) : turns.toFixed(0),
  });
  find(".gf-rotation-angle").textContent = sentence;
  clock.setAttribute("aria-label", t("positions.clock_picture", { p: position, q: position + shift }) + " " + sentence);
  drawClock(pair, position, shift, angle);
  drawEquation(pair, position, shift, turn);
  drawResiduals(pair, position, shift, turn);
  drawClocks(pair, position, shift);
  play.textContent = t(timer ? "positions.pause" : "positions.play");
  play.setAttribute("aria-pressed", String(Boolean(timer)));
}

function stop() {
  clearInterval(timer);
  timer = null;
}

function receive() {
  if (!props.value) return;
  model = JSON.parse(props.value);
  values = glassformer.decodeArray(model.encoding);
  const first = sliders.pair.max === "";
  sliders.pair.max = String(Math.max(0, model.n_pairs - 1));
  sliders.shift.max = String(model.n_positions - 1);
  // To begin with, the first pair slow enough that its steps can be told apart by eye.
  if (first) sliders.pair.value = String(Math.max(0, model.frequencies.findIndex((frequency) => frequency < 0.4)));
  draw();
}

for (const slider of Object.values(sliders)) slider.addEventListener("input", draw);
play.addEventListener("click", () => {
  if (timer) stop();
  else
    timer = setInterval(() => {
      if (!element.isConnected || !clock.getClientRects().length) return stop();
      const { position } = sliders;
      position.value = Number(position.value) >= Number(position.max) ? "0" : String(Number(position.value) + 1);
      draw();
    }, 350);
  draw();
});
watch("value", receive);
glassformer.on("language", element, draw);
glassformer.translate(element);
receive();
