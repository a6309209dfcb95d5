"""Hints for names that other systems have. ``test_mistakes.py`` shows the messages."""

from __future__ import annotations

from copy import deepcopy
from inspect import isfunction

import polars as pl
import pytest

import eventide as ev
from eventide._familiar import FAMILIAR
from eventide.local import LocalQuery, LocalResult
from eventide.testing import TestStream

STREAM = ev.stream("ts", key="shop", watermark="30 seconds")
MINUTES = STREAM.window(ev.tumbling("1 minute"))
OWNERS = {"LocalResult": LocalResult, "LocalQuery": LocalQuery, "TestStream": TestStream, "eventide.sinks": ev.sinks}
COUNTS = MINUTES.agg(n=ev.count())


@pytest.mark.parametrize("owner", FAMILIAR)
def test_no_hint_is_for_a_name_that_exists(owner: str) -> None:
    existing = ev.__all__ if owner == "eventide" else dir(OWNERS.get(owner) or getattr(ev, owner))
    assert not set(FAMILIAR[owner]) & set(existing)


def test_values_with_hints_are_still_copied_and_compared() -> None:
    assert deepcopy(COUNTS).plan == COUNTS.plan and not hasattr(COUNTS, "__array__") and hasattr(STREAM, "window")


def test_a_warning_about_late_rows_names_the_line_of_the_user() -> None:
    bundles = [pl.DataFrame({"ts": [f"2026-03-01T{time}Z"], "shop": "kiel"}) for time in ("12:00:00", "10:00:00")]
    with pytest.warns(ev.LateRowsWarning) as warnings:
        COUNTS.local(bundles)
    assert warnings[0].filename == __file__


def test_every_public_function_answers_a_wrong_argument() -> None:
    answers = [getattr(ev, name) for name in ev.__all__] + [getattr(ev.sinks, name) for name in ev.sinks.__all__]
    bare = {function.__name__ for function in answers if isfunction(function) and not hasattr(function, "__wrapped__")}
    assert bare == {"as_sink", "drop_repeats", "without_repeats"}
