"""An interrupted training on disk, so that it goes on as if nothing had happened. Nothing is ever pickled.

One safetensors file holds every tensor (weights, Adam's moments, best weights, states of the generators), and in its
header, as JSON, all that is no tensor. One file is put in place whole, so a kill at any moment leaves a state that
belongs together: this one or the one before.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as save_safetensors
from torch import Tensor

from transformer.config import TransformerConfig
from transformer.errors import InputError
from transformer.history import History
from transformer.tasks import Task
from transformer.training import Trainer
from transformer.training_config import TrainingConfig

STATE_FILE = "training_state.safetensors"
STATE_FORMAT = 1
_HEADER = "state"


def has_state(folder: Path) -> bool:
    """Whether a training was saved in ``folder``."""
    return (folder / STATE_FILE).is_file()


def save_state(trainer: Trainer, folder: Path) -> None:
    """Write all that ``load_state`` needs into ``folder``. Raises OSError when it cannot be written."""
    moments = trainer.optimizer.state_dict()["state"]
    tensors = {
        **{f"model.{key}": value.clone() for key, value in trainer.model.state_dict().items()},
        **{f"learner.{key}": value.clone() for key, value in trainer.learner.state_dict().items()},
        **{f"best.{key}": value for key, value in trainer.best_weights.items()},
        **{f"optimizer.{i}.{key}": value for i, values in moments.items() for key, value in values.items()},
        "generator.batch": trainer.batch_generator.get_state(),
        "generator.dropout": trainer.dropout_generator.get_state(),
    }
    header = {
        "format": STATE_FORMAT,
        "task": trainer.task.name,
        "model_config": trainer.model_config.to_dict(),
        "training_config": trainer.training_config.to_dict(),
        "fixed_batch": trainer.fixed_batch,
        "device": trainer.device,
        "step": trainer.step,
        "seconds": trainer.seconds,
        "history": trainer.history.to_dict(),
    }
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = folder / f"{STATE_FILE}.unfinished"
    content = save_safetensors({key: value.cpu() for key, value in tensors.items()}, {_HEADER: json.dumps(header)})
    with open(unfinished, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    unfinished.replace(folder / STATE_FILE)


def load_state(folder: Path, task: Task, device: str = "cpu", steps: int | None = None) -> Trainer:
    """The training of ``task`` saved in ``folder``, ready to go on; with ``steps`` it ends there instead.

    On the same kind of device, with as many threads, it goes on exactly as it would have without the interruption.
    Raises InputError when there is none or it cannot be read.
    """
    if not has_state(folder):
        raise InputError("training_missing", folder=folder)
    try:
        with safe_open(folder / STATE_FILE, framework="pt") as file:
            header = json.loads(file.metadata()[_HEADER])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 - the file is no dict
        if header["format"] != STATE_FORMAT:
            raise ValueError(f"it has format {header['format']}, expected {STATE_FORMAT}")
        if header["task"] != task.name:
            raise ValueError(f"it is a training of {header['task']}, not of {task.name}")
        return _restored(header, tensors, task, device, steps)
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RuntimeError) as error:
        raise InputError("training_invalid", folder=folder, reason=str(error).splitlines()[0]) from error


def _restored(header: dict, tensors: dict[str, Tensor], task: Task, device: str, steps: int | None) -> Trainer:
    training_config = {**header["training_config"], **({"steps": steps} if steps else {})}
    trainer = Trainer(
        task,
        TransformerConfig.from_dict(header["model_config"]),
        TrainingConfig.from_dict(training_config),
        device=device,
        fixed_batch=header["fixed_batch"],
    )
    trainer.model.load_state_dict(_below("model.", tensors))
    trainer.learner.load_state_dict(_below("learner.", tensors))
    trainer.best_weights = {key: value.to(device) for key, value in _below("best.", tensors).items()}
    moments: dict[int, dict[str, Tensor]] = {}
    for address, value in _below("optimizer.", tensors).items():
        index, key = address.split(".")
        moments.setdefault(int(index), {})[key] = value
    trainer.optimizer.load_state_dict({**trainer.optimizer.state_dict(), "state": moments})
    trainer.batch_generator.set_state(tensors["generator.batch"])
    if torch.device(device).type == torch.device(header["device"]).type:  # states of other devices do not fit
        trainer.dropout_generator.set_state(tensors["generator.dropout"])
    trainer.step, trainer.seconds = int(header["step"]), float(header["seconds"])
    trainer.history = History.from_dict(header["history"])
    return trainer


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}
