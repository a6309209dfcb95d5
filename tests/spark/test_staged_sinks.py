"""Batches that the executors write to PostgreSQL: nothing is lost, doubled or left, and no password is shown."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame

import eventide as ev
from eventide import sinks
from eventide.sinks.batch import SinkBatch
from eventide.sinks.staged_tables import partition_writer
from eventide.sinks.table_databases import Postgres, PostgresConnection
from eventide.sinks.table_sink import TableSink
from tests.sinks.panes import output_info, schema
from tests.sinks.places import Place
from tests.sinks.test_staging import TABLES
from tests.spark.chaos import expected, prepare
from tests.spark.staging import PANES, start


@pytest.mark.long
def test_a_task_that_dies_and_a_driver_that_dies_before_the_merge_change_nothing(
    postgres: Place, tmp_path: Path
) -> None:
    prepare(tmp_path, 4)
    killed = start(tmp_path, postgres.url, die="2")
    killed.communicate()
    log = (tmp_path / "log").read_text()[-3000:]
    assert killed.returncode == -signal.SIGKILL, log
    assert (tmp_path / "killed").exists()
    assert postgres.ask("SELECT batch_id FROM eventide_batches") == [(1,)], log
    ((left,),) = postgres.ask(TABLES)
    assert postgres.ask(f"SELECT count(*) > 0 FROM {left}") == [(1,)]

    out, _ = start(tmp_path, postgres.url).communicate()
    assert "done" in out, (tmp_path / "log").read_text()[-3000:]
    assert sorted(postgres.ask(PANES)) == expected(4)
    assert postgres.ask(TABLES) == []


def test_the_password_is_not_in_the_plan_and_only_counts_are_collected(spark: Any, postgres: Place) -> None:
    url = f"{postgres.url}&password=sec-ret"
    sink = sinks.table(url, staged=True)
    assert isinstance(sink, TableSink)
    sink.open(schema(), output_info())
    rows = changed(spark)
    staging = sink._staging["panes"]
    plan = rows.mapInArrow(partition_writer(staging.database, staging.sql, '"t"'), "attempt long, rows long")
    shown = plan._jdf.queryExecution().toString()
    assert "write_partition" in shown and "sec-ret" not in shown + repr(sink) + repr(staging)

    sink.write(SinkBatch(rows, spark), 0, output_info())
    sink.close()
    assert postgres.ask("SELECT count(*), sum(n) FROM panes") == [(500, sum(range(500, 1000)))]
    assert postgres.ask(TABLES) == []


@dataclass(frozen=True)
class ClosedToExecutors(Postgres):
    """A database that tasks cannot connect to while a file exists."""

    gate: str = ""

    def connect(self) -> PostgresConnection:
        if TaskContext.get() is not None and Path(self.gate).exists():
            raise OSError("no route to host")
        return super().connect()


def changed(spark: Any) -> DataFrame:
    """Five hundred windows, each with a pane that replaces another one."""
    rows = spark.range(1000).selectExpr(
        "concat('shop ', id % 500) AS shop", "id AS n", "1Y AS diff", "id AS pane_index"
    )
    missing = [field for field in schema().fields if field.name not in rows.columns]
    types = {field.name: field.dataType.simpleString() for field in missing}
    return rows.selectExpr("*", *(f"CAST(null AS {dtype}) AS {name}" for name, dtype in types.items()))


def test_executors_that_cannot_connect_leave_the_batch_to_the_driver(
    spark: Any, postgres: Place, tmp_path: Path
) -> None:
    (gate := tmp_path / "gate").touch()
    info = replace(output_info(), state="executors")
    sink = TableSink(ClosedToExecutors(postgres.url, gate=str(gate)), None, None, True)
    with pytest.warns(ev.DriverLimitWarning, match="above 16 MB pass through the driver.*no route to host"):
        sink.open(schema(), info)
    sink.write(SinkBatch(changed(spark), spark), 0, info)
    sink.close()
    assert postgres.ask("SELECT count(*), sum(n) FROM panes") == [(500, sum(range(500, 1000)))]

    with pytest.raises(ev.PlanError, match=r"staged=True\): the executors cannot connect to .*no route to host"):
        replace(sink, staged=True, _stages_none=False).open(schema(), info)


def test_executors_that_start_later_and_cannot_connect_are_noticed(spark: Any, postgres: Place, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    info = replace(output_info(), state="executors")
    sink = TableSink(ClosedToExecutors(postgres.url, gate=str(gate)), None, None, True)
    sink.open(schema(), info)
    gate.touch()
    with pytest.warns(ev.DriverLimitWarning, match="no route to host"):
        sink.write(SinkBatch(changed(spark), spark), 0, info)
    sink.close()
    assert postgres.ask("SELECT count(*), sum(n) FROM panes") == [(500, sum(range(500, 1000)))]
    assert postgres.ask(TABLES) == []
