"""State in another number of buckets or in the other placement: the results are those of a query that stayed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import SparkSession

import eventide as ev
from eventide.spark import coalesced_progress
from eventide.spark.buckets import BUCKETS
from eventide.spark.coalesced_progress import PROGRESS
from eventide.spark.control import Control
from eventide.spark.control_status import RunningLock
from eventide.spark.query_record import FILE, placement_of
from eventide.spark.replacement import FOLDER
from eventide.spark.storage import LocalStorage
from tests.spark.running import Stream, comparable, settings
from tests.spark.test_driver_state import BUNDLES, WINDOWS, rows

CHAIN = (
    ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 seconds"))
    .window(ev.tumbling("1 minute"))
    .agg(total=ev.sum("price"))
).then(
    ev.stream(time="window_time", key="shop")
    .window(ev.tumbling("1 hour"))
    .agg(windows=ev.count(), total=ev.sum("total"))
)
ORIGINS = (
    ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("10 seconds", origin="device", sequence="n"))
    .window(ev.tumbling("1 minute"))
    .agg(n=ev.count(), total=ev.sum("price"))
)
HOURS = ev.stream(time="window_time", key="shop").window(ev.tumbling("1 hour")).agg(total=ev.sum("total"))
Target = int | str  # a number of buckets, or the driver
PATH: list[Target] = [2, 4, 3, 8, "driver"]
LONGER = [*BUNDLES, rows(*range(190, 260, 3)), rows(120, 300, 330)]


@pytest.fixture(autouse=True)
def any_number_of_buckets(spark: SparkSession) -> Iterator[None]:
    """A session that names no number of buckets: the checkpoint does."""
    with settings(spark, {BUCKETS: None, PROGRESS: None}):
        yield


def numbered_rows(start: int) -> pl.DataFrame:
    """Rows of three devices, numbered; a number of device 2 is missing from the second bundle on."""
    rows = [
        {"ts": (17 * n + device) * 1_000_000, "shop": f"s{n % 5}", "device": device, "n": n, "price": n}
        for device in range(3)
        for n in range(start, start + 20)
        if (device, n) != (2, 27)
    ]
    return pl.DataFrame(rows).with_columns(pl.col("ts").cast(pl.Datetime("us", "UTC")))


def attempts(stream: Stream) -> list[Path]:
    """What attempts to rescale have left."""
    return list((Path(stream.checkpoint) / FOLDER).glob("*-*"))


def arguments(target: Target) -> dict[str, Any]:
    return {"to": target} if isinstance(target, str) else {"buckets": target}


def placement(target: Target) -> str:
    return target if isinstance(target, str) else "executors"


def run_and_rescale(
    stream: Stream, pipeline: Any, bundles: Sequence[pl.DataFrame], path: Sequence[Target], **options: Any
) -> None:
    """Run a bundle in the driver and after each rescale."""
    state = "driver"
    for bundle, target in zip(bundles, path, strict=False):
        stream.put(bundle).run(pipeline, state=state, **options)
        result = ev.rescale(stream.checkpoint, **arguments(target), spark=stream.spark)
        state = placement(target)
        assert result.after == placement_of(LocalStorage(stream.checkpoint)) == state
        assert max(result.buckets) == (1 if target == "driver" else target)
        assert not attempts(stream)
    stream.put(*bundles[len(path) :]).run(pipeline, state=state, drain=True, **options)


def table_of(database: Path) -> list[Any]:
    with sqlite3.connect(database) as connection:
        return sorted(connection.execute("SELECT shop, window_start, n, total FROM panes").fetchall())


@pytest.mark.parametrize(
    ("path", "bundles"), [([2, 3], BUNDLES), pytest.param(PATH, LONGER, marks=pytest.mark.long)], ids=["short", "long"]
)
def test_a_query_that_is_rescaled_writes_the_table_of_one_that_never_was(
    spark: SparkSession, tmp_path: Path, path: Sequence[Target], bundles: Sequence[pl.DataFrame]
) -> None:
    tables = []
    for name in ("rescaled", "stayed"):
        stream = Stream(spark, tmp_path / name)
        database = tmp_path / name / "panes.db"
        sink = ev.sinks.table(f"sqlite:///{database}", name="panes")
        if name == "rescaled":
            run_and_rescale(stream, WINDOWS, bundles, path, sink=sink)
        else:
            stream.put(*bundles).run(WINDOWS, state="driver", drain=True, sink=sink)
        tables.append((table_of(database), stream.all("late").height, [batch.kept for batch in stream.metrics]))
    assert tables[0] == tables[1] and tables[0][0]


@pytest.mark.long
def test_a_chain_is_rescaled_as_a_whole(spark: SparkSession, tmp_path: Path) -> None:
    rescaled, stayed = Stream(spark, tmp_path / "rescaled"), Stream(spark, tmp_path / "stayed")
    run_and_rescale(rescaled, CHAIN, BUNDLES, [3, 2, "driver"])
    stayed.put(*BUNDLES).run(CHAIN, state="driver", drain=True)
    assert comparable(rescaled.all("panes")) == comparable(stayed.all("panes")) != []


def recorded_progress(stream: Stream) -> set[str]:
    plan = json.loads((Path(stream.checkpoint) / FILE).read_text())
    return {operator["progress"] for operator in plan["operators"]}


@pytest.mark.long
def test_progress_is_chosen_again_with_the_number_of_buckets(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(coalesced_progress, "COALESCED_FROM", 3)
    rescaled, stayed = Stream(spark, tmp_path / "rescaled"), Stream(spark, tmp_path / "stayed")
    pipeline = ORIGINS.then(HOURS)
    ways, origins, state = [], [], "driver"
    path: list[Target] = [3, 2, 4, "driver"]
    for number, target in enumerate(path):
        rescaled.put(numbered_rows(20 * number)).run(pipeline, state=state)
        ev.rescale(rescaled.checkpoint, **arguments(target), spark=spark)
        state = placement(target)
        ways.append(recorded_progress(rescaled))
        operators = ev.inspect(rescaled.checkpoint, spark=spark)
        origins.append([origin.name for origin in operators[0].origins])
    rescaled.put(numbered_rows(80)).run(pipeline, state=state, drain=True)
    stayed.put(*[numbered_rows(20 * number) for number in range(5)]).run(pipeline, state="driver", drain=True)
    assert ways == [{"coalesced"}, {"direct"}, {"coalesced"}, {"direct"}]
    assert origins == [["0", "1", "2"]] * 4
    assert comparable(rescaled.all("panes")) == comparable(stayed.all("panes")) != []
    assert rescaled.all("late").height == stayed.all("late").height
    reported = [[(m.depth, m.watermark, m.origins, m.gaps) for m in stream.metrics] for stream in (rescaled, stayed)]
    assert reported[0] == reported[1]


class Crash(BaseException):
    """The end of a process."""


@pytest.mark.long
@pytest.mark.parametrize("target", [3, "driver"])
def test_a_crash_in_any_step_leaves_a_query_that_continues(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: Target
) -> None:
    stream, stayed = Stream(spark, tmp_path / "rescaled"), Stream(spark, tmp_path / "stayed")
    stream.put(BUNDLES[0]).run(WINDOWS, state="executors")
    before = ev.inspect(stream.checkpoint, spark=spark)
    steps: list[str] = []

    def crash_in(number: int) -> None:
        seen: list[str] = []

        def show(step: str) -> None:
            seen.append(step)
            if len(seen) > number:
                raise Crash

        with pytest.raises(Crash):
            ev.rescale(stream.checkpoint, **arguments(target), spark=spark, on_progress=show)
        steps.append(seen[-1])

    for number in range(5):
        crash_in(number)
    assert [step.split()[0] for step in steps] == ["Reading", "Dividing", "Writing", "Comparing", "Replacing"]
    assert list(map(str, ev.inspect(stream.checkpoint, spark=spark))) == list(map(str, before))
    stream.put(BUNDLES[1]).run(WINDOWS, state="executors")  # the old state is in use
    with monkeypatch.context() as patch, pytest.raises(Crash):

        def crash_in_the_checkpoint(storage: LocalStorage, source: str, target: str) -> None:
            if FOLDER in source and FOLDER not in target:
                raise Crash
            move(storage, source, target)

        move = LocalStorage.move
        patch.setattr(LocalStorage, "move", crash_in_the_checkpoint)
        ev.rescale(stream.checkpoint, **arguments(target), spark=spark)
    with pytest.raises(ev.DataError, match="Run it again, or start the query"):
        ev.inspect(stream.checkpoint, spark=spark)
    if target == "driver":
        again = ev.rescale(stream.checkpoint, **arguments(target), spark=spark)
        assert again.resumed and again.after == "driver" and again.batch == 1
    stream.put(*BUNDLES[2:]).run(WINDOWS, state=placement(target), drain=True)  # or the start of the query finishes it
    stayed.put(*BUNDLES).run(WINDOWS, state="driver", drain=True)
    assert comparable(stream.all("panes")) == comparable(stayed.all("panes")) != []


@pytest.mark.long
def test_a_killed_command_is_run_again(spark: SparkSession, tmp_path: Path) -> None:
    stream, stayed = Stream(spark, tmp_path / "rescaled"), Stream(spark, tmp_path / "stayed")
    stream.put(*BUNDLES[:2]).run(WINDOWS, state="executors")
    command = [sys.executable, "-m", "eventide", "rescale", stream.checkpoint, "--buckets", "3"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stderr is not None
        assert any(line.startswith("Writing the state") for line in process.stderr)
        while not list((Path(stream.checkpoint) / FOLDER).glob("*/work/checkpoint/offsets/0")):
            assert process.poll() is None, "the command has ended before it was killed"
            time.sleep(0.001)
        os.killpg(process.pid, signal.SIGKILL)
    assert attempts(stream)
    assert [operator.buckets for operator in ev.inspect(stream.checkpoint, spark=spark)] == [2]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "in 2 buckets, and is on the executors in 3 buckets now" in done.stdout
    stream.put(*BUNDLES[2:]).run(WINDOWS, state="executors", drain=True)
    stayed.put(*BUNDLES).run(WINDOWS, state="driver", drain=True)
    assert comparable(stream.all("panes")) == comparable(stayed.all("panes")) != []


@pytest.mark.long
def test_a_command_is_applied_once_whenever_it_was_sent(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(rows(10))
    stream.run(WINDOWS, state="executors")
    control = Control(stream.checkpoint, spark)
    control.skip_gap("first")
    stream.run(WINDOWS, state="executors")
    second = control.skip_gap("second")
    ev.rescale(stream.checkpoint, buckets=3, spark=spark)
    stream.put(rows(15)).run(WINDOWS, state="executors")
    third = control.skip_gap("third")
    ev.rescale(stream.checkpoint, to="driver", spark=spark)
    assert [file.name for file in Path(control.place).glob("*.json")] == [f"{third}.json"]
    stream.put(rows(20)).run(WINDOWS, state="driver")
    fourth = control.skip_gap("fourth")
    ev.rescale(stream.checkpoint, buckets=2, spark=spark)
    stream.put(rows(30)).run(WINDOWS, state="executors")
    applied = [command.id for batch in stream.metrics for command in batch.commands]
    assert applied[-3:] == [second, third, fourth] and len(applied) == 4


def test_a_rescale_is_rejected_before_anything_changes(spark: SparkSession, tmp_path: Path) -> None:
    stream = Stream(spark, tmp_path).put(rows(10))
    with pytest.raises(ev.DataError, match="holds no state"):
        ev.rescale(stream.checkpoint, to="driver", spark=spark)
    stream.run(WINDOWS, state="driver")
    with pytest.raises(ev.PlanError, match="is in the driver already"):
        ev.rescale(stream.checkpoint, to="driver", spark=spark)
    with pytest.raises(ev.PlanError, match="needs the number of buckets"):
        ev.rescale(stream.checkpoint, to="executors", spark=spark)
    with pytest.raises(ev.PlanError, match=r"buckets is 2\.5\. Set it to an integer"):
        ev.rescale(stream.checkpoint, buckets=2.5, spark=spark)  # type: ignore[arg-type]
    lock = RunningLock(Path(stream.checkpoint) / "eventide")
    lock.acquire()
    with pytest.raises(ev.PlanError, match="A query is running"):
        ev.rescale(stream.checkpoint, buckets=2, spark=spark)
    lock.release()

    def fail(batch: Any, batch_id: int) -> None:
        raise OSError("the sink is away")

    with pytest.raises(Exception, match="the sink is away"):
        stream.put(rows(20)).run(WINDOWS, state="driver", sink=fail)
    with pytest.raises(ev.PlanError, match=r"Batch 1 of the checkpoint .* is pending"):
        ev.rescale(stream.checkpoint, buckets=2, spark=spark)
    stream.run(WINDOWS, state="driver")
    assert ev.rescale(stream.checkpoint, buckets=2, spark=spark).batch == 1
    with pytest.raises(ev.PlanError, match="is on the executors already, in 2 buckets"):
        ev.rescale(stream.checkpoint, buckets=2, spark=spark)
