"""The search on the page: where the tree's nodes lie, what the payload says, and how a session goes on and back."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import tiny_checkpoint as build_checkpoint
from transformer.checkpoints import Checkpoint
from transformer.errors import InputError
from transformer.search import Search
from transformer.search_tree import search_tree
from transformer.trace_files import trace_from_json, trace_to_json
from transformer.tracing import trace_text
from viz.search_tree import depths_of, tidy_rows, tree_payload
from viz.tabs.branches import token_of, with_branch, with_token
from viz.tabs.runs import payload_of, run_facts, run_text, tree_key
from viz.tabs.search_settings import search_of, settings_of
from viz.tabs.session import MOST_CHANGES, Session
from viz.tabs.tree import payload_of_tree

TEXT = "3 1 7"
HOSTILE = ("<b>", "</script>", "&amp;", "${1+1}", "{n}", "a\u200bb", "3", "7")


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    checkpoint = build_checkpoint(seed=4, tie_output=False)
    return replace(checkpoint, meta={**checkpoint.meta, "sha256": "0" * 64})


@pytest.fixture
def session(checkpoint: Checkpoint) -> Session:
    return Session("own", trace_text(checkpoint, TEXT), checkpoint)


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[int], list[float], set[int]]:
    """Parents, log-probabilities and ends (leaves only) of a tree of up to 60 nodes."""
    parents = [-1]
    for node in range(1, draw(st.integers(1, 60))):
        parents.append(draw(st.integers(max(0, node - 12), node - 1)))
    log_probs = draw(st.lists(st.floats(-9, 0), min_size=len(parents), max_size=len(parents)))
    leaves = sorted(set(range(1, len(parents))) - set(parents))
    return parents, log_probs, set(draw(st.lists(st.sampled_from(leaves), max_size=9))) if leaves else set()


def crossing(parents, depths, rows, shown) -> list[tuple[int, int]]:
    """Pairs of lines between the same two columns whose order at the left differs from that at the right."""
    edges = [node for node in shown if parents[node] >= 0]
    return [
        (a, b)
        for a in edges
        for b in edges
        if depths[a] == depths[b]
        and rows[parents[a]] < rows[parents[b]]
        and rows[a] >= rows[b]
    ]


@given(tree=trees())
def test_no_two_nodes_share_a_place_no_lines_cross_and_the_ends_have_their_row_to_themselves(tree):
    parents, log_probs, ends = tree
    depths, rows = depths_of(parents), tidy_rows(parents, log_probs, ends)
    places = list(zip(depths, rows, strict=True))
    assert len(set(places)) == len(places)
    assert crossing(parents, depths, rows, range(len(parents))) == []
    for end in ends:
        right = [node for node, place in enumerate(places) if place[1] == rows[end] and place[0] > depths[end]]
        assert right == []


@given(tree=trees())
def test_the_most_probable_child_goes_straight_on_and_the_others_lie_below_it_in_order(tree):
    parents, log_probs, ends = tree
    rows = tidy_rows(parents, log_probs, ends)
    for parent in set(parents) - {-1}:
        children = sorted(
            (node for node in range(len(parents)) if parents[node] == parent), key=lambda node: -log_probs[node]
        )
        assert rows[children[0]] == rows[parent]
        assert [rows[child] for child in children] == sorted({rows[child] for child in children})


def test_nodes_that_are_not_shown_take_no_room():
    parents = [-1, 0, 0, 0, 3]
    log_probs = [0.0, -0.1, -0.5, -0.9, -0.1]
    assert tidy_rows(parents, log_probs, set()) == [0, 0, 1, 2, 2]
    assert tidy_rows(parents, log_probs, set(), {0, 1, 3, 4}) == [0, 0, -1, 1, 1]


def test_four_beams_and_four_samples_of_fifteen_tokens_have_a_place_each():
    """Bushy and long: every line of every beam with what was dropped beside it."""
    parents, log_probs, ends = [-1], [0.0], []
    for line in range(8):
        place = 0
        for step in range(15):
            siblings = 1 + (step * 7 + line) % 4
            for sibling in range(siblings):
                parents.append(place)
                log_probs.append(-0.1 * (sibling + 1) - 0.01 * line)
            place = len(parents) - siblings
        ends.append(place)
    rows = tidy_rows(parents, log_probs, ends)
    places = set(zip(depths_of(parents), rows, strict=True))
    assert len(places) == len(parents) > 200
    assert max(rows) < len(parents) / 4, "rows are shared"


def test_a_long_single_line_is_laid_out_without_recursion():
    parents = [-1, *range(1023)]
    assert tidy_rows(parents, [0.0] * 1024, {1023}) == [0] * 1024


@pytest.mark.parametrize("parents", [[0], [-1, 1], [-1, 0, 5]])
def test_a_parent_must_come_before_its_child(parents):
    with pytest.raises(ValueError, match="does not come before it"):
        depths_of(parents)


def test_columns_of_different_length_are_refused_with_both_numbers():
    columns = {"token_ids": [1, 2], "tokens": ["a", "b"], "log_probs": [0.0], "greedy": [True] * 2,
               "beams": [(), ()], "samples": [(), ()], "pruned_at": [0, 0]}
    with pytest.raises(ValueError, match="log_probs has 1 entries for 2 nodes"):
        tree_payload(key="k", parents=[-1, 0], paths=[], **columns)


def test_the_payload_holds_the_tree_as_it_was_computed(session, checkpoint):
    payload = json.loads(payload_of_tree(session))
    tree = search_tree(checkpoint, TEXT, session.search)
    assert payload["log_probs"] == [node.log_prob for node in tree.nodes]
    assert payload["parents"] == [node.parent for node in tree.nodes]
    assert payload["pruned_at"] == [node.pruned_at for node in tree.nodes]
    assert [tuple(path["nodes"]) for path in payload["paths"]] == [path.nodes for path in tree.paths]
    assert [path["score"] for path in payload["paths"]] == [path.score for path in tree.paths]
    assert payload["key"] == tree_key(session) == json.loads(payload_of(session))["tree"]
    kept = {0, *(node for path in tree.paths for node in path.nodes)}
    assert {node for node, row in enumerate(payload["rows_kept"]) if row >= 0} == kept


def test_hostile_tokens_are_labels_in_the_payload_and_nothing_else():
    checkpoint = build_checkpoint(HOSTILE, seed=2, tie_output=False)
    payload = json.loads(payload_of_tree(Session("own", trace_text(checkpoint, "<b> 3"), checkpoint)))
    labels = dict(zip(payload["tokens"], (chip["label"] for chip in payload["chips"]), strict=True))
    assert labels["<b>"] == "<b>"
    assert labels["a\u200bb"] == "a⟨200B⟩b"


def test_the_tree_is_the_same_for_another_method_and_branch_but_not_for_another_text_or_setting(session):
    key = tree_key(session)
    assert tree_key(session.with_search(Search("beam"))) == key
    assert tree_key(with_token(session, 1, 9, "cpu")) == key
    assert tree_key(session.with_search(Search(beam_width=2))) != key
    assert tree_key(run_text(session, "3 1", "cpu")) != key


def test_a_forced_token_is_written_at_its_step_and_the_way_back_leads_to_each_run_before_it(session):
    first = with_token(session, 3, token_of(session, 3, 2, None), "cpu")
    assert [step.token for step in first.trace.steps[:2]] == [step.token for step in session.trace.steps[:2]]
    assert first.trace.steps[2].token == session.trace.steps[2].candidates[2][0]
    assert first.trace.n_forced == 3
    second = with_token(first, 4, token_of(first, 4, 1, None), "cpu")
    assert [step.token for step in second.trace.steps[:3]] == [step.token for step in first.trace.steps[:3]]
    assert second.changes[-1].put_in == (3, 4)
    earlier = with_token(second, 2, token_of(second, 2, 3, None), "cpu")
    assert earlier.changes[-1].put_in == (2,)
    assert earlier.changed_back().trace is second.trace
    assert earlier.changed_back(2).trace is first.trace
    assert earlier.unchanged.trace is session.trace
    assert not earlier.unchanged.changes
    change = json.loads(payload_of(second, 4))["change"]
    assert (change["n"], change["step"], change["is_branch"]) == (2, 4, False)
    assert change["token"]["label"] == second.trace.steps[3].token
    assert change["instead"]["label"] == first.trace.steps[3].token


def test_what_was_written_anyway_changes_nothing(session):
    assert with_token(session, 2, token_of(session, 2, 0, None), "cpu") is session


def test_the_way_back_is_bounded_and_its_beginning_stays(session):
    changed = session
    for i in range(MOST_CHANGES + 3):
        changed = with_token(changed, 1, 4 + (i % 2) + 2 * (i % 3 == 0), "cpu")
    assert 2 <= len(changed.changes) <= MOST_CHANGES
    assert changed.unchanged.trace is session.trace


def test_a_branch_of_the_tree_starts_from_the_search_and_its_own_prefix_is_no_branch(session, checkpoint):
    ids = list(session.trace.tgt_in_ids[1:])
    assert with_branch(session, ids[:2], "cpu").trace is session.trace
    other = [next(i for i in range(4, 10) if i != ids[0]), 5]
    forced = with_token(session, 2, 8, "cpu")
    branch = with_branch(forced, other, "cpu")
    assert len(branch.changes) == 1
    assert branch.changes[0].before is session.trace
    assert (branch.trace.n_forced, branch.trace.search) == (2, "greedy")
    assert [step.token for step in branch.trace.steps[:2]] == list(checkpoint.tgt_tokenizer.tokens(other))
    assert branch.changes[0].put_in == (1, 2)
    assert with_branch(branch, ids[:1], "cpu").trace is session.trace


@pytest.mark.parametrize("path", [
    None, [], "3", [1.5], [True], [-1], [99], [[1]], [2, 5], [5] * 17, {"0": 5}, [None],
])
def test_a_forged_branch_is_refused_with_a_sentence(session, path):
    with pytest.raises(InputError, match="no place in the tree"):
        with_branch(session, path, "cpu")


@pytest.mark.parametrize(("step", "candidate", "text", "says"), [
    (0, 0, None, "steps 1 to"), (99, 0, None, "steps 1 to"), (None, 0, None, "steps 1 to"),
    ("1", 0, None, "steps 1 to"), (True, 0, None, "steps 1 to"), (1, 99, None, "has no “99”"),
    (1, -1, None, "has no “-1”"), (1, None, None, "has no “None”"), (1, True, None, "has no “True”"),
    (1, None, "x" * 500, "xxx…”"), (1, None, "", "has no"), (1, None, {"a": 1}, "has no"),
    (1, None, "3 1", "“3␣1” is 2 tokens"), (1, None, "<b>", "has no “<b>”"),
])
def test_a_token_or_step_that_is_none_is_refused_with_a_sentence(session, step, candidate, text, says):
    with pytest.raises(InputError) as refused:
        token_of(session, step, candidate, text)
    assert says in str(refused.value)


def test_a_token_is_found_as_typed_with_space_around_it_and_special_ones_by_their_name(session, checkpoint):
    vocabulary = checkpoint.tgt_tokenizer.vocabulary
    assert vocabulary[token_of(session, 1, None, "11")] == "11"
    assert vocabulary[token_of(session, 1, None, "  11 ")] == "11"
    assert vocabulary[token_of(session, 1, None, "<eos>")] == "<eos>"
    ended = with_token(session, 2, token_of(session, 2, None, "<eos>"), "cpu")
    assert (len(ended.trace.steps), ended.trace.finished) == (2, True)


def test_an_opened_run_is_continued_only_where_its_model_is(session, checkpoint):
    trace = trace_from_json(trace_to_json(session.trace))
    opened = session.with_opened_trace(trace)
    changed = with_token(opened, 1, 9, "cpu")
    assert not changed.opened
    assert changed.changed_back().opened
    stranger = session.with_opened_trace(replace(trace, weights_sha256="1" * 64))
    assert json.loads(payload_of(stranger))["is_fixed"]
    assert tree_key(stranger) is None
    for act in (
        lambda: token_of(stranger, 1, 0, None),
        lambda: with_branch(stranger, [5], "cpu"),
        lambda: payload_of_tree(stranger),
    ):
        with pytest.raises(InputError, match="cannot be continued"):
            act()


def test_the_search_in_use_decodes_every_text_and_the_status_says_so(session):
    beam = run_text(session.with_search(Search("beam", beam_width=3, length_penalty=1.0)), TEXT, "cpu")
    assert beam.trace.search == "beam"
    total = f"−{-beam.trace.log_prob:.3f}"
    assert run_facts("en", beam).startswith(f"Beam search of width 3: log-probability {total}, score −")
    assert run_facts("zh", beam).startswith("束宽为 3 的束搜索")
    drawn = run_text(session.with_search(Search("sample", temperature=2.0, seed=5)), TEXT, "cpu")
    assert run_facts("en", drawn).startswith("Sampled with seed 5 at temperature 2: ")
    assert [step.token for step in drawn.trace.steps] != [step.token for step in session.trace.steps]
    forced = with_token(beam, 2, 9, "cpu")
    assert run_facts("en", forced).startswith("Given up to step 2, then: Greedy search: ")


def test_the_settings_the_browser_gets_are_those_it_may_send_back():
    search = Search("sample", temperature=0.7, top_k=5, seed=3)
    values = json.loads(settings_of(search))
    assert search_of({name: value for name, value in values.items() if name != "widest_beam"}) == search


@pytest.mark.parametrize("forged", [
    None, "beam", {}, {"method": "astar"}, {"beam_width": 9}, {"beam_width": "4"}, {"temperature": -1}, {"seed": 0.5},
    {"top_p": None},
])
def test_a_forged_search_is_refused_with_a_sentence(forged):
    good = {name: value for name, value in json.loads(settings_of(Search())).items() if name != "widest_beam"}
    with pytest.raises(InputError, match=r"expected|must be"):
        search_of({**good, **forged} if isinstance(forged, dict) and forged else forged)


def test_a_run_with_nothing_put_in_says_nothing_of_it(session):
    payload = json.loads(payload_of(session))
    assert payload["change"] is None
    assert payload["written"] == [step.token for step in session.trace.steps]
    assert SimpleNamespace(**payload).n_forced == 0
