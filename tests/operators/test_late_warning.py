"""A warning when most rows of a batch are late: one rule, in every host."""

from __future__ import annotations

import warnings

import polars as pl
import pytest

import eventide as ev
from eventide.metrics import LateWarning
from eventide.testing import TestStream
from eventide.time import MAX

MINUTE = 60_000_000
PER_MINUTE = ev.stream(time="t", watermark=ev.bounded_delay("0s")).window(ev.tumbling("1 minute")).agg(n=ev.count())


def rows(*minutes: int) -> pl.DataFrame:
    return pl.DataFrame({"t": [minute * MINUTE for minute in minutes]})


def warned(warning: LateWarning, *, late: int, now: int = 0) -> bool:
    return warning.message(rows=10, late=late, watermark=5, now=now) is not None


def test_half_of_the_rows_is_not_most_of_them() -> None:
    assert not warned(LateWarning(), late=5)
    assert warned(LateWarning(), late=6)


def test_a_batch_without_rows_is_no_reason() -> None:
    assert LateWarning().message(rows=0, late=0, watermark=5, now=0) is None


def test_a_query_warns_again_after_a_minute_of_batch_time() -> None:
    warning = LateWarning()
    assert [warned(warning, late=10, now=now) for now in (0, 1, MINUTE - 1, MINUTE, MINUTE + 1, 2 * MINUTE)] == [
        True,
        False,
        False,
        True,
        False,
        True,
    ]


def test_the_message_has_the_counts_the_watermark_and_what_to_do() -> None:
    message = LateWarning().message(rows=2_000, late=1_500, watermark=0, now=0)
    assert message is not None
    assert message.startswith("1,500 of 2,000 rows of a batch are late: the watermark is 1970-01-01T00:00:00Z.")
    for advice in ("delay", "lateness", "max_future_skew", "eventide repair CHECKPOINT --watermark"):
        assert advice in message


def test_the_message_tells_a_drained_stream_from_one_that_continues() -> None:
    assert "the stream was drained" in str(LateWarning().message(rows=1, late=1, watermark=MAX, now=0))


def test_the_message_names_a_later_pipeline_of_a_chain() -> None:
    assert "of pipeline 2 of the chain" in str(LateWarning().message(rows=1, late=1, watermark=5, now=0, operator=1))


def test_a_query_in_this_process_warns() -> None:
    query = PER_MINUTE.start_local()
    query.push(rows(10), now=10 * MINUTE)
    with pytest.warns(ev.LateRowsWarning, match="2 of 3 rows of a batch are late"):
        query.push(rows(1, 2, 11), now=11 * MINUTE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        query.push(rows(1), now=11 * MINUTE + 1)


def test_a_test_stream_expects_late_rows_and_does_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stream = TestStream(PER_MINUTE).add({"t": "12:10"}).add({"t": "12:01"})
        stream.expect_late({"t": "12:01"})
