"""Writers store events once, in order, and lose none of them."""

from __future__ import annotations

import polars as pl
import pytest

from eventide.errors import PlanError
from eventide.marks import Writer
from eventide.marks.errors import WriterFencedError
from tests.marks.harness import SCHEMA, SHOPS, UNANSWERED, numbers, order, orders, stored


def test_events_are_stored_when_they_are_flushed_and_not_before() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    writer.write(order(1))
    assert numbers(stream) == []
    writer.flush()
    assert stored(stream) == [order(1)]


def test_a_full_batch_is_stored_without_a_flush() -> None:
    stream = orders()
    writer = Writer(stream, "till", batch_rows=3)
    for n in range(7):
        writer.write(order(n))
    assert numbers(stream) == list(range(6))
    assert writer.unsent == [order(6)]


def test_an_event_that_is_changed_after_it_was_written_is_stored_as_it_was() -> None:
    stream = orders()
    event = order(1)
    with Writer(stream, "till") as writer:
        writer.write(event)
        event["n"] = 2
    assert numbers(stream) == [1]


def test_a_column_that_an_event_lacks_is_null() -> None:
    stream = orders()
    with Writer(stream, "till") as writer:
        writer.write({"n": 1})
    assert stored(stream) == [{"shop": None, "n": 1}]


def test_an_unknown_column_is_rejected_when_it_is_written() -> None:
    writer = Writer(orders(), "till")
    with pytest.raises(PlanError, match="Did you mean 'shop'"):
        writer.write({"shp": "kiel"})
    assert writer.unsent == []


def test_an_event_that_does_not_fit_is_named_and_does_not_hold_up_the_others() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    writer.write(order(1))
    writer.write({"shop": "kiel", "n": "many"})
    writer.write(order(2))
    with pytest.raises(PlanError, match=r"'many'.*was rejected.*other 2"):
        writer.flush()
    writer.flush()
    assert numbers(stream) == [1, 2]


@pytest.mark.parametrize("rows", [[order(1), order(2)], pl.DataFrame([order(1), order(2)])], ids=["dicts", "polars"])
def test_rows_of_any_kind_are_appended_at_once(rows: object) -> None:
    stream = orders()
    assert Writer(stream, "till").append(rows) is True
    assert stored(stream) == [order(1), order(2)]


def test_what_was_written_before_an_append_is_stored_before_it() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    writer.write(order(1))
    writer.append([order(2)])
    assert numbers(stream) == [1, 2]


def test_a_key_has_one_segment_however_it_is_written() -> None:
    stream = orders(segments=4)
    with Writer(stream, "one", routing_key="shop") as first, Writer(stream, "two") as second:
        first.append([order(n) for n in range(8)])
        first.write(order(8))
        second.write(order(16), routing_key=SHOPS[0])
    for shop in SHOPS:
        assert sum(any(row["shop"] == shop for row in stored(stream, number)) for number in range(4)) == 1
    assert len([number for number in range(4) if stored(stream, number)]) > 1


def test_numbers_route_alike_whether_they_are_written_or_appended() -> None:
    stream = orders(segments=8)
    with Writer(stream, "till", routing_key="n") as writer:
        writer.write({"n": 77})
        writer.append(pl.DataFrame({"n": [77]}, schema={"n": pl.Int32}))
    assert sorted(stream.store.lengths("orders").values())[-1] == 2


def test_the_key_of_an_event_goes_before_the_column_of_the_writer() -> None:
    stream = orders(segments=8)
    with Writer(stream, "till", routing_key="shop") as writer:
        for n, shop in enumerate(SHOPS):
            writer.write(order(n, shop), routing_key="all")
    assert sorted(stream.store.lengths("orders").values())[-1] == len(SHOPS)


def test_a_batch_without_keys_is_one_piece_and_many_are_spread() -> None:
    stream = orders(segments=4)
    writer = Writer(stream, "till")
    for n in range(40):
        writer.append([order(n), order(n)])
    assert all(length % 2 == 0 and length > 0 for length in stream.store.lengths("orders").values())


@pytest.mark.parametrize("failure", ["fail", "lose"])
def test_a_failure_of_the_store_neither_loses_events_nor_doubles_them(failure: str) -> None:
    stream = orders()
    writer = Writer(stream, "till", batch_rows=2)
    writer.write(order(1))
    getattr(stream.store, failure)("append")
    with pytest.raises(UNANSWERED) as caught:
        writer.write(order(2))
    assert "2 events of writer 'till'" in caught.value.__notes__[0]
    assert writer.unsent == [order(1), order(2)]
    writer.write(order(3))
    writer.flush()
    assert numbers(stream) == [1, 2, 3]
    assert writer.unsent == []


def test_a_batch_whose_answer_was_lost_is_not_repeated_after_a_scale_event() -> None:
    stream = orders()
    writer = Writer(stream, "till", routing_key="shop")
    writer.write(order(1))
    stream.store.lose("append")  # type: ignore[attr-defined]
    with pytest.raises(UNANSWERED):
        writer.flush()
    stream.split(0)
    writer.write(order(2))
    writer.flush()
    assert sorted(numbers(stream)) == [1, 2]


def test_a_scale_event_loses_nothing_repeats_nothing_and_keeps_the_order_of_keys() -> None:
    stream = orders(segments=2)
    writer = Writer(stream, "till", routing_key="shop")
    for n in range(200):
        writer.write(order(n))
        if n == 50:
            stream.split(0, into=3)
        if n == 100:
            stream.merge(3, 4)
        if n == 150:
            stream.merge(*(segment.number for segment in stream.segments.open))
        if n % 7 == 0:
            writer.flush()
    writer.close()
    assert sorted(numbers(stream)) == list(range(200))
    for place, shop in enumerate(SHOPS):
        assert [row["n"] for row in stored(stream) if row["shop"] == shop] == list(range(place, 200, len(SHOPS)))


def test_a_stream_that_has_ended_takes_no_more_events_and_they_stay_readable() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    writer.write(order(1))
    stream.seal()
    with pytest.raises(PlanError, match="has ended"):
        writer.flush()
    assert writer.unsent == [order(1)]


def test_an_id_that_is_at_work_is_rejected() -> None:
    stream = orders()
    Writer(stream, "till")
    with pytest.raises(PlanError, match="take_over=True"):
        Writer(stream, "till")


def test_a_writer_that_was_replaced_says_so_and_keeps_what_it_had_not_sent() -> None:
    stream = orders()
    old = Writer(stream, "till")
    old.write(order(1))
    new = Writer(stream, "till", take_over=True)
    with pytest.raises(WriterFencedError, match=r"Another writer 'till'.*1 unsent events"):
        old.flush()
    assert old.unsent == [order(1)]
    with pytest.raises(WriterFencedError):
        old.close()
    new.append([order(2)])
    assert numbers(stream) == [2]


def test_a_writer_that_was_replaced_and_has_nothing_left_closes_in_silence() -> None:
    stream = orders()
    old = Writer(stream, "till")
    new = Writer(stream, "till", take_over=True)
    old.close()
    new.append([order(1)])
    assert numbers(stream) == [1]


def test_a_closed_writer_gives_its_id_back_and_takes_nothing_more() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    writer.close()
    writer.close()
    with pytest.raises(PlanError, match="is closed"):
        writer.write(order(1))
    Writer(stream, "till").close()


def test_what_was_written_before_an_exception_is_stored() -> None:
    stream = orders()
    with pytest.raises(ZeroDivisionError), Writer(stream, "till") as writer:
        writer.write(order(1))
        raise ZeroDivisionError
    assert numbers(stream) == [1]


def test_a_writer_that_could_not_be_closed_can_be_closed_again() -> None:
    stream = orders()
    writer = Writer(stream, "till")
    writer.write(order(1))
    stream.store.fail("append")  # type: ignore[attr-defined]
    with pytest.raises(UNANSWERED):
        writer.close()
    writer.close()
    assert numbers(stream) == [1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"writer_id": ""}, "non-empty"),
        ({"writer_id": 7}, "non-empty"),
        ({"writer_id": "a", "note_time": "sometimes"}, "'manual'"),
        ({"note_time": "auto"}, "needs a writer_id"),
        ({"writer_id": "a", "batch_rows": 0}, "1 or more"),
        ({"writer_id": "a", "routing_key": "shp"}, "Did you mean 'shop'"),
        ({"writer_id": "a", "note_every": "soon"}, "note_every"),
    ],
)
def test_a_wrong_option_is_rejected_and_takes_no_handle(options: dict[str, object], message: str) -> None:
    stream = orders()
    with pytest.raises(PlanError, match=message):
        Writer(stream, **options)  # type: ignore[arg-type]
    Writer(stream, "a")


def test_what_is_no_event_is_rejected() -> None:
    writer = Writer(orders(), "till")
    with pytest.raises(PlanError, match="as a dict, not list"):
        writer.write([order(1)])  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="must be a text"):
        writer.write(order(1), routing_key=7)  # type: ignore[arg-type]


def test_an_empty_batch_stores_nothing() -> None:
    stream = orders()
    with Writer(stream, "till", routing_key="shop") as writer:
        writer.append([])
        writer.append(SCHEMA.empty_table())
    assert numbers(stream) == []
