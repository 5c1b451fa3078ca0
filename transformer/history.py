"""What was measured during a training: the only source of every curve that is shown of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields


@dataclass(frozen=True)
class StepRecord:
    """One step: its loss (what was minimised) and token accuracy on its own batch, the rate, the gradient's norm.

    ``gradient_norm`` is taken before clipping. ``seconds`` is the time spent training since the start,
    evaluations included, what a caller does between two steps excluded.
    """

    step: int
    loss: float
    token_accuracy: float
    learning_rate: float
    gradient_norm: float
    seconds: float


@dataclass(frozen=True)
class Sample:
    """An unseen source text, what should be written, and what the model wrote."""

    source: str
    expected: str
    written: str


@dataclass(frozen=True)
class Evaluation:
    """The model after ``step`` steps, on ``n`` sequences it never trained on.

    ``exact_match`` is the share it writes right as a whole by itself; ``loss`` (without label smoothing) and
    ``token_accuracy`` are measured with the true tokens given. ``seconds`` as in ``StepRecord``.
    """

    step: int
    loss: float
    token_accuracy: float
    exact_match: float
    n: int
    samples: tuple[Sample, ...]
    seconds: float

    def merit(self, judged_by: str) -> tuple[float, ...]:
        """Compares evaluations, higher is better: exact match first, then the loss; or the loss alone."""
        return (-self.loss,) if judged_by == "loss" else (self.exact_match, -self.loss)


@dataclass
class History:
    """Every step and every evaluation, in order."""

    steps: list[StepRecord] = field(default_factory=list)
    evaluations: list[Evaluation] = field(default_factory=list)
    judged_by: str = "exact_match"  # or "loss"

    @property
    def best(self) -> Evaluation | None:
        """The evaluation of highest merit, the first of equals; None before there is one."""
        return max(self.evaluations, key=lambda evaluation: evaluation.merit(self.judged_by), default=None)

    def to_dict(self) -> dict:
        """Ready for JSON; steps go column by column, which is a third of the size."""
        return {
            "judged_by": self.judged_by,
            "steps": {name: [getattr(record, name) for record in self.steps] for name in _names(StepRecord)},
            "evaluations": [asdict(evaluation) for evaluation in self.evaluations],
        }

    @classmethod
    def from_dict(cls, values: dict) -> History:
        """The history a dict of ``to_dict`` describes."""
        columns = [values["steps"][name] for name in _names(StepRecord)]
        evaluations = [
            Evaluation(**{**entry, "samples": tuple(Sample(**sample) for sample in entry["samples"])})
            for entry in values["evaluations"]
        ]
        steps = [StepRecord(*row) for row in zip(*columns, strict=True)]
        return cls(steps, evaluations, values.get("judged_by", "exact_match"))


def _names(kind: type) -> tuple[str, ...]:
    return tuple(entry.name for entry in fields(kind))
