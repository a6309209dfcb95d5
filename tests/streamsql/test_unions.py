"""``UNION ALL`` pairs columns by their place, as SQL does."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import eventide as ev

A = pl.DataFrame({"ts": [1], "x": [1], "y": [10], "k": ["a"]})
B = pl.DataFrame({"ts": [2], "x": [1], "y": [10], "k": ["b"]})


def sums(union: str, columns: str = "SUM(x) AS x, SUM(y) AS y", declared: str = "", **tables: pl.DataFrame) -> Any:
    query = f"{declared} SELECT {columns} FROM TUMBLE(({union}), DESCRIPTOR(ts), 1 hour)"
    return ev.sql(query).local({"a": A, "b": B} | tables).panes.drop("diff").row(0)


def test_columns_of_a_union_are_paired_by_their_place() -> None:
    assert sums("SELECT ts, x, y FROM a UNION ALL SELECT ts, y, x FROM b") == (11, 11)


def test_columns_of_a_union_are_called_as_in_the_first_part() -> None:
    other = B.rename({"ts": "at", "x": "u"})
    assert sums("SELECT ts, x, y FROM a UNION ALL SELECT at, u, y + 1 FROM b", b=other) == (2, 21)


def test_a_constant_of_a_union_needs_no_name_of_its_own() -> None:
    union = "SELECT ts, 'a' AS source FROM a UNION ALL SELECT ts, 'b' FROM b"
    assert sums(union, "COLLECT_SET(source) AS sources") == (["a", "b"],)


def test_a_union_by_name_pairs_columns_by_name() -> None:
    assert sums("SELECT ts, x, y FROM a UNION ALL BY NAME SELECT ts, y, x FROM b") == (2, 20)


def test_all_parts_of_a_union_are_paired_with_the_first() -> None:
    union = "SELECT ts, x, y FROM a UNION ALL SELECT ts, y, x FROM b UNION ALL SELECT ts, y AS x, x AS y FROM a"
    assert sums(union) == (21, 12)
    assert sums("SELECT ts, x, y FROM a UNION ALL (SELECT ts, y, x FROM b UNION ALL SELECT ts, x, y FROM a)") == (
        12,
        21,
    )


def test_a_select_of_a_union_names_the_columns_of_the_first() -> None:
    union = "SELECT ts, x, y FROM (SELECT ts, x, y FROM a UNION ALL SELECT ts, y, x FROM b) WHERE x > 1"
    assert sums(union) == (10, 1)


def test_what_a_watermark_reads_takes_no_place_in_a_union() -> None:
    declared = "CREATE STREAM b WATERMARK FOR ts AS ts PER k; CREATE STREAM a WATERMARK FOR ts AS ts PER k;"
    assert sums("SELECT ts, x, y FROM a UNION ALL SELECT ts, y, x FROM b", declared=declared) == (11, 11)


REJECTED = [
    ("SELECT ts, x FROM a UNION ALL SELECT ts, x, y FROM b", "the first part has 2 of them, this one 3"),
    ("SELECT ts, x FROM a UNION ALL BY NAME SELECT ts, y FROM b", "not all parts have 'x', 'y'"),
    ("SELECT ts, x FROM a UNION ALL SELECT ts, k FROM b", "the first input has Int64"),
]


@pytest.mark.parametrize(("union", "fault"), REJECTED)
def test_parts_of_a_union_that_differ_are_pointed_at(union: str, fault: str) -> None:
    with pytest.raises(ev.PlanError) as rejected:
        sums(union, "COUNT(*)")
    assert fault in str(rejected.value)
    *_, line, caret = str(rejected.value).split("\n")
    assert line[caret.index("^") :].startswith(("ts, y", "ts, x, y FROM b", "ts, x FROM a UNION ALL SELECT ts, k"))


def test_a_union_reads_queries_of_its_with() -> None:
    union = "WITH c AS (SELECT ts, y AS x, x AS y FROM a) SELECT ts, x, y FROM c UNION ALL SELECT ts, x, y FROM b"
    assert sums(union) == (11, 11)
