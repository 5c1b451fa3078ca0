/* What decoding and one layer take on this machine, measured when the button is pressed: one measurement a question, so that
   others are served in between. Event: "measure" {what, device, asked}; asked comes back with the answer. */
const at = (name) => element.querySelector(`.gf-cost-${name}`);
const button = at("button");
const problem = at("problem");
const [drawDecoding, drawTime, drawMemory] = ["decoding", "time", "memory"].map((name) => makeChart(at(name).querySelector(".gf-cost-plot")));
let found = {}; // by device: {decoding, layer}
let queue = [];
let n_asked = 0;
let n_done = 0;
let asked = "";
let shown = "cpu";
let refused = null;
let patience = null;
const PATIENCE = 120_000; // for an answer that waits in line; one that is lost (the server was full) is given up

function ask() {
  const [what, device] = queue[0];
  asked = `${n_asked}|${n_done}`;
  trigger("measure", { what, device, asked });
  clearTimeout(patience);
  patience = setTimeout(() => {
    [asked, queue] = ["", []];
    drawStatus();
  }, PATIENCE);
  drawStatus();
}

function start() {
  n_asked += 1;
  [found, n_done, refused, shown] = [{}, 0, null, "cpu"];
  queue = [["decoding", "cpu"], ["layer", "cpu"]];
  ask();
}

function receive() {
  if (!props.value) return;
  const answer = JSON.parse(props.value);
  if (answer.asked !== asked) return;
  asked = "";
  clearTimeout(patience);
  refused = answer.problem ?? null;
  if (refused) queue = [];
  else {
    found[answer.device] = { ...found[answer.device], [answer.what]: answer };
    if (n_done === 0)
      for (const device of Object.keys(answer.devices)) if (device !== "cpu") queue.push(["decoding", device], ["layer", device]);
    n_done += 1;
    queue.shift();
    if (queue.length) ask();
  }
  draw(true);
}

const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const BUSY = 0.2; // share of waiting from which a time says little about the model
const lastQuarter = (numbers) => numbers.slice(Math.floor(numbers.length * 0.75));

function drawStatus() {
  const isRunning = queue.length > 0;
  button.disabled = isRunning;
  button.textContent = t(isRunning ? "cost.measuring" : Object.keys(found).length ? "cost.measure_again" : "cost.measure");
  problem.hidden = !refused;
  problem.textContent = refused ?? "";
  const answer = found[shown]?.decoding;
  if (!answer) {
    at("taken").textContent = isRunning ? t("cost.measuring_says") : t("cost.not_yet");
    return;
  }
  const busy = Math.max(...Object.values(found.cpu).map(({ waited }) => waited));
  at("taken").replaceChildren(
    ...filled("cost.taken", {
      device: answer.devices[shown], threads: answer.n_threads, time: new Date(answer.taken_at).toLocaleString(glassformer.language),
      model: answer.model, text: answer.text,
    }),
    ...(shown === "cpu" && busy > BUSY ? [" ", ...filled("cost.was_busy", { share: percent(busy) })] : []),
    ...(answer.run === glassformer.trace?.id ? [] : [" ", t("cost.other_run")]),
  );
}

function drawDecodingResult(answer, isNew) {
  const { places, columns, n_same: same } = answer;
  const [cached, uncached] = [columns.cached, columns.uncached].map((column) => median(lastQuarter(column)));
  const ratio = uncached / cached;
  const key = ratio > 1.15 ? "cost.decoding_pays" : answer.waited > BUSY ? null : "cost.decoding_small";
  at("decoding").querySelector("p").replaceChildren(
    ...filled("cost.decoding_text", { cached: milliseconds(cached), uncached: milliseconds(uncached), from: lastQuarter(places)[0], to: places[places.length - 1] }),
    ...(key ? [" ", t(key, { ratio: ratio.toFixed(1) })] : []),
    " ", ...filled(same === places.length ? "cost.same_tokens" : "cost.nearly_same_tokens", { n: places.length, same }),
  );
  const points = (column) => places.map((place, i) => [place, column[i]]);
  const mark = Math.min(answer.n_written, places[places.length - 1]);
  drawDecoding({
    label: t("cost.decoding_title"),
    series: [
      { name: t("cost.uncached"), colour: "decoder-self", points: points(columns.uncached) },
      { name: t("cost.cached"), colour: "accent", points: points(columns.cached) },
    ],
    x: { name: t("cost.token_axis"), show: whole, at: (n) => t("cost.token_n", { n }) },
    y: { name: t("cost.milliseconds_axis"), cuts: true, show: milliseconds, tick: tiny },
    mark: { x: mark, name: t("cost.text_ends", { n: mark }) },
    at: places[places.length - 1],
  }, isNew);
}

function drawLayerResult(answer, isNew) {
  const { places, columns, exponents } = answer;
  const last = places[places.length - 1];
  const x = { name: t("cost.length_axis"), log: true, ticks: places, show: whole, at: (n) => t("cost.length_n", { n: whole(n) }) };
  const points = (column) => places.map((place, i) => [place, column[i]]);
  const key = exponents.attention === null ? "cost.layer_short" : "cost.layer_text";
  at("time").querySelector("p").replaceChildren(...filled(key, {
    attention: powerOf(exponents.attention), feed_forward: powerOf(exponents.feed_forward), n: whole(last),
    time: milliseconds(columns.attention[places.length - 1]),
  }));
  const line = (part, colour) => ({
    name: t(`cost.measured_${part}`), colour, points: points(columns[part]), tail: exponents[part] === null ? null : () => powerOf(exponents[part]),
  });
  drawTime({
    label: t("cost.layer_title"),
    series: [["attention", "bad"], ["feed_forward", "muted"], ["projections", "encoder-self"]].map(([part, colour]) => line(part, colour)),
    x,
    y: { name: t("cost.milliseconds_axis_log"), log: true, show: milliseconds, tick: (value) => String(Number(value.toPrecision(2))) },
    at: last,
  }, isNew);
  const growth = exponents.bytes;
  at("memory").querySelector("p").replaceChildren(...filled(growth === null ? "cost.memory_short" : "cost.memory_text", { bytes: bytes(columns.bytes[places.length - 1]), n: whole(last), growth: powerOf(growth) }));
  drawMemory({
    label: t("cost.memory_title"),
    series: [line("bytes", "bad")],
    x,
    y: { name: t("cost.bytes_axis"), log: true, show: bytes, tick: bytes },
    at: last,
  }, isNew);
}

/* CPU beside GPU; or that there is none. */
function drawCompared() {
  const gpu = Object.keys(found).find((device) => device !== "cpu");
  const known = found.cpu?.decoding?.devices ?? {};
  if (!gpu) {
    at("compared").textContent = Object.keys(known).length > 1 ? "" : t("cost.no_gpu");
    return;
  }
  if (!found[gpu].layer || !found[gpu].decoding) return;
  const shared = found.cpu.layer.places.filter((place) => found[gpu].layer.places.includes(place));
  const longest = shared[shared.length - 1];
  const token = (device) => median(found[device].decoding.columns.cached);
  const layer = (device) => found[device].layer.columns.attention[found[device].layer.places.indexOf(longest)];
  at("compared").replaceChildren(...filled("cost.compared", {
    gpu: known[gpu], n: whole(longest), cpu_token: milliseconds(token("cpu")), gpu_token: milliseconds(token(gpu)),
    cpu_layer: milliseconds(layer("cpu")), gpu_layer: milliseconds(layer(gpu)),
  }));
}

function draw(isNew) {
  drawStatus();
  const devices = Object.keys(found);
  at("results").hidden = !devices.length;
  if (!devices.length) return;
  at("devices").hidden = devices.length < 2;
  at("devices").replaceChildren(...devices.map((device) => {
    const made = node("button", "", found[device].decoding?.devices[device] ?? device);
    made.type = "button";
    made.setAttribute("aria-pressed", String(device === shown));
    made.addEventListener("click", () => { shown = device; draw(true); });
    return made;
  }));
  const { decoding, layer } = found[shown];
  at("time").hidden = at("memory").hidden = !layer;
  if (decoding) drawDecodingResult(decoding, isNew === true);
  if (layer) drawLayerResult(layer, isNew === true);
  drawCompared();
}

button.addEventListener("click", start);
glassformer.on("language", element, draw);
glassformer.on("trace", element, drawStatus);
watch("value", receive);
glassformer.translate(element);
drawStatus();
