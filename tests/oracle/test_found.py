"""What random histories have found: each bug leaves its smallest history behind."""

from __future__ import annotations

import pytest

from tests.oracle.compare import difference
from tests.oracle.histories import History, Push
from tests.oracle.model import MAX, Row, Spec

EACH = ("repeat", ("count", 1))
TEN = ("sliding", 10, 10, 0)

FOUND = {
    # after_watermark(early=…) held a window back until it expired if its first row came after its end,
    # though after_watermark() emitted it at once.
    "a window born complete is emitted without a late trigger": History(
        Spec(TEN, ("watermark", ("delay", 5), None), lateness=3),
        pushes=(Push((), 5, note=20), Push((Row(1, "a", 18, 5),), 15)),
    ),
    # Rows between two windows counted as refining one.
    "rows in no window refine nothing": History(
        Spec(("sliding", 3, 4, 1), ("count", 3)),
        pushes=(Push((), 50, note=12), Push((Row(1, None, 8, 4),), 80)),
    ),
    # A pane whose values equal the last pane's was held to be the same pane, and its rows were lost.
    "equal values are not the same rows when discarding": History(
        Spec(("global",), EACH, "discarding", only_updated=True),
        pushes=(Push((Row(1, "a", 5, 3),), 1), Push((Row(2, "a", 25, 3),), 2)),
    ),
    # In discarding mode skip_unchanged did not suppress the empty on-time pane.
    "an empty pane says nothing new": History(
        Spec(TEN, ("watermark", EACH, EACH), "discarding", only_updated=True),
        pushes=(Push((Row(1, "a", 4, 3),), 10), Push((), 51, note=MAX)),
    ),
    # Cells of a row window were merged in any order, so that among equal times another row than the last was last.
    "among equal times the last to arrive is last": History(
        Spec(("rows", 5, 1, 0), ("never",)),
        pushes=(Push(tuple(Row(i, "a", 3, i) for i in range(60)), 6),),
    ),
    # Each row that extended a piece of a session started its timers again, in the model too: the rule is that the
    # earliest deadline stands.
    "a piece that grows keeps its deadline": History(
        Spec(("sessions", 20, "merge", 100), ("repeat", ("delay", 10))),
        pushes=tuple(Push((Row(i, "a", 4 * i, 1),), 6 * i) for i in range(1, 9)),
    ),
    # A deadline that had passed hid the one behind it: nothing woke the pane.
    "the later of two deadlines wakes the pane": History(
        Spec(("global",), ("all", ("delay", 5), ("delay", 10))),
        pushes=(Push((Row(1, "a", 9, 7),), 1), Push((), 7), Push((), 13)),
    ),
    "the deadline of the second turn wakes the pane": History(
        Spec(("global",), ("order", ("delay", 5), ("delay", 10))),
        pushes=(Push((Row(1, "a", 6, 4),), 21), Push((), 31), Push((Row(2, "a", 29, 9),), 41), Push((), 51)),
    ),
    # An empty pane of a row window was stamped with a row number as if that were an instant.
    "an empty pane of a row window has the time of the window's rows": History(
        Spec(("row_sessions", 3, "split", None), ("watermark", EACH, None), "discarding"),
        pushes=(Push((Row(1, "a", -8, 1),), 10), Push((), 10, note=MAX)),
    ),
    # A trigger that had finished at the end of a session stayed finished when a row that was not late moved that end:
    # the pane was retracted, none followed, and the row was lost.
    "an emitted session that a row at its end extends is emitted again": History(
        Spec(("sessions", 5, "merge", None), ("watermark", None, None), "retracting"),
        pushes=(Push((Row(1, "a", 0, 1),), 0, note=5), Push((Row(2, "a", 5, 2),), 1), Push((), 2, note=MAX)),
    ),
    # A row that was late itself moved the start from which a session is cut, and so all of its pieces.
    "a late row does not move the pieces of a session": History(
        Spec(("sessions", 5, "merge", 5), ("count", 1)),
        pushes=(Push((), 20, note=25), Push((Row(1, "a", 21, 4),), 25), Push((Row(2, "a", 17, 7),), 26)),
    ),
    # A part of all_of that had finished never agreed again, in two of four triggers.
    "a finished turn agrees to what the other parts want": History(
        Spec(("global",), ("all", ("order", ("count", 1), ("count", 1)), EACH)),
        pushes=tuple(Push((Row(i, "a", i, i),), i) for i in range(4)),
    ),
    "a finished end agrees to what the other parts want": History(
        Spec(TEN, ("all", ("watermark", ("never",), None), EACH), lateness=100),
        pushes=(Push((Row(1, "a", 1, 1),), 1, note=10), *(Push((Row(i, "a", i, i),), i) for i in range(2, 5))),
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_was_found_stays_fixed(name: str) -> None:
    mismatch = difference(FOUND[name])
    assert mismatch is None, mismatch
