"""``python -m transformer prove``: every proof on one model and one text, with any faults switched on."""

from __future__ import annotations

import argparse
import json
import sys

from transformer.checkpoints import Checkpoint
from transformer.devices import checked_device
from transformer.faults import chosen_faults
from transformer.proofs import Proof, prove
from transformer.tasks import task


def follow_prove(arguments: argparse.Namespace, checkpoint: Checkpoint) -> int:
    """Print what each proof found; the exit status is 0 when all hold and 1 when one does not.

    Raises InputError for a text, a device or faults that cannot be used.
    """
    text = task(arguments.task).examples[0] if arguments.text is None else arguments.text
    device = checked_device(arguments.device)
    names = [fault.name for fault in chosen_faults(arguments.fault)]
    proofs: list[Proof] = []
    for proof in prove(checkpoint, text, names, device):
        proofs.append(proof)
        if not arguments.json:
            sys.stdout.write(_line(proof) + "\n")
            sys.stdout.flush()
    all_hold = all(proof.holds for proof in proofs)
    if arguments.json:
        report = {
            "task": arguments.task, "text": text, "faults": names, "device": device, "all_hold": all_hold,
            "proofs": [proof.to_dict() for proof in proofs],
        }
        sys.stdout.write(json.dumps(report, ensure_ascii=False) + "\n")
    return 0 if all_hold else 1


def _line(proof: Proof) -> str:
    verdict = "holds" if proof.holds else "FAILS"
    done = ", ".join(f"{name} {value}" for name, value in proof.done.items())
    return f"{verdict}  {proof.name:<30} deviation {proof.max_deviation:<9.3g} allowed {proof.tolerance:<7.3g} {done}"
