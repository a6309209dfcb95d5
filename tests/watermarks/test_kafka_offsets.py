"""Offsets of Kafka as sequence numbers: they begin with 0, and have holes that are never filled."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import eventide as ev

KAFKA: dict[str, Any] = {"origin": "partition", "sequence": "offset", "first_sequence": 0, "gaps": "allowed"}
SCHEMA = {"t": pl.Int64, "partition": pl.Int64, "offset": pl.Int64}


def frame(*rows: tuple[int, int, int]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def counting(**options: Any) -> Any:
    watermark = ev.ascending(**KAFKA | options)
    stream = ev.stream("t", watermark=watermark).deduplicate()
    return stream.window(ev.tumbling("1 minute")).agg(n=ev.count()).start_local(SCHEMA)


def test_the_first_offset_counts_and_holes_hold_nothing_back() -> None:
    query = counting()
    step = query.push(frame((10, 0, 0), (20, 0, 1), (30, 0, 5)), now=0)
    assert (step.counts.dead, step.watermark_us) == ({}, 30)
    assert query.result.gaps == ()
    assert query.push(frame((40, 0, 9)), now=0).watermark_us == 40


def test_a_batch_that_is_read_again_is_set_aside() -> None:
    query = counting()
    query.push(frame((10, 0, 0), (20, 0, 3), (10, 1, 7)), now=0)
    step = query.push(frame((10, 0, 0), (20, 0, 3), (30, 0, 4), (10, 1, 7), (11, 1, 8)), now=0)
    assert step.counts.dead == {"duplicate": 3}
    assert query.drain().panes["n"].to_list() == [5]


def test_what_is_remembered_does_not_grow_with_the_holes() -> None:
    query = counting()
    sizes = []
    for offset in range(0, 4000, 2):
        query.push(frame((offset, 0, offset)), now=0)
        if offset in (500, 3998):
            sizes.append(len(query.save()))
    assert sizes[1] < sizes[0] * 1.2


def test_a_query_continues_after_a_restart() -> None:
    watermark = ev.ascending(**KAFKA)
    pipeline = ev.stream("t", watermark=watermark).deduplicate().window(ev.tumbling("1 minute")).agg(n=ev.count())
    query = pipeline.start_local(SCHEMA)
    query.push(frame((10, 0, 0), (20, 0, 3)), now=0)
    again = pipeline.start_local(saved=query.save())
    assert again.push(frame((20, 0, 3), (30, 0, 4)), now=0).counts.dead == {"duplicate": 1}


def test_numbers_from_zero_show_their_gaps_as_they_are() -> None:
    query = counting(gaps="wait")
    step = query.push(frame((10, 0, 0), (30, 0, 3)), now=0)
    assert step.watermark_us == 10
    (gap,) = query.result.gaps
    assert (gap.first, gap.last) == (1, 2)
    assert query.skip_gap("0", up_to=2)
    assert query.push(frame(), now=1).watermark_us == 30


def test_windows_by_offset_begin_with_the_first_offset() -> None:
    watermark = ev.ascending(sequence="offset", first_sequence=0)
    pairs = ev.stream("t", watermark=watermark).window(ev.rows(2, by="offset", first=0)).agg(n=ev.count())
    query = pairs.start_local(SCHEMA)
    assert query.push(frame((1, 0, 0), (2, 0, 1), (3, 0, 2)), now=0).panes["n"].to_list() == [2]


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"gaps": "alowed"}, "Did you mean 'allowed'"),
        ({"first_sequence": -1}, "first_sequence=-1 is not a sequence number"),
        ({"gap_timeout": "1 hour"}, "gap_timeout= has no effect"),
        ({"sequence": None}, "needs sequence"),
    ],
)
def test_a_mistake_is_rejected(options: dict[str, Any], answer: str) -> None:
    with pytest.raises(ev.PlanError, match=answer):
        ev.ascending(**KAFKA | options)
