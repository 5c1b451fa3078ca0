"""Every formula of what a network costs, held against the network itself."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from builders import config_of, small_configs, token_ids
from transformer.cost import (
    BOOKS,
    CACHE,
    CACHING,
    ENCODING,
    KINDS,
    MEMORY,
    PAPER_PARAMETERS,
    PAPER_SIZES,
    PARAMETERS,
    TOKEN,
    TOKEN_UNCACHED,
    TURNING_POINT,
    operations,
    sizes_of,
    terms_of,
    total_of,
    value_of,
    values_of,
    vocabulary_for,
    written_out,
)
from transformer.hooks import record
from transformer.masks import make_masks
from transformer.model import Transformer

EXAMPLES = settings(max_examples=8, deadline=None)
lengths = st.integers(1, 9)


def network(changes: dict) -> Transformer:
    return Transformer(config_of(**changes)).eval().requires_grad_(False)


def counted(function, *arguments: object) -> tuple[object, int]:
    """What a function returns, and the operations that PyTorch counts in its matrix products."""
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        result = function(*arguments)
    return result, counter.get_total_flops()


def elements(module: torch.nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


@EXAMPLES
@given(small_configs())
def test_parameters_equal_those_of_the_network_part_by_part(changes):
    model = network(changes)
    found, config = values_of(PARAMETERS, sizes_of(model.config, 3, 3)), model.config
    layers = {"encoder": model.encoder.layers, "decoder": model.decoder.layers}
    norms = [part for part in model.modules() if isinstance(part, torch.nn.LayerNorm)]
    expected = {
        "source_embedding": elements(model.src_embedding.tokens),
        "target_embedding": elements(model.tgt_embedding.tokens),
        "positions": sum(
            weight.numel() for name, weight in model.named_parameters() if name.endswith("positions")
        ),
        "encoder_attention": sum(elements(layer.self_attn) for layer in layers["encoder"]),
        "encoder_feed_forward": sum(elements(layer.feed_forward) for layer in layers["encoder"]),
        "decoder_attention": sum(elements(layer.self_attn) for layer in layers["decoder"]),
        "cross_attention": sum(elements(layer.cross_attn) for layer in layers["decoder"]),
        "decoder_feed_forward": sum(elements(layer.feed_forward) for layer in layers["decoder"]),
        "norms": sum(elements(norm) for norm in norms),
        "output": 0 if config.tie_output else elements(model.unembed),
    }
    assert found == expected
    assert sizes_of(model.config, 3, 3)["W"] == elements(model)


@pytest.mark.parametrize(
    ("changes", "source", "target", "batch"),
    [
        ({}, 5, 3, 1),
        ({"n_heads": 3, "norm_first": False, "positional_encoding": "learned", "tie_output": False}, 3, 4, 2),
        ({"n_encoder_layers": 1, "n_decoder_layers": 3, "d_ff": 7}, 1, 2, 3),
    ],
)
def test_operations_equal_what_pytorch_counts_with_and_without_a_cache(changes, source, target, batch):
    model = network(changes)
    config = model.config
    sizes = sizes_of(config, source, target, batch)
    src, tgt_in = token_ids(batch, source, 11), token_ids(batch, target, 11)
    memory, reading = counted(model.encode, src)
    assert total_of(ENCODING, sizes) == reading

    cache, with_cache = model.new_cache(), 0
    for t in range(1, target + 1):
        _, n_operations = counted(model.decode, tgt_in[:, t - 1 : t], memory, None, None, cache)
        expected = total_of(TOKEN, {**sizes, "t": t})
        if t == 1:  # the keys and values of the source are made at the first step
            expected += total_of(CACHING, sizes)
        assert n_operations == expected
        with_cache += n_operations
    assert operations(sizes) == reading + with_cache

    without = 0
    for t in range(1, target + 1):
        masks = make_masks(src, tgt_in[:, :t], config.pad_id)
        _, n_operations = counted(model.decode, tgt_in[:, :t], memory, masks.tgt_mask, masks.memory_mask)
        assert n_operations == total_of(TOKEN_UNCACHED, {**sizes, "t": t})
        without += n_operations
    assert operations(sizes, cached=False) == reading + without


@EXAMPLES
@given(small_configs(), lengths, lengths, st.integers(1, 3))
def test_bytes_equal_those_of_the_tensors_in_the_real_cache_and_of_the_recorded_patterns(
    changes, source, target, batch
):
    model = network(changes)
    sizes = sizes_of(model.config, source, target, batch)
    src, tgt_in = token_ids(batch, source, 11), token_ids(batch, target, 11)
    cache = model.new_cache()
    with torch.no_grad(), record() as acts:
        memory = model.encode(src)
        model.decode(tgt_in, memory, make_masks(src, tgt_in, 0).tgt_mask, None, cache)
    found = values_of(MEMORY, sizes)

    def used(caches: list) -> int:
        return sum(2 * kept._keys[:, :, : kept.length].nbytes for kept in caches)

    assert found["self_cache"] == used([own for own, _ in cache])
    assert found["self_cache"] == target * value_of(CACHE["per_token"], sizes)
    assert found["cross_cache"] == used([cross for _, cross in cache])
    assert value_of(CACHE["reserved"], sizes) == sum(own._keys.nbytes + own._values.nbytes for own, _ in cache)
    for part, place in (
        ("encoder_patterns", ("encoder", "self_attn")),
        ("decoder_patterns", ("decoder", "self_attn")),
        ("cross_patterns", ("decoder", "cross_attn")),
    ):
        stack, attention = place
        patterns = [
            value for name, value in acts.items()
            if name.startswith(stack) and name.endswith(f"{attention}.hook_pattern")
        ]
        assert found[part] == sum(pattern.nbytes for pattern in patterns)
    assert found["weights"] == sum(weight.nbytes for weight in model.parameters())


@given(st.integers(1, 40), st.integers(1, 40))
def test_the_cost_of_a_whole_text_is_the_sum_over_its_tokens(target, source):
    sizes = sizes_of(config_of(), source, target)
    for book in (TOKEN, TOKEN_UNCACHED):
        for part, terms in written_out(book).items():
            assert value_of(terms, sizes) == sum(
                value_of(book[part], {**sizes, "t": t}) for t in range(1, target + 1)
            )


@EXAMPLES
@given(small_configs())
def test_at_the_turning_point_the_scores_of_a_layer_cost_as_much_as_all_else_in_it(changes):
    sizes = sizes_of(config_of(**changes), 1, 1)
    at = values_of(ENCODING, {**sizes, "S": value_of(TURNING_POINT["length"], sizes)})
    assert at["encoder_scores"] == at["encoder_projections"] + at["encoder_feed_forward"]


def test_the_papers_models_have_the_parameters_that_follow_from_its_sizes():
    sizes = PAPER_SIZES
    assert total_of(PARAMETERS, sizes["base"]) == 63_082_496
    assert total_of(PARAMETERS, sizes["big"]) == 214_245_376
    # The paper rounds to 65 and 213 million: no one vocabulary gives both.
    assert vocabulary_for(PAPER_PARAMETERS["base"], sizes["base"]) == 40_745
    assert vocabulary_for(PAPER_PARAMETERS["big"], sizes["big"]) == 35_784
    # With a matrix each for source, target and output.
    apart = sizes["base"] | {"separate": 1, "untied": 1}
    assert total_of(PARAMETERS, apart) == 63_082_496 + 2 * 37_000 * 512


def test_every_part_that_costs_operations_belongs_to_one_kind():
    parts = [part for kind in KINDS.values() for part in kind]
    assert len(parts) == len(set(parts))
    assert set(parts) == {part for name in ("once", "token", "token_uncached") for part in BOOKS[name]}


def test_a_formula_with_an_unknown_letter_or_no_whole_value_is_refused():
    with pytest.raises(ValueError, match="unknown letters in '2·X': X"):
        terms_of("2·X")
    with pytest.raises(ValueError, match="no whole number"):
        value_of(terms_of("1/2·S"), {"S": 3})
