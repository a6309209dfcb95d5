"""How much one driver takes: rows that a task stamps, and cells that the driver adds to its state, per second.

The stamps and the commit records are those of a query with state in the driver; Spark itself is left out. A cell is a
key in a slice of time. A cluster sends the driver at most as many cells per second as it takes, for any number of rows.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import eventide as ev
from bench.measure import Line, rss_mb
from eventide.operators.chain import Chain
from eventide.operators.factory import operator_of
from eventide.spark.commit_log import CommitLog
from eventide.spark.driver_state import DriverState
from eventide.spark.shuffle_pages import stamp_from_bytes, stamp_to_bytes
from eventide.spark.storage import LocalStorage

TASKS = 64
KEYS = 20_000  # of each task, so that a batch has 64 times as many cells
ROWS_PER_KEY = 5
BATCHES = 6
SECOND = 1_000_000


def driver_cells() -> Line:
    """Cells per second that the driver takes into its state, with a durable record of each batch, in 64 stamps."""
    windows = ev.stream(time="ts", key="key", watermark="10 seconds").window(ev.tumbling("1 minute"))
    pipeline = windows.agg(n=ev.count(), total=ev.sum("value"))
    stamping, absorbing, grouping = [], [], []
    size = 0
    with tempfile.TemporaryDirectory(prefix="eventide-bench-") as place:
        (Path(place) / "offsets").mkdir()
        operator = operator_of(pipeline.plan, _rows(0, 0).schema)
        log = CommitLog(LocalStorage(Path(place)))
        state = DriverState(Chain([operator]), log, memory=1 << 34)
        for batch in range(BATCHES):
            now = (batch + 1) * 5 * SECOND
            about = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": now // 1000})
            (Path(place) / "offsets" / str(batch)).write_text(f"v1\n{about}\n{batch}", encoding="ascii")
            start = time.process_time()
            bodies = [stamp_to_bytes(operator.stamp(_rows(batch, task), now, 0)) for task in range(TASKS)]
            stamping.append(time.process_time() - start)
            size = sum(map(len, bodies))
            start = time.perf_counter()
            state.begin(batch)
            delivery = state.process(log.offsets(batch), [stamp_from_bytes(body) for body in bodies])
            state.finish(batch)
            absorbing.append(time.perf_counter() - start)
            cells = pl.concat([stamp_from_bytes(body).stamped.cells for body in bodies])
            start = time.perf_counter()
            cells.group_by("key").agg(pl.all().exclude("key").sum())
            grouping.append(time.perf_counter() - start)
    cells_of_a_batch, rows_of_a_batch = TASKS * KEYS, TASKS * KEYS * ROWS_PER_KEY
    rate, bare = (cells_of_a_batch / statistics.median(times) for times in (absorbing, grouping))
    return Line(
        "driver_cells",
        round(rate),
        round(bare),
        "polars group_by of the cells",
        round(rate / bare, 3),
        "cells/s",
        rss_mb(),
        delivery.operators[0]["counts"]["state_bytes"] > 0,
        {
            "rows_stamped_per_core_second": round(rows_of_a_batch / statistics.median(stamping)),
            "bytes_per_cell": round(size / cells_of_a_batch, 1),
        },
    )


def _rows(batch: int, task: int) -> pl.DataFrame:
    """Rows of a task: every key some times, within one slice."""
    rng = np.random.default_rng([3, batch, task])
    key = rng.permutation(np.repeat(np.arange(KEYS), ROWS_PER_KEY))
    return pl.DataFrame(
        {
            "ts": pl.Series(batch * 5 * SECOND + rng.integers(0, 4 * SECOND, len(key))).cast(pl.Datetime("us", "UTC")),
            "key": key,
            "value": rng.integers(0, 1000, len(key)),
        }
    )


ALL = (driver_cells,)
TARGETS = {"driver_cells": ""}
