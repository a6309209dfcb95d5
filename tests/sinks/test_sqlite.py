"""What only SQLite can show: it has few types, and lives in the process that may be killed."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest
from pyspark.sql import types as t

import eventide as ev
from eventide import sinks
from tests.sinks.panes import MINUTE, frame, opened, output_info, row, schema
from tests.sinks.places import Place

KILLED = """
import os, sys
from tests.sinks.panes import output_info, frame, opened, row
from tests.sinks.places import Place

store = opened(Place("sqlite", sys.argv[1]), output_info())
store.put(frame([row(shop="kiel", n=1)]), "q", 0)
raw = store._connection.raw
raw.create_function("die", 0, lambda: os._exit(9))
raw.execute("CREATE TEMP TRIGGER die BEFORE INSERT ON panes WHEN new.n = 13 BEGIN SELECT die(); END")
store.put(frame([row(shop="kiel", n=1, diff=-1), *(row(shop=str(n), n=n) for n in range(20))]), "q", 1)
"""


def test_a_process_that_is_killed_in_the_middle_of_a_batch_leaves_the_table_as_it_was(sqlite: Place) -> None:
    root = Path(__file__).parents[2]
    killed = subprocess.run([sys.executable, "-c", KILLED, sqlite.url], cwd=root, capture_output=True, check=False)
    assert killed.returncode == 9, killed.stderr
    assert sqlite.ask("SELECT shop, n FROM panes") == [("kiel", 1)]
    restarted = opened(sqlite, output_info())
    assert not restarted.has("q", 1)
    restarted.put(frame([row(shop="rom", n=2)]), "q", 1)
    assert len(sqlite.ask("SELECT * FROM panes")) == 2
    restarted.close()


def test_nan_is_no_null_and_sorts_above_all_numbers(sqlite: Place) -> None:
    store = opened(sqlite, output_info(), schema(results={"x": t.DoubleType()}))
    numbers = [1e300, float("nan"), None, float("inf"), -1.0]
    store.put(frame([row(i * MINUTE, shop="kiel", x=x) for i, x in enumerate(numbers)]), "q", 0)
    values = [x for (x,) in sqlite.ask("SELECT x FROM panes ORDER BY x")]
    assert values == [None, -1.0, 1e300, float("inf"), "NaN"]
    store.close()


def test_a_decimal_loses_no_digit(sqlite: Place) -> None:
    store = opened(sqlite, output_info(), schema(results={"price": t.DecimalType(38, 10)}))
    price = Decimal("1234567890123456789012345678.0123456789")
    store.put(frame([row(shop="kiel", price=price)], price=pl.Decimal(38, 10)), "q", 0)
    assert sqlite.ask("SELECT price FROM panes") == [(str(price),)]
    store.close()


def test_text_may_hold_a_zero_character(sqlite: Place) -> None:
    store = opened(sqlite, output_info())
    store.put(frame([row(shop="a\0b", n=1)]), "q", 0)
    assert sqlite.ask("SELECT shop FROM panes") == [("a\0b",)]
    store.close()


def test_a_directory_that_does_not_exist_is_rejected_early(tmp_path: Path) -> None:
    with pytest.raises(
        ev.PlanError, match=r"no connection to sqlite:///.*nowhere/panes.db: unable to open database file"
    ):
        sinks.table(f"sqlite:///{tmp_path}/nowhere/panes.db").open(schema(), output_info())


def test_a_file_that_is_no_database_is_rejected_early(tmp_path: Path) -> None:
    path = tmp_path / "panes.db"
    path.write_text("shop,n\n" * 1000)
    with pytest.raises(ev.PlanError, match="file is not a database"):
        sinks.table(f"sqlite:///{path}").open(schema(), output_info())


def test_a_few_rows_are_taken_out_through_the_index(sqlite: Place) -> None:
    store = opened(sqlite, output_info())
    store.put(frame([row(shop="kiel", n=1)]), "q", 0)
    connection = store._connection
    assert connection is not None
    connection.run(store._sql.stage("eventide_removed", store._layout.identity))
    plan = connection.query(f"EXPLAIN QUERY PLAN {store._sql.delete}", [])
    assert any("USING INDEX panes_identity" in detail for *_, detail in plan)
    store.close()


def test_an_error_that_is_none_of_the_database_rolls_back_and_releases_the_lock(
    sqlite: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = opened(sqlite, output_info()), opened(sqlite, output_info())
    store.put(frame([row(shop="kiel", n=1)]), "q", 0)
    batch = frame([row(shop="kiel", n=1, diff=-1), row(shop="rom", n=2)])
    with monkeypatch.context() as broken:
        broken.setattr("eventide.sinks.table_databases.to_values", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            store.put(batch, "q", 1)
    assert sqlite.ask("SELECT shop, n FROM panes") == [("kiel", 1)]
    other.put(frame([row(shop="oslo", n=3)]), "another", 0)  # without waiting for the lock
    store.put(batch, "q", 1)
    assert sorted(sqlite.ask("SELECT shop, n FROM panes")) == [("oslo", 3), ("rom", 2)]
    store.close()
    other.close()


def test_an_address_names_the_table_and_not_the_file(tmp_path: Path) -> None:
    sink = sinks.table(f"sqlite:///{tmp_path}/x.db#revenue")
    sink.open(schema(), output_info())
    sink.close()
    assert [file.name for file in tmp_path.iterdir() if "#" in file.name] == []
    assert Place("sqlite", f"sqlite:///{tmp_path}/x.db").ask("SELECT * FROM revenue") == []
