"""What must hold for every run of any plan, checked on its outputs without the model."""

from __future__ import annotations

import io
import re
from collections import Counter, defaultdict
from itertools import pairwise
from random import Random
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.local import LocalQuery
from tests.effort import examples
from tests.oracle.compare import panes_of
from tests.oracle.histories import (
    FAMILIES,
    HOUR,
    SCHEMA,
    History,
    Push,
    frame_of,
    on_the_calendar,
    pipeline_of,
    random_history,
    random_source,
    random_spec,
)
from tests.oracle.model import MAX, Pane, Row, Spec, aggregate, windows_at

EACH = ("repeat", ("count", 1))
TELLS_ALL = [
    ("watermark", None, EACH),
    ("watermark", EACH, EACH),
    ("watermark", ("repeat", ("delay", 10)), ("count", 2)),
    ("repeat", ("count", 2)),
    ("repeat", ("aligned", 10)),
    ("repeat", ("watermark", None, None)),
    ("never",),
]
BY_ROW = ("rows", "row_sessions")
ENDLESS = ("global", "offsets", "offset_sessions")
NUMBERED = ("offsets", "offset_sessions", "repeats")
BOUNDED = ("retained",)
GIVEN_BOUNDS = ("tumbling", "sliding", "cumulate", "global", "calendar")
SEEDS = range(min(4, examples(4)))


def a_history(family: str, seed: int, **changes: Any) -> History:
    """A random history that is drained, of a plan whose trigger loses nothing."""
    rng = Random(f"{family}/{seed}")
    spec = random_spec(rng, family)._replace(trigger=rng.choice(TELLS_ALL), skew=None)._replace(**changes)
    history = random_history(rng, spec, random_source(rng, spec))
    if history.pushes[-1].note != MAX:
        history = History(spec, history.source, (*history.pushes, Push((), history.pushes[-1].now, MAX)))
    return on_the_calendar(rng, history) if family == "calendar" else history


def opened(history: History, aggregates: Any = None) -> LocalQuery:
    """A query that has run through a history."""
    query = pipeline_of(history.spec, history.source, aggregates).start_local(SCHEMA)
    for push in history.pushes:
        query.push(frame_of(push.rows), now=push.now, watermark=push.note)
    return query


def panes(history: History) -> list[Pane]:
    return panes_of(opened(history).result.panes, history.spec)


def table(rows: list[Pane]) -> dict[Any, Any]:
    """The table that a reader of the changes ends up with: each window once, with its values."""
    total: Counter[Any] = Counter()
    for pane in rows:
        total[pane.key, pane.start, pane.end, pane.values] += pane.diff
    assert all(count in (0, 1) for count in total.values())
    standing = [entry for entry, count in total.items() if count]
    assert len({entry[:3] for entry in standing}) == len(standing)
    return {entry[:3]: entry[3] for entry in standing}


def all_rows(history: History) -> tuple[Row, ...]:
    return tuple(row for push in history.pushes for row in push.rows)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", GIVEN_BOUNDS)
def test_the_diffs_sum_to_the_table_of_all_rows(family: str, seed: int) -> None:
    history = a_history(family, seed, mode="retracting", lateness=10_000, lists=True)
    spec = history.spec
    content = defaultdict(list)
    for row in all_rows(history):
        for start, end in () if row.time is None else windows_at(spec.window, row.time):
            content[(row.key is not None, row.key or ""), start, end].append(row)
    assert table(panes(history)) == {window: aggregate(rows) for window, rows in content.items()}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in BOUNDED])
def test_a_stream_ends_where_a_batch_does_when_nothing_is_late(family: str, seed: int) -> None:
    lateness = 0 if family in BY_ROW else 10_000
    history = a_history(family, seed, mode="retracting", lateness=lateness)
    rows, (*_, last) = all_rows(history), history.pushes
    batch = History(history.spec, history.source, (Push(rows, last.now), Push((), last.now, MAX)))
    assert table(panes(history)) == table(panes(batch))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in ("calendar", *BOUNDED, *NUMBERED)])
def test_any_split_into_bundles_gives_the_same_table_when_no_row_is_late(family: str, seed: int) -> None:
    """The watermark is as high as it can be: just the least time that is still to come."""
    rng = Random(f"{family}/{seed}")
    spec = random_spec(rng, family)
    spec = spec._replace(
        mode="retracting", skew=None, lateness=0, trigger=rng.choice([("watermark", None, None), *TELLS_ALL])
    )
    rows = [Row(i, rng.choice(["a", "b", None]), rng.randint(0, 25), rng.randint(0, 9), 3) for i in range(14)]
    observed = []
    for split in range(4):
        if family not in BY_ROW:  # there, the order of arrival is the order of rows
            rows.sort(key=lambda row: (row.time + rng.choice([0, 0, 3]), row.id) if split else row.id)  # type: ignore[operator]
        cuts = [0, *sorted(rng.choices(range(15), k=split * 2)), 14]
        pushes = []
        for start, end in pairwise(cuts):
            least = min((row.time for row in rows[end:] if row.time is not None), default=MAX)
            pushes.append(Push(tuple(rows[start:end]), start, least))
        history = History(spec, ("none",), tuple(pushes))
        query = opened(history)
        assert query.result.late.is_empty()
        assert query.result.metrics.unemitted == 0
        observed.append(table(panes_of(query.result.panes, spec)))
    assert all(state == observed[0] for state in observed)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_key_window_index_and_diff_identify_a_pane_in_its_bundle(family: str, seed: int) -> None:
    """Readers of a topic recognize a repeated pane by them."""
    history = a_history(family, seed)
    if history.spec.window[0] not in BY_ROW:
        history = a_history(family, seed, lateness=20)
    key = pipeline_of(history.spec, history.source).plan.key
    for step in opened(history).result.steps:
        identity = [name for name in (*key, "window_start", "window_end", "pane_index", "diff") if name in step.panes]
        assert step.panes.select(identity).is_unique().all()


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_each_row_is_in_a_window_or_late_or_dead(family: str, seed: int) -> None:
    history = a_history(family, seed)
    result = opened(history, {"ids": ev.collect_list("id")}).result
    observed = set(result.panes["ids"].explode().drop_nulls())
    late, dead = result.late["id"].to_list(), result.dead["id"].to_list()
    assert sorted([*observed, *late, *dead]) == [row.id for row in all_rows(history)]
    metrics = result.metrics
    assert (metrics.kept, metrics.late, sum(metrics.dead.values())) == (len(observed), len(late), len(dead))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_panes_of_a_window_follow_each_other_as_they_should(family: str, seed: int) -> None:
    rng = Random(seed)
    trigger = random_spec(rng, family).trigger
    observed = defaultdict(list)
    for pane in panes(a_history(family, seed, trigger=trigger)):
        if pane.diff > 0:
            observed[pane.key, pane.start, pane.end].append(pane)
    for window in observed.values():
        timings = "".join(pane.timing[0] for pane in window)
        assert re.fullmatch("E*O?L*", timings), timings
        assert [pane.index for pane in window] == list(range(len(window)))
        assert [pane.is_first for pane in window] == [pane.index == 0 for pane in window]
        assert [pane.is_last for pane in window[:-1]] == [False] * (len(window) - 1)
        settled = [pane.nonspeculative_index for pane in window if pane.timing != "EARLY"]
        assert settled == list(range(len(settled)))
        assert all(pane.nonspeculative_index == -1 for pane in window if pane.timing == "EARLY")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_no_on_time_pane_is_behind_the_output_watermark(family: str, seed: int) -> None:
    history = a_history(family, seed)
    promised = -(2**63)
    for step in opened(history).result.steps:
        assert step.promise >= promised
        for pane in panes_of(step.panes, history.spec):
            if pane.diff > 0 and pane.timing != "LATE" and pane.time is not None:
                assert pane.time >= promised
        promised = step.promise


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", GIVEN_BOUNDS)
def test_both_layouts_of_state_give_the_same_panes(family: str, seed: int) -> None:
    observed = []
    for trigger in (("watermark", None, None), ("watermark", ("never",), None)):
        history = a_history(family, seed, trigger=trigger, lateness=0)
        query = opened(history)
        observed.append((pipeline_of(history.spec).plan.layout, query.result))
    (step, cells), (other, kept) = observed
    assert (step, other) == ("cells", "panes")
    assert cells.panes.equals(kept.panes)
    assert cells.late.equals(kept.late)
    assert cells.metrics == kept.metrics


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_is_stored_in_state_after_the_end(family: str, seed: int) -> None:
    query = opened(a_history(family, seed))
    assert sum(frame.height for frame in query.scan()) == 0
    assert query.result.steps[-1].open_panes == 0


def tables_of(query: LocalQuery) -> dict[str, int]:
    """How many rows each table of the state holds."""
    operator: Any = query._operator
    tables, _ = operator._windows.tables(query._state.store)  # type: ignore[union-attr]
    return {name: table.height for name, table in tables.items()}


@pytest.mark.parametrize("leap", [True, False], ids=["at once", "step by step"])
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in (*ENDLESS, *BY_ROW)])
def test_all_tables_are_empty_once_the_watermark_has_passed(family: str, seed: int, leap: bool) -> None:
    history = a_history(family, seed)
    if history.spec.by_row or history.spec.window == ("global",):
        return  # windows of rows end with rows, and the global window never does
    *pushes, last = history.pushes
    unit = HOUR if family == "calendar" else 1
    latest = max(row.time or 0 for row in all_rows(history) or [Row(0, None, 0)])
    beyond = latest + history.spec.lateness + (10**13 if family == "calendar" else 10**6)
    way = [] if leap else [latest + unit * step for step in (0, 1, 3, 6, 11, 20, 40, 70, 120)]
    passing = [Push((), last.now, note) for note in (*way, beyond)]
    query = opened(History(history.spec, history.source, (*pushes, *passing)))
    if query.result.steps[-1].watermark_us == beyond:
        assert not any(tables_of(query).values()), tables_of(query)


@pytest.mark.parametrize("seed", range(min(12, examples(12))))
def test_pieces_of_a_cut_session_are_freed_with_their_session(seed: int) -> None:
    """Also those that end long before the session does."""
    rng = Random(seed)
    spec = Spec(("sessions", 5, "merge", 7), rng.choice(TELLS_ALL), lateness=rng.choice([0, 3]))
    times = [rng.randint(0, 60) for _ in range(40)]
    pushes = [
        Push((Row(i, rng.choice("ab"), time, 1, 3),), i, max(times[: i + 1]) - 20) for i, time in enumerate(times)
    ]
    pushes += [Push((), 50, note) for note in range(40, 90, 3)]
    query = opened(History(spec, ("none",), tuple(pushes)))
    assert not any(tables_of(query).values()), tables_of(query)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_columns_that_a_plan_reads_are_all_that_it_needs(family: str, seed: int) -> None:
    history = a_history(family, seed)
    whole = pipeline_of(history.spec, history.source).start_local(SCHEMA)
    reads = whole._operator.reads()  # type: ignore[union-attr]
    less = pipeline_of(history.spec, history.source).start_local(
        {name: SCHEMA[name] for name in SCHEMA if name in reads}
    )
    for push in history.pushes:
        rows = frame_of(push.rows)
        step = whole.push(rows, now=push.now, watermark=push.note)
        other = less.push(rows.select(*less._operator.schemas[0]), now=push.now, watermark=push.note)  # type: ignore[union-attr]
        assert other.panes.equals(step.panes)
        assert other.counts == step.counts


PLANS = {
    "cells": Spec(("sliding", 1000, 1000, 0), ("watermark", None, None)),
    "shared cells": Spec(("sliding", 1000, 300, 0), ("watermark", None, None)),
    "panes": Spec(("sliding", 1000, 300, 0), ("watermark", EACH, EACH), "retracting", lateness=500),
    "sessions": Spec(("sessions", 20, "merge", None), ("watermark", EACH, EACH), "retracting", lateness=500),
    "cut sessions": Spec(("sessions", 20, "merge", 100), ("watermark", EACH, EACH), "retracting", lateness=500),
    "rows": Spec(("rows", 100, 30, 1), ("repeat", ("count", 1)), "retracting"),
    "not keyed": Spec(("sliding", 1000, 300, 0), ("watermark", EACH, EACH), keyed=False),
}


@pytest.mark.parametrize("name", PLANS)
def test_same_bundles_are_same_bytes(name: str) -> None:
    assert written(name) == written(name)


def written(name: str) -> bytes:
    """All that a run over many rows with floats gives, as it would go to a file."""
    spec = PLANS[name]
    pipeline = pipeline_of(spec, ("lag", 300), {"sum": ev.sum("x"), "mean": ev.mean("x"), "last": ev.last("x")})
    rng = Random(name)
    query = pipeline.start_local()
    for i in range(4):
        n = 50_000
        frame = pl.DataFrame(
            {
                "time": [i * 2000 + rng.randrange(2500) for _ in range(n)],
                "key": [f"k{rng.randrange(200)}" for _ in range(n)],
                "x": [rng.random() * 1e6 for _ in range(n)],
            }
        )
        query.push(frame, now=i)
    query.drain()
    out = io.BytesIO()
    for frame in (query.result.panes, query.result.late):
        frame.write_ipc(out)
    return out.getvalue()
