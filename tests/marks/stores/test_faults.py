"""Databases that are full, gone, locked, of another version, or none at all."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from eventide.errors import DataError, PlanError
from eventide.marks.stores import connect
from eventide.marks.stores import sql_dialects as sqlite_module
from eventide.marks.stores.sql_database import DatabaseStep, Rows, StoreDatabase, Values
from eventide.marks.stores.sql_dialects import PostgresStoreConnection, postgres_store, sqlite_store
from tests.marks.stores.cases import Clock, config, numbers_in, part


def test_a_full_disk_leaves_nothing_half_written(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/marks.db"
    store = sqlite_store(url)
    store.create_stream("orders", config(2))
    handle = store.open_writer("orders", "till")
    store.append(handle, 1, [part(0, 1)])
    (connection,) = store._database._pool.idle
    raw = connection._raw  # type: ignore[attr-defined]
    raw.execute(f"PRAGMA max_page_count = {raw.execute('PRAGMA page_count').fetchone()[0] + 3}")
    large = part(1, *(number * 7919 % 1_000_003 for number in range(10_000)))
    with pytest.raises(DataError, match=rf"The store {url} failed: database or disk is full\. .*Check"):
        store.append(handle, 2, [part(0, 2), large], note=5)
    assert store.lengths("orders") == {0: 1, 1: 0} and store.notes("orders") == []
    assert numbers_in(store, "orders", 0) == [1]
    raw.execute("PRAGMA max_page_count = 1000000")
    assert store.append(handle, 2, [part(0, 2), large], note=5) == {0: 2, 1: 10_000}
    store.close()


def test_a_file_that_is_locked_for_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_module, "_LOCK_TIMEOUT", 0.05)
    store = sqlite_store(f"sqlite:///{tmp_path}/marks.db")
    other = sqlite3.connect(tmp_path / "marks.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DataError, match=r"marks\.db failed: database is locked"):
        store.create_stream("orders", config())
    assert store.streams() == []  # readers do not wait
    other.execute("ROLLBACK")
    store.create_stream("orders", config())
    store.close()


@pytest.mark.parametrize(("path", "cause"), [("nowhere/marks.db", "unable to open"), ("text.db", "not a database")])
def test_what_is_no_database(tmp_path: Path, path: str, cause: str) -> None:
    (tmp_path / "text.db").write_text("no database " * 1000)
    with pytest.raises(DataError, match=f"{path} failed: .*{cause}"):
        sqlite_store(f"sqlite:///{tmp_path}/{path}")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:"])
def test_an_address_without_a_file_is_rejected(url: str) -> None:
    with pytest.raises(PlanError, match=f"^'{url}' names no file"):
        connect(url)


def test_sqlite_waits_for_the_disk(tmp_path: Path) -> None:
    store = sqlite_store(f"sqlite:///{tmp_path}/marks.db")
    ((journal,),), ((synchronous,),) = store._database.read(
        lambda step: step.query(("PRAGMA journal_mode", ()), ("PRAGMA synchronous", ()))
    )
    assert (journal, synchronous) == ("wal", 2)
    store.close()


@pytest.mark.parametrize("version", ["UPDATE eventide_format SET version = 99", "DELETE FROM eventide_format"])
def test_another_version_is_rejected_by_sqlite(tmp_path: Path, version: str) -> None:
    url = f"sqlite:///{tmp_path}/marks.db"
    sqlite_store(url).close()
    with sqlite3.connect(tmp_path / "marks.db") as other:
        other.execute(version)
    with pytest.raises(DataError, match=r"marks.db was written by another version of Eventide \(format (99|unknown)"):
        sqlite_store(url)


def test_another_version_is_rejected_by_postgres(postgres_url: str) -> None:
    postgres_store(postgres_url).close()
    with psycopg.connect(postgres_url) as other:
        other.execute("UPDATE eventide_format SET version = 99")
    with pytest.raises(DataError, match=r"was written by another version of Eventide \(format 99"):
        postgres_store(postgres_url)


def test_a_server_that_is_not_there_is_named_without_the_password(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="The store postgresql://me:…@/shop") as caught:
        connect(f"postgresql://me:se@cret@/shop?host={tmp_path}&password=hidden")
    assert "cret" not in str(caught.value) and "hidden" not in str(caught.value)


def test_the_address_of_a_store_has_no_password(postgres_url: str) -> None:
    assert "secret" not in postgres_store(f"{postgres_url}&password=secret").url


def hung_up(url: str) -> None:
    """The server ends all other connections."""
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE application_name = 'eventide' AND pid <> pg_backend_pid()"
        )


def test_postgres_is_called_again_when_it_hung_up_in_between(postgres_url: str) -> None:
    store = postgres_store(postgres_url)
    store.create_stream("orders", config())
    handle = store.open_writer("orders", "till")
    hung_up(postgres_url)
    assert store.append(handle, 1, [part(0, 1)]) == {0: 1}
    hung_up(postgres_url)
    assert store.lengths("orders") == {0: 1}
    store.close()


def test_a_step_that_postgres_hung_up_on_before_its_end_is_done_again(postgres_url: str) -> None:
    store = postgres_store(postgres_url)
    tries = []

    def heartbeat(step: DatabaseStep) -> None:
        step.query(("SELECT 1", ()))
        step.execute("INSERT INTO eventide_controllers VALUES ('c', 1, 1)")
        tries.append(step)
        if len(tries) == 1:
            hung_up(postgres_url)
            step.query(("SELECT 1", ()))

    store._database.write(heartbeat)
    assert len(tries) == 2
    ((count,),) = store._database.read(lambda step: step.query(("SELECT count(*) FROM eventide_controllers", ())))[0]
    assert count == 1
    store.close()


class Fragile:
    """A connection that breaks when a step ends."""

    now = 0

    def __init__(self, log: list[str], breaks: int) -> None:
        self.log, self.breaks = log, breaks
        self.is_lost = self.is_in_doubt = False

    def query(self, *questions: tuple[str, Values]) -> list[Rows]:
        return [[] for _ in questions]

    def execute(self, order: str, values: Values = ()) -> None:
        self.log.append(order)

    def execute_many(self, order: str, rows: object) -> None:
        raise AssertionError

    @contextmanager
    def transaction(self) -> Iterator[None]:
        yield
        if len(self.log) <= self.breaks:
            self.is_lost = self.is_in_doubt = True
            raise ConnectionError("gone")

    def close(self) -> None:
        self.log.append("closed")


@pytest.mark.parametrize(("idempotent", "breaks", "log"), [(False, 1, 2), (True, 1, 3), (True, 9, 4)])
def test_a_step_whose_end_is_unknown_is_tried_once_more_only_if_that_is_harmless(
    idempotent: bool, breaks: int, log: int
) -> None:
    executed: list[str] = []
    database = StoreDatabase("db://me:secret@here", lambda: Fragile(executed, breaks), ConnectionError)
    if idempotent and breaks == 1:
        database.write(lambda step: step.execute("write"), idempotent=idempotent)
    else:
        with pytest.raises(DataError, match="The store db://me:…@here failed: gone"):
            database.write(lambda step: step.execute("write"), idempotent=idempotent)
    assert executed == ["write", "closed", "write", "closed"][:log]


def test_a_statement_that_postgres_rejects_ends_the_step_and_not_the_connection(postgres_url: str) -> None:
    store = postgres_store(postgres_url)
    store.create_stream("orders", config())

    def twice(step: DatabaseStep) -> None:
        for _ in range(2):
            step.execute("INSERT INTO eventide_controllers VALUES ('c', 1, 1)")

    with pytest.raises(DataError, match="duplicate key"):
        store._database.write(twice)
    assert store.controllers() == [] and store.streams() == ["orders"]
    store.close()


def test_postgres_has_the_time_of_the_server(postgres_url: str) -> None:
    store = postgres_store(postgres_url)
    with psycopg.connect(postgres_url) as other:
        question = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
        before = other.execute(question).fetchone()
        created = store.create_stream("orders", config()).created
        now = store.now()
        after = other.execute(question).fetchone()
    assert before is not None and after is not None and before[0] <= created <= now <= after[0]
    store.close()


def test_the_time_of_a_step_is_read_when_its_locks_are_held(postgres_url: str) -> None:
    """Else a step that waited for another would judge leases by a time before the other one."""
    connection = PostgresStoreConnection(postgres_url, None)
    with connection.transaction():
        connection.query(("SELECT pg_sleep(0.01)", ()))
        first = connection.now
        connection.query(("SELECT pg_sleep(0.01)", ()))
        assert connection.now >= first + 10_000
    connection.close()


def test_postgres_waits_for_its_disk_even_if_others_do_not(postgres_url: str) -> None:
    connection = PostgresStoreConnection(f"{postgres_url}%20-csynchronous_commit%3Doff", None)
    assert connection.query(("SHOW synchronous_commit", ())) == [[("on",)]]
    connection.close()


def test_controllers_that_died_leave_no_rows_behind(tmp_path: Path) -> None:
    clock = Clock()
    store = sqlite_store(f"sqlite:///{tmp_path}/marks.db", clock=clock)
    for number in range(20):
        store.heartbeat(f"c{number}", clock.time + 10)
        clock.time += 5
    ((rows,),) = store._database.read(lambda step: step.query(("SELECT count(*) FROM eventide_controllers", ())))[0]
    assert rows == len(store.controllers()) + 1  # one has died since the last beat
