/* The network as one picture, from the bottom up: sizes in, a list of strokes and parts out, then SVG.
   A stack is a column: boxes of the sub-layers on the left, the residual stream as a thick line on their right, and the
   shape of what flows beside it. Every part is {part, x, y, width, height, title, shape, kind}. */
const BOX = 264;
const TO_SPINE = 28;
const COLUMN = BOX + TO_SPINE + 104; // up to the end of the shapes
const CHANNEL = 34; // between the stacks: here the memory goes over to the decoder
const CELL = 40;
const LEFT = 12;

function drawingOf(picture, open) {
  const { config, shapes } = picture;
  const strokes = [];
  const parts = [];
  const texts = [];
  const frames = [];
  const memoryEntries = []; // where the memory goes in: {x, y}
  const tops = {};

  function part(address, x, y, width, height, title, kind, more = {}) {
    parts.push({ part: address, x, y, width, height, title, shape: shapeText(shapes[address]), kind, ...more });
  }
  const line = (points, kind = "flow", arrow = true) => strokes.push({ points, kind, arrow });
  const text = (x, y, words, kind, anchor = "start") => texts.push({ x, y, words, kind, anchor });

  /* The value on the residual stream at this height: a small label on the right of the line. */
  function onStream(address, spine, y, kind) {
    part(address, spine + 12, y - 13, 84, 26, "", "stream", { dot: spine, hue: kind });
  }

  function cells(x, y, row, kind) {
    const inner = BOX - 16;
    const width = (inner - 6 * (row.length - 1)) / row.length;
    row.forEach(([address, title], i) => part(address, x + 8 + i * (width + 6), y, width, CELL, title, kind, { cell: true }));
    return width;
  }

  /* One sub-layer, its lowest point at y; gives back its highest. */
  function sublayer(stack, layer, kind, spine, x, y) {
    const base = `${stack}.layers.${layer}`;
    const [norm, out, after] = {
      self_attn: ["attn_norm", "hook_attn_out", "hook_resid_mid"],
      cross_attn: ["cross_norm", "hook_cross_attn_out", "hook_resid_mid_cross"],
      feed_forward: ["mlp_norm", "hook_mlp_out", "hook_resid_post"],
    }[kind];
    const hue = kind === "feed_forward" ? "feed" : kind === "cross_attn" ? "cross" : stack === "encoder" ? "encoder-self" : "decoder-self";
    const isAttention = kind !== "feed_forward";
    const height = (isAttention ? 3 * CELL + 2 * 14 : CELL) + 34;
    let bottom = y - 10;
    if (config.norm_first) {
      part(`${base}.${norm}.hook_norm_out`, x, bottom - 28, BOX, 28, t("xray.part_norm_out"), "norm");
      line([[spine, bottom - 14], [x + BOX + 2, bottom - 14]]);
      bottom -= 28 + 14;
    }
    const top = bottom - height;
    frames.push({ x, y: top, width: BOX, height, hue, title: t(`xray.inner_${kind}`) });
    const low = bottom - 8 - CELL; // the lowest row of cells
    const a = `${base}.${kind}`;
    if (isAttention) {
      const middle = low - CELL - 14;
      const cross = kind === "cross_attn";
      const row = ["q", "k", "v"].map((name) => [`${a}.hook_${name}`, name]);
      // The memory comes from the left, so its keys and values stand there.
      const width = cells(x, low, cross ? [row[1], row[2], row[0]] : row, hue);
      cells(x, middle, [[`${a}.hook_attn_scores`, t("xray.short_scores")], [`${a}.hook_pattern`, t("xray.short_weights")]], hue);
      cells(x, middle - CELL - 14, [[`${a}.hook_z`, "z"], [`${base}.${out}`, t("xray.short_out")]], hue);
      const at = (i) => x + 8 + width / 2 + i * (width + 6);
      const [q, k, v] = cross ? [2, 0, 1] : [0, 1, 2];
      const scores = x + 8 + (BOX - 22) / 4;
      const weights = scores + (BOX - 10) / 2;
      line([[at(q), low], [at(q), low - 7], [scores + (cross ? 20 : -20), low - 7], [scores + (cross ? 20 : -20), middle + CELL + 1]], "thin");
      const atScores = cross ? at(k) : scores + 24;
      line([[at(k), low], [at(k), low - 7], [atScores, low - 7], [atScores, middle + CELL + 1]], "thin");
      line([[scores + (BOX - 22) / 4, middle + CELL / 2], [weights - (BOX - 22) / 4, middle + CELL / 2]], "thin");
      line([[weights, middle], [weights, middle - 7], [scores, middle - 7], [scores, middle - 13]], "thin");
      line([[at(v) + 18, low], [at(v) + 18, low - 5], [x + BOX - 4, low - 5], [x + BOX - 4, middle - 7], [weights, middle - 7]], "thin", false);
      const upper = middle - CELL - 14;
      line([[scores + (BOX - 22) / 4, upper + CELL / 2], [weights - (BOX - 22) / 4, upper + CELL / 2]], "thin");
      if (cross) memoryEntries.push({ x, y: low + CELL / 2 });
      if (config.norm_first) {
        const into = cross ? at(2) : x + BOX / 2;
        line([[into, bottom + 14], [into, bottom + 1]]);
      }
    } else {
      cells(x, low, [[`${a}.hook_hidden`, t("xray.short_hidden")], [`${base}.${out}`, t("xray.short_out")]], hue);
      const half = x + BOX / 2;
      line([[half - 3, low + CELL / 2], [half + 3, low + CELL / 2]], "thin", false);
      if (config.norm_first) line([[half, bottom + 14], [half, bottom + 1]]);
    }
    if (!config.norm_first) line([[spine, bottom - 6], [x + BOX + 1, bottom - 6]]);
    const plus = top + 34 + CELL / 2 - 8;
    line([[x + BOX - 8, plus], [spine - 12, plus]]);
    strokes.push({ plus: [spine, plus] });
    if (config.norm_first) {
      onStream(`${base}.${after}`, spine, top + 4, hue);
      return top - 14;
    }
    part(`${base}.${norm}.hook_norm_out`, spine - 96, top - 38, 116, 28, t("xray.part_norm_out"), "norm", { small: true });
    onStream(`${base}.${after}`, spine, top - 54, hue);
    return top - 74;
  }

  function layer(stack, index, n, kinds, spine, x, y) {
    const base = `${stack}.layers.${index}`;
    onStream(`${base}.hook_resid_pre`, spine, y - 10, "stream");
    y -= 28;
    const name = n > 1 ? t("xray.layer_of", { n: index + 1, of: n }) : t("xray.layer_n", { n: 1 });
    if (open[stack] !== index) {
      parts.push({ unfold: index, stack, x, y: y - 46, width: BOX, height: 46, title: name, shape: t("xray.folded"), kind: "folded" });
      line([[spine, y - 10], [x + BOX + 2, y - 10]]);
      line([[x + BOX, y - 36], [spine - 12, y - 36]]);
      strokes.push({ plus: [spine, y - 36] });
      if (stack === "decoder") memoryEntries.push({ x, y: y - 23 });
      return y - 62;
    }
    const bottom = y;
    for (const kind of kinds) y = sublayer(stack, index, kind, spine, x, y);
    y -= 8;
    frames.unshift({ x: x - 8, y: y - 18, width: BOX + TO_SPINE + 18, height: bottom - y + 20, hue: "layer", title: name });
    return y - 28;
  }

  function stackOf(stack, left) {
    const x = left;
    const spine = left + BOX + TO_SPINE;
    const side = stack === "encoder" ? "src" : "tgt";
    const n = stack === "encoder" ? config.n_encoder_layers : config.n_decoder_layers;
    const tokens = stack === "encoder" ? picture.source : picture.target;
    let y = 0;
    text(x, y, t(`xray.reads_${stack}`, { n: tokens.length }), "note");
    y -= 24;
    const half = (BOX - 8) / 2;
    part(`${side}_embedding.hook_embed`, x, y - 44, half, 44, t("xray.part_embed"), "embed", { cell: true });
    part(`${side}_embedding.hook_pos_embed`, x + half + 8, y - 44, half, 44, t("xray.part_pos_embed"), "embed", { cell: true });
    line([[x + half / 2, y - 44], [x + half / 2, y - 58], [spine - 12, y - 58]]);
    line([[x + half * 1.5 + 8, y - 44], [x + half * 1.5 + 8, y - 58]], "flow", false);
    strokes.push({ plus: [spine, y - 58] });
    const start = y - 58;
    y -= 78;
    const kinds = stack === "encoder" ? ["self_attn", "feed_forward"] : ["self_attn", "cross_attn", "feed_forward"];
    for (let index = 0; index < n; index += 1) y = layer(stack, index, n, kinds, spine, x, y);
    if (config.norm_first) {
      part(`${stack}.final_norm.hook_norm_out`, spine - 96, y - 30, 116, 28, t("xray.part_norm_out"), "norm", { small: true });
      y -= 44;
    }
    onStream(`${stack}.hook_out`, spine, y - 8, stack === "encoder" ? "memory" : "stream");
    if (stack === "encoder") {
      tops.memory = { x: spine, y: y - 8 };
      text(x + BOX - 8, y - 4, t("xray.memory"), "memory", "end");
      strokes.push({ spine: [spine, start, y - 8] });
      return y - 24;
    }
    y -= 36;
    part("hook_logits", x, y - 44, BOX + TO_SPINE + 20, 44, t("xray.part_logits"), "head");
    strokes.push({ spine: [spine, start, y] });
    line([[x + BOX / 2, y - 44], [x + BOX / 2, y - 57]]);
    part("probabilities", x, y - 102, BOX + TO_SPINE + 20, 44, t("xray.part_probabilities"), "head");
    return y - 110;
  }

  const right = LEFT + COLUMN + CHANNEL;
  const heights = { encoder: stackOf("encoder", LEFT), decoder: stackOf("decoder", right) };
  for (const stack of ["encoder", "decoder"])
    text(stack === "encoder" ? LEFT : right, heights[stack] - 12, t(`xray.stack_${stack}`), "title");
  // The memory: out of the encoder's end, along the channel, into every cross-attention.
  const channel = LEFT + COLUMN + CHANNEL / 2 - 12;
  const highest = Math.min(tops.memory.y, ...memoryEntries.map((entry) => entry.y));
  const lowest = Math.max(tops.memory.y, ...memoryEntries.map((entry) => entry.y));
  line([[tops.memory.x + 98, tops.memory.y], [channel, tops.memory.y]], "memory", false);
  line([[channel, highest], [channel, lowest]], "memory", false);
  for (const entry of memoryEntries) line([[channel, entry.y], [entry.x - 2, entry.y]], "memory");
  const top = Math.min(heights.encoder, heights.decoder) - 34;
  return { width: right + COLUMN + 4, height: 14 - top, top, strokes, parts, texts, frames };
}

function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function words(x, y, content, className, anchor = "middle") {
  return svg("text", { x, y, class: className, "text-anchor": anchor }, document.createTextNode(content));
}

/* One part as a button: a box with its name and shape. */
function partNode(part) {
  const { x, y, width, height, title, shape, kind } = part;
  const label = part.part ? [...partWords(part.part).places, partWords(part.part).name].join(", ") : title;
  const made = svg("g", { class: `gf-xray-part gf-xray-${kind}`, role: "button", tabindex: -1, "aria-label": `${label} ${shape}` });
  if (part.part) made.dataset.part = part.part;
  else Object.assign(made.dataset, { unfold: part.unfold, stack: part.stack });
  const middle = x + width / 2;
  if (part.dot !== undefined) made.append(svg("circle", { cx: part.dot, cy: y + height / 2, r: 6 }));
  made.append(svg("rect", { x, y, width, height, rx: 7 }));
  if (kind === "stream") made.append(words(middle, y + height / 2 + 5, shape, "gf-xray-shape"));
  else if (kind === "norm") made.append(part.small
    ? words(middle, y + height / 2 + 5, title, "gf-xray-name")
    : words(x + 12, y + height / 2 + 5, title, "gf-xray-name", "start"));
  else made.append(words(middle, y + height / 2 - 3, title, "gf-xray-name"), words(middle, y + height / 2 + 14, shape, "gf-xray-shape"));
  if (kind === "norm" && !part.small) made.append(words(x + width - 12, y + height / 2 + 5, shape, "gf-xray-shape", "end"));
  return made;
}

function drawPicture(picture, open) {
  const drawing = drawingOf(picture, open);
  const made = svg("svg", {
    viewBox: `0 ${drawing.top} ${drawing.width} ${drawing.height}`, width: drawing.width, height: drawing.height,
    role: "group", "aria-label": t("xray.picture_label", { model: picture.model }),
  });
  const marker = (id, className) => svg("marker", { id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto", markerUnits: "userSpaceOnUse" }, svg("path", { d: "M0 0L8 4L0 8z", class: className }));
  made.append(svg("defs", {}, marker("gf-xray-arrow", "gf-xray-arrow"), marker("gf-xray-arrow-memory", "gf-xray-arrow-memory")));
  for (const frame of drawing.frames) {
    const { x, y, width, height } = frame;
    made.append(svg("rect", { x, y, width, height, rx: 11, class: `gf-xray-frame gf-xray-hue-${frame.hue}` }));
  }
  for (const { spine } of drawing.strokes)
    if (spine) made.append(svg("path", { d: `M${spine[0]} ${spine[1]}V${spine[2]}`, class: "gf-xray-spine" }));
  for (const stroke of drawing.strokes) {
    if (!stroke.points) continue;
    const line = svg("path", { d: `M${stroke.points.map((point) => point.join(" ")).join("L")}`, class: `gf-xray-line gf-xray-line-${stroke.kind}` });
    if (stroke.arrow) line.setAttribute("marker-end", `url(#gf-xray-arrow${stroke.kind === "memory" ? "-memory" : ""})`);
    made.append(line);
  }
  for (const { plus } of drawing.strokes)
    if (plus) made.append(svg("circle", { cx: plus[0], cy: plus[1], r: 10, class: "gf-xray-plus" }), svg("path", { d: `M${plus[0] - 5} ${plus[1]}h10M${plus[0]} ${plus[1] - 5}v10`, class: "gf-xray-plus-sign" }));
  for (const frame of drawing.frames)
    made.append(words(frame.x + (frame.hue === "layer" ? 10 : 12), frame.y + (frame.hue === "layer" ? 17 : 20), frame.title, `gf-xray-title gf-xray-title-${frame.hue}`, "start"));
  for (const { x, y, words: content, kind, anchor } of drawing.texts) made.append(words(x, y, content, `gf-xray-text-${kind}`, anchor));
  made.append(...drawing.parts.map(partNode));
  return made;
}
