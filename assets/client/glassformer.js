/* What every view in the browser shares: the words, the colours, the current run and the one selection.
   A view subscribes with glassformer.on(event, element, callback); the subscription ends with the element.
   Events: "language", "theme", "trace" (a new run), "selection" (step, kind, layer, head, query or key changed). */
window.glassformer = (() => {
  const strings = window.glassformerStrings;
  const query = new URLSearchParams(window.location.search);
  const wanted = query.get("lang") || navigator.language || "en";
  const state = {
    language: wanted.toLowerCase().startsWith("zh") ? "zh" : "en",
    trace: null,
    // Layers and heads count from 0. step: how many tokens are written. query and key: a pinned row and column.
    selection: { step: 0, kind: "cross", layer: 0, head: 0, query: null, key: null },
  };
  const subscriptions = new Set();

  function on(event, element, callback) {
    subscriptions.add({ event, element, callback });
  }

  function emit(event, detail) {
    for (const subscription of [...subscriptions]) {
      if (!subscription.element.isConnected) subscriptions.delete(subscription);
      else if (subscription.event === event) subscription.callback(detail);
    }
  }

  /* The words of a key in the visitor's language, {name} filled in. */
  function t(key, values = {}) {
    const words = strings[state.language][key];
    if (words === undefined) throw new Error(`no words for ${key}`);
    return words.replace(/\{(\w+)\}/g, (_, name) => String(values[name]));
  }

  /* Elements with data-text="key" (and data-label for aria-label) get their words from here. */
  function translate(root = document) {
    for (const element of root.querySelectorAll("[data-text]")) element.textContent = t(element.dataset.text);
    for (const element of root.querySelectorAll("[data-label]")) {
      element.setAttribute("aria-label", t(element.dataset.label));
      if (element.tagName === "BUTTON") element.title = t(element.dataset.label);
    }
  }

  function setLanguage(language) {
    state.language = language;
    document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
    translate();
    emit("language");
  }

  /* A base64 array {dtype, shape, data} as a typed array. uint16 holds weights as 65535ths. */
  function decodeArray({ dtype, data }) {
    const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
    const type = { uint8: Uint8Array, uint16: Uint16Array, float32: Float32Array }[dtype];
    return new type(bytes.buffer);
  }

  /* A new run: its patterns are decoded once, here, for every view. */
  function setTrace(trace) {
    for (const pattern of Object.values(trace.patterns)) pattern.values = decodeArray(pattern);
    state.trace = trace;
    const { selection } = state;
    const layers = trace.patterns[selection.kind].shape[0];
    const heads = trace.patterns[selection.kind].shape[1];
    state.selection = {
      ...selection,
      step: trace.step ?? trace.steps.length,
      layer: Math.min(selection.layer, layers - 1),
      head: Math.min(selection.head, heads - 1),
      query: null,
      key: null,
    };
    emit("trace");
    emit("selection", { ...state.selection, changed: Object.keys(state.selection) });
  }

  /* The weights of one head: rows, columns and get(row, column) in 0..1. */
  function headPattern(kind, layer, head, trace = state.trace) {
    const { shape, values } = trace.patterns[kind];
    const [, heads, rows, columns] = shape;
    const start = (layer * heads + head) * rows * columns;
    return { rows, columns, get: (row, column) => values[start + row * columns + column] / 65535 };
  }

  /* Tokens that ask (rows) and tokens that are asked (columns) of a kind of attention. */
  function queryTokens(kind, trace = state.trace) {
    return kind === "encoder_self" ? trace.source : trace.target_in;
  }
  function keyTokens(kind, trace = state.trace) {
    return kind === "decoder_self" ? trace.target_in : trace.source;
  }

  /* Change the one selection that all views share. */
  function select(patch) {
    const next = { ...state.selection, ...patch };
    if (state.trace && patch.kind && patch.kind !== state.selection.kind) {
      const [layers, heads] = state.trace.patterns[patch.kind].shape;
      next.layer = Math.min(next.layer, layers - 1);
      next.head = Math.min(next.head, heads - 1);
      if (patch.query === undefined) next.query = null;
      if (patch.key === undefined) next.key = null;
    }
    const changed = Object.keys(next).filter((name) => next[name] !== state.selection[name]);
    if (!changed.length) return;
    state.selection = next;
    emit("selection", { ...next, changed });
  }

  /* The palette of the theme in force, by the names of viz/theme.py. */
  function colour(name) {
    return getComputedStyle(document.body).getPropertyValue(`--gf-${name}`).trim();
  }

  function isDark() {
    return document.body.classList.contains("dark");
  }

  const rgb = (hex) => [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));

  /* 256 colours of a scale ("sequential" or "diverging") as [r, g, b], for painting on a canvas. */
  function scale(name) {
    const stops = [0, 1, 2, 3, 4].map((i) => rgb(colour(`${name}-${i}`)));
    return Array.from({ length: 256 }, (_, i) => {
      const place = (i / 255) * 4;
      const from = Math.min(3, Math.floor(place));
      return stops[from].map((start, c) => Math.round(start + (stops[from + 1][c] - start) * (place - from)));
    });
  }

  /* An element with its class and its children: nodes, or texts that are set as text. */
  function node(tag, className, ...children) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    made.append(...children);
    return made;
  }

  /* A chip for one token: {label, unknown, special}. Its text is set as text, so nothing in it is markup. */
  function tokenChip(token, tag = "button") {
    const chip = document.createElement(tag);
    if (tag === "button") chip.type = "button";
    chip.className = "gf-chip";
    chip.classList.toggle("gf-chip-special", Boolean(token.special));
    chip.classList.toggle("gf-chip-unknown", Boolean(token.unknown));
    chip.textContent = token.label;
    chip.dir = "auto";
    return chip;
  }

  /* Call refresh(version) whenever the element is on show and was made for another run or language.
     version() changes with either; a view that is never looked at costs nothing. */
  function version() {
    return state.trace ? `${state.trace.id}|${state.language}` : "";
  }
  function whenStale(element, refresh) {
    let made = null;
    let visible = false;
    const check = () => {
      if (!visible || !state.trace || made === version()) return;
      made = version();
      refresh(made);
    };
    new IntersectionObserver((entries) => {
      visible = entries[entries.length - 1].isIntersecting;
      check();
    }).observe(element);
    on("trace", element, check);
    on("language", element, check);
  }

  /* A canvas sized for the screen's pixels; returns its context, in CSS pixels. */
  function fitCanvas(canvas, width, height) {
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(height * ratio));
    if (canvas.style) Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` }); // else it is off screen
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return context;
  }

  document.documentElement.lang = state.language === "zh" ? "zh-CN" : "en";
  new MutationObserver((changes) => {
    if (changes.some((change) => change.attributeName === "class")) emit("theme");
  }).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  // Parts of the page are mounted late (a tab at its first visit): word them as they come.
  new MutationObserver((changes) => {
    for (const change of changes)
      for (const node of change.addedNodes)
        if (node.nodeType === Node.ELEMENT_NODE && (node.matches("[data-text],[data-label]") || node.querySelector("[data-text],[data-label]")))
          translate(node.parentElement || document);
  }).observe(document.body, { childList: true, subtree: true });

  return {
    on, t, translate, setLanguage, setTrace, select, headPattern, queryTokens, keyTokens, colour, isDark, scale,
    node, tokenChip, version, whenStale, fitCanvas, decodeArray,
    query: (name) => query.get(name),
    get language() { return state.language; },
    get trace() { return state.trace; },
    get selection() { return state.selection; },
  };
})();
