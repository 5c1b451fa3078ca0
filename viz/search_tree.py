"""A search tree as one JSON text for the browser: what each node says, and the row it is drawn in.

Time runs from left to right, one column a step. The most probable continuation goes straight on; each other one
branches off below it, as high as no branch above it is touched. What an output comes to stands behind its last token,
so the row is kept free from there on.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence

from viz.payload import token_chips


def tree_payload(
    *,
    key: str,
    parents: Sequence[int],
    token_ids: Sequence[int],
    tokens: Sequence[str],
    log_probs: Sequence[float],
    greedy: Sequence[bool],
    beams: Sequence[Sequence[int]],
    samples: Sequence[Sequence[int]],
    pruned_at: Sequence[int],
    paths: Sequence[dict],
    **facts: object,
) -> str:
    """The JSON text of a tree: columns of equal length, one entry a node, parents (-1: none) before their children.

    ``log_probs`` are of each token given those before it; ``paths`` have ``nodes`` (without the first) among their
    facts; ``facts`` are further plain values. ``rows`` are for all nodes, ``rows_kept`` for those on a path. Raises
    ValueError when the columns differ in length or a parent does not come first.
    """
    columns = {
        "parents": parents, "token_ids": token_ids, "tokens": tokens, "log_probs": log_probs, "greedy": greedy,
        "beams": beams, "samples": samples, "pruned_at": pruned_at,
    }
    for name, column in columns.items():
        if len(column) != len(parents):
            raise ValueError(f"{name} has {len(column)} entries for {len(parents)} nodes")
    ends = {path["nodes"][-1] for path in paths if path["nodes"]}
    kept = {0, *(node for path in paths for node in path["nodes"])}
    return json.dumps(
        {
            "key": key,
            **{name: list(column) for name, column in columns.items()},
            "chips": token_chips(tokens),
            "depths": depths_of(parents),
            "rows": tidy_rows(parents, log_probs, ends),
            "rows_kept": tidy_rows(parents, log_probs, ends, kept),
            "paths": list(paths),
            **facts,
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def depths_of(parents: Sequence[int]) -> list[int]:
    """The column of each node. Raises ValueError when a parent does not come before its child."""
    depths: list[int] = []
    for node, parent in enumerate(parents):
        if not -1 <= parent < node:
            raise ValueError(f"node {node} has the parent {parent}, which does not come before it")
        depths.append(0 if parent < 0 else depths[parent] + 1)
    return depths


def tidy_rows(
    parents: Sequence[int],
    log_probs: Sequence[float],
    ends: Collection[int],
    shown: Collection[int] | None = None,
) -> list[int]:
    """The row of each node, so that no two share a place and no two lines cross; -1 for nodes not ``shown``.

    Nothing is put to the right of ``ends`` in their rows. Node 0 is the root and has row 0.
    """
    depths = depths_of(parents)
    shown = range(len(parents)) if shown is None else shown
    n_columns = max(depths) + 2  # one more than there are tokens, for what stands behind the ends
    children: list[list[int]] = [[] for _ in parents]
    for node in sorted(shown, key=lambda node: -log_probs[node]):
        if parents[node] >= 0:
            children[parents[node]].append(node)
    # Of each subtree, with its root in row 0: the lowest row it takes up in each column from its root's on. Above
    # that it has the rows from 0 on to itself.
    lowest: list[list[int]] = [[] for _ in parents]
    shifts = [0] * len(parents)  # from the parent's row
    for node in reversed(range(len(parents))):
        outline: list[int] = []
        for child in children[node]:
            reach = len(lowest[child])
            shifts[child] = max(outline[:reach], default=-1) + 1
            moved = [row + shifts[child] for row in lowest[child]]
            outline = moved + outline[reach:]
        lowest[node] = [0, *outline]
        if node in ends:
            free = n_columns - depths[node]
            lowest[node] += [0] * (free - len(lowest[node]))
    rows = [-1] * len(parents)
    for node in sorted(shown):
        rows[node] = 0 if parents[node] < 0 else rows[parents[node]] + shifts[node]
    return rows
