"""A reference beside what the model wrote by itself: aligned tokens with their probabilities, and the two curves.

Shape legend: R reference length, T written length, both in tokens with <eos>.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from viz.chart import Chart, Table
from viz.text import plotly_text

Words = Callable[..., str]
LONGEST_TICK = 12  # characters of a token on the axis; hover texts and the table have all of it


@dataclass(frozen=True, eq=False)
class Comparison:
    """What is drawn, position by position. Probabilities lie in 0..1; a chip is one of ``viz.payload.token_chips``.

    ``fed_own`` is NaN where the model had ended before the reference did. Raises ValueError when lengths differ.
    """

    reference: Sequence[dict]  # [R] chips
    fed_reference: np.ndarray  # [R] of the reference's token, when the decoder is fed the reference
    fed_own: np.ndarray  # [R] of the same token, when it is fed what it wrote itself
    ranks: Sequence[int]  # [R] of the same token, fed the reference; 1 is the first choice
    choices: Sequence[tuple[str, float]]  # [R] label and probability of the first choice, fed the reference
    written: Sequence[dict]  # [T] chips
    written_probability: np.ndarray  # [T] of the model's own token
    parts_at: int | None  # from 0

    def __post_init__(self) -> None:
        n, n_written = len(self.reference), len(self.written)
        for name, wanted in (("fed_reference", n), ("fed_own", n), ("ranks", n), ("choices", n),
                             ("written_probability", n_written)):
            if len(getattr(self, name)) != wanted:
                raise ValueError(f"{name}: expected {wanted} values, got {len(getattr(self, name))}")
        if self.parts_at is not None and not 0 <= self.parts_at < min(n, n_written):
            raise ValueError(f"parts_at must be a position that both have, got {self.parts_at}")


def percent(share: float) -> str:
    """A probability as the page writes it: what is nearly none or nearly all is not rounded to it."""
    if 0 < share < 0.0005:
        return "< 0.1 %"
    if 0.9995 <= share < 1:
        return "> 99.9 %"
    is_fine = 0 < share < 0.1 or 0.995 <= share < 1
    return f"{share * 100:.{1 if is_fine else 0}f} %"


def _bar(share: float) -> dict:
    return {"share": round(float(share), 4), "text": percent(float(share))}


def comparison_payload(comparison: Comparison, **facts: object) -> str:
    """The JSON text that the browser draws the aligned tokens from, one column a position; ``facts`` go along."""
    n, n_written = len(comparison.reference), len(comparison.written)
    columns = []
    for i in range(max(n, n_written)):
        column: dict = {"reference": None, "fed_reference": None, "fed_own": None, "choice": None, "written": None,
                        "own": None}
        if i < n:
            label, share = comparison.choices[i]
            column["reference"] = comparison.reference[i]
            column["fed_reference"] = _bar(comparison.fed_reference[i])
            column["fed_own"] = None if np.isnan(comparison.fed_own[i]) else _bar(comparison.fed_own[i])
            column["choice"] = None if comparison.ranks[i] == 1 else {"label": label, "text": percent(share)}
        if i < n_written:
            column["written"] = comparison.written[i]
            column["own"] = _bar(comparison.written_probability[i])
        column["differs"] = i >= min(n, n_written) or column["reference"]["label"] != column["written"]["label"]
        columns.append(column)
    return json.dumps({"columns": columns, "parts_at": comparison.parts_at, **facts}, ensure_ascii=False)


def curves_chart(comparison: Comparison, words: Words) -> Chart:
    """The probability of each token of the reference, fed the reference and fed the model's own output.

    ``words(key, **values)`` gives the words of the section ``reference``.
    """
    labels = [chip["label"] for chip in comparison.reference]
    positions = np.arange(1, len(labels) + 1)
    figure = go.Figure()
    for name, shares, colour, dash, symbol in (
        ("fed_reference", comparison.fed_reference, "var(--gf-accent)", "solid", "circle"),
        ("fed_own", comparison.fed_own, "var(--gf-decoder-self)", "dot", "diamond"),
    ):
        figure.add_scatter(
            x=positions,
            y=[None if np.isnan(share) else round(float(share) * 100, 4) for share in shares],
            mode="lines+markers",
            name=words(f"curve_{name}"),
            line={"color": colour, "width": 3, "dash": dash},
            marker={"color": colour, "size": 9, "symbol": symbol},
            text=[
                "" if np.isnan(share) else f"{position} · {plotly_text(label)}: {percent(float(share))}"
                for position, label, share in zip(positions, labels, shares, strict=True)
            ],
            hovertemplate="%{text}<extra>%{fullData.name}</extra>",
        )
    figure.update_layout(
        height=330,
        xaxis={
            "title": words("axis_position"),
            "tickmode": "array",
            "tickvals": positions.tolist(),
            "ticktext": [plotly_text(_cut(label)) for label in labels],
            "range": [0.5, len(labels) + 0.5],
        },
        yaxis={"title": words("axis_probability"), "range": [-4, 104], "ticksuffix": " %"},
        showlegend=False,  # the key above the figure has the same two colours
    )
    if comparison.parts_at is not None:
        place = comparison.parts_at + 1
        figure.add_vline(x=place, line={"color": "var(--gf-bad)", "width": 2, "dash": "dash"})
        is_late = place > len(labels) / 2  # the words stand where there is room for them
        figure.add_annotation(
            x=place, y=0.5, yref="paper", xanchor="right" if is_late else "left", xshift=-6 if is_late else 6,
            showarrow=False, text=words("chart_part"), font={"color": "var(--gf-bad)", "size": 14},
        )
    return Chart(figure, _summary(comparison, words), _table(comparison, words))


def _cut(label: str) -> str:
    return label if len(label) <= LONGEST_TICK else f"{label[: LONGEST_TICK - 1]}…"


def _summary(comparison: Comparison, words: Words) -> str:
    place = comparison.parts_at
    if place is None:
        return words("summary_one", mean=percent(float(np.mean(comparison.fed_reference))))
    later = slice(place + 1, None)
    both = ~np.isnan(comparison.fed_own[later])
    if not both.any():
        return words("summary_end", n=place + 1)
    return words(
        "summary_two",
        n=place + 1,
        forced=percent(float(np.mean(comparison.fed_reference[later][both]))),
        free=percent(float(np.mean(comparison.fed_own[later][both]))),
    )


def _table(comparison: Comparison, words: Words) -> Table:
    names = ("position", "reference", "fed_reference", "rank", "choice", "fed_own", "written", "own")
    rows = []
    for i in range(max(len(comparison.reference), len(comparison.written))):
        reference: list = [None] * 5
        written: list = [None] * 2
        if i < len(comparison.reference):
            label, share = comparison.choices[i]
            fed_own = float(comparison.fed_own[i])
            reference = [
                comparison.reference[i]["label"],
                percent(float(comparison.fed_reference[i])),
                comparison.ranks[i],
                f"{label} ({percent(share)})",
                None if np.isnan(fed_own) else percent(fed_own),
            ]
        if i < len(comparison.written):
            written = [comparison.written[i]["label"], percent(float(comparison.written_probability[i]))]
        rows.append([i + 1, *reference, *written])
    return Table([words(f"column_{name}") for name in names], rows)
