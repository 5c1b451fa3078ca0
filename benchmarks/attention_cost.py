"""How time and memory of one layer's attention grow with the length of the sequence: by its square, once it is long."""

from __future__ import annotations

import torch

from benchmarks.measuring import BenchmarkFailed, Result
from benchmarks.subjects import endless_checkpoint
from transformer.measured_cost import FITTED_FROM, LENGTHS, growth, layer_times

D_MODEL, N_HEADS = 64, 4
SECONDS = 20.0


def run() -> Result:
    """The fitted exponent of the time. There is no budget: it is what the arithmetic says it must be."""
    torch.set_num_threads(1)
    times = layer_times(endless_checkpoint(D_MODEL, N_HEADS), seconds=SECONDS)
    exponents = {
        name: growth(times.lengths, values)
        for name, values in {
            "attention": times.attention, "projections": times.projections, "feed_forward": times.feed_forward,
            "attention_bytes": times.bytes,
        }.items()
    }
    if exponents["attention"] is None:
        raise BenchmarkFailed(f"the machine got no further than a length of {times.lengths[-1]} in {SECONDS:g} s")
    by_length = {
        name: dict(zip(map(str, times.lengths), values, strict=True))
        for name, values in (("ms, attention", times.attention), ("ms, feed-forward", times.feed_forward),
                             ("bytes, attention", times.bytes))
    }
    return Result(
        "attention-cost", exponents["attention"], None, True,
        f"exponent p of time ~ length^p of one layer's attention, fitted from length {FITTED_FROM} to {LENGTHS[-1]}; "
        "towards 2 is what is expected",
        {**by_length, "exponents": exponents, "waited": times.waited, "sizes": f"d_model {D_MODEL}, {N_HEADS} heads"},
    )
