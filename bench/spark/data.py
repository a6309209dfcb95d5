"""Generated files: the same bytes for the same parameters, made once and kept."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

from bench.spark.settings import FILES, ROWS, cache

BASE = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
SPAN = 10 * MINUTE
# Less than the watermark's delay of 30 seconds: no row is late for either side, so all results can be compared.
DISORDER = 20 * SECOND
# Names the layout below in the cache; to be raised when it changes.
VERSION = 1


def events(keys: int) -> Path:
    """Ten files whose times advance by a minute each, with some disorder; uniform keys; values that add exactly.

    The very last row lies two minutes after all others, so that the watermark closes every window but its own.
    """
    return kept(f"events-{ROWS}-{keys}", _events(keys))


def head(files: Path, number: int) -> Path:
    """A folder with the first files only."""
    folder = files.with_name(f"{files.name}-head-{number}")
    if not folder.exists():
        folder.mkdir()
        for file in sorted(files.glob("*.parquet"))[:number]:
            os.link(file, folder / file.name)
    return folder


def open_keys(keys: int, batches: int, batch: int) -> Path:
    """Files that open each key once, up to a million in each, then small ones that touch some of them again."""
    return kept(f"open-{keys}-{batches}-{batch}", _open_keys(keys, batches, batch))


def few(rows: int, keys: int) -> Path:
    """One small file of ten minutes, in order; its last row closes all windows but its own, too."""
    times = np.arange(rows, dtype=np.int64) * SPAN // rows
    times[-1] = SPAN + 2 * MINUTE
    return kept(f"few-{rows}-{keys}", iter([_frame(times, np.random.default_rng([7, keys]), keys)]))


def batches(rows: int, keys: int, count: int) -> Path:
    """Small files whose times advance by 20 seconds each; one row of each is an hour too late."""
    return kept(f"batches-{rows}-{keys}-{count}", _batches(rows, keys, count))


def backlog(files: int, keys: int) -> Path:
    """Files of a million rows each, whose times advance by a minute each; narrow rows."""
    return kept(f"backlog-{files}-{keys}", _backlog(files, keys))


def side(name: str, rows: int, keys: int, *, files: int = FILES) -> Path:
    """One side of a join: files whose times advance over ten minutes, with some disorder; uniform keys."""
    return kept(f"{name}-{rows}-{keys}-{files}", _side(name, rows, keys, files))


def rows_in(files: Path) -> int:
    """Rows of all Parquet files in a folder and below it."""
    files_below = pl.scan_parquet(str(files / "**/*.parquet"), hive_partitioning=False)
    return int(files_below.select(pl.len()).collect().item())


def _events(keys: int) -> Iterator[pl.DataFrame]:
    per_file = ROWS // FILES
    for file in range(FILES):
        rng = np.random.default_rng([7, keys, file])
        steps = np.arange(file * per_file, (file + 1) * per_file, dtype=np.int64) * SPAN // ROWS
        times = steps + DISORDER - rng.integers(0, DISORDER, per_file)
        if file == FILES - 1:
            times[-1] = SPAN + DISORDER + 2 * MINUTE
        yield _frame(times, rng, keys)


def _batches(rows: int, keys: int, count: int) -> Iterator[pl.DataFrame]:
    for file in range(count):
        rng = np.random.default_rng([7, keys, file])
        times = file * DISORDER + rng.integers(0, DISORDER // 2, rows)
        if file:
            times[0] = -60 * MINUTE
        yield _frame(times, rng, keys)


def _backlog(files: int, keys: int) -> Iterator[pl.DataFrame]:
    for file in range(files):
        rng = np.random.default_rng([11, keys, file])
        times = file * MINUTE + rng.integers(0, MINUTE, 1_000_000)
        yield _frame(times, rng, keys).drop("name")


def _side(name: str, rows: int, keys: int, files: int) -> Iterator[pl.DataFrame]:
    per_file = rows // files
    for file in range(files):
        rng = np.random.default_rng([*name.encode(), keys, file])
        steps = np.arange(file * per_file, (file + 1) * per_file, dtype=np.int64) * SPAN // rows
        yield _frame(steps + DISORDER - rng.integers(0, DISORDER, per_file), rng, keys)


def _open_keys(keys: int, batches: int, batch: int) -> Iterator[pl.DataFrame]:
    rng = np.random.default_rng([7, keys, batches])
    for start in range(0, keys, 1_000_000):
        ids = rng.permutation(np.arange(start, min(keys, start + 1_000_000)))
        yield _frame(np.zeros(len(ids), dtype=np.int64), rng, keys, ids)
    for i in range(batches):
        yield _frame(np.full(batch, (i + 1) * SECOND, dtype=np.int64), rng, keys)


def _frame(times: np.ndarray, rng: np.random.Generator, keys: int, ids: np.ndarray | None = None) -> pl.DataFrame:
    key = pl.Series("key", rng.integers(0, keys, len(times)) if ids is None else ids, dtype=pl.Int64)
    return pl.DataFrame(
        {
            "ts": pl.Series(BASE + times).cast(pl.Datetime("us", "UTC")),
            "key": key,
            "name": "customer-" + key.cast(pl.String).str.zfill(8),
            "value": rng.integers(0, 4000, len(times)) / 4,
        }
    )


def kept(name: str, frames: Iterator[pl.DataFrame]) -> Path:
    """Return the folder with a file for each frame, written if it is not there yet."""
    folder = cache() / "data" / f"{name}-v{VERSION}"
    if folder.exists():
        return folder
    unfinished = folder.with_name(f"{folder.name}-{os.getpid()}")
    unfinished.mkdir(parents=True)
    for i, frame in enumerate(frames):
        file = unfinished / f"part-{i:05d}.parquet"
        # Several row groups, so that two tasks can share the reading of a file.
        frame.write_parquet(file, compression="snappy", row_group_size=max(1, frame.height // 8))
        # Spark takes files in the order of their modification, Eventide's scan in the order of their names.
        os.utime(file, (BASE // SECOND + i, BASE // SECOND + i))
    try:
        unfinished.rename(folder)
    except OSError:  # another process was faster; its files are the same
        shutil.rmtree(unfinished)
    return folder
