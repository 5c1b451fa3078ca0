"""Greedy search, beam search and samples of one text as one tree: which ways of writing were tried, and how likely.

A node is a target prefix; its children are the tokens that a search wrote, or considered, next. Searches that wrote
the same tokens share the nodes.

Shape legend: S source length, R rows written at once, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from transformer.beam_search import BeamSearchResult, beam_search, length_divisor
from transformer.checkpoints import Checkpoint
from transformer.decoding import Choice, Decoded, cached_next_logits, most_probable, write
from transformer.search import GREEDY, Search
from transformer.tracing import encode_source

N_SAMPLES = 4
MOST_NODES = 400
MOST_STEPS = 128  # a network that never ends would fill the tree with one line


@dataclass(frozen=True)
class SearchNode:
    """One target prefix, named by its last token. Node 0 is ``<bos>``; a parent comes before its children.

    ``beams`` and ``samples`` are those whose output begins with this prefix, counted from 1; beam 1 is the best.
    """

    id: int
    parent: int  # -1: none
    depth: int  # tokens written, 0 at <bos>
    token_id: int
    token: str
    log_prob: float  # of this token, given those before it
    total: float  # of the whole prefix: the sum along the way
    ended: bool  # the token is <eos>
    greedy: bool
    beams: tuple[int, ...]
    samples: tuple[int, ...]
    pruned_at: int  # the step at which beam search dropped the last line through it; 0: it did not, or never saw it


@dataclass(frozen=True)
class SearchPath:
    """One output. ``nodes`` leave out ``<bos>``, and what did not fit into the tree (then there are fewer than steps).

    ``log_prob`` is the sum over all steps; ``score`` is what beams are ranked by, the same for the others.
    """

    search: str  # "greedy", "beam" or "sample"
    number: int  # from 1: the rank of a beam, the number of a sample
    nodes: tuple[int, ...]
    n_steps: int
    log_prob: float
    score: float
    finished: bool  # False: the length cap came before <eos>
    seed: int | None = None  # of a sample


@dataclass(frozen=True)
class SearchTree:
    """The nodes, ids counting from 0, and the outputs: greedy first, then beams, then samples."""

    nodes: tuple[SearchNode, ...]
    paths: tuple[SearchPath, ...]
    n_left_out: int  # nodes beyond MOST_NODES, least important first: candidates that were dropped, then samples


def search_tree(
    checkpoint: Checkpoint,
    text: str,
    search: Search = GREEDY,
    *,
    n_samples: int = N_SAMPLES,
    device: str = "cpu",
    max_steps: int | None = None,
    most_nodes: int = MOST_NODES,
) -> SearchTree:
    """The tree of ``text``, with the settings of ``search`` for beam search and for sampling, whatever its method is.

    Sample i is drawn with the seed ``search.seed + i - 1``. ``max_steps`` caps the written tokens. Raises InputError
    for a text the model cannot read.
    """
    ids, _, _ = encode_source(checkpoint, text)
    model, tokenizer = checkpoint.model_on(device), checkpoint.tgt_tokenizer
    longest = min(model.config.max_len, MOST_STEPS)
    limits = {
        "bos_id": tokenizer.bos_id,
        "eos_id": tokenizer.eos_id,
        "max_steps": min(max_steps or longest, longest),
        "device": device,
    }
    seeded = [search.with_seed(search.seed + i) for i in range(n_samples)]
    with torch.inference_mode():
        next_logits = cached_next_logits(model, torch.tensor([ids], device=device))
        next_logits.select(torch.zeros(1 + n_samples, dtype=torch.long, device=device))  # rows R: greedy, samples
        choices = [most_probable, *(each.sampler() for each in seeded)]
        written = write(next_logits, _row_by_row(choices), batch_size=len(choices), **limits)
        (beams,) = beam_search(
            cached_next_logits(model, torch.tensor([ids], device=device)),
            n_sources=1,
            beam_width=search.beam_width,
            length_penalty=search.length_penalty,
            **limits,
        )
    growing = _Growing(tokenizer.vocabulary, tokenizer.bos_id, tokenizer.eos_id, search.length_penalty)
    growing.add_path("greedy", 1, written[0])
    for rank, hypothesis in enumerate(beams.hypotheses, start=1):
        growing.add_path("beam", rank, hypothesis.decoded)
    for number, (sample, seeded_search) in enumerate(zip(written[1:], seeded, strict=True), start=1):
        growing.add_path("sample", number, sample, seeded_search.seed)
    growing.add_pruned(beams)
    return growing.tree(most_nodes)


def _row_by_row(choices: Sequence[Choice]) -> Choice:
    """A choice of its own for each row: each sample has its own generator, as if it were drawn alone."""

    def choose(log_probs: Tensor, written: Sequence[Tensor]) -> Tensor:
        rows = [slice(row, row + 1) for row in range(len(choices))]
        return torch.cat([
            choice(log_probs[row], [ids[row] for ids in written]) for choice, row in zip(choices, rows, strict=True)
        ])

    return choose


@dataclass
class _Node:
    parent: int
    depth: int
    token_id: int
    log_prob: float
    total: float
    greedy: bool = False
    beams: list[int] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    pruned_at: int = 0


class _Growing:
    """The tree while it grows; the more important a node, the earlier it is added."""

    def __init__(self, vocabulary: Sequence[str], bos_id: int, eos_id: int, length_penalty: float) -> None:
        self.vocabulary, self.eos_id, self.length_penalty = vocabulary, eos_id, length_penalty
        self.nodes = [_Node(-1, 0, bos_id, 0.0, 0.0)]
        self.children: dict[tuple[int, int], int] = {}  # (node, token id) -> node
        self.paths: list[SearchPath] = []

    def child(self, parent: int, token_id: int, log_prob: float) -> int:
        """The node after ``parent``, added when there is none."""
        found = self.children.get((parent, token_id))
        if found is None:
            found = self.children[parent, token_id] = len(self.nodes)
            before = self.nodes[parent]
            self.nodes.append(_Node(parent, before.depth + 1, token_id, log_prob, before.total + log_prob))
        return found

    def add_path(self, search: str, number: int, decoded: Decoded, seed: int | None = None) -> None:
        path, place = [], 0
        for step in decoded.steps:
            place = self.child(place, step.token_id, step.log_prob)
            path.append(place)
        for node in (self.nodes[place] for place in (0, *path)):
            if search == "greedy":
                node.greedy = True
            else:
                (node.beams if search == "beam" else node.samples).append(number)
        total = self.nodes[place].total
        score = total / length_divisor(len(path), self.length_penalty)
        self.paths.append(SearchPath(search, number, tuple(path), len(path), total, score, decoded.finished, seed))

    def add_pruned(self, beams: BeamSearchResult) -> None:
        """All that beam search considered, with the step at which it dropped it."""
        places = []
        for node in beams.nodes:
            place = self.child(0 if node.parent < 0 else places[node.parent], node.token_id, node.log_prob)
            places.append(place)
            self.nodes[place].pruned_at = node.pruned_at

    def tree(self, most_nodes: int) -> SearchTree:
        nodes = tuple(
            SearchNode(
                id=number,
                parent=node.parent,
                depth=node.depth,
                token_id=node.token_id,
                token=self.vocabulary[node.token_id],
                log_prob=node.log_prob,
                total=node.total,
                ended=number > 0 and node.token_id == self.eos_id,
                greedy=node.greedy,
                beams=tuple(node.beams),
                samples=tuple(node.samples),
                pruned_at=node.pruned_at,
            )
            for number, node in enumerate(self.nodes[:most_nodes])
        )
        paths = tuple(
            replace(path, nodes=tuple(node for node in path.nodes if node < len(nodes))) for path in self.paths
        )
        return SearchTree(nodes, paths, len(self.nodes) - len(nodes))
