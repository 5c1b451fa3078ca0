"""Everything in between of one run: what each layer would answer, who wrote the answer, how large all of it is.

All functions take a checkpoint, a run of it and the conditions it took place under, and give plain numpy arrays.

Shape legend: S source length, T target length, D d_model, V vocabulary, P points of the decoder's residual stream
(before its first sub-layer and after each), C components of a logit.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from transformer.checkpoints import Checkpoint
from transformer.conditions import USUAL, Conditions
from transformer.errors import InputError
from transformer.hooks import intervene, record
from transformer.model import LayerNorm, Transformer
from transformer.sublayers import sublayers
from transformer.tracing import Trace, written_ids

EMBED, POSITION, BIAS = "tgt_embedding.hook_embed", "tgt_embedding.hook_pos_embed", "bias"


@dataclass(frozen=True, eq=False)
class LogitLens:
    """What the network would answer if it ended at each point of the decoder (nostalgebraist, 2020)."""

    points: tuple[str, ...]  # [P] addresses of the residual stream
    token_ids: np.ndarray  # int64 [P, T, n] the most probable tokens, best first
    probabilities: np.ndarray  # float32 [P, T, n]
    written_log_prob: np.ndarray  # float32 [P, T] of the token that was really written at this step
    written_rank: np.ndarray  # int64 [P, T] its place among all tokens, 1 = the first


@dataclass(frozen=True, eq=False)
class LogitShares:
    """What each component adds directly to the logit of each written token; over components they sum to the logit.

    Components are the embedding, the position, every sub-layer of the decoder, and the biases of the norms on the way
    to the output. "Directly": what other sub-layers make of it later counts as theirs. The scale of every norm on the
    way is frozen at what it was in this run, which makes the norm linear. With pre-LN that is one norm, the last.
    With post-LN each component passes through all later norms; the shares still sum to the logit, but a share is what
    is left of a component after them, not what was written: it has no exact meaning by itself.
    """

    components: tuple[str, ...]  # [C]
    shares: np.ndarray  # float64 [C, T]
    logits: np.ndarray  # float64 [T] of the written tokens


@dataclass(frozen=True, eq=False)
class StreamNorms:
    """Euclidean lengths along one stack: of the stream before and after each sub-layer, and of what each writes."""

    sublayers: tuple[str, ...]
    before: np.ndarray  # float32 [sub-layers, tokens]
    written: np.ndarray  # float32 [sub-layers, tokens]
    after: np.ndarray  # float32 [sub-layers, tokens]


@dataclass(frozen=True, eq=False)
class Gradients:
    """What one written token hangs on. ``saliency``: length of d logit / d embedding of each token that was read.

    ``parameters``: length of the gradient of -log p(token), over the weights of each part of the network.
    ``grad_times_input``: the same derivative times the embedding itself, summed over D: by how much the logit would
    fall, to first order, with that embedding taken away.
    """

    source_saliency: np.ndarray  # float32 [S]
    target_saliency: np.ndarray  # float32 [T]; 0 after the token's own step
    source_grad_times_input: np.ndarray  # float32 [S]
    target_grad_times_input: np.ndarray  # float32 [T]
    parameters: dict[str, float]


@dataclass(frozen=True, eq=False)
class WeightNorms:
    """Euclidean lengths of every weight, and of the gradient of a run's loss by it.

    The loss is -log p of all that was written, summed over the steps. A matrix that is used twice (the output matrix
    when it is tied to the embedding) stands under both names, with the gradient of both uses together.
    """

    loss: float
    norms: dict[str, float]  # by the name of the weight
    gradients: dict[str, float]


def logit_lens(
    checkpoint: Checkpoint, trace: Trace, n_candidates: int = 5, conditions: Conditions = USUAL
) -> LogitLens:
    """Final norm and output matrix applied at every point of the decoder's residual stream.

    Without a final norm (post-LN) the stream is read as it is, for each layer has just normalised it.
    """
    model = checkpoint.model
    written = torch.tensor(written_ids(checkpoint, trace))  # [T]
    parts = sublayers(model, "decoder")
    points = (parts[0].before, *(part.after for part in parts))
    with torch.inference_mode():
        acts = _values(model, trace, conditions)
        found = []
        for point in points:
            with conditions.changing(model):
                logits = model.unembed(model.decoder.final_norm(acts[point][0]))  # [T, V]
            log_probs = logits.float().log_softmax(dim=-1)
            best = log_probs.topk(min(n_candidates, log_probs.shape[-1]), dim=-1)
            of_written = log_probs.gather(-1, written[:, None])  # [T, 1]
            rank = (log_probs > of_written).sum(dim=-1) + 1
            found.append((best.indices, best.values.exp(), of_written[:, 0], rank))
    return LogitLens(points, *(torch.stack(values).numpy() for values in zip(*found, strict=True)))


def logit_shares(checkpoint: Checkpoint, trace: Trace, conditions: Conditions = USUAL) -> LogitShares:
    """The direct share of every component in the logit of every written token. See ``LogitShares``.

    The shares are of the network as it is: conditions that take the norms or the residual sums away leave nothing to
    share out, so the sum is then not the logit.
    """
    model = checkpoint.model
    with torch.inference_mode():
        acts = {name: value.double() for name, value in _values(model, trace, conditions).items()}
        components = {EMBED: acts[EMBED][0], POSITION: acts[POSITION]}  # [T, D] each
        components[BIAS] = torch.zeros_like(components[POSITION])
        for part in sublayers(model, "decoder"):
            components[part.name] = acts[part.out][0]
            if not model.config.norm_first:
                x = acts[part.before][0] + acts[part.out][0]
                components = _through_norm(components, part.norm, x)
        if isinstance(model.decoder.final_norm, LayerNorm):
            components = _through_norm(components, model.decoder.final_norm, acts["decoder.final_norm.hook_norm_in"][0])
        written = written_ids(checkpoint, trace)
        directions = model.unembed.weight.double()[written]  # [T, D]
        shares = torch.stack([(value * directions).sum(dim=-1) for value in components.values()])  # [C, T]
        logits = acts["hook_logits"][0, range(len(written)), written]
    return LogitShares(tuple(components), shares.numpy(), logits.numpy())


def _through_norm(components: dict[str, Tensor], norm: LayerNorm, x: Tensor) -> dict[str, Tensor]:
    """Each component [T, D] as it comes out of ``norm``, whose scale is frozen at that of ``x``, their sum [T, D]."""
    scale = (x.var(dim=-1, keepdim=True, unbiased=False) + norm.eps).sqrt()  # [T, 1]
    gain = norm.weight.double()
    through = {name: (value - value.mean(dim=-1, keepdim=True)) / scale * gain for name, value in components.items()}
    through[BIAS] = through[BIAS] + norm.bias.double()
    return through


def stream_norms(
    checkpoint: Checkpoint, trace: Trace, stack: str = "decoder", conditions: Conditions = USUAL
) -> StreamNorms:
    """How long the residual stream of ``stack`` is at every token, before and after each sub-layer."""
    parts = sublayers(checkpoint.model, stack)
    with torch.inference_mode():
        acts = _values(checkpoint.model, trace, conditions)
        lengths = (
            torch.stack([acts[getattr(part, place)][0].norm(dim=-1) for part in parts]).float().numpy()
            for place in ("before", "out", "after")
        )
        return StreamNorms(tuple(part.name for part in parts), *lengths)


def gradients(checkpoint: Checkpoint, trace: Trace, step: int, conditions: Conditions = USUAL) -> Gradients:
    """Derivatives of the token written at ``step`` (from 0): by every token read, and by every part's weights.

    They are taken on a copy of the model, for the shared one keeps no gradients. Raises InputError for a step that
    the run does not have.
    """
    if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step < len(trace.steps):
        raise InputError("step_unknown", n=len(trace.steps), step=step + 1 if isinstance(step, int) else step)
    model = copy.deepcopy(checkpoint.model).requires_grad_(True)
    written = written_ids(checkpoint, trace)[step]
    embeds: dict[str, Tensor] = {}

    def keep(name: str, value: Tensor) -> Tensor:
        value.retain_grad()
        embeds[name] = value
        return value

    names = ("src_embedding.hook_embed", "tgt_embedding.hook_embed")
    src, tgt_in = torch.tensor([trace.src_ids]), torch.tensor([trace.tgt_in_ids])
    masks = conditions.masks(src, tgt_in, model.config.pad_id)
    with conditions.changing(model), intervene({name: lambda value, name=name: keep(name, value) for name in names}):
        logits = model(src, tgt_in, masks)[0, step]  # [V]
    logits[written].backward(retain_graph=True)
    by_side = []
    for name in names:
        value = embeds[name][0].detach()  # [tokens, D]
        # No gradient at all: nothing leads from here to the logit, as without cross-attention.
        gradient = torch.zeros_like(value) if embeds[name].grad is None else embeds[name].grad[0]
        by_side.append((gradient.norm(dim=-1).numpy(), (gradient * value).sum(dim=-1).numpy()))
    model.zero_grad()
    (-logits.log_softmax(dim=-1)[written]).backward()
    (source, source_input), (target, target_input) = by_side
    return Gradients(source, target, source_input, target_input, _by_part(model))


def weight_norms(checkpoint: Checkpoint, trace: Trace, conditions: Conditions = USUAL) -> WeightNorms:
    """How long every weight is and how strongly the run's loss would react to a small change of it.

    One backward pass, on a copy of the model: the shared one keeps no gradients.
    """
    model = copy.deepcopy(checkpoint.model).requires_grad_(True)
    src, tgt_in = torch.tensor([trace.src_ids]), torch.tensor([trace.tgt_in_ids])
    with conditions.changing(model):
        logits = model(src, tgt_in, conditions.masks(src, tgt_in, model.config.pad_id))[0]  # [T, V]
    written = torch.tensor(written_ids(checkpoint, trace))[:, None]  # [T, 1]
    loss = -logits.log_softmax(dim=-1).gather(-1, written).sum()
    loss.backward()
    weights = dict(model.named_parameters(remove_duplicate=False))
    return WeightNorms(
        loss.item(),
        {name: float(weight.detach().double().norm()) for name, weight in weights.items()},
        # No gradient at all: nothing leads from the weight to the loss, as without cross-attention.
        {name: 0.0 if weight.grad is None else float(weight.grad.double().norm()) for name, weight in weights.items()},
    )


def _by_part(model: Transformer) -> dict[str, float]:
    """Length of the gradient over the weights of each part: an embedding, an attention, a feed-forward net, a norm."""
    squares: dict[str, float] = {}
    for name, parameter in model.named_parameters():
        words = name.split(".")
        part = ".".join(words[: 4 if "layers" in words else 2 if words[0] in ("encoder", "decoder") else 1])
        squares[part] = squares.get(part, 0.0) + (
            float(parameter.grad.double().square().sum()) if parameter.grad is not None else 0.0
        )
    return {part: math.sqrt(square) for part, square in squares.items()}


def _values(model: Transformer, trace: Trace, conditions: Conditions) -> dict[str, Tensor]:
    """Every value of one pass over the tokens of the run, the batch of one kept: [1, T, D] and so on."""
    src, tgt_in = torch.tensor([trace.src_ids]), torch.tensor([trace.tgt_in_ids])
    with conditions.changing(model), record() as acts:
        model(src, tgt_in, conditions.masks(src, tgt_in, model.config.pad_id))
    return acts
