"""The benchmarks' contract, and that what they compare is the same network. No time is judged here."""

from __future__ import annotations

import importlib.util
import json

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import train_step
from benchmarks.measuring import BenchmarkFailed, Result, at_least, at_most, interleaved, medians, ratio, versions
from benchmarks.subjects import endless_checkpoint
from benchmarks.torch_peer import TorchTransformer
from builders import config_of, generator
from transformer.measured_cost import growth
from transformer.model import Transformer

NAMES = ("decode", "decode-growth", "train-step", "train-copy", "scrub", "page-load", "classroom", "memory",
         "attention-cost")


@pytest.fixture
def measured(monkeypatch):
    """Every benchmark at once finds the result that is put in here."""
    found: dict[str, Result] = {}
    monkeypatch.setattr(command, "measure", lambda name: found["result"])
    monkeypatch.setattr(command, "measure_apart", lambda name: found["result"].to_dict())
    return found


def test_every_budget_has_a_benchmark_and_every_benchmark_a_module():
    assert set(NAMES) <= set(command.REGISTRY)
    for name, module in command.REGISTRY.items():
        assert importlib.util.find_spec(module), name
        assert module.startswith("benchmarks.")


def test_json_has_the_name_the_value_the_budget_and_whether_it_holds(measured, capsys):
    measured["result"] = at_least("decode", 1.25, 1.0, "a ratio", medians={"ours": 2.0})
    assert command.main(["decode", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed.items() >= {"name": "decode", "value": 1.25, "budget": 1.0, "holds": True}.items()


def test_a_budget_that_does_not_hold_ends_with_1_and_says_so(measured, capsys):
    measured["result"] = at_most("decode-growth", 1.6, 1.5, "a ratio")
    assert command.main(["decode-growth"]) == 1
    assert "DOES NOT HOLD" in capsys.readouterr().out
    assert command.main([]) == 1


def test_an_unknown_name_ends_with_2_and_one_sentence(capsys):
    assert command.main(["decode "]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert "'decode '" in printed.err
    assert all(name in printed.err for name in NAMES)


def test_what_cannot_be_compared_ends_with_1_and_its_sentence(monkeypatch, capsys):
    def fail(name: str) -> Result:
        raise BenchmarkFailed("other tokens")

    monkeypatch.setattr(command, "measure", fail)
    assert command.main(["decode", "--json"]) == 1
    assert capsys.readouterr() == ("", "other tokens\n")


def test_all_of_them_are_a_table_with_machine_and_versions(measured, capsys):
    measured["result"] = at_least("decode", 1.25, None, "a ratio", ms={"ours": 2.0, "theirs": 4.5})
    assert command.main(["all"]) == 0
    table = capsys.readouterr().out
    assert "cores" in table
    assert f"torch {torch.__version__}" in table
    assert "ms: ours 2, theirs 4.5" in table
    assert command.main(["--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert len(printed["results"]) == len(command.REGISTRY)
    assert printed["versions"] == versions()


def test_tasks_take_turns_and_every_second_round_goes_backwards():
    order: list[str] = []
    seconds = interleaved({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, rounds=2, warm_ups=1)
    assert order == ["b", "a", "a", "b", "b", "a"]
    assert {name: len(times) for name, times in seconds.items()} == {"a": 2, "b": 2}


def test_a_ratio_is_the_median_of_those_of_the_rounds():
    seconds = {"a": [1.0, 30.0, 2.0], "b": [1.0, 10.0, 1.0]}
    assert ratio(seconds, "a", "b") == 2.0
    assert medians(seconds) == {"a": 2.0, "b": 1.0}


def test_the_fitted_exponent_is_that_of_the_curve():
    lengths = (128, 256, 512, 1024)
    assert growth(lengths, [3e-6 * length**2 for length in lengths]) == pytest.approx(2)
    assert growth(lengths, [0.5 * length for length in lengths]) == pytest.approx(1)


def test_copied_weights_write_equal_tokens_in_marian_and_ctranslate2():
    from benchmarks import decode

    checkpoint = endless_checkpoint(16, 2, n_tokens=60)
    tasks = decode.decodings(checkpoint, texts=((4, 9), (7, 12)))
    written = {name: task() for name, task in tasks.items()}
    assert set(written) == {"ours", "hf", "hf_captured", "ctranslate2"}
    assert [len(row) for row in written["ours"]] == [9, 12]
    assert len({token for row in written["ours"] for token in row}) > 2
    decode.check_equal(written)
    written["hf"] = [row[::-1] for row in written["hf"]]
    with pytest.raises(BenchmarkFailed, match="hf wrote other tokens"):
        decode.check_equal(written)


@pytest.mark.parametrize("norm_first", [True, False])
def test_copied_weights_give_equal_logits_in_torch(norm_first):
    config = config_of(src_vocab_size=36, tgt_vocab_size=36, norm_first=norm_first)
    ours = Transformer(config).initialize(generator())
    theirs = TorchTransformer(config).copy_weights(ours)
    _, _, batches = train_step.mini()
    train_step.check_equal(ours, theirs, batches[0])
    with torch.no_grad():
        ours.decoder.layers[1].cross_attn.v_proj.weight.mul_(2)
    with pytest.raises(BenchmarkFailed, match="differ by"):
        train_step.check_equal(ours, theirs, batches[0])
