"""What only PostgreSQL can show: connections that break, and two drivers at a time."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator
from typing import Any

import polars as pl
import psycopg
import pytest
from pyspark.sql import types as t

import eventide as ev
from eventide import sinks
from eventide.sinks.table_merge import TableStore
from eventide.sinks.table_sql import CLAIM_BATCH
from tests.sinks.panes import INSTANT, MINUTE, frame, opened, output_info, row, schema
from tests.sinks.places import Place

END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'eventide'"


@pytest.fixture
def store(postgres: Place) -> Iterator[TableStore]:
    store = opened(postgres, output_info())
    store.put(frame([row(shop="kiel", n=1)]), "q", 0)
    yield store
    store.close()


def counts(postgres: Place) -> list[tuple[Any, ...]]:
    return postgres.ask("SELECT shop, n FROM panes ORDER BY shop, n")


def test_a_connection_that_was_lost_between_batches_is_made_again(postgres: Place, store: TableStore) -> None:
    for batch_id in (1, 2):
        postgres.ask(END)
        store.put(frame([row(shop="kiel", n=batch_id + 1, index=batch_id)]), "q", batch_id)
        postgres.ask(END)
        assert store.has("q", batch_id)
    assert counts(postgres) == [("kiel", 3)]


def test_a_connection_that_is_lost_in_the_middle_leaves_the_table_as_it_was(postgres: Place, store: TableStore) -> None:
    postgres.tell(
        "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS "
        "$$ BEGIN IF new.n = 13 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN new; END $$",
        "CREATE TRIGGER die BEFORE INSERT ON panes FOR EACH ROW EXECUTE FUNCTION die()",
    )
    batch = frame([row(shop="kiel", n=1, diff=-1), *(row(shop=f"s{n:02}", n=n) for n in range(20))])
    with pytest.raises(ev.DataError, match=r"Batch 1 was not written .*: terminating connection"):
        store.put(batch, "q", 1)
    assert counts(postgres) == [("kiel", 1)]
    postgres.tell("DROP TRIGGER die ON panes")
    store.put(batch, "q", 1)
    assert [n for _, n in counts(postgres)] == list(range(20))


def test_a_commit_whose_answer_was_lost_is_not_done_twice(
    postgres: Place, store: TableStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = store._connection
    assert connection is not None
    execute = type(connection).execute

    def lose(self: Any, statement: str, values: Any) -> int:
        monkeypatch.undo()
        with psycopg.connect(postgres.url) as other:  # what the lost connection had done
            other.execute(CLAIM_BATCH.replace("?", "%s"), values)
            other.execute("UPDATE panes SET n = 2")
        postgres.ask(END)
        return execute(self, statement, values)

    monkeypatch.setattr(type(connection), "execute", lose)
    store.put(frame([row(shop="rom", n=2)]), "q", 1)
    assert counts(postgres) == [("kiel", 2)]


def test_of_two_drivers_with_the_same_batch_one_writes(postgres: Place, store: TableStore) -> None:
    with psycopg.connect(postgres.url) as other:
        other.execute(CLAIM_BATCH.replace("?", "%s"), ["q", "panes", 1])
        second = threading.Thread(target=store.put, args=(frame([row(shop="rom", n=2)]), "q", 1))
        second.start()
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'eventide' AND wait_event_type = 'Lock'"
        )
        while postgres.ask(waiting) == [(0,)]:
            assert second.is_alive()
    second.join(timeout=30)
    assert counts(postgres) == [("kiel", 1)]


def test_text_with_a_zero_character_is_rejected_with_the_reason(store: TableStore) -> None:
    with pytest.raises(ev.DataError, match="cannot contain a zero character"):
        store.put(frame([row(shop="a\0b", n=1)]), "q", 1)


def test_a_server_that_cannot_be_reached_is_rejected_early(tmp_path: Any) -> None:
    sink = sinks.table(f"postgresql://me:secret@/shop?host={tmp_path}")
    with pytest.raises(ev.PlanError, match="no connection to postgresql://me:…@/shop") as rejected:
        sink.open(schema(), output_info())
    assert "secret" not in str(rejected.value) + repr(sink)


def test_a_server_that_is_gone_stops_the_query(postgres: Place, store: TableStore, tmp_path: Any) -> None:
    postgres.ask(END)
    object.__setattr__(store._database, "conninfo", f"postgresql:///x?host={tmp_path}")
    with pytest.raises(ev.DataError, match=r"Batch 1 was not written .* a restart from the checkpoint"):
        store.put(frame([row(shop="rom", n=2)]), "q", 1)


def test_missing_privileges_are_reported_early(postgres: Place) -> None:
    with pytest.raises(ev.PlanError, match=r'cannot be prepared in .*: schema "nowhere" does not exist'):
        opened(postgres, output_info(), name="nowhere.panes")


def test_a_table_may_be_in_a_schema(postgres: Place) -> None:
    postgres.tell("DROP SCHEMA IF EXISTS sales CASCADE", "CREATE SCHEMA sales")
    store = opened(postgres, output_info(), name="sales.panes")
    store.put(frame([row(shop="kiel", n=1)]), "q", 0)
    assert postgres.ask("SELECT n FROM sales.panes") == [(1,)]
    store.close()


@pytest.mark.parametrize(
    ("of", "name"), [(schema(), "n" * 60), (schema(results={"ü" * 40: t.LongType()}), "panes")], ids=["table", "column"]
)
def test_a_name_that_would_be_cut_off(postgres: Place, of: t.StructType, name: str) -> None:
    with pytest.raises(ev.PlanError, match="longer than 63 bytes"):
        opened(postgres, output_info(), of, name=name)


def test_years_of_five_digits(postgres: Place, store: TableStore) -> None:
    store.put(frame([row(2**61 // MINUTE * MINUTE, shop="far", n=1)]), "q", 1)
    assert postgres.ask("SELECT window_start::text FROM panes WHERE shop = 'far'") == [("75039-04-04 19:00:00+00",)]


def test_an_instant_before_the_year_one_is_rejected(store: TableStore) -> None:
    with pytest.raises(ev.DataError, match="invalid input syntax"):
        store.put(frame([row(-62_200_000_000_000_000, shop="far", n=1)]), "q", 1)


def test_a_few_rows_are_taken_out_of_a_large_table_through_the_index(postgres: Place, store: TableStore) -> None:
    minutes = pl.int_range(20_000, dtype=pl.Int64, eager=True) * MINUTE
    rows = (
        frame([row(shop="kiel", n=1)])
        .select(pl.exclude("window_start", "window_end"))
        .join(
            pl.DataFrame({"window_start": minutes.cast(INSTANT), "window_end": (minutes + MINUTE).cast(INSTANT)}),
            how="cross",
        )
    )
    store.put(rows, "q", 1)
    postgres.tell("ANALYZE panes")
    sql = store._sql
    with psycopg.connect(postgres.url) as connection:
        connection.execute(sql.stage("eventide_removed", store._layout.identity))
        connection.execute("INSERT INTO eventide_removed SELECT window_start, window_end, shop FROM panes LIMIT 10")
        connection.execute("ANALYZE eventide_removed")
        plan = connection.execute(f"EXPLAIN {sql.delete}").fetchall()
    assert any("Index Scan using panes_identity" in line for (line,) in plan)


def test_an_opened_sink_can_be_sent_to_another_process(postgres: Place) -> None:
    sink = sinks.table(postgres.url)
    sink.open(schema(), output_info())
    assert repr(pickle.loads(pickle.dumps(sink))) == repr(sink)
