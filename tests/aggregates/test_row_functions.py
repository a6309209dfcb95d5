"""User-written code: where it runs, and what happens when it raises."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

import eventide.aggregates as ev
from eventide.errors import DataError, PlanError

ROWS = pl.DataFrame({"shop": ["x", "x", "y", "x"], "n": [1, 0, 0, 4], "at": [1, 2, 3, 4]})


def inverse_sum(total: float, n: int) -> float:
    return total + 1 / n


def add(first: Any, other: Any) -> Any:
    return first + other


def start(rows: pl.DataFrame = ROWS, **aggregates: ev.Aggregate) -> tuple[ev.Bound, ev.Started]:
    bound = ev.bind(aggregates, rows.schema, time="at")
    return bound, bound.start(rows, ["shop"])


def test_a_row_that_fails_is_reported_and_counts_nowhere() -> None:
    bound, started = start(
        n=ev.count(),
        total=ev.sum("n"),
        seen=ev.collect_list("n"),
        inverse=ev.fold(0.0, inverse_sum, merge=add, column="n"),
    )
    assert started.failed is not None
    assert started.failed.dtype == pl.UInt32
    assert started.failed.to_list() == [1, 2]
    assert started.reasons == ["ZeroDivisionError: division by zero (in fold: inverse_sum)"] * 2
    assert bound.results(started.cells).rows() == [("x", 2, 5, [1, 4], 1.25)]


def test_a_row_that_fails_in_one_aggregate_is_taken_out_of_the_others() -> None:
    seen = ev.fold("", lambda text, n: text + str(n), merge=add, column="n")
    bound, started = start(seen=seen, inverse=ev.fold(0.0, inverse_sum, merge=add, column="n"))
    assert bound.results(started.cells).rows() == [("x", "14", 1.25)]


def test_a_row_that_fails_only_because_another_was_removed_is_reported_at_its_position() -> None:
    def not_two(total: int, n: int) -> int:
        return total + 10 // (n - 2)

    def without_gap(last: int, n: int) -> int:
        if last and n != last + 1:
            raise ValueError(f"{last + 1} is missing")
        return n

    rows = pl.DataFrame({"shop": "x", "n": [1, 2, 3], "at": 0})
    gap = ev.fold(0, without_gap, merge=max, column="n")
    _, started = start(rows, gap=gap, total=ev.fold(0, not_two, merge=add, column="n"))
    assert started.failed is not None
    assert started.failed.to_list() == [1, 2]
    assert started.reasons[1] == "ValueError: 2 is missing (in fold: without_gap)"


def test_when_all_rows_fail_there_are_no_cells_but_the_types_are_right() -> None:
    bound, started = start(ROWS[1:3], n=ev.count(), i=ev.fold(0.0, inverse_sum, merge=add, column="n"))
    assert started.cells.height == 0
    assert dict(started.cells.schema) == {"shop": pl.String} | bound.schema
    assert started.failed is not None
    assert started.failed.to_list() == [0, 1]


def test_without_failures_nothing_is_reported() -> None:
    _, started = start(n=ev.fold(0, add, merge=add, column="n"))
    assert started.failed is None
    assert started.reasons == []


class Careless(ev.Aggregate):
    """Changes its state first, and raises afterwards."""

    dtype = pl.List(pl.Int64)

    def create(self) -> list[int]:
        return []

    def add(self, state: list[int], row: dict[str, Any]) -> list[int]:
        state.append(row["n"])
        if row["n"] % 2:
            raise ValueError("odd")
        return state

    def merge(self, first: list[int], other: list[int]) -> list[int]:
        return first + other


def test_a_failed_row_leaves_no_trace_in_a_state_that_was_changed_in_place() -> None:
    rows = pl.DataFrame({"shop": "x", "n": [2, 3, 4, 5, 7, 6], "at": 0})
    bound, started = start(rows, seen=Careless())
    assert bound.results(started.cells).rows() == [("x", [2, 4, 6])]
    assert started.failed is not None
    assert started.failed.to_list() == [1, 3, 4]


def test_a_state_that_breaks_later_rows_does_not_condemn_them() -> None:
    def strict(seen: list[int], n: int) -> list[int]:
        seen.append(n)
        if 0 in seen:
            raise ValueError("a zero")
        return seen

    _, started = start(seen=ev.fold([], strict, merge=add, column="n", dtype=pl.List(pl.Int64)))
    assert started.failed is not None
    assert started.failed.to_list() == [1, 2]


def test_on_error_raise_stops_and_names_function_row_and_cause() -> None:
    with pytest.raises(DataError, match=r"fold: inverse_sum failed on the row 0: ZeroDivisionError") as stopped:
        start(i=ev.fold(0.0, inverse_sum, merge=add, column="n", on_error="raise"))
    assert isinstance(stopped.value.__cause__, ZeroDivisionError)


def test_a_merge_that_raises_names_function_and_key() -> None:
    def no_merge(first: int, other: int) -> int:
        raise RuntimeError("cannot")

    bound, started = start(n=ev.fold(0, add, merge=no_merge, column="n"))
    two_of_x = pl.concat([started.cells, started.cells.filter(shop="x")])
    with pytest.raises(DataError, match="fold: no_merge failed for shop='x': RuntimeError: cannot"):
        bound.merge(two_of_x, ["shop"])


def test_a_result_that_raises_names_method_and_key() -> None:
    class Broken(Careless):
        def add(self, state: list[int], row: dict[str, Any]) -> list[int]:
            return [*state, row["n"]]

        def result(self, state: list[int]) -> list[int]:
            raise KeyError("gone") if len(state) > 1 else ValueError

    bound, started = start(ROWS[:2], x=Broken())
    with pytest.raises(DataError, match=r"Broken\.result failed for shop='x': KeyError: 'gone'"):
        bound.results(started.cells)


def test_a_fold_without_merge_that_raises_names_function_and_key() -> None:
    bound, started = start(i=ev.fold(0.0, inverse_sum, column="n"))
    with pytest.raises(DataError, match=r"fold: inverse_sum failed for shop='.': ZeroDivisionError"):
        bound.results(started.cells)


def test_a_result_of_the_wrong_type_is_rejected() -> None:
    bound, started = start(n=ev.fold("", lambda _, row: row["n"], merge=add))
    with pytest.raises(DataError, match="a result is not String, as dtype= promises"):
        bound.results(started.cells)


def test_a_state_that_cannot_be_stored_is_rejected() -> None:
    with pytest.raises(DataError, match="its state cannot be pickled"):
        start(n=ev.fold(0, lambda state, row: lambda: row, merge=add))


def test_each_key_gets_its_own_initial_value() -> None:
    def gather(seen: list[int], row: dict[str, Any]) -> list[int]:
        seen.append(row["n"])
        return seen

    bound, started = start(all=ev.fold([], gather, merge=add, dtype=pl.List(pl.Int64)))
    assert dict(bound.results(started.cells).rows()) == {"x": [1, 0, 4], "y": [0]}


def test_two_lambdas_do_not_share_a_state() -> None:
    rows = {"n": [1, 2, 3]}
    low = ev.reduce(lambda a, b: a if a < b else b, "n")
    high = ev.reduce(lambda a, b: a if a > b else b, "n")
    assert ev.try_out(rows, low=low, high=high) == {"low": 1, "high": 3}


def test_reads_narrows_what_a_row_holds() -> None:
    class Columns(Careless):
        dtype = pl.List(pl.String)
        reads = ("at", "n")

        def add(self, state: list[str], row: dict[str, Any]) -> list[str]:
            return list(row)

    assert ev.try_out(ROWS, seen=Columns()) == {"seen": ["at", "n"]}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ev.fold(0, "x"), "fold: fn='x' is not a function"),
        (lambda: ev.fold(0, add, merge=3), "fold: merge=3 is not a function"),
        (lambda: ev.reduce(None, "n"), "reduce: fn=None is not a function"),
        (lambda: ev.fold([], add), r"cannot be inferred from \[\]\. Set it, such as dtype="),
        (lambda: ev.fold(0, add, on_error="skip"), "on_error='skip' is not one of"),
        (lambda: ev.fold(0, add, on_error="dead_letter"), 'is not one of "dead", "raise"'),
        (
            lambda: ev.bind({"n": ev.reduce(add, "m")}, ROWS.schema, time="at"),
            r"reduce\(add, m\): there is no column 'm'",
        ),
        (lambda: ev.bind({"n": ev.Aggregate()}, ROWS.schema, time="at"), "has no bind"),
        (lambda: ev.try_out(ROWS, n=Undeclared()), "Undeclared.* has no result type"),
    ],
)
def test_mistakes_are_rejected_when_the_plan_is_built(make: Any, message: str) -> None:
    with pytest.raises(PlanError, match=message):
        make()


class Undeclared(ev.Aggregate):
    def add(self, state: Any, row: Any) -> Any:
        return state
