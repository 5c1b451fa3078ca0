"""Logit lens, shares of a logit, norms and gradients, each against a recomputation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from builders import tiny_checkpoint
from transformer.checkpoints import shipped_checkpoint
from transformer.conditions import together
from transformer.errors import InputError
from transformer.faults import faulty
from transformer.hooks import intervene
from transformer.model import Transformer
from transformer.surgery import SubLayerCut, surgery
from transformer.tracing import record_values, trace_text, written_ids
from transformer.xray import BIAS, EMBED, gradients, logit_lens, logit_shares, stream_norms, weight_norms

CHECKPOINTS = {
    "pre-LN": tiny_checkpoint(), "post-LN": tiny_checkpoint(norm_first=False), "trained": shipped_checkpoint("copy"),
}
TEXT = "3 1 7"
TRACES = {name: trace_text(checkpoint, TEXT, max_steps=6) for name, checkpoint in CHECKPOINTS.items()}
every = pytest.mark.parametrize("name", CHECKPOINTS)


@every
def test_the_last_point_of_the_logit_lens_is_the_answer_of_the_network(name):
    checkpoint, trace = CHECKPOINTS[name], TRACES[name]
    lens = logit_lens(checkpoint, trace, n_candidates=3)
    n_layers = checkpoint.model.config.n_decoder_layers
    assert len(lens.points) == 1 + 3 * n_layers
    assert lens.token_ids.shape == (1 + 3 * n_layers, len(trace.steps), 3)
    for t, step in enumerate(trace.steps):
        assert checkpoint.tgt_tokenizer.tokens(lens.token_ids[-1, t]) == tuple(c[0] for c in step.candidates[:3])
        assert lens.probabilities[-1, t].tolist() == pytest.approx([c[1] for c in step.candidates[:3]], abs=1e-5)
        assert lens.written_log_prob[-1, t] == pytest.approx(step.log_prob, abs=1e-5)
        assert lens.written_rank[-1, t] == 1


@every
def test_the_logit_lens_at_a_point_is_norm_and_output_matrix_of_the_stream_there(name):
    checkpoint, trace = CHECKPOINTS[name], TRACES[name]
    lens = logit_lens(checkpoint, trace)
    stream = torch.from_numpy(record_values(checkpoint, trace)[lens.points[2]])
    with torch.no_grad():
        probabilities = checkpoint.model.unembed(checkpoint.model.decoder.final_norm(stream)).softmax(dim=-1).numpy()
    written = probabilities[range(len(stream)), written_ids(checkpoint, trace)]
    np.testing.assert_allclose(np.exp(lens.written_log_prob[2]), written, rtol=1e-4)
    ranks = (probabilities > written[:, None]).sum(axis=-1) + 1
    assert lens.written_rank[2].tolist() == ranks.tolist()


@every
def test_the_shares_of_all_components_add_up_to_the_logit(name):
    checkpoint, trace = CHECKPOINTS[name], TRACES[name]
    found = logit_shares(checkpoint, trace)
    assert len(found.components) == 3 + 3 * checkpoint.model.config.n_decoder_layers
    logits = record_values(checkpoint, trace, {"hook_logits"})["hook_logits"]
    expected = logits[range(len(trace.steps)), written_ids(checkpoint, trace)]
    np.testing.assert_allclose(found.logits, expected, rtol=1e-6)
    np.testing.assert_allclose(found.shares.sum(axis=0), expected, atol=1e-4)
    assert np.abs(found.shares).sum() > 0


def test_a_pre_ln_share_is_what_was_written_through_the_last_norm_with_its_scale_frozen():
    checkpoint, trace = CHECKPOINTS["trained"], TRACES["trained"]
    found = logit_shares(checkpoint, trace)
    acts = {key: value.astype(np.float64) for key, value in record_values(checkpoint, trace).items()}
    norm = checkpoint.model.decoder.final_norm
    scale = np.sqrt(acts["decoder.layers.1.hook_resid_post"].var(axis=-1) + norm.eps)
    directions = checkpoint.model.unembed.weight.double().numpy()[written_ids(checkpoint, trace)]
    for component, written in (
        ("decoder.layers.0.cross_attn", acts["decoder.layers.0.hook_cross_attn_out"]),
        ("decoder.layers.1.feed_forward", acts["decoder.layers.1.hook_mlp_out"]), (EMBED, acts[EMBED]),
    ):
        centred = written - written.mean(axis=-1, keepdims=True)
        expected = (centred / scale[:, None] * norm.weight.double().numpy() * directions).sum(axis=-1)
        np.testing.assert_allclose(found.shares[found.components.index(component)], expected, atol=1e-5)
    bias = directions @ norm.bias.double().numpy()
    np.testing.assert_allclose(found.shares[found.components.index(BIAS)], bias, atol=1e-6)


def test_a_sub_layer_that_is_cut_out_has_no_share_and_the_rest_still_adds_up():
    checkpoint = CHECKPOINTS["trained"]
    conditions = together(surgery([SubLayerCut("decoder", 0, "cross_attn")], checkpoint.model.config),
                          faulty(["no_score_scale"]))
    trace = trace_text(checkpoint, TEXT, conditions=conditions)
    found = logit_shares(checkpoint, trace, conditions)
    assert not found.shares[found.components.index("decoder.layers.0.cross_attn")].any()
    np.testing.assert_allclose(found.shares.sum(axis=0), found.logits, atol=1e-4)
    lens = logit_lens(checkpoint, trace, conditions=conditions)
    assert lens.written_log_prob[-1].tolist() == pytest.approx([step.log_prob for step in trace.steps], abs=1e-4)


@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_norms_of_the_stream_are_the_lengths_of_the_recorded_vectors(stack):
    checkpoint, trace = CHECKPOINTS["trained"], TRACES["trained"]
    found = stream_norms(checkpoint, trace, stack)
    acts = record_values(checkpoint, trace)
    at = found.sublayers.index(f"{stack}.layers.1.feed_forward")
    for lengths, hook in (
        (found.before, "hook_resid_mid" if stack == "encoder" else "hook_resid_mid_cross"),
        (found.written, "hook_mlp_out"), (found.after, "hook_resid_post"),
    ):
        expected = np.linalg.norm(acts[f"{stack}.layers.1.{hook}"], axis=-1)
        np.testing.assert_allclose(lengths[at], expected, rtol=1e-5)
    np.testing.assert_array_equal(found.after[0], found.before[1])


def test_saliency_is_the_slope_of_the_logit_when_an_embedding_is_moved():
    """Central differences in float64 along random directions, and 0 for tokens that were read later."""
    checkpoint = tiny_checkpoint()
    trace = trace_text(checkpoint, TEXT, max_steps=6)
    checkpoint.model.double()
    found = gradients(checkpoint, trace, step=2)
    assert not found.target_saliency[3:].any()
    assert found.target_saliency[:3].min() > 0
    assert len(found.source_saliency) == 4

    def logit(side: str, token: int, change: torch.Tensor) -> float:
        moved = torch.zeros(1, 1, 12, dtype=torch.float64)
        moved[0, 0] = change

        def move(embed: torch.Tensor) -> torch.Tensor:
            return torch.cat([embed[:, :token], embed[:, token : token + 1] + moved, embed[:, token + 1 :]], dim=1)

        with torch.no_grad(), intervene({f"{side}.hook_embed": move}):
            logits = checkpoint.model(torch.tensor([trace.src_ids]), torch.tensor([trace.tgt_in_ids]))
        return float(logits[0, 2, written_ids(checkpoint, trace)[2]])

    of_sides = (("src_embedding", 1, found.source_saliency), ("tgt_embedding", 2, found.target_saliency))
    for side, token, saliency in of_sides:
        slopes = [
            (logit(side, token, step) - logit(side, token, -step)) / 2e-5 for step in torch.eye(12).double() * 1e-5
        ]
        assert saliency[token] == pytest.approx(np.linalg.norm(slopes), rel=1e-5)


def test_gradients_by_part_are_those_of_the_loss_of_this_token_and_the_shared_model_gets_none():
    checkpoint, trace = CHECKPOINTS["pre-LN"], TRACES["pre-LN"]
    found = gradients(checkpoint, trace, step=1)
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in checkpoint.model.parameters())
    twin = tiny_checkpoint().model.requires_grad_(True)
    logits = twin(torch.tensor([trace.src_ids]), torch.tensor([trace.tgt_in_ids]))
    (-logits[0, 1].log_softmax(dim=-1)[written_ids(checkpoint, trace)[1]]).backward()
    for part in ("decoder.layers.1.cross_attn", "encoder.layers.0.attn_norm", "tgt_embedding", "decoder.final_norm"):
        parameters = twin.get_submodule(part).parameters()
        expected = np.sqrt(sum(float(parameter.grad.square().sum()) for parameter in parameters))
        assert found.parameters[part] == pytest.approx(expected, rel=1e-4)
    squares = sum(float(parameter.grad.square().sum()) for parameter in twin.parameters())
    assert sum(value**2 for value in found.parameters.values()) == pytest.approx(squares, rel=1e-4)


def test_without_cross_attention_nothing_hangs_on_the_source():
    conditions = faulty(["no_cross_attention"])
    trace = trace_text(CHECKPOINTS["pre-LN"], TEXT, conditions=conditions, max_steps=4)
    found = gradients(CHECKPOINTS["pre-LN"], trace, 0, conditions)
    assert not found.source_saliency.any()
    assert found.target_saliency[0] > 0


@pytest.mark.parametrize("step", [-1, 6, True, "1"])
def test_a_step_the_run_does_not_have_is_refused(step):
    with pytest.raises(InputError) as caught:
        gradients(CHECKPOINTS["pre-LN"], TRACES["pre-LN"], step)
    assert caught.value.code == "step_unknown"


@every
def test_norms_and_gradients_of_weights_equal_a_recomputation_and_the_shared_model_gets_none(name):
    checkpoint, trace = CHECKPOINTS[name], TRACES[name]
    found = weight_norms(checkpoint, trace)
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in checkpoint.model.parameters())
    assert found.loss == pytest.approx(-trace.log_prob, abs=1e-4)
    twin = Transformer(checkpoint.model.config).double()
    twin.load_state_dict(checkpoint.model.state_dict())
    logits = twin(torch.tensor([trace.src_ids]), torch.tensor([trace.tgt_in_ids]))[0]
    loss = torch.nn.functional.cross_entropy(logits, torch.tensor(written_ids(checkpoint, trace)), reduction="sum")
    weights = dict(twin.named_parameters(remove_duplicate=False))
    assert found.norms.keys() == found.gradients.keys() == weights.keys()
    slopes = torch.autograd.grad(loss, list(weights.values()), allow_unused=True)
    largest = max(found.gradients.values())
    assert largest > 0
    for (key, weight), slope in zip(weights.items(), slopes, strict=True):
        assert found.norms[key] == pytest.approx(weight.norm().item(), rel=1e-5)
        expected = 0.0 if slope is None else slope.norm().item()
        assert found.gradients[key] == pytest.approx(expected, rel=1e-3, abs=1e-4 * largest), key


def test_without_cross_attention_no_weight_of_the_encoder_has_a_gradient():
    conditions = faulty(["no_cross_attention"])
    trace = trace_text(CHECKPOINTS["pre-LN"], TEXT, conditions=conditions, max_steps=4)
    found = weight_norms(CHECKPOINTS["pre-LN"], trace, conditions)
    of_encoder = {key: value for key, value in found.gradients.items() if key.startswith("encoder.")}
    assert of_encoder
    assert not any(of_encoder.values())
    assert found.gradients["decoder.layers.0.self_attn.v_proj.weight"] > 0
