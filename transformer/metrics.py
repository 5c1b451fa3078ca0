"""What was written against what was expected: exact match, BLEU and chrF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Written:
    """One unseen pair and what the model wrote for it."""

    source: str
    expected: str
    written: str
    is_exact: bool  # every token is right, the <eos> in its place included


def exact_match(results: Sequence[Written]) -> float:
    """The share of results that are right as a whole, 0 to 1."""
    return sum(result.is_exact for result in results) / len(results)


def translation_scores(results: Sequence[Written], tokenizer: str) -> dict[str, float]:
    """BLEU (Papineni et al., 2002) and chrF (Popovic, 2015) of a whole corpus, 0 to 100, as sacrebleu counts them.

    ``tokenizer`` is sacrebleu's name for how BLEU cuts text: ``13a`` for European languages, ``zh`` for Chinese.
    """
    from sacrebleu.metrics import BLEU, CHRF  # here, for it takes a second to import and few runs need it

    written = [result.written for result in results]
    expected = [[result.expected for result in results]]
    return {
        "bleu": BLEU(tokenize=tokenizer).corpus_score(written, expected).score,
        "chrf": CHRF().corpus_score(written, expected).score,
    }


def sentence_chrf(results: Sequence[Written]) -> list[float]:
    """chrF of each result by itself, 0 to 100. Two texts are compared by the runs of 1 to 6 characters they share."""
    from sacrebleu.metrics import CHRF

    chrf = CHRF()
    return [chrf.sentence_score(result.written, [result.expected]).score for result in results]
