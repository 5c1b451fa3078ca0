"""A trace is one decoded run, whole: equal to a full forward pass, laid out from the model, true to what was typed."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import DIGITS, tiny_checkpoint
from transformer.errors import InputError
from transformer.hooks import intervene
from transformer.masks import Masks
from transformer.tracing import (
    ATTENTION_KINDS,
    MAX_TEXT_LENGTH,
    Trace,
    address,
    encode_source,
    record_values,
    trace_text,
)

CLOSE = {"atol": 2e-6, "rtol": 0}


def n_layers(trace: Trace, kind: str) -> int:
    return trace.config["n_encoder_layers" if kind == "encoder_self" else "n_decoder_layers"]


def assert_consistent(trace: Trace) -> None:
    """Everything in a trace has the length of what it belongs to, and every row is a distribution."""
    assert len(trace.src_ids) == len(trace.src_tokens) == len(trace.src_pieces)
    assert len(trace.tgt_in_ids) == len(trace.tgt_in_tokens) == len(trace.steps)
    assert set(trace.patterns) == set(ATTENTION_KINDS)
    for kind, pattern in trace.patterns.items():
        expected = (n_layers(trace, kind), trace.config["n_heads"], len(trace.query_tokens(kind)),
                    len(trace.key_tokens(kind)))
        assert pattern.shape == expected
        assert pattern.dtype == np.float32
        assert np.isfinite(pattern).all()
        np.testing.assert_allclose(pattern.sum(-1), 1, atol=1e-5)


settings_of_models = st.fixed_dictionaries({
    "n_heads": st.sampled_from([1, 2, 6]),
    "n_encoder_layers": st.integers(1, 3),
    "n_decoder_layers": st.integers(1, 3),
    "norm_first": st.booleans(),
    "positional_encoding": st.sampled_from(["sinusoidal", "learned", "none"]),
    "seed": st.integers(0, 99),
})


@settings(max_examples=12)
@given(settings_of_models, st.lists(st.sampled_from(DIGITS), min_size=1, max_size=8), st.integers(0, 4))
def test_patterns_recorded_step_by_step_equal_one_full_forward_pass(changes, symbols, n_padding):
    """Rows 10 and 16 of the cases: any number of heads, stacks of different depth."""
    checkpoint = tiny_checkpoint(**changes)
    trace = trace_text(checkpoint, " ".join(symbols), n_padding=n_padding)
    assert_consistent(trace)
    acts = record_values(checkpoint, trace)
    for kind, pattern in trace.patterns.items():
        for layer in range(n_layers(trace, kind)):
            np.testing.assert_allclose(pattern[layer], acts[address(kind, layer)], **CLOSE)
    log_probs = torch.tensor(acts["hook_logits"]).log_softmax(-1)
    written = [*trace.tgt_in_ids[1:], checkpoint.tgt_tokenizer.vocabulary.index(trace.steps[-1].token)]
    for t, (step, token_id) in enumerate(zip(trace.steps, written, strict=True)):
        assert step.token == checkpoint.tgt_tokenizer.vocabulary[token_id]
        assert step.log_prob == pytest.approx(log_probs[t, token_id].item(), abs=1e-5)
        assert step.candidates[0][0] == step.token
    assert trace.log_prob == pytest.approx(sum(step.log_prob for step in trace.steps))


def test_a_source_padded_to_12_has_12_columns_and_pads_get_exactly_no_attention(tiny_checkpoint):
    """Row 2 of the cases."""
    trace = trace_text(tiny_checkpoint, "3 1 7", n_padding=8)
    assert trace.src_tokens == ("3", "1", "7", "<eos>", *["<pad>"] * 8)
    assert trace.patterns["cross"].shape[-1] == 12
    assert trace.patterns["encoder_self"].shape[-2:] == (12, 12)
    assert (trace.patterns["cross"][..., 4:] == 0).all()
    assert (trace.patterns["encoder_self"][..., 4:] == 0).all()
    bare = trace_text(tiny_checkpoint, "3 1 7")
    assert trace.output_text == bare.output_text
    np.testing.assert_allclose(trace.patterns["cross"][..., :4], bare.patterns["cross"], **CLOSE)


def test_one_row_and_one_column_a_position_even_for_repeated_words():
    """Row 1 of the cases."""
    words = ("the", "cat", "sat", "on", "mat", "near")
    trace = trace_text(tiny_checkpoint(words), "the cat sat on the mat near the cat")
    assert trace.src_tokens == ("the", "cat", "sat", "on", "the", "mat", "near", "the", "cat", "<eos>")
    assert_consistent(trace)


def test_digits_are_tokens_in_reading_order_and_stay_texts(tiny_checkpoint):
    """Row 3 of the cases."""
    trace = trace_text(tiny_checkpoint, "3 1 7 3 10 2")
    assert trace.src_tokens == ("3", "1", "7", "3", "10", "2", "<eos>")
    assert all(type(token) is str for token in (*trace.src_tokens, *trace.tgt_in_tokens))


def test_tags_as_tokens_pass_through_to_the_letter():
    """Row 4 of the cases."""
    tags = ("<s>", "</s>", "<b>", "<i>", "<sub>", "<br>", "&amp;")
    trace = trace_text(tiny_checkpoint(tags), " ".join(tags))
    assert trace.src_tokens == (*tags, "<eos>")
    assert trace.text == "<s> </s> <b> <i> <sub> <br> &amp;"


def test_white_space_separates_and_zero_width_characters_are_kept(tiny_checkpoint):
    """Row 5 of the cases: what cannot be seen is still there to be drawn as a glyph."""
    trace = trace_text(tiny_checkpoint, "3\t1\n7  2 \u200b")
    assert trace.src_pieces == ("3", "1", "7", "2", "\u200b", "<eos>")
    assert trace.src_tokens == ("3", "1", "7", "2", "<unk>", "<eos>")


UNKNOWN = ["每个人都有他的作战策略", "שלום", "مرحبا", "👩‍👩‍👧", "e\u0301", "<eos>", "<pad>", "..."]


@pytest.mark.parametrize("typed", UNKNOWN)
def test_what_the_vocabulary_does_not_know_is_unk_with_what_was_typed(tiny_checkpoint, typed):
    """Rows 6 and 7 of the cases: every script, punctuation alone, and a forged special token."""
    trace = trace_text(tiny_checkpoint, typed)
    assert trace.src_tokens == ("<unk>", "<eos>")
    assert trace.src_pieces == (typed, "<eos>")
    assert trace.src_ids == (3, 2)
    assert_consistent(trace)


@pytest.mark.parametrize("blank", ["", "   ", "\n\t", "\u3000"])
def test_blank_text_is_answered_with_what_to_do(tiny_checkpoint, blank):
    """Row 7 of the cases."""
    with pytest.raises(InputError, match=r"^Type something") as refusal:
        trace_text(tiny_checkpoint, blank)
    assert refusal.value.code == "text_empty"


def test_one_token_is_enough(tiny_checkpoint):
    """Row 7 of the cases."""
    trace = trace_text(tiny_checkpoint, "7")
    assert trace.src_tokens == ("7", "<eos>")
    assert_consistent(trace)


def test_the_limit_of_tokens_is_accepted_and_over_it_both_numbers_are_said(tiny_checkpoint):
    """Row 8 of the cases: 16 positions hold 15 tokens and the end."""
    assert len(trace_text(tiny_checkpoint, " ".join(["5"] * 15)).src_tokens) == 16
    for length in (16, 128):
        with pytest.raises(InputError, match=f"at most 15 tokens, this text has {length}") as refusal:
            trace_text(tiny_checkpoint, " ".join(["5"] * length))
        assert refusal.value.values == {"limit": 15, "length": length}
    with pytest.raises(InputError, match="at most 12 tokens, this text has 13"):
        trace_text(tiny_checkpoint, " ".join(["5"] * 13), n_padding=3)


def test_the_limit_of_characters_is_accepted_and_over_it_both_numbers_are_said(tiny_checkpoint):
    """Row 8 of the cases: a long Chinese line without spaces is one unknown piece."""
    line = "长" * MAX_TEXT_LENGTH
    assert trace_text(tiny_checkpoint, line).src_pieces[0] == line
    for length in (MAX_TEXT_LENGTH + 1, MAX_TEXT_LENGTH * 10):
        with pytest.raises(InputError, match=f"may have {MAX_TEXT_LENGTH} characters, this one has {length}"):
            trace_text(tiny_checkpoint, "长" * length)


def test_31_tokens_and_more_are_all_there():
    """Row 9 of the cases: nothing is cut."""
    checkpoint = tiny_checkpoint(max_len=64)
    trace = trace_text(checkpoint, " ".join(str(number % 12) for number in range(45)))
    assert trace.src_tokens == (*[str(number % 12) for number in range(45)], "<eos>")
    assert trace.patterns["encoder_self"].shape[-2:] == (46, 46)
    assert_consistent(trace)


def test_reaching_the_length_cap_is_said_and_max_steps_can_only_lower_it(tiny_checkpoint):
    """Row 15 of the cases."""

    def never_eos(logits: torch.Tensor) -> torch.Tensor:
        changed = logits.clone()
        changed[..., 2] = -100
        return changed

    with intervene({"hook_logits": never_eos}):
        capped = trace_text(tiny_checkpoint, "3 1", max_steps=5)
        full = trace_text(tiny_checkpoint, "3 1", max_steps=99)
    assert len(capped.steps) == 5
    assert not capped.finished
    assert len(full.steps) == 16
    assert not full.finished
    assert "<eos>" not in {step.token for step in full.steps}


def test_a_finished_run_ends_with_eos_and_its_text_is_what_was_written_before(tiny_checkpoint):
    """Rows 15 and 17 of the cases: rows start at BOS, not shifted by one; EOS is written, never asked from."""
    ids = iter([7, 5, 2])

    def scripted(logits: torch.Tensor) -> torch.Tensor:
        changed = torch.zeros_like(logits)
        changed[..., next(ids)] = 9
        return changed

    with intervene({"hook_logits": scripted}):
        trace = trace_text(tiny_checkpoint, "3 1")
    assert trace.finished
    assert trace.output_text == "3 1"
    assert [step.token for step in trace.steps] == ["3", "1", "<eos>"]
    assert trace.tgt_in_tokens == ("<bos>", "3", "1")
    assert trace.tgt_in_ids == (1, 7, 5)
    assert_consistent(trace)


def test_query_and_key_tokens_say_which_axis_is_which(tiny_checkpoint):
    """Row 17 of the cases."""
    trace = trace_text(tiny_checkpoint, "3 1 7", max_steps=2)
    assert trace.query_tokens("encoder_self") == trace.key_tokens("encoder_self") == trace.src_tokens
    assert trace.query_tokens("decoder_self") == trace.key_tokens("decoder_self") == trace.tgt_in_tokens
    assert trace.query_tokens("cross") == trace.tgt_in_tokens
    assert trace.key_tokens("cross") == trace.src_tokens
    assert trace.tgt_in_tokens[0] == "<bos>"


def test_a_decoder_pattern_never_looks_into_the_future(tiny_checkpoint):
    pattern = trace_text(tiny_checkpoint, "3 1 7 5").patterns["decoder_self"]
    future = np.triu(np.ones(pattern.shape[-2:], dtype=bool), 1)
    assert (pattern[..., future] == 0).all()


def test_a_row_that_may_see_nothing_is_zeros_in_what_is_recorded(tiny_checkpoint):
    """Row 12 of the cases."""
    trace = trace_text(tiny_checkpoint, "3 1 7")
    n_source, n_target = len(trace.src_ids), len(trace.tgt_in_ids)
    memory_mask = torch.ones(1, 1, n_target, n_source, dtype=torch.bool)
    memory_mask[:, :, -1] = False
    acts = record_values(tiny_checkpoint, trace, masks=Masks(None, None, memory_mask))
    pattern = acts[address("cross", 0)]
    assert (pattern[:, -1] == 0).all()
    assert (pattern[:, :-1].sum(-1) > 0.99).all()
    assert all(np.isfinite(value).all() for name, value in acts.items() if not name.endswith("hook_attn_scores"))


def test_recorded_values_drop_the_batch_axis_and_can_be_chosen_by_name(tiny_checkpoint):
    trace = trace_text(tiny_checkpoint, "3 1 7")
    n_target = len(trace.tgt_in_ids)
    names = {address("cross", 1, "hook_q"), "hook_logits", "src_embedding.hook_embed", "src_embedding.hook_pos_embed"}
    acts = record_values(tiny_checkpoint, trace, names)
    assert {name: value.shape for name, value in acts.items()} == {
        "decoder.layers.1.cross_attn.hook_q": (2, n_target, 6),
        "hook_logits": (n_target, 16),
        "src_embedding.hook_embed": (4, 12),
        "src_embedding.hook_pos_embed": (4, 12),
    }


def test_a_trace_says_how_it_was_made_and_cannot_be_changed(tiny_checkpoint):
    trace = trace_text(tiny_checkpoint, "3 1")
    assert (trace.task, trace.model, trace.text, trace.device) == ("copy", "tiny", "3 1", "cpu")
    assert trace.milliseconds > 0
    assert trace.config == tiny_checkpoint.model.config.to_dict()
    with pytest.raises(dataclasses.FrozenInstanceError):
        trace.text = "4"
    assert hash(trace) == hash(trace)  # a field of arrays must not make it unhashable or compared


def test_an_error_is_one_sentence(tiny_checkpoint):
    with pytest.raises(InputError) as refusal:
        encode_source(tiny_checkpoint, "5 " * 200)
    assert re.fullmatch(r"[A-Z][^\n]*\.", str(refusal.value))
