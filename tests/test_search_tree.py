"""The tree of greedy search, beam search and samples, against the searches themselves and a full forward pass."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch

from builders import tiny_checkpoint as build_checkpoint
from transformer.beam_search import beam_search, length_divisor
from transformer.checkpoints import Checkpoint
from transformer.decoding import cached_next_logits, greedy_decode
from transformer.errors import InputError
from transformer.search import Search
from transformer.search_tree import SearchTree, search_tree
from transformer.trace_files import trace_from_json, trace_to_json
from transformer.tracing import encode_source, trace_text

TEXT = "3 1 7"
SEARCH = Search(beam_width=3, length_penalty=0.7, temperature=1.3, seed=11)


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return build_checkpoint(seed=4, tie_output=False)


@pytest.fixture(scope="module")
def tree(checkpoint: Checkpoint) -> SearchTree:
    return search_tree(checkpoint, TEXT, SEARCH)


def limits(checkpoint: Checkpoint) -> dict:
    tokenizer = checkpoint.tgt_tokenizer
    return {"bos_id": tokenizer.bos_id, "eos_id": tokenizer.eos_id, "max_steps": checkpoint.model.config.max_len}


def prefix_of(tree: SearchTree, node: int) -> list[int]:
    """The token ids from <bos> to a node."""
    ids = []
    while node >= 0:
        ids.append(tree.nodes[node].token_id)
        node = tree.nodes[node].parent
    return ids[::-1]


def written_ids(tree: SearchTree, path) -> list[int]:
    return [tree.nodes[node].token_id for node in path.nodes]


def test_every_node_has_the_probability_that_a_full_forward_pass_gives_it(tree, checkpoint):
    ids, _, _ = encode_source(checkpoint, TEXT)
    for node in tree.nodes[1:]:
        with torch.inference_mode():
            logits = checkpoint.model(torch.tensor([ids]), torch.tensor([prefix_of(tree, node.parent)]))[0, -1]
        assert node.log_prob == pytest.approx(float(logits.log_softmax(-1)[node.token_id]), abs=1e-5), node


def test_the_total_of_every_node_and_path_is_the_sum_of_its_log_probabilities(tree):
    for node in tree.nodes[1:]:
        before = tree.nodes[node.parent]
        assert node.total == pytest.approx(before.total + node.log_prob)
        assert (node.parent < node.id, node.depth) == (True, before.depth + 1)
    for path in tree.paths:
        assert len(path.nodes) == path.n_steps
        assert path.log_prob == pytest.approx(sum(tree.nodes[node].log_prob for node in path.nodes))
        assert path.score == pytest.approx(path.log_prob / length_divisor(path.n_steps, SEARCH.length_penalty))


def test_no_node_has_two_children_with_one_token(tree):
    assert len({(node.parent, node.token_id) for node in tree.nodes}) == len(tree.nodes)


def test_the_greedy_path_is_greedy_search(tree, checkpoint):
    src = torch.tensor([encode_source(checkpoint, TEXT)[0]])
    with torch.inference_mode():
        (greedy,) = greedy_decode(cached_next_logits(checkpoint.model, src), batch_size=1, **limits(checkpoint))
    assert written_ids(tree, tree.paths[0]) == list(greedy.token_ids)
    assert {node.id for node in tree.nodes if node.greedy} == {0, *tree.paths[0].nodes}


def test_the_hypotheses_of_beam_search_are_in_it_by_rank_and_so_is_what_it_dropped(tree, checkpoint):
    src = torch.tensor([encode_source(checkpoint, TEXT)[0]])
    with torch.inference_mode():
        (found,) = beam_search(
            cached_next_logits(checkpoint.model, src), n_sources=1, beam_width=3, length_penalty=0.7,
            **limits(checkpoint),
        )
    beams = [path for path in tree.paths if path.search == "beam"]
    assert [written_ids(tree, path) for path in beams] == [list(h.decoded.token_ids) for h in found.hypotheses]
    assert [path.score for path in beams] == pytest.approx([h.score for h in found.hypotheses], abs=1e-5)
    best = trace_text(checkpoint, TEXT, search=replace(SEARCH, method="beam"))
    assert beams[0].log_prob == pytest.approx(best.log_prob)
    assert sum(node.pruned_at > 0 for node in tree.nodes) == sum(node.pruned_at > 0 for node in found.nodes) > 0
    for node in tree.nodes[1:]:
        assert not (node.beams and node.pruned_at), "a hypothesis that was dropped"
        assert not node.pruned_at or node.pruned_at >= node.depth


def test_a_line_that_was_kept_for_a_while_says_when_it_was_dropped():
    """Both first tokens are kept; all that goes on from the second one falls out at step 2."""
    table = {(): {3: 0.6, 4: 0.4}, (3,): {5: 0.5, 6: 0.5}, (4,): {2: 0.3, 5: 0.3, 6: 0.4}}
    rows: list[tuple[int, ...]] = [()]

    class Table:
        def __call__(self, last_ids):
            rows[:] = [(*row, token) for row, token in zip(rows, last_ids.tolist(), strict=True)]
            probabilities = torch.full((len(rows), 7), 1e-9)
            for i, row in enumerate(rows):
                for token, probability in table.get(row[1:], {2: 1.0}).items():
                    probabilities[i, token] = probability
            return probabilities.log()

        def select(self, kept):
            rows[:] = [rows[row] for row in kept.tolist()]

    (found,) = beam_search(Table(), n_sources=1, beam_width=2, bos_id=1, eos_id=2, max_steps=5)
    first = {node.token_id: node for node in found.nodes if node.parent == -1}
    assert (first[3].is_kept, first[3].pruned_at) == (True, 0)
    assert (first[4].is_kept, first[4].pruned_at) == (True, 2)
    assert {node.pruned_at for node in found.nodes if node.parent >= 0 and not node.is_kept} == {2, 3}


def test_sample_i_is_what_sampling_alone_with_its_seed_writes(tree, checkpoint):
    samples = [path for path in tree.paths if path.search == "sample"]
    assert [path.seed for path in samples] == [11, 12, 13, 14]
    for path in samples:
        alone = trace_text(checkpoint, TEXT, search=replace(SEARCH, method="sample", seed=path.seed))
        assert [tree.nodes[node].token for node in path.nodes] == [step.token for step in alone.steps]
        assert path.log_prob == pytest.approx(alone.log_prob, abs=1e-4)


def test_the_same_seed_gives_the_same_tree_and_another_one_other_samples(tree, checkpoint):
    assert search_tree(checkpoint, TEXT, SEARCH) == tree
    other = search_tree(checkpoint, TEXT, replace(SEARCH, seed=50))
    before, after = ([written_ids(each, path) for path in each.paths] for each in (tree, other))
    assert before[:4] == after[:4]
    assert before[4:] != after[4:]


def test_a_node_says_exactly_which_outputs_pass_through_it(tree):
    for node in tree.nodes:
        through = [(path.search, path.number) for path in tree.paths if node.id == 0 or node.id in path.nodes]
        said = {"greedy": [1] if node.greedy else [], "beam": node.beams, "sample": node.samples}
        assert [(search, number) for search, numbers in said.items() for number in numbers] == through


def test_too_many_nodes_are_cut_from_the_least_important_on_and_counted(tree, checkpoint):
    cut = search_tree(checkpoint, TEXT, SEARCH, most_nodes=len(tree.paths[0].nodes) + 3)
    assert cut.n_left_out == len(tree.nodes) - len(cut.nodes) > 0
    assert cut.paths[0] == tree.paths[0]
    assert cut.nodes == tuple(tree.nodes[: len(cut.nodes)])
    assert any(len(path.nodes) < path.n_steps for path in cut.paths)
    assert [path.log_prob for path in cut.paths] == [path.log_prob for path in tree.paths]


def test_a_text_that_cannot_be_read_is_refused_with_a_sentence(checkpoint):
    with pytest.raises(InputError, match="no tokens"):
        search_tree(checkpoint, "  ")


def test_a_trace_says_how_many_tokens_were_forced_and_which_search_went_on(checkpoint):
    ids = checkpoint.tgt_tokenizer.encode("5 5").ids
    for method in ("greedy", "beam", "sample"):
        trace = trace_text(checkpoint, TEXT, search=replace(SEARCH, method=method), prefix=ids)
        assert [step.token for step in trace.steps[:2]] == ["5", "5"]
        assert (trace.n_forced, trace.search) == (2, "sample" if method == "sample" else "greedy")
        assert trace_text(checkpoint, TEXT, search=replace(SEARCH, method=method)).n_forced == 0


def test_a_trace_file_keeps_how_many_tokens_were_forced_and_an_older_one_opens_without(checkpoint):
    trace = trace_text(checkpoint, TEXT, prefix=checkpoint.tgt_tokenizer.encode("5 5").ids)
    values = json.loads(trace_to_json(trace))
    assert trace_from_json(json.dumps(values)).n_forced == 2
    for wrong in (-1, len(trace.steps) + 1, 1.5, "2", True, None):
        with pytest.raises(InputError, match="n_forced"):
            trace_from_json(json.dumps({**values, "n_forced": wrong}))
    del values["n_forced"]
    assert trace_from_json(json.dumps(values)).n_forced == 0
