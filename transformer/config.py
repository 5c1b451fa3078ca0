"""The sizes and choices that define a Transformer, as one small frozen value."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields

POSITIONAL_ENCODINGS = ("sinusoidal", "learned", "none")


@dataclass(frozen=True)
class TransformerConfig:
    """Everything needed to build the network, checked when it is made.

    Sizes are counts; ``dropout`` is a probability. ``norm_first`` is True for pre-LN (the norm stands
    before each sub-layer) and False for post-LN (after the residual sum, as in the paper, section 3.1).
    ``tie_output`` makes the output head share the target embedding (paper, section 3.4).

    Raises ValueError, naming the values, when they cannot form a network.
    """

    src_vocab_size: int
    tgt_vocab_size: int
    d_model: int = 128
    n_heads: int = 4
    d_ff: int = 512
    n_encoder_layers: int = 2
    n_decoder_layers: int = 2
    dropout: float = 0.1
    max_len: int = 64
    norm_first: bool = True
    positional_encoding: str = "sinusoidal"
    tie_output: bool = True
    pad_id: int = 0

    def __post_init__(self) -> None:
        for name in ("src_vocab_size", "tgt_vocab_size", "d_model", "n_heads", "d_ff", "max_len",
                     "n_encoder_layers", "n_decoder_layers"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
        for name in ("norm_first", "tie_output"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be true or false, got {getattr(self, name)!r}")
        if self.d_model % self.n_heads:
            raise ValueError(
                f"d_model must be divisible by n_heads, got d_model={self.d_model} and n_heads={self.n_heads}"
            )
        if isinstance(self.dropout, bool) or not isinstance(self.dropout, (int, float)) or not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {self.dropout!r}")
        if self.positional_encoding not in POSITIONAL_ENCODINGS:
            raise ValueError(
                f"positional_encoding must be one of {', '.join(POSITIONAL_ENCODINGS)}, "
                f"got {self.positional_encoding!r}"
            )
        smallest_vocabulary = min(self.src_vocab_size, self.tgt_vocab_size)
        whole_number = isinstance(self.pad_id, int) and not isinstance(self.pad_id, bool)
        if not whole_number or not 0 <= self.pad_id < smallest_vocabulary:
            raise ValueError(f"pad_id must lie in both vocabularies (below {smallest_vocabulary}), got {self.pad_id!r}")

    @property
    def d_head(self) -> int:
        """Width of one head: d_model / n_heads (paper, section 3.2.2)."""
        return self.d_model // self.n_heads

    def to_dict(self) -> dict:
        """A plain dict of the fields, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict) -> TransformerConfig:
        """The config a dict of ``to_dict`` describes. Raises ValueError on unknown or missing names."""
        if not isinstance(values, dict):
            raise ValueError(f"the config must be a set of named values, got {type(values).__name__}")
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise ValueError(f"the config has unknown names: {', '.join(map(str, unknown))}")
        missing = sorted({"src_vocab_size", "tgt_vocab_size"} - set(values))
        if missing:
            raise ValueError(f"the config lacks {', '.join(missing)}")
        return cls(**values)
