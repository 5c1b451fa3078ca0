"""How a training is done, as one small frozen value, and the learning rate it asks for at each step."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields

LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True)
class TrainingConfig:
    """Everything a training needs besides the task and the sizes of the network, checked when it is made.

    ``max_length`` counts symbols of the longest sequence drawn. ``learning_rate`` is the peak of the schedule.
    Raises ValueError, naming the value, when a training cannot be done with it.
    """

    steps: int
    batch_size: int = 64  # sequences
    learning_rate: float = 1e-3
    warmup_steps: int = 100  # 0: the same rate from the first step to the last
    label_smoothing: float = 0.0  # probability taken from the right token and spread over all
    clip_norm: float = 1.0  # largest norm of the whole gradient; 0: never clipped
    weight_decay: float = 0.0  # decoupled (AdamW); 0: the paper's Adam
    average_weights: bool = True  # the model is a running mean of the weights that learn, not their latest state
    max_length: int = 10
    evaluate_every: int = 50  # steps
    evaluation_size: int = 200  # unseen sequences decoded at each evaluation
    patience: int = 0  # evaluations without a better one before stopping early; 0: no early stop
    target_exact_match: float = 0.0  # stop when an evaluation reaches it; 0: never
    judged_by: str = "exact_match"  # what makes one evaluation better than another: "exact_match" or "loss"
    accumulate: int = 1  # batches whose gradients are added up for one step
    seed: int = 0

    def __post_init__(self) -> None:
        for name, smallest in (
            ("steps", 1), ("batch_size", 1), ("warmup_steps", 0), ("max_length", 1), ("evaluate_every", 1),
            ("evaluation_size", 1), ("patience", 0), ("seed", 0), ("accumulate", 1),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < smallest:
                raise ValueError(f"{name} must be a whole number of at least {smallest}, got {value!r}")
        for name in ("learning_rate", "label_smoothing", "clip_norm", "weight_decay", "target_exact_match"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
                raise ValueError(f"{name} must be a number, got {value!r}")
            if value < 0:
                raise ValueError(f"{name} must not be below 0, got {value!r}")
        if not isinstance(self.average_weights, bool):
            raise ValueError(f"average_weights must be true or false, got {self.average_weights!r}")
        if self.learning_rate == 0:
            raise ValueError("learning_rate must be above 0, got 0")
        if self.label_smoothing >= 1:
            raise ValueError(f"label_smoothing must be below 1, got {self.label_smoothing!r}")
        if self.target_exact_match > 1:
            raise ValueError(f"target_exact_match must be at most 1, got {self.target_exact_match!r}")
        if self.judged_by not in ("exact_match", "loss"):
            raise ValueError(f"judged_by must be exact_match or loss, got {self.judged_by!r}")
        if self.seed > LARGEST_SEED:
            raise ValueError(f"seed must be at most {LARGEST_SEED}, got {self.seed}")

    def to_dict(self) -> dict:
        """A plain dict of the fields, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict) -> TrainingConfig:
        """The config a dict of ``to_dict`` describes. Raises ValueError on unknown or missing names."""
        unknown = sorted(set(values) - {field.name for field in fields(cls)})
        if unknown:
            raise ValueError(f"the training config has unknown names: {', '.join(map(str, unknown))}")
        if "steps" not in values:
            raise ValueError("the training config lacks steps")
        return cls(**values)


def learning_rate_at(step: int, config: TrainingConfig) -> float:
    """The rate of step 1, 2, 3 ...: a straight rise to the peak, then a fall with 1 / sqrt(step).

    The paper (section 5.3) writes d_model^-0.5 * min(step^-0.5, step * warmup^-1.5). Both branches meet at
    step = warmup, where the rate is highest; here that peak is ``learning_rate`` itself, so that it does not
    hide behind d_model. Without warm-up the rate stays at its peak.
    """
    if step < 1:
        raise ValueError(f"steps count from 1, got {step}")
    if config.warmup_steps == 0:
        return config.learning_rate
    return config.learning_rate * min(step / config.warmup_steps, math.sqrt(config.warmup_steps / step))


def average_share_at(step: int) -> float:
    """How much of the running mean is replaced by the weights of step 1, 2, 3 ...: all at first, then ever less.

    The mean reaches back over about a tenth of the steps so far, so it forgets the beginning and grows calmer at the
    end. The paper (section 6.1) averages its last checkpoints to the same end.
    """
    return 10 / (step + 9)
