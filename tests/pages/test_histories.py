"""Random histories over the stages of the Spark host: tasks, buckets and pages give what one process gives."""

from __future__ import annotations

from random import Random

import polars as pl
import pytest

from eventide._columns import TIME
from eventide.operators.row_order import ordered_rows
from eventide.testing.hosts import BundleResult, LocalHost
from tests.effort import SEED, examples
from tests.oracle.histories import FAMILIES, SCHEMA, History, frame_of, pipeline_of, random_histories
from tests.spark.harness import PagesHost

HISTORIES = examples(40)
_EACH = examples(4)
_PLANS = max(1, HISTORIES // (len(FAMILIES) * _EACH))


def rows_of(frame: pl.DataFrame) -> list[str]:
    """Rows in no order, to the last bit of each float."""
    return sorted(map(repr, frame.rows()))


def as_ordered(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows in the order that they have on Spark, where none is given; in process the order of a frame counts."""
    return ordered_rows(rows.with_columns(pl.col("time").alias(TIME))).drop(TIME)


def seen(came: BundleResult) -> object:
    others = [[rows_of(frame) for frame in frames] for frames in (came.late, came.dead)]
    return rows_of(came.panes), others, came.watermark, came.counts


def differs(history: History, rng: Random) -> str | None:
    """Where a history over pages differs from one in process."""
    pipeline = pipeline_of(history.spec, history.source)
    here = LocalHost(pipeline, SCHEMA)
    there = PagesHost(
        pipeline,
        SCHEMA,
        buckets=rng.choice([1, 2, 5]),
        tasks=rng.choice([1, 3]),
        knows=rng.random() < 0.7,
        progress=rng.choice(["direct", "coalesced"]),
    )
    for i, push in enumerate(history.pushes):
        progress = {"now": push.now, "watermark": push.note, "polled": True}
        rows = as_ordered(frame_of(push.rows))
        first, other = (seen(host.bundle(rows, **progress)) for host in (here, there))  # type: ignore[arg-type]
        if first != other:
            return f"bundle {i} of {history!r}\n{first}\n{other}"
    return None


@pytest.mark.parametrize("family", FAMILIES)
def test_pages_and_one_process_agree(family: str) -> None:
    for number in range(_PLANS):
        seed = f"{SEED}/stages/{family}/{number}"
        rng = Random(seed)
        for history in random_histories(rng, family, _EACH):
            mismatch = differs(history, rng)
            assert mismatch is None, f"seed {seed!r}: {mismatch}"
