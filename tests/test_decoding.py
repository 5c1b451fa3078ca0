"""Greedy decoding, seen with a fake network: where it starts and stops, and what it reports."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from builders import float64_model, generator, padded, small_configs, token_ids
from transformer.decoding import Decoded, cached_next_logits, greedy_decode

BOS, EOS = 1, 2


class FakeModel:
    """Plays back logits: ``scripts[row][t]`` is the token that row likes best at step t. Remembers what it was fed."""

    def __init__(self, scripts: list[list[int]], vocab_size: int = 8) -> None:
        self.scripts, self.vocab_size = scripts, vocab_size
        self.fed: list[list[int]] = []

    def __call__(self, last_ids: Tensor) -> Tensor:
        step = len(self.fed)
        self.fed.append(last_ids.tolist())
        logits = torch.linspace(0, 1, self.vocab_size).repeat(len(self.scripts), 1)
        for row, script in enumerate(self.scripts):
            logits[row, script[min(step, len(script) - 1)]] = 4.0
        return logits


def decode(fake: FakeModel, max_steps: int = 10, **options: int) -> list[Decoded]:
    return greedy_decode(
        fake, batch_size=len(fake.scripts), bos_id=BOS, eos_id=EOS, max_steps=max_steps, **options
    )


def test_decoding_starts_from_bos_and_stops_at_eos():
    """Row 15 of the cases."""
    fake = FakeModel([[5, 6, EOS, 7, 7]])
    (decoded,) = decode(fake)
    assert fake.fed == [[BOS], [5], [6]]
    assert decoded.token_ids == (5, 6, EOS)
    assert decoded.finished


def test_reaching_the_length_cap_is_said():
    """Row 15 of the cases: "no EOS"."""
    fake = FakeModel([[5]])
    (decoded,) = decode(fake, max_steps=4)
    assert decoded.token_ids == (5, 5, 5, 5)
    assert not decoded.finished


def test_eos_as_the_last_token_that_fits_still_counts_as_finished():
    (decoded,) = decode(FakeModel([[5, 6, EOS]]), max_steps=3)
    assert decoded.finished


def test_rows_of_a_batch_end_each_in_their_own_time():
    scripts = [[5, EOS, 7, 7], [EOS], [6, 7, 5, 4, EOS], [3]]
    together = decode(FakeModel(scripts), max_steps=7, n_candidates=3)
    assert [row.token_ids for row in together] == [(5, EOS), (EOS,), (6, 7, 5, 4, EOS), (3,) * 7]
    assert [row.finished for row in together] == [True, True, True, False]
    assert together == [decode(FakeModel([script]), max_steps=7, n_candidates=3)[0] for script in scripts]


def test_a_batch_stops_as_soon_as_its_last_row_is_done():
    """What a row writes after its end does not count, whatever it is."""
    fake = FakeModel([[EOS, 7], [5, 6, EOS]])
    decode(fake, max_steps=50)
    assert len(fake.fed) == 3


def test_candidates_are_sorted_and_are_the_probabilities_of_the_model():
    fake = FakeModel([[5, EOS]])
    (decoded,) = decode(fake, n_candidates=4)
    probabilities = FakeModel([[5, EOS]])(torch.tensor([BOS]))[0].softmax(-1)
    for step in decoded.steps:
        assert len(step.candidates) == 4
        assert step.candidates[0].token_id == step.token_id
        values = [candidate.probability for candidate in step.candidates]
        assert values == sorted(values, reverse=True)
        assert math.exp(step.log_prob) == pytest.approx(values[0], abs=1e-6)
    for candidate in decoded.steps[0].candidates:
        assert candidate.probability == pytest.approx(probabilities[candidate.token_id].item(), abs=1e-6)


def test_more_candidates_than_tokens_gives_the_whole_vocabulary():
    (decoded,) = decode(FakeModel([[EOS]]), n_candidates=100)
    assert sorted(candidate.token_id for candidate in decoded.steps[0].candidates) == list(range(8))
    assert sum(candidate.probability for candidate in decoded.steps[0].candidates) == pytest.approx(1, abs=1e-6)


def test_no_candidates_are_kept_unless_asked_for():
    (decoded,) = decode(FakeModel([[5, EOS]]))
    assert all(step.candidates == () for step in decoded.steps)


@given(st.lists(st.integers(3, 7), min_size=1, max_size=6))
def test_the_log_probability_of_an_output_is_the_sum_over_its_steps(script):
    """Tokens that a finished row goes on writing, while others are still at work, do not count."""
    fake = FakeModel([[*script, EOS, 7], [7] * 9])
    decoded = decode(fake, max_steps=9)[0]
    eos_log_prob = FakeModel([[EOS]])(torch.tensor([BOS]))[0].log_softmax(-1)[EOS].item()
    assert decoded.log_prob == pytest.approx(sum(step.log_prob for step in decoded.steps))
    assert len(decoded.steps) == len(script) + 1
    assert decoded.steps[-1].log_prob == pytest.approx(eos_log_prob, abs=1e-6)


@pytest.mark.parametrize("limits", [{"batch_size": 0, "max_steps": 3}, {"batch_size": 1, "max_steps": 0}])
def test_a_limit_below_1_is_refused_with_both_numbers(limits):
    with pytest.raises(ValueError, match=f"got {limits['batch_size']} and {limits['max_steps']}"):
        greedy_decode(FakeModel([[EOS]]), bos_id=BOS, eos_id=EOS, **limits)


@settings(max_examples=15)
@given(small_configs(), st.integers(1, 5), st.integers(0, 2**16))
def test_decoding_with_the_cache_equals_decoding_without(changes, n_source, seed):
    model = float64_model(seed, **changes)
    src = padded(token_ids(3, n_source, 11, seed), [n_source, 1, max(1, n_source - 1)])
    fed: list[Tensor] = []

    def uncached_next_logits(last_ids: Tensor) -> Tensor:
        fed.append(last_ids)
        tgt_in = torch.stack(fed, dim=1)
        return model(src, tgt_in)[:, -1]  # one full forward pass with the usual masks

    options = {"batch_size": 3, "bos_id": BOS, "eos_id": EOS, "max_steps": 8, "n_candidates": 3}
    with torch.inference_mode():
        cached = greedy_decode(cached_next_logits(model, src), **options)
        uncached = greedy_decode(uncached_next_logits, **options)
    assert [row.token_ids for row in cached] == [row.token_ids for row in uncached]
    for ours, theirs in zip(cached, uncached, strict=True):
        assert ours.log_prob == pytest.approx(theirs.log_prob, abs=1e-5)


def test_a_padded_batch_is_decoded_like_its_rows_alone():
    model = float64_model(3)
    lengths = [6, 2, 4, 1]
    src = padded(token_ids(4, 6, 11, 5), lengths)
    options = {"bos_id": BOS, "eos_id": EOS, "max_steps": 12}
    with torch.inference_mode():
        together = greedy_decode(cached_next_logits(model, src), batch_size=4, **options)
        for row, length in enumerate(lengths):
            alone = src[row : row + 1, :length]
            assert greedy_decode(cached_next_logits(model, alone), batch_size=1, **options)[0].token_ids == (
                together[row].token_ids
            )


def test_every_position_of_the_model_can_be_written_and_not_one_more():
    model = float64_model(max_len=6)
    model.unembed.weight.data[EOS] = 0
    src = torch.randint(4, 11, (1, 3), generator=generator())
    next_logits = cached_next_logits(model, src)
    for _ in range(6):
        next_logits(torch.tensor([5]))
    with pytest.raises(ValueError, match="positions for 6 tokens, got 7"):
        next_logits(torch.tensor([5]))
