"""Hints for names that other systems have. ``test_mistakes.py`` shows the messages."""

from __future__ import annotations

from copy import deepcopy

import pytest

import eventide as ev
from eventide._familiar import FAMILIAR

STREAM = ev.stream("ts", key="shop", watermark="30 seconds")
MINUTES = STREAM.window(ev.tumbling("1 minute"))
COUNTS = MINUTES.agg(n=ev.count())


@pytest.mark.parametrize("owner", FAMILIAR)
def test_no_hint_is_for_a_name_that_exists(owner: str) -> None:
    existing = ev.__all__ if owner == "eventide" else dir(getattr(ev, owner))
    assert not set(FAMILIAR[owner]) & set(existing)


def test_values_with_hints_are_still_copied_and_compared() -> None:
    assert deepcopy(COUNTS).plan == COUNTS.plan and not hasattr(COUNTS, "__array__") and hasattr(STREAM, "window")
