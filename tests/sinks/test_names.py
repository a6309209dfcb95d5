"""Columns and tables may have names that mean something to the database."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import types as t

import eventide as ev
from eventide import sinks
from eventide.sinks.table_sql import quoted
from tests.sinks.panes import frame, opened, output_info, row, schema
from tests.sinks.places import Place

NAMES = (
    *("rowid", "ROWID", "_rowid_", "oid", "excluded", "true", "false", "null", "t", "removed", "address"),
    *("copies", "nth", "candidates"),
    *("select", "order", "Group", "current_user", 'the "best" of', "it's", "a.b", "100%", "a?", "${x}", "ä" * 31),
    *("n" * 63, "last_batch", "batch_id", "query", "sink_table", "user", "CTID", "x; DROP TABLE panes"),
)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("row_grain", ["windows", "pairs"])
def test_a_column_of_any_name_is_a_key_or_a_value(place: Place, name: str, row_grain: str) -> None:
    """Each retraction removes its own row, and no other one."""
    for key, value in ((name, "n"), ("shop", name)):
        table = f"table_{value[:20]}".replace(".", "_")
        what = output_info(key=[key], row_grain=row_grain, query=key)
        store = opened(place, what, schema({key: t.LongType()}, {value: t.LongType()}), name=table)
        types = {key: frame([row(n=1)]).schema["n"], value: frame([row(n=1)]).schema["n"]}
        # Numbers that are also numbers of rows: a delete by rowid would hit other rows.
        standing = [row(**{key: number, value: 5 - number}) for number in (1, 2, 3, 4)]
        store.put(frame(standing, **types), "q", 0)
        store.put(frame([standing[3] | {"diff": -1}], **types), "q", 1)
        store.put(frame([standing[0] | {"diff": -1}, standing[0] | {value: 9, "pane_index": 1}], **types), "q", 2)
        kept = place.ask(f"SELECT {quoted(key)}, {quoted(value)} FROM {quoted(table)} ORDER BY 1")
        assert kept == [(1, 9), (2, 3), (3, 2)]
        store.close()


@pytest.mark.parametrize("name", [*NAMES[:-5], "t", "panes"])
def test_a_table_may_have_any_name(place: Place, name: str) -> None:
    name = name[:20].replace(".", "_")
    store = opened(place, output_info(), name=name)
    store.put(frame([row(shop="kiel", n=1), row(shop="rom", n=2)]), "q", 0)
    store.put(frame([row(shop="kiel", n=1, diff=-1), row(shop="rom", n=3, index=1)]), "q", 1)
    assert place.ask(f"SELECT shop, n FROM {quoted(name)}") == [("rom", 3)]
    store.close()


@pytest.mark.parametrize("name", ["eventide_batches", "eventide_removed", "EVENTIDE_CURRENT"])
def test_a_table_of_the_sink_is_rejected_as_a_target(place: Place, name: str) -> None:
    with pytest.raises(ev.PlanError, match="not one that the sink uses"):
        opened(place, output_info(), name=name)


@pytest.mark.parametrize("name", ["eventide_copies", "a\0b", ""])
def test_a_column_name_that_no_table_can_have_is_rejected(place: Place, name: str) -> None:
    with pytest.raises(ev.PlanError, match="a column has a name"):
        opened(place, output_info(), schema(results={name: t.LongType()}))


def test_a_table_of_sqlite_keeps_one_name_for_the_number_of_a_row(sqlite: Place) -> None:
    of = schema(results={name: t.LongType() for name in ("rowid", "OID", "_rowid_")})
    with pytest.raises(ev.PlanError, match="SQLite needs one of the names rowid, _rowid_, oid"):
        opened(sqlite, output_info(), of)


def test_a_users_column_with_a_default_must_not_hide_the_number_of_a_row(sqlite: Place) -> None:
    opened(sqlite, output_info()).close()
    sqlite.tell("ALTER TABLE panes ADD COLUMN RowId INTEGER DEFAULT 1")
    with pytest.raises(ev.PlanError, match="RowId"):
        opened(sqlite, output_info())


@pytest.mark.parametrize("name", ["ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"])
def test_a_system_column_of_postgresql_is_rejected_by_name(postgres: Place, name: str) -> None:
    with pytest.raises(ev.PlanError, match=f"'{name}' is a system column of PostgreSQL"):
        opened(postgres, output_info(), schema(results={name: t.LongType()}))


@pytest.mark.parametrize("name", ["n" * 64, "ä" * 32])
def test_a_name_that_postgresql_would_cut_off_is_rejected(postgres: Place, sqlite: Place, name: str) -> None:
    of = schema(results={name: t.LongType()})
    with pytest.raises(ev.PlanError, match="longer than 63 bytes"):
        opened(postgres, output_info(), of)
    opened(sqlite, output_info(), of).close()


def test_a_path_is_no_address_of_a_database() -> None:
    with pytest.raises(ev.PlanError, match=r"is a path.*sqlite:////data/panes\.db"):
        sinks.table(Path("/data/panes.db"))  # type: ignore[arg-type]
    with pytest.raises(ev.PlanError, match=r"sqlite:///panes\.db"):
        sinks.table(Path("panes.db"))  # type: ignore[arg-type]
