/* Where the nodes of a tree lie in pixels, and the lines between them. Rows come from the server, which knows no fonts. */

const ROW = 40;
const GAPS = [26, 40]; // between columns: room for the lines to bend, more where there is room
const END_WIDTH = 220; // about what stands behind an output
const EDGE = 10;
const SEARCHES = ["greedy", "beam", "sample"];

/* Which searches pass through a node, and whether it is there only because beam search considered it. */
function searchesOf(tree, node) {
  return SEARCHES.filter((search) => ({ greedy: tree.greedy[node], beam: tree.beams[node].length, sample: tree.samples[node].length })[search]);
}

/* Left edges of the columns and their widths. widths: of each node; room: in px, if it can be had. */
function columnsOf(tree, widths, visible, room) {
  const widest = Array(Math.max(...tree.depths) + 1).fill(0);
  tree.depths.forEach((depth, node) => {
    if (visible[node]) widest[depth] = Math.max(widest[depth], widths[node]);
  });
  const taken = widest.reduce((sum, width) => sum + width, 2 * EDGE + END_WIDTH);
  const gap = Math.min(GAPS[1], Math.max(GAPS[0], (room - taken) / Math.max(1, widest.filter(Boolean).length - 1)));
  const lefts = [EDGE];
  for (const width of widest) lefts.push(lefts[lefts.length - 1] + width + gap);
  return { lefts, widest };
}

const middle = (row) => EDGE + row * ROW + ROW / 2;

/* From the right edge of a node straight to the gap, then in an S to the child. */
function linePath(from, turn, to, fromY, toY) {
  if (fromY === toY) return `M${from} ${fromY}H${to}`;
  const half = (turn + to) / 2;
  return `M${from} ${fromY}H${turn}C${half} ${fromY} ${half} ${toY} ${to} ${toY}`;
}

function svgPath(d, className, width) {
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", d);
  path.setAttribute("class", className);
  if (width) path.style.strokeWidth = `${width}px`;
  return path;
}

/* The strands of one edge, one a search, side by side: thick and full where the token is likely. */
function strandsOf({ from, turn, to, fromY, toY, searches, probability }) {
  if (!searches.length) return [svgPath(linePath(from, turn, to, fromY, toY), "gf-tree-line gf-tree-line-pruned")];
  const width = 1.5 + 4 * probability;
  const step = width + 1.5;
  return searches.map((search, i) => {
    const shift = (i - (searches.length - 1) / 2) * step;
    const path = svgPath(linePath(from, turn, to, fromY + shift, toY + shift), `gf-tree-line gf-tree-line-${search}`, width);
    path.style.opacity = (0.5 + 0.5 * probability).toFixed(2);
    return path;
  });
}
