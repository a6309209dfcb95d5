"""Inherited windows: a chained aggregate uses the windows of the panes it receives."""

from __future__ import annotations

from dataclasses import dataclass

from eventide.windows.kind import Axis


@dataclass(frozen=True)
class Inherit:
    """The window is read from each row's ``window`` column; retractions (``diff = -1``) are applied."""

    axis: Axis = "time"

    def describe(self) -> str:
        """One line for ``explain()``."""
        return "the windows of the panes received"


def inherit() -> Inherit:
    """Use the windows that an upstream pipeline has assigned.

    >>> inherit().describe()
    'the windows of the panes received'
    """
    return Inherit()
