"""``ev.inspect`` shows the same gaps as the metrics: the numbers that ``skip-gap`` takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.metrics import Gap, gaps_of
from eventide.time import as_datetime
from tests.driver.harness import Checkpoint, Driver

SCHEMA = {"t": pl.Int64(), "device": pl.String(), "n": pl.Int64(), "part": pl.Int64(), "last": pl.Boolean()}
NUMBERED: dict[str, Any] = {"origin": "device", "sequence": "n"}
CHUNKS = {"chunk": "part", "last_chunk": "last"}


def counts(**options: Any) -> ev.Stream:
    return ev.stream("t", watermark=ev.ascending(**NUMBERED | options))


def rows(*numbers: int, device: str = "a") -> pl.DataFrame:
    return pl.DataFrame([(n, device, n, 1, True) for n in numbers], schema=SCHEMA, orient="row")


MINUTE = ev.tumbling("1 minute")


@pytest.mark.parametrize("first", [0, 1, 7])
@pytest.mark.parametrize("options", [{}, CHUNKS], ids=["rows", "chunks"])
def test_gaps_are_counted_from_the_first_number(first: int, options: dict[str, str], tmp_path: Path) -> None:
    pipeline = counts(first_sequence=first, **options).window(MINUTE).agg(n=ev.count())
    sent = rows(first, first + 3, first + 4, first + 9)
    checkpoint = Checkpoint(tmp_path)
    checkpoint.log_offsets(0, 1_000_000)
    Driver(checkpoint, pipeline, [SCHEMA]).batch(0, [sent])
    gaps = (
        Gap("a", first + 1, first + 2, as_datetime(1_000_000)),
        Gap("a", first + 5, first + 8, as_datetime(1_000_000)),
    )
    assert tuple(ev.inspect(tmp_path)[0].gaps) == gaps == pipeline.local(sent, clock=[1_000_000], drain=False).gaps


def test_gaps_of_several_inputs_name_the_input(tmp_path: Path) -> None:
    both = ev.union(web=counts(first_sequence=0), tills=counts(first_sequence=10))
    pipeline = both.window(MINUTE).agg(n=ev.count())
    sent = [rows(0, 2), rows(10, 12, device="b")]
    checkpoint = Checkpoint(tmp_path)
    checkpoint.log_offsets(0, 1_000_000)
    Driver(checkpoint, pipeline, [SCHEMA, SCHEMA]).batch(0, sent)
    shown = [(gap.origin, gap.first, gap.last) for gap in ev.inspect(tmp_path)[0].gaps]
    assert shown == [("web: a", 1, 1), ("tills: b", 11, 11)]


def test_a_number_that_inspect_shows_can_be_skipped() -> None:
    query = counts(first_sequence=0).window(MINUTE).agg(n=ev.count()).start_local(SCHEMA)
    query.push(rows(0, 3, 5), now=0)
    (gap, _) = query.result.gaps
    query.skip_gap(gap.origin, up_to=gap.last)
    assert [(left.first, left.last) for left in query.result.gaps] == [(4, 4)]
    assert gaps_of(None) == ()
