"""Teacher forcing beside free running: both curves equal plain forward passes, and bad references get a sentence."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import DIGITS, tiny_checkpoint
from transformer.checkpoints import Checkpoint
from transformer.errors import InputError
from transformer.tasks import TASKS
from transformer.teacher_forcing import compare
from transformer.tracing import MAX_TEXT_LENGTH, trace_text

TEXT = "3 1 7"


@torch.no_grad()
def writer(seed: int = 10, eagerness: float = 0.2) -> Checkpoint:
    """A random network that writes digits alone and is not indifferent; the more eager, the sooner it ends.

    The last norm adds the same to every column, so what is added to a row of the output matrix moves its logit.
    """
    made = tiny_checkpoint(seed=seed)
    made.model.double()
    for parameter in made.model.parameters():
        parameter.mul_(2)
    made.model.decoder.final_norm.weight.fill_(1.0)
    made.model.decoder.final_norm.bias.fill_(1.0)
    tokenizer = made.tgt_tokenizer
    made.model.unembed.weight[[tokenizer.pad_id, tokenizer.bos_id, tokenizer.unk_id]] -= 5
    made.model.unembed.weight[tokenizer.eos_id] += eagerness
    return made


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    """It writes 0 11 5 11 9 9 <eos> for TEXT."""
    return writer()


def log_probs_of(checkpoint: Checkpoint, text: str, fed: list[int]) -> torch.Tensor:
    """Log-probabilities [T, V] of each next token when ``fed`` stands after <bos>, by one plain forward pass."""
    tokenizer = checkpoint.src_tokenizer
    src = torch.tensor([[*tokenizer.encode(text).ids, tokenizer.eos_id]])
    with torch.inference_mode():
        return checkpoint.model(src, torch.tensor([[tokenizer.bos_id, *fed]]))[0].log_softmax(dim=-1)


def ids_of(checkpoint: Checkpoint, tokens) -> list[int]:
    return [checkpoint.tgt_tokenizer.vocabulary.index(token) for token in tokens]


def test_fed_the_reference_every_number_equals_one_forward_pass(checkpoint):
    found = compare(checkpoint, TEXT, "1 0 11 5")
    ids = ids_of(checkpoint, ("1", "0", "11", "5", "<eos>"))
    expected = log_probs_of(checkpoint, TEXT, ids[:-1])
    assert [step.token for step in found.forced] == ["1", "0", "11", "5", "<eos>"]
    for i, step in enumerate(found.forced):
        row = expected[i]
        assert step.log_prob == pytest.approx(float(row[ids[i]]), abs=1e-5)
        assert step.rank == row.argsort(descending=True).tolist().index(ids[i]) + 1
        assert step.choice == checkpoint.tgt_tokenizer.vocabulary[int(row.argmax())]
        assert step.choice_log_prob == pytest.approx(float(row.max()), abs=1e-5)
    assert found.forced_log_prob == pytest.approx(sum(float(expected[i, token]) for i, token in enumerate(ids)), 1e-4)
    assert found.n_first_choices == sum(int(expected[i].argmax()) == token for i, token in enumerate(ids))
    assert len({step.rank for step in found.forced}) > 1  # a rank that were always 1 would be seen


def test_fed_its_own_output_every_number_equals_one_forward_pass_over_that_output(checkpoint):
    found = compare(checkpoint, TEXT, "1 0 11 5")
    own = ids_of(checkpoint, (step.token for step in found.free))
    true = ids_of(checkpoint, ("1", "0", "11", "5", "<eos>"))
    expected = log_probs_of(checkpoint, TEXT, own[:-1])
    for i, step in enumerate(found.free):
        assert step.log_prob == pytest.approx(float(expected[i, own[i]]), abs=1e-5)
        assert own[i] == int(expected[i].argmax())
        if i < len(true):
            assert step.reference_log_prob == pytest.approx(float(expected[i, true[i]]), abs=1e-5)
        else:
            assert step.reference_log_prob is None
    assert found.free_log_prob == pytest.approx(sum(float(expected[i, token]) for i, token in enumerate(own)), 1e-4)


def test_what_it_writes_by_itself_is_the_greedy_run_of_the_page(checkpoint):
    found, trace = compare(checkpoint, TEXT, "1"), trace_text(checkpoint, TEXT)
    assert [step.token for step in found.free] == [step.token for step in trace.steps]
    assert found.finished == trace.finished


@settings(max_examples=12)
@given(
    seed=st.integers(0, 11),
    eagerness=st.sampled_from((0, 0.1, 0.2)),
    text=st.lists(st.sampled_from(DIGITS), min_size=1, max_size=6).map(" ".join),
)
def test_with_its_own_output_as_the_reference_nothing_parts_and_both_curves_agree(seed, eagerness, text):
    checkpoint = writer(seed, eagerness)
    own = [step.token for step in trace_text(checkpoint, text, max_steps=15).steps]
    reference = " ".join(token for token in own if token != "<eos>")
    if not reference:
        return  # it ended at once, and there is no such reference
    found = compare(checkpoint, text, reference, max_steps=len(own))
    assert found.parts_at is None
    for forced, free in zip(found.forced, found.free, strict=False):
        assert forced.token == free.token
        assert forced.rank == 1
        assert math.exp(forced.log_prob) == pytest.approx(math.exp(free.log_prob), abs=1e-9)
        assert math.exp(forced.log_prob) == pytest.approx(math.exp(free.reference_log_prob), abs=1e-9)
    if found.finished:
        assert found.forced_log_prob == pytest.approx(found.free_log_prob, abs=1e-9)


@settings(max_examples=10)
@given(st.integers(0, 5), st.sampled_from(DIGITS))
def test_the_point_where_they_part_is_the_first_token_that_differs(place, other):
    checkpoint = writer()
    own = [step.token for step in trace_text(checkpoint, TEXT).steps]
    changed = [*own[:place], other, *own[place + 1 : -1]]
    found = compare(checkpoint, TEXT, " ".join(changed))
    assert found.parts_at == (None if other == own[place] else place)
    fed_the_same = len(own) if found.parts_at is None else place + 1
    for i, (forced, free) in enumerate(zip(found.forced, found.free, strict=True)):
        agrees = forced.log_prob == pytest.approx(free.reference_log_prob, abs=1e-5)
        assert agrees or i >= fed_the_same  # until they part the decoder is fed the same, so it says the same


def test_a_shorter_or_longer_reference_parts_where_the_shorter_ends(checkpoint):
    own = [step.token for step in compare(checkpoint, TEXT, "1").free]
    assert own == ["0", "11", "5", "11", "9", "9", "<eos>"]
    assert compare(checkpoint, TEXT, "0 11 5").parts_at == 3
    longer = compare(checkpoint, TEXT, "0 11 5 11 9 9 4")
    assert (longer.parts_at, len(longer.free), len(longer.forced)) == (6, 7, 8)


def test_a_lower_cap_is_obeyed_and_said(checkpoint):
    found = compare(checkpoint, TEXT, "1 2 3 4 5", max_steps=2)
    assert (len(found.free), found.finished) == (2, False)
    assert len(found.forced) == 6


def test_an_unknown_piece_of_the_reference_stays_visible_as_typed(checkpoint):
    found = compare(checkpoint, TEXT, "1 \u05e9\u05dc\u05d5\u05dd <eos> 2")
    assert [(step.token, step.piece) for step in found.forced] == [
        ("1", "1"), ("<unk>", "\u05e9\u05dc\u05d5\u05dd"), ("<unk>", "<eos>"), ("2", "2"), ("<eos>", "<eos>")
    ]


@pytest.mark.parametrize("reference", ["", "   ", "\t\n"])
def test_an_empty_reference_is_answered_with_what_to_do(checkpoint, reference):
    with pytest.raises(InputError) as caught:
        compare(checkpoint, TEXT, reference)
    assert caught.value.code == "reference_empty"


def test_the_limits_of_a_reference_are_accepted_and_over_them_both_numbers_are_said(checkpoint):
    most = checkpoint.model.config.max_len - 1
    assert len(compare(checkpoint, TEXT, " ".join(["1"] * most)).forced) == most + 1
    with pytest.raises(InputError, match=r"at most 15 tokens.*has 16"):
        compare(checkpoint, TEXT, " ".join(["1"] * (most + 1)))
    assert compare(checkpoint, TEXT, "x" * MAX_TEXT_LENGTH).forced[0].token == "<unk>"
    with pytest.raises(InputError, match=r"256 characters.*has 257"):
        compare(checkpoint, TEXT, "x" * (MAX_TEXT_LENGTH + 1))


def test_a_text_that_cannot_be_read_is_refused_as_everywhere(checkpoint):
    with pytest.raises(InputError) as caught:
        compare(checkpoint, " ", "1")
    assert caught.value.code == "text_empty"


@pytest.mark.parametrize("name", TASKS)
def test_every_example_of_every_task_has_a_reference(name):
    of_task = TASKS[name]
    references = [of_task.reference(text) for text in of_task.examples]
    assert all(references)
    expected = {
        "copy": "3 1 7 3 10 2", "reverse": "2 10 3 7 1 3", "dates": "1999-03-03", "en-zh": "车站在哪里？",
        "en-de": "Wo ist der Bahnhof?",
    }
    assert references[0] == expected[name]


def test_a_task_says_nothing_of_a_text_it_does_not_know():
    assert TASKS["en-zh"].reference("The zebra sleeps.") == ""
    assert TASKS["dates"].reference("the day after tomorrow") == ""
    assert TASKS["dates"].reference("February 30, 1999") == ""
    assert TASKS["en-zh"].reference("HOW ARE YOU?") == "你好吗"
    assert TASKS["copy"].reference("3 שלום") == "3 שלום"


def test_a_task_of_days_knows_its_own_pairs():
    for source, target in TASKS["dates"].pairs("test", 40, seed=1):
        assert TASKS["dates"].reference(source) == target
