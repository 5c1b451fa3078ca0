/* The source above, the target below, and the lines of attention between or among them.
   Everything that many chips change with every step is painted on the canvas behind them: how warm each looks and its
   percentage. As elements, eighty of them would be styled and laid out anew each time. */

const KIND_COLOUR = { cross: "cross", encoder_self: "encoder-self", decoder_self: "decoder-self" };

const FAINT = 0.03; // weights below are shown by a thin line alone: a tint of half of that is not seen

/* Quick at first, then settling: how far a movement has come at a share of its time. */
const eased = (share) => 1 - (1 - share) ** 3;

function makeFlow(root, { hover, pin }) {
  const flow = root.querySelector(".gf-stage-flow");
  const canvas = root.querySelector(".gf-stage-lines");
  const rows = { source: root.querySelector(".gf-stage-source"), target: root.querySelector(".gf-stage-target") };
  const slots = { source: [], target: [] };
  let anchors = { source: [], target: [] };
  let signs = { source: [], target: [] }; // of each chip how it looks (see mark), its {heat, words}
  let context = null;
  let size = { width: 0, height: 0 };
  let corner = 0; // the radius of a chip's corners, in pixels
  let paint = null; // colours of the theme in force
  let shown = null; // what the lines looked like last: {kind, origin, weights} of one row, or null

  /* A chip with room above and below for what it has to say, so that nothing moves when it says it. */
  function makeSlot(token, side, index) {
    const slot = document.createElement("span");
    slot.className = "gf-stage-slot";
    slot.dataset.index = index;
    const chip = glassformer.tokenChip(token);
    chip.dataset.token = token.label;
    slot.append(chip);
    if (side === "source") slot.append(glassformer.node("span", "gf-stage-place", String(index + 1)));
    rows[side].append(slot);
    return { slot, chip };
  }

  function build(trace) {
    for (const [side, tokens] of [
      ["source", trace.source],
      ["target", [trace.target_in[0], ...trace.steps.map((step) => step.token)]],
    ]) {
      rows[side].replaceChildren();
      slots[side] = tokens.map((token, index) => makeSlot(token, side, index));
    }
    const longest = Math.max(slots.source.length, slots.target.length);
    root.dataset.length = longest > 26 ? "long" : longest > 11 ? "medium" : "short";
    signs = { source: [], target: [] };
    shown = null;
  }

  /* Measure where every chip lies. Needed once a run and once a resize, never while scrubbing. */
  function layout() {
    const box = flow.getBoundingClientRect();
    if (!box.width) return false;
    cutWhereTooLong([...slots.source, ...slots.target].map(({ chip }) => chip));
    size = { width: box.width, height: box.height };
    context = glassformer.fitCanvas(canvas, size.width, size.height);
    // Here, since a font or a direction that is to be looked up makes the browser style the whole page first.
    Object.assign(context, {
      font: `600 14px ${glassformer.colour("font")}`, direction: "ltr", textAlign: "center", textBaseline: "middle", lineCap: "round",
    });
    const place = ({ slot, chip }) => {
      const outer = slot.getBoundingClientRect();
      const inner = chip.getBoundingClientRect();
      const [left, chipTop] = [inner.left - box.left, inner.top - box.top];
      return {
        x: left + inner.width / 2, top: outer.top - box.top, bottom: outer.bottom - box.top,
        left, chipTop, width: inner.width, height: inner.height,
      };
    };
    anchors = { source: slots.source.map(place), target: slots.target.map(place) };
    corner = parseFloat(getComputedStyle(slots.source[0].chip).borderTopLeftRadius);
    return true;
  }

  function colours() {
    paint ??= Object.fromEntries(["muted", "cross", "encoder-self", "decoder-self"].map((name) => [name, glassformer.colour(name)]));
    return paint;
  }

  /* How a target token came about, when the search did not choose it: "put_in" or "given" (kept from before that). */
  function originOf(step) {
    const { change, n_forced: given } = glassformer.trace;
    if (change?.put_in.includes(step)) return "put_in";
    return step > 0 && step <= given ? "given" : "";
  }

  const sideOf = (kind, part) =>
    kind === "encoder_self" ? "source" : kind === "decoder_self" ? "target" : part === "query" ? "target" : "source";

  function anchorOf(kind, part, index) {
    const side = sideOf(kind, part);
    const { x, bottom, chipTop } = anchors[side][index];
    return { x, y: side === "source" ? bottom + 1 : chipTop - 3 };
  }

  /* One line. Across: an S from the asking chip to the asked one. Among tokens of one side: an arc, or a loop to itself. */
  function drawLine(kind, from, to, weight, alpha = 1) {
    if (weight < 0.004) return;
    context.lineWidth = Math.max(1, 9 * weight); // at 1 a browser draws three times as fast as at 1.1
    context.globalAlpha = alpha * (0.1 + 0.85 * weight);
    context.beginPath();
    context.moveTo(from.x, from.y);
    if (kind === "cross") {
      const middle = (from.y + to.y) / 2;
      context.bezierCurveTo(from.x, middle, to.x, middle, to.x, to.y);
    } else {
      const outward = kind === "encoder_self" ? 1 : -1;
      const reach = Math.abs(from.x - to.x);
      const height = Math.min(104, 26 + reach * 0.3) * outward;
      const bend = reach < 2 ? 15 : 0; // to itself: a loop with some width
      const edge = outward > 0 ? Math.max(from.y, to.y) : Math.min(from.y, to.y);
      context.bezierCurveTo(from.x - bend, edge + height, to.x + bend, edge + height, to.x, to.y);
    }
    context.stroke();
    if (weight < FAINT) return;
    context.globalAlpha = Math.min(1, alpha * (0.25 + weight));
    context.beginPath();
    context.arc(to.x, to.y, 1.5 + 3 * weight, 0, 2 * Math.PI);
    context.fill();
  }

  /* The whole canvas: lines of one row (moving from where they were, when share < 1), of one column, or of every row, and
     over them the grounds and words of the chips. */
  function draw(selection, focus, pattern, share) {
    if (!context) return;
    const colour = colours()[KIND_COLOUR[selection.kind]];
    context.clearRect(0, 0, size.width, size.height);
    context.strokeStyle = context.fillStyle = colour;
    drawLines(selection, focus, pattern, share);
    drawGrounds(colour);
    drawWords(colour);
  }

  function drawLines({ kind }, focus, pattern, share) {
    if (focus.source === "step" && focus.query !== null) drawTrail(kind, focus.query, pattern, 0.2, 0.16);
    if (focus.query !== null) {
      const to = rowState(kind, focus.query, pattern);
      const from = shown && shown.kind === kind && shown.weights.length === to.weights.length ? shown : to;
      const moved = share >= 1 ? to : between(from, to, eased(share));
      const order = Array.from(moved.weights.keys()).sort((a, b) => moved.weights[a] - moved.weights[b]);
      for (const key of order) {
        const dimmed = focus.key !== null && focus.key !== key;
        drawLine(kind, moved.origin, anchorOf(kind, "key", key), moved.weights[key], dimmed ? 0.2 : 1);
      }
      if (share >= 1) shown = to;
    } else {
      shown = null;
      if (focus.key !== null) drawColumn(kind, focus, pattern);
      else if (kind === "encoder_self") drawTrail(kind, pattern.rows, pattern, 0.1, 0.7);
    }
    context.globalAlpha = 1;
  }

  /* The ground of each chip: no line shows through it, and it is the warmer the more it is looked at. */
  function drawGrounds(colour) {
    context.fillStyle = colour;
    for (const side of ["source", "target"])
      signs[side].forEach(({ isWritten, heat }, index) => {
        const { left, chipTop, width, height } = anchors[side][index];
        context.clearRect(left, chipTop, width, height);
        if (heat < FAINT && !isWritten) return;
        context.globalAlpha = isWritten ? 1 : heat / 2;
        context.beginPath();
        context.roundRect(left, chipTop, width, height, corner);
        context.fill();
      });
    context.globalAlpha = 1;
  }

  /* What each chip says, in the room that its slot leaves: above the source, below the target. And what comes next. */
  function drawWords(colour) {
    context.fillStyle = colour;
    for (const [side, edge, inward] of [["source", "top", 1], ["target", "bottom", -1]])
      signs[side].forEach(({ words, isWritten, isNext }, index) => {
        const { x, left, chipTop, height, [edge]: end } = anchors[side][index];
        if (words) context.fillText(words, x, end + inward * 10);
        if (isWritten) drawArrow(left - 2, chipTop + height / 2);
        if (!isNext) return;
        context.fillStyle = paint.muted;
        context.fillText("?", x, chipTop + height / 2 + 1);
        context.fillStyle = colour;
      });
  }

  function drawArrow(x, y) {
    context.beginPath();
    context.moveTo(x - 9, y - 6);
    context.lineTo(x, y);
    context.lineTo(x - 9, y + 6);
    context.fill();
  }

  /* Where the first rows looked hardest, faintly: the way to this step, or all that a head of the encoder does. */
  function drawTrail(kind, rows, pattern, least, alpha) {
    for (let row = 0; row < rows; row += 1) {
      const from = anchorOf(kind, "query", row);
      for (let key = 0; key < pattern.columns; key += 1)
        if (pattern.get(row, key) >= least) drawLine(kind, from, anchorOf(kind, "key", key), pattern.get(row, key), alpha);
    }
  }

  function drawColumn(kind, focus, pattern) {
    const to = anchorOf(kind, "key", focus.key);
    for (let row = 0; row < focus.reached; row += 1)
      drawLine(kind, anchorOf(kind, "query", row), to, pattern.get(row, focus.key));
  }

  function rowState(kind, row, pattern) {
    const weights = Float32Array.from({ length: pattern.columns }, (_, column) => pattern.get(row, column));
    return { kind, origin: anchorOf(kind, "query", row), weights };
  }

  function between(from, to, share) {
    const mix = (a, b) => a + (b - a) * share;
    return {
      origin: { x: mix(from.origin.x, to.origin.x), y: mix(from.origin.y, to.origin.y) },
      weights: to.weights.map((weight, key) => mix(from.weights[key], weight)),
    };
  }

  /* What each chip says and how it looks at this step; draw() paints what of it is not an element. */
  function mark(selection, focus, pattern) {
    const { kind, step } = selection;
    const narrow = root.dataset.length === "long"; // no room for a decimal, or for two words
    for (const side of ["source", "target"]) {
      const asks = sideOf(kind, "query") === side;
      const isAsked = sideOf(kind, "key") === side;
      slots[side].forEach((slot, index) => {
        const weighs = isAsked && focus.query !== null && index < pattern.columns;
        const heat = weighs ? pattern.get(focus.query, index) : 0;
        const look = {
          isLater: side === "target" && index > step,
          isNext: side === "target" && index === step + 1,
          isWritten: side === "target" && index === step && step > 0,
          isAsking: asks && index === focus.query,
          isPinned: (asks && selection.query === index) || (isAsked && selection.key === index),
          isHot: heat >= 0.01,
          origin: side === "target" ? originOf(index) : "",
        };
        const share = look.isHot ? (narrow ? `${Math.round(100 * heat)} %` : percent(heat)).replace(" ", "\u202f") : "";
        const word = look.isWritten ? "written" : look.isAsking && !narrow ? "asks" : null; // the two stand side by side
        const words = share || (word ? glassformer.t(`decode.${word}`) : "");
        signs[side][index] = { ...look, heat, words };
        setAttribute(slot.chip, "aria-description", words);
        const name = Object.values(look).join() + glassformer.language;
        if (slot.look === name) return;
        slot.look = name;
        dress(slot, index, look);
      });
    }
    setAttribute(root, "data-attention", kind);
  }

  function dress({ slot, chip }, index, { isLater, isNext, isWritten, isAsking, isPinned, isHot, origin }) {
    slot.classList.toggle("gf-stage-later", isLater);
    slot.classList.toggle("gf-stage-next", isNext);
    chip.classList.toggle("gf-stage-asks", isAsking);
    chip.classList.toggle("gf-stage-written", isWritten);
    chip.classList.toggle("gf-stage-pinned", isPinned);
    chip.classList.toggle("gf-stage-hot", isHot);
    slot.classList.toggle("gf-stage-arrow", origin === "put_in");
    chip.classList.toggle("gf-stage-put-in", origin === "put_in");
    chip.classList.toggle("gf-stage-given", origin === "given");
    const label = chip.dataset.token;
    setAttribute(chip, "title", origin ? glassformer.t(`decode.${origin}_title`, { token: label, step: index }) : label);
    setAttribute(chip, "tabindex", isLater ? -1 : 0);
    setAttribute(chip, "aria-hidden", isLater);
    setAttribute(chip, "aria-pressed", isPinned);
  }

  /* The chips' part in pointing and pinning. A touch only pins: there is no pointer to follow. */
  function placeOf(event) {
    const slot = event.target.closest?.(".gf-stage-slot");
    if (!slot) return null;
    const side = slot.parentElement === rows.source ? "source" : "target";
    const index = Number(slot.dataset.index);
    const { kind } = glassformer.selection;
    const { trace } = glassformer;
    if (sideOf(kind, "query") === side)
      return index < glassformer.queryTokens(kind, trace).length ? { query: index, key: null } : null;
    return sideOf(kind, "key") === side ? { query: null, key: index } : null;
  }
  for (const row of Object.values(rows)) {
    row.addEventListener("pointerover", (event) => {
      if (event.pointerType !== "touch") hover(placeOf(event), event.target.closest(".gf-stage-slot"));
    });
    row.addEventListener("pointerleave", () => hover(null));
    row.addEventListener("focusin", (event) => {
      if (event.target.matches(":focus-visible")) hover(placeOf(event));
    });
    row.addEventListener("focusout", () => hover(null));
    row.addEventListener("click", (event) => {
      const place = event.target.closest(".gf-chip") && placeOf(event);
      if (place) pin(place);
    });
  }

  return {
    build, layout, draw, mark,
    forget() { paint = null; },
    label: (text) => setAttribute(canvas, "aria-label", text),
    element: flow,
  };
}
