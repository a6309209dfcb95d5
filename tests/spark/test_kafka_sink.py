"""Messages of the Kafka sink, and the reader that drops repeats, without a broker."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.sinks import without_repeats
from eventide.sinks.batch import SinkBatch
from eventide.sinks.kafka_messages import kafka_messages
from tests.sinks.kafka_topics import Message, Topic, message, records
from tests.sinks.panes import output_info
from tests.spark.test_sinks import as_batch, batches

__all__ = ["as_batch", "batches"]  # fixtures

LATE = "shop string, price int"


def written(batch: SinkBatch, batch_id: int = 7, **info: Any) -> list[Any]:
    """The messages of a batch: key, value and headers as text."""
    rows = kafka_messages(batch, batch_id, output_info(**info)).collect()
    return [(row["key"], json.loads(row["value"]), _texts(row["headers"])) for row in rows]


def _texts(headers: list[Any]) -> dict[str, str]:
    return {header["key"]: bytes(header["value"]).decode() for header in headers}


def test_a_message_has_the_complete_row_as_its_value(as_batch: Any, batches: list[Any]) -> None:
    messages = written(as_batch(batches[1]))
    assert [set(value) for _, value, _ in messages] == [set(batches[1].columns)] * len(messages)


def test_the_key_of_a_pane_is_its_key_and_window(as_batch: Any, batches: list[Any]) -> None:
    keys = {key for key, _, _ in written(as_batch(batches[0]))}
    window = '"window_start":"1970-01-01T00:00:01.000000Z","window_end":"1970-01-01T00:00:11.000000Z"'
    assert f'{{"shop":"kiel",{window}}}' in keys
    assert {json.loads(key)["shop"] for key in keys} == {"kiel", None}


def test_headers_identify_a_pane(as_batch: Any, batches: list[Any]) -> None:
    messages = written(as_batch(batches[1]))
    for _, value, headers in messages:
        assert headers == {
            "query": "q",
            "output": "panes",
            "batch": "7",
            "pane_index": str(value["pane_index"]),
            "diff": str(value["diff"]),
        }
    assert {headers["diff"] for _, _, headers in messages} == {"1", "-1"}
    assert len({(key, *headers.values()) for key, _, headers in messages}) == len(messages)


def test_a_retraction_precedes_its_replacement(as_batch: Any, batches: list[Any]) -> None:
    diffs = [int(headers["diff"]) for _, _, headers in written(as_batch(batches[1]))]
    assert diffs == sorted(diffs)


def test_equal_late_rows_are_numbered(as_batch: Any, spark: Any) -> None:
    rows = spark.createDataFrame([("kiel", 1), ("kiel", 1), ("rom", 1), ("kiel", 1)], LATE).repartition(3)
    messages = written(as_batch(rows), output="late")
    digests: dict[str, set[str]] = {}
    for key, _, headers in messages:
        assert set(headers) == {"query", "output", "batch", "row"}
        digest, number = headers["row"].split("-")
        digests.setdefault(f"{key} {digest}", set()).add(number)
    assert sorted(map(sorted, digests.values())) == [["0"], ["0", "1", "2"]]


def test_a_repeated_batch_of_late_rows_has_the_same_messages(as_batch: Any, spark: Any) -> None:
    rows = [("kiel", n % 3) for n in range(12)]
    attempts = []
    for partitions in (1, 3):  # the rows come in another order, and are divided among other tasks
        Random(partitions).shuffle(rows)
        batch = spark.createDataFrame(rows, LATE).repartition(partitions)
        attempts.append(Counter(map(repr, written(as_batch(batch), output="late"))))
    assert attempts[0] == attempts[1] and len(attempts[0]) == 12


def test_a_row_without_a_key_has_a_key_that_a_repeat_has_too(as_batch: Any, spark: Any) -> None:
    rows = spark.createDataFrame([("kiel", 1), ("rom", 1)], LATE)
    messages = written(as_batch(rows), output="late", key=())
    assert len({key for key, _, _ in messages}) == 2
    assert all(headers["row"].startswith(key) for key, _, headers in messages)


def test_rows_of_a_join_stay_in_order_and_are_numbered(as_batch: Any, spark: Any) -> None:
    rows = [("kiel", n // 2, 1) for n in range(10)]
    batch = spark.createDataFrame(rows, "shop string, price int, diff tinyint").coalesce(1)
    messages = written(as_batch(batch), row_grain="rows")
    assert [value["price"] for _, value, _ in messages] == [n // 2 for n in range(10)]
    assert [headers["row"].split("-")[1] for _, _, headers in messages] == ["0", "1"] * 5
    assert {headers["diff"] for _, _, headers in messages} == {"1"}


def test_a_column_diff_of_a_processor_is_no_header(as_batch: Any, spark: Any) -> None:
    batch = spark.createDataFrame([("kiel", "up")], "shop string, diff string")
    assert "diff" not in written(as_batch(batch), row_grain="rows")[0][2]


def test_pairs_of_a_window_are_numbered(as_batch: Any, batches: list[Any]) -> None:
    messages = written(as_batch(batches[0].union(batches[0])), row_grain="pairs")
    assert len({(key, *headers.values()) for key, _, headers in messages}) == 2 * batches[0].count()


# The reader on Spark.


class Reader:
    """A query that reads a topic in batches, and may be repeated."""

    def __init__(self, spark: Any, place: Path) -> None:
        self.spark = spark
        self.kept: dict[int, list[bytes]] = {}
        self.place = place
        self.fails = False

    def read(self, poll: pl.DataFrame, batch_id: int) -> None:
        without_repeats(self._write, state=self.place)(self.spark.createDataFrame(poll.to_arrow()), batch_id)

    def _write(self, fresh: Any, batch_id: int) -> None:
        self.kept[batch_id] = [bytes(row["value"]) for row in fresh.collect()]
        if self.fails:
            raise RuntimeError("after the write")

    @property
    def values(self) -> Counter[bytes]:
        return Counter(value for values in self.kept.values() for value in values)


def test_a_query_drops_what_its_earlier_batches_have_seen(spark: Any, tmp_path: Path) -> None:
    rng = Random(3)
    topic = Topic(2)
    batches_: list[list[Message]] = [
        [message(shop, start, batch=batch) for shop in ("kiel", "rom") for start in range(3)] for batch in range(3)
    ]
    for batch in batches_:
        topic.append(rng.sample(batch, 4))  # an attempt that failed
        topic.append(batch)
    reader = Reader(spark, tmp_path / "seen")
    half = len(topic.messages) // 2 + 1
    for batch_id, part in enumerate((topic.messages[:half], [], topic.messages[half:])):
        reader.read(records(part), batch_id)
    assert reader.values == Counter(each["value"] for batch in batches_ for each in batch)
    assert sorted(path.name for path in (tmp_path / "seen").iterdir()) == ["batch=1", "batch=2"]


def test_a_query_that_repeats_its_batch_gets_the_same_messages(spark: Any, tmp_path: Path) -> None:
    topic = Topic()
    first, second = message("kiel"), message("rom")
    topic.append([first, second, second, first])
    reader = Reader(spark, tmp_path / "seen")
    reader.read(records(topic.messages[:1]), 0)
    reader.fails = True
    with pytest.raises(RuntimeError, match="after the write"):
        reader.read(records(topic.messages[1:]), 1)
    assert reader.kept[1] == [second["value"]]
    reader.fails = False
    reader.read(records(topic.messages[1:]), 1)
    reader.read(records(topic.messages[1:]), 1)  # the state was written, and Spark has not committed the batch
    assert reader.kept == {0: [first["value"]], 1: [second["value"]]}


def test_a_state_of_another_checkpoint_is_rejected(spark: Any, tmp_path: Path) -> None:
    reader = Reader(spark, tmp_path / "seen")
    for batch_id in range(3):
        reader.read(records([]), batch_id)
    with pytest.raises(ev.DataError, match="ends with batch 2, but the query continues with batch 0"):
        reader.read(records([]), 0)


def test_a_topic_read_without_headers_is_rejected(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(ev.PlanError, match="includeHeaders=True"):
        Reader(spark, tmp_path / "seen").read(records([]).drop("headers"), 0)
