/* The map of all heads: three attentions, their layers as rows, heads as columns. A tile's colour and number are what
   the output loses without the head; its two strips are what its keys get, as attention and as what they really add. */

const KINDS = ["encoder_self", "decoder_self", "cross"];

function opened(heads) {
  for (const measures of Object.values(heads))
    for (const array of Object.values(measures)) array.values = glassformer.decodeArray(array);
  return heads;
}

/* One number of a head, or its row of numbers over keys. */
function ofHead({ shape, values }, layer, head) {
  const place = layer * shape[1] + head;
  return shape.length === 2 ? values[place] : values.subarray(place * shape[2], (place + 1) * shape[2]);
}

const rgbOf = ([r, g, b]) => `rgb(${r},${g},${b})`;
/* Black or white, whichever has the greater contrast (WCAG 2): one of them always has at least 4.58 to 1. */
function inkOn(colour) {
  const [r, g, b] = colour.map((value) => (value <= 10 ? value / 3294 : ((value / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
}


/* A strip of cells, one a key, as a background; its darkest cell is the key that gets most. */
function stripBackground(values, scale) {
  const most = Math.max(...values, 1e-12);
  const stops = [...values].map((value, i) => {
    const colour = rgbOf(scale[Math.round((value / most) * 255)]);
    return `${colour} ${(100 * i) / values.length}% ${(100 * (i + 1)) / values.length}%`;
  });
  return `linear-gradient(90deg, ${stops.join(", ")})`;
}

function makeHeadMap(box, choose) {
  let heads = null;

  function tile(kind, layer, head, scales, most) {
    const change = ofHead(heads[kind].change, layer, head);
    const colour = scales.diverging[Math.round(127.5 + 127.5 * (change / most))];
    const value = node("span", "gf-cut-value", signed(change));
    Object.assign(value.style, { background: rgbOf(colour), color: inkOn(colour) });
    const strips = ["attention", "value_weighted"].map((name) => {
      const strip = node("i", "gf-cut-strip");
      strip.style.background = stripBackground(ofHead(heads[kind][name], layer, head), scales.sequential);
      return strip;
    });
    const made = node("button", "gf-cut-head", value, ...strips);
    made.type = "button";
    made.setAttribute("role", "radio");
    Object.assign(made.dataset, { kind, layer, head });
    made.addEventListener("click", () => choose({ kind, layer, head }));
    return made;
  }

  function group(kind, scales, most) {
    const [layers, n] = heads[kind].change.shape;
    const grid = node("div", "gf-cut-grid");
    grid.style.setProperty("--gf-heads", n);
    grid.append(node("span", ""), ...Array.from({ length: n }, (_, head) => node("span", "gf-cut-column", n > 6 ? `${head + 1}` : glassformer.t("attention.head", { n: head + 1 }))));
    for (let layer = 0; layer < layers; layer += 1) {
      grid.append(node("span", "gf-cut-row", glassformer.t("attention.layer", { n: layer + 1 })));
      for (let head = 0; head < n; head += 1) grid.append(tile(kind, layer, head, scales, most));
    }
    const title = node("h3", "", glassformer.t(`attention.kind_${kind}`));
    const made = node("div", "gf-cut-group", title, node("div", "gf-cut-scroll", grid));
    made.dataset.kind = kind;
    return made;
  }

  function build() {
    if (!heads) return;
    const most = Math.max(1e-9, ...KINDS.flatMap((kind) => [...heads[kind].change.values].map(Math.abs)));
    const scales = { diverging: glassformer.scale("diverging"), sequential: glassformer.scale("sequential") };
    box.replaceChildren(...KINDS.map((kind) => group(kind, scales, most)));
  }

  /* Only the chosen tile can be reached with Tab; the arrow keys go on from there, over all three groups. */
  function mark(chosen, cutName) {
    for (const each of box.querySelectorAll(".gf-cut-head")) {
      const [kind, layer, head] = [each.dataset.kind, Number(each.dataset.layer), Number(each.dataset.head)];
      const isChosen = chosen.kind === kind && chosen.layer === layer && chosen.head === head;
      const cut = cutName(kind, layer, head);
      each.setAttribute("aria-checked", String(isChosen));
      each.tabIndex = isChosen ? 0 : -1;
      each.classList.toggle("gf-cut-is-cut", Boolean(cut));
      const change = signed(ofHead(heads[kind].change, layer, head), 3);
      const name = `${glassformer.t("attention.head_name", { layer: layer + 1, head: head + 1 })}: ${change}${cut ? `. ${cut}` : ""}`;
      each.setAttribute("aria-label", `${glassformer.t(`attention.kind_${kind}`)}, ${name}`);
      each.title = name;
    }
  }

  box.addEventListener("keydown", (event) => {
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const now = event.target.closest(".gf-cut-head");
    if (!move || !now) return;
    event.preventDefault();
    event.stopPropagation();
    const rows = KINDS.flatMap((kind) => Array.from({ length: heads[kind].change.shape[0] }, (_, layer) => ({ kind, layer })));
    const row = rows.findIndex(({ kind, layer }) => kind === now.dataset.kind && layer === Number(now.dataset.layer));
    const next = rows[row + move[0]];
    const head = Number(now.dataset.head) + move[1];
    if (!next || head < 0 || head >= heads[next.kind].change.shape[1]) return;
    choose({ ...next, head });
    box.querySelector(`[data-kind="${next.kind}"][data-layer="${next.layer}"][data-head="${head}"]`).focus();
  });

  return { build, mark, show(next) { heads = next; build(); } };
}
