"""The tasks there are, by name. One file a task; a new one is added to ``TASKS``."""

from __future__ import annotations

from transformer.errors import InputError
from transformer.tasks.base import Task
from transformer.tasks.copy import COPY
from transformer.tasks.reverse import REVERSE

TASKS: dict[str, Task] = {task.name: task for task in (COPY, REVERSE)}


def task(name: str) -> Task:
    """The task of this name. Raises InputError, naming those there are."""
    if name not in TASKS:
        raise InputError("task_unknown", name=name, known=", ".join(TASKS))
    return TASKS[name]
