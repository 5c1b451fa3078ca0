"""The random networks that decoding is measured on: of the paper's order (post-LN), and never done by themselves."""

from __future__ import annotations

import torch

from transformer.checkpoints import Checkpoint
from transformer.config import TransformerConfig
from transformer.model import Transformer
from transformer.tokenizers import SPECIAL_TOKENS, SymbolTokenizer

N_TOKENS = 1000
MAX_LEN = 192


@torch.no_grad()
def endless_checkpoint(d_model: int, n_heads: int, n_tokens: int = N_TOKENS, n_layers: int = 2) -> Checkpoint:
    """Random weights that write on and on, up to whatever cap is set.

    The rows of special tokens in the output head are 0, so that their logit is 0 at every step, which among so many
    others is never the largest: ``<eos>`` is looked for, and never comes.
    """
    tokenizer = SymbolTokenizer(f"t{number}" for number in range(n_tokens - len(SPECIAL_TOKENS)))
    config = TransformerConfig(
        n_tokens, n_tokens, d_model=d_model, n_heads=n_heads, d_ff=4 * d_model, n_encoder_layers=n_layers,
        n_decoder_layers=n_layers, dropout=0.0, max_len=MAX_LEN, norm_first=False, tie_output=False,
    )
    generator = torch.Generator().manual_seed(d_model)
    model = Transformer(config).initialize(generator).eval()
    for parameter in model.parameters():  # so that what is copied wrongly shows
        if parameter.dim() == 1:
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    model.unembed.weight[: len(SPECIAL_TOKENS)] = 0
    return Checkpoint("endless", "copy", model, tokenizer, tokenizer, {"seed": d_model, "steps": 0})


def source_text(checkpoint: Checkpoint, length: int) -> str:
    """A text of ``length`` tokens."""
    generator = torch.Generator().manual_seed(length)
    symbols = checkpoint.src_tokenizer.symbols
    return " ".join(symbols[i] for i in torch.randint(len(symbols), (length,), generator=generator).tolist())
