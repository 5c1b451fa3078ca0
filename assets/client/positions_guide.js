/* What kind of positions this model has. Event: "refresh" {version} when any part of the tab is on show and stale. */
const line = element.querySelector(".gf-positions-guide");

function draw() {
  if (!props.value) return;
  const { kind, d_model: width, max_len: longest, shown } = JSON.parse(props.value);
  const sentences = [glassformer.t(`positions.guide_${kind}`, { width, longest })];
  if (shown < longest) sentences.push(glassformer.t("positions.guide_shown", { shown, longest }));
  line.textContent = sentences.join(" ");
  line.classList.toggle("gf-positions-none", kind === "none");
}

watch("value", draw);
glassformer.on("language", element, draw);
glassformer.whenStale(element.closest("[role=tabpanel]") || element, (version) => trigger("refresh", { version }));
draw();
