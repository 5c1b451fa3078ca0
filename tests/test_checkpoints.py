"""Weights on disk come back as they were, and anything but a well-formed upload is refused with a sentence."""

from __future__ import annotations

import hashlib
import json
import pickle
import struct

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save

from builders import tiny_checkpoint as build_tiny_checkpoint
from transformer.checkpoints import (
    LARGEST_ATTENTION,
    LARGEST_SIZES,
    META_FILE,
    WEIGHTS_FILE,
    Checkpoint,
    checkpoint_files,
    load_checkpoint,
    read_checkpoint,
    save_checkpoint,
)
from transformer.errors import InputError
from transformer.tracing import trace_text

FILES = checkpoint_files(build_tiny_checkpoint())
WEIGHTS, META = FILES[WEIGHTS_FILE], json.loads(FILES[META_FILE])
STATE = load(WEIGHTS)
A_WEIGHT = "encoder.layers.0.self_attn.q_proj.weight"


def meta_with(**changes: object) -> bytes:
    """A meta.json with changed entries (None takes one out), and no checksum, so that it is not what refuses."""
    meta = {**META, "sha256": None, **changes}
    return json.dumps({name: value for name, value in meta.items() if value is not None}).encode()


def config_with(**changes: object) -> bytes:
    return meta_with(config={**META["config"], **changes})


def symbols_with(symbols: object, side: str = "src_tokenizer") -> bytes:
    return meta_with(**{side: {"kind": "symbols", "symbols": symbols}})


def state_with(**changes: torch.Tensor | None) -> bytes:
    """The weights with changed entries; None takes one out. Dots in names are written ``__``."""
    state = {**STATE, **{name.replace("__", "."): value for name, value in changes.items()}}
    return save({name: value for name, value in state.items() if value is not None})


def safetensors_of(header: bytes, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def header_of(dtype: str, n_bytes: int) -> bytes:
    return json.dumps({A_WEIGHT: {"dtype": dtype, "shape": [2], "data_offsets": [0, n_bytes]}}).encode()


def assert_refused(weights: bytes, meta: bytes, reason: str) -> None:
    with pytest.raises(InputError, match=reason) as refusal:
        read_checkpoint(weights, meta)
    assert refusal.value.code == "checkpoint_invalid"
    assert str(refusal.value).startswith("This is not a model of Glassformer: ")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("tie_output", [True, False])
@pytest.mark.parametrize("positional_encoding", ["sinusoidal", "learned"])
def test_a_checkpoint_comes_back_as_it_was(tmp_path, tie_output, positional_encoding):
    before = build_tiny_checkpoint(tie_output=tie_output, positional_encoding=positional_encoding)
    save_checkpoint(before, tmp_path / "mine")
    after = load_checkpoint(tmp_path / "mine")
    assert (after.name, after.task) == ("mine", "copy")
    assert after.model.config == before.model.config
    assert after.src_tokenizer.vocabulary == before.src_tokenizer.vocabulary
    assert after.meta["seed"] == 0
    states = after.model.state_dict(), before.model.state_dict()
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert (after.model.unembed.weight is after.model.tgt_embedding.tokens.weight) == tie_output
    assert after.n_parameters == before.n_parameters == after.meta["n_parameters"]
    ours, theirs = trace_text(after, "3 1 7"), trace_text(before, "3 1 7")
    assert ours.output_text == theirs.output_text
    assert ours.log_prob == theirs.log_prob
    assert checkpoint_files(after)[WEIGHTS_FILE] == checkpoint_files(before)[WEIGHTS_FILE]


def test_the_files_explain_themselves(tiny_checkpoint_folder):
    assert sorted(path.name for path in tiny_checkpoint_folder.iterdir()) == [META_FILE, WEIGHTS_FILE]
    meta = json.loads((tiny_checkpoint_folder / META_FILE).read_text(encoding="utf-8"))
    weights = (tiny_checkpoint_folder / WEIGHTS_FILE).read_bytes()
    assert meta["sha256"] == hashlib.sha256(weights).hexdigest()
    assert meta["config"]["d_model"] == 12
    assert meta["src_tokenizer"]["symbols"][:3] == ["0", "1", "2"]


def test_a_missing_checkpoint_is_said_with_how_to_make_it(tmp_path):
    with pytest.raises(InputError, match=r"no trained model for 'nowhere'.*train nowhere"):
        load_checkpoint(tmp_path / "nowhere")


def test_a_shared_checkpoint_cannot_learn_drop_out_or_hold_weights_elsewhere():
    checkpoint = build_tiny_checkpoint(dropout=0.5)
    assert not checkpoint.model.training
    assert not any(parameter.requires_grad for parameter in checkpoint.model.parameters())
    assert checkpoint.model_on("cpu") is checkpoint.model
    elsewhere = build_tiny_checkpoint()
    with pytest.raises(ValueError, match="on the CPU"):
        Checkpoint("x", "copy", elsewhere.model.to("meta"), elsewhere.src_tokenizer, elsewhere.tgt_tokenizer, {})


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn], ids=str)
def test_other_kinds_of_floating_point_are_read_as_float32(dtype):
    weights = save({name: value.to(dtype) for name, value in STATE.items()})
    model = read_checkpoint(weights, meta_with()).model
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    torch.testing.assert_close(model.state_dict()[A_WEIGHT], STATE[A_WEIGHT].to(dtype).float())


class Trap:
    """Pickled, it would run code when unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("an upload was unpickled",))


NOT_SAFETENSORS = {
    "nothing": b"",
    "too short": b"abc",
    "text": b"these are not weights at all, only a sentence",
    "pickle": pickle.dumps(Trap()),
    "truncated": WEIGHTS[:-10],
    "half": WEIGHTS[: len(WEIGHTS) // 2],
    "more than described": WEIGHTS + b"\x00" * 8,
    "enormous header": struct.pack("<Q", 2**60) + b"{}",
    "header not UTF-8": safetensors_of(b"\xff\xfe\x00\x00"),
    "header nested too deep": safetensors_of(b"[" * 100_000),
    "unheard-of numbers": safetensors_of(header_of("F128", 32), bytes(32)),
    "numbers torch does not know": safetensors_of(header_of("F8_E8M0", 2), bytes(2)),
    "offsets outside": safetensors_of(header_of("F32", 8)),
}


@pytest.mark.parametrize("weights", NOT_SAFETENSORS.values(), ids=NOT_SAFETENSORS.keys())
def test_weights_that_are_no_safetensors_are_refused(weights):
    assert_refused(weights, meta_with(), r"model\.safetensors cannot be read")


WRONG_WEIGHTS = {
    "wrong shape": (state_with(**{A_WEIGHT: torch.zeros(12, 13)}), r"q_proj.weight has shape \[12, 13\].*\[12, 12\]"),
    "missing": (state_with(**{A_WEIGHT: None}), f"do not fit the config, first at {A_WEIGHT}"),
    "extra": (state_with(extra=torch.zeros(3)), "do not fit the config, first at extra"),
    "a second output head": (state_with(unembed__weight=torch.zeros(16, 12)), "first at unembed.weight"),
    "none": (save({}), "do not fit the config"),
    "NaN": (state_with(**{A_WEIGHT: torch.full((12, 12), torch.nan)}), "q_proj.weight holds something other than"),
    "infinite": (state_with(**{A_WEIGHT: torch.full((12, 12), -torch.inf)}), "something other than finite numbers"),
    "infinite in float32": (
        state_with(**{A_WEIGHT: torch.full((12, 12), 1e300, dtype=torch.float64)}), "something other than finite",
    ),
    "whole numbers": (state_with(**{A_WEIGHT: torch.zeros(12, 12, dtype=torch.int64)}), "something other than finite"),
    "complex": (state_with(**{A_WEIGHT: torch.zeros(12, 12, dtype=torch.complex64)}), "something other than finite"),
    "flattened": (state_with(**{A_WEIGHT: torch.zeros(144)}), r"has shape \[144\]"),
}


@pytest.mark.parametrize(("weights", "reason"), WRONG_WEIGHTS.values(), ids=WRONG_WEIGHTS.keys())
def test_weights_that_do_not_fit_the_config_are_refused(weights, reason):
    assert_refused(weights, meta_with(), reason)


WRONG_META = {
    "nothing": (b"", "not JSON in UTF-8"),
    "not UTF-8": ("{\"task\": \"é\"}".encode("latin-1"), "not JSON in UTF-8"),
    "pickle": (pickle.dumps(Trap()), "not JSON in UTF-8"),
    "truncated": (meta_with()[:-5], "not JSON in UTF-8"),
    "deep list": (b"[" * 100_000, "not JSON in UTF-8"),
    "deep object": (b'{"a":' * 100_000, "not JSON in UTF-8"),
    "endless number": (meta_with().replace(b'"format": 1', b'"format": ' + b"1" * 10_000), "not JSON in UTF-8"),
    "half a character": (symbols_with(["\ud800", *"bcdefghijkl"]), "not JSON in UTF-8"),
    "a list": (b"[]", "does not say format 1"),
    "no format": (meta_with(format=None), "does not say format 1"),
    "later format": (meta_with(format=2), "does not say format 1"),
    "no task": (meta_with(task=None), "does not name a task"),
    "task of another kind": (meta_with(task=[["copy"]]), "does not name a task"),
    "no config": (meta_with(config=None), "lacks config"),
    "no source vocabulary": (meta_with(src_tokenizer=None), "lacks src_tokenizer"),
    "no target vocabulary": (meta_with(tgt_tokenizer=None), "lacks tgt_tokenizer"),
    "config a list": (meta_with(config=[["d_model", 12]]), "set of named values, got list"),
    "config without sizes": (meta_with(config={"d_model": 12}), "the config lacks src_vocab_size, tgt_vocab_size"),
    "unknown entry": (config_with(n_embd=12), "unknown names: n_embd"),
    "heads do not divide": (config_with(n_heads=5), "d_model=12 and n_heads=5"),
    "size a text": (config_with(d_ff="16"), "d_ff must be a whole number"),
    "dropout NaN": (config_with(dropout=float("nan")), "dropout must be at least 0"),
    "another pad_id": (config_with(pad_id=5), "pad_id is 5 in the config and 0 in the source vocabulary"),
    "vocabulary too small": (symbols_with(list("abc")), "source vocabulary has 7 tokens, the config says 16"),
    "vocabulary too large": (
        symbols_with([str(number) for number in range(50)], "tgt_tokenizer"),
        "target vocabulary has 54 tokens, the config says 16",
    ),
    "vocabulary with a token twice": (symbols_with(["a"] * 12), "twice"),
    "vocabulary a text": (symbols_with("abcdefghijkl"), "list of non-empty texts"),
    "unknown tokenizer": (meta_with(src_tokenizer={"kind": "os.system"}), "unknown kind of tokenizer 'os.system'"),
    "tokenizer a list": (meta_with(src_tokenizer=["symbols"]), "unknown kind of tokenizer None"),
    "wider than the weights": (config_with(d_model=24), "has shape"),
    "deeper than the weights": (config_with(n_decoder_layers=3), "do not fit the config, first at decoder.layers.2"),
    "wrong checksum": (meta_with(sha256="0" * 64), "not the file that meta.json describes"),
    "checksum of another kind": (meta_with(sha256=[1]), "not the file that meta.json describes"),
}


@pytest.mark.parametrize(("meta", "reason"), WRONG_META.values(), ids=WRONG_META.keys())
def test_a_meta_json_that_describes_no_such_model_is_refused(meta, reason):
    assert_refused(WEIGHTS, meta, reason)


@pytest.mark.parametrize("size", LARGEST_SIZES)
def test_a_size_that_could_exhaust_the_machine_is_refused_before_anything_is_built(size, monkeypatch):
    def built(*_: object) -> None:
        pytest.fail("a network of the asked size was built")

    monkeypatch.setattr("transformer.checkpoints.Transformer", built)
    largest = LARGEST_SIZES[size]
    for asked in (largest + 12, 10**12):
        changes = {size: asked, **({"d_model": asked} if size == "n_heads" else {})}
        assert_refused(WEIGHTS, config_with(**changes), rf"({size}|d_model) is {asked}, at most \d+\.$")


def test_attention_too_large_to_record_is_refused_with_both_numbers():
    """Each size is allowed, together they are not."""
    meta = config_with(max_len=1024, n_decoder_layers=8)
    assert_refused(WEIGHTS, meta, f"max_len is {8 * 2 * 1024**2}, at most {LARGEST_ATTENTION}")


@given(st.integers(0, len(WEIGHTS) - 1), st.integers(1, 255))
def test_a_flipped_byte_anywhere_in_the_weights_is_noticed(position, flip):
    damaged = bytearray(WEIGHTS)
    damaged[position] ^= flip
    with pytest.raises(InputError):
        read_checkpoint(bytes(damaged), FILES[META_FILE])


def test_a_reader_never_finds_half_a_file(tmp_path, monkeypatch):
    """A crash while writing leaves the file that was there."""
    save_checkpoint(build_tiny_checkpoint(seed=1), tmp_path)
    before = (tmp_path / WEIGHTS_FILE).read_bytes()

    def crash(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.replace", crash)
    with pytest.raises(OSError, match="disk full"):
        save_checkpoint(build_tiny_checkpoint(seed=2), tmp_path)
    assert (tmp_path / WEIGHTS_FILE).read_bytes() == before
