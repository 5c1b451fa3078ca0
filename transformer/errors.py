"""Input that cannot be used, said as one sentence."""

from __future__ import annotations

SENTENCES = {
    "text_empty": "Type something to translate: this text has no tokens in it.",
    "text_too_long": "The text may have {limit} characters, this one has {length}.",
    "tokens_too_many": "The model reads at most {limit} tokens, this text has {length}.",
    "task_unknown": "There is no task {name!r}, expected one of: {known}.",
    "checkpoint_missing": (
        "There is no trained model for {name!r}: make it with "
        "`python -m transformer train {name} --out checkpoints/{name}`."
    ),
    "device_unknown": "There is no {name!r} device on this machine, found: {known}.",
    "trace_invalid": "This is not a trace file of Glassformer: {reason}.",
    "trace_version": "This trace file has version {version}, this program reads version {expected}.",
    "checkpoint_invalid": "This is not a model of Glassformer: {reason}.",
    "training_diverged": (
        "The loss became {loss} in step {step} at a learning rate of {rate}: lower the rate or warm up longer. "
        "The weights of step {kept} are kept."
    ),
    "training_missing": "There is no interrupted training in {folder}: leave --resume out to start one.",
    "training_invalid": "The training saved in {folder} cannot go on: {reason}.",
    "file_too_large": "The file may have {limit} MB, this one has {size}.",
}


class InputError(ValueError):
    """What a person gave cannot be used. ``code`` names the sentence, ``values`` fill it in.

    The page shows the same sentence in its own language, looked up by ``code``.
    """

    def __init__(self, code: str, **values: object) -> None:
        self.code = code
        self.values = values
        super().__init__(SENTENCES[code].format(**values))


class CommandError(Exception):
    """A command line that cannot be followed, said as one sentence."""
