{
  /* Every text a person can read or have read to them: [text, where, whether it is code]. */
  visibleTexts() {
    const LABELS = ["aria-label", "title", "placeholder", "alt", "aria-description"];
    const where = (element) => {
      const names = [];
      for (let at = element; at && names.length < 3; at = at.parentElement) {
        const ours = [...at.classList].filter((name) => name.startsWith("gf-"));
        names.unshift([at.tagName.toLowerCase(), ...ours].join("."));
      }
      return names.join(" > ");
    };
    const seen = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const text = walker.currentNode.textContent.trim();
      const parent = walker.currentNode.parentElement;
      if (!text || !parent || parent.closest("script, style, noscript") || !parent.checkVisibility()) continue;
      seen.push([text, where(parent), Boolean(parent.closest("code, pre, math, .gf-code"))]);
    }
    for (const element of document.body.querySelectorAll(LABELS.map((name) => `[${name}]`).join()))
      for (const name of LABELS) {
        const text = element.getAttribute(name)?.trim();
        if (text && element.checkVisibility()) seen.push([text, `${where(element)} (${name})`, false]);
      }
    return seen;
  },

  /* What makes the page scroll sideways. */
  tooWide() {
    const page = document.documentElement;
    const width = page.clientWidth;
    if (page.scrollWidth <= width) return [];
    const right = (element) => Math.round(element.getBoundingClientRect().right);
    // Inside a box that scrolls by itself and fits, anything may be wide.
    const inAScrollingBox = (element) => {
      for (let at = element.parentElement; at && at !== page; at = at.parentElement)
        if (getComputedStyle(at).overflowX !== "visible" && right(at) <= width + 1) return true;
      return false;
    };
    const guilty = [...document.body.querySelectorAll("*")]
      .filter((element) => element.checkVisibility() && right(element) > width + 1 && !inAScrollingBox(element))
      .map((element) => `${element.tagName.toLowerCase()}.${[...element.classList].join(".")} to ${right(element)} px`);
    return [`the page is ${page.scrollWidth} px wide in a window of ${width} px: ${guilty.slice(-6).join("; ")}`];
  },

  /* Canvases and plots on show that have no size, were never drawn, or were drawn for another width. */
  badlySized() {
    const wrong = [];
    for (const element of document.querySelectorAll("canvas, .gf-chart-plot, .main-svg")) {
      if (!element.checkVisibility()) continue;
      const { width, height } = element.getBoundingClientRect();
      const view = element.closest("[id]")?.id || "the page";
      const name = `${element.tagName.toLowerCase()}.${element.getAttribute("class")} in ${view}`;
      if (width < 2 || height < 2) wrong.push(`${name} is ${width} x ${height} px`);
      if (!element.matches(".gf-chart-plot")) continue;
      const drawing = element.querySelector(".main-svg");
      if (!drawing) wrong.push(`${name} was never drawn`);
      else if (Math.abs(drawing.getBoundingClientRect().width - width) > 2)
        wrong.push(`${name} is ${width} px wide, its drawing ${drawing.getBoundingClientRect().width} px`);
    }
    return wrong;
  },

  /* From top to bottom and back: views are drawn when they come into sight. */
  async scrollThrough() {
    const frames = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    for (let y = 0; y < document.documentElement.scrollHeight; y += innerHeight / 2) {
      window.scrollTo(0, y);
      await frames();
    }
    window.scrollTo(0, 0);
    await frames();
  },
}
