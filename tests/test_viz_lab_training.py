"""What the numbers of a healthy and a faulty training say, and what the browser is told of a pair."""

from __future__ import annotations

import json

import pytest

from transformer.fault_pairs import recorded_pairs
from transformer.training_faults import TRAINING_FAULTS
from viz.lab_training import TAIL, mean_ratio, pair_payload, side_figures, verdict
from viz.tabs.lab_training import records_payload
from viz.tabs.language import STRINGS


def figures(exact: float = 1.0, tokens: float = 0.99, learnt_at: int | None = 100, diverged=None) -> dict:
    return {
        "steps": 250, "loss": 0.1, "tokens": tokens, "exact": exact, "n": 100, "learnt_at": learnt_at,
        "diverged": diverged,
    }


def keys(found: dict) -> list[str]:
    return [finding["key"] for finding in found["findings"]]


@pytest.mark.parametrize(("faulty", "ratio", "n_empty", "cost", "expected"), [
    (figures(exact=0.0, tokens=0.99), 0.9, 5, 100, ["blind", "empty"]),
    (figures(exact=0.25, tokens=0.7), 2.0, 0, 75, ["worse"]),
    (figures(exact=0.98, learnt_at=200), 1.5, 0, 2, ["later"]),
    (figures(exact=0.98, learnt_at=110), 1.0, 0, 2, ["same"]),
    (figures(exact=0.99), 0.5, 0, 1, ["same", "flatters"]),
    (figures(exact=0.0, tokens=0.2, learnt_at=None, diverged={"step": 2, "loss": "308", "rate": "3"}), 9.0, 5, 100,
     ["diverged", "only_healthy"]),
])
def test_what_is_said_of_a_pair_follows_from_its_numbers(faulty, ratio, n_empty, cost, expected):
    found = verdict(figures(), faulty, ratio, n_empty, 5)
    assert (found["cost"], keys(found)) == (cost, expected)


def test_a_faulty_side_that_is_ahead_and_a_healthy_one_that_has_not_learnt_are_both_said():
    found = verdict(figures(exact=0.2, learnt_at=None), figures(exact=0.4, learnt_at=None), 1.0)
    assert (found["cost"], keys(found)) == (-20, ["better", "unlearnt"])
    assert found["findings"][0]["values"] == {"exact": 0.4, "healthy_exact": 0.2, "n": 100}


def test_nothing_is_compared_before_both_sides_were_evaluated():
    nothing = side_figures([], [], [], None)
    assert nothing["exact"] is nothing["loss"] is nothing["learnt_at"] is None
    assert verdict(figures(), nothing, None) == {"cost": None, "findings": []}


def test_the_figures_of_a_side_are_the_ends_of_its_curves():
    losses = [4.0] * 30 + [1.0] * TAIL
    evaluations = [{"step": step, "exact_match": exact, "n": 8} for step, exact in ((0, 0.0), (25, 0.9), (50, 0.8))]
    found = side_figures(losses, [0.5] * 50, evaluations, None)
    assert (found["steps"], found["loss"], found["tokens"]) == (50, 1.0, 0.5)
    assert (found["exact"], found["n"], found["learnt_at"]) == (0.8, 8, 25)


def test_a_mean_ratio_is_geometric_and_over_the_steps_that_both_have():
    assert mean_ratio([1.0, 4.0], [2.0, 2.0]) == pytest.approx(1.0)
    assert mean_ratio([1.0, 1.0, 1.0], [0.5, 0.5]) == pytest.approx(0.5)
    assert mean_ratio([1.0], []) is None


def test_a_pair_without_one_of_its_sides_is_refused():
    with pytest.raises(ValueError, match="expected the sides healthy, faulty, got healthy"):
        pair_payload(run="a", kind="recorded", fault="no_warmup", sides={"healthy": {}}, verdict={})


def test_the_page_opens_with_a_recorded_pair_of_every_fault_and_words_for_all_it_says():
    records = json.loads(records_payload())["records"]
    assert list(records) == list(TRAINING_FAULTS)
    for name, pair in records.items():
        for side, of_side in pair["sides"].items():
            history = recorded_pairs()[name][side].history
            assert len(of_side["steps"]["loss"]) == len(history.steps) == of_side["figures"]["steps"]
            assert of_side["evaluations"][-1]["exact_match"] == history.evaluations[-1].exact_match
            assert [len(sample["expected"]) for sample in of_side["samples"]] == [
                len(sample.expected.split()) for sample in history.evaluations[-1].samples
            ]
        for words in STRINGS.values():
            assert f"lab_training.changes_{name}" in words
            assert all(f"lab_training.find_{key}" in words for key in keys(pair["verdict"]))


def test_the_recorded_pairs_show_what_each_fault_is_known_for():
    records = json.loads(records_payload())["records"]
    cost = {name: pair["verdict"]["cost"] for name, pair in records.items()}
    said = {name: keys(pair["verdict"]) for name, pair in records.items()}
    for name in ("leaking_causal_mask", "target_not_shifted"):
        assert cost[name] >= 90
        assert said[name][0] == "blind"
    for name in ("no_warmup", "post_ln_deep", "no_score_scale", "no_positions"):
        assert cost[name] >= 30
        assert said[name][0] == "worse"
    assert said["loss_counts_padding"][-1] == "flatters"
    assert said["rate_too_high"][:2] == ["diverged", "only_healthy"]
