"""The pane table as a data structure, compared with a dict from an id to a pane."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from eventide.state.pane_table import CLOCK, DUE, HASH, PaneTable
from eventide.time import MAX, MIN
from tests.effort import examples

SCHEMA = {"id": pl.Int64, HASH: pl.UInt64, DUE: pl.Int64, CLOCK: pl.Int64}
NEVER = (0, 0)


@dataclass(frozen=True)
class Pane:
    id: int
    hash: int
    due: int
    clock: int | None

    def falls(self, hashes: set[int], due: tuple[int, int], clock: tuple[int, int]) -> bool:
        on_clock = self.clock is not None and clock[0] < self.clock <= clock[1]
        return self.hash in hashes or due[0] < self.due <= due[1] or on_clock


def frame(panes: list[Pane]) -> pl.DataFrame:
    return pl.DataFrame([(p.id, p.hash, p.due, p.clock) for p in panes], schema=SCHEMA, orient="row")


def probed(table: PaneTable, hashes: list[int], at_once: int = 100) -> list[tuple[int, int]]:
    """Which hash found which pane."""
    observed = table.probe(np.array(hashes, np.uint64), at_once=at_once)
    return sorted(
        (hashes[asked], id_)
        for state in observed
        for asked, id_ in zip(state.probes, table.runs[state.run].panes["id"].gather(state.rows), strict=True)
    )


def ids(table: PaneTable) -> list[int]:
    panes = table.scan()
    return [] if panes is None else sorted(panes["id"].to_list())


def taken_ids(taken: list[pl.DataFrame]) -> list[int]:
    return sorted(i for part in taken for i in part["id"])


def wanted(hashes: set[int]) -> pl.Series:
    return pl.Series(sorted(hashes), dtype=pl.UInt64)


hashes = st.integers(0, 6) | st.just(2**64 - 1)
times = st.integers(-5, 5)
spans = st.tuples(times, times).map(lambda pair: (min(pair), max(pair)))
drawn = st.tuples(hashes, times | st.just(MAX), times | st.none())


class PaneTableMachine(RuleBasedStateMachine):
    """Takes and puts in any order, with all versions kept."""

    def __init__(self) -> None:
        super().__init__()
        self.table = PaneTable()
        self.model: dict[int, Pane] = {}
        self.next = 0
        self.versions: list[tuple[PaneTable, list[int]]] = []

    @rule(new=st.lists(drawn, max_size=6))
    def put(self, new: list[tuple[int, int, int | None]]) -> None:
        panes = [Pane(self.next + i, *fields) for i, fields in enumerate(new)]
        self.next += len(panes)
        self.table = self.table.put(frame(panes))
        self.model |= {pane.id: pane for pane in panes}

    @rule(some=st.sets(hashes, max_size=3), due=spans, clock=spans)
    def take(self, some: set[int], due: tuple[int, int], clock: tuple[int, int]) -> None:
        self.table, taken = self.table.take(wanted(some), due=due, clock=clock)
        gone = [pane for pane in self.model.values() if pane.falls(some, due, clock)]
        assert taken_ids(taken) == sorted(pane.id for pane in gone)
        assert all(part.height for part in taken)
        for pane in gone:
            del self.model[pane.id]

    @rule(some=st.sets(hashes, min_size=1, max_size=3))
    def take_and_put_back(self, some: set[int]) -> None:
        table, taken = self.table.take(wanted(some), due=NEVER, clock=NEVER)
        self.table = table.put(pl.concat(taken)) if taken else table

    @rule()
    def remember(self) -> None:
        self.versions.append((self.table, sorted(self.model)))

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        assert ids(self.table) == sorted(self.model)
        assert self.table.height == len(self.model)

    @invariant()
    def memory_follows_what_is_open(self) -> None:
        assert all(run.live_rows for run in self.table.runs)

    def teardown(self) -> None:
        for table, stored in self.versions:
            assert ids(table) == stored


TestPaneTable = PaneTableMachine.TestCase
TestPaneTable.settings = settings(max_examples=examples(20), stateful_step_count=20)


def test_a_pane_is_due_after_the_first_and_up_to_the_second_bound() -> None:
    table = PaneTable().put(frame([Pane(i, i, i, None) for i in range(5)]))
    _, taken = table.take(wanted(set()), due=(1, 3), clock=NEVER)
    assert taken_ids(taken) == [2, 3]


def test_a_pane_without_a_clock_is_never_due_on_it() -> None:
    table = PaneTable().put(frame([Pane(1, 1, MAX, None), Pane(2, 2, MAX, 7)]))
    _, taken = table.take(wanted(set()), due=NEVER, clock=(MIN, MAX - 1))
    assert taken_ids(taken) == [2]


def test_draining_takes_everything() -> None:
    table = PaneTable().put(frame([Pane(1, 1, 5, None), Pane(2, 2, MAX, None)]))
    table, taken = table.take(wanted(set()), due=(MIN, MAX), clock=NEVER)
    assert taken_ids(taken) == [1, 2] and table.height == 0 and table.scan() is None


def test_one_hash_can_have_many_panes() -> None:
    table = PaneTable().put(frame([Pane(i, i % 2, MAX, None) for i in range(6)]))
    _, taken = table.take(wanted({1}), due=NEVER, clock=NEVER)
    assert taken_ids(taken) == [1, 3, 5]


def test_a_pane_found_by_hash_and_by_time_is_taken_once() -> None:
    table = PaneTable().put(frame([Pane(1, 1, 5, 5)]))
    _, taken = table.take(wanted({1}), due=(0, 9), clock=(0, 9))
    assert taken_ids(taken) == [1]


def test_hashes_may_repeat_and_be_unsorted() -> None:
    table = PaneTable().put(frame([Pane(i, i, MAX, None) for i in range(4)]))
    _, taken = table.take(pl.Series([3, 1, 3], dtype=pl.UInt64), due=NEVER, clock=NEVER)
    assert taken_ids(taken) == [1, 3]


def test_nothing_put_is_the_same_table() -> None:
    table = PaneTable().put(frame([Pane(1, 1, 5, None)]))
    assert table.put(frame([])) is table


@given(st.lists(st.integers(1, 40), max_size=30))
def test_runs_stay_few(sizes: list[int]) -> None:
    table, start = PaneTable(), 0
    for size in sizes:
        table = table.put(frame([Pane(start + i, start + i, MAX, None) for i in range(size)]))
        start += size
    assert table.height == start
    assert len(table.runs) <= max(1, start).bit_length() + 1


@pytest.mark.parametrize("left", [100, 400, 900])
def test_a_run_that_is_mostly_taken_is_rewritten(left: int) -> None:
    table = PaneTable().put(frame([Pane(i, i, MAX, None) for i in range(1000)]))
    table, _ = table.take(wanted(set(range(left, 1000))), due=NEVER, clock=NEVER)
    table = table.put(frame([Pane(-1, 5000, MAX, None)]))
    assert table.height == left + 1
    assert sum(run.panes.height for run in table.runs) <= 2 * table.height + 1


def test_a_pane_put_back_with_a_later_time_falls_due_again() -> None:
    table = PaneTable().put(frame([Pane(1, 1, 5, None)]))
    table, _ = table.take(wanted(set()), due=(0, 5), clock=NEVER)
    table = table.put(frame([Pane(1, 1, 9, None)]))
    _, soon = table.take(wanted(set()), due=(5, 8), clock=NEVER)
    _, then = table.take(wanted(set()), due=(8, 9), clock=NEVER)
    assert (taken_ids(soon), taken_ids(then)) == ([], [1])


@pytest.mark.parametrize("at_once", [1, 2, 100])
def test_probing_finds_every_pane_of_every_hash_asked_for_and_leaves_it(at_once: int) -> None:
    table = PaneTable().put(frame([Pane(i, i % 3, 9, None) for i in range(6)]))
    table = table.put(frame([Pane(6, 1, 9, None)]))
    assert probed(table, [1, 1, 2, 7], at_once) == sorted([(1, i) for i in (1, 4, 6)] * 2 + [(2, 2), (2, 5)])
    assert ids(table) == list(range(7))


def test_probing_does_not_find_what_was_taken() -> None:
    table = PaneTable().put(frame([Pane(i, 1, i, None) for i in range(1, 6)]))
    table, _ = table.take(pl.Series([], dtype=pl.UInt64), due=(0, 2), clock=NEVER)
    assert probed(table, [1]) == [(1, 3), (1, 4), (1, 5)]


def test_what_was_found_can_be_taken_from_its_place() -> None:
    table = PaneTable().put(frame([Pane(i, i, 9, None) for i in range(8)])).put(frame([Pane(8, 3, 9, None)]))
    places = {run.run: run.rows for run in table.probe(np.array([3], np.uint64))}
    table, taken = table.take_at(places)
    assert sorted(pl.concat(taken)["id"]) == [3, 8]
    assert ids(table) == [0, 1, 2, 4, 5, 6, 7]
