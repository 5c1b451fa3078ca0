"""See or change any named value inside the network, from outside and one context at a time.

A value worth seeing passes through a ``HookPoint``, which returns it unchanged unless a ``record()`` or
``intervene()`` block is open. What is open is kept in a ``ContextVar``, so two threads that run one shared
model never see each other's values. (After TransformerLens ``hook_points.py``.)

Do not ``yield`` inside such a block: a generator runs in the context of whoever resumes it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor, nn

_active: ContextVar[tuple[Callable[[str, Tensor], Tensor], ...]] = ContextVar("active_hooks", default=())


class HookPoint(nn.Module):
    """The identity function with an address, e.g. ``decoder.layers.0.cross_attn.hook_pattern``."""

    def __init__(self) -> None:
        super().__init__()
        self.name = ""

    def forward(self, value: Tensor) -> Tensor:
        for hook in _active.get():
            value = hook(self.name, value)
        return value


def name_hook_points(root: nn.Module) -> None:
    """Give every hook point below ``root`` its dotted address."""
    for name, module in root.named_modules():
        if isinstance(module, HookPoint):
            module.name = name


@contextmanager
def _with_hook(hook: Callable[[str, Tensor], Tensor]) -> Iterator[None]:
    token = _active.set((*_active.get(), hook))
    try:
        yield
    finally:
        _active.reset(token)


@contextmanager
def record(names: Container[str] | None = None) -> Iterator[dict[str, Tensor]]:
    """Collect ``{address: value}`` of everything computed in the block (or only of ``names``).

    A point passed twice keeps its last value. A block opened inside ``intervene`` records the changed values.
    """
    values: dict[str, Tensor] = {}

    def keep(name: str, value: Tensor) -> Tensor:
        if names is None or name in names:
            values[name] = value.detach()
        return value

    with _with_hook(keep):
        yield values


@contextmanager
def intervene(changes: Mapping[str, Callable[[Tensor], Tensor]]) -> Iterator[None]:
    """Replace the value at each address by what its function makes of it, within the block only."""

    def change(name: str, value: Tensor) -> Tensor:
        function = changes.get(name)
        return value if function is None else function(value)

    with _with_hook(change):
        yield
