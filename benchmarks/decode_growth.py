"""What a token costs at the end of a long target against a short one: with a cache it hardly grows."""

from __future__ import annotations

import torch

from benchmarks.measuring import Result, at_most, interleaved, medians, processor_clock, ratio
from benchmarks.subjects import endless_checkpoint, source_text
from transformer.tracing import trace_text

SHORT, LONG = 16, 128  # tokens written
D_MODEL, N_HEADS = 128, 4
SOURCE_LENGTH = 15
ROUNDS = 15


def run() -> Result:
    torch.set_num_threads(1)
    checkpoint = endless_checkpoint(D_MODEL, N_HEADS)
    text = source_text(checkpoint, SOURCE_LENGTH)
    # As many tokens in both, so that a round is as long for one as for the other.
    seconds = interleaved(
        {
            "short": lambda: [trace_text(checkpoint, text, max_steps=SHORT) for _ in range(LONG // SHORT)],
            "long": lambda: trace_text(checkpoint, text, max_steps=LONG),
        },
        ROUNDS,
        clock=processor_clock,
    )
    per_token = {name: 1000 * value / LONG for name, value in medians(seconds).items()}
    return at_most(
        "decode-growth", ratio(seconds, "long", "short"), 1.5,
        f"time of a token at target length {LONG} over that at {SHORT}, everything captured",
        **{"ms a token": per_token, "sizes": f"d_model {D_MODEL}, 2+2 layers"},
    )
