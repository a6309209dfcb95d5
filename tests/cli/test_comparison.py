"""Two tables of windows, side by side."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from eventide.cli.comparison import compare
from tests.cli.typed import typed

ROWS = st.dictionaries(st.text("ab", max_size=2), st.integers(0, 3)).map(
    lambda counts: [{"shop": shop, "n": n} for shop, n in counts.items()]
)


@given(ROWS)
def test_a_table_does_not_differ_from_itself(rows: list[dict[str, Any]]) -> None:
    result = compare(rows, reversed(rows), ["shop"])
    assert (result.windows, list(result.differences)) == (len(rows), [])


@given(ROWS, ROWS)
def test_a_window_is_reported_if_and_only_if_it_differs(
    table: list[dict[str, Any]], replay: list[dict[str, Any]]
) -> None:
    stored, other = ({row["shop"]: row["n"] for row in rows} for rows in (table, replay))
    expected = {shop for shop in {*stored, *other} if stored.get(shop) != other.get(shop)}
    assert {difference.identity["shop"] for difference in compare(table, replay, ["shop"]).differences} == expected


def test_only_the_columns_that_differ_are_reported() -> None:
    table, replay = ({"shop": "kiel", "n": 1, "total": total} for total in (5, 7))
    (difference,) = compare([table], [replay], ["shop"]).differences
    assert difference.lines() == [("kiel", "total", "5", "7")]


def test_sums_of_floats_may_differ_in_their_last_digits() -> None:
    assert not compare([{"k": 1, "x": 0.1 + 0.2}], [{"k": 1, "x": 0.3}], ["k"]).differences
    assert compare([{"k": 1, "x": 0.30001}], [{"k": 1, "x": 0.3}], ["k"]).differences


def test_a_stretch_that_ends_before_it_begins_is_rejected(tmp_path: Any) -> None:
    (tmp_path / "job.py").write_text(
        "import eventide as ev\n"
        "pipeline = ev.stream(time='ts', watermark=ev.bounded_delay('1m')).window(ev.tumbling('1m')).agg(n=ev.count())"
    )
    words = ["--sink", "sqlite:///p.db#t", "--from", "2026-03-02", "--to", "2026-03-01"]
    result = typed("replay", str(tmp_path / "job.py"), *words)
    assert result.exit_code == 2 and "the end must be after the start" in result.stderr
