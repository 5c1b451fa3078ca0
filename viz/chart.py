"""A Plotly figure with the two things that stand beside it for those who cannot see it: a sentence and a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go


@dataclass(frozen=True, eq=False)
class Table:
    """The numbers of a figure in rows. ``columns`` has one name a cell; cells are texts or numbers."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"expected {len(self.columns)} cells a row, got {len(row)}")


@dataclass(frozen=True, eq=False)
class Chart:
    """A figure without colours of its own (the page's template gives them), its summary and its table twin."""

    figure: go.Figure
    summary: str
    table: Table

    def to_json(self, **facts: object) -> str:
        """The JSON text the page's chart component draws; ``facts`` go along for its script."""
        figure = json.loads(self.figure.to_json())
        figure["layout"].pop("template", None)
        return json.dumps(
            {
                "figure": figure,
                "summary": self.summary,
                "table": {"columns": list(self.table.columns), "rows": [list(row) for row in self.table.rows]},
                **facts,
            },
            ensure_ascii=False,
        )
