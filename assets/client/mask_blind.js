/* The query that is to see nothing, and whether it does. Told to the controls of the tab by "gf-blind" on the panel. */
const panel = element.closest("[role=tabpanel]") || element;
const [box, query] = [element.querySelector("input"), element.querySelector("select")];
const { t } = glassformer;
let shown = null;

function draw() {
  const { trace } = glassformer;
  if (!trace) return;
  if (shown !== trace.id) {
    shown = trace.id;
    query.replaceChildren(...trace.target_in.map((token, i) => new Option(`${i}: ${token.label}`, String(i))));
    query.value = String(Math.floor((trace.target_in.length - 1) / 2));
  }
  query.disabled = !box.checked;
  const token = trace.target_in[Number(query.value)];
  element.querySelector(".gf-blind-says").textContent = t(box.checked ? "masks.blind_on" : "masks.blind_off", { query: query.value, token: token.label });
}

function tell() {
  draw();
  panel.dispatchEvent(new CustomEvent("gf-blind", { detail: { blind: Number(query.value), is_blind: box.checked } }));
}

box.addEventListener("change", tell);
query.addEventListener("change", tell);
glassformer.on("trace", element, tell);
glassformer.on("language", element, draw);
glassformer.translate(element);
draw();
