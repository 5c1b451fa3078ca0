"""The arithmetic of one attention weight, written out: from the products of two numbers each to the softmax.

Shape legend: S keys of a row, K d_head. Everything is computed anew in float64 from the query and the keys that
the model used (float32), after scaled dot-product attention: softmax(q k^T / sqrt(K) + mask), paper, section 3.2.1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from viz.text import escaped

STAGES = ("raw", "scaled", "masked", "softmax")
SIGNIFICANT_DIGITS = 4
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
Words = Callable[..., str]


def shown(value: float) -> str:
    """``value`` to 4 significant digits, with a real minus sign; fewer digits where they say all there is.

    Whole parts keep every digit, numbers far from 1 become powers of ten, and 0 appears only for exactly 0.
    """
    value = float(value)
    if math.isnan(value):
        raise ValueError("there is no way to show NaN")
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if value == 0:
        return "0"
    mantissa, exponent = f"{value:.{SIGNIFICANT_DIGITS - 1}e}".split("e")
    power = int(exponent)
    if -5 <= power < 6:
        text = f"{value:.{max(0, SIGNIFICANT_DIGITS - 1 - power)}f}"
        if "." in text and float(text) == value:
            text = text.rstrip("0").rstrip(".")
    else:
        text = f"{mantissa}×10{str(power).translate(_SUPERSCRIPTS)}"
    return text.replace("-", "−")


def is_rounded(value: float) -> bool:
    """Whether ``shown(value)`` leaves something out."""
    if value == 0 or math.isinf(value):
        return False
    text = shown(value).replace("−", "-")
    return "×" in text or float(text) != value


def equals(value: float) -> str:
    """``= 0.25`` where that is all of it, ``≈ 0.3333`` where it is rounded."""
    return f"{'≈' if is_rounded(value) else '='} {shown(value)}"


@dataclass(frozen=True, eq=False)
class CellArithmetic:
    """Every number on the way to the weight with which one query attends to one key."""

    key: int  # which column of the row
    q: np.ndarray  # [K]
    k: np.ndarray  # [K]
    products: np.ndarray  # [K] q_i * k_i
    raw: float  # their sum
    root: float  # sqrt(K)
    scaled: float  # raw / root
    allowed: bool  # may this query attend to this key?
    masked: float  # scaled, or -inf
    row_masked: np.ndarray  # [S] the same for every key of the row
    row_allowed: np.ndarray  # [S] True = may attend
    row_max: float  # the largest of row_masked; -inf where the row sees nothing
    exponentials: np.ndarray  # [S] exp(row_masked - row_max), 0 where hidden
    denominator: float  # their sum
    weights: np.ndarray  # [S]

    @property
    def sees_nothing(self) -> bool:
        """Whether every key of the row is hidden."""
        return not bool(self.row_allowed.any())

    @property
    def numerator(self) -> float:
        return float(self.exponentials[self.key])

    @property
    def weight(self) -> float:
        return float(self.weights[self.key])

    @property
    def stages(self) -> dict[str, float]:
        """The number that each stage of the map shows in this cell."""
        return {"raw": self.raw, "scaled": self.scaled, "masked": self.masked, "softmax": self.weight}


def cell_arithmetic(q: np.ndarray, keys: np.ndarray, allowed: np.ndarray, key: int) -> CellArithmetic:
    """What one query ``q`` [K] makes of key number ``key`` among ``keys`` [S, K].

    ``allowed`` [S]: True = may attend. A row that may attend to nothing gets weights of 0.
    Raises ValueError when the shapes do not fit or there is no such key.
    """
    q, keys, allowed = np.asarray(q, np.float64), np.asarray(keys, np.float64), np.asarray(allowed, bool)
    if keys.ndim != 2 or q.shape != keys.shape[1:]:
        raise ValueError(f"expected keys [S, K] for a query [K], got {keys.shape} and {q.shape}")
    if allowed.shape != keys.shape[:1]:
        raise ValueError(f"expected one mask value a key, got {allowed.shape[0]} for {keys.shape[0]} keys")
    if not 0 <= key < len(keys):
        raise ValueError(f"there is no key {key} among {len(keys)}")
    root = math.sqrt(len(q))
    row_masked = np.where(allowed, (keys * q).sum(axis=1) / root, -np.inf)
    row_max = float(row_masked.max())
    exponentials = np.exp(row_masked - row_max) if allowed.any() else np.zeros(len(keys))
    denominator = float(exponentials.sum())
    products = q * keys[key]
    raw = float(products.sum())
    return CellArithmetic(
        key=key,
        q=q,
        k=keys[key],
        products=products,
        raw=raw,
        root=root,
        scaled=raw / root,
        allowed=bool(allowed[key]),
        masked=raw / root if allowed[key] else -math.inf,
        row_masked=row_masked,
        row_allowed=allowed,
        row_max=row_max,
        exponentials=exponentials,
        denominator=denominator,
        weights=exponentials / denominator if denominator else exponentials,
    )


@dataclass(frozen=True)
class CodeLine:
    """One line of the program: where it stands (file:line) and what it says."""

    place: str
    text: str


@dataclass(frozen=True)
class ShapeLine:
    """How shapes go through one step, in letters and in the numbers of this run."""

    letters: str
    numbers: str


def arithmetic_html(
    cell: CellArithmetic,
    *,
    query: int,
    query_label: str,
    key_labels: Sequence[str],
    hidden_because: str,
    code: Mapping[str, CodeLine],
    shapes: Mapping[str, ShapeLine],
    words: Words,
    note: str = "",
) -> str:
    """The derivation as HTML: a question with its answer, then one section a stage, each with its line of code.

    ``hidden_because`` names the reason a hidden key is hidden (``future``, ``padding`` or ``other``); ``note`` is a
    sentence on the row, put under the question;
    ``words(name, **values)`` gives the text of a name. Labels and words are escaped here.
    Raises ValueError when the labels do not fit the row.
    """
    if len(key_labels) != len(cell.weights):
        raise ValueError(f"expected one label a key, got {len(key_labels)} labels for {len(cell.weights)} keys")

    def say(name: str, **values: object) -> str:
        return escaped(words(name, **values))

    bodies = {
        "raw": _raw_step(cell, say),
        "scaled": _scaled_step(cell, say),
        "masked": _masked_step(cell, say, hidden_because),
        "softmax": _softmax_step(cell, key_labels, say),
    }
    steps = "".join(
        _step(i + 1, stage, cell.stages[stage], bodies[stage], code[stage], shapes[stage], say)
        for i, stage in enumerate(STAGES)
    )
    return (
        f'<div class="gf-sum-question"><p>{_chip(query_label)}<span>{say("question_query", row=query)}</span>'
        f'{_chip(key_labels[cell.key])}<span>{say("question_key", column=cell.key)}</span></p>'
        f'<p class="gf-sum-answer"><span>{say("answer")}</span><b data-value="weight">{shown(cell.weight)}</b></p>'
        + (f'<p class="gf-sum-context">{escaped(note)}</p>' if note else "")
        + f'</div>{steps}<p class="gf-sum-note">{say("rounding", digits=SIGNIFICANT_DIGITS)}</p>'
    )


def _chip(label: str) -> str:
    return f'<bdi class="gf-chip">{escaped(label)}</bdi>'


def _step(
    number: int, stage: str, value: float, body: str, code: CodeLine, shape: ShapeLine, say: Callable[..., str]
) -> str:
    return (
        f'<section class="gf-step" data-stage="{stage}"><h4><span class="gf-step-number">{number}</span>'
        f'<span>{say(f"step_{stage}")}</span><b data-value="{stage}">{shown(value)}</b></h4>{body}'
        f'<dl class="gf-step-facts"><div><dt>{say("code")}</dt><dd><code>{escaped(code.text)}</code>'
        f'<span class="gf-place">{escaped(code.place)}</span></dd></div><div><dt>{say("shapes")}</dt>'
        f"<dd><code>{escaped(shape.letters)}</code><code>{escaped(shape.numbers)}</code></dd></div></dl></section>"
    )


def _signed(value: float) -> str:
    """A factor as it stands in a product: negative numbers in brackets."""
    return f"({shown(value)})" if value < 0 else shown(value)


def _bar(value: float, largest: float) -> str:
    """A bar to the right of its middle for positive, to the left for negative numbers; a share of ``largest``."""
    share = abs(value) / largest if largest else 0.0
    side = "gf-bar-minus" if value < 0 else "gf-bar-plus"
    return f'<span class="gf-bar {side}" style="--gf-share:{share:.4f}"></span>'


def _equation(text: str) -> str:
    return f'<p class="gf-equation">{text}</p>'


def _fraction(above: str, below: str) -> str:
    return (
        f'<span class="gf-fraction"><span>{above}</span><span class="gf-over"> / </span><span>{below}</span></span>'
    )


def _table(name: str, label: str, head: Sequence[str], rows: Sequence[str], foot: str = "") -> str:
    cells = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    return (
        f'<div class="gf-sum-table gf-sum-{name}" tabindex="0" role="group" aria-label="{label}"><table>'
        f"<thead><tr>{cells}</tr></thead><tbody>{''.join(rows)}</tbody>{foot}</table></div>"
    )


def _raw_step(cell: CellArithmetic, say: Callable[..., str]) -> str:
    terms = [f"{_signed(a)}·{_signed(b)}" for a, b in zip(cell.q, cell.k, strict=True)]
    listed = " + ".join(terms if len(terms) <= 3 else [*terms[:2], "…", terms[-1]])
    largest = float(np.abs(cell.products).max())
    rows = [
        f'<tr><th scope="row">{i + 1}</th><td>{shown(cell.q[i])}</td><td>{shown(cell.k[i])}</td>'
        f'<td data-product="{i}">{shown(cell.products[i])}</td><td>{_bar(cell.products[i], largest)}</td></tr>'
        for i in range(len(cell.q))
    ]
    foot = (
        f'<tfoot><tr><th scope="row" colspan="3">{say("sum_of_products", n=len(cell.q))}</th>'
        f"<td>{shown(cell.raw)}</td><td></td></tr></tfoot>"
    )
    head = ("<i>i</i>", "q<sub>i</sub>", "k<sub>i</sub>", "q<sub>i</sub>·k<sub>i</sub>", "")
    return (
        f"<p>{say('explain_raw', n=len(cell.q))}</p>" + _equation(f"q·k = {listed} {equals(cell.raw)}")
        + _table("products", say("products_table"), head, rows, foot)
    )


def _scaled_step(cell: CellArithmetic, say: Callable[..., str]) -> str:
    score, width = shown(cell.raw), len(cell.q)
    equation = f"{score} / √{width} {'≈' if is_rounded(cell.root) else '='} {score} / {shown(cell.root)}"
    return f"<p>{say('explain_scaled', n=width)}</p>" + _equation(f"{equation} {equals(cell.scaled)}")


def _masked_step(cell: CellArithmetic, say: Callable[..., str], hidden_because: str) -> str:
    if cell.allowed:
        reason, equation = say("explain_allowed"), f"{shown(cell.scaled)} + 0 {equals(cell.masked)}"
    else:
        reason, equation = say(f"explain_hidden_{hidden_because}"), f"{shown(cell.scaled)} + (−∞) = −∞"
    return f'<p data-allowed="{str(cell.allowed).lower()}">{reason}</p>' + _equation(equation)


def _softmax_step(cell: CellArithmetic, key_labels: Sequence[str], say: Callable[..., str]) -> str:
    if cell.sees_nothing:
        return f"<p>{say('explain_sees_nothing')}</p>" + _equation("0")
    if cell.allowed:
        explanation = say("explain_softmax", n=int(cell.row_allowed.sum()))
        above = f"exp({shown(cell.masked)} − {_signed(cell.row_max)})"
    else:
        explanation = say("explain_softmax_hidden")
        above = "exp(−∞)"
    values = _fraction(shown(cell.numerator), shown(cell.denominator))
    sign = "≈" if is_rounded(cell.numerator) or is_rounded(cell.denominator) else "="
    equation = f"{_fraction(above, 'Σ exp')} {sign} {values} {equals(cell.weight)}"
    head = (
        "<i>j</i>", say("key"), "s<sub>j</sub>", "s<sub>j</sub> − max", "exp", say("weight"), "",
    )
    rows = []
    for j, label in enumerate(key_labels):
        chosen = ' class="gf-chosen" aria-current="true"' if j == cell.key else ""
        name = f'<tr{chosen}><th scope="row">{j}</th><td class="gf-token"><bdi>{escaped(label)}</bdi></td>'
        if cell.row_allowed[j]:
            numbers = (cell.row_masked[j], cell.row_masked[j] - cell.row_max, cell.exponentials[j], cell.weights[j])
            cells = "".join(f"<td>{shown(number)}</td>" for number in numbers)
        else:
            cells = f"<td>−∞</td><td>{say('masked_cell')}</td><td>0</td><td>0</td>"
        rows.append(f"{name}{cells}<td>{_bar(cell.weights[j], 1.0)}</td></tr>")
    foot = (
        f'<tfoot><tr><th scope="row" colspan="2">{say("sum")}</th><td></td><td></td><td data-value="denominator">'
        f"{shown(cell.denominator)}</td><td>{shown(round(float(cell.weights.sum()), 12))}</td><td></td></tr></tfoot>"
    )
    return f"<p>{explanation}</p>" + _equation(equation) + _table("row", say("row_table"), head, rows, foot)
