"""What is measured is measured of the right thing: same tokens both ways, all lengths, no more time than was given."""

from __future__ import annotations

import time

import pytest
import torch

from builders import tiny_checkpoint
from transformer.cost import sizes_of
from transformer.measured_cost import LENGTHS, decoding_times, growth, layer_times, most_bytes
from transformer.tracing import trace_text

CHECKPOINT = tiny_checkpoint()
SHORTER = LENGTHS[:5]


def test_both_ways_of_decoding_write_the_same_tokens_to_the_models_last_position():
    src_ids = trace_text(CHECKPOINT, "3 1 7").src_ids
    found = decoding_times(CHECKPOINT, src_ids)
    assert len(found.cached) == len(found.uncached) == found.n_same == CHECKPOINT.model.config.max_len
    assert min(*found.cached, *found.uncached) > 0
    assert found.n_repeats >= 1
    assert 0 <= found.waited <= 1


def test_without_enough_time_fewer_tokens_are_written():
    started = time.perf_counter()
    found = decoding_times(CHECKPOINT, (5, 6, 2), seconds=0.0)
    assert (len(found.cached), found.n_repeats, found.n_same) == (1, 1, 1)
    assert time.perf_counter() - started < 5


def test_a_layer_is_measured_at_every_length_and_its_weights_stay_as_they_were():
    before = {name: weight.clone() for name, weight in CHECKPOINT.model.named_parameters()}
    found = layer_times(CHECKPOINT, seconds=30, lengths=SHORTER)
    assert found.lengths == SHORTER
    for times in (found.attention, found.projections, found.feed_forward):
        assert len(times) == len(SHORTER)
        assert min(times) > 0
    assert all(torch.equal(before[name], weight) for name, weight in CHECKPOINT.model.named_parameters())
    assert len(layer_times(CHECKPOINT, seconds=0.0).lengths) == 1


def test_the_memory_of_attention_is_that_of_its_tensors_and_grows_with_the_square_of_the_length():
    found = layer_times(CHECKPOINT, seconds=30, lengths=SHORTER)
    sizes = sizes_of(CHECKPOINT.model.config, 1, 1)
    for length, n_bytes in zip(found.lengths, found.bytes, strict=True):
        # At its end: raw scores, scaled scores and weights, beside q, k, v, z by head, z joined and the output.
        assert n_bytes == 4 * (3 * sizes["H"] * length**2 + 6 * length * sizes["D"])
    assert growth(found.lengths, found.bytes, start=64) == pytest.approx(2, abs=0.2)


def test_live_bytes_are_counted_until_nothing_refers_to_them_and_views_count_for_nothing():
    given = torch.zeros(1000)

    def one_after_the_other() -> None:
        for _ in range(3):
            made = given + 1
            made.view(10, 100).add_(1)
            del made

    def all_at_once() -> None:
        kept = [given + 1 for _ in range(3)]
        kept[0][:5].mul_(2)

    assert most_bytes(one_after_the_other) == 4000
    assert most_bytes(all_at_once) == 12000


def test_the_exponent_of_a_power_law_is_found_and_too_few_lengths_give_none():
    assert growth(LENGTHS, [3e-4 * n**1.7 for n in LENGTHS]) == pytest.approx(1.7)
    assert growth(LENGTHS[:5], LENGTHS[:5]) is None
