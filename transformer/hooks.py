"""See or change any named value inside the network, from outside and one context at a time.

A value worth seeing passes through a ``HookPoint``, which returns it unchanged unless a ``record()`` or
``intervene()`` block is open. What is open is kept in a ``ContextVar``, so two threads that run one shared
model never see each other's values. (After TransformerLens ``hook_points.py``.)

Do not ``yield`` inside such a block: a generator runs in the context of whoever resumes it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from torch import Tensor, nn


class _Hook(NamedTuple):
    names: Collection[str] | None  # the addresses it is called at; None: all
    call: Callable[[str, Tensor], Tensor]


_active: ContextVar[tuple[_Hook, ...]] = ContextVar("active_hooks", default=())


class HookPoint(nn.Module):
    """The identity function with an address, e.g. ``decoder.layers.0.cross_attn.hook_pattern``."""

    def __init__(self) -> None:
        super().__init__()
        self.name = ""

    def forward(self, value: Tensor) -> Tensor:
        for names, call in _active.get():
            if names is None or self.name in names:
                value = call(self.name, value)
        return value

    # A pass comes through hundreds of these points, and nn.Module's own way to ``forward`` is longer than all of it.
    __call__ = forward


def name_hook_points(root: nn.Module) -> None:
    """Give every hook point below ``root`` its dotted address."""
    for name, module in root.named_modules():
        if isinstance(module, HookPoint):
            module.name = name


def looks_only_at(names: frozenset[str]) -> bool:
    """Whether whatever is open in this context looks at, or changes, no other values than those of ``names``."""
    return all(hook.names is not None and names.issuperset(hook.names) for hook in _active.get())


@contextmanager
def _with_hook(hook: _Hook) -> Iterator[None]:
    token = _active.set((*_active.get(), hook))
    try:
        yield
    finally:
        _active.reset(token)


@contextmanager
def record(names: Collection[str] | None = None) -> Iterator[dict[str, Tensor]]:
    """Collect ``{address: value}`` of everything computed in the block (or only of ``names``).

    A point passed twice keeps its last value. A block opened inside ``intervene`` records the changed values.
    """
    values: dict[str, Tensor] = {}

    def keep(name: str, value: Tensor) -> Tensor:
        values[name] = value.detach()
        return value

    with _with_hook(_Hook(names, keep)):
        yield values


@contextmanager
def intervene(changes: Mapping[str, Callable[[Tensor], Tensor]]) -> Iterator[None]:
    """Replace the value at each address by what its function makes of it, within the block only."""

    def change(name: str, value: Tensor) -> Tensor:
        return changes[name](value)

    with _with_hook(_Hook(changes, change)):
        yield
