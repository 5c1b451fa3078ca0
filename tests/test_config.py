"""The config refuses what cannot form a network, naming the values."""

from __future__ import annotations

import dataclasses
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import config_of
from transformer.config import TransformerConfig
from transformer.model import Transformer


@given(st.integers(1, 40), st.integers(1, 12))
def test_heads_must_divide_the_width_and_the_refusal_names_both(d_model, n_heads):
    """Row 11 of the cases."""
    if d_model % n_heads:
        with pytest.raises(ValueError, match=f"d_model={d_model} and n_heads={n_heads}$"):
            config_of(d_model=d_model, n_heads=n_heads)
    else:
        assert config_of(d_model=d_model, n_heads=n_heads).d_head * n_heads == d_model


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"d_model": 0}, "d_model must be a whole number of at least 1, got 0"),
        ({"n_heads": -2}, "n_heads must be a whole number of at least 1, got -2"),
        ({"max_len": 1.5}, "max_len must be a whole number of at least 1, got 1.5"),
        ({"d_ff": "16"}, "d_ff must be a whole number of at least 1, got '16'"),
        ({"n_encoder_layers": 0}, "n_encoder_layers must be a whole number of at least 1, got 0"),
        ({"n_decoder_layers": True}, "n_decoder_layers must be a whole number of at least 1, got True"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
        ({"dropout": -0.1}, "dropout must be at least 0 and below 1, got -0.1"),
        ({"dropout": float("nan")}, "dropout must be at least 0 and below 1, got nan"),
        ({"dropout": None}, "dropout must be at least 0 and below 1, got None"),
        ({"norm_first": 1}, "norm_first must be true or false, got 1"),
        ({"tie_output": "yes"}, "tie_output must be true or false, got 'yes'"),
        ({"positional_encoding": "rotary"}, "one of sinusoidal, learned, none, got 'rotary'"),
        ({"pad_id": 11}, "pad_id must lie in both vocabularies (below 11), got 11"),
        ({"pad_id": -1}, "pad_id must lie in both vocabularies (below 11), got -1"),
        ({"pad_id": False}, "pad_id must lie in both vocabularies (below 11), got False"),
    ],
)
def test_a_value_that_forms_no_network_is_refused_with_its_name_and_what_it_was(changes, named):
    with pytest.raises(ValueError, match=re.escape(named)):
        config_of(**changes)


def test_odd_widths_make_a_network():
    """Row 11 of the cases: odd d_model is supported."""
    assert Transformer(config_of(d_model=15, n_heads=3)).config.d_head == 5


def test_a_config_comes_back_from_json():
    config = config_of(norm_first=False, positional_encoding="learned", dropout=0.25)
    assert TransformerConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_a_config_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        config_of().d_model = 7


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"src_vocab_size": 5, "tgt_vocab_size": 5, "n_embd": 4}, "unknown names: n_embd"),
        ({"src_vocab_size": 5}, "lacks tgt_vocab_size"),
        ([], "set of named values, got list"),
        (None, "set of named values, got NoneType"),
    ],
)
def test_unknown_and_missing_names_are_refused(values, sentence):
    with pytest.raises(ValueError, match=sentence):
        TransformerConfig.from_dict(values)
