"""What each part of the network is: its formula as in the paper, its line of code, its axes and its weights.

A part is a hook point, named by its address; ``probabilities`` is the one that comes after the last of them.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from functools import cache
from pathlib import Path

from torch import nn

from transformer import decoding
from transformer.model import Transformer
from viz.arithmetic import CodeLine
from viz.tabs.attention_code import CODE_LINES

PROBABILITIES = "probabilities"
LOGITS = "hook_logits"
# In formulas _{...} stands below the line and ^{...} above it.
FORMULAS = {
    "embed": "x = E_{token} · √d_{model}",
    "norm_out": "LayerNorm(x) = (x − μ) / √(σ^{2} + ε) · g + b",
    "q": "Q_{i} = x W_{i}^{Q} + b_{i}^{Q}",
    "k": "K_{i} = {context} W_{i}^{K} + b_{i}^{K}",
    "v": "V_{i} = {context} W_{i}^{V} + b_{i}^{V}",
    "raw_scores": "Q_{i} K_{i}^{T}",
    "scaled_scores": "Q_{i} K_{i}^{T} / √d_{k}",
    "attn_scores": "Q_{i} K_{i}^{T} / √d_{k} + mask",
    "pattern": "A_{i} = softmax(Q_{i} K_{i}^{T} / √d_{k} + mask)",
    "z": "head_{i} = A_{i} V_{i}",
    "attn_out": "MultiHead(Q, K, V) = Concat(head_{1}, …, head_{h}) W^{O} + b^{O}",
    "cross_attn_out": "MultiHead(Q, K, V) = Concat(head_{1}, …, head_{h}) W^{O} + b^{O}",
    "hidden": "max(0, x W_{1} + b_{1})",
    "mlp_out": "FFN(x) = max(0, x W_{1} + b_{1}) W_{2} + b_{2}",
    "probabilities": "p = softmax(logits)",
}
POSITION_FORMULAS = {
    "sinusoidal": "PE_{(pos, 2i)} = sin(pos / 10000^{2i/d}), PE_{(pos, 2i+1)} = cos(pos / 10000^{2i/d})",
    "learned": "PE_{pos} = P_{pos}",
    "none": "PE_{pos} = 0",
}
# What is added to the stream just before the hook point of this name.
SUMS = {
    "resid_mid": "SelfAttention({x})", "resid_mid_cross": "CrossAttention({x}, memory)", "resid_post": "FFN({x})",
}
# Hook point -> which module below its owner makes its value.
MODULES = {
    "embed": "tokens", "q": "q_proj", "k": "k_proj", "v": "v_proj", "attn_out": "self_attn.out_proj",
    "cross_attn_out": "cross_attn.out_proj", "hidden": "up_proj", "mlp_out": "feed_forward.down_proj",
    "norm_out": "", "logits": "unembed",
}


def hook_of(address: str) -> str:
    """The last word of an address, without ``hook_``: ``decoder.layers.0.cross_attn.hook_q`` -> ``q``."""
    return address.rpartition(".")[2].removeprefix("hook_")


def owner_of(model: Transformer, address: str) -> nn.Module:
    """The module that a value at ``address`` passes through."""
    return model.get_submodule(address.rpartition(".")[0])


def n_parameters(model: Transformer, address: str) -> int:
    """How many weights make this value of what comes before it; 0 where nothing is learnt."""
    return sum(weight.numel() for weight in weights_of(model, address).values())


def weights_of(model: Transformer, address: str) -> dict[str, nn.Parameter]:
    """The weights that make this value of what comes before it, by their full names; none where nothing is learnt."""
    hook, place = hook_of(address), address.rpartition(".")[0]
    if hook == "pos_embed":
        positions = owner_of(model, address).positions
        return {f"{place}.positions": positions} if isinstance(positions, nn.Parameter) else {}
    if hook not in MODULES or address == PROBABILITIES:
        return {}
    module = ".".join(filter(None, (place, MODULES[hook])))
    return {f"{module}.{name}": weight for name, weight in model.get_submodule(module).named_parameters()}


def axes_of(address: str) -> tuple[str, ...]:
    """The letters of a value's axes, without the batch: S source and T target tokens, H heads, K d_head, D, F, V."""
    hook = hook_of(address)
    tokens = "S" if address.startswith(("encoder.", "src_embedding.")) else "T"
    keys = "S" if ".cross_attn." in address else tokens
    if hook in ("logits", PROBABILITIES):
        return (tokens, "V")
    if hook in ("raw_scores", "scaled_scores", "attn_scores", "pattern"):
        return ("H", tokens, keys)
    if hook in ("q", "k", "v", "z"):
        return ("H", keys if hook in "kv" else tokens, "K")
    return (tokens, "F" if hook == "hidden" else "D")


def formula_of(model: Transformer, address: str) -> str:
    """How the value is computed, in the paper's letters."""
    hook, config = hook_of(address), model.config
    if hook == "pos_embed":
        return POSITION_FORMULAS[config.positional_encoding]
    if hook in SUMS:
        if config.norm_first:
            return "x + " + SUMS[hook].replace("{x}", "LayerNorm(x)")
        return "LayerNorm(x + " + SUMS[hook].replace("{x}", "x") + ")"
    if hook == "resid_pre":
        return "x = E_{token} · √d_{model} + PE_{pos}" if ".layers.0." in address else "x"
    if hook == "out":
        return "LayerNorm(x)" if config.norm_first else "x"
    if hook == "logits":
        return "logits = x E^{T}" if config.tie_output else "logits = x W"
    return FORMULAS[hook].replace("{context}", "memory" if ".cross_attn." in address else "x")


def code_of(model: Transformer, address: str) -> CodeLine:
    """The line of the program that makes the value. Raises LookupError when the source has no such line any more."""
    if address == PROBABILITIES:
        return _statement(decoding.write, lambda node: isinstance(node, ast.Attribute) and node.attr == "log_softmax")
    hook = address.rpartition(".")[2]
    # Two values are only passed on by the line of their hook point; what makes them stands above it.
    if hook == "hook_pattern":
        return CODE_LINES["softmax"]
    method = "cross_attn" if hook == "hook_cross_attn_out" else hook
    return _line_with_call(type(owner_of(model, address)), method)


@cache
def _line_with_call(owner: type, method: str) -> CodeLine:
    def calls_it(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method

    return _statement(owner, calls_it)


def _statement(code: type | Callable, wanted: Callable[[ast.AST], bool]) -> CodeLine:
    """The last simple statement of ``code`` that has a wanted part."""
    lines, first_line = inspect.getsourcelines(code)
    file = Path(inspect.getfile(code))
    found = [
        node
        for node in ast.walk(ast.parse(textwrap.dedent("".join(lines))))
        if isinstance(node, (ast.Assign, ast.Return)) and any(map(wanted, ast.walk(node)))
    ]
    if not found:
        raise LookupError(f"{file.name} no longer has the line that is shown of {code.__qualname__}")
    last = max(found, key=lambda node: node.lineno)
    text = " ".join(line.strip() for line in lines[last.lineno - 1 : last.end_lineno])
    return CodeLine(f"{file.parent.name}/{file.name}:{first_line + last.lineno - 1}", text)
