/* The picture of the network beside the values of the chosen part. Event: "look" {part, known, asked}: a part is chosen, or the
   run on display is another. One question at a time; what is chosen meanwhile is asked next. */
const KINDS = { encoder: { self_attn: "encoder_self" }, decoder: { self_attn: "decoder_self", cross_attn: "cross" } };
const scroll = element.querySelector(".gf-xray-scroll");
const aside = element.querySelector(".gf-xray-values");
const exampleNote = element.querySelector(".gf-xray-note");
let run = null; // the name of the run that the picture is of
let picture = null;
let part = null; // the answer on show
let chosen = null; // address of the chosen part; null: what the server shows first
let open = { encoder: 0, decoder: 0 };
let waiting = 0;
let asked = 0;
let next = false;
let panel = null;

function ask() {
  if (waiting) {
    next = true;
    return;
  }
  element.firstElementChild.classList.add("gf-xray-busy");
  waiting = setTimeout(answered, 15000);
  asked += 1;
  trigger("look", { part: chosen, known: run, asked });
}

function answered() {
  clearTimeout(waiting);
  waiting = 0;
  element.firstElementChild.classList.remove("gf-xray-busy");
  if (!next) return;
  next = false;
  ask();
}

function receive() {
  if (!props.value) return;
  const answer = JSON.parse(props.value);
  const isNew = Boolean(answer.picture);
  if (isNew) {
    picture = answer.picture;
    run = answer.run;
    const { n_encoder_layers: encoder, n_decoder_layers: decoder } = picture.config;
    open = { encoder: part && open.encoder < encoder ? open.encoder : encoder - 1, decoder: part && open.decoder < decoder ? open.decoder : decoder - 1 };
  }
  if (chosen === null || isNew) chosen = answer.part.address;
  part = answer.part;
  const { stack, layer } = partWords(chosen);
  if (layer !== null) open[stack] = layer;
  if (isNew) drawAll();
  else drawValues();
  answered();
}

function drawAll() {
  if (!picture) return;
  exampleNote.hidden = !picture.is_example;
  exampleNote.textContent = picture.is_example ? t("xray.is_example", { text: picture.text }) : "";
  drawNetwork();
  drawValues();
}

function drawNetwork() {
  const focused = scroll.contains(document.activeElement);
  const from = scroll.scrollLeft;
  scroll.replaceChildren(drawPicture(picture, open));
  mark();
  // Where the picture is wider than its room, it opens on the chosen part.
  const { x, width: wide } = current().getBBox();
  scroll.scrollLeft = from || x + wide / 2 - scroll.clientWidth / 2;
  if (focused) current()?.focus({ preventScroll: true });
}

const buttons = () => [...scroll.querySelectorAll(".gf-xray-part")];
const current = () => buttons().find((button) => button.dataset.part === chosen) || buttons()[0];

function mark() {
  const one = current();
  for (const button of buttons()) {
    if (button.dataset.part) button.setAttribute("aria-pressed", String(button.dataset.part === chosen));
    else button.setAttribute("aria-expanded", "false");
    button.setAttribute("tabindex", button === one ? 0 : -1);
  }
}

/* The head of the chosen part: attentions share it with all other views. */
function head() {
  return Math.min(glassformer.selection.head, part.figures.length - 1);
}

function drawValues() {
  if (!part || !picture) return;
  panel = panelOf(part, picture, head(), glassformer.selection.step, (i) => {
    glassformer.select({ head: i });
    aside.querySelectorAll(".gf-xray-heads button")[i]?.focus();
  });
  aside.replaceChildren(...panel.nodes);
  paint();
}

function paint() {
  if (!panel) return;
  panel.heatmap.width = panel.scroll.clientWidth;
  panel.heatmap.paint(panel.heatmap.width);
}

function choose(address) {
  const { stack, layer, inner } = partWords(address);
  chosen = address;
  if (layer !== null && open[stack] !== layer) {
    open[stack] = layer;
    drawNetwork();
  } else mark();
  const kind = KINDS[stack][inner];
  if (kind) glassformer.select({ kind, layer });
  ask();
}

/* A folded layer opens; the chosen part moves to the same place in it, where it stands in this stack. */
function unfold(stack, index) {
  const inner = chosen && partWords(chosen).stack === stack && chosen.includes(".layers.");
  open[stack] = index;
  if (inner) choose(chosen.replace(/\.layers\.\d+\./, `.layers.${index}.`));
  drawNetwork();
}

function press(button) {
  if (button.dataset.part) {
    choose(button.dataset.part);
    // Where the values stand below the picture, they come into view.
    if (aside.getBoundingClientRect().top > window.innerHeight - 120) aside.scrollIntoView({ block: "start", behavior: "smooth" });
  } else unfold(button.dataset.stack, Number(button.dataset.unfold));
}

scroll.addEventListener("click", (event) => {
  const button = event.target.closest(".gf-xray-part");
  if (button) press(button);
});
/* Arrow keys go to the nearest part in their direction. */
scroll.addEventListener("keydown", (event) => {
  const button = event.target.closest(".gf-xray-part");
  if (!button) return;
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    press(button);
    return;
  }
  const way = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
  if (!way) return;
  event.preventDefault();
  event.stopPropagation();
  const centre = (each) => {
    const box = each.getBoundingClientRect();
    return [box.left + box.width / 2, box.top + box.height / 2];
  };
  const from = centre(button);
  let best = null;
  for (const each of buttons()) {
    const to = centre(each);
    const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
    const along = dx * way[0] + dy * way[1];
    const across = Math.abs(dx * way[1]) + Math.abs(dy * way[0]);
    if (along > 4 && (!best || along + 2 * across < best.far)) best = { each, far: along + 2 * across };
  }
  if (!best) return;
  button.setAttribute("tabindex", -1);
  best.each.setAttribute("tabindex", 0);
  best.each.focus();
});

watch("value", receive);
let askedFor = "";
glassformer.on("language", element, drawAll);
glassformer.whenStale(element, () => {
  if (askedFor === glassformer.trace.id) return; // only the language is another
  askedFor = glassformer.trace.id;
  ask();
});
glassformer.on("theme", element, paint);
glassformer.on("selection", element, ({ changed }) => {
  if (part && ((part.has_heads && changed.includes("head")) || changed.includes("step"))) drawValues();
});
let width = 0;
new ResizeObserver(() => {
  if (aside.clientWidth === width) return;
  width = aside.clientWidth;
  paint();
}).observe(aside);
glassformer.translate(element);
receive();
