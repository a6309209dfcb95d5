"""What a sink rejects before the query starts, and how it says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyspark.sql import types as t

import eventide as ev
from eventide import sinks
from eventide.sinks.batch import SinkBatch
from eventide.sinks.sink import FunctionSink
from eventide.sinks.table_sql import CREATE_BATCHES, Statements
from tests.sinks.panes import frame, opened, output_info, row, schema, shape
from tests.sinks.places import Place


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("shop TEXT, n BIGINT", "window_start is missing"),
        ("{all}, extra TEXT", r"extra \([a-zA-Z]+\) is not written, and has no default"),
    ],
)
def test_a_table_with_other_columns(place: Place, columns: str, message: str) -> None:
    types = Statements("panes", shape(output_info()), "postgres" if place.kind == "postgres" else "sqlite").types
    place.tell(f"CREATE TABLE panes ({columns.format(all=', '.join(f'{n} {d}' for n, d in types.items()))})")
    with pytest.raises(ev.PlanError, match=r"The table 'panes' of .* has other columns") as rejected:
        opened(place, output_info())
    assert rejected.match(message)


def test_a_table_with_other_types(place: Place) -> None:
    opened(place, output_info())
    with pytest.raises(ev.PlanError, match=r"n is (bigint|INTEGER), and should be (text|TEXT)"):
        opened(place, output_info(), schema(results={"n": t.StringType()}))


def test_a_table_of_late_rows_gets_the_columns_that_a_source_has_gained(place: Place) -> None:
    before, now = (t.StructType([t.StructField(name, t.LongType()) for name in names]) for names in (["n"], ["n", "m"]))
    opened(place, output_info(output="late"), before)
    store = opened(place, output_info(output="late"), now)
    store.put(pl.DataFrame({"n": [1], "m": [2]}), "q", 0)
    assert place.ask("SELECT n, m FROM late") == [(1, 2)]
    store.close()
    with pytest.raises(ev.PlanError):
        opened(
            place,
            output_info(output="late"),
            t.StructType([*now.fields, t.StructField("o", t.LongType())]),
            create=False,
        )


def test_a_column_of_the_users_own_with_a_default_may_stay(place: Place) -> None:
    opened(place, output_info())
    place.tell("ALTER TABLE panes ADD COLUMN note TEXT DEFAULT 'none'")
    store = opened(place, output_info())
    store.put(frame([row(shop="kiel", n=1)]), "q", 0)
    assert place.ask("SELECT n, note FROM panes") == [(1, "none")]
    store.close()


def test_a_table_that_must_exist_can_be_made_as_the_message_says(place: Place) -> None:
    with pytest.raises(ev.PlanError, match="has no table 'eventide_batches'") as rejected:
        opened(place, output_info(), create=False)
    assert CREATE_BATCHES in str(rejected.value)
    place.tell(CREATE_BATCHES)
    with pytest.raises(ev.PlanError, match="has no table 'panes'") as rejected:
        opened(place, output_info(), create=False)
    place.tell(*str(rejected.value).split("\n  ")[1:])
    store = opened(place, output_info(), create=False)
    store.put(frame([row(shop="kiel", n=1)]), "q", 0)
    assert place.ask("SELECT n FROM panes") == [(1,)]
    store.close()


def test_nothing_is_created_if_the_table_is_rejected(place: Place) -> None:
    place.tell("CREATE TABLE panes (n INTEGER)")
    with pytest.raises(ev.PlanError):
        opened(place, output_info())
    with pytest.raises(Exception, match="eventide_batches"):
        place.ask("SELECT * FROM eventide_batches")


def test_a_table_without_the_index(place: Place) -> None:
    opened(place, output_info())
    place.tell("DROP INDEX panes_identity")
    with pytest.raises(ev.PlanError, match="create this index:\n  CREATE UNIQUE INDEX") as rejected:
        opened(place, output_info())
    place.tell(str(rejected.value).rsplit("\n  ", 1)[1])
    opened(place, output_info())


def test_a_table_of_another_accumulation_mode(place: Place) -> None:
    opened(place, output_info("retracting"))
    with pytest.raises(ev.PlanError, match="created for another accumulation mode"):
        opened(place, output_info("discarding"))


def test_only_the_columns_that_are_chosen_are_kept(place: Place) -> None:
    results = {"n": t.LongType(), "x": t.DoubleType()}
    store = opened(place, output_info(), schema(results=results), columns=["x"])
    for batch_id in range(2):
        store.put(frame([row(shop="kiel", n=1, x=2.5, index=batch_id)]), "q", batch_id)
    assert place.ask("SELECT * FROM panes") == [
        ("kiel", "1970-01-01T00:00:00.000000Z", "1970-01-01T00:01:00.000000Z", 2.5)
    ]
    store.close()


def test_key_and_window_alone_can_be_kept(place: Place) -> None:
    store = opened(place, output_info(), columns=[])
    for batch_id in range(2):
        store.put(frame([row(shop="kiel", n=1, index=batch_id)]), "q", batch_id)
    assert place.ask("SELECT shop FROM panes") == [("kiel",)]
    store.close()


@pytest.mark.parametrize(
    ("of", "options", "message"),
    [
        (schema(results={"Emitted_At": t.LongType()}), {}, "two columns would be called 'emitted_at'"),
        (schema(results={"SHOP": t.LongType()}), {}, "two columns would be called 'SHOP'"),
        (schema(), {"columns": ["m"]}, "there is no column 'm'. There are: 'shop', 'window_start'"),
        (schema(), {"columns": ["emited_at"]}, "Did you mean 'emitted_at'?"),
        (
            schema(results={"i": t.YearMonthIntervalType()}),
            {},
            "the column 'i' is interval year to month, which has no",
        ),
    ],
)
def test_rows_that_do_not_fit_a_table(sqlite: Place, of: t.StructType, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ev.PlanError) as rejected:
        opened(sqlite, output_info(), of, **options)
    assert message in str(rejected.value)


def test_a_column_without_a_type_in_sql_can_be_left_out(sqlite: Place) -> None:
    results = {"i": t.YearMonthIntervalType(), "n": t.LongType()}
    opened(sqlite, output_info(), schema(results=results), columns=["n"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: sinks.table("mysql://me:secret@db/x"),
            "sinks.table('mysql://me:…@db/x'): tables are in PostgreSQL",
        ),
        (lambda: sinks.table("panes.db"), "SQLite (sqlite:///path.db)"),
        (lambda: sinks.table("sqlite://"), "a database in memory is lost when its connection closes"),
        (lambda: sinks.table("sqlite:///:memory:"), "a database in memory is lost when its connection closes"),
        (lambda: sinks.table("sqlite:///x.db", name=""), "the name of a table is some text"),
        (
            lambda: sinks.table("sqlite:///x.db#a", name="b"),
            "the address names the table 'a'. Use one of the two names",
        ),
        (lambda: sinks.table("sqlite:///x.db", columns="n"), "use a list of names"),
        (lambda: sinks.spark_format("delta", mode="upsert"), "mode='upsert'): it must be one of 'append'"),
        (lambda: sinks.console(0), "a number of rows, at least 1"),
        (lambda: sinks.memory("my view"), "a name as SQL has them"),
        (lambda: sinks.memory("x", rows=0), "a number of rows, at least 1"),
    ],
)
def test_a_sink_that_cannot_be(make: Any, message: str) -> None:
    with pytest.raises(ev.PlanError) as rejected:
        make()
    assert message in str(rejected.value)
    assert "secret" not in str(rejected.value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("consol", "Did you mean 'console'?"),
        (Path("out/panes"), "sinks.files('out/panes')"),
        ("postgress://me:secret@db/x", "Did you mean 'postgresql'?"),
        (3, "3 (int) is not a sink"),
        (None, "None (NoneType) is not a sink"),
        (sinks.console, "Call it: sinks.console(…)"),
        (sinks.table, "Call it: sinks.table(…)"),
        (FunctionSink, "is not a sink"),
        (lambda batch: None, "is called as <lambda>(batch, batch_id)"),
    ],
)
def test_what_is_no_sink(value: Any, message: str) -> None:
    with pytest.raises(ev.PlanError) as rejected:
        sinks.as_sink(value)
    assert message in str(rejected.value)
    assert "secret" not in str(rejected.value)


def test_a_sink_stays_what_it_is() -> None:
    sink = sinks.noop()
    assert sinks.as_sink(sink) is sink


def test_a_function_is_called_with_each_batch() -> None:
    calls: list[Any] = []
    sink = sinks.as_sink(lambda batch, batch_id: calls.append((batch, batch_id)))
    sink.open(schema(), output_info())
    rows: Any = object()
    sink.write(SinkBatch(rows, None), 7, output_info())  # type: ignore[arg-type]
    sink.close()
    assert calls == [(rows, 7)]


@pytest.mark.parametrize("name", ["console", "noop"])
def test_two_sinks_have_a_name(name: str) -> None:
    assert repr(sinks.as_sink(name)).startswith(name)


def test_one_directory_does_not_take_two_outputs() -> None:
    sink = sinks.files("out")
    sink.open(schema(), output_info())
    with pytest.raises(ev.PlanError, match=r"files\('out', .*\) has the panes already; the late would overwrite them"):
        sink.open(schema(), output_info(output="late"))


def test_files_reject_rows_with_a_batch() -> None:
    with pytest.raises(ev.PlanError, match="the rows have a column 'Batch'"):
        sinks.files("out").open(schema({"Batch": t.StringType()}), output_info())


def test_a_table_that_was_not_opened(sqlite: Place) -> None:
    batch: Any = None
    with pytest.raises(ev.DataError, match="was not opened for the panes"):
        sinks.table(sqlite.url).write(batch, 0, output_info())


def test_a_batch_without_a_query(sqlite: Place) -> None:
    sink = sinks.table(sqlite.url)
    sink.open(schema(), output_info(query=""))
    batch: Any = None
    with pytest.raises(ev.DataError, match="query is empty"):
        sink.write(batch, 0, output_info(query=""))
