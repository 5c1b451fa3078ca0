"""One attention map as a figure, and what its numbers say of the head.

Shape legend: T queries (rows, they ask), S keys (columns, they are asked).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.arithmetic import STAGES, shown
from viz.chart import Chart, Table
from viz.text import plotly_text

Words = Callable[..., str]
LONGEST_TICK = 14  # characters of a label on an axis; the rest of a longer one is in the hover text and the table
SMALLEST_CELL, LARGEST_CELL, MAP_SIZE = 14, 56, 440  # px
LONGEST_MAP = 1800  # px; a longer map gets smaller cells and labels only some of them
LARGEST_WITH_NUMBERS = 12  # tokens a side up to which each cell has its number written in it


@dataclass(frozen=True)
class HeadFacts:
    """What a head does in one run, in numbers. A share is a part of all the weight that its rows give away."""

    offset: int  # the diagonal key = query + offset that has the most weight
    offset_share: float
    mirror: int  # the diagonal key = mirror - query that has the most weight
    mirror_share: float
    column: int  # the key that has the most weight
    column_share: float
    entropy_bits: float  # mean over the rows that see anything
    effective_keys: float  # mean of 2^entropy: among how many keys a row divides its weight
    visible_keys: float  # mean number of keys that a row may attend to

    @property
    def habit(self) -> str:
        """``offset``, ``mirror`` or ``column``, whichever has the most weight, or ``spread`` where none has half of it.

        Of two with the same share the first named is taken.
        """
        shares = {"offset": self.offset_share, "mirror": self.mirror_share, "column": self.column_share}
        best = max(shares, key=shares.get)
        return best if shares[best] >= 0.5 else "spread"


def head_facts(weights: np.ndarray, mask: np.ndarray) -> HeadFacts | None:
    """The facts of one head's ``weights`` [T, S] under ``mask`` [T, S], True = may attend.

    None where no row sees anything. Raises ValueError when the shapes differ.
    """
    if weights.shape != mask.shape:
        raise ValueError(f"expected a mask of shape {weights.shape}, got {mask.shape}")
    seeing = mask.any(axis=1)
    n_rows = int(seeing.sum())
    if not n_rows:
        return None
    weights = np.where(mask, weights, 0).astype(np.float64)
    n_queries, n_keys = weights.shape
    offsets = {d: float(np.trace(weights, d)) for d in sorted(range(1 - n_queries, n_keys), key=abs)}
    flipped = weights[:, ::-1]
    mirrors = {n_keys - 1 - d: float(np.trace(flipped, d)) for d in range(1 - n_queries, n_keys)}
    columns = weights.sum(axis=0)
    offset, mirror, column = max(offsets, key=offsets.get), max(mirrors, key=mirrors.get), int(columns.argmax())
    rows = weights[seeing]
    logs = np.log2(rows, out=np.zeros_like(rows), where=rows > 0)
    entropies = -(rows * logs).sum(axis=1)
    return HeadFacts(
        offset=offset,
        offset_share=offsets[offset] / n_rows,
        mirror=mirror,
        mirror_share=mirrors[mirror] / n_rows,
        column=column,
        column_share=float(columns[column]) / n_rows,
        entropy_bits=float(entropies.mean()) + 0.0,  # -0 becomes 0
        effective_keys=float((2**entropies).mean()),
        visible_keys=float(mask[seeing].sum(axis=1).mean()),
    )


def attention_chart(
    values: np.ndarray,
    mask: np.ndarray,
    query_labels: Sequence[str],
    key_labels: Sequence[str],
    *,
    stage: str,
    words: Words,
    summary: str,
) -> Chart:
    """The heatmap of one stage of one head: rows ask, columns are asked, row 0 on top.

    ``values`` [T, S] may hold -inf; ``mask`` [T, S], True = may attend. In the stages ``masked`` and ``softmax``
    a hidden cell is drawn as hidden, before them it still has its score. Positions are the axes and tokens only
    their tick texts, so equal or number-like tokens stay apart. ``words(name, **values)`` gives the text of a name.
    Raises ValueError when labels, mask and values do not fit each other, or a cell that is not hidden is not finite.
    """
    _check(values, mask, query_labels, key_labels, stage)
    hides = stage in ("masked", "softmax")
    drawn = np.where(mask, values, np.nan).astype(np.float64) if hides else values.astype(np.float64)
    texts = [[shown(number) if np.isfinite(number) else "" for number in row] for row in drawn]
    hover = _hover_texts(texts, mask, query_labels, key_labels, stage, words)
    rows, columns = values.shape
    layers = [_map(drawn, texts, hover, stage, words)]
    if hides and not mask.all():
        layers += _hidden_cells(mask, hover)
    figure = go.Figure(layers)
    cell = max(SMALLEST_CELL, min(LARGEST_CELL, MAP_SIZE / max(rows, columns)))
    row_height = min(cell, LONGEST_MAP / rows)
    column_width = min(cell, LONGEST_MAP / columns)
    figure.update_layout(
        height=round(rows * row_height + 100 + 7 * min(LONGEST_TICK, max(map(len, key_labels)))),
        margin={"l": 8, "r": 8, "t": 8, "b": 12},
        xaxis=_axis(key_labels, column_width, words("axis_key"), side="top", range=[-0.5, columns - 0.5]),
        yaxis=_axis(query_labels, row_height, words("axis_query"), range=[rows - 0.5, -0.5]),
    )
    for row in np.flatnonzero(~mask.any(axis=1)) if hides else ():
        figure.add_annotation(
            x=(columns - 1) / 2, y=int(row), text=plotly_text(words("sees_nothing")), showarrow=False,
            bgcolor="var(--gf-ground)", bordercolor="var(--gf-line)", borderpad=3,
        )
    cells = [[text or words("masked_cell") for text in row] for row in texts]
    table = Table(
        [words("table_corner"), *(f"{i} {label}" for i, label in enumerate(key_labels))],
        [[f"{i} {label}", *cells[i]] for i, label in enumerate(query_labels)],
    )
    return Chart(figure, summary, table)


def map_room(chart: Chart) -> dict:
    """What the page's chart component needs to know of the room a map takes, in px.

    ``width``: narrower than ``min`` it scrolls, wider than ``max`` it stops growing. ``text_from``: the width from
    which the numbers fit into their cells.
    """
    n_keys = chart.figure.data[0].z.shape[1]
    written = chart.figure.data[0].text
    longest = max((len(text) for row in written for text in row), default=0) if written is not None else 0
    smallest = min(SMALLEST_CELL, LONGEST_MAP / n_keys)
    return {
        "width": {"min": round(max(260, n_keys * smallest + 120)), "max": round(max(420, n_keys * 84 + 150))},
        "text_from": n_keys * (longest * 8 + 4) + 120,
    }


def _check(
    values: np.ndarray, mask: np.ndarray, query_labels: Sequence[str], key_labels: Sequence[str], stage: str
) -> None:
    if stage not in STAGES:
        raise ValueError(f"there is no stage {stage!r}, expected one of {', '.join(STAGES)}")
    if values.ndim != 2 or 0 in values.shape:
        raise ValueError(f"expected a map [T, S] with at least one cell, got shape {values.shape}")
    for name, labels, size in (("row", query_labels, values.shape[0]), ("column", key_labels, values.shape[1])):
        if len(labels) != size:
            raise ValueError(f"expected one label a {name}, got {len(labels)} labels for {size} {name}s")
    if mask.shape != values.shape:
        raise ValueError(f"expected a mask of shape {values.shape}, got {mask.shape}")
    if not np.isfinite(values[mask]).all():
        raise ValueError("a cell that is not hidden holds a number that is not finite")


def _map(drawn: np.ndarray, texts: list[list[str]], hover: list[list[str]], stage: str, words: Words) -> go.Heatmap:
    """The cells with a number. Weights run from 0 to 1, scores as far to both sides of 0 as they reach."""
    reach = float(np.nanmax(np.abs(drawn))) if np.isfinite(drawn).any() else 1.0
    limits = (0.0, 1.0) if stage == "softmax" else (-reach or -1.0, reach or 1.0)
    written = {}
    if max(drawn.shape) <= LARGEST_WITH_NUMBERS:
        form = "{:.2f}" if stage == "softmax" else "{:.1f}"
        brief = [[form.format(n).replace("-", "−") if np.isfinite(n) else "" for n in row] for row in drawn]
        written = {"text": brief, "texttemplate": "%{text}", "textfont": {"size": 14}}
    return go.Heatmap(
        z=drawn,
        hovertext=hover,
        hoverinfo="text",
        autocolorscale=True,  # the page's sequential scale for weights, its diverging one for what crosses 0
        zmin=limits[0],
        zmax=limits[1],
        xgap=1 if max(drawn.shape) <= 40 else 0,
        ygap=1 if max(drawn.shape) <= 40 else 0,
        colorbar={
            "title": {"text": f"{plotly_text(words(f'scale_{stage}'))}<br>&nbsp;", "side": "top"},
            "thickness": 12,
            "outlinewidth": 0,
        },
        **written,
    )


def _hidden_cells(mask: np.ndarray, hover: list[list[str]]) -> list[go.Heatmap | go.Scatter]:
    """Hidden cells in a colour of their own, and a stroke through each, so that colour is not all that tells."""
    ground = go.Heatmap(
        z=np.where(mask, np.nan, 0.0),
        hovertext=hover,
        hoverinfo="text",
        zmin=0,
        zmax=1,
        showscale=False,
        colorscale=[[0, "var(--gf-hidden)"], [1, "var(--gf-hidden)"]],
        xgap=1 if max(mask.shape) <= 40 else 0,
        ygap=1 if max(mask.shape) <= 40 else 0,
    )
    rows, columns = np.nonzero(~mask)
    size = max(5, min(16, 200 / max(mask.shape)))
    stroke = go.Scatter(
        x=columns,
        y=rows,
        mode="markers",
        marker={"symbol": "line-ne-open", "size": size, "color": "var(--gf-muted)", "line": {"width": 1}},
        opacity=0.55,
        hoverinfo="skip",
        showlegend=False,
    )
    return [ground, stroke]


def _axis(labels: Sequence[str], cell: float, title: str, **more: object) -> dict:
    every = max(1, round(14 / cell)) if cell < 14 else 1
    places = list(range(0, len(labels), every))
    return {
        "tickmode": "array",
        "tickvals": places,
        "ticktext": [plotly_text(_tick(labels[place])) for place in places],
        "tickfont": {"size": 15 if cell >= 22 else 12, "family": "var(--gf-mono)"},
        "autotickangles": [0, -90],
        "ticks": "",
        "title": {"text": plotly_text(title), "standoff": 10, "font": {"size": 15}},
        "showgrid": False,
        "zeroline": False,
        "automargin": True,
        **more,
    }


def _tick(label: str) -> str:
    return label if len(label) <= LONGEST_TICK else label[: LONGEST_TICK - 1] + "…"


def _hover_texts(
    texts: list[list[str]],
    mask: np.ndarray,
    query_labels: Sequence[str],
    key_labels: Sequence[str],
    stage: str,
    words: Words,
) -> list[list[str]]:
    """What stands beside the pointer at each cell: who asks, who is asked, and the number or why there is none."""
    queries = [plotly_text(words("hover_query", token=label, n=i)) for i, label in enumerate(query_labels)]
    keys = [plotly_text(words("hover_key", token=label, n=j)) for j, label in enumerate(key_labels)]
    name, hidden = plotly_text(words(f"scale_{stage}")), plotly_text(words("hover_masked"))
    nothing = plotly_text(words("sees_nothing"))
    seeing = mask.any(axis=1)
    return [
        [
            f"{query}<br>{key}<br>"
            + (f"{name}: <b>{texts[i][j]}</b>" if texts[i][j] else hidden if seeing[i] else nothing)
            for j, key in enumerate(keys)
        ]
        for i, query in enumerate(queries)
    ]
