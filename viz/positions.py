"""Positional encodings as figures: curves, the whole matrix, similarity, and how a shift is a rotation.

Shape legend: P positions, D d_model. An encoding is [P, D]; dimensions 2i and 2i+1 are its pair i, a sine and a
cosine of one frequency (paper, section 3.5). Words come in as ``words(key, **values)``, so no language lives here.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence

import numpy as np
import plotly.graph_objects as go

from viz.chart import Chart, Table
from viz.text import escaped

Words = Callable[..., str]


def frequencies(d_model: int) -> np.ndarray:
    """The angle each pair turns by from one position to the next: 10000^(-2i/D) radians -> [ceil(D/2)]."""
    return 10000.0 ** (-np.arange(0, d_model, 2, dtype=np.float64) / d_model)


def wavelengths(d_model: int) -> np.ndarray:
    """How many positions one full turn of each pair takes -> [ceil(D/2)]."""
    return 2 * np.pi / frequencies(d_model)


def rotation_matrix(angle: float) -> np.ndarray:
    """The [2, 2] matrix that turns (sin a, cos a) into (sin(a + angle), cos(a + angle))."""
    return np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])


def fitted_angle(pair: np.ndarray, shift: int) -> float:
    """The turn that carries every point of ``pair`` [P, 2] closest to the point ``shift`` positions on, in radians.

    It minimises the summed squared distance (the orthogonal Procrustes problem in two dimensions).
    """
    before, after = pair[: len(pair) - shift].astype(np.float64), pair[shift:].astype(np.float64)
    along = np.sum(before * after)
    across = np.sum(before[:, 1] * after[:, 0] - before[:, 0] * after[:, 1])
    return float(np.arctan2(across, along))


def rotation_residual(pair: np.ndarray, shift: int, angle: float) -> float:
    """The largest distance, over all positions, between a turned point and the point it should meet."""
    before, after = pair[: len(pair) - shift].astype(np.float64), pair[shift:].astype(np.float64)
    return float(np.max(np.linalg.norm(before @ rotation_matrix(angle).T - after, axis=1)))


def similarity(encoding: np.ndarray, measure: str) -> np.ndarray:
    """How alike any two positions are, ``measure`` "dot" or "cosine" -> [P, P]. A zero vector is like nothing: 0."""
    exact = encoding.astype(np.float64)
    products = exact @ exact.T
    if measure == "dot":
        return products
    if measure != "cosine":
        raise ValueError(f"measure must be dot or cosine, got {measure!r}")
    lengths = np.linalg.norm(exact, axis=1)
    scale = lengths[:, None] * lengths[None, :]
    return np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)


def by_distance(alike: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, smallest and largest value of ``alike`` [P, P] among all pairs of positions k apart, each [P]."""
    diagonals = [np.diagonal(alike, offset=k) for k in range(len(alike))]
    return tuple(np.array([reduce(values) for values in diagonals]) for reduce in (np.mean, np.min, np.max))


def default_dimensions(d_model: int, n_positions: int) -> list[int]:
    """Dimensions to look at first: three pairs from fast to slow, the slowest turning at least half around."""
    n_pairs = d_model // 2
    if n_pairs == 0:
        return [0]
    seen = [i for i in range(n_pairs) if wavelengths(d_model)[i] <= 2 * n_positions] or [0]
    pairs = sorted({seen[0], seen[len(seen) // 2], seen[-1]})
    return [dimension for i in pairs for dimension in (2 * i, 2 * i + 1)]


def dimension_name(words: Words, dimension: int, d_model: int, sinusoidal: bool) -> str:
    """What a dimension is called in lists: its number, and for the fixed encoding its function and wavelength."""
    if not sinusoidal:
        return words("dimension", n=dimension)
    function = "cos" if dimension % 2 else "sin"
    return words("dimension_wave", n=dimension, function=function, turn=turn_text(d_model, dimension // 2))


def turn_text(d_model: int, pair: int) -> str:
    """The wavelength of a pair, in positions, with about three figures."""
    wavelength = wavelengths(d_model)[pair]
    return f"{wavelength:.2f}" if wavelength < 100 else f"{wavelength:,.0f}"


def curves_chart(
    encoding: np.ndarray, dimensions: Sequence[int], n_tokens: int, words: Words, sinusoidal: bool
) -> Chart:
    """The chosen columns of ``encoding`` [P, D] over position: one row of the figure a pair.

    The first ``n_tokens`` positions, those the text at hand uses, are shaded.
    Raises ValueError for a dimension the encoding lacks.
    """
    n_positions, d_model = encoding.shape
    outside = [dimension for dimension in dimensions if not 0 <= dimension < d_model]
    if outside or not dimensions:
        raise ValueError(f"dimensions must lie in 0..{d_model - 1}, got {list(dimensions)}")
    pairs = sorted({dimension // 2 for dimension in dimensions})
    figure = go.Figure()
    positions = np.arange(n_positions)
    gap = 0.32 / len(pairs)
    for row, pair in enumerate(pairs):
        top = 1 - row / len(pairs)
        axis = "" if row == 0 else str(row + 1)
        figure.layout[f"yaxis{axis}"] = {"domain": [top - 1 / len(pairs), top - gap], "nticks": 3}
        for dimension in (2 * pair, 2 * pair + 1):
            if dimension not in dimensions:
                continue
            function = ("cos" if dimension % 2 else "sin") if sinusoidal else ("odd" if dimension % 2 else "even")
            colour = "var(--gf-decoder-self)" if dimension % 2 else "var(--gf-accent)"
            figure.add_scatter(
                x=positions,
                y=encoding[:, dimension],
                yaxis=f"y{axis}",
                mode="lines+markers",
                line={"width": 2, "dash": "dot" if dimension % 2 else "solid", "color": colour},
                marker={"size": 5, "color": colour},
                name=words(f"curve_{function}"),
                legendgroup=function,
                showlegend=function not in {trace.legendgroup for trace in figure.data},
                hovertemplate=words("curve_hover", n=dimension) + "<extra></extra>",
            )
        figure.add_annotation(
            text=words("pair_wave", even=2 * pair, odd=2 * pair + 1, turn=turn_text(d_model, pair))
            if sinusoidal
            else words("pair", even=2 * pair, odd=2 * pair + 1),
            xref="paper", yref="paper", x=0, y=top - gap, xanchor="left", yanchor="bottom", showarrow=False,
        )
    figure.update_layout(
        height=max(300, 130 * len(pairs) + 90),
        xaxis={"title": {"text": words("position")}, "anchor": f"y{len(pairs) if len(pairs) > 1 else ''}",
               "zeroline": False, "range": [-0.5, n_positions - 0.5]},
        legend={"y": 1.02, "yanchor": "bottom"},
        shapes=[{"type": "rect", "xref": "x", "yref": "paper", "x0": -0.5, "x1": min(n_tokens, n_positions) - 0.5,
                 "y0": 0, "y1": 1, "fillcolor": "var(--gf-accent-soft)", "line": {"width": 0}, "layer": "below"}],
    )
    kinds = [
        words("summary_wave", n=pair, even=2 * pair, odd=2 * pair + 1, turn=turn_text(d_model, pair))
        for pair in pairs
    ]
    summary = " ".join(kinds) if sinusoidal else words("summary_curves", n=len(dimensions), positions=n_positions)
    columns = [words("position"), *(dimension_name(words, d, d_model, sinusoidal) for d in dimensions)]
    rows = [[p, *(f"{encoding[p, d]:.6f}" for d in dimensions)] for p in range(n_positions)]
    return Chart(figure, summary, Table(columns, rows))


def _heatmap(values: np.ndarray, limit: float, hover: str, x_title: str, y_title: str, height: int) -> go.Figure:
    """A map of ``values`` [rows, columns] on a scale that is the same to both sides of 0, row 0 on top."""
    figure = go.Figure(go.Heatmap(
        z=values, zmin=-limit, zmax=limit, zmid=0, autocolorscale=True,
        hovertemplate=hover + "<extra></extra>", colorbar={"thickness": 12, "outlinewidth": 0, "nticks": 5},
    ))
    figure.update_layout(
        height=height,
        xaxis={"title": {"text": x_title}, "showgrid": False, "zeroline": False},
        yaxis={"title": {"text": y_title}, "autorange": "reversed", "showgrid": False, "zeroline": False},
    )
    return figure


def matrix_chart(encoding: np.ndarray, words: Words) -> Chart:
    """The whole ``encoding`` [P, D] as a map: a row is what is added to the token at that position."""
    n_positions, d_model = encoding.shape
    limit = float(np.abs(encoding).max()) or 1.0
    figure = _heatmap(encoding, limit, words("matrix_hover"), words("dimension_axis"), words("position"), 560)
    summary = words("summary_matrix", positions=n_positions, d_model=d_model,
                    low=f"{encoding.min():.2f}", high=f"{encoding.max():.2f}")
    rows = [[p, *(f"{value:.3f}" for value in encoding[p])] for p in range(n_positions)]
    return Chart(figure, summary, Table([words("position"), *map(str, range(d_model))], rows))


def distance_chart(encoding: np.ndarray, measure: str, words: Words) -> Chart:
    """Similarity by distance: the mean over all pairs of positions k apart, and how far single pairs stray."""
    mean, low, high = by_distance(similarity(encoding, measure))
    apart = np.arange(len(mean))
    figure = go.Figure()
    figure.add_scatter(x=apart, y=high, mode="lines", line={"width": 0, "color": "var(--gf-accent)"}, showlegend=False,
                       hoverinfo="skip")
    figure.add_scatter(x=apart, y=low, mode="lines", line={"width": 0, "color": "var(--gf-accent)"}, fill="tonexty",
                       fillcolor="var(--gf-accent-soft)", name=words("distance_range"), hoverinfo="skip")
    figure.add_scatter(x=apart, y=mean, mode="lines+markers", line={"width": 2.5, "color": "var(--gf-accent)"},
                       marker={"size": 5, "color": "var(--gf-accent)"}, name=words("distance_mean"),
                       hovertemplate=words("distance_hover") + "<extra></extra>")
    figure.update_layout(
        height=400, legend={"y": 1.02, "yanchor": "bottom"},
        xaxis={"title": {"text": words("distance_axis")}, "zeroline": False},
        yaxis={"title": {"text": words(f"measure_{measure}")}},
    )
    spread = float(np.max(high - low))
    summary = words("summary_distance" if spread < 1e-3 else "summary_distance_spread",
                    spread=f"{spread:.1e}" if spread < 1e-3 else f"{spread:.2f}",
                    zero=f"{mean[0]:.2f}", one=f"{mean[min(1, len(mean) - 1)]:.2f}")
    columns = [words("distance_axis"), words("distance_mean"), words("smallest"), words("largest")]
    rows = [[k, f"{mean[k]:.6f}", f"{low[k]:.6f}", f"{high[k]:.6f}"] for k in range(len(mean))]
    return Chart(figure, summary, Table(columns, rows))


def similarity_chart(encoding: np.ndarray, measure: str, words: Words) -> Chart:
    """Similarity of every two positions as a map [P, P]."""
    alike = similarity(encoding, measure)
    limit = float(np.abs(alike).max()) or 1.0
    figure = _heatmap(alike, limit, words("similarity_hover"), words("position_q"), words("position_p"), 480)
    rows = [[p, *(f"{value:.3f}" for value in alike[p])] for p in range(len(alike))]
    summary = words("summary_similarity", positions=len(alike))
    return Chart(figure, summary, Table([words("position"), *map(str, range(len(alike)))], rows))


def norms_chart(labels: Sequence[str], embed: np.ndarray, pos_embed: np.ndarray, words: Words) -> Chart:
    """For each token of a text the length of its scaled embedding, of its position, and of their sum.

    ``embed`` and ``pos_embed`` are [T, D], ``labels`` one text a token. Raises ValueError when they differ in length.
    """
    if not len(labels) == len(embed) == len(pos_embed):
        raise ValueError(f"expected one row a token, got {len(labels)} labels, {len(embed)} embeddings and "
                         f"{len(pos_embed)} positions")
    parts = {"norm_embed": (embed, "var(--gf-decoder-self)"), "norm_position": (pos_embed, "var(--gf-encoder-self)"),
             "norm_sum": (embed + pos_embed, "var(--gf-accent)")}
    norms = {name: np.linalg.norm(values.astype(np.float64), axis=1) for name, (values, _) in parts.items()}
    figure = go.Figure()
    for name, (_, colour) in parts.items():
        figure.add_bar(x=np.arange(len(labels)), y=norms[name], name=words(name), marker={"color": colour},
                       hovertemplate="%{y:.3f}")
    figure.update_layout(
        height=400, barmode="group", bargap=0.25, hovermode="x unified", legend={"y": 1.02, "yanchor": "bottom"},
        xaxis={"tickmode": "array", "tickvals": list(range(len(labels))), "ticktext": [escaped(x) for x in labels],
               "title": {"text": words("token_axis")}, "zeroline": False},
        yaxis={"title": {"text": words("length_axis")}, "rangemode": "tozero"},
    )
    scale = np.sqrt(embed.shape[1])
    summary = words("summary_norms", scale=f"{scale:.2f}", embed=f"{norms['norm_embed'].mean():.2f}",
                    position=f"{norms['norm_position'].mean():.2f}",
                    unscaled=f"{norms['norm_embed'].mean() / scale:.2f}")
    columns = [words("position"), words("token_axis"), *(words(name) for name in parts)]
    rows = [[i, label, *(f"{norms[name][i]:.4f}" for name in parts)] for i, label in enumerate(labels)]
    return Chart(figure, summary, Table(columns, rows))


def rotation_payload(encoding: np.ndarray, kind: str, **facts: object) -> str:
    """The JSON text of the rotation picture: the stored numbers [P, 2 * pairs] as base64 float32 and the frequencies.

    ``kind`` is the config's positional_encoding. A last dimension without a partner (odd D) is left out.
    """
    n_positions, d_model = encoding.shape
    n_pairs = d_model // 2
    numbers = np.ascontiguousarray(encoding[:, : 2 * n_pairs], dtype="<f4")
    return json.dumps({
        "kind": kind,
        "d_model": d_model,
        "n_pairs": n_pairs,
        "n_positions": n_positions,
        "frequencies": frequencies(d_model)[:n_pairs].tolist(),
        "encoding": {"dtype": "float32", "shape": list(numbers.shape),
                     "data": base64.b64encode(numbers.tobytes()).decode()},
        **facts,
    }, ensure_ascii=False)
