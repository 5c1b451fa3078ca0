"""What a Transformer costs, computed from its sizes: parameters, operations and bytes, part by part.

Every formula stands here once, as a text such as ``"8·B·S·D·D·Le"``: it is computed with, it is shown, and the browser
computes with it too. Tests hold the formulas against the real network: its parameters, the operations that PyTorch
counts in its matrix products, the bytes of its cache and of its patterns.

An operation is one multiplication or one addition in a matrix product, so a multiply-add counts as 2 (as in
``torch.utils.flop_counter``). What grows with the sizes alone and is not a matrix product (norms, softmax, biases,
residual sums) is left out: a few parts in a hundred of the operations.

Letters: B batch, S source length, T target length, t number of the token being written (from 1, so that t tokens are
read), D d_model, H heads, F d_ff, Le and Ld layers of encoder and decoder, Vs and Vt source and target vocabulary,
P positions (max_len), b bytes a number, W parameters. Switches are 1 or 0: ``separate`` (the two embeddings are two
matrices), ``untied`` (the output has a matrix of its own), ``learned`` (positions are learnt), ``pre`` (pre-LN).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from transformer.config import TransformerConfig

LETTERS = ("B", "S", "T", "t", "D", "H", "F", "Le", "Ld", "Vs", "Vt", "P", "b", "W")
SWITCHES = ("separate", "untied", "learned", "pre")


@dataclass(frozen=True)
class Term:
    """A number times a product of letters; a letter that stands twice is squared."""

    factor: Fraction
    letters: tuple[str, ...]

    def value(self, sizes: Mapping[str, int]) -> Fraction:
        """The product with the sizes put in. Raises KeyError for a letter without a size."""
        product = self.factor
        for letter in self.letters:
            product *= sizes[letter]
        return product


Terms = tuple[Term, ...]
Book = dict[str, Terms]  # what each part costs


def terms_of(formula: str) -> Terms:
    """The terms of a sum such as ``"2·D·F + F"``. Raises ValueError for a letter that is not known."""
    terms = []
    for product in formula.split(" + "):
        factors = product.split("·")
        letters = tuple(factor for factor in factors if not re.fullmatch(r"\d+(/\d+)?", factor))
        if unknown := set(letters) - {*LETTERS, *SWITCHES}:
            raise ValueError(f"unknown letters in {formula!r}: {', '.join(sorted(unknown))}")
        factor = Fraction(1)
        for number in factors[: len(factors) - len(letters)]:
            factor *= Fraction(number)
        terms.append(Term(factor, letters))
    return tuple(terms)


def value_of(terms: Terms, sizes: Mapping[str, int]) -> int:
    """What a formula comes to. All formulas here come to whole numbers."""
    total = sum(term.value(sizes) for term in terms)
    if total.denominator != 1:
        raise ValueError(f"the formula comes to {total}, which is no whole number")
    return int(total)


def values_of(book: Book, sizes: Mapping[str, int]) -> dict[str, int]:
    """What every part costs."""
    return {part: value_of(terms, sizes) for part, terms in book.items()}


def total_of(book: Book, sizes: Mapping[str, int]) -> int:
    """What all parts cost together."""
    return sum(values_of(book, sizes).values())


def _book(**formulas: str) -> Book:
    return {part: terms_of(formula) for part, formula in formulas.items()}


def written_out(book: Book) -> Book:
    """What t = 1 ... T cost together, for a book of what the token with the number t costs.

    The sums of 1, t and t² over t = 1 ... T are T, T²/2 + T/2 and T³/3 + T²/2 + T/6.
    """
    sums = {0: terms_of("T"), 1: terms_of("1/2·T·T + 1/2·T"), 2: terms_of("1/3·T·T·T + 1/2·T·T + 1/6·T")}

    def summed(term: Term) -> Terms:
        rest = tuple(letter for letter in term.letters if letter != "t")
        return tuple(
            Term(term.factor * power.factor, rest + power.letters) for power in sums[term.letters.count("t")]
        )

    return {part: tuple(each for term in terms for each in summed(term)) for part, terms in book.items()}


# Numbers that are learnt. An attention has four matrices D x D and their biases (paper, section 3.2.2), a feed-forward
# network D x F and F x D (3.3), a norm a gain and a bias; the embeddings and the output may share a matrix (3.4).
PARAMETERS = _book(
    source_embedding="Vs·D",
    target_embedding="separate·Vt·D",
    positions="2·learned·P·D",
    encoder_attention="4·D·D·Le + 4·D·Le",
    encoder_feed_forward="2·D·F·Le + F·Le + D·Le",
    decoder_attention="4·D·D·Ld + 4·D·Ld",
    cross_attention="4·D·D·Ld + 4·D·Ld",
    decoder_feed_forward="2·D·F·Ld + F·Ld + D·Ld",
    norms="4·D·Le + 6·D·Ld + 4·pre·D",
    output="untied·Vt·D",
)

# Operations to read a source: four projections, scores and the mixing of values (both S x S, for all heads together
# D wide), feed-forward. Per layer O(S²·D) for attention, as in the paper's table 1.
ENCODING = _book(
    encoder_projections="8·B·S·D·D·Le",
    encoder_scores="4·B·S·S·D·Le",
    encoder_feed_forward="4·B·S·D·F·Le",
)

# What a decoder with a cache does once a source: keys and values of cross-attention.
CACHING = _book(cross_keys_values="4·B·S·D·D·Ld")

# Operations to write the token with the number t: with a cache, which spares all earlier tokens ...
TOKEN = _book(
    decoder_projections="8·B·D·D·Ld",
    decoder_scores="4·B·t·D·Ld",
    cross_projections="4·B·D·D·Ld",
    cross_scores="4·B·S·D·Ld",
    decoder_feed_forward="4·B·D·F·Ld",
    output="2·B·D·Vt",
)

# ... and without one: all t tokens pass through the decoder again, and the memory is projected again.
TOKEN_UNCACHED = _book(
    decoder_projections="8·B·t·D·D·Ld",
    decoder_scores="4·B·t·t·D·Ld",
    cross_projections="4·B·t·D·D·Ld",
    cross_keys_values="4·B·S·D·D·Ld",
    cross_scores="4·B·t·S·D·Ld",
    decoder_feed_forward="4·B·t·D·F·Ld",
    output="2·B·t·D·Vt",
)

# Bytes: keys and values of T written tokens and of the source, and the attention weights of a whole run.
MEMORY = _book(
    weights="b·W",
    self_cache="2·b·B·T·D·Ld",
    cross_cache="2·b·B·S·D·Ld",
    encoder_patterns="b·B·H·S·S·Le",
    decoder_patterns="b·B·H·T·T·Ld",
    cross_patterns="b·B·H·T·S·Ld",
)

# Bytes of one more written token, and the room that is set aside for all positions at once.
CACHE = _book(per_token="2·b·B·D·Ld", reserved="2·b·B·P·D·Ld")

# From this length on the scores of an encoder layer cost more than all else in it:
# 4·S²·D = 8·S·D² + 4·S·D·F, solved for S.
TURNING_POINT = _book(length="2·D + F")

BOOKS: dict[str, Book] = {
    "parameters": PARAMETERS,
    "encoding": ENCODING,
    "once": {**ENCODING, **CACHING},
    "token": TOKEN,
    "token_uncached": TOKEN_UNCACHED,
    "writing": written_out(TOKEN),
    "writing_uncached": written_out(TOKEN_UNCACHED),
    "memory": MEMORY,
    "cache": CACHE,
    "turning_point": TURNING_POINT,
}

# Which parts belong together when attention is held against feed-forward.
KINDS = {
    "scores": ("encoder_scores", "decoder_scores", "cross_scores"),
    "projections": ("encoder_projections", "decoder_projections", "cross_projections", "cross_keys_values"),
    "feed_forward": ("encoder_feed_forward", "decoder_feed_forward"),
    "output": ("output",),
}


def sizes_of(
    config: TransformerConfig, source: int, target: int, batch: int = 1, bytes_a_number: int = 4
) -> dict[str, int]:
    """The letters of a network and a run: ``source`` tokens read, ``target`` tokens written, ``batch`` rows."""
    sizes = {
        "B": batch,
        "S": source,
        "T": target,
        "t": target,
        "D": config.d_model,
        "H": config.n_heads,
        "F": config.d_ff,
        "Le": config.n_encoder_layers,
        "Ld": config.n_decoder_layers,
        "Vs": config.src_vocab_size,
        "Vt": config.tgt_vocab_size,
        "P": config.max_len,
        "b": bytes_a_number,
        "separate": 1,
        "untied": int(not config.tie_output),
        "learned": int(config.positional_encoding == "learned"),
        "pre": int(config.norm_first),
    }
    return with_parameters(sizes)


def with_parameters(sizes: Mapping[str, int]) -> dict[str, int]:
    """The same with W, the number of parameters."""
    return {**sizes, "W": total_of(PARAMETERS, sizes)}


def operations(sizes: Mapping[str, int], cached: bool = True) -> int:
    """All operations of one text: the source read once, T tokens written."""
    names = ("once", "writing") if cached else ("encoding", "writing_uncached")
    return sum(total_of(BOOKS[name], sizes) for name in names)


# The paper's two models (table 3): post-LN, sinusoidal positions, one matrix for both embeddings and the output, a
# vocabulary of "about 37000" tokens (section 5.1).
_PAPER = {"Le": 6, "Ld": 6, "Vs": 37000, "Vt": 37000, "P": 0, "separate": 0, "untied": 0, "learned": 0, "pre": 0}
PAPER_SIZES = {
    "base": {**_PAPER, "D": 512, "H": 8, "F": 2048},
    "big": {**_PAPER, "D": 1024, "H": 16, "F": 4096},
}
PAPER_PARAMETERS = {"base": 65_000_000, "big": 213_000_000}  # as table 3 states them


def vocabulary_for(parameters: int, sizes: Mapping[str, int]) -> int:
    """How many tokens a shared vocabulary would need for the network to have about that many parameters."""
    others = total_of(PARAMETERS, {**sizes, "Vs": 0, "Vt": 0})
    return round((parameters - others) / sizes["D"])
