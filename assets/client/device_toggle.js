/* CPU or GPU. Event: "choose" {device}. */
const note = element.querySelector(".gf-device-note");
const [cpu, gpu] = element.querySelectorAll("button");

function draw() {
  const found = JSON.parse(props.value);
  const onGpu = found.chosen !== "cpu";
  cpu.setAttribute("aria-pressed", String(!onGpu));
  gpu.setAttribute("aria-pressed", String(onGpu));
  gpu.setAttribute("aria-disabled", String(!found.gpu));
  note.textContent = found.gpu ? found.gpu_name : glassformer.t("header.no_gpu");
  gpu.title = found.gpu ? found.gpu_name : glassformer.t("header.no_gpu_why");
}

cpu.addEventListener("click", () => trigger("choose", { device: "cpu" }));
gpu.addEventListener("click", () => {
  const found = JSON.parse(props.value);
  if (found.gpu) trigger("choose", { device: found.gpu });
  else note.textContent = glassformer.t("header.no_gpu_why");
});
watch("value", draw);
glassformer.on("language", element, draw);
glassformer.translate(element);
draw();
