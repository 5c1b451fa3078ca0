"""What the Cost tab sends: formulas, the sizes of the run, what was measured; and words for all of it."""

from __future__ import annotations

import json
from fractions import Fraction
from math import prod
from pathlib import Path

import pytest

import viz.tabs.cost as tab
from builders import tiny_checkpoint
from transformer.cost import BOOKS, KINDS, PAPER_SIZES, operations, sizes_of, values_of
from transformer.devices import available_devices, device_name
from transformer.measured_cost import DecodingTimes, LayerTimes
from transformer.tracing import trace_text
from viz.cost import costs_payload, measured_payload
from viz.tabs.session import Session, first_session

STRINGS = Path(__file__).parent.parent / "assets" / "strings"
CHECKPOINT = tiny_checkpoint(n_encoder_layers=1, n_decoder_layers=3, tie_output=False)
SESSION = Session("copy", trace_text(CHECKPOINT, "3 1 7", max_steps=5)).with_own(CHECKPOINT)


def sent_value(terms: list, sizes: dict[str, int]) -> Fraction:
    """What the browser makes of a formula."""
    return sum(Fraction(over, under) * prod(sizes[letter] for letter in letters) for over, under, letters in terms)


def test_formulas_and_sizes_as_sent_come_to_what_the_network_costs():
    sent = json.loads(tab.payload_of_costs(SESSION))
    sizes = sizes_of(CHECKPOINT.model.config, len(SESSION.trace.src_ids), len(SESSION.trace.steps))
    assert sent["sizes"] == sizes
    assert set(sent["books"]) == set(BOOKS)
    for name, book in sent["books"].items():
        assert {part: sent_value(terms, sent["sizes"]) for part, terms in book.items()} == values_of(
            BOOKS[name], sizes
        )
    assert (sent["model"], sent["text"], sent["is_example"]) == (CHECKPOINT.name, "3␣1␣7", False)
    assert sent["presets"] == PAPER_SIZES
    assert sent["paper"]["base"] == {"stated": 65_000_000, "vocabulary": 40_745}
    all_operations = sum(
        sent_value(terms, sizes) for name in ("once", "writing") for terms in sent["books"][name].values()
    )
    assert all_operations == operations(sizes)


def test_a_run_of_a_model_that_is_not_here_is_answered_with_an_example():
    stranger = trace_text(tiny_checkpoint(seed=5, d_model=6), "5 5")
    session = first_session().with_opened_trace(stranger)
    sent = json.loads(tab.payload_of_costs(session))
    assert (sent["is_example"], sent["run"]) == (True, stranger.id)
    assert sent["sizes"]["D"] == session.checkpoint.model.config.d_model


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_part_kind_and_preset_has_words(language):
    words = json.loads((STRINGS / language / "cost.json").read_text())
    shown = ("parameters", "once", "token", "token_uncached", "writing", "memory")
    needed = {f"part_{part}" for name in shown for part in BOOKS[name]}
    needed |= {f"kind_{kind}" for kind in KINDS} | {f"preset_{name}" for name in (*PAPER_SIZES, "own")}
    assert needed - set(words) == set()


def test_what_is_measured_is_that_of_the_run_and_is_sent_with_where_and_when(monkeypatch):
    asked_of = []

    def decoding(checkpoint, src_ids, device):
        asked_of.append((checkpoint, src_ids, device))
        return DecodingTimes((1.23456, 2.0), (3.0, 4.0), 2, 5, 0.25)

    def layer(checkpoint, device):
        asked_of.append((checkpoint, device))
        times = ((1.0, 4.0, 16.0), (1.0, 2.0, 4.0), (3.0, 3.0, 3.0))
        return LayerTimes((128, 256, 512), *times, (4, 8, 123_457), (1, 1, 1), 0)

    monkeypatch.setattr(tab, "decoding_times", decoding)
    monkeypatch.setattr(tab, "layer_times", layer)
    sent = json.loads(tab.payload_of_measurement(SESSION, "decoding", "cpu", "1|0", "en"))
    assert sent["columns"] == {"cached": [1.235, 2.0], "uncached": [3.0, 4.0]}
    assert sent["places"] == [1, 2]
    assert (sent["n_same"], sent["n_repeats"], sent["waited"]) == (2, 5, 0.25)
    assert (sent["asked"], sent["run"], sent["device"]) == ("1|0", SESSION.trace.id, "cpu")
    assert sent["devices"] == {device: device_name(device) for device in available_devices()}
    assert sent["taken_at"].endswith("+00:00")
    sent = json.loads(tab.payload_of_measurement(SESSION, "layer", "cpu", "1|1", "en"))
    exponents = {"attention": 2, "projections": 1, "feed_forward": 0, "bytes": 7.46}
    assert sent["exponents"] == pytest.approx(exponents, abs=0.01)
    assert sent["columns"]["bytes"] == [4, 8, 123_457]
    assert asked_of == [(SESSION.checkpoint, SESSION.trace.src_ids, "cpu"), (SESSION.checkpoint, "cpu")]


@pytest.mark.parametrize("device", ["toaster", None, 7, {"cpu": 1}])
def test_a_device_that_is_not_here_is_answered_with_a_sentence_and_measures_nothing(monkeypatch, device):
    monkeypatch.setattr(tab, "decoding_times", pytest.fail)
    sent = json.loads(tab.payload_of_measurement(SESSION, "decoding", device, "x" * 100, "en"))
    assert "found: cpu" in sent["problem"]
    assert len(sent["asked"]) == 20


def test_formulas_sizes_and_columns_that_do_not_fit_are_refused():
    fitting = {"books": {"a": {"part": [(1, 1, ("D",))]}}, "kinds": {"k": ("part",)}, "sizes": {"D": 2}, "presets": {}}
    costs_payload(**fitting)
    with pytest.raises(ValueError, match="letters without a size: D"):
        costs_payload(**{**fitting, "sizes": {}})
    with pytest.raises(ValueError, match="preset p has unknown sizes: X"):
        costs_payload(**{**fitting, "presets": {"p": {"X": 1}}})
    with pytest.raises(ValueError, match="no book has the parts other"):
        costs_payload(**{**fitting, "kinds": {"k": ("other",)}})
    with pytest.raises(ValueError, match="cached has 1 numbers for 2 places"):
        measured_payload(what="decoding", columns={"cached": [1.0]}, places=[1, 2])
