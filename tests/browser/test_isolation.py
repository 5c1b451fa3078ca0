"""Many visitors at once: everyone gets their own text, model and language back."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import api_client
from browser.visit import choose_language, decode_text, source_labels, status, written_labels
from transformer.checkpoints import shipped_checkpoint
from transformer.tracing import trace_text


def test_two_browsers_with_different_models_texts_languages_and_mistakes_do_not_mix(open_page, settle):
    english = open_page(query={"model": "copy", "text": "1 2 3"})
    chinese = open_page(query={"model": "reverse", "text": "9 8 7"})
    choose_language(chinese, "中文")
    settle(chinese)
    assert chinese.locator(".gf-run").inner_text() == "解码"
    assert english.locator(".gf-run").inner_text() == "Decode"
    for first, second in (("10 11", "20 21 22"), ("12 13 14", "23 24"), ("15", "25 26 27 28")):
        decode_text(english, first)  # both are under way before either is looked at
        decode_text(chinese, second)
        settle(english)
        settle(chinese)
        assert source_labels(english) == [*first.split(), "<eos>"]
        assert written_labels(english) == [*first.split(), "<eos>"]
        assert source_labels(chinese) == [*second.split(), "<eos>"]
        assert written_labels(chinese) == [*reversed(second.split()), "<eos>"]
        assert "ms on CPU" in status(english)
        assert "毫秒" in status(chinese)
    decode_text(english, "   ")
    decode_text(chinese, "4 5")
    settle(english)
    settle(chinese)
    assert "Type something first" in status(english)
    assert written_labels(chinese) == ["5", "4", "<eos>"]
    assert "毫秒" in status(chinese)


def test_five_programs_at_once_each_get_their_own_answer(server_url):
    asked = [
        (("copy", "reverse")[number % 2], " ".join(str((number * 7 + i) % 32) for i in range(3 + number % 5)))
        for number in range(25)
    ]

    def ask(question: tuple[str, str]) -> dict:
        (report,) = api_client.call(server_url, "decode", *question)
        return report

    with ThreadPoolExecutor(5) as programs:
        answers = list(programs.map(ask, asked))
    for (name, text), report in zip(asked, answers, strict=True):
        alone = trace_text(shipped_checkpoint(name), text)
        assert report["src_tokens"] == [*text.split(), "<eos>"]
        assert report["text"] == alone.output_text
        assert report["log_prob"] == pytest.approx(alone.log_prob, abs=1e-5)
