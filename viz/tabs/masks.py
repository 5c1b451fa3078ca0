"""Masks: to be seen on this tab."""

from __future__ import annotations

from viz.tabs.shared import Shared


def build_masks_tab(shared: Shared) -> None:
    """Lay the tab out."""
