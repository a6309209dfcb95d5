"""Tables of a lakehouse, in every format alike: equal to the sum of the diffs, exactly once."""

from __future__ import annotations

import signal
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from pyspark.sql import types as t

import eventide as ev
from eventide.sinks.batch import SinkBatch
from eventide.sinks.lake_table import LakeTable
from eventide.sinks.sink import OutputInfo, Sink
from tests.effort import examples
from tests.sinks.panes import Row, frame, output_info, row, schema, summed
from tests.sinks.places import plain
from tests.sinks.test_tables import SEEN, WIDE, histories

NO_SESSION: Any = None  # a batch of Arrow needs no session


class Lake:
    """A table in one of the formats, its sink, and a reader of another engine."""

    def __init__(self, make: Callable[..., Sink], folder: Path) -> None:
        self.make, self.folder = make, folder

    def sink(self, what: OutputInfo, of: t.StructType, **options: Any) -> Sink:
        sink = self.make(**options)
        sink.open(of, what)
        return sink

    def read(self) -> pl.DataFrame:
        """Return the rows as Polars reads them."""
        if (self.folder / "_delta_log").exists():
            return pl.read_delta(str(self.folder))
        (metadata, *_) = sorted(self.folder.rglob("*.metadata.json"), reverse=True)
        return pl.scan_iceberg(str(metadata)).collect()

    def commits(self) -> int:
        """Return how often the table has changed: each commit is a file of JSON in both formats."""
        return len(list(self.folder.rglob("*.json")))

    def counted(self, columns: list[str]) -> Counter[Any]:
        return Counter(tuple(map(plain, row)) for row in self.read().select(columns).rows())


def delta_lake(folder: Path) -> Lake:
    return Lake(lambda **options: ev.sinks.delta(str(folder), **options), folder)


def iceberg_lake(folder: Path) -> Lake:
    folder.mkdir(exist_ok=True)
    catalog = {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
    return Lake(lambda **options: ev.sinks.iceberg("shop.revenue", catalog=catalog, **options), folder)


LAKES = {"delta": delta_lake, "iceberg": iceberg_lake}


@pytest.fixture(params=LAKES.values(), ids=LAKES)
def lakes(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Lake]:
    """Make a new, empty table each time."""
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    numbers = iter(range(10_000))
    return lambda: request.param(tmp_path / f"lake{next(numbers)}")


@pytest.fixture
def lake(lakes: Callable[[], Lake]) -> Lake:
    return lakes()


def put(sink: Sink, rows: pl.DataFrame, batch_id: int, what: OutputInfo) -> None:
    sink.write(SinkBatch(rows.to_arrow(compat_level=pl.CompatLevel.oldest()), NO_SESSION), batch_id, what)


@given(history=histories())
@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_the_table_equals_the_sum_of_the_diffs(lakes: Callable[[], Lake], history: list[list[Row]]) -> None:
    lake, what = lakes(), output_info(key=["shop", "size"])
    sink = lake.sink(what, WIDE)
    everything = frame([row(shop="", size=0.0, n=0, x=0.0)]).clear()
    for batch_id, batch in enumerate(history):
        if not batch:
            continue
        rows = frame(batch)
        everything = pl.concat([everything, rows.select(everything.columns)])
        for _ in range(2):  # a repeated batch has no effect
            put(sink, rows, batch_id, what)
        assert lake.counted(SEEN) == summed(everything, SEEN)


def test_a_restarted_query_skips_the_batches_that_are_in_the_table(lake: Lake) -> None:
    first = lake.sink(output_info(), schema())
    put(first, frame([row(shop="kiel", n=1)]), 0, output_info())
    put(first, frame([row(shop="kiel", n=1, diff=-1), row(shop="kiel", n=2, index=1)]), 1, output_info())
    second = lake.sink(output_info(), schema())
    put(second, frame([row(shop="kiel", n=1)]), 0, output_info())
    put(second, frame([row(shop="kiel", n=1, diff=-1), row(shop="kiel", n=2, index=1)]), 1, output_info())
    assert lake.read()["n"].to_list() == [2]


def test_other_windows_are_not_touched(lake: Lake) -> None:
    sink = lake.sink(output_info(), schema())
    put(sink, frame([row(0, shop="kiel", n=1), row(60_000_000, shop="kiel", n=7)]), 0, output_info())
    put(sink, frame([row(0, shop="kiel", n=1, diff=-1), row(0, shop="kiel", n=2, index=1)]), 1, output_info())
    assert sorted(lake.read()["n"].to_list()) == [2, 7]


def test_duckdb_reads_the_data_files_of_the_newest_version(lake: Lake) -> None:
    sink = lake.sink(output_info(), schema())
    put(sink, frame([row(0, shop="kiel", n=1), row(60_000_000, shop="kiel", n=7)]), 0, output_info())
    put(sink, frame([row(0, shop="kiel", n=1, diff=-1), row(0, shop="kiel", n=2, index=1)]), 1, output_info())
    sink.table.last_batch("")  # type: ignore[attr-defined]  # reads the newest version
    table = sink.table._read  # type: ignore[attr-defined]
    files = (
        table.file_uris()
        if hasattr(table, "file_uris")
        else [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    )
    rows = duckdb.read_parquet(files).select("shop, epoch(window_start), n").order("n").fetchall()
    assert rows == [("kiel", 0.0, 2), ("kiel", 60.0, 7)]


def test_a_log_has_every_pane_with_its_diff(lake: Lake) -> None:
    sink = lake.sink(output_info(), schema(), log=True)
    put(sink, frame([row(shop="kiel", n=1)]), 0, output_info())
    put(sink, frame([row(shop="kiel", n=1, diff=-1), row(shop="kiel", n=2, index=1)]), 1, output_info())
    assert sorted(lake.read().select("n", "diff").rows()) == [(1, -1), (1, 1), (2, 1)]


def test_late_rows_are_appended_and_new_columns_of_the_source_are_added(lake: Lake) -> None:
    late = output_info(output="late")
    narrow = t.StructType([t.StructField("shop", t.StringType())])
    wide = t.StructType([*narrow.fields, t.StructField("price", t.LongType())])
    put(lake.sink(late, narrow), pl.DataFrame({"shop": ["kiel"]}), 0, late)
    put(lake.sink(late, wide), pl.DataFrame({"shop": ["oslo"], "price": [3]}), 1, late)
    assert sorted(lake.read().select("shop", "price").rows(), key=str) == [("kiel", None), ("oslo", 3)]


def test_a_table_of_other_columns_is_rejected(lake: Lake) -> None:
    lake.sink(output_info(), schema())
    with pytest.raises(ev.PlanError, match="other columns than this output: missing m; not written n;"):
        lake.sink(output_info(), schema(results={"m": t.LongType()}))


@pytest.mark.parametrize("options", [{}, {"log": True}], ids=["table", "log"])
def test_a_table_with_a_column_of_another_type_is_rejected(lake: Lake, options: dict[str, Any]) -> None:
    lake.sink(output_info(), schema(results={"n": t.LongType(), "x": t.DoubleType()}), **options)
    with pytest.raises(ev.PlanError, match="other types than this output: n is int64 in the table and string in the"):
        lake.sink(output_info(), schema(results={"n": t.StringType(), "x": t.DoubleType()}), **options)
    with pytest.raises(ev.PlanError, match="n is int64 in the table and int32 in the output; x is double in the table"):
        lake.sink(output_info(), schema(results={"n": t.IntegerType(), "x": t.LongType()}), **options)


def test_a_table_of_late_rows_with_a_column_of_another_type_is_rejected(lake: Lake) -> None:
    late = output_info(output="late")
    lake.sink(late, t.StructType([t.StructField("price", t.LongType())]))
    with pytest.raises(ev.PlanError, match="price is int64 in the table and double in the output"):
        lake.sink(late, t.StructType().add("shop", "string").add("price", "double"))


def test_a_table_of_every_type_is_opened_again(lake: Lake) -> None:
    inner = t.StructType([t.StructField("c", t.StringType()), t.StructField("d", t.DecimalType(38, 9))])
    nested = t.StructType([t.StructField("a", t.ByteType()), t.StructField("b", t.ArrayType(inner))])
    types = [t.ByteType(), t.ShortType(), t.IntegerType(), t.LongType(), t.FloatType(), t.DoubleType(), t.BooleanType()]
    types += [t.DecimalType(10, 2), t.StringType(), t.BinaryType(), t.DateType(), t.TimestampType()]
    types += [t.TimestampNTZType(), t.ArrayType(t.ShortType()), nested]
    of = t.StructType([t.StructField(f"column{number}", dtype) for number, dtype in enumerate(types)])
    for _ in range(2):
        lake.sink(output_info(output="late"), of)


def test_a_type_that_the_table_cannot_store_is_rejected(lake: Lake) -> None:
    of = schema(results={"words": t.MapType(t.StringType(), t.LongType())})
    with pytest.raises(ev.PlanError, match="'words' is map<string,bigint>, which the table cannot store"):
        lake.sink(output_info(), of)


def test_another_writer_that_commits_first_is_read_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, other = lake.sink(output_info(), schema()), lake.sink(output_info(query="other"), schema())
    put(sink, frame([row(shop="kiel", n=1)]), 0, output_info())
    table: LakeTable = sink.table  # type: ignore[attr-defined]
    read, interrupted = table.rows_in, []

    def interrupt(windows: Any) -> Any:
        rows = read(windows)
        if not interrupted:
            interrupted.append(True)
            put(other, frame([row(shop="oslo", n=5)]), 0, output_info(query="other"))
        return rows

    monkeypatch.setattr(table, "rows_in", interrupt)
    put(sink, frame([row(shop="kiel", n=1, diff=-1), row(shop="kiel", n=2, index=1)]), 1, output_info())
    assert sorted(lake.read().select("shop", "n").rows()) == [("kiel", 2), ("oslo", 5)]


@pytest.mark.parametrize("options", [{}, {"log": True}], ids=["table", "log"])
def test_a_batch_that_another_process_of_the_query_commits_first_is_not_written_twice(
    lake: Lake, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sink, other = (lake.sink(output_info(), schema(), **options) for _ in range(2))
    rows = frame([row(shop="kiel", n=1), row(shop="oslo", n=5)])
    table: LakeTable = sink.table  # type: ignore[attr-defined]
    for name in ("append", "replace"):
        write = after_a_commit(getattr(table, name), lambda: put(other, rows, 0, output_info()))
        monkeypatch.setattr(table, name, write)
    put(sink, rows, 0, output_info())
    assert sorted(lake.read()["n"].to_list()) == [1, 5]


def test_late_rows_that_another_process_of_the_query_commits_first_are_not_written_twice(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, of = output_info(output="late"), t.StructType([t.StructField("shop", t.StringType())])
    sink, other = (lake.sink(late, of) for _ in range(2))
    table: LakeTable = sink.table  # type: ignore[attr-defined]
    rows = pl.DataFrame({"shop": ["kiel", "oslo"]})
    monkeypatch.setattr(table, "append", after_a_commit(table.append, lambda: put(other, rows, 0, late)))
    put(sink, rows, 0, late)
    assert sorted(lake.read()["shop"].to_list()) == ["kiel", "oslo"]


def after_a_commit(write: Callable[..., None], commit: Callable[[], None]) -> Callable[..., None]:
    """Return a method of a table before which another process commits: after the sink has read the last batch."""

    def write_after_the_other(*arguments: Any) -> None:
        commit()
        write(*arguments)

    return write_after_the_other


class RemoteBatch(SinkBatch):
    """A batch whose rows the executors have."""

    @property
    def is_local(self) -> bool:
        return False


def test_a_large_batch_that_the_driver_collects_is_reported_once(lake: Lake) -> None:
    sink = lake.sink(output_info(), schema())
    for batch_id, size in enumerate([100, 300 << 20, 300 << 20]):
        rows = frame([row(shop="kiel", n=batch_id, start=batch_id)])
        batch = RemoteBatch(rows.to_arrow(compat_level=pl.CompatLevel.oldest()), NO_SESSION, size=size)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ev.DriverLimitWarning)
            sink.write(batch, batch_id, output_info())
        ours = [str(warning.message) for warning in caught if warning.category is ev.DriverLimitWarning]
        expected = ["Batch 1 has 300 MB for"] if batch_id == 1 else []
        assert [message.partition(" delta(")[0].partition(" iceberg(")[0] for message in ours] == expected


def test_a_batch_of_unknown_size_is_measured_when_it_is_collected(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eventide.sinks.lake_table._LARGE", 100_000)
    sink = lake.sink(output_info(), schema())
    for batch_id, count in enumerate([1, 5_000]):
        rows = frame([row(shop=f"shop {number}", n=1) for number in range(count)])
        batch = RemoteBatch(rows.to_arrow(compat_level=pl.CompatLevel.oldest()), NO_SESSION)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ev.DriverLimitWarning)
            sink.write(batch, batch_id, output_info())
        assert [warning.category for warning in caught if warning.category is ev.DriverLimitWarning] == (
            [ev.DriverLimitWarning] if batch_id else []
        )


def large_batch(batch_id: int, size: int) -> pl.DataFrame:
    """Panes of many shops. Each batch after the first retracts those of the previous one."""
    template = frame([row(shop="", n=0)])
    names = pl.int_range(size, eager=True).cast(pl.String)
    panes = pl.concat([template] * size).with_columns(shop=names, n=pl.lit(batch_id, template.schema["n"]))
    if not batch_id:
        return panes
    before = panes.with_columns(n=pl.lit(batch_id - 1, template.schema["n"]), diff=pl.lit(-1, template.schema["diff"]))
    after = panes.with_columns(pane_index=pl.lit(1, template.schema["pane_index"]))
    return pl.concat([before, after])


@pytest.mark.parametrize("kind", LAKES)
def test_a_writer_that_is_killed_between_data_and_commit_leaves_no_rows(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")
    size, folder = 20_000, tmp_path / "lake"
    lake = LAKES[kind](folder)
    put(lake.sink(output_info(), schema()), large_batch(0, size), 0, output_info())
    files, commits = set(folder.rglob("*.parquet")), lake.commits()
    command = [sys.executable, "-m", "tests.sinks.lake_job", kind, str(folder), "1", str(size)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert set(folder.rglob("*.parquet")) - files, "data was written"
    assert lake.commits() == commits, "and not committed"
    assert lake.read()["n"].value_counts().rows() == [(0, size)], "the files of the killed writer are not in the table"
    for _ in range(2):  # the restart, and a repetition
        put(lake.sink(output_info(), schema()), large_batch(1, size), 1, output_info())
        table = lake.read()
        assert table["n"].value_counts().rows() == [(1, size)] and table["shop"].n_unique() == size


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ev.sinks.delta(""), "name the table by its path"),
        (lambda: ev.sinks.iceberg("revenue"), "name the table with its namespace"),
        (lambda: ev.sinks.delta("lake", columns="n"), "columns"),
    ],
)
def test_a_mistake_is_rejected_at_once(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ev.PlanError, match=message):
        make()
