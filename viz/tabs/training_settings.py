"""What a visitor may choose for a training, and the checks that hold whatever the browser sends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from transformer.config import POSITIONAL_ENCODINGS
from transformer.devices import checked_device
from transformer.errors import InputError
from transformer.tasks import TRAINED_ON_THE_PAGE
from viz.tabs.language import say
from viz.tabs.training_worker import Job

# Smallest and largest value of each number. Bounded so that one step never takes long and Stop is always quick.
RANGES = {
    "d_model": (4, 128),
    "n_heads": (1, 8),
    "n_encoder_layers": (1, 4),
    "n_decoder_layers": (1, 4),
    "warmup_steps": (0, 1000),
    "batch_size": (1, 128),
    "steps": (1, 3000),
    "max_length": (2, 20),
    "seed": (0, 2**53),  # what a number field in a browser holds exactly
}
LEARNING_RATES = (1e-6, 1000.0)  # up to the absurd: a diverging training is worth seeing once
NORMS = ("pre", "post")
MOST_EVALUATIONS = 40  # and with them snapshots on the timeline
ROUND_STEPS = 5  # evaluations come at multiples of it
FEWEST_STEPS_BETWEEN = 25

# In the order of the page's controls.
NAMES = (
    "task", "n_heads", "positional_encoding", "norm", "d_model", "n_encoder_layers", "n_decoder_layers",
    "learning_rate", "warmup_steps", "batch_size", "steps", "max_length", "seed",
)


def default_settings(task_name: str) -> dict[str, object]:
    """The values of ``NAMES`` with which the page opens: those of the task's small preset."""
    preset = TRAINED_ON_THE_PAGE[task_name].mini_preset
    model, training = preset.model, preset.training
    return {
        "task": task_name,
        "norm": "pre" if model.norm_first else "post",
        **{
            name: getattr(model if hasattr(model, name) else training, name)
            for name in NAMES
            if name not in ("task", "norm")
        },
    }


def job_of(settings: Mapping[str, object], *, device: str, fixed_batch: bool, seconds: float, language: str) -> Job:
    """The training that ``settings`` (a value for each of ``NAMES``) ask for.

    Raises InputError, in words of ``language``, for the first value that cannot be used.
    """
    task_name = _choice(settings, "task", tuple(TRAINED_ON_THE_PAGE), language)
    preset = TRAINED_ON_THE_PAGE[task_name].mini_preset
    whole = {name: _whole(settings, name, *limits, language) for name, limits in RANGES.items()}
    d_model, n_heads = whole["d_model"], whole["n_heads"]
    if d_model % n_heads:
        lower = d_model - d_model % n_heads
        raise InputError(
            "heads_do_not_divide", d_model=d_model, n_heads=n_heads, lower=lower or n_heads, higher=lower + n_heads
        )
    steps = whole["steps"]
    try:
        return Job(
            task=task_name,
            model_config=replace(
                preset.model,
                d_model=d_model,
                n_heads=n_heads,
                d_ff=max(1, preset.model.d_ff * d_model // preset.model.d_model),
                n_encoder_layers=whole["n_encoder_layers"],
                n_decoder_layers=whole["n_decoder_layers"],
                norm_first=_choice(settings, "norm", NORMS, language) == "pre",
                positional_encoding=_choice(settings, "positional_encoding", POSITIONAL_ENCODINGS, language),
            ),
            training_config=replace(
                preset.training,
                steps=steps,
                batch_size=whole["batch_size"],
                learning_rate=_number(settings, "learning_rate", *LEARNING_RATES, language),
                warmup_steps=whole["warmup_steps"],
                max_length=whole["max_length"],
                seed=whole["seed"],
                evaluate_every=steps_between_evaluations(steps),
            ),
            device=checked_device(device),
            fixed_batch=fixed_batch,
            seconds=seconds,
        )
    except InputError:
        raise
    except ValueError as error:
        raise InputError("training_refused", reason=str(error)) from None


def steps_between_evaluations(steps: int) -> int:
    """Few enough that an evaluation before the first step, one at the end and one at a stop fit in, too."""
    between = math.ceil(steps / (MOST_EVALUATIONS - 3) / ROUND_STEPS) * ROUND_STEPS
    return max(FEWEST_STEPS_BETWEEN, between)


def _number(settings: Mapping[str, object], name: str, lowest: float, highest: float, language: str) -> float:
    value = settings[name]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not lowest <= value <= highest:  # not a number (NaN) fails both comparisons
        raise InputError(
            "setting_range", name=say(language, f"train.{name}"), lowest=f"{lowest:g}", highest=f"{highest:g}",
            value=_shown(value),
        )
    return float(value)


def _whole(settings: Mapping[str, object], name: str, lowest: int, highest: int, language: str) -> int:
    value = settings[name]
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not lowest <= value <= highest or value != int(value):
        raise InputError(
            "setting_whole", name=say(language, f"train.{name}"), lowest=lowest, highest=highest, value=_shown(value)
        )
    return int(value)


def _choice(settings: Mapping[str, object], name: str, choices: tuple[str, ...], language: str) -> str:
    value = settings[name]
    if not isinstance(value, str) or value not in choices:
        raise InputError(
            "setting_choice", name=say(language, f"train.{name}"), choices=", ".join(choices), value=_shown(value)
        )
    return value


def _shown(value: object) -> str:
    return "∅" if value is None else str(value)[:40]
