"""Expressions and queries give in process what DuckDB gives."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import duckdb
import pytest

import eventide as ev
from eventide.streamsql.compiler import parse_statements
from eventide.streamsql.expressions import evaluate
from tests.streamsql.generated import Expressions, query, rows

ROWS = rows(60)


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for setting in ("error_on_division_by_zero", "ieee_floating_point_ops"):  # a division by zero is null
            connection.execute(f"SET {setting} = false")
        connection.register("rows", ROWS.to_arrow())
        yield connection


def rounded(value: Any) -> Any:
    """Numbers of all types alike, to twelve digits; a remainder of -0.0 is 0. Instants as seconds, from any zone."""
    if isinstance(value, datetime):
        return value.timestamp()
    if isinstance(value, bool) or value is None or not hasattr(value, "__float__"):
        return value
    return float(f"{float(value):.11e}") + 0.0 if math.isfinite(float(value)) else float(value)


def in_order(table: list[tuple[Any, ...]]) -> list[str]:
    return sorted(repr(tuple(map(rounded, row))) for row in table)


def computed(expression: str) -> list[Any]:
    parsed = parse_statements(f"SELECT MAX({expression}) AS v FROM TUMBLE(rows, DESCRIPTOR(ts), INTERVAL '1' DAY)")
    return evaluate(ROWS, parsed.query.expressions[0].this.expressions[0]).to_list()


@pytest.mark.parametrize("seed", range(300))
def test_an_expression_has_the_values_of_duckdb(duck: duckdb.DuckDBPyConnection, seed: int) -> None:
    expression = Expressions(seed).any()
    expected = [row[0] for row in duck.execute(f"SELECT {expression} FROM rows ORDER BY id").fetchall()]
    values = computed(expression)
    assert list(map(rounded, values)) == list(map(rounded, expected)), expression


@pytest.mark.parametrize("seed", range(100))
def test_a_query_gives_the_rows_of_duckdb(duck: duckdb.DuckDBPyConnection, seed: int) -> None:
    ours, theirs = query(seed)
    declared = "CREATE STREAM rows WATERMARK FOR ts AS ts - INTERVAL '1' HOUR;"
    result = ev.sql(f"{declared} {ours}").local({"rows": ROWS})
    rows = result.panes.filter(diff=1).drop("diff")
    assert in_order(rows.rows()) == in_order(duck.execute(theirs).fetchall()), ours
