"""The job of docs/howto/kafka.md with a real broker. Where its jars cannot be had, nothing is tested.

Spark needs the connector's jars from its start, so the job and the command run in processes of their own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyspark
import pytest

from tests.kafka import ROOT, Broker, Connector, broker, connector
from tests.services import running
from tests.spark.kafka_job import AHEAD, AT_ONCE, BEHIND, FIRST, LATE, PIPELINE, QUICK, SCHEMA, SILENT, THEN, Row
from tests.spark.kafka_once_job import BUNDLES, LARGE
from tests.spark.kafka_once_job import PIPELINE as INTERRUPTED

pytestmark = pytest.mark.long  # a Kafka broker

JOB = """
import eventide as ev

pipeline = (
    ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("1 day", origin="partition"))
    .window(ev.tumbling("1 minute"))
    .emit(early=ev.on_update())
    .agg(orders=ev.count(), total=ev.sum("price"))
)
"""


@dataclass(frozen=True)
class Kafka:
    """A broker, and the jars with which Spark speaks to it."""

    broker: Broker
    connector: Connector


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka]:
    yield from running(_kafka())


@contextmanager
def _kafka() -> Iterator[Kafka]:
    jars = connector()
    if jars.version != pyspark.__version__:
        message = (
            f"Spark {pyspark.__version__} is tried with the Kafka connector {jars}; `make clean` lets Maven look again"
        )
        warnings.warn(message, stacklevel=1)
    with broker() as started:
        started.create("orders", partitions=3)
        yield Kafka(started, jars)


@dataclass(frozen=True)
class Ran:
    """The output of the job, and what it left in Kafka."""

    observed: dict[str, Any]
    panes: list[str]
    late: list[dict[str, Any]]


@pytest.fixture(scope="module")
def ran(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    place = tmp_path_factory.mktemp("kafka")
    out = _python("-m", "tests.spark.kafka_job", kafka.broker.servers, ",".join(kafka.connector.jars), str(place))
    panes, late = kafka.broker.read("revenue", "late-orders")
    return Ran(json.loads(out.splitlines()[-1]), panes, [json.loads(row) for row in late])


def test_the_panes_in_kafka_are_those_of_the_same_rows_in_process(ran: Ran) -> None:
    expected = PIPELINE.local(_polls(), clock=_clock())
    assert {_pane(json.loads(pane)) for pane in ran.panes} == _panes(expected.panes)
    assert len(set(ran.panes)) == expected.panes.height
    assert [row["ev_event_time"] for row in ran.late] == [_text(at) for at in expected.late["ev_event_time"]]
    assert ran.observed["rows"] == len(FIRST + THEN) + 1  # and the message that is no JSON


def test_only_the_batch_that_was_repeated_is_in_kafka_twice_byte_for_byte(ran: Ran) -> None:
    times = Counter(ran.panes)
    assert set(times.values()) == {1, 2}
    assert sum(times.values()) - len(times) == ran.observed["twice"]


def test_a_reader_that_drops_repeats_has_each_pane_once(ran: Ran) -> None:
    assert sorted(ran.observed["read"]) == sorted(set(ran.panes))


def test_a_silent_partition_is_detected_and_a_slow_one_loses_no_row(ran: Ran) -> None:
    assert ran.observed["idle"] == ["2"]
    assert [(row["shop"], row["price"], row["partition"]) for row in ran.late] == [LATE[1:]]


def test_the_command_line_reads_and_writes_topics(kafka: Kafka, ran: Ran, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB, encoding="utf-8")
    servers = kafka.broker.servers
    done = _python(
        *("-m", "eventide", "run", "job.py", "--drain", "--json"),
        f"kafka:orders@{servers}?schema={SCHEMA}&startingOffsets=earliest&maxOffsetsPerTrigger=21",
        *("--sink", f"kafka:totals@{servers}", "--dead", f"kafka:dead@{servers}"),
        *("--conf", f"spark.jars={','.join(kafka.connector.jars)}"),
        *(word for name, value in QUICK.items() for word in ("--conf", f"{name}={value}")),
        at=tmp_path,
    )
    observed = [json.loads(line) for line in done.splitlines()]
    assert sum(line["rows"] for line in observed) == len(FIRST + THEN) + 1
    assert {origin["origin"] for line in observed for origin in line["slowest"]} == {"0", "1", "2"}
    panes, dead = kafka.broker.read("totals", "dead")
    expected = PIPELINE.local([_frame(FIRST + THEN)], clock=["2026-03-02T00:00:00Z"])
    assert _replayed(map(json.loads, panes)) == {pane[:4] for pane in _panes(expected.panes)}
    assert any(json.loads(pane)["diff"] == -1 for pane in panes)
    assert [(row["ev_reason"], row["partition"]) for row in map(json.loads, dead)] == [("null_time", 0)]


@pytest.fixture(scope="module", params=["driver", "executors"])
def once(request: pytest.FixtureRequest, kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the job of kafka_once_job.py reports."""
    place = tmp_path_factory.mktemp("once")
    words = (kafka.broker.servers, ",".join(kafka.connector.jars), str(place), request.param)
    report: dict[str, Any] = json.loads(_python("-m", "tests.spark.kafka_once_job", *words).splitlines()[-1])
    return report | {"state": request.param}


@pytest.mark.parametrize("reader", ["polars", "spark"])
def test_a_reader_has_each_message_once_though_batches_are_written_in_part_and_again(
    once: dict[str, Any], reader: str
) -> None:
    values = [json.loads(value) for value in once[reader]]
    expected = INTERRUPTED.local(BUNDLES, clock=[f"2026-03-02T00:00:0{n}Z" for n in range(len(BUNDLES))], drain=False)
    assert Counter(map(_pane, _of(values, "diff"))) == Counter(
        _pane(row | {"window_start": _text(row["window_start"])}) for row in _plain(expected.panes)
    )
    assert len(_of(values, "ev_watermark")) == expected.late.height == 3
    assert len(once["written"]) > len(values) == once["distinct"]
    assert once["failures"] > len(BUNDLES)


def test_state_on_the_executors_does_not_send_panes_through_the_driver(once: dict[str, Any]) -> None:
    if once["state"] == "driver":
        pytest.skip("state in the driver has them there")
    assert once["large"] == {"messages": LARGE, "collected": False}


def _of(values: list[dict[str, Any]], column: str) -> list[dict[str, Any]]:
    return [value for value in values if column in value]


def _plain(panes: pl.DataFrame) -> list[dict[str, Any]]:
    return panes.with_columns(pl.col("pane_timing").cast(pl.String)).to_dicts()


def _python(*words: str, at: Path = ROOT) -> str:
    """What a process of its own says; it must end well."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT}/src:{ROOT}"}
    done = subprocess.run(
        [sys.executable, *words], env=environment, cwd=at, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    return done.stdout


def _polls() -> list[pl.DataFrame]:
    """The rows as the query read them: some of each partition at a time, and what came later at once."""
    first = [[*AHEAD[n : n + AT_ONCE], *BEHIND[n : n + AT_ONCE]] for n in range(0, len(AHEAD), AT_ONCE)]
    return [_frame([SILENT, *first[0]]), *map(_frame, first[1:]), _frame(THEN)]


def _clock() -> list[str]:
    return [f"2026-03-02T00:00:{second:02}Z" for second in range(len(_polls()))]


def _frame(rows: list[Row]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["ts", "shop", "price", "partition"], orient="row")


def _panes(panes: pl.DataFrame) -> set[tuple[Any, ...]]:
    return {_pane(item | {"window_start": _text(item["window_start"])}) for item in _plain(panes)}


def _replayed(panes: Iterable[dict[str, Any]]) -> set[tuple[Any, ...]]:
    """The table of a reader that applies retractions, in the order of the messages."""
    table: dict[tuple[str, str], tuple[Any, ...]] = {}
    for pane in panes:
        place, row = (pane["shop"], pane["window_start"]), _pane(pane)[:4]
        if pane["diff"] == -1:
            assert table.pop(place) == row
        else:
            assert table.setdefault(place, row) is row
    return set(table.values())


def _text(at: datetime) -> str:
    return f"{at:%Y-%m-%dT%H:%M:%S.%fZ}"


def _pane(pane: dict[str, Any]) -> tuple[Any, ...]:
    return pane["shop"], pane["window_start"], pane["orders"], pane["total"], pane["pane_timing"], pane["diff"]
