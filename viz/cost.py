"""What the Cost tab sends to the browser: formulas as numbers and letters, the sizes to put in, what was measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

# One product: numerator and denominator of its factor, and the letters it is multiplied by.
Product = tuple[int, int, Sequence[str]]
Books = Mapping[str, Mapping[str, Sequence[Product]]]


def costs_payload(
    *,
    books: Books,
    kinds: Mapping[str, Sequence[str]],
    sizes: Mapping[str, int],
    presets: Mapping[str, Mapping[str, int]],
    **facts: object,
) -> str:
    """The JSON text of all formulas with the sizes of a run and of other networks; ``facts`` are plain values.

    ``books`` hold, by name and part, sums of products of letters. Raises ValueError where a letter has no size, a
    preset changes a size that there is not, or a kind names a part that no book has.
    """
    letters = {letter for book in books.values() for terms in book.values() for *_, each in terms for letter in each}
    if missing := letters - set(sizes):
        raise ValueError(f"letters without a size: {', '.join(sorted(missing))}")
    for name, preset in presets.items():
        if unknown := set(preset) - set(sizes):
            raise ValueError(f"the preset {name} has unknown sizes: {', '.join(sorted(unknown))}")
    parts = {part for book in books.values() for part in book}
    if strangers := {part for kind in kinds.values() for part in kind} - parts:
        raise ValueError(f"no book has the parts {', '.join(sorted(strangers))}")
    return json.dumps(
        {
            "books": {
                name: {part: [[*product] for product in terms] for part, terms in book.items()}
                for name, book in books.items()
            },
            "kinds": {name: list(kind) for name, kind in kinds.items()},
            "sizes": dict(sizes),
            "presets": {name: dict(preset) for name, preset in presets.items()},
            **facts,
        },
        ensure_ascii=False,
        separators=(",", ":"),
    )


def measured_payload(
    *, what: str, columns: Mapping[str, Sequence[float]], places: Sequence[float], **facts: object
) -> str:
    """The JSON text of measured ``columns``, each with one number for each of ``places``; fractions to 4 digits.

    Raises ValueError when a column has more or fewer.
    """
    for name, numbers in columns.items():
        if len(numbers) != len(places):
            raise ValueError(f"{name} has {len(numbers)} numbers for {len(places)} places")
    return json.dumps(
        {
            "what": what,
            "places": list(places),
            "columns": {name: [_rounded(number) for number in numbers] for name, numbers in columns.items()},
            **facts,
        },
        ensure_ascii=False,
    )


def _rounded(number: float) -> float:
    return number if isinstance(number, int) else float(f"{number:.4g}")
