"""Processors that think in rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventide as ev
from tests.effort import examples
from tests.processors.cases import MINUTE, rows

STREAM = ev.stream(time="t", key="k", watermark=ev.ascending())
OUTPUT = {"k": pl.String, "n": pl.Int64}


class Counting(ev.RowProcessor):
    """How many rows of a key there were; a zero starts anew."""

    state_schema: ClassVar = {"n": pl.Int64}

    def process_row(self, edge: str, row: dict[str, Any], state: dict[str, Any]) -> Any:
        if row["v"] == 0:
            state.clear()
            return None
        if row["v"] < 0:
            state["n"] = -99
            raise ValueError("below zero")
        state["n"] = (state["n"] or 0) + row["v"]
        return {"k": row["k"], "n": state["n"]}


def observed(processor: ev.RowProcessor, *bundles: pl.DataFrame, output: Any = OUTPUT, **options: Any) -> Any:
    pipeline = STREAM.process(processor, output=output, **options)
    return pipeline.local(list(bundles), clock=list(range(len(bundles))))


def test_the_state_of_a_key_goes_from_row_to_row_and_from_bundle_to_bundle() -> None:
    result = observed(Counting(), rows((1, "a", 1), (1, None, 1), (1, "a", 1)), rows((2, "a", 1), (2, None, 1)))
    assert result.panes.rows() == [("a", 1), (None, 1), ("a", 2), ("a", 3), (None, 2)]


def test_a_state_that_was_cleared_is_forgotten() -> None:
    result = observed(Counting(), rows((1, "a", 5)), rows((2, "a", 0), (2, "b", 1)))
    assert result.steps[-1].open_panes == 1
    result = observed(Counting(), rows((1, "a", 5)), rows((2, "a", 0), (2, "a", 1)))
    assert result.panes.rows() == [("a", 5), ("a", 1)]


def test_a_state_of_which_nothing_is_left_is_forgotten() -> None:
    class Emptied(ev.RowProcessor):
        state_schema: ClassVar = {"n": pl.Int64}

        def process_row(self, edge: str, row: dict[str, Any], state: dict[str, Any]) -> None:
            if row["v"] == 0:
                state.clear()
            elif row["v"] > 1:
                state["n"] = row["v"]

    cleared_and_left_alone = rows((2, "a", 0), (2, "a", 1))
    assert observed(Emptied(), rows((1, "a", 5)), cleared_and_left_alone).steps[-1].open_panes == 0


def test_a_key_that_is_no_number_is_matched_again_when_it_is_alone() -> None:
    alone = rows((1, "a", 1)).with_columns(k=pl.lit(float("nan")))
    result = observed(Counting(), alone, alone, output={"k": pl.Float64, "n": pl.Int64})
    assert result.panes["n"].to_list() == [1, 2]
    assert result.steps[-1].open_panes == 1


def test_a_frozen_dataclass_may_be_a_processor() -> None:
    @dataclass(frozen=True)
    class Above(ev.RowProcessor):
        limit: int

        def process_row(self, edge: str, row: dict[str, Any], state: dict[str, Any]) -> Any:
            self.set_timer(row["t"])
            return {"k": row["k"], "n": row["v"]} if row["v"] > self.limit else None

    assert observed(Above(3), rows((1, "a", 3), (1, "b", 4))).panes.rows() == [("b", 4)]


def test_rows_can_be_yielded() -> None:
    class Twice(ev.RowProcessor):
        def process_row(self, edge: str, row: dict[str, Any], state: dict[str, Any]) -> Any:
            yield {"k": row["k"], "n": 1}
            yield {"k": row["k"]}

    assert observed(Twice(), rows((1, "a", 1))).panes.rows() == [("a", 1), ("a", None)]


def test_a_row_knows_its_input_its_time_and_whether_it_is_late() -> None:
    class Tell(ev.RowProcessor):
        def process_row(self, edge: str, row: dict[str, Any], state: dict[str, Any]) -> Any:
            assert set(row) == {"t", "k", "v"}
            return {"k": edge, "at": self.time, "late": self.late}

    output = {"k": pl.String, "at": pl.Datetime("us", "UTC"), "late": pl.Boolean}
    result = observed(Tell(), rows((1, "a", 1)), rows((0, "a", 1)), output=output)
    begin = datetime(1970, 1, 1, tzinfo=UTC)
    assert result.panes.rows() == [("rows", begin + timedelta(minutes=1), False), ("rows", begin, True)]


def test_timers_of_a_row_belong_to_its_key() -> None:
    class Ping(ev.RowProcessor):
        state_schema: ClassVar = {"n": pl.Int64}
        clock = True

        def process_row(self, edge: str, row: dict[str, Any], state: dict[str, Any]) -> None:
            state["n"] = row["v"]
            self.set_timer(self.time + timedelta(minutes=1))
            self.set_timer(row["t"] + 5 * MINUTE, name="never")
            self.remove_timer(name="never")
            self.set_timer("1970-01-01T00:00:00Z", name="clock", clock=True)

        def on_timer_row(self, row: dict[str, Any], state: dict[str, Any]) -> Any:
            n = state["n"]
            if not row["clock"]:
                state.clear()
            return {"k": row["k"] + row["timer"], "n": n}

    query = STREAM.process(Ping(), output=OUTPUT).start_local()
    assert query.push(rows((0, "a", 1), (0, "b", 2)), now=0).panes.rows() == [("aclock", 1), ("bclock", 2)]
    step = query.push(rows((1, "b", 3)), now=1)
    assert step.panes.rows() == [("bclock", 3), ("a", 1)]
    assert step.open_panes == 2  # the state and the timer of b


class Chain(ev.RowProcessor):
    """Timers a at 5, b at 6 and c at 9; the first does something to the others."""

    def __init__(self, do: str) -> None:
        self.do = do

    def process_row(self, edge: str, row: dict[str, Any], state: dict[str, Any]) -> None:
        if row["v"]:
            for name, at in (("a", 5), ("b", 6), ("c", 9)):
                self.set_timer(at * MINUTE, name=name)

    def on_timer_row(self, row: dict[str, Any], state: dict[str, Any]) -> Any:
        assert self.time == row["at"]
        match self.do, row["timer"]:
            case "remove b", "a":
                self.remove_timer(name="b")
            case "move b", "a":
                self.set_timer(self.time + timedelta(minutes=2), name="b")
            case "remove c by the second a", "a" if row["at"].minute == 5:
                self.set_timer(self.time + timedelta(minutes=3), name="a")
            case "remove c by the second a", "a":
                self.remove_timer(name="c")
        return {"k": row["k"] + row["timer"], "n": row["at"].minute}


CHAINS = {
    "remove b": [("xa", 5), ("xc", 9)],
    "move b": [("xa", 5), ("xb", 7), ("xc", 9)],
    "remove c by the second a": [("xa", 5), ("xb", 6), ("xa", 8)],
}


@pytest.mark.parametrize("do", CHAINS)
@pytest.mark.parametrize("steps", [[], [5], [5, 6, 7, 8]], ids=["at once", "in two steps", "in many"])
def test_what_a_timer_does_to_later_ones_holds_however_far_the_watermark_jumps(do: str, steps: list[int]) -> None:
    query = STREAM.process(Chain(do), output=OUTPUT).start_local()
    query.push(rows((1, "x", 1)), now=0)
    observed = [query.push(rows((minute, "x", 0)), now=0).panes for minute in [*steps, 59]]
    assert pl.concat(observed).rows() == CHAINS[do]


@pytest.mark.parametrize("do", ["remove b", "move b"])
def test_at_the_end_of_the_stream_too(do: str) -> None:
    assert observed(Chain(do), rows((1, "x", 1))).panes.rows() == CHAINS[do]


class Tangle(ev.RowProcessor):
    """Timers a, b and c, each of which sets others to so many minutes later, or removes them (None)."""

    state_schema: ClassVar = {"n": pl.Int64}

    def __init__(self, first: dict[str, int], then: dict[str, dict[str, int | None]]) -> None:
        self.first, self.then = first, then

    def process_row(self, edge: str, row: dict[str, Any], state: dict[str, Any]) -> None:
        if row["v"]:
            state["n"] = 0
            self._ask(self.first)

    def on_timer_row(self, row: dict[str, Any], state: dict[str, Any]) -> Any:
        state["n"] += 1
        if state["n"] < 6:
            self._ask(self.then[row["timer"]])
        return {"k": row["timer"], "n": row["at"].minute}

    def _ask(self, timers: Mapping[str, int | None]) -> None:
        for name, minutes in timers.items():
            if minutes is None:
                self.remove_timer(name=name)
            else:
                self.set_timer(self.time + timedelta(minutes=minutes), name=name)


later = st.integers(1, 3)
asks = st.fixed_dictionaries({}, optional=dict.fromkeys("abc", later | st.none()))


@settings(max_examples=examples(20), deadline=None)
@given(
    st.fixed_dictionaries(dict.fromkeys("abc", later)),
    st.fixed_dictionaries(dict.fromkeys("abc", asks)),
)
def test_timers_of_a_key_do_not_depend_on_the_steps_of_the_watermark(
    first: dict[str, int], then: dict[str, dict[str, int | None]]
) -> None:
    def fired(*minutes: int) -> list[Any]:
        query = STREAM.process(Tangle(first, then), output=OUTPUT).start_local()
        for minute in [0, *minutes, 59]:
            query.push(rows((minute, "x", int(minute == 0))), now=0)
        return query.result.panes.rows()

    assert fired() == fired(*range(1, 13))


@pytest.mark.parametrize("apart", [0, MINUTE], ids=["at one instant", "one after the other"])
def test_many_timers_of_a_key_may_each_set_one_that_is_due_at_once(apart: int) -> None:
    class Many(ev.RowProcessor):
        def process_row(self, edge: str, row: dict[str, Any], state: dict[str, Any]) -> None:
            for i in range(row["v"]):
                self.set_timer(row["t"] + i * apart, name=f"{i}")

        def on_timer_row(self, row: dict[str, Any], state: dict[str, Any]) -> Any:
            if "again" not in row["timer"]:
                self.set_timer(self.time, name=row["timer"] + " again")
            return {"k": row["timer"], "n": 1}

    query = STREAM.process(Many(), output=OUTPUT).start_local()
    query.push(rows((1, "x", 150)), now=0)
    query.push(rows((999, "x", 0)), now=0)
    assert query.result.panes.height == 300


def test_a_timer_touches_those_of_its_own_key_alone() -> None:
    query = STREAM.process(Chain("remove b"), output=OUTPUT).start_local()
    query.push(rows((1, "x", 1), (1, "y", 1)), now=0)
    observed = query.push(rows((59, "x", 0)), now=0).panes.sort("k").rows()
    assert observed == [("xa", 5), ("xc", 9), ("ya", 5), ("yc", 9)]


def test_a_row_that_fails_stops_the_query_and_is_named() -> None:
    failed = r"Counting.process_row failed at .*, line \d+: ValueError: below zero; .*'v': -1"
    with pytest.raises(ev.DataError, match=failed):
        observed(Counting(), rows((1, "a", 1), (1, "a", -1)))


def test_a_row_that_fails_can_be_a_dead_letter_and_leaves_no_trace() -> None:
    result = observed(Counting(), rows((1, "a", 1), (1, "a", -1), (1, "b", -1), (1, "a", 1)), on_error="dead")
    assert result.panes.rows() == [("a", 1), ("a", 2)]
    assert result.dead.select("k", "v", "ev_reason").rows() == [("a", -1, "failed"), ("b", -1, "failed")]
    assert (
        result.dead["ev_detail"].str.contains(r"^ValueError: below zero \(in Counting.process_row, line \d+\)$").all()
    )
    assert result.metrics.balanced and result.steps[-1].open_panes == 1


class Misfit(ev.RowProcessor):
    state_schema: ClassVar = {"n": pl.Int64}

    def process_row(self, edge: str, row: dict[str, Any], state: dict[str, Any]) -> Any:
        match row["v"]:
            case 1:
                return {"k": row["k"], "n": "many"}
            case 2:
                return {"k": row["k"], "m": 1}
            case 3:
                state["n"] = "many"
            case 4:
                state["m"] = 1
            case 5:
                return 5
        return {"k": row["k"], "n": row["v"]}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (1, "'n' is 'many', which is not Int64 as declared"),
        (2, "'m' was not declared. There are: 'k', 'n'."),
        (3, "'n' is 'many', which is not Int64 as declared"),
        (4, "'m' was not declared. There are: 'n'."),
        (5, "'int' object is not iterable"),
    ],
)
def test_what_a_row_gives_must_fit(value: int, why: str) -> None:
    with pytest.raises(ev.DataError) as raised:
        observed(Misfit(), rows((1, "a", value)))
    assert "Misfit.process_row failed" in str(raised.value) and why in str(raised.value)
    result = observed(Misfit(), rows((1, "a", value), (1, "a", 9)), on_error="dead")
    assert why in result.dead["ev_detail"][0]
    assert result.panes["n"].to_list() == [9] and result.steps[-1].open_panes == 0


def test_a_timer_that_fails_stops_the_query_even_then() -> None:
    class Bad(Counting):
        def process_row(self, edge: str, row: dict[str, Any], state: dict[str, Any]) -> Any:
            self.set_timer(0)

        def on_timer_row(self, row: dict[str, Any], state: dict[str, Any]) -> Any:
            raise KeyError("lost")

    with pytest.raises(ev.DataError, match=r"Bad.on_timer_row failed at .*, line \d+: KeyError: 'lost'; .*'k': 'a'"):
        observed(Bad(), rows((1, "a", 1)), on_error="dead")


def test_explain_says_that_python_runs_for_each_row() -> None:
    assert "runs Python for each row" in STREAM.process(Counting(), output=OUTPUT).explain()
