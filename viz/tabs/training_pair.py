"""A healthy and a faulty training from the same seed, beside each other in one worker.

Both go through ``training_events``, one event of each in turn, so that their curves grow together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from transformer.fault_pairs import SIDES, pair_settings
from transformer.history import Evaluation, History, StepRecord
from viz.tabs.training_worker import Job, Line, Outcome, Worker, training_events


@dataclass(frozen=True)
class PairJob:
    """Two trainings as asked for; they differ in the fault alone."""

    fault: str
    sides: dict[str, Job]

    @property
    def task(self) -> str:
        """The task of both."""
        return self.sides["healthy"].task

    @property
    def device(self) -> str:
        """Where both are trained."""
        return self.sides["healthy"].device

    @property
    def seconds(self) -> float:
        """Both together must not take longer."""
        return self.sides["healthy"].seconds

    @property
    def steps(self) -> int:
        """Steps of each side, when nothing ends it before."""
        return self.sides["healthy"].training_config.steps


@dataclass(eq=False)
class Side:
    """What one of the two has come to so far."""

    history: History = field(default_factory=History)
    diverged: dict | None = None  # step, loss and rate it failed at


def pair_job(fault: str, seconds: float) -> PairJob:
    """The pair that shows the training fault of this name. Raises InputError when there is none."""
    task_name, settings = pair_settings(fault)
    return PairJob(fault, {
        name: Job(
            task_name, setting.model, setting.training, seconds=seconds, fault=fault if name == "faulty" else "",
            keeps_maps=False,
        )
        for name, setting in zip(SIDES, settings, strict=True)
    })


def pair_events(job: PairJob, stop: object) -> Iterator[tuple[str, object]]:
    """What ``training_events`` yields of either side, in turn; a side that is over leaves the other to go on."""
    running = {name: training_events(of_side, stop) for name, of_side in job.sides.items()}
    while running:
        for name in list(running):
            event = next(running[name], None)
            if event is None:
                del running[name]
            else:
                yield name, event


class TrainingPair(Worker):
    """One pair of one visitor, always on the processor: networks this small gain nothing elsewhere.

    Its worker only ever appends, so the page may read both sides at any time.
    """

    def __init__(self, number: int, job: PairJob, line: Line) -> None:
        self.sides = {name: Side() for name in SIDES}
        super().__init__(number, job, line)

    @property
    def n_steps(self) -> int:
        """See ``Worker``."""
        return len(self.sides["healthy"].history.steps)

    def _train(self) -> Outcome:
        ends: list[Outcome] = []
        for name, event in pair_events(self.job, self.stop_flag):
            side = self.sides[name]
            if isinstance(event, StepRecord):
                side.history.steps.append(event)
            elif isinstance(event, Evaluation):
                side.history.evaluations.append(event)
            elif isinstance(event, Outcome):
                ends.append(event)
                if event.code == "diverged":
                    side.diverged = event.values
        # One side that diverges is no end of the pair: the other goes on.
        return next((end for end in ends if end.code != "diverged"), ends[0])
