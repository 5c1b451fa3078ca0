"""The proofs: they hold of sound networks of every shape, say what they did, and the command that makes them."""

from __future__ import annotations

import json
import math

import pytest
import torch

from builders import float64_model, tiny_checkpoint
from transformer.__main__ import main
from transformer.checkpoints import Checkpoint, shipped_checkpoint
from transformer.conditions import USUAL, Conditions
from transformer.devices import available_devices
from transformer.errors import InputError
from transformer.faults import FAULTS
from transformer.proof_subject import SHORTEST_TARGET, deviation, subject_of
from transformer.proofs import NEEDS_ANOTHER_DEVICE, PROOFS, Proof, prove
from transformer.proofs_of_runs import DEVICE_TOLERANCE, cpu_equals_device
from transformer.reference import reference_logits

ON_CPU = [name for name in PROOFS if name != NEEDS_ANOTHER_DEVICE]


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("GLASSFORMER_THREADS", "1")


def failing(checkpoint: Checkpoint, text: str, **options) -> list[tuple[str, float]]:
    return [(proof.name, proof.max_deviation) for proof in prove(checkpoint, text, **options) if not proof.holds]


# Hold


@pytest.mark.parametrize("changes", [
    {}, {"norm_first": False}, {"n_heads": 1, "positional_encoding": "learned"},
    {"positional_encoding": "none", "tie_output": False}, {"n_encoder_layers": 1, "n_decoder_layers": 3, "n_heads": 3},
], ids=str)
def test_all_proofs_hold_of_networks_of_every_shape(changes):
    assert failing(tiny_checkpoint(**changes), "3 1 7") == []


@pytest.mark.parametrize("name", ["copy", "reverse"])
def test_all_proofs_hold_of_the_shipped_models(name):
    proofs = list(prove(shipped_checkpoint(name), "3 1 7 3"))
    assert [proof.name for proof in proofs] == ON_CPU
    assert len(proofs) >= 12
    assert all(proof.holds for proof in proofs)


@pytest.mark.parametrize("text", ["5", "0 " * 15, "0 " * 13])
def test_one_token_and_a_text_that_fills_all_positions_can_be_proved(text):
    assert failing(tiny_checkpoint(), text) == []


@pytest.mark.parametrize(("text", "code"), [("", "text_empty"), ("0 " * 16, "tokens_too_many")])
def test_a_text_the_model_cannot_read_is_refused(text, code):
    with pytest.raises(InputError) as caught:
        list(prove(tiny_checkpoint(), text))
    assert caught.value.code == code


def test_proofs_leave_the_model_as_it_was_and_can_be_repeated():
    checkpoint = tiny_checkpoint()
    before = {key: value.clone() for key, value in checkpoint.model.state_dict().items()}
    first, second = (list(prove(checkpoint, "1 2 3")) for _ in range(2))
    assert first == second
    assert all(torch.equal(value, before[key]) for key, value in checkpoint.model.state_dict().items())
    assert next(checkpoint.model.parameters()).dtype == torch.float32


@pytest.mark.skipif(len(available_devices()) > 1, reason="there is a second device")
def test_where_there_is_one_device_the_proof_that_compares_two_is_left_out():
    assert NEEDS_ANOTHER_DEVICE not in {proof.name for proof in prove(tiny_checkpoint(), "1 2")}


def test_the_proof_that_compares_two_devices_compares_the_model_as_it_runs():
    subject = subject_of(tiny_checkpoint(), "1 2 3", USUAL)  # both devices are the CPU here
    assert cpu_equals_device(subject) == (0.0, DEVICE_TOLERANCE, {"device": "cpu"})
    worse = subject_of(tiny_checkpoint(), "1 2 3", FAULTS["dropout_left_on"].conditions)
    assert cpu_equals_device(worse)[0] > DEVICE_TOLERANCE


# Fail


def test_a_wrong_weight_in_the_network_is_found_by_comparing_with_the_reference(monkeypatch):
    checkpoint = tiny_checkpoint()
    real = reference_logits

    def with_other_weight(model, *ids):
        other = tiny_checkpoint().model.double()
        other.decoder.layers[1].feed_forward.down_proj.weight.data[0] += 1e-3
        return real(other, *ids)

    monkeypatch.setattr("transformer.proofs_of_runs.reference_logits", with_other_weight)
    assert [name for name, _ in failing(checkpoint, "1 2 3")] == ["equals_reference"]


def test_a_value_that_is_no_number_fails_and_can_be_said_in_json():
    poisoned = Conditions((lambda model: {"hook_logits": lambda logits: logits * math.nan},))
    proofs = {proof.name: proof for proof in prove(tiny_checkpoint(), "1 2 3", conditions=poisoned)}
    assert not proofs["equals_reference"].holds
    assert math.isnan(proofs["equals_reference"].max_deviation)
    assert proofs["equals_reference"].to_dict()["max_deviation"] is None
    assert proofs["rows_sum_to_1"].holds
    json.dumps([proof.to_dict() for proof in proofs.values()], allow_nan=False)


def test_a_deviation_is_relative_only_where_values_are_large():
    assert deviation(torch.tensor([0.5]), torch.tensor([0.25])) == 0.25
    assert deviation(torch.tensor([1010.0]), torch.tensor([1000.0])) == pytest.approx(0.01)
    assert math.isnan(deviation(torch.tensor([math.nan]), torch.tensor([1.0])))
    assert deviation(torch.empty(0), torch.empty(0)) == 0


def test_a_proof_always_has_a_future_to_change():
    subject = subject_of(tiny_checkpoint(), "1", USUAL)
    assert len(subject.tgt_in_ids) >= SHORTEST_TARGET
    assert subject.tgt_in_ids[0] == 1
    assert subject.device == "cpu"


@pytest.mark.parametrize("changes", [{}, {"norm_first": False}, {"positional_encoding": "learned"}], ids=str)
def test_the_reference_is_the_network_in_float64(changes):
    model = float64_model(**changes)
    src, tgt_in = [5, 9, 2], [1, 7, 7, 4]
    ours = model(torch.tensor([src]), torch.tensor([tgt_in]))[0].detach()
    assert torch.allclose(ours, torch.from_numpy(reference_logits(model, src, tgt_in)), atol=1e-5, rtol=0)


# The command


def test_prove_prints_every_proof_and_ends_with_0(capsys):
    assert main(["prove", "copy", "--text", "3 1 7", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["task"], report["text"], report["faults"], report["all_hold"]) == ("copy", "3 1 7", [], True)
    assert [proof["name"] for proof in report["proofs"]] == ON_CPU
    assert all(proof["holds"] is True and proof["max_deviation"] <= proof["tolerance"] for proof in report["proofs"])


def test_prove_with_faults_ends_with_1_and_says_one_proof_a_line(capsys, tmp_path, tiny_checkpoint_folder):
    words = ["prove", "copy", "--fault", "no_stop", "--fault", "wrong_first_token"]
    assert main([*words, "--checkpoint", str(tiny_checkpoint_folder)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines] == ON_CPU
    assert {line.split()[1] for line in lines if line.startswith("FAILS")} == {"stops_at_eos", "starts_with_bos"}


@pytest.mark.parametrize("words", [
    ["nothing"], ["copy", "--fault", "gremlins"], ["copy", "--text", ""], ["copy", "--device", "toaster"],
    ["copy", "--fault", "no_positions", "--fault", "positions_shifted"], ["copy", "--checkpoint", "/nowhere"],
    ["copy", "--fault"],
], ids=" ".join)
def test_prove_refuses_what_it_cannot_use_in_one_sentence_with_status_2(capsys, words):
    assert main(["prove", *words]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1


def test_a_proof_is_plain_data():
    proof = Proof("rows_sum_to_1", True, 0.0, 1e-9, {"rows": 3})
    assert json.loads(json.dumps(proof.to_dict()))["done"] == {"rows": 3}
    assert set(FAULTS["no_stop"].must_fail) <= set(PROOFS)
