"""Write ``docs/faults.md`` anew: every fault, why it does what it does, and which proofs fail under it.

``python -m transformer.fault_table`` runs all proofs under all faults on the shipped copy model and writes what it
found. A test compares the file with such a run, so it cannot go stale.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from transformer.checkpoints import shipped_checkpoint
from transformer.fault_pairs import SIDES, TAIL, recorded_pairs
from transformer.faults import FAULTS
from transformer.proofs import PROOFS, prove
from transformer.training_faults import TRAINING_FAULTS

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "faults.md"
WORDS = ROOT / "assets" / "strings" / "en" / "lab.json"
TASK, TEXT = "copy", "3 1 7 3 10 2"


def failing_proofs(names: list[str]) -> set[str]:
    """The proofs that fail on the shipped copy model under these faults."""
    return {proof.name for proof in prove(shipped_checkpoint(TASK), TEXT, names) if not proof.holds}


def fault_document(failing: dict[str, set[str]]) -> str:
    """The document, from what fails under each fault."""
    texts = json.loads(WORDS.read_text(encoding="utf-8"))
    words = {key: text.replace("<", "&lt;") for key, text in texts.items()}  # <eos> is no tag
    proofs = [name for name in PROOFS if any(name in failed for failed in failing.values())]
    lines = [
        "# Faults and proofs",
        "",
        "Written by `python -m transformer.fault_table` from a run on the shipped copy model; do not edit by hand.",
        "",
        "A fault is a bug that people really write, switched on in a trained network while it decodes. A proof is a",
        "property that must hold of a sound one. Under each fault exactly the proofs marked with a cross fail, all",
        f"others hold. With no fault all {len(PROOFS)} hold (one of them compares two devices and needs a second one).",
        "",
        "## Faults of decoding",
        "",
        *(line for name in FAULTS for line in (f"**{words[f'fault_{name}']}** (`{name}`). {words[f'fault_{name}_why']} "
                                               f"In the wild: {words[f'fault_{name}_bug']}", "")),
        "## Which proofs fail",
        "",
        *(f"{number}. {words[f'proof_{name}']} (`{name}`): {words[f'proof_{name}_done']}"
          for number, name in enumerate(proofs, 1)),
        "",
        "| fault | " + " | ".join(str(number) for number in range(1, len(proofs) + 1)) + " |",
        "|---|" + "---|" * len(proofs),
        *(f"| `{name}` | " + " | ".join("x" if proof in failed else "" for proof in proofs) + " |"
          for name, failed in failing.items()),
        "",
        "## Faults of training",
        "",
        "These show only while a network learns: the page trains a healthy and a faulty one from the same seed.",
        "",
        *measured_lines(),
        "",
        *(line for name in TRAINING_FAULTS for line in (
            f"**{words[f'training_{name}']}** (`{name}`). {words[f'training_{name}_why']} "
            f"In the wild: {words[f'training_{name}_bug']}", "")),
    ]
    return "\n".join(lines).rstrip() + "\n"


def measured_lines() -> list[str]:
    """The table of what the recorded pairs came to."""
    lines = [
        "What came of each pair, healthy / faulty, on the recorded run (`python -m transformer.fault_pairs`, seed 0):",
        "sequences of the validation split written right as a whole, tokens right and loss in training with the true",
        f"tokens given (means over the last {TAIL} steps).",
        "",
        "| fault | steps | sequences right | tokens right in training | loss in training |",
        "|---|---|---|---|---|",
    ]
    for name, sides in recorded_pairs().items():
        ends = [sides[side].ends() for side in SIDES]
        right, tokens = (" / ".join(f"{end[key]:.1%}" for end in ends) for key in ("exact", "tokens"))
        steps, losses = (" / ".join(f"{end[key]:.3g}" for end in ends) for key in ("steps", "loss"))
        failed = sides["faulty"].diverged
        if failed:
            losses += f", then {failed['loss']} in step {failed['step']}: ended"
        lines.append(f"| `{name}` | {steps} | {right} | {tokens} | {losses} |")
    return lines


def main() -> int:
    """Write the document."""
    DOCUMENT.write_text(fault_document({name: failing_proofs([name]) for name in FAULTS}), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
