"""Unions of intervals: groups side by side on one axis, and groups that are too far apart for it."""

from __future__ import annotations

import polars as pl
import pytest

from eventide import _columns as c
from eventide.windows.sessions import RUN, merge_intervals

FAR = 2**61  # two groups of this length do not fit on one axis


def runs(*intervals: tuple[str, int, int], touching: str = "merge") -> list[int]:
    frame = pl.DataFrame(intervals, schema={"k": pl.String, c.START: pl.Int64, c.END: pl.Int64}, orient="row")
    return merge_intervals(frame, ["k"], touching)[RUN].to_list()  # type: ignore[arg-type]


@pytest.mark.parametrize("shift", [0, -FAR, FAR])
@pytest.mark.parametrize(("touching", "parts"), [("merge", 3), ("split", 4)])
def test_intervals_of_a_key_hang_together_wherever_they_are(shift: int, touching: str, parts: int) -> None:
    intervals = [("a", 0, 10), ("b", 5, 8), ("a", 10, 12), ("a", 4, 6), ("b", 9, 11)]
    moved = [(key, start + shift, end + shift) for key, start, end in intervals]
    observed = runs(*moved, touching=touching)
    assert len(set(observed)) == parts
    assert observed[0] == observed[3] and (observed[0] == observed[2]) == (touching == "merge")


def test_groups_that_do_not_fit_on_one_axis_give_the_same_runs() -> None:
    near = [("a", 0, 10), ("b", 5, 8), ("a", 9, 12), ("b", 7, 9), ("a", 20, 30)]
    side_by_side, wide = runs(*near), runs(*near, ("c", FAR, FAR + 1))
    assert [wide.index(run) for run in wide[:5]] == [side_by_side.index(run) for run in side_by_side]
