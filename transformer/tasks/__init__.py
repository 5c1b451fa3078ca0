"""The tasks there are, by name. One file a task; a new one is added to ``TASKS``."""

from __future__ import annotations

from transformer.errors import InputError
from transformer.tasks.base import Task
from transformer.tasks.copy import COPY
from transformer.tasks.dates import DATES
from transformer.tasks.en_de import EN_DE
from transformer.tasks.en_zh import EN_ZH
from transformer.tasks.reverse import REVERSE

TASKS: dict[str, Task] = {task.name: task for task in (COPY, REVERSE, DATES, EN_ZH, EN_DE)}
# Small enough to learn while someone watches.
TRAINED_ON_THE_PAGE: dict[str, Task] = {name: task for name, task in TASKS.items() if task.mini_preset is not None}


def task(name: str) -> Task:
    """The task of this name. Raises InputError, naming those there are."""
    if name not in TASKS:
        raise InputError("task_unknown", name=name, known=", ".join(TASKS))
    return TASKS[name]
