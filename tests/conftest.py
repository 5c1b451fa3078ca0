"""What all tests share: one thread for torch, the same hypothesis examples every time, and a tiny checkpoint."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch
from hypothesis import settings

from builders import tiny_checkpoint as build_tiny_checkpoint
from transformer.checkpoints import Checkpoint, save_checkpoint

torch.set_num_threads(1)
# derandomize: a run of the tests must not depend on luck; deadline: a slow machine is no failure.
settings.register_profile("glassformer", derandomize=True, deadline=None, max_examples=25, database=None)
settings.load_profile("glassformer")


@pytest.fixture(scope="session")
def tiny_checkpoint() -> Checkpoint:
    """An untrained checkpoint of the copy task: 12 digits, d_model 12, 2 heads, 2 + 2 layers, 16 positions."""
    return build_tiny_checkpoint()


@pytest.fixture(scope="session")
def tiny_checkpoint_folder(tiny_checkpoint, tmp_path_factory):
    """The same checkpoint on disk: the folder with its model.safetensors and meta.json."""
    folder = tmp_path_factory.mktemp("checkpoints") / "tiny"
    save_checkpoint(tiny_checkpoint, folder)
    return folder
