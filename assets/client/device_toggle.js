/* CPU or GPU. A GPU that is not there is crossed out; pressing it says why. Event: "choose" {device}. */
const note = element.querySelector(".gf-device-note");
const [cpu, gpu] = element.querySelectorAll("button");

function draw() {
  const found = JSON.parse(props.value);
  const onGpu = found.chosen !== "cpu";
  cpu.setAttribute("aria-pressed", String(!onGpu));
  gpu.setAttribute("aria-pressed", String(onGpu));
  gpu.setAttribute("aria-disabled", String(!found.gpu));
  note.textContent = "";
  gpu.setAttribute("aria-label", found.gpu ? `GPU: ${found.gpu_name}` : `GPU: ${glassformer.t("header.no_gpu")}`);
  gpu.title = found.gpu ? found.gpu_name : glassformer.t("header.no_gpu_why");
}

cpu.addEventListener("click", () => trigger("choose", { device: "cpu" }));
gpu.addEventListener("click", () => {
  const found = JSON.parse(props.value);
  if (found.gpu) trigger("choose", { device: found.gpu });
  else note.textContent = note.textContent ? "" : glassformer.t("header.no_gpu_why");
});
document.addEventListener("click", (event) => {
  if (!element.contains(event.target)) note.textContent = "";
});
watch("value", draw);
glassformer.on("language", element, draw);
glassformer.translate(element);
draw();
