"""Sinks with real batches of Spark's."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import eventide as ev
from eventide import sinks
from eventide.sinks.batch import SinkBatch, flat_fields, flatten
from tests.sinks.panes import output_info, summed
from tests.sinks.places import Place

S = 1_000_000
RETRACTING = (
    ev.stream(time="ts", key="shop", watermark=ev.bounded_delay("5 seconds"))
    .window(ev.sessions("10 seconds"))
    .trigger(
        ev.after_watermark(early=ev.on_update(), late=ev.on_update()), allowed_lateness="1 minute", mode="retracting"
    )
    .agg(n=ev.count(), total=ev.sum("price"), prices=ev.collect_list("price"))
)
BUNDLES = [
    pl.DataFrame({"ts": [1 * S, 2 * S, 30 * S], "shop": ["kiel", None, "kiel"], "price": [5.0, 7.0, float("nan")]}),
    pl.DataFrame({"ts": [15 * S, 8 * S, 12 * S], "shop": ["kiel", "kiel", None], "price": [1.0, 2.0, 4.0]}),
    pl.DataFrame({"ts": [300 * S, 22 * S], "shop": ["rom", "kiel"], "price": [1.0, 9.0]}),
    pl.DataFrame({"ts": [400 * S, 3 * S], "shop": ["rom", "kiel"], "price": [1.0, 9.0]}),
]


HEIGHTS = [3, 4, 4, 3, 2]

Given = Callable[[Any], SinkBatch]


@pytest.fixture(params=["dataframe", "arrow"])
def as_batch(request: pytest.FixtureRequest, spark: Any) -> Given:
    """Batches as state on the executors produces them, and as state in the driver does."""

    def batch(rows: Any) -> SinkBatch:
        remote = SinkBatch(rows, spark)
        return remote if request.param == "dataframe" else SinkBatch(remote.arrow, spark)

    return batch


@pytest.fixture(scope="module")
def batches(spark: Any) -> list[Any]:
    """What a retracting query gives, as batches of Spark's."""
    steps = RETRACTING.local(BUNDLES, clock=range(4)).steps
    timing = pl.col("pane_timing").cast(pl.String)
    assert sum(step.late.height for step in steps) == 1
    assert [step.panes.height for step in steps] == HEIGHTS
    arrow = [step.panes.with_columns(timing).to_arrow() for step in steps]
    return [spark.createDataFrame(table).coalesce(1).persist() for table in arrow]


def test_the_table_of_a_query_with_sessions_equals_the_sum_of_the_diffs(
    as_batch: Given, place: Place, batches: list[Any]
) -> None:
    sink = sinks.table(place.url)
    sink.open(batches[0].schema, output_info(query=""))
    for batch_id, batch in enumerate(batches):
        for _ in range(2):
            sink.write(as_batch(batch), batch_id, output_info())
    sink.close()
    columns = ["shop", "window_start", "window_end", "n", "total"]
    log = pl.concat([pl.DataFrame(flatten(b, flat_fields(b.schema)).toArrow()) for b in batches])
    assert place.counted(f"SELECT {', '.join(columns)} FROM panes") == summed(log, columns)
    assert len(place.ask("SELECT * FROM panes")) == 4
    assert place.ask("SELECT shop, total FROM panes WHERE n > 3") == [("kiel", "NaN")]


TYPES = {
    "boolean": ("true", 1),
    "tinyint": ("-128Y", -128),
    "smallint": ("32767S", 32767),
    "int": ("-2147483648", -2147483648),
    "bigint": ("9223372036854775807L", 9223372036854775807),
    "float": ("float('0.1')", 0.1),
    "double": ("0.1D", 0.1),
    "nan": ("double('NaN')", "NaN"),
    "infinity": ("double('-Infinity')", float("-inf")),
    "decimal": ("1234567890123456789012345678.01BD", "1234567890123456789012345678.01"),
    "string": (r"'a\n\"b\\'", 'a\n"b\\'),
    "binary": ("X'00FF'", b"\x00\xff"),
    "date": ("date'0099-12-31'", "0099-12-31"),
    "timestamp": ("timestamp'1969-12-31 23:59:59.999999Z'", "1969-12-31T23:59:59.999999Z"),
    "timestamp_ntz": ("timestamp_ntz'2026-03-01 12:00:00'", "2026-03-01T12:00:00.000000"),
    "interval": ("interval '1 00:00:00.5' day to second", 86_400_500_000),
    "void": ("null", None),
    "array": ("array(1, null)", [1, None]),
    "struct": ("named_struct('a', double('NaN'), 'b', null)", {"a": "NaN", "b": None}),
    "map": ("map('k', timestamp'2026-03-01 12:00:00.25Z')", {"k": "2026-03-01T12:00:00.250000Z"}),
    "variant": ("""parse_json('{"a": [1]}')""", {"a": [1]}),
}


@pytest.fixture
def in_tokyo(spark: Any) -> Iterator[None]:
    """The session's time zone changes nothing."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


def test_a_value_of_any_type_arrives(
    request: pytest.FixtureRequest, as_batch: Given, place: Place, spark: Any, in_tokyo: None
) -> None:
    # State in the driver holds no variants: Polars has no such type.
    types = {name: value for name, value in TYPES.items() if name != "variant" or "dataframe" in request.node.name}
    columns = ", ".join(f"{value} AS `{name}`" for name, (value, _) in types.items())
    nothing = ", ".join(f"if(true, null, {value})" for value, _ in types.values())
    batch = spark.sql(f"SELECT 1 AS row, {columns} UNION ALL SELECT 2, {nothing}")
    sink = sinks.table(place.url)
    sink.open(batch.schema, output_info(output="dead"))
    sink.write(as_batch(batch), 0, output_info(output="dead"))
    sink.close()
    values, nulls = place.ask("SELECT * FROM dead ORDER BY row")
    for (name, (_, expected)), value in zip(types.items(), values[1:], strict=True):
        if name in ("array", "struct", "map", "variant") and place.kind == "sqlite":
            value = json.loads(value)
        shown = str(value) if name in ("decimal", "date") else value
        assert shown == (pytest.approx(expected, rel=1e-6) if name == "float" else expected), name
    assert nulls == (2, *[None] * len(types))


def test_files_hold_each_batch_once(as_batch: Given, spark: Any, batches: list[Any], tmp_path: Path) -> None:
    sink = sinks.files(tmp_path / "panes", compression="none")
    sink.open(batches[0].schema, output_info())
    sink.write(as_batch(batches[0].union(batches[1])), 0, output_info())  # what an interrupted attempt left
    for batch_id, batch in enumerate(batches[:2]):
        sink.write(as_batch(batch), batch_id, output_info())
    sink.write(as_batch(batches[2].limit(0)), 2, output_info())
    read = spark.read.parquet(str(tmp_path / "panes"))
    assert read.columns == [*batches[0].columns, "batch"]
    assert Counter(row["batch"] for row in read.select("batch").collect()) == {0: HEIGHTS[0], 1: HEIGHTS[1]}
    assert not (tmp_path / "panes" / "batch=2").exists()


def test_files_that_cannot_nest_are_flat(as_batch: Given, spark: Any, batches: list[Any], tmp_path: Path) -> None:
    sink = sinks.files(str(tmp_path), format="csv", header=True)
    sink.open(batches[0].schema, output_info())
    sink.write(as_batch(batches[0]), 0, output_info())
    read = spark.read.csv(str(tmp_path), header=True)
    assert {"shop", "window_start", "total", "prices", "pane_index", "diff", "batch"} <= set(read.columns)
    assert {row["prices"] for row in read.collect()} == {"[5.0]", "[7.0]", '["NaN"]'}


def test_a_batch_that_spark_has_written_completely_stays_as_it_is(
    spark: Any, batches: list[Any], tmp_path: Path
) -> None:
    """A paused driver that repeats it may be killed after it has deleted the directory."""

    def names() -> set[str]:
        return {file.name for file in (tmp_path / "batch=0").iterdir() if file.suffix == ".csv"}

    table = SinkBatch(batches[0], spark).arrow
    sink = sinks.files(str(tmp_path), format="csv")
    sink.open(batches[0].schema, output_info())
    sink.write(SinkBatch(table, spark), 0, output_info())
    before = names()
    in_chunks = pa.concat_tables([table.slice(0, 1), table.slice(1)])
    sink.write(SinkBatch(in_chunks, spark), 0, output_info())
    assert names() == before
    (tmp_path / "batch=0" / "_eventide").unlink()  # as if the writer had been killed before its end
    sink.write(SinkBatch(table, spark), 0, output_info())
    assert names().isdisjoint(before)
    sink.write(SinkBatch(table.slice(1), spark), 0, output_info())
    assert spark.read.csv(str(tmp_path)).count() == table.num_rows - 1


def test_any_writer_of_sparks_can_be_used(as_batch: Given, spark: Any, batches: list[Any], tmp_path: Path) -> None:
    sink = sinks.spark_format("json", path=str(tmp_path / "out"))
    sink.open(batches[0].schema, output_info())
    for batch_id, batch in enumerate(batches[:2]):
        sink.write(as_batch(batch), batch_id, output_info())
    sink.close()
    assert spark.read.json(str(tmp_path / "out")).count() == HEIGHTS[0] + HEIGHTS[1]


def test_the_view_in_memory_has_a_replayed_batch_once(as_batch: Given, spark: Any, batches: list[Any]) -> None:
    sink = sinks.memory("panes_in_memory")
    sink.open(batches[0].schema, output_info())
    assert spark.table("panes_in_memory").isEmpty()
    for batch_id in (0, 1, 1):
        sink.write(as_batch(batches[batch_id]), batch_id, output_info())
    assert spark.table("panes_in_memory").schema == batches[0].schema
    shown = spark.sql("SELECT window_start, n, diff FROM panes_in_memory").collect()
    assert Counter(shown) == Counter(
        row for b in batches[:2] for row in b.select("window_start", "n", "diff").collect()
    )


def test_the_view_in_memory_is_bounded(as_batch: Given, spark: Any, batches: list[Any]) -> None:
    sink = sinks.memory("few_panes", rows=1)
    sink.open(batches[0].schema, output_info())
    for batch_id, batch in enumerate(batches[:2]):
        sink.write(as_batch(batch), batch_id, output_info())
    assert len(spark.table("few_panes").collect()) == HEIGHTS[1]


def test_the_console_prints_the_first_rows(
    as_batch: Given, batches: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    sink = sinks.console(rows=2)
    sink.open(batches[0].schema, output_info())
    sink.write(as_batch(batches[0]), 3, output_info())
    sink.write(as_batch(batches[0].limit(0)), 4, output_info())
    printed = capsys.readouterr().out
    assert "panes, batch 3: 2 of 3 rows" in printed and "batch 4" not in printed
    assert "1970-01-01T00:00:02Z  1970-01-01T00:00:12Z" in printed


def test_the_console_does_without_rich(
    as_batch: Given, batches: list[Any], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rich.console", None)
    sinks.console().write(as_batch(batches[0]), 3, output_info())
    title, header, *lines = capsys.readouterr().out.splitlines()
    assert title == "panes, batch 3: 3 rows"
    names = ["shop", "window_start", "window_end", "n", "total", "prices", "pane_timing", "pane_index", "diff"]
    assert header.split() == names
    assert len(lines) == 4 and "kiel  1970-01-01T00:00:01Z  1970-01-01T00:00:11Z" in "\n".join(lines)


def test_noop_computes_the_batch(as_batch: Given, spark: Any) -> None:
    failing = spark.range(1).selectExpr("raise_error('computed') AS x")
    with pytest.raises(Exception, match="computed"):
        sinks.noop().write(as_batch(failing), 0, output_info())


def test_a_streaming_query_that_is_restarted_writes_each_batch_once(
    as_batch: Given, spark: Any, sqlite: Place, tmp_path: Path
) -> None:
    for number in range(3):
        spark.range(number * 10, number * 10 + 10, numPartitions=1).write.mode("append").parquet(str(tmp_path / "in"))
    table, view = sinks.table(sqlite.url), sinks.memory("streamed")
    late = output_info(output="late", query="")
    stream = spark.readStream.schema("id LONG").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    table.open(stream.schema, late)
    view.open(stream.schema, late)
    fail_at = [1]

    def write(batch: Any, batch_id: int) -> None:
        known = output_info(output="late")
        table.write(as_batch(batch), batch_id, known)
        if batch_id in fail_at:
            fail_at.clear()
            raise RuntimeError("after the table, before Spark's commit")
        view.write(as_batch(batch), batch_id, known)

    def run() -> None:
        writer = stream.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(Exception, match="before Spark's commit"):
        run()
    run()
    table.close()
    assert sqlite.ask("SELECT count(*), count(DISTINCT id) FROM late") == [(30, 30)]
    assert sqlite.ask("SELECT batch_id FROM eventide_batches") == [(2,)]
    assert spark.sql("SELECT count(DISTINCT id) FROM streamed").first()[0] == 30
