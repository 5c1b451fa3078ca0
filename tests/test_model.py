"""Layers, stacks and the whole network: proved against torch in float64, and what must hold of any of them."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import config_of, float64_model, generator, numbers, padded, randomized, small_configs, token_ids
from torch_reference import ignored_future, ignored_keys, torch_decoder_layer, torch_encoder_layer, torch_transformer
from transformer import model as model_module
from transformer.hooks import HookPoint, record
from transformer.masks import Masks, causal_mask, make_masks, padding_mask
from transformer.model import DecoderLayer, EncoderLayer, InputEmbedding, Transformer, sinusoidal_encoding

EXACT = {"atol": 1e-10, "rtol": 0}
seeds = st.integers(0, 2**16)


@pytest.mark.parametrize("norm_first", [True, False], ids=["pre-LN", "post-LN"])
@pytest.mark.parametrize("with_padding", [False, True], ids=["bare", "padded"])
def test_encoder_layer_equals_that_of_torch(norm_first, with_padding):
    layer, x = randomized(EncoderLayer(12, 3, 20, norm_first=norm_first)), numbers(3, 6, 12)
    mask = padding_mask(padded(token_ids(3, 6, 9), [6, 3, 1]), 0) if with_padding else None
    expected = torch_encoder_layer(layer)(x, src_key_padding_mask=ignored_keys(mask) if with_padding else None)
    torch.testing.assert_close(layer(x, mask), expected, **EXACT)


@pytest.mark.parametrize("norm_first", [True, False], ids=["pre-LN", "post-LN"])
@pytest.mark.parametrize("with_masks", [False, True], ids=["bare", "masked"])
def test_decoder_layer_equals_that_of_torch(norm_first, with_masks):
    layer = randomized(DecoderLayer(12, 3, 20, norm_first=norm_first))
    x, memory = numbers(3, 5, 12), numbers(3, 7, 12, seed=1)
    ours, theirs = {}, {}
    if with_masks:
        masks = make_masks(padded(token_ids(3, 7, 9), [7, 2, 5]), padded(token_ids(3, 5, 9), [2, 5, 4]), 0)
        ours = {"tgt_mask": masks.tgt_mask, "memory_mask": masks.memory_mask}
        theirs = {
            "tgt_mask": ignored_future(5),
            "tgt_key_padding_mask": ignored_keys(masks.tgt_mask[:, :, -1:]),  # the last query may see every real key
            "memory_key_padding_mask": ignored_keys(masks.memory_mask),
        }
    torch.testing.assert_close(layer(x, memory, **ours), torch_decoder_layer(layer)(x, memory, **theirs), **EXACT)


@pytest.mark.parametrize("norm_first", [True, False], ids=["pre-LN", "post-LN"])
@pytest.mark.parametrize(("n_encoder_layers", "n_decoder_layers"), [(1, 3), (2, 2), (3, 1)])
@pytest.mark.parametrize("n_heads", [1, 2, 6])
def test_whole_network_equals_that_of_torch(norm_first, n_encoder_layers, n_decoder_layers, n_heads):
    """Row 10 of the cases: 1, 2 and 6 heads, and stacks of different depth."""
    model = float64_model(norm_first=norm_first, n_encoder_layers=n_encoder_layers, n_decoder_layers=n_decoder_layers,
                          n_heads=n_heads)
    src, tgt_in = padded(token_ids(3, 7, 11), [7, 4, 1]), padded(token_ids(3, 5, 13, seed=1), [2, 5, 3])
    expected = torch_transformer(model.encoder, model.decoder)(
        model.src_embedding(src),
        model.tgt_embedding(tgt_in),
        tgt_mask=ignored_future(5),
        src_key_padding_mask=src == 0,
        tgt_key_padding_mask=tgt_in == 0,
        memory_key_padding_mask=src == 0,
    ) @ model.unembed.weight.T
    torch.testing.assert_close(model(src, tgt_in), expected, **EXACT)


@pytest.mark.parametrize("norm_first", [True, False], ids=["pre-LN", "post-LN"])
def test_gradients_of_the_whole_network_equal_those_of_torch(norm_first):
    model = float64_model(norm_first=norm_first)
    reference = torch_transformer(model.encoder, model.decoder)
    src, tgt_in = padded(token_ids(2, 5, 11), [5, 3]), padded(token_ids(2, 4, 13, seed=1), [4, 2])
    model(src, tgt_in).square().sum().backward()
    out = reference(
        model.src_embedding(src).detach(), model.tgt_embedding(tgt_in).detach(), tgt_mask=ignored_future(4),
        src_key_padding_mask=src == 0, tgt_key_padding_mask=tgt_in == 0, memory_key_padding_mask=src == 0,
    )
    (out @ model.unembed.weight.detach().T).square().sum().backward()
    for stack in ("encoder", "decoder"):
        ours = getattr(model, stack).layers[0].feed_forward.up_proj.weight.grad
        theirs = getattr(reference, stack).layers[0].linear1.weight.grad
        torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-10)


def earlier_logits_stay(model: Transformer, tgt_mask: torch.Tensor) -> bool:
    """Whether the logits before the last position are bit-equal after the last target token changed."""
    src, tgt_in = token_ids(2, 5, 11), token_ids(2, 6, 13, seed=1)
    changed = tgt_in.clone()
    changed[:, -1] = (tgt_in[:, -1] + 1 - 4) % 9 + 4
    src_mask = padding_mask(src, 0)
    masks = Masks(src_mask, tgt_mask, src_mask)
    before, after = model(src, tgt_in, masks), model(src, changed, masks)
    assert not torch.equal(before[:, -1], after[:, -1]), "the changed token must change something"
    return torch.equal(before[:, :-1], after[:, :-1])


@pytest.mark.parametrize("norm_first", [True, False], ids=["pre-LN", "post-LN"])
def test_a_changed_future_token_leaves_earlier_logits_bit_equal(norm_first):
    """Row 14 of the cases."""
    assert earlier_logits_stay(float64_model(norm_first=norm_first), causal_mask(6))
    assert earlier_logits_stay(Transformer(config_of(norm_first=norm_first)).initialize(generator()), causal_mask(6))


@pytest.mark.parametrize("diagonal", [1, 5])
def test_a_mask_that_leaks_is_caught_by_the_same_check(diagonal):
    """Row 14 of the cases: one step into the future, or all of it."""
    leaking = torch.ones(6, 6, dtype=torch.bool).tril(diagonal)[None, None]
    assert not earlier_logits_stay(float64_model(), leaking)


@given(small_configs(), st.integers(1, 5), st.integers(1, 5), st.integers(0, 4), st.integers(0, 4), seeds)
def test_padding_changes_nothing_and_gets_no_attention(changes, n_source, n_target, src_pads, tgt_pads, seed):
    """Row 2 of the cases: pads are kept apart and their weight is exactly 0."""
    model = float64_model(**changes)
    src, tgt_in = token_ids(2, n_source, 11, seed), token_ids(2, n_target, 13, seed + 1)
    long_src = torch.nn.functional.pad(src, (0, src_pads))
    long_tgt_in = torch.nn.functional.pad(tgt_in, (0, tgt_pads))
    with record() as acts:
        logits = model(long_src, long_tgt_in)
    torch.testing.assert_close(logits[:, :n_target], model(src, tgt_in), **EXACT)
    for name, pattern in acts.items():
        if name.endswith("hook_pattern"):
            asks_target = name.startswith("decoder") and "self_attn" in name
            n_real, n_pads = (n_target, tgt_pads) if asks_target else (n_source, src_pads)
            assert pattern.shape[-1] == n_real + n_pads
            assert bool((pattern[..., n_real:] == 0).all())


@given(small_configs(), st.integers(1, 6), st.integers(1, 6), seeds)
def test_a_batch_equals_its_rows_alone(changes, n_source, n_target, seed):
    model = float64_model(**changes)
    src = padded(token_ids(3, n_source, 11, seed), [n_source, max(1, n_source - 2), 1])
    tgt_in = padded(token_ids(3, n_target, 13, seed + 1), [1, n_target, max(1, n_target - 1)])
    together = model(src, tgt_in)
    for row in range(3):
        torch.testing.assert_close(together[row], model(src[row : row + 1], tgt_in[row : row + 1])[0], **EXACT)


@given(small_configs(), st.integers(1, 5), st.integers(1, 8), seeds)
def test_cached_decoding_equals_uncached(changes, n_source, n_target, seed):
    """Row 16 of the cases, for logits and patterns, in float64."""
    model = float64_model(**changes)
    src = padded(token_ids(2, n_source, 11, seed), [n_source, max(1, n_source - 1)])
    tgt_in = token_ids(2, n_target, 13, seed + 1)
    with record() as acts:
        logits = model(src, tgt_in)
    src_mask = padding_mask(src, 0)
    memory, cache = model.encode(src, src_mask), model.new_cache()
    for t in range(n_target):
        with record() as step:
            step_logits = model.decode(tgt_in[:, t : t + 1], memory, None, src_mask, cache)
        torch.testing.assert_close(step_logits[:, 0], logits[:, t], **EXACT)
        for name in (name for name in step if name.endswith("hook_pattern")):
            n_keys = step[name].shape[-1]
            torch.testing.assert_close(step[name][:, :, 0], acts[name][:, :, t, :n_keys], **EXACT)
    assert cache[0][0].length == n_target
    assert cache[0][1].length == n_source


def test_cross_attention_keys_are_computed_once():
    model, src = float64_model(), token_ids(1, 4, 11)
    memory, cache = model.encode(src), model.new_cache()
    model.decode(token_ids(1, 1, 13), memory, cache=cache)
    with record() as acts:
        model.decode(token_ids(1, 1, 13, seed=1), memory, cache=cache)
    assert "decoder.layers.0.self_attn.hook_k" in acts
    assert "decoder.layers.0.cross_attn.hook_k" not in acts


@given(small_configs(), seeds)
def test_what_sub_layers_write_adds_up_to_the_residual_stream(changes, seed):
    """Pre-LN adds; post-LN adds and then normalises."""
    model = float64_model(**changes)
    with record() as acts:
        model(token_ids(2, 4, 11, seed), token_ids(2, 3, 13, seed + 1))

    def summed(norm: torch.nn.LayerNorm, total: torch.Tensor) -> torch.Tensor:
        return total if model.config.norm_first else norm(total).detach()

    for stack in ("encoder", "decoder"):
        for i, layer in enumerate(getattr(model, stack).layers):
            at = {name.rsplit("hook_", 1)[1]: value for name, value in acts.items()
                  if name.rsplit(".hook_", 1)[0] == f"{stack}.layers.{i}"}
            torch.testing.assert_close(
                at["resid_mid"], summed(layer.attn_norm, at["resid_pre"] + at["attn_out"]), **EXACT)
            before_mlp = at["resid_mid"]
            if stack == "decoder":
                before_mlp = at["resid_mid_cross"]
                torch.testing.assert_close(
                    before_mlp, summed(layer.cross_norm, at["resid_mid"] + at["cross_attn_out"]), **EXACT)
            torch.testing.assert_close(
                at["resid_post"], summed(layer.mlp_norm, before_mlp + at["mlp_out"]), **EXACT)
            if i:
                assert torch.equal(at["resid_pre"], acts[f"{stack}.layers.{i - 1}.hook_resid_post"])


def test_a_source_of_pads_alone_gives_finite_logits_and_gradients():
    """Row 12 of the cases, for a whole network."""
    model = float64_model()
    logits = model(torch.zeros(1, 3, dtype=torch.long), torch.zeros(1, 2, dtype=torch.long))
    logits.square().sum().backward()
    assert bool(logits.isfinite().all())
    assert all(bool(parameter.grad.isfinite().all()) for parameter in model.parameters())


@given(st.integers(1, 30), st.integers(1, 17))
def test_sinusoidal_encoding_is_the_formula_of_the_paper(max_len, d_model):
    """Row 11 of the cases: an odd width is supported and ends on a sine."""
    encoding = sinusoidal_encoding(max_len, d_model)
    assert encoding.shape == (max_len, d_model)
    for position in (0, max_len // 2, max_len - 1):
        for dimension in range(d_model):
            angle = position / 10000 ** ((dimension - dimension % 2) / d_model)
            expected = math.cos(angle) if dimension % 2 else math.sin(angle)
            assert encoding[position, dimension].item() == pytest.approx(expected, abs=1e-6)


def test_a_shift_of_positions_is_a_rotation_of_each_pair():
    encoding, shift, d_model = sinusoidal_encoding(40, 8).double(), 7, 8
    for pair in range(d_model // 2):
        angle = shift / 10000 ** (2 * pair / d_model)
        rotation = torch.tensor([[math.cos(angle), math.sin(angle)], [-math.sin(angle), math.cos(angle)]]).double()
        here, there = encoding[:-shift, 2 * pair : 2 * pair + 2], encoding[shift:, 2 * pair : 2 * pair + 2]
        torch.testing.assert_close(here @ rotation.T, there, atol=1e-6, rtol=0)


def test_embeddings_are_scaled_by_the_root_of_d_model_and_positions_start_where_asked():
    embedding = randomized(InputEmbedding(9, 16, 10))
    ids = token_ids(2, 3, 9)
    expected = embedding.tokens.weight[ids] * 4 + embedding.positions[5:8]
    torch.testing.assert_close(embedding(ids, 5), expected, **EXACT)


@pytest.mark.parametrize("kind", ["sinusoidal", "learned", "none"])
def test_the_last_position_is_accepted_and_one_more_is_refused_with_both_numbers(kind):
    """Row 8 of the cases, in the network itself."""
    model = float64_model(positional_encoding=kind, max_len=6)
    assert model(token_ids(1, 6, 11), token_ids(1, 6, 13)).shape == (1, 6, 13)
    with pytest.raises(ValueError, match="positions for 6 tokens, got 7"):
        model(token_ids(1, 7, 11), token_ids(1, 6, 13))


def test_without_positions_the_encoder_cannot_tell_the_order():
    model = float64_model(positional_encoding="none")
    src, order = token_ids(1, 5, 11), torch.randperm(5, generator=generator())
    torch.testing.assert_close(model.encode(src[:, order]), model.encode(src)[:, order], **EXACT)
    ordered = float64_model(positional_encoding="sinusoidal")
    assert not torch.allclose(ordered.encode(src[:, order]), ordered.encode(src)[:, order])


# Letters: B batch, S source, T target, D d_model, H heads, K d_head, F d_ff, V vocabulary. Q and C stand for the
# asking and the asked side of an attention, which are S or T depending on where it lives.
SHAPES = {
    "hook_q": "BHQK", "hook_k": "BHCK", "hook_v": "BHCK", "hook_raw_scores": "BHQC", "hook_scaled_scores": "BHQC",
    "hook_attn_scores": "BHQC", "hook_pattern": "BHQC", "hook_z": "BHQK", "hook_hidden": "BQF", "hook_embed": "BQD",
    "hook_pos_embed": "QD", "hook_resid_pre": "BQD", "hook_resid_mid": "BQD", "hook_resid_mid_cross": "BQD",
    "hook_resid_post": "BQD", "hook_attn_out": "BQD", "hook_cross_attn_out": "BQD", "hook_mlp_out": "BQD",
    "hook_norm_in": "BQD", "hook_norm_out": "BQD", "hook_out": "BQD", "hook_logits": "BQV",
}


@settings(max_examples=10)
@given(small_configs(), st.integers(1, 5), st.integers(1, 5))
def test_every_recorded_value_has_the_shape_that_is_written_beside_it(changes, n_source, n_target):
    model = float64_model(**changes)
    config = model.config
    with record() as acts:
        model(token_ids(2, n_source, 11), token_ids(2, n_target, 13))
    points = {name for name, module in model.named_modules() if isinstance(module, HookPoint)}
    assert set(acts) == points
    for name, value in acts.items():
        on_source = name.startswith(("encoder", "src_"))
        sizes = {"B": 2, "D": config.d_model, "H": config.n_heads, "K": config.d_head, "F": config.d_ff, "V": 13,
                 "Q": n_source if on_source else n_target,
                 "C": n_source if on_source or "cross_attn" in name else n_target}
        assert list(value.shape) == [sizes[letter] for letter in SHAPES[name.rsplit(".", 1)[-1]]], name


def test_the_shape_comments_of_the_attention_are_those_that_are_tested():
    source = Path(model_module.__file__).read_text()
    commented = dict(re.findall(r"self\.(hook_\w+)\(.*# \[([A-Z, ]+)\]", source))
    assert {"hook_q", "hook_raw_scores", "hook_pattern", "hook_z", "hook_hidden"} <= set(commented)
    for name, letters in commented.items():
        assert letters.replace(", ", "") == SHAPES[name].replace("Q", "T").replace("C", "S"), name


def test_initial_weights_come_from_the_generator_alone_and_are_xavier_for_matrices():
    first, second = (Transformer(config_of(d_model=48)).initialize(generator(5)) for _ in range(2))
    other = Transformer(config_of(d_model=48)).initialize(generator(6))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first.src_embedding.tokens.weight, other.src_embedding.tokens.weight)
    q_weight = first.encoder.layers[0].self_attn.q_proj.weight
    bound = math.sqrt(6 / (48 + 48))
    assert 0.9 * bound < q_weight.abs().max().item() <= bound
    assert first.encoder.layers[0].self_attn.q_proj.bias.abs().max() == 0
    assert torch.equal(first.encoder.layers[0].attn_norm.weight, torch.ones(48))
    scaled = first.src_embedding.tokens.weight * first.src_embedding.scale
    assert scaled.std().item() == pytest.approx(1, abs=0.1)


def test_a_tied_output_head_is_the_target_embedding_itself():
    tied, untied = float64_model(tie_output=True), float64_model(tie_output=False)
    assert tied.unembed.weight is tied.tgt_embedding.tokens.weight
    assert untied.unembed.weight is not untied.tgt_embedding.tokens.weight


def test_only_pre_ln_has_final_norms():
    assert isinstance(float64_model(norm_first=True).encoder.final_norm, torch.nn.LayerNorm)
    assert isinstance(float64_model(norm_first=False).decoder.final_norm, torch.nn.Identity)


def test_dropout_acts_in_training_only():
    model = float64_model(dropout=0.5)
    src, tgt_in = token_ids(1, 5, 11), token_ids(1, 5, 13)
    assert torch.equal(model(src, tgt_in), model(src, tgt_in))
    model.train()
    assert not torch.equal(model(src, tgt_in), model(src, tgt_in))
