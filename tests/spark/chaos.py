"""What the tests of faults share: the bundles, the pipeline, the table that must come out, and how to start the job."""

from __future__ import annotations

import itertools
import os
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl

import eventide as ev

SCHEMA = "ts timestamp, shop string, price double"
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
ROOT = Path(__file__).parents[2]
SIDES = ("left", "right")
EXECUTOR = b"CoarseGrainedExecutorBackend"  # the class of its process
PIPELINE = (
    ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 seconds"))
    .window(ev.tumbling("1 minute"))
    .trigger(
        ev.after_watermark(early=ev.on_update(), late=ev.on_update()), allowed_lateness="1 minute", mode="retracting"
    )
    .agg(orders=ev.count(), total=ev.sum("price"))
)


JOIN = ev.join(
    ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 seconds")),
    ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("20 seconds")),
    within=("-2 seconds", "2 seconds"),
    how="full",
)
ROWS = ev.stream(time="ts", key="shop").window(ev.rows(7)).agg(orders=ev.count(), total=ev.sum("price"))


def bundle(number: int, size: int = 300, seed: int = 0) -> pl.DataFrame:
    """Half a minute of orders, out of order."""
    rng = np.random.default_rng([number, seed] if seed else number)
    times = [START + timedelta(seconds=int(second)) for second in number * 20 + rng.integers(-15, 30, size)]
    return pl.DataFrame(
        {
            "ts": pl.Series(times, dtype=pl.Datetime("us", "UTC")),
            "shop": [f"shop {shop}" for shop in rng.integers(0, 40, size)],
            "price": rng.integers(0, 400, size) / 4,
        }
    )


def prepare(place: Path, bundles: int, inputs: Sequence[str] = ("in",)) -> None:
    """The files of the streams."""
    for edge, name in enumerate(inputs):
        (place / name).mkdir(parents=True)
        for number in range(bundles):
            put_bundle(place, number, name, edge)


def put_bundle(place: Path, number: int, name: str = "in", edge: int = 0) -> None:
    """The file of a bundle. It appears at once."""
    file = place / name / f"{number:05}.parquet"
    unfinished = place / f"{name}.unfinished"
    bundle(number, seed=edge).write_parquet(unfinished)
    os.utime(unfinished, (1_760_000_000 + number,) * 2)
    unfinished.rename(file)


def expected_rows(plan: str, bundles: int) -> Counter[tuple[object, ...]]:
    """What a table of rows holds in the end, from the same bundles in process."""
    if plan == "join":
        sides = {name: [bundle(number, seed=edge) for number in range(bundles)] for edge, name in enumerate(SIDES)}
        rows = JOIN.local(sides).panes.select("shop", "price", "price_right")
    else:
        panes = ROWS.local([bundle(number) for number in range(bundles)]).panes
        rows = panes.select("shop", "window_start", "orders", "total")
    return Counter(rows.rows())


def found_rows(place: Path, columns: str) -> Counter[tuple[object, ...]]:
    """What the table of the sink holds."""
    with sqlite3.connect(place / "panes.db") as database:
        return Counter(database.execute(f"SELECT {columns} FROM panes").fetchall())


def expected(bundles: int) -> list[tuple[object, ...]]:
    """The sum of the diffs, from the same bundles in process."""
    panes = PIPELINE.local([bundle(number) for number in range(bundles)]).panes
    window = pl.col("window_start", "window_end").dt.epoch("us")
    values = panes.select("shop", window, "orders", "total", "diff")
    final = values.group_by(pl.exclude("diff")).agg(pl.col("diff").cast(pl.Int64).sum()).filter(pl.col("diff") != 0)
    assert (final["diff"] == 1).all()
    return sorted(final.drop("diff").rows())


def table(place: Path) -> list[tuple[object, ...]]:
    """The table of the sink."""
    with sqlite3.connect(place / "panes.db") as database:
        rows = database.execute("SELECT shop, window_start, window_end, orders, total FROM panes").fetchall()
    return sorted((shop, _micros(start), _micros(end), orders, total) for shop, start, end, orders, total in rows)


def start(
    place: Path,
    *,
    master: str = "local[2]",
    die: str = "",
    plan: str = "windows",
    state: str = "driver",
    checkpoint: str | None = None,
) -> subprocess.Popen[str]:
    """The job, in a group of processes of its own. What it logs goes to the file ``log``."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.spark.chaos_job", str(place), master, plan],
        cwd=ROOT,
        env=os.environ
        | {
            "EVENTIDE_DIE": die,
            "EVENTIDE_STATE": state,
            "EVENTIDE_CHECKPOINT": checkpoint or str(place / "checkpoint"),
            "PYTHONPATH": f"{ROOT}/src:{ROOT}",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_WORKER_DIR": str(place / "work"),
        },
        stdout=subprocess.PIPE,
        stderr=(place / "log").open("a"),  # not a pipe that nobody reads: a process that fills it would never end
        text=True,
        start_new_session=True,
    )


def kill_worker(group: int) -> int:
    """Kill one of the workers of this job, which Spark's daemon has forked."""
    forked = {pid: parent for pid, command, parent in processes_of(group) if b"pyspark.daemon" in command}
    workers = (pid for pid, parent in forked.items() if parent in forked)
    return sum(kill(pid) for pid in itertools.islice(workers, 1))


def kill(pid: int) -> int:
    """Kill a process. Return how many there were: it may have ended meanwhile."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return 0
    return 1


def processes_of(group: int) -> Iterator[tuple[int, bytes, int]]:
    """The processes that a job has started: number, command, parent."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes()
            _, _, status = (entry / "stat").read_text().rpartition(")")
        except OSError:
            continue
        parent, _, session = status.split()[1:4]
        if session == str(group):
            yield int(entry.name), command, int(parent)


def _micros(text: object) -> int:
    when = datetime.fromisoformat(str(text))
    when = when if when.tzinfo else when.replace(tzinfo=UTC)
    return (when - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
