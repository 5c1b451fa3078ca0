"""Beam search, sampling and forced prefixes, against what must hold of them."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer.beam_search import beam_search, length_divisor
from transformer.config import TransformerConfig
from transformer.decoding import cached_next_logits, forced, greedy_decode, most_probable, sampled, write
from transformer.errors import InputError
from transformer.model import Transformer
from transformer.search import Search

BOS, EOS = 1, 2
LIMITS = {"bos_id": BOS, "eos_id": EOS, "max_steps": 12}


def random_model(seed: int) -> Transformer:
    config = TransformerConfig(11, 9, d_model=16, n_heads=2, d_ff=32, dropout=0.0, max_len=24, tie_output=False)
    return Transformer(config).initialize(torch.Generator().manual_seed(seed)).eval().double()


def random_sources(seed: int, n: int = 3) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    src = torch.randint(3, 11, (n, 6), generator=generator)
    src[1, 4:] = 0  # padded, so that a mask that does not follow its beam shows
    return src


class Script:
    """A network that is a table: the tokens written so far -> probabilities of the next."""

    def __init__(self, table: dict[tuple[int, ...], dict[int, float]], vocab_size: int = 6) -> None:
        self.table, self.vocab_size = table, vocab_size
        self.rows: list[tuple[int, ...]] = [()]

    def __call__(self, last_ids: torch.Tensor) -> torch.Tensor:
        self.rows = [(*row, token) for row, token in zip(self.rows, last_ids.tolist(), strict=True)]
        probabilities = torch.full((len(self.rows), self.vocab_size), 1e-9)
        for row, written in enumerate(self.rows):
            for token, probability in self.table.get(written[1:], {EOS: 1.0}).items():
                probabilities[row, token] = probability
        return probabilities.log()

    def select(self, rows: torch.Tensor) -> None:
        self.rows = [self.rows[row] for row in rows.tolist()]


# Greedy takes 3 (0.6) and ends at 0.6 * 0.4 = 0.24; the better path is 4, EOS with 0.4 * 0.9 = 0.36.
GARDEN_PATH = {(): {3: 0.6, 4: 0.4}, (3,): {3: 0.4, 4: 0.3, 5: 0.3}, (4,): {EOS: 0.9, 5: 0.1}}


@torch.inference_mode()
def beams_of(model: Transformer, src: torch.Tensor, **settings: float) -> list:
    return beam_search(cached_next_logits(model, src), n_sources=len(src), **settings, **LIMITS)


@settings(deadline=None, max_examples=15, derandomize=True)
@given(seed=st.integers(0, 10_000))
def test_beam_width_1_is_greedy(seed: int) -> None:
    model, src = random_model(seed), random_sources(seed)
    with torch.inference_mode():
        greedy = greedy_decode(cached_next_logits(model, src), batch_size=len(src), **LIMITS)
    for length_penalty in (0.0, 1.0):
        beams = beams_of(model, src, beam_width=1, length_penalty=length_penalty)
        assert [row.token_ids for row in greedy] == [found.hypotheses[0].decoded.token_ids for found in beams]


def test_a_wider_beam_finds_what_greedy_walks_past() -> None:
    (greedy,) = greedy_decode(Script(GARDEN_PATH), batch_size=1, **LIMITS)
    assert greedy.token_ids == (3, 3, EOS)
    (found,) = beam_search(Script(GARDEN_PATH), n_sources=1, beam_width=2, **LIMITS)
    best = found.hypotheses[0]
    assert best.decoded.token_ids == (4, EOS)
    assert best.decoded.log_prob == pytest.approx(math.log(0.36), abs=1e-5)
    assert best.decoded.finished


def test_a_finished_beam_keeps_its_place_and_is_not_expanded() -> None:
    (found,) = beam_search(Script(GARDEN_PATH), n_sources=1, beam_width=2, **LIMITS)
    ends = {index for index, node in enumerate(found.nodes) if node.token_id == EOS}
    assert ends
    assert not any(node.parent in ends for node in found.nodes)


@settings(deadline=None, max_examples=10, derandomize=True)
@given(seed=st.integers(0, 10_000))
def test_cache_and_masks_follow_their_beam(seed: int) -> None:
    """The log-probabilities of every hypothesis equal those of one full forward pass over it."""
    model, src = random_model(seed), random_sources(seed)
    for row, found in zip(src, beams_of(model, src, beam_width=3), strict=True):
        for hypothesis in found.hypotheses:
            ids = hypothesis.decoded.token_ids
            with torch.inference_mode():
                logits = model(row[None], torch.tensor([(BOS, *ids[:-1])]))[0]
            expected = logits.float().log_softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]
            assert [step.log_prob for step in hypothesis.decoded.steps] == pytest.approx(expected.tolist(), abs=1e-5)


@settings(deadline=None, max_examples=10, derandomize=True)
@given(seed=st.integers(0, 10_000))
def test_many_sources_at_once_equal_each_alone(seed: int) -> None:
    model, src = random_model(seed), random_sources(seed)
    together = beams_of(model, src, beam_width=3, length_penalty=0.6)
    for row, found in zip(src, together, strict=True):
        (alone,) = beams_of(model, row[None], beam_width=3, length_penalty=0.6)
        assert [h.decoded.token_ids for h in alone.hypotheses] == [h.decoded.token_ids for h in found.hypotheses]


def test_scores_are_recomputed_from_the_log_probabilities_and_hypotheses_are_ranked_by_them() -> None:
    for found in beams_of(random_model(3), random_sources(3), beam_width=4, length_penalty=0.8):
        scores = [hypothesis.score for hypothesis in found.hypotheses]
        assert scores == sorted(scores, reverse=True)
        for hypothesis in found.hypotheses:
            steps = hypothesis.decoded.steps
            assert hypothesis.score == pytest.approx(sum(s.log_prob for s in steps) / length_divisor(len(steps), 0.8))


def test_the_tree_holds_every_hypothesis_and_the_pruned_branches() -> None:
    (found,) = beams_of(random_model(5), random_sources(5)[:1], beam_width=3)
    assert any(not node.is_kept for node in found.nodes)
    for index, node in enumerate(found.nodes):
        assert -1 <= node.parent < index
        before = found.nodes[node.parent].total_log_prob if node.parent >= 0 else 0.0
        assert node.total_log_prob == pytest.approx(before + node.log_prob, abs=1e-5)
    children = {(node.parent, node.token_id): index for index, node in enumerate(found.nodes)}
    for hypothesis in found.hypotheses:
        place = -1
        for token_id in hypothesis.decoded.token_ids:
            place = children[place, token_id]
            assert found.nodes[place].is_kept


def test_a_longer_output_wins_with_a_length_penalty() -> None:
    table = {(): {EOS: 0.4, 3: 0.35, 4: 0.25}, (3,): {EOS: 1.0}}
    for length_penalty, expected in ((0.0, (EOS,)), (2.0, (3, EOS))):
        (found,) = beam_search(
            Script(table), n_sources=1, beam_width=2, length_penalty=length_penalty, **LIMITS
        )
        assert found.hypotheses[0].decoded.token_ids == expected


@settings(deadline=None, max_examples=15, derandomize=True)
@given(seed=st.integers(0, 10_000))
def test_temperature_toward_0_and_a_choice_of_1_are_greedy(seed: int) -> None:
    model, src = random_model(seed), random_sources(seed)
    with torch.inference_mode():
        greedy = greedy_decode(cached_next_logits(model, src), batch_size=len(src), **LIMITS)
        for setting in ({"temperature": 0.0}, {"temperature": 1e-4}, {"top_k": 1}, {"top_p": 1e-6}):
            choose = sampled(torch.Generator().manual_seed(seed), **setting)
            drawn = write(cached_next_logits(model, src), choose, batch_size=len(src), **LIMITS)
            assert [row.token_ids for row in drawn] == [row.token_ids for row in greedy], setting


def test_samples_follow_the_probabilities_and_the_seed() -> None:
    log_probs = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log().expand(4000, 4)
    drawn = sampled(torch.Generator().manual_seed(0))(log_probs, [])
    assert torch.equal(drawn, sampled(torch.Generator().manual_seed(0))(log_probs, []))
    assert not torch.equal(drawn, sampled(torch.Generator().manual_seed(1))(log_probs, []))
    shares = torch.bincount(drawn, minlength=4) / 4000
    assert shares.tolist() == pytest.approx([0.5, 0.3, 0.15, 0.05], abs=0.03)
    assert set(sampled(torch.Generator().manual_seed(0), top_k=2)(log_probs, []).tolist()) == {0, 1}
    assert set(sampled(torch.Generator().manual_seed(0), top_p=0.9)(log_probs, []).tolist()) == {0, 1, 2}


def test_a_repetition_penalty_makes_what_was_written_less_likely() -> None:
    log_probs = torch.tensor([[0.5, 0.3, 0.2]]).log()
    written = [torch.tensor([0])]
    plain = sampled(torch.Generator(), temperature=0)(log_probs, written)
    penalised = sampled(torch.Generator(), temperature=0, repetition_penalty=3.0)(log_probs, written)
    assert plain.tolist() == [0]
    assert penalised.tolist() == [1]


def test_a_forced_prefix_is_written_whatever_the_model_thinks_and_then_it_goes_on() -> None:
    (decoded,) = write(Script(GARDEN_PATH), forced((4, 5), most_probable), batch_size=1, **LIMITS)
    assert decoded.token_ids == (4, 5, EOS)
    assert decoded.steps[0].log_prob == pytest.approx(math.log(0.4), abs=1e-5)  # the model's own, though forced


@pytest.mark.parametrize("settings", [
    {"method": "astar"}, {"beam_width": 0}, {"beam_width": 17}, {"beam_width": 2.5}, {"temperature": -1.0},
    {"temperature": math.nan}, {"top_p": 0.0}, {"top_p": 1.5}, {"top_k": -1}, {"repetition_penalty": 0.5},
    {"length_penalty": -0.1}, {"seed": -1}, {"beam_width": True},
])
def test_settings_out_of_range_are_refused_with_a_sentence(settings: dict) -> None:
    with pytest.raises(InputError, match=r"got|expected"):
        Search(**settings)
