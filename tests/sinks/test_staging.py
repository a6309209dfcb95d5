"""Staged batches: the same table as from rows in memory, whatever is repeated, retried or left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from random import Random
from typing import Any

import polars as pl
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import types as t

import eventide as ev
from eventide.sinks import staged_tables
from eventide.sinks.sink import OutputInfo
from eventide.sinks.staged_rows import put_in_parts
from eventide.sinks.staged_tables import PostgresStaging, WrittenPart, write_parts
from eventide.sinks.table_merge import TableStore
from eventide.sinks.table_sink import TableSink, table
from eventide.sinks.table_sql import Statements
from tests.effort import examples
from tests.sinks.panes import MINUTE, Row, frame, opened, output_info, row, schema, shape, summed
from tests.sinks.places import Place
from tests.sinks.test_tables import ALL, SEEN, WIDE, histories

TABLES = "SELECT tablename FROM pg_tables WHERE tablename LIKE 'eventide_staging_%' AND schemaname = current_schema()"


def staging_of(place: Place, info: OutputInfo, of: t.StructType | None = None, **options: Any) -> PostgresStaging:
    """The staging of a table, as the first batch of a new driver finds it."""
    store = opened(place, info, of, **options)
    layout = shape(info, of)
    return PostgresStaging(store._database, store, Statements(store._table, layout, "postgres"))


def stage(staging: PostgresStaging, batch_id: int, parts: Sequence[pl.DataFrame], query: str = "q") -> tuple[str, Any]:
    """Write each part as a task does. Return the staging table, and what the driver receives."""
    name = staging._table(query, batch_id)
    types = {"eventide_attempt": "bigint", **staged_tables.staged_types(staging.sql)}
    staging.store.on_connection(
        lambda target: target.run(f"CREATE UNLOGGED TABLE {name} ({staged_tables.definitions(types)})"),
        batch_id,
    )
    staging._may_be_left = True
    return name, [write(staging, name, part) for part in parts]


def write(staging: PostgresStaging, name: str, part: pl.DataFrame) -> WrittenPart:
    written = write_parts(staging.database, staging.sql, name, iter([part]))
    assert written is not None
    return written


def put(staging: PostgresStaging, batch_id: int, parts: Sequence[pl.DataFrame], query: str = "q") -> None:
    name, written = stage(staging, batch_id, parts, query)
    staging.merge(name, written, query, batch_id)
    staging.clean(query, batch_id)


def scattered(rows: pl.DataFrame, rng: Random) -> list[pl.DataFrame]:
    """The rows in up to three parts, in no order: even rows of one window may be in two parts."""
    parts = [rng.randrange(3) for _ in range(rows.height)]
    indices = [[i for i, part in enumerate(parts) if part == number] for number in range(3)]
    return [rows[index] for index in indices if index]


@given(history=histories(), seed=st.integers(0, 1000))
@settings(max_examples=examples(10), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_table_of_staged_batches_equals_the_sum_of_the_diffs(
    postgres: Place, history: list[list[Row]], seed: int
) -> None:
    rng = Random(seed)
    staging = staging_of(postgres, output_info(key=["shop", "size"]), WIDE)
    postgres.tell("DELETE FROM panes", "DELETE FROM eventide_batches")
    everything = frame([row(shop="", size=0.0, n=0, x=0.0)]).clear()
    for batch_id, batch in enumerate(history):
        if not batch:
            continue
        rows = frame(batch)
        everything = pl.concat([everything, rows.select(everything.columns)])
        for _ in range(rng.choice([1, 2])):
            put(staging, batch_id, scattered(rows, rng))
        assert postgres.counted(ALL) == summed(everything, SEEN)
    staging.store.close()
    assert postgres.ask(TABLES) == []


def pairs(seed: int) -> list[pl.DataFrame]:
    """Batches of a window join: equal rows several times, added and retracted, with nulls."""
    rng, standing, batches = Random(seed), Counter[tuple[Any, ...]](), []
    for batch_id in range(4):
        rows = []
        for _ in range(rng.randrange(1, 9)):
            value = (rng.choice(["kiel", None]), rng.choice([0, MINUTE]), rng.choice([1, 2, None]))
            diff = -1 if standing[value] and rng.random() < 0.5 else 1
            standing[value] += diff
            rows.append(row(value[1], shop=value[0], n=value[2], diff=diff, index=batch_id))
        batches.append(frame(rows))
    return batches


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("mode", "grain"), [("retracting", "pairs"), ("accumulating", "pairs"), ("discarding", "pairs"), ("discarding", "")]
)
@pytest.mark.parametrize("in_parts", [False, True], ids=["staged", "in parts"])
def test_every_kind_of_table_is_the_same_as_from_rows_in_memory(
    place: Place, mode: str, grain: str, seed: int, in_parts: bool
) -> None:
    info = output_info(mode, row_grain=grain or "windows")
    expected, store = opened(place, info, name="expected"), opened(place, info, name="staged")
    sql = Statements("staged", shape(info), store._database.dialect)
    rng = Random(seed)
    for batch_id, rows in enumerate(pairs(seed)):
        if mode != "retracting":
            rows = rows.with_columns(diff=pl.lit(1, pl.Int8)).unique(["shop", "window_start", "pane_index", "n"])
        if not grain:
            rows = rows.unique(["shop", "window_start"])
        parts = scattered(rows, rng)
        expected.put(rows, "q", batch_id)
        if place.kind == "sqlite" or in_parts:
            put_in_parts(store, sql, partial(iter, parts), "q", batch_id)
        else:
            put(PostgresStaging(store._database, store, sql), batch_id, parts)
        columns = "shop, window_start, window_end, n, pane_index" if mode != "retracting" else "shop, window_start, n"
        assert place.counted(f"SELECT {columns} FROM staged") == place.counted(f"SELECT {columns} FROM expected")
    assert place.ask("SELECT 1 FROM staged LIMIT 1")
    expected.close()
    store.close()


@pytest.fixture
def kiel(postgres: Place) -> Iterator[PostgresStaging]:
    """A table with one row."""
    staging = staging_of(postgres, output_info())
    put(staging, 0, [frame([row(shop="kiel", n=1)])])
    yield staging
    staging.store.close()


def counts(place: Place) -> list[tuple[Any, ...]]:
    return place.ask("SELECT shop, n FROM panes ORDER BY shop, n")


CORRECTED = [
    frame([row(shop="kiel", n=1, diff=-1), row(shop="kiel", n=2, index=1)]),
    frame([row(shop="rom", n=7), row(shop="ulm", n=8)]),
]
AFTER = [("kiel", 2), ("rom", 7), ("ulm", 8)]


def test_only_attempts_whose_success_the_driver_received_are_merged(postgres: Place, kiel: PostgresStaging) -> None:
    name, written = stage(kiel, 1, CORRECTED)
    write(kiel, name, CORRECTED[1])  # a second attempt of the same task, which succeeded too
    write(kiel, name, frame([row(shop="oslo", n=9)]))  # an attempt that died after it had written
    kiel.merge(name, written, "q", 1)
    assert counts(postgres) == AFTER


def test_a_failed_attempt_leaves_no_rows(postgres: Place, kiel: PostgresStaging) -> None:
    name, _ = stage(kiel, 1, [])

    def failing() -> Iterator[pl.DataFrame]:
        for _ in range(2):
            yield pl.concat([CORRECTED[1]] * 30_000)
        raise RuntimeError("in the middle of a partition")

    with pytest.raises(RuntimeError, match="in the middle"):
        write_parts(kiel.database, kiel.sql, name, failing())
    assert postgres.ask(f"SELECT count(*) FROM {name}") == [(0,)]


def test_a_batch_that_is_repeated_after_the_merge_changes_nothing(postgres: Place, kiel: PostgresStaging) -> None:
    put(kiel, 1, CORRECTED)
    put(kiel, 1, [frame([row(shop="oslo", n=9)])])
    put(kiel, 0, [frame([row(shop="oslo", n=9)])])
    assert counts(postgres) == AFTER
    assert postgres.ask("SELECT * FROM eventide_batches") == [("q", "panes", 1)]
    assert postgres.ask(TABLES) == []


def test_a_driver_that_dies_between_staging_and_merge_leaves_what_the_next_one_drops(
    postgres: Place, kiel: PostgresStaging
) -> None:
    left, _ = stage(kiel, 1, CORRECTED)
    of_another_query, _ = stage(kiel, 1, CORRECTED, query="another")
    assert counts(postgres) == [("kiel", 1)]
    restarted = staging_of(postgres, output_info())
    restarted.clean("q", 1)
    assert postgres.ask(TABLES) == [(of_another_query.strip('"'),)]
    put(restarted, 1, CORRECTED)
    assert counts(postgres) == AFTER
    with pytest.raises(ev.DataError, match=f"relation {left} does not exist"):
        kiel.merge(left, [WrittenPart(1, 1)], "q", 2)  # the old driver was not dead after all
    assert counts(postgres) == AFTER
    restarted.store.close()


def test_a_driver_that_was_replaced_does_not_drop_the_tables_of_its_successor(
    postgres: Place, kiel: PostgresStaging
) -> None:
    left, _ = stage(kiel, 1, CORRECTED)
    successor = staging_of(postgres, output_info())
    successor.clean("q", 1)
    name, written = stage(successor, 1, CORRECTED)
    kiel.clean("q", 1)  # the old driver was not dead: it ends its batch
    put(kiel, 0, CORRECTED)
    assert postgres.ask(TABLES) == [(name.strip('"'),)] and name != left
    successor.merge(name, written, "q", 1)
    assert counts(postgres) == AFTER
    successor.clean("q", 1)
    assert postgres.ask(TABLES) == []
    successor.store.close()


def test_rows_that_a_crash_of_the_server_removed_are_missed(postgres: Place, kiel: PostgresStaging) -> None:
    name, written = stage(kiel, 1, CORRECTED)
    postgres.tell(f"TRUNCATE {name}")  # what a crash of the server does to an UNLOGGED table
    with pytest.raises(ev.DataError, match=r"Batch 1 was not written .* 0 of 3 staged rows"):
        kiel.merge(name, written, "q", 1)
    assert counts(postgres) == [("kiel", 1)]
    assert not kiel.store.has("q", 1)
    put(kiel, 1, CORRECTED)
    assert counts(postgres) == AFTER


def test_a_merge_that_fails_changes_nothing(postgres: Place, kiel: PostgresStaging) -> None:
    postgres.tell("ALTER TABLE panes ADD CONSTRAINT no_ulm CHECK (shop <> 'ulm')")
    name, written = stage(kiel, 1, CORRECTED)
    with pytest.raises(ev.DataError, match="no_ulm"):
        kiel.merge(name, written, "q", 1)
    assert counts(postgres) == [("kiel", 1)]
    postgres.tell("ALTER TABLE panes DROP CONSTRAINT no_ulm")
    kiel.merge(name, written, "q", 1)
    assert counts(postgres) == AFTER


def test_a_table_that_an_abandoned_attempt_holds_is_dropped_with_the_next_batch(
    postgres: Place, kiel: PostgresStaging, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_tables, "_SHORT_WAIT", "SET LOCAL lock_timeout = '50ms'")
    name, written = stage(kiel, 1, CORRECTED)
    with psycopg.connect(postgres.url) as abandoned:
        abandoned.execute(f"LOCK TABLE {name} IN ROW EXCLUSIVE MODE")  # as COPY does
        kiel.merge(name, written, "q", 1)
        kiel.clean("q", 1)
        assert counts(postgres) == AFTER
        assert postgres.ask(TABLES) == [(name.strip('"'),)]
    kiel.clean("q", 2)
    assert postgres.ask(TABLES) == []


def test_late_rows_are_appended_once(postgres: Place) -> None:
    of = t.StructType().add("shop", "string")
    staging = staging_of(postgres, output_info(output="late"), of)
    for batch_id in (0, 0, 1):
        put(staging, batch_id, [pl.DataFrame({"shop": ["kiel", None]}), pl.DataFrame({"shop": ["kiel"]})])
    assert postgres.counted("SELECT shop FROM late") == {("kiel",): 4, (None,): 2}
    staging.store.close()


def test_the_staging_table_is_in_the_schema_of_the_table(postgres: Place) -> None:
    postgres.tell("DROP SCHEMA IF EXISTS staged_sales CASCADE", "CREATE SCHEMA staged_sales")
    staging = staging_of(postgres, output_info(), name="staged_sales.panes")
    name, _ = stage(staging, 0, CORRECTED[1:])
    assert name.startswith('"staged_sales"."eventide_staging_') and len(name.split(".")[1].strip('"')) <= 63
    staging.clean("q", 0)
    assert postgres.ask("SELECT 1 FROM pg_tables WHERE schemaname = 'staged_sales' AND tablename <> 'panes'") == []
    staging.store.close()


class Sized:
    """A batch of the executors, as far as the choice needs it."""

    def __init__(self, size: int | None, *, is_local: bool = False) -> None:
        self.size, self.is_local = size, is_local


@pytest.mark.parametrize(
    ("url", "options", "batch", "route"),
    [
        ("postgresql://db/shop", {}, Sized(1000), "collected"),
        ("postgresql://db/shop", {}, Sized(1 << 30), "staged"),
        ("postgresql://db/shop", {}, Sized(None), "staged"),
        ("postgresql://db/shop", {}, Sized(1 << 30, is_local=True), "collected"),
        ("postgresql://db/shop", {"staged": False}, Sized(1000), "collected"),
        ("postgresql://db/shop", {"staged": False}, Sized(1 << 30), "in parts"),
        ("postgresql://db/shop", {"staged": True}, Sized(1000), "staged"),
        ("postgresql://db/shop", {"create": False}, Sized(1 << 30), "in parts"),
        ("sqlite:///shop.db", {"create": False}, Sized(1 << 30), "in parts"),
        ("sqlite:///shop.db", {"staged": True}, Sized(1000), "in parts"),
    ],
)
def test_the_size_of_a_batch_of_executors_decides_how_it_reaches_the_table(
    url: str, options: Any, batch: Any, route: str
) -> None:
    sink = table(url, **options)
    assert isinstance(sink, TableSink)
    assert sink._route(batch) == route


def test_a_sink_that_opens_drops_what_a_killed_driver_left(postgres: Place, kiel: PostgresStaging) -> None:
    stage(kiel, 1, CORRECTED)
    of_another_query, _ = stage(kiel, 1, CORRECTED, query="another")
    sink = table(postgres.url)
    sink.open(schema(), output_info())
    sink.close()
    assert postgres.ask(TABLES) == [(of_another_query.strip('"'),)]


def test_a_user_who_may_not_create_tables_stages_nothing(postgres: Place, kiel: PostgresStaging) -> None:
    ((mine,),) = postgres.ask("SELECT current_schema()")
    postgres.tell(
        "DROP ROLE IF EXISTS eventide_writer",
        "CREATE ROLE eventide_writer",
        f"GRANT USAGE ON SCHEMA {mine} TO eventide_writer",
    )
    kiel.store.on_connection(lambda connection: connection.run("SET ROLE eventide_writer"), 0)
    assert kiel.problem(None) == (  # type: ignore[arg-type]
        f"the user of {kiel.database.url} may not create tables in the schema of 'panes'"
    )
    kiel.store.on_connection(lambda connection: connection.run("RESET ROLE"), 0)
    postgres.tell(f"REVOKE ALL ON SCHEMA {mine} FROM eventide_writer", "DROP ROLE eventide_writer")


def test_a_wrong_option_is_rejected() -> None:
    with pytest.raises(ev.PlanError, match=r"sinks.table\(staged='yes'\): it must be True, False or None"):
        table("postgresql://db/shop", staged="yes")  # type: ignore[arg-type]
    with pytest.raises(ev.PlanError, match="staging creates tables"):
        table("postgresql://db/shop", staged=True, create=False)


def test_a_stream_of_parts_that_breaks_leaves_the_table(place: Place) -> None:
    store: TableStore = opened(place, output_info())
    sql = Statements("panes", shape(output_info()), store._database.dialect)

    def breaking() -> Iterator[pl.DataFrame]:
        yield CORRECTED[1]
        raise RuntimeError("an executor was lost")

    with pytest.raises(RuntimeError, match="was lost"):
        put_in_parts(store, sql, breaking, "q", 0)
    assert counts(place) == []
    for _ in range(2):
        put_in_parts(store, sql, lambda: CORRECTED, "q", 0)
    assert counts(place) == AFTER
    store.close()


def test_parts_are_read_again_after_a_lost_connection(postgres: Place) -> None:
    store: TableStore = opened(postgres, output_info())
    sql = Statements("panes", shape(output_info()), "postgres")
    reads = []

    def parts() -> Iterator[pl.DataFrame]:
        reads.append(1)
        yield CORRECTED[1]
        if len(reads) == 1:
            postgres.tell(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'eventide' AND pid <> pg_backend_pid() AND query LIKE '%eventide_staged%'"
            )

    put_in_parts(store, sql, parts, "q", 0)
    store.close()
    assert len(reads) == 2
    assert counts(postgres) == AFTER[1:]
