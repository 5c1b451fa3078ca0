"""The lines of ``transformer/model.py`` that compute each stage of an attention map, read from the source itself."""

from __future__ import annotations

import ast
import inspect
import textwrap
from pathlib import Path

from transformer import model
from viz.arithmetic import CodeLine

# The value each stage is, by its name in ``Attention.forward``. A name assigned twice is meant with a mask.
STAGE_VALUES = {"raw": "raw_scores", "scaled": "scaled_scores", "masked": "scores", "softmax": "weights"}


def code_lines() -> dict[str, CodeLine]:
    """The line of code of each stage. Raises LookupError when the source has no such line any more."""
    source, first_line = inspect.getsourcelines(model.Attention.forward)
    file = Path(inspect.getfile(model))
    place = f"{file.parent.name}/{file.name}"
    tree = ast.parse(textwrap.dedent("".join(source)))
    found: dict[str, CodeLine] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
            continue
        for stage, name in STAGE_VALUES.items():
            if node.targets[0].id != name:
                continue
            text = " ".join(line.strip() for line in source[node.lineno - 1 : node.end_lineno])
            if stage not in found or "masked_fill" in text:
                found[stage] = CodeLine(f"{place}:{first_line + node.lineno - 1}", text)
    missing = [name for stage, name in STAGE_VALUES.items() if stage not in found]
    if missing:
        raise LookupError(f"{place} no longer assigns {', '.join(missing)} in Attention.forward")
    return found


CODE_LINES = code_lines()
