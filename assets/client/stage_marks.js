/* What a step lays over the maps: a veil over the rows that have not asked yet, and outlines around the row and the
   column in question. The maps beneath are painted once. These are elements that are only moved, so a step paints
   nothing: the browser puts layers together that it has already. All maps of a line share theirs, since layers cost. */

function makeMarks(lineWidth) {
  const element = document.createElement("div");
  element.className = "gf-marks";
  element.style.setProperty("--mark-line", `${lineWidth}px`);
  let movers = { veil: [], query: [], key: [], current: [] };
  let size = null; // {width, height, rows, columns} of one map

  /* ``lines``: top -> where each map of this line begins, in pixels. */
  function layout(lines, of) {
    size = of;
    movers = { veil: [], query: [], key: [], current: [] };
    const least = lineWidth + 1; // a row of a small map may be less than its outline
    const boxes = {
      veil: [of.width, of.height],
      query: [of.width, Math.max(of.height / of.rows, least)],
      key: [Math.max(of.width / of.columns, least), of.height],
      current: [of.width, Math.max(of.height / of.rows, least)],
    };
    element.replaceChildren(...[...lines].map(([top, lefts]) => {
      const opening = glassformer.node("div", "gf-marks-line");
      // One pixel more: a map between two pixels of the screen may reach into the second.
      Object.assign(opening.style, { top: `${top}px`, height: `${of.height + 1}px` });
      for (const [name, [width, height]] of Object.entries(boxes)) {
        const mover = glassformer.node("div", `gf-marks-${name}`, ...lefts.map((left) => {
          const box = document.createElement("span");
          Object.assign(box.style, { left: `${left}px`, width: `${width}px`, height: `${height}px` });
          return box;
        }));
        movers[name].push(mover);
        opening.append(mover);
      }
      return opening;
    }));
  }

  /* Where there is nothing to mark the mover is left out: even out of sight each is a layer of its own. */
  function move(name, place) {
    for (const mover of movers[name]) {
      setProperty(mover, "hidden", !place);
      if (place) mover.style.transform = `translate(${place[0]}px, ${place[1]}px)`;
    }
  }

  function show({ reached, query, key, current }) {
    const { width, height, rows, columns } = size;
    const [row, column] = [height / rows, width / columns];
    move("veil", reached < rows && [0, reached * row]);
    move("query", query !== null && [0, query * row]);
    move("key", key !== null && [key * column, reached * row - height]);
    move("current", current !== null && current !== query && [0, current * row]);
  }

  return { element, layout, show };
}
