"""Greedy decoding, all patterns and candidates captured as for the page, against others with the very same weights.

Hugging Face's ``MarianMTModel.generate`` decodes twice: with the same captured (attention weights, scores), and with
nothing captured, which ours must not be slower than either. CTranslate2, in float32 and with nothing captured, shows
how far one could go. One thread each. The tokens of all four must be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from benchmarks.measuring import BenchmarkFailed, Result, at_least, interleaved, medians, processor_clock, ratio
from benchmarks.peers import ctranslate2_decoder, marian, marian_decoder
from benchmarks.subjects import endless_checkpoint, source_text
from transformer.checkpoints import Checkpoint
from transformer.tracing import trace_text, written_ids

SIZES = {64: 4, 128: 4, 256: 8, 512: 8}  # d_model -> heads
TEXTS = ((11, 24), (23, 40))  # tokens of a source, and how many are written for it
CAPTURED_BUDGETS = {64: 3.0, 128: 3.0, 256: 1.5, 512: 1.5}
PLAIN_BUDGET = 1.0
ROUNDS = 7

Decoding = Callable[[], list[tuple[int, ...]]]


def decodings(checkpoint: Checkpoint, texts: Sequence[tuple[int, int]] = TEXTS) -> dict[str, Decoding]:
    """Who decodes the same texts, by name; each returns the tokens it wrote."""
    sources = [(source_text(checkpoint, length), n_steps) for length, n_steps in texts]
    eos_id = checkpoint.src_tokenizer.eos_id
    ids = [((*checkpoint.src_tokenizer.encode(text).ids, eos_id), n_steps) for text, n_steps in sources]

    def ours() -> list[tuple[int, ...]]:
        traces = [trace_text(checkpoint, text, max_steps=n_steps) for text, n_steps in sources]
        return [tuple(written_ids(checkpoint, trace)) for trace in traces]

    others = {
        "hf_captured": marian_decoder(marian(checkpoint.model, "eager"), captured=True),
        "hf": marian_decoder(marian(checkpoint.model), captured=False),
        "ctranslate2": ctranslate2_decoder(checkpoint),
    }
    return {"ours": ours, **{name: lambda decode=decode: [decode(*each) for each in ids]
                             for name, decode in others.items()}}


def check_equal(written: dict[str, list[tuple[int, ...]]]) -> None:
    """Raise BenchmarkFailed when not all wrote the same."""
    for name, rows in written.items():
        if rows != written["ours"]:
            raise BenchmarkFailed(f"{name} wrote other tokens than ours, so there is nothing to compare")


def run() -> Result:
    torch.set_num_threads(1)
    milliseconds, ratios, shares = {}, {}, []
    for d_model, n_heads in SIZES.items():
        tasks = decodings(endless_checkpoint(d_model, n_heads))
        check_equal({name: decode() for name, decode in tasks.items()})
        seconds = interleaved(tasks, ROUNDS, clock=processor_clock)
        found = {name: ratio(seconds, name, "ours") for name in tasks if name != "ours"}
        shares += [found["hf_captured"] / CAPTURED_BUDGETS[d_model], found["hf"] / PLAIN_BUDGET]
        milliseconds[f"ms at d_model {d_model}"] = {name: 1000 * value for name, value in medians(seconds).items()}
        ratios[f"times as long as ours at d_model {d_model}"] = found
    return at_least(
        "decode", min(shares), 1.0,
        "the smallest ratio to its own budget: Hugging Face's time over ours, captured against captured "
        "(3 at d_model 64 and 128, 1.5 at 256 and 512) and ours captured against theirs without (1)",
        **milliseconds, **ratios,
        texts=f"{', '.join(f'{n_source} tokens into {n_target}' for n_source, n_target in TEXTS)}; 2+2 layers",
        tokens="equal in all four",
    )
