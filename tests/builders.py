"""Small random networks and checkpoints for the tests. Every random number comes from a generator of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor

import torch
from hypothesis import strategies as st
from torch import Tensor, nn

from transformer.checkpoints import Checkpoint
from transformer.config import TransformerConfig
from transformer.model import Transformer
from transformer.tokenizers import SymbolTokenizer

DIGITS = tuple(str(number) for number in range(12))


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def run_coroutine(coroutine: Coroutine) -> object:
    """What ``coroutine`` returns, run in a thread of its own: Playwright keeps an event loop in the main one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, coroutine).result()


def numbers(*shape: int, seed: int = 0) -> Tensor:
    """Normal float64 numbers."""
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


@torch.no_grad()
def randomized(module: nn.Module, seed: int = 0) -> nn.Module:
    """``module`` in float64 with every parameter drawn anew: biases and norms too, so that a test can see them."""
    module.double()
    source = generator(seed)
    for name, parameter in module.named_parameters():
        drawn = torch.randn(parameter.shape, generator=source, dtype=torch.float64)
        parameter.copy_(1 + 0.2 * drawn if name.endswith("norm.weight") else 0.4 * drawn)
    return module


def config_of(**changes: object) -> TransformerConfig:
    """The config of a tiny network, with ``changes``."""
    sizes = {"src_vocab_size": 11, "tgt_vocab_size": 13, "d_model": 12, "n_heads": 2, "d_ff": 16, "dropout": 0.0,
             "n_encoder_layers": 2, "n_decoder_layers": 2, "max_len": 16}
    return TransformerConfig(**{**sizes, **changes})


def float64_model(seed: int = 0, **changes: object) -> Transformer:
    """A tiny network in float64, in evaluation mode."""
    return randomized(Transformer(config_of(**changes)), seed).eval()


def tiny_checkpoint(symbols: tuple[str, ...] = DIGITS, seed: int = 0, **changes: object) -> Checkpoint:
    """An untrained checkpoint of the copy task whose two vocabularies are ``symbols``."""
    tokenizer = SymbolTokenizer(symbols)
    config = config_of(src_vocab_size=len(tokenizer), tgt_vocab_size=len(tokenizer), **changes)
    model = Transformer(config).initialize(generator(seed))
    return Checkpoint("tiny", "copy", model, tokenizer, tokenizer, {"seed": seed, "steps": 0})


def token_ids(n_rows: int, length: int, vocab_size: int, seed: int = 0) -> Tensor:
    """Ids [n_rows, length] that name real tokens: no special one among them."""
    return torch.randint(4, vocab_size, (n_rows, length), generator=generator(seed))


def padded(ids: Tensor, lengths: list[int], pad_id: int = 0) -> Tensor:
    """``ids`` with every row cut to its length and padded from there on."""
    return ids.masked_fill(torch.arange(ids.shape[1]) >= torch.tensor(lengths)[:, None], pad_id)


@st.composite
def small_configs(draw: st.DrawFn) -> dict:
    """Changes to ``config_of`` that reach every choice: head counts, odd widths, unequal stacks, norms, positions."""
    n_heads = draw(st.sampled_from([1, 2, 3, 6]))
    return {
        "n_heads": n_heads,
        "d_model": n_heads * draw(st.integers(1, 4)),
        "d_ff": draw(st.integers(1, 9)),
        "n_encoder_layers": draw(st.integers(1, 3)),
        "n_decoder_layers": draw(st.integers(1, 3)),
        "norm_first": draw(st.booleans()),
        "positional_encoding": draw(st.sampled_from(["sinusoidal", "learned", "none"])),
        "tie_output": draw(st.booleans()),
    }
