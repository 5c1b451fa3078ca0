"""A training as the browser takes it: small JSON deltas for the live views, and charts of a finished one.

Shape legend: L layers, H heads, T query positions, S key positions. Words come in as ``words(key, **values)``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.chart import Chart, Table
from viz.payload import packed_weights
from viz.text import visible

Words = Callable[..., str]
TARGETS = (0.95, 0.99)
MOST_ROWS = 400  # of the table twin of a curve with one value a step
CHARTS = ("loss", "right", "learning_rate", "gradient_norm")


def marked_tokens(expected: Sequence[str], written: Sequence[str]) -> dict:
    """What was written, each token with whether it is the right one there, and how many are missing at the end."""
    return {
        "tokens": [
            {"label": visible(token), "right": i < len(expected) and token == expected[i]}
            for i, token in enumerate(written)
        ],
        "missing": max(0, len(expected) - len(written)),
    }


def sample_payload(source: Sequence[str], expected: Sequence[str], written: Sequence[str]) -> dict:
    """One sample decode: its source, what should be written, what was written."""
    return {
        "source": [visible(token) for token in source],
        "expected": [visible(token) for token in expected],
        "written": marked_tokens(expected, written),
    }


def curves_payload(*, run: str, **points_and_facts: object) -> str:
    """The JSON text of ``TrainingCurves``: the points of ``run`` as ``curves_delta`` takes them, and further facts."""
    return _json({"run": run, **curves_delta(**points_and_facts)})


def curves_delta(
    *,
    first_step: int,
    steps: Mapping[str, Sequence[float]],
    first_evaluation: int,
    evaluations: Sequence[Mapping[str, object]],
    samples: Sequence[Mapping[str, object]] | None,
    **facts: object,
) -> dict:
    """The points of a training from index ``first_step`` on, and no others, ready for JSON.

    ``steps`` has one list a curve, all of one length; ``evaluations`` are {step, seconds, loss, token_accuracy,
    exact_match, n}, where what was not recorded is None; ``samples`` those of the newest evaluation, None for "as
    before". A view that has fewer than ``first_step`` points has missed some and asks for all.
    Raises ValueError for lists of different lengths.
    """
    lengths = {len(values) for values in steps.values()}
    if len(lengths) > 1:
        raise ValueError(f"expected one value a step in each curve, got {sorted(lengths)}")
    return {
        "first_step": first_step,
        "steps": {name: [_short(value) for value in values] for name, values in steps.items()},
        "first_evaluation": first_evaluation,
        "evaluations": [
            {name: _short(value) if isinstance(value, float) else value for name, value in entry.items()}
            for entry in evaluations
        ],
        "samples": samples,
        **facts,
    }


def timeline_payload(
    *,
    run: str,
    first_snapshot: int,
    snapshots: Sequence[Mapping[str, object]],
    probe: Mapping[str, object] | None,
    **facts: object,
) -> str:
    """The JSON text of ``TrainingTimeline``: the snapshots of ``run`` from index ``first_snapshot`` on.

    Each snapshot is {step, exact_match, written, patterns}, ``patterns`` kind -> weights [L, H, T, S]; ``probe`` has
    the chips of its tokens: source (S), target_in (T), and expected. Raises ValueError for maps that do not fit it.
    """
    for snapshot in snapshots:
        for kind, weights in snapshot["patterns"].items():
            _check_fits(kind, weights, probe)
    return _json({
        "run": run,
        "first_snapshot": first_snapshot,
        "snapshots": [
            {**snapshot, "patterns": {kind: packed_weights(weights) for kind, weights in snapshot["patterns"].items()}}
            for snapshot in snapshots
        ],
        "probe": probe,
        **facts,
    })


def _check_fits(kind: str, weights: np.ndarray, probe: Mapping[str, object]) -> None:
    queries = probe["source"] if kind == "encoder_self" else probe["target_in"]
    keys = probe["target_in"] if kind == "decoder_self" else probe["source"]
    if weights.shape[2:] != (len(queries), len(keys)):
        raise ValueError(f"{kind}: maps are {weights.shape[2:]}, the tokens ask for {(len(queries), len(keys))}")


def first_step_reaching(evaluations: Sequence[Mapping[str, object]], target: float) -> Mapping[str, object] | None:
    """The first evaluation whose exact match is at least ``target``; None when there is none."""
    return next((entry for entry in evaluations if entry["exact_match"] >= target), None)


def training_chart(
    which: str,
    steps: Mapping[str, Sequence[float]],
    evaluations: Sequence[Mapping[str, object]],
    words: Words,
    *,
    log: bool = False,
) -> Chart:
    """The curve ``which`` of ``CHARTS`` of a recorded training.

    ``steps`` has step, loss, token_accuracy, learning_rate and gradient_norm, one value a step, or nothing where
    only evaluations were recorded. Raises ValueError for another ``which``.
    """
    if which not in CHARTS:
        raise ValueError(f"expected one of {', '.join(CHARTS)}, got {which!r}")
    if which == "right":
        figure, columns = _right_figure(steps, evaluations, words)
    elif which == "loss":
        figure, columns = _loss_figure(steps, evaluations, words)
    else:
        figure = go.Figure(_line(steps.get("step", ()), steps.get(which, ()), words(which), "accent", 2))
        columns = {words("step"): list(steps.get("step", ())), words(which): [_short(v) for v in steps.get(which, ())]}
    figure.update_layout(
        xaxis={"title": {"text": words("step")}, "rangemode": "tozero"},
        yaxis={
            "title": {"text": words(f"axis_{which}")},
            "type": "log" if log and which != "right" else "linear",
            "exponentformat": "power" if log else "e",
            **({"range": [-0.02, 1.04], "tickformat": ".0%"} if which == "right" else {}),
        },
        hovermode="x unified",
        legend={"y": 1.02, "yanchor": "bottom"},
        height=380,
        margin={"t": 36, "b": 52, "l": 68, "r": 16},
    )
    return Chart(figure, _summary(which, steps, evaluations, words), _table(columns))


def _line(
    x: Sequence[float], y: Sequence[float], name: str, colour: str, width: float, mode: str = "lines"
) -> go.Scatter:
    return go.Scatter(
        x=list(x), y=[_short(value) for value in y], name=name, mode=mode,
        line={"color": f"var(--gf-{colour})", "width": width}, marker={"size": 6},
    )


def _loss_figure(
    steps: Mapping[str, Sequence[float]], evaluations: Sequence[Mapping[str, object]], words: Words
) -> tuple[go.Figure, dict]:
    figure = go.Figure(_line(steps.get("step", ()), steps.get("loss", ()), words("loss_batch"), "accent", 1.5))
    unseen = [(entry["step"], entry["loss"]) for entry in evaluations if entry["loss"] is not None]
    figure.add_trace(_line(*_columns(unseen), words("loss_unseen"), "decoder-self", 2.5, "lines+markers"))
    by_step = dict(unseen)
    numbers = list(steps.get("step", ())) or [step for step, _ in unseen]
    return figure, {
        words("step"): numbers,
        words("loss_batch"): [_short(value) for value in steps.get("loss", ())] or [None] * len(numbers),
        words("loss_unseen"): [_short(by_step.get(step)) for step in numbers],
    }


def _right_figure(
    steps: Mapping[str, Sequence[float]], evaluations: Sequence[Mapping[str, object]], words: Words
) -> tuple[go.Figure, dict]:
    of_batches = steps.get("step", ()), steps.get("token_accuracy", ())
    figure = go.Figure(_line(*of_batches, words("tokens_batch"), "line", 1.5))
    tokens = [(entry["step"], entry["token_accuracy"]) for entry in evaluations if entry["token_accuracy"] is not None]
    figure.add_trace(_line(*_columns(tokens), words("tokens_unseen"), "encoder-self", 2.5, "lines+markers"))
    exact = [(entry["step"], entry["exact_match"]) for entry in evaluations]
    figure.add_trace(_line(*_columns(exact), words("exact_unseen"), "accent", 3, "lines+markers"))
    for target in TARGETS:
        figure.add_hline(y=target, line={"color": "var(--gf-muted)", "width": 1, "dash": "dot"})
    return figure, {
        words("step"): [entry["step"] for entry in evaluations],
        words("tokens_unseen"): [_short(entry["token_accuracy"]) for entry in evaluations],
        words("exact_unseen"): [_short(entry["exact_match"]) for entry in evaluations],
    }


def _columns(rows: Sequence[tuple]) -> tuple[list, list]:
    return [row[0] for row in rows], [row[1] for row in rows]


def _summary(
    which: str, steps: Mapping[str, Sequence[float]], evaluations: Sequence[Mapping[str, object]], words: Words
) -> str:
    if which == "right":
        last = evaluations[-1]
        reached = [
            words("summary_reached", percent=f"{target:.0%}", step=entry["step"])
            for target in TARGETS
            if (entry := first_step_reaching(evaluations, target))
        ]
        return " ".join([words("summary_right", percent=f"{last['exact_match']:.1%}", step=last["step"]), *reached])
    values = list(steps.get(which, ())) or [entry["loss"] for entry in evaluations if which == "loss" and entry["loss"]]
    if not values:
        return words("summary_nothing")
    return words("summary_curve", name=words(which), first=_text(values[0]), last=_text(values[-1]),
                 lowest=_text(min(values)), highest=_text(max(values)))


def _table(columns: dict[str, list]) -> Table:
    n_rows = len(next(iter(columns.values())))
    stride = max(1, -(-n_rows // MOST_ROWS))
    rows = [row for i, row in enumerate(zip(*columns.values(), strict=True)) if i % stride == 0 or i == n_rows - 1]
    return Table(list(columns), rows)


def _text(value: float) -> str:
    return f"{value:.3g}"


def _short(value: float | None) -> float | None:
    """Five significant digits: more than any screen shows, a third of the bytes."""
    return None if value is None else float(f"{value:.5g}")


def _json(value: dict) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
