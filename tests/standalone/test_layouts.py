"""The key of messages: every row of the matrix that it is chosen by."""

from __future__ import annotations

from typing import Any

import pytest

from eventide.errors import PlanError
from eventide.state.message_layout import layout_of

MATRIX = [
    # axis, use, equal fields, range of time, size, key
    ("rows", "aggregate", False, False, "small", "offset"),
    ("rows", "aggregate", False, False, "large", "offset"),
    ("rows", "join", False, False, "small", "offset"),
    ("rows", "join", False, False, "large", "offset"),
    ("rows", "join", True, False, "small", "offset"),
    ("rows", "join", True, False, "large", "equal + offset"),
    ("time", "aggregate", False, False, "small", "time + offset"),
    ("time", "aggregate", False, False, "large", "time + offset"),
    ("time", "join", False, False, "small", "time + offset"),
    ("time", "join", False, False, "large", "time + offset"),
    ("time", "join", False, True, "small", "time + offset"),
    ("time", "join", False, True, "large", "time + offset"),
    ("time", "join", True, False, "small", "equal + time + offset"),
    ("time", "join", True, False, "large", "equal + time + offset"),
    ("time", "join", True, True, "small", "time + equal + offset"),
    ("time", "join", True, True, "large", "equal + time + offset"),
]


@pytest.mark.parametrize(("axis", "use", "equal", "time_range", "size", "key"), MATRIX)
def test_the_matrix(axis: Any, use: Any, equal: bool, time_range: bool, size: Any, key: str) -> None:
    facts = {"equal": equal, "time_range": time_range, "size": size}
    assert layout_of(axis, use, **facts).describe() == key
    assert layout_of(axis, use, **facts, session=True).describe() == f"session + {key}"


def test_expired_messages_are_scattered_only_where_the_join_key_is_first() -> None:
    assert layout_of("time", "join", equal=True).equal_first
    assert not layout_of("time", "join", equal=True, time_range=True).equal_first
    assert not layout_of("time", "aggregate").equal_first


@pytest.mark.parametrize("wrong", [("rows", "join", {"time_range": True}), ("time", "aggregate", {"equal": True})])
def test_facts_that_contradict_each_other_are_rejected(wrong: Any) -> None:
    axis, use, facts = wrong
    with pytest.raises(PlanError):
        layout_of(axis, use, **facts)
