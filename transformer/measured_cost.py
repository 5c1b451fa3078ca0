"""What a Transformer costs on this machine, by the clock: decoding with and without a cache, one layer by its length.

Times are wall-clock medians, in milliseconds; they hold for the machine and the moment they were taken at. Each
function keeps to a limit of seconds and returns what it has by then. Nothing is changed in the model, which is shared.

Shape legend: S source length, T written tokens, D d_model.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median
from weakref import finalize

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from transformer.checkpoints import Checkpoint
from transformer.masks import causal_mask, padding_mask

LENGTHS = (16, 32, 64, 128, 256, 512, 1024)
MOST_TOKENS = 128  # written, where the model has so many positions
MOST_REPEATS = 15
LARGEST_SCORES = 2**26  # bytes of one matrix of scores: a wide model is measured up to a shorter length
FITTED_FROM = 128  # below, the fixed cost of calling each operation hides how it grows


@dataclass(frozen=True)
class DecodingTimes:
    """Milliseconds for each written token [T], with and without a cache, step for step in turn."""

    cached: tuple[float, ...]
    uncached: tuple[float, ...]
    n_same: int  # steps at which both ways choose the same token, of T
    n_repeats: int  # of which each number is the median; the last may have been cut short
    waited: float  # share of the time in which this machine was doing something else


@dataclass(frozen=True)
class LayerTimes:
    """One encoder layer's parts at each length. ``bytes`` is the most that its attention held at once besides x."""

    lengths: tuple[int, ...]
    attention: tuple[float, ...]  # ms: the four projections, scores, softmax, mixing
    projections: tuple[float, ...]  # ms: the four projections alone
    feed_forward: tuple[float, ...]  # ms
    bytes: tuple[int, ...]
    n_repeats: tuple[int, ...]
    waited: float


def decoding_times(
    checkpoint: Checkpoint, src_ids: Sequence[int], device: str = "cpu", seconds: float = 1.0
) -> DecodingTimes:
    """Write on, past ``<eos>``, to the last position the model has (at most ``MOST_TOKENS``), in both ways in turn.

    The source is encoded once in both. What the cached way chooses (the most probable token) is fed to both. Where
    the time does not suffice for all positions, fewer tokens are written.
    """
    model = checkpoint.model_on(device)
    config, bos_id = model.config, checkpoint.tgt_tokenizer.bos_id
    most = min(config.max_len, MOST_TOKENS)
    clock, started = _Clock(device), time.perf_counter()
    with torch.inference_mode():
        src = torch.tensor([src_ids], device=device)
        src_mask = padding_mask(src, config.pad_id)
        memory = model.encode(src, src_mask)
        cached_ms: list[list[float]] = [[] for _ in range(most)]
        uncached_ms: list[list[float]] = [[] for _ in range(most)]

        # Both ways are the same code of the network, so that they differ by the cache alone.
        def whole_pass(tgt_in: Tensor) -> Tensor:
            return model.decode(tgt_in, memory, causal_mask(tgt_in.shape[1], device), src_mask)[:, -1].argmax(dim=-1)

        def new_token(tgt_in: Tensor, cache: list) -> Tensor:
            return model.decode(tgt_in[:, -1:], memory, None, src_mask, cache)[:, -1].argmax(dim=-1)

        # The first calls of anything are slow, and nobody asks how slow.
        warm = torch.full((1, 1), bos_id, device=device)
        whole_pass(warm)
        new_token(warm, model.new_cache())
        n_steps, n_same, n_repeats, is_late = most, 0, 0, False
        while n_repeats < MOST_REPEATS and not is_late:
            cache = model.new_cache()
            tgt_in = torch.full((1, 1), bos_id, device=device)
            for step in range(n_steps):
                token, milliseconds = _timed(partial(new_token, tgt_in, cache), device)
                cached_ms[step].append(milliseconds)
                again, milliseconds = _timed(partial(whole_pass, tgt_in), device)
                uncached_ms[step].append(milliseconds)
                n_same += int(n_repeats == 0 and bool(token == again))
                tgt_in = torch.cat([tgt_in, token[:, None]], dim=1)
                is_late = time.perf_counter() - started > seconds
                if is_late:
                    break
            n_steps = step + 1 if n_repeats == 0 else n_steps
            n_repeats += 1
    return DecodingTimes(
        tuple(median(times) for times in cached_ms[:n_steps]),
        tuple(median(times) for times in uncached_ms[:n_steps]),
        n_same,
        n_repeats,
        clock.waited,
    )


def layer_times(
    checkpoint: Checkpoint, device: str = "cpu", seconds: float = 1.5, lengths: Sequence[int] = LENGTHS
) -> LayerTimes:
    """The model's first encoder layer on random vectors of growing length, as many lengths as the time suffices for.

    What the vectors hold does not matter for the time; no mask is laid on.
    """
    model = checkpoint.model_on(device)
    layer = model.encoder.layers[0]
    attention, feed_forward = layer.self_attn, layer.feed_forward
    projections = (attention.q_proj, attention.k_proj, attention.v_proj, attention.out_proj)
    generator = torch.Generator().manual_seed(0)
    clock, started = _Clock(device), time.perf_counter()
    rows: list[tuple[int, list[list[float]], int]] = []
    for length in lengths:
        last = sum(median(times) for times in rows[-1][1]) / 1000 if rows else 0.0
        # Twice as long may take four times as long: once to look at the memory, once to warm up, once to be timed.
        if rows and (
            time.perf_counter() - started + 12 * last > seconds or attention.n_heads * length**2 * 4 > LARGEST_SCORES
        ):
            break
        x = torch.randn(1, length, model.config.d_model, generator=generator).to(device)
        parts = (
            lambda x=x: attention(x, x),
            lambda x=x: [projection(x) for projection in projections],
            lambda x=x: feed_forward(x),
        )
        with torch.inference_mode():
            n_bytes = most_bytes(parts[0])
            for part in parts:
                part()
            times: list[list[float]] = [[], [], []]
            begun = time.perf_counter()
            share = (seconds - (begun - started)) / (len(lengths) - len(rows))
            while not times[0] or (len(times[0]) < MOST_REPEATS and time.perf_counter() - begun < share):
                for part, taken in zip(parts, times, strict=True):
                    taken.append(_timed(part, device)[1])
        rows.append((length, times, n_bytes))
    columns = [tuple(median(times[i]) for _, times, _ in rows) for i in range(3)]
    return LayerTimes(
        tuple(length for length, _, _ in rows),
        *columns,
        tuple(n_bytes for _, _, n_bytes in rows),
        tuple(len(times[0]) for _, times, _ in rows),
        clock.waited,
    )


def growth(lengths: Sequence[int], values: Sequence[float], start: int = FITTED_FROM) -> float | None:
    """The exponent p of values ≈ c · length^p, fitted by least squares on logarithms from length ``start`` on.

    None where fewer than three lengths are left.
    """
    points = [
        (math.log(length), math.log(value))
        for length, value in zip(lengths, values, strict=True)
        if length >= start and value > 0
    ]
    if len(points) < 3:
        return None
    mean_x, mean_y = (sum(column) / len(points) for column in zip(*points, strict=True))
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / sum((x - mean_x) ** 2 for x, _ in points)


class _Clock:
    """Tells the time that went by from the time this thread was at work in. On a GPU nobody can tell."""

    def __init__(self, device: str) -> None:
        self._device, self._wall, self._own = device, time.perf_counter(), time.thread_time()

    @property
    def waited(self) -> float:
        """Share of the time since then in which this thread was not at work, 0 to 1."""
        wall, own = time.perf_counter() - self._wall, time.thread_time() - self._own
        return min(1.0, max(0.0, 1 - own / wall)) if self._device == "cpu" and wall > 0 else 0.0


def _timed(function: Callable[[], object], device: str) -> tuple[object, float]:
    """What ``function`` returns and the milliseconds until the device has really done it."""
    started = time.perf_counter()
    result = function()
    if device == "cuda":
        torch.cuda.synchronize()
    elif device == "mps":
        torch.mps.synchronize()
    return result, (time.perf_counter() - started) * 1000


def most_bytes(function: Callable[[], object]) -> int:
    """The most bytes that tensors made within ``function`` held at one time, on any device."""
    with _LiveBytes() as live:
        function()
    return live.most


class _LiveBytes(TorchDispatchMode):
    """Counts the bytes of every storage from the operation that made it until nothing refers to it any more.

    Only the thread that opens it is watched: what other visitors compute is not counted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = self.most = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        given = {leaf.untyped_storage().data_ptr() for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)}
        for made in tree_leaves(result):
            if not isinstance(made, Tensor):
                continue
            storage = made.untyped_storage()
            address = storage.data_ptr()
            if address in given or address in self._known:  # a view, or written in place
                continue
            self._known.add(address)
            self.now += storage.nbytes()
            self.most = max(self.most, self.now)
            finalize(storage, self._gone, address, storage.nbytes())
        return result

    def _gone(self, address: int, n_bytes: int) -> None:
        self._known.discard(address)
        self.now -= n_bytes
