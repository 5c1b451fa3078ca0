/* What the views of the X-ray share: nodes, and the name of a part from its address. */
const { t, node } = glassformer;

/* An address in words: what the value is called, and where it stands. */
function partWords(address) {
  const words = address.split(".");
  const hook = words.pop().replace("hook_", "");
  const layers = words.indexOf("layers");
  const stack = /^(src_embedding|encoder)\./.test(address) ? "encoder" : "decoder";
  const inner = layers >= 0 ? words[layers + 2] : words[1];
  const places = [];
  if (!["logits", "probabilities"].includes(hook)) places.push(t(`xray.stack_${stack}`));
  if (layers >= 0) places.push(t("xray.layer_n", { n: Number(words[layers + 1]) + 1 }));
  if (inner) places.push(t(`xray.inner_${inner}`));
  return { hook, stack, layer: layers >= 0 ? Number(words[layers + 1]) : null, inner, places, name: t(`xray.part_${hook}`) };
}

/* The name of a sub-layer or of another component of a logit: "Layer 2: cross-attention". */
function sublayerWords(name) {
  const [, , layer, kind] = name.split(".");
  return t("xray.sublayer", { n: Number(layer) + 1, kind: t(`xray.inner_${kind}`) });
}

const shapeText = (shape) => `[${shape.join(", ")}]`;

/* A number with four figures, without an exponent as long as it can be read so. */
function numberText(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 0.001 || size >= 1e6) return value.toExponential(2).replace("-", "−").replace("e-", "e−").replace("e+", "e");
  return (size >= 100 ? value.toFixed(1) : size >= 1 ? value.toFixed(2) : value.toFixed(3)).replace("-", "−");
}

function percentText(share) {
  if (share >= 0.9995 && share < 1) return "> 99.9 %";
  if (share < 0.0005) return "< 0.1 %";
  return `${(share * 100).toFixed(1)} %`;
}
