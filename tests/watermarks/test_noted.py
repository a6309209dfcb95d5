"""Cuts: a watermark that counts once everything before it has been read."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import eventide as ev
from eventide.errors import PlanError
from eventide.time import MAX, MIN
from eventide.watermarks import Cut, InputTracker
from eventide.watermarks.watermark import CutTracker

STREAM = "sqlite:///shop.db#orders"
ORDERS = ev.noted(STREAM).generator.identity  # type: ignore[attr-defined]


def rows(*places: tuple[int, int], mark: int = 0) -> pl.DataFrame:
    """Rows at (segment, offset)."""
    table = {
        "ts": [0 for _ in places],
        "_segment": [name for name, _ in places],
        "_offset": [name for _, name in places],
    }
    schema = {"ts": pl.Int64, "_segment": pl.Int64, "_offset": pl.Int64, "_mark": pl.Int64}
    return pl.DataFrame({**table, "_mark": [mark for _ in places]}, schema)


def cut(number: int, time: int, **reached: int) -> Cut:
    return Cut(ORDERS, number, time, {name.removeprefix("s"): offset for name, offset in reached.items()})


def tell(tracker: InputTracker, *places: tuple[int, int], mark: int = 0, cuts: tuple[Cut, ...] = ()) -> int:
    summary = tracker.strategy.summarise(rows(*places, mark=mark), "ts", now=0)
    return tracker.advance(summary, 0, notes=cuts).time


@pytest.fixture
def tracker() -> InputTracker:
    return InputTracker(ev.noted(STREAM))


def test_rows_alone_move_no_watermark(tracker: InputTracker) -> None:
    assert tell(tracker, (0, 5)) == MIN


def test_exactly_at_a_cut_counts_as_passed(tracker: InputTracker) -> None:
    assert tell(tracker, (0, 4), cuts=(cut(1, 100, s0=6),)) == MIN
    assert tell(tracker, (0, 5)) == 100


def test_a_cut_is_passed_when_every_segment_is(tracker: InputTracker) -> None:
    assert tell(tracker, (0, 9), cuts=(cut(1, 100, s0=6, s1=1),)) == MIN
    assert tell(tracker, (1, 0)) == 100


def test_a_cut_that_arrives_after_its_rows_is_passed_at_once(tracker: InputTracker) -> None:
    tell(tracker, (0, 5), (1, 3))
    assert tell(tracker, cuts=(cut(1, 100, s0=6, s1=4),)) == 100


def test_the_last_of_the_passed_cuts_counts(tracker: InputTracker) -> None:
    cuts = (cut(1, 100, s0=2), cut(2, 200, s0=4), cut(3, 300, s0=9))
    assert tell(tracker, (0, 5), cuts=cuts) == 200


def test_the_source_knows_of_segments_whose_rows_were_filtered_out(tracker: InputTracker) -> None:
    tell(tracker, cuts=(cut(1, 100, s0=2, s1=7), cut(2, 200, s0=50)))
    assert tell(tracker, (0, 0), mark=1) == 100


def test_cuts_of_another_stream_are_not_for_this_one(tracker: InputTracker) -> None:
    assert tell(tracker, (0, 5), cuts=(Cut("returns", 1, 100, {"0": 1}),)) == MIN


def test_streams_of_one_name_in_two_stores_are_not_mixed_up(tracker: InputTracker) -> None:
    other = ev.noted("sqlite:///other.db#orders").generator.identity  # type: ignore[attr-defined]
    assert tell(tracker, (0, 5), cuts=(Cut(other, 1, 100, {"0": 1}),)) == MIN


def test_what_the_source_has_passed_need_not_be_read_again(tracker: InputTracker) -> None:
    tell(tracker, (0, 9), mark=1, cuts=(cut(1, 100, s0=5, s1=40),))  # it began behind the rows of segment 1
    assert tell(tracker, cuts=(cut(2, 200, s0=10, s1=40),)) == 200


def test_a_cut_that_arrives_again_changes_nothing(tracker: InputTracker) -> None:
    mark = cut(1, 100, s0=2)
    assert tell(tracker, (0, 5), cuts=(mark,)) == 100
    assert tell(tracker, (0, 6), cuts=(mark,)) == 100


def test_the_end_of_a_stream_ends_event_time(tracker: InputTracker) -> None:
    assert tell(tracker, (0, 5), cuts=(cut(1, MAX, s0=6),)) == MAX


def test_a_tracker_continues_where_it_was_saved(tracker: InputTracker) -> None:
    tell(tracker, (0, 3), cuts=(cut(1, 100, s0=2), cut(2, 200, s0=5, s1=1)))
    restored = InputTracker.restore(tracker.strategy, tracker.snapshot())
    assert restored.time == 100
    assert tell(restored, (0, 4), (1, 0)) == 200


def test_a_copy_does_not_share_what_was_read(tracker: InputTracker) -> None:
    twin = tracker.copy()
    tell(twin, (0, 9))
    assert tell(tracker, cuts=(cut(1, 100, s0=5),)) == MIN


def test_what_is_no_stream_is_rejected() -> None:
    with pytest.raises(PlanError, match="its store, #, and its name"):
        ev.noted("orders")


def test_a_password_is_not_shown() -> None:
    strategy = ev.noted("postgresql://me:secret@db/shop#orders")
    assert "secret" not in repr(strategy) + strategy.describe()


def test_rows_that_do_not_come_from_a_stream_are_rejected() -> None:
    with pytest.raises(PlanError, match=r"noted\(\): there is no column '_segment'"):
        ev.noted(STREAM).check({"ts": pl.Int64()})


@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=3),
    places=st.data(),
)
def test_a_cut_is_passed_exactly_when_all_before_it_has_been_read(lengths: list[int], places: st.DataObject) -> None:
    """For any order in which segments are read, and any position of batches and cuts."""
    events = [(segment, offset) for segment, length in enumerate(lengths) for offset in range(length)]
    turns = places.draw(st.permutations([segment for segment, _ in events]))
    reached = [0] * len(lengths)
    cuts = []
    for number in range(1, places.draw(st.integers(1, 4)) + 1):
        reached = [places.draw(st.integers(low, high)) for low, high in zip(reached, lengths, strict=True)]
        cuts.append(Cut(ORDERS, number, number * 10, {str(i): offset for i, offset in enumerate(reached)}))
    tracker, read, waiting, known = InputTracker(ev.noted(STREAM)), [0] * len(lengths), list(cuts), []
    for segment in [*turns, None]:
        if waiting and (segment is None or places.draw(st.booleans())):
            known.append(waiting.pop(0))
        if segment is not None:
            read[segment] += 1
        time = tell(tracker, *([] if segment is None else [(segment, read[segment] - 1)]), cuts=tuple(known))
        passed = [mark.time for mark in known if all(read[int(s)] >= offset for s, offset in mark.reached.items())]
        assert time == max(passed, default=MIN)


def test_a_cut_that_was_not_reached_is_not_passed() -> None:
    cuts = CutTracker()
    cuts.add([cut(1, 100, s0=2), cut(2, 200, s0=3)])
    cuts.read({"0": 2}, passed=0)
    assert (cuts.pass_cuts(), cuts.pass_cuts()) == (100, None)
