"""Tasks do not use a watermark that is about to be lowered."""

from __future__ import annotations

import uuid
from dataclasses import replace

import polars as pl

import eventide as ev
from eventide.spark import standing
from eventide.spark.stage import Stage
from eventide.spark.stamping import watermark_known
from eventide.spark.tasks import Task

PLAN = ev.stream(time="t", watermark=ev.bounded_delay("0s")).window(ev.tumbling("1 minute")).agg(n=ev.count()).plan


def test_up_to_the_batch_of_a_repair_rows_are_judged_next_to_the_state() -> None:
    run, stage = uuid.uuid4().hex, Stage("repaired", PLAN, ({"t": pl.Int64()},), 1)
    for batch in (4, 5):
        standing.note(run, stage.name, batch, 7)
    before, after = Task(0, 0, 5, run), Task(0, 0, 6, run)
    assert watermark_known(stage, before) == 7
    repaired = replace(stage, repaired_in=5)
    assert watermark_known(repaired, before) is None
    assert watermark_known(repaired, after) == 7
