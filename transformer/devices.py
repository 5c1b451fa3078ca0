"""Where the arithmetic can run on this machine."""

from __future__ import annotations

import torch

from transformer.errors import InputError

DEVICES = ("cpu", "cuda", "mps")


def available_devices() -> tuple[str, ...]:
    """The devices found on this machine, ``cpu`` first: any of ``cpu``, ``cuda``, ``mps``."""
    found = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return tuple(device for device in DEVICES if found[device])


def device_name(device: str) -> str:
    """What a person calls the device; for CUDA the name its driver gives."""
    return torch.cuda.get_device_name(0) if device == "cuda" else {"cpu": "CPU", "mps": "Apple GPU (MPS)"}[device]


def checked_device(device: str) -> str:
    """``device``, when it is to be had here. Raises InputError otherwise."""
    found = available_devices()
    if device not in found:
        raise InputError("device_unknown", name=device, known=", ".join(found))
    return device
