"""Weights on disk: ``model.safetensors`` beside a ``meta.json`` that explains them. Nothing is ever unpickled.

``meta.json`` holds the task, the config, both vocabularies, and how the weights came about: seed, steps,
command, metrics, data with its licence, versions, and the sha256 of the weights file.
"""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_safetensors
from safetensors.torch import save as save_safetensors

from transformer.config import TransformerConfig
from transformer.errors import InputError
from transformer.model import Transformer
from transformer.tokenizers import Tokenizer, tokenizer_from_dict

CHECKPOINTS_FOLDER = Path(__file__).resolve().parent.parent / "checkpoints"
WEIGHTS_FILE, META_FILE = "model.safetensors", "meta.json"
META_FORMAT = 1
# What an uploaded config may ask for: far above anything shipped, far below what could exhaust a small machine.
LARGEST_SIZES = {
    "src_vocab_size": 65_536,
    "tgt_vocab_size": 65_536,
    "d_model": 1024,
    "d_ff": 4096,
    "n_heads": 64,
    "n_encoder_layers": 24,
    "n_decoder_layers": 24,
    "max_len": 1024,
}
# Weights in the largest attention a run of it may record: layers * heads * max_len * max_len (16 MB in float32).
LARGEST_ATTENTION = 2**22


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A trained model with what is needed to use it. It is shared between visitors, so nobody may change it."""

    name: str
    task: str
    model: Transformer
    src_tokenizer: Tokenizer
    tgt_tokenizer: Tokenizer
    meta: dict

    def __post_init__(self) -> None:
        self.model.eval().requires_grad_(False)
        if any(parameter.device.type != "cpu" for parameter in self.model.parameters()):
            raise ValueError("a checkpoint keeps its weights on the CPU; use model_on(device) for a copy elsewhere")
        object.__setattr__(self, "_copies", {"cpu": self.model})

    def model_on(self, device: str) -> Transformer:
        """The model on ``device``; its copy there is made once."""
        if device not in self._copies:
            self._copies[device] = copy.deepcopy(self.model).to(device)
        return self._copies[device]

    @property
    def n_parameters(self) -> int:
        """How many numbers were learnt (a tied matrix counts once)."""
        return sum(parameter.numel() for parameter in self.model.parameters())


def checkpoint_files(checkpoint: Checkpoint, stored_as: torch.dtype = torch.float32) -> dict[str, bytes]:
    """The two files of a checkpoint, by name. Stored as ``torch.float16`` the weights take half the space."""
    shared = {"unembed.weight"} if checkpoint.model.config.tie_output else set()
    state = {
        key: value.to(stored_as).contiguous()
        for key, value in checkpoint.model.state_dict().items()
        if key not in shared
    }
    weights = save_safetensors(state)
    meta = {
        **checkpoint.meta,
        "format": META_FORMAT,
        "task": checkpoint.task,
        "config": checkpoint.model.config.to_dict(),
        "src_tokenizer": checkpoint.src_tokenizer.to_dict(),
        "tgt_tokenizer": checkpoint.tgt_tokenizer.to_dict(),
        "n_parameters": checkpoint.n_parameters,
        "sha256": hashlib.sha256(weights).hexdigest(),
    }
    return {
        WEIGHTS_FILE: weights,
        META_FILE: (json.dumps(meta, indent=2, ensure_ascii=False) + "\n").encode(),
    }


def save_checkpoint(checkpoint: Checkpoint, folder: Path, stored_as: torch.dtype = torch.float32) -> None:
    """Write both files into ``folder``. A reader never finds half a file: each is put in place whole."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in checkpoint_files(checkpoint, stored_as).items():
        unfinished = folder / f"{name}.unfinished"
        unfinished.write_bytes(content)
        unfinished.replace(folder / name)


def read_checkpoint(weights: bytes, meta_text: bytes, name: str | None = None) -> Checkpoint:
    """The checkpoint two files hold. Raises InputError, with the reason, for anything but a well-formed one.

    Every shape is compared with what the config asks for before any memory is taken for the network.
    """
    try:
        meta = json.loads(meta_text)
        # What was read must be fit to be written again: neither nested too deep nor with half a character in it.
        json.dumps(meta, indent=2, ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        raise InputError("checkpoint_invalid", reason=f"{META_FILE} is not JSON in UTF-8") from None
    if not isinstance(meta, dict) or meta.get("format") != META_FORMAT:
        raise InputError("checkpoint_invalid", reason=f"{META_FILE} does not say format {META_FORMAT}")
    if not isinstance(meta.get("task"), str):
        raise InputError("checkpoint_invalid", reason=f"{META_FILE} does not name a task")
    try:
        config = TransformerConfig.from_dict(meta["config"])
        src_tokenizer = tokenizer_from_dict(meta["src_tokenizer"])
        tgt_tokenizer = tokenizer_from_dict(meta["tgt_tokenizer"])
    except KeyError as error:
        raise InputError("checkpoint_invalid", reason=f"{META_FILE} lacks {error.args[0]}") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError("checkpoint_invalid", reason=str(error)) from None
    for size, largest in LARGEST_SIZES.items():
        if getattr(config, size) > largest:
            raise InputError("checkpoint_invalid", reason=f"{size} is {getattr(config, size)}, at most {largest}")
    attention = max(config.n_encoder_layers, config.n_decoder_layers) * config.n_heads * config.max_len**2
    if attention > LARGEST_ATTENTION:
        reason = f"layers * n_heads * max_len * max_len is {attention}, at most {LARGEST_ATTENTION}"
        raise InputError("checkpoint_invalid", reason=reason)
    for side, vocab_size, tokenizer in (
        ("source", config.src_vocab_size, src_tokenizer), ("target", config.tgt_vocab_size, tgt_tokenizer)
    ):
        if len(tokenizer) != vocab_size:
            reason = f"the {side} vocabulary has {len(tokenizer)} tokens, the config says {vocab_size}"
            raise InputError("checkpoint_invalid", reason=reason)
        if config.pad_id != tokenizer.pad_id:
            reason = f"pad_id is {config.pad_id} in the config and {tokenizer.pad_id} in the {side} vocabulary"
            raise InputError("checkpoint_invalid", reason=reason)
    try:
        state = load_safetensors(weights)
    except (SafetensorError, ValueError, KeyError) as error:  # KeyError: a kind of number that torch has no name for
        raise InputError("checkpoint_invalid", reason=f"{WEIGHTS_FILE} cannot be read ({error})") from None
    if "sha256" in meta and meta["sha256"] != hashlib.sha256(weights).hexdigest():
        raise InputError("checkpoint_invalid", reason=f"{WEIGHTS_FILE} is not the file that {META_FILE} describes")
    return Checkpoint(
        name=name or meta["task"],
        task=meta["task"],
        model=_filled_model(config, state),
        src_tokenizer=src_tokenizer,
        tgt_tokenizer=tgt_tokenizer,
        meta=meta,
    )


def _filled_model(config: TransformerConfig, state: dict[str, torch.Tensor]) -> Transformer:
    with torch.device("meta"):
        expected = {key: value.shape for key, value in Transformer(config).state_dict().items()}
    if config.tie_output:
        del expected["unembed.weight"]  # the same matrix as the target embedding, kept once
    if set(state) != set(expected):
        odd = sorted(set(state) ^ set(expected))
        raise InputError("checkpoint_invalid", reason=f"weights do not fit the config, first at {odd[0]}")
    for key, shape in expected.items():
        if state[key].shape != shape:
            reason = f"{key} has shape {list(state[key].shape)}, the config asks for {list(shape)}"
            raise InputError("checkpoint_invalid", reason=reason)
        # Converted first: float8 cannot be asked, and a finite float64 may be infinite in float32.
        if not state[key].dtype.is_floating_point or not bool(state[key].float().isfinite().all()):
            raise InputError("checkpoint_invalid", reason=f"{key} holds something other than finite numbers")
    state = {key: value.float() for key, value in state.items()}
    if config.tie_output:
        state["unembed.weight"] = state["tgt_embedding.tokens.weight"]
    model = Transformer(config)
    model.load_state_dict(state)
    return model


def load_checkpoint(folder: Path, name: str | None = None) -> Checkpoint:
    """The checkpoint in ``folder``. Raises InputError when there is none or it is not well-formed."""
    weights, meta = folder / WEIGHTS_FILE, folder / META_FILE
    if not (weights.is_file() and meta.is_file()):
        raise InputError("checkpoint_missing", name=name or folder.name)
    return read_checkpoint(weights.read_bytes(), meta.read_bytes(), name or folder.name)


def shipped_names() -> tuple[str, ...]:
    """The tasks that have a checkpoint in the project's folder."""
    return tuple(sorted(folder.parent.name for folder in CHECKPOINTS_FOLDER.glob(f"*/{META_FILE}")))


@cache
def shipped_checkpoint(name: str) -> Checkpoint:
    """The shipped checkpoint of a task, loaded once a process and shared. Raises InputError when there is none."""
    if name not in shipped_names():
        raise InputError("checkpoint_missing", name=name)
    return load_checkpoint(CHECKPOINTS_FOLDER / name, name)
