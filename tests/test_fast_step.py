"""The short way through a decoding step: equal to the long one, and left alone where it would not be."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import float64_model, padded, small_configs, token_ids
from transformer.decoding import cached_next_logits
from transformer.fast_step import FastStep
from transformer.hooks import intervene, record
from transformer.model import Transformer

PATTERNS = {f"decoder.layers.{i}.{kind}.hook_pattern" for i in range(2) for kind in ("self_attn", "cross_attn")}


@pytest.fixture
def steps_taken(monkeypatch) -> list[int]:
    """Grows by one whenever the short way is gone."""
    taken: list[int] = []
    way = FastStep.__call__
    monkeypatch.setattr(FastStep, "__call__", lambda self, last_ids: taken.append(1) or way(self, last_ids))
    return taken


def source() -> torch.Tensor:
    return padded(token_ids(3, 5, 11), [5, 1, 3])


def written(model: Transformer, n_steps: int, look_everywhere: bool) -> tuple[torch.Tensor, list[dict]]:
    """Logits of ``n_steps`` steps and what is recorded: of all values, or of the patterns alone."""
    next_logits, logits, acts = cached_next_logits(model, source()), [], []
    for t in range(n_steps):
        with record(None if look_everywhere else PATTERNS) as step:
            logits.append(next_logits(token_ids(3, 1, 13, seed=t)[:, 0]))
        acts.append(step)
    return torch.stack(logits), acts


@settings(max_examples=8, deadline=None)
@given(small_configs(), st.integers(0, 2**16))
def test_a_step_nobody_looks_into_gives_the_logits_of_one_in_which_all_is_recorded(changes, seed):
    model = float64_model(seed, **changes)
    with torch.inference_mode():
        assert torch.allclose(written(model, 6, False)[0], written(model, 6, True)[0], rtol=0, atol=1e-10)


def test_patterns_are_those_of_the_long_way(steps_taken):
    model = float64_model(norm_first=False)
    with torch.inference_mode():
        _, short = written(model, 4, False)
        assert len(steps_taken) == 4
        _, long = written(model, 4, True)
    assert len(steps_taken) == 4  # the long way was the long way
    for ours, theirs in zip(short, long, strict=True):
        assert set(ours) == PATTERNS
        for name in PATTERNS:
            assert torch.allclose(ours[name], theirs[name], rtol=0, atol=1e-12)
            assert bool((ours[name][theirs[name] == 0] == 0).all())  # padding has weight 0, not nearly 0


def test_a_value_that_is_changed_is_changed_in_a_step_that_is_otherwise_not_looked_into(steps_taken):
    model = float64_model()
    with torch.inference_mode():
        plain = written(model, 2, False)[0]
        n_plain = len(steps_taken)
        with intervene({"decoder.layers.0.hook_mlp_out": torch.zeros_like}):
            changed = written(model, 2, False)[0]
        assert len(steps_taken) == n_plain
        with intervene({name: torch.zeros_like for name in PATTERNS}):
            without_patterns = written(model, 2, False)[0]
        assert len(steps_taken) == 2 * n_plain
    assert not torch.allclose(plain, changed)
    assert not torch.allclose(plain, without_patterns)


def test_once_padding_is_fed_the_long_way_hides_it(steps_taken):
    model = float64_model()
    src, fed = source(), [torch.tensor([5, 6, 7]), torch.tensor([5, 0, 7]), torch.tensor([8, 9, 10])]
    with torch.inference_mode():
        next_logits = cached_next_logits(model, src)
        last = [next_logits(ids) for ids in fed][-1]
        assert len(steps_taken) == 1
        assert torch.allclose(last, model(src, torch.stack(fed, dim=1))[:, -1], rtol=0, atol=1e-10)


def test_a_model_that_is_training_or_in_half_precision_goes_the_long_way(steps_taken):
    ids = torch.tensor([5, 6, 7])
    with torch.inference_mode():
        cached_next_logits(float64_model().train(), source())(ids)
        cached_next_logits(float64_model().bfloat16(), source())(ids)
    assert steps_taken == []
