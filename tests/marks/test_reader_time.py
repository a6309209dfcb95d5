"""A reader knows between which times it stands."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from eventide.marks import Reader, ReaderGroup, TimeWindow, Writer
from tests.marks.harness import mark, order, orders


def test_nothing_is_known_before_the_first_mark() -> None:
    assert Reader(orders()).time_window() == TimeWindow(None, None)


def test_before_the_first_cut_only_the_upper_time_is_known() -> None:
    stream = orders()
    Writer(stream, "till").append([order(n) for n in range(4)])
    mark(stream, 10, 15, {0: 2})
    assert Reader(stream).time_window() == TimeWindow(None, 15)


def test_exactly_at_a_cut_counts_as_passed() -> None:
    stream = orders()
    Writer(stream, "till").append([order(n) for n in range(4)])
    mark(stream, 10, 15, {0: 2})
    mark(stream, 20, 25, {0: 4})
    reader = Reader(stream)
    reader.read(1)
    assert reader.time_window() == TimeWindow(None, 15)
    reader.read(1)
    assert reader.time_window() == TimeWindow(10, 25)
    reader.read(2)
    assert reader.time_window() == TimeWindow(20, None)


def test_a_cut_is_passed_when_it_is_passed_in_every_segment_of_the_group() -> None:
    stream = orders(segments=2)
    with Writer(stream, "till", routing_key="shop") as writer:
        writer.append([order(n) for n in range(16)])
    mark(stream, 10, 15, dict(stream.store.lengths("orders")))
    first, second = Reader(stream, reader_id="one"), Reader(stream, reader_id="two")
    first.read(), second.read()
    assert first.time_window() == TimeWindow(None, 15)  # the other one may yet lose what it has not committed
    second.commit()
    assert first.time_window() == TimeWindow(10, None)


def test_a_reader_that_is_ahead_in_one_segment_takes_its_upper_time_from_a_later_mark() -> None:
    stream = orders(segments=2)
    with Writer(stream, "till", routing_key="shop") as writer:
        writer.append([order(n) for n in range(16)])
    mark(stream, 10, 15, {0: 1, 1: 1})
    mark(stream, 20, 25, {0: 2, 1: 2})
    reader = Reader(stream)
    reader.read(2)
    assert reader.time_window() == TimeWindow(None, 25)


def test_a_mark_after_a_scale_event_is_passed_when_all_before_it_is_committed() -> None:
    stream = orders()
    Writer(stream, "till").append([order(1)])
    reader = Reader(stream)
    stream.split(0)
    mark(stream, 10, 15, {1: 0, 2: 0})
    reader.read()
    assert reader.time_window() == TimeWindow(None, 15)
    reader.commit()
    assert reader.time_window() == TimeWindow(10, None)


def test_another_reader_begins_with_the_time_that_the_group_had_reached() -> None:
    stream = orders()
    Writer(stream, "till").append([order(n) for n in range(4)])
    for n in range(1, 5):
        mark(stream, 10 * n, 10 * n + 5, {0: n})
    with Reader(stream) as reader:
        reader.read(3)
        reader.time_window()
        reader.commit()
    assert ReaderGroup(stream).state().passed_mark == 3
    assert Reader(stream).time_window() == TimeWindow(30, 45)


def test_many_marks_are_passed_at_once() -> None:
    stream = orders()
    Writer(stream, "till").append([order(1)])
    for n in range(250):
        mark(stream, n, n + 5, {0: 0})
    mark(stream, 1000, 2000, {0: 1})
    assert Reader(stream).time_window() == TimeWindow(249, 2000)


def test_time_does_not_go_back_when_the_group_does() -> None:
    stream = orders()
    Writer(stream, "till").append([order(n) for n in range(4)])
    mark(stream, 10, 15, {0: 2})
    mark(stream, 20, 25, {0: 4})
    reader = Reader(stream)
    reader.read(3)
    assert reader.time_window() == TimeWindow(10, 25)
    ReaderGroup(stream).reset("earliest")
    assert reader.time_window() == TimeWindow(10, 25)
    assert Reader(stream).time_window() == TimeWindow(None, 15)


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["write", "mark", "read", "commit", "other", "split"]), st.integers(1, 5)),
        max_size=40,
    )
)
def test_both_times_hold_and_never_go_back(steps: list[tuple[str, int]]) -> None:
    """The time of event n is n, and every mark is true: all before its lower time lies before its cut."""
    stream = orders(segments=3)
    writer = Writer(stream, "till", routing_key="shop")
    readers = [Reader(stream, reader_id="one"), Reader(stream, reader_id="two")]
    count, seen, before = 0, (set[int](), set[int]()), [TimeWindow(None, None)] * 2
    for step, size in steps:
        if step == "write":
            writer.append([order(n) for n in range(count, count + size)])
            count += size
        elif step == "mark":
            cut = stream.segments.least_cut(stream.store.lengths("orders"))
            mark(stream, count, count, cut)
        elif step == "commit":
            readers[size % 2].commit()
        elif step == "split":
            stream.split(stream.segments.open[size % len(stream.segments.open)].number)
        else:
            batch = readers[step == "other"].read(size)
            seen[step == "other"].update([] if batch is None else batch.table["n"].to_pylist())
        for place, reader in enumerate(readers):
            window = reader.time_window()
            if window.lower is not None:
                assert seen[0] | seen[1] >= set(range(window.lower))
            if window.upper is not None:
                assert all(n < window.upper for n in seen[place])
            for was, now in zip(before[place], window, strict=True):
                assert was is None or now is None or now >= was
            assert window.lower is not None or before[place].lower is None
            before[place] = window


def test_of_marks_far_ahead_few_are_fetched_and_fewer_kept() -> None:
    stream = orders(segments=2)
    with Writer(stream, "till", routing_key="shop") as writer:
        writer.append([order(n) for n in range(1200)])
    lengths = stream.store.lengths("orders")
    for place in range(1, 401):
        mark(stream, place, place + 1000, {0: place, 1: place})
    for cut, window in [
        ({0: 300, 1: 0}, (None, 1300)),
        ({0: 400, 1: 7}, (7, 1400)),
        ({0: lengths[0], 1: 7}, (7, None)),
    ]:
        reader = Reader(stream, str(cut), start=cut)
        stream.store.calls.clear()  # type: ignore[attr-defined]
        assert reader.time_window() == window
        assert stream.store.calls.count("marks") < 12  # type: ignore[attr-defined]
        assert len(reader._mark_tracker._ahead) <= 100


def test_marks_that_went_with_their_events_are_not_missed() -> None:
    stream = orders()
    Writer(stream, "till").append([order(n) for n in range(300)])
    for place in range(1, 300):
        mark(stream, place, place + 1000, {0: place})
    reader = Reader(stream)
    reader.read(2)
    reader.commit()
    assert reader.time_window() == TimeWindow(2, 1003)
    stream.truncate({0: 250})
    for start, window in [(250, (250, 1251)), (299, (299, None))]:
        assert Reader(stream, str(start), start={0: start}).time_window() == window
