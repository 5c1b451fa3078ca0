"""Recording and changing values from outside: complete, bounded by its block, and never seen by another thread."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from builders import config_of, float64_model, generator, run_coroutine, token_ids
from transformer.hooks import HookPoint, intervene, record
from transformer.model import Transformer

PATTERN = "decoder.layers.1.cross_attn.hook_pattern"
LOGITS = "hook_logits"


def inputs(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    return token_ids(1, 5, 11, seed), token_ids(1, 4, 13, seed + 1000)


def test_every_hook_point_has_an_address_of_its_own():
    points = {name: module for name, module in float64_model().named_modules() if isinstance(module, HookPoint)}
    assert len(points) > 50
    assert all(module.name == name for name, module in points.items())


def test_recording_changes_nothing_and_names_choose_what_is_kept():
    model = float64_model()
    plain = model(*inputs(0))
    with record() as everything:
        recorded = model(*inputs(0))
    with record({PATTERN, LOGITS}) as chosen:
        model(*inputs(0))
    assert torch.equal(plain, recorded)
    assert set(chosen) == {PATTERN, LOGITS}
    assert torch.equal(chosen[LOGITS], plain)
    assert torch.equal(chosen[PATTERN], everything[PATTERN])
    assert not any(value.requires_grad for value in everything.values())


def test_a_point_passed_twice_keeps_its_last_value():
    model = float64_model()
    with record({LOGITS}) as acts:
        model(*inputs(0))
        last = model(*inputs(1))
    assert torch.equal(acts[LOGITS], last)


def test_nothing_is_recorded_or_changed_after_a_block_even_one_that_failed():
    model = float64_model()
    plain = model(*inputs(0))
    with pytest.raises(RuntimeError, match="on purpose"), record() as acts, intervene({LOGITS: torch.zeros_like}):
        raise RuntimeError("on purpose")
    assert torch.equal(model(*inputs(0)), plain)
    assert acts == {}


def test_an_intervention_replaces_a_value_and_all_that_follows_from_it():
    model = float64_model()
    with record() as before:
        plain = model(*inputs(0))

    def without_head_1(pattern: torch.Tensor) -> torch.Tensor:
        kept = pattern.clone()
        kept[:, 1] = 0
        return kept

    with intervene({PATTERN: without_head_1}), record() as after:
        changed = model(*inputs(0))
    assert not torch.equal(changed, plain)
    assert bool((after[PATTERN][:, 1] == 0).all())
    assert torch.equal(after[PATTERN][:, 0], before[PATTERN][:, 0])
    assert bool((after["decoder.layers.1.cross_attn.hook_z"][:, 1] == 0).all())
    assert torch.equal(after["decoder.layers.0.hook_resid_post"], before["decoder.layers.0.hook_resid_post"])
    assert torch.equal(model(*inputs(0)), plain)


def test_blocks_nest_and_the_order_says_what_is_recorded():
    model = float64_model()
    with record({LOGITS}) as outer, intervene({LOGITS: lambda value: value + 1}), record({LOGITS}) as inner:
        returned = model(*inputs(0))
    assert torch.equal(inner[LOGITS], returned)
    assert torch.equal(outer[LOGITS] + 1, inner[LOGITS])


def test_four_threads_on_one_shared_model_never_see_each_others_values():
    """Two record, one changes a value, one does neither; all at once, each with inputs of its own."""
    model, rounds = Transformer(config_of()).initialize(generator()).eval(), 40
    barrier = threading.Barrier(4, timeout=60)
    alone = []
    for worker in range(4):
        with torch.inference_mode(), record() as acts:
            model(*inputs(worker))
        alone.append(acts)
    with torch.inference_mode(), intervene({PATTERN: torch.zeros_like}):
        changed_alone = model(*inputs(2))

    def recording(worker: int) -> int:
        wrong = 0
        for _ in range(rounds):
            barrier.wait()
            with torch.inference_mode(), record() as acts:
                model(*inputs(worker))
            wrong += set(acts) != set(alone[worker]) or any(
                not torch.equal(value, alone[worker][name]) for name, value in acts.items()
            )
        return wrong

    def changing(worker: int) -> int:
        wrong = 0
        for _ in range(rounds):
            barrier.wait()
            with torch.inference_mode(), intervene({PATTERN: torch.zeros_like}):
                wrong += not torch.equal(model(*inputs(worker)), changed_alone)
        return wrong

    def plain(worker: int) -> int:
        wrong = 0
        for _ in range(rounds):
            barrier.wait()
            with torch.inference_mode():
                wrong += not torch.equal(model(*inputs(worker)), alone[worker][LOGITS])
        return wrong

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(work, worker) for worker, work in enumerate((recording, recording, changing, plain))]
    assert [future.result() for future in futures] == [0, 0, 0, 0]
    assert not torch.equal(changed_alone, alone[2][LOGITS])


def test_a_thread_started_inside_a_block_is_outside_of_it():
    model = float64_model()
    with record() as acts:
        worker = threading.Thread(target=model, args=inputs(0))
        worker.start()
        worker.join()
    assert acts == {}


def test_tasks_of_one_event_loop_are_kept_apart():
    model = float64_model()

    async def visit(seed: int) -> bool:
        with record({LOGITS}) as acts:
            await asyncio.sleep(0)  # the other visitor opens its block now
            logits = model(*inputs(seed))
            await asyncio.sleep(0)
        return torch.equal(acts[LOGITS], logits)

    async def both() -> list[bool]:
        return await asyncio.gather(visit(0), visit(1), visit(2))

    assert run_coroutine(both()) == [True, True, True]
