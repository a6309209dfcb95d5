"""Random histories of two inputs: the final output of a window join is the join of all rows that were not late.

The model joins rows one by one, in plain Python. Each history runs in one process, with restarts, and over the tasks,
buckets and pages of the Spark host.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

import polars as pl
import pytest

import eventide as ev
from eventide.plan.plan import JoinType, Mode
from tests.effort import SEED, examples
from tests.spark.harness import PagesHost

HISTORIES = examples(50)

SECOND = 1_000_000
LEFT = {"t": pl.Int64(), "k": pl.String(), "a": pl.Int64()}
RIGHT = {"t": pl.Int64(), "id": pl.String(), "b": pl.List(pl.Int64())}
HOWS: tuple[JoinType, ...] = ("inner", "left", "right", "full")
Row = tuple[Any, ...]


@dataclass(frozen=True)
class History:
    """Bundles of both sides, and the plan they run through."""

    how: JoinType
    mode: Mode
    size: int
    every: int
    often: bool
    lateness: int
    bundles: tuple[tuple[list[Row], list[Row]], ...]

    def pipeline(self) -> ev.Pipeline:
        left = ev.stream(time="t", key="k", watermark=ev.bounded_delay("3 seconds"))
        right = ev.stream(time="t", key="id", watermark=ev.bounded_delay("1 second"))
        return ev.window_join(
            left,
            right,
            window=ev.sliding(f"{self.size} seconds", every=f"{self.every} seconds"),
            how=self.how,
            trigger=ev.after_watermark(early=ev.on_update(), late=ev.on_update()) if self.often else None,
            allowed_lateness=f"{self.lateness} seconds" if self.lateness else None,
            mode=self.mode if self.often or self.lateness else None,
        )


def random_history(rng: Random, how: JoinType) -> History:
    often, lateness = rng.random() < 0.7, rng.choice([0, 0, 5])
    modes: list[Mode] = ["retracting", "accumulating"]
    if how == "inner" or not (often or lateness):
        modes.append("discarding")
    every = rng.choice([2, 5, 10])

    def rows(i: int, most: int, value: Any) -> list[Row]:
        at = [(3 * i + rng.randint(-8, 4)) * SECOND for _ in range(rng.randint(0, most))]
        return [(time, rng.choice(["x", "x", "y", "z", None]), value()) for time in at]

    bundles = tuple(
        (rows(i, 5, lambda: rng.randint(0, 2)), rows(i, 4, lambda: rng.choice([(1,), (1, 2), None])))
        for i in range(rng.randint(1, 6))
    )
    return History(how, rng.choice(modes), every * rng.choice([1, 1, 2]), every, often, lateness, bundles)


def model(history: History) -> tuple[Counter[Row], Counter[Row]]:
    """The pairs that there are in the end, and the rows that were late for all of their windows."""
    sides: list[dict[int, list[Row]]] = [{}, {}]  # rows by the start of each of their windows
    late: Counter[Row] = Counter()
    highest: list[int | None] = [None, None]
    lags = (3 * SECOND, SECOND)
    for bundle in history.bundles:
        known = [high - lag for high, lag in zip(highest, lags, strict=True) if high is not None]
        watermark = min(known) if len(known) == 2 else -(2**63)
        for side, rows in enumerate(bundle):
            for row in rows:
                live = [start for start in windows(row[0], history) if not gone(start, history, watermark)]
                for start in live:
                    sides[side].setdefault(start, []).append(row)
                if not live:
                    late[side, row] += 1
            times = [row[0] for row in rows]
            highest[side] = max([*times, *([] if highest[side] is None else [highest[side]])], default=None)
    pairs: Counter[Row] = Counter()
    for start in {*sides[0], *sides[1]}:
        left, right = (side.get(start, []) for side in sides)
        matched: set[int] = set()
        for entry in left:
            partners = [i for i, other in enumerate(right) if entry[1] is not None and entry[1] == other[1]]
            matched.update(partners)
            pairs.update((entry[1], start, entry[0], entry[2], right[i][0], right[i][2]) for i in partners)
            if not partners and history.how in ("left", "full"):
                pairs[(entry[1], start, entry[0], entry[2], None, None)] += 1
        if history.how in ("right", "full"):
            lone = [other for i, other in enumerate(right) if i not in matched]
            pairs.update((other[1], start, None, None, other[0], other[2]) for other in lone)
    return pairs, late


def windows(time: int, history: History) -> list[int]:
    size, every = history.size * SECOND, history.every * SECOND
    return list(range(time // every * every, time - size, -every))


def gone(start: int, history: History, watermark: int) -> bool:
    return start + (history.size + history.lateness) * SECOND <= watermark


def seen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def observed(panes: pl.DataFrame, mode: Mode) -> Counter[Row]:
    """The table that the panes add up to."""
    total: Counter[Row] = Counter()
    last: dict[tuple[Any, int], tuple[int, Counter[Row]]] = {}
    for row in panes.iter_rows(named=True):
        start = int(row["window_start"].timestamp()) * SECOND
        pair = (row["k"], start, row["t"], row["a"], row["t_right"], seen(row["b"]))
        if mode == "accumulating":  # each pane repeats the window
            index, pairs = last.get((row["k"], start), (-1, Counter()))
            if row["pane_index"] != index:
                pairs = Counter()
            pairs[pair] += 1
            last[row["k"], start] = row["pane_index"], pairs
        else:
            total[pair] += row["diff"]
    assert all(number >= 0 for number in total.values()), "what is retracted was emitted"
    return sum((pairs for _, pairs in last.values()), +total)


def frames(bundle: tuple[list[Row], list[Row]]) -> list[pl.DataFrame]:
    return [pl.DataFrame(rows, schema, orient="row") for rows, schema in zip(bundle, (LEFT, RIGHT), strict=True)]


def in_process(history: History, rng: Random) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
    pipeline = history.pipeline()
    query = pipeline.start_local({"left": LEFT, "right": RIGHT})
    panes, late = [], []
    for i, bundle in enumerate(history.bundles):
        step = query.push(dict(zip(("left", "right"), frames(bundle), strict=True)), now=i)
        assert step.counts.balanced
        panes.append(step.panes)
        late.append(step.late)
        if rng.random() < 0.3:
            query = pipeline.start_local(saved=query.save())
    return pl.concat([*panes, query.drain(now=99).panes]), late


def over_pages(history: History, rng: Random) -> tuple[pl.DataFrame, list[pl.DataFrame]]:
    moves = (lambda: rng.choice([None, None, 1, 2, 3])) if rng.random() < 0.5 else None
    knows = rng.random() < 0.5
    host = PagesHost(history.pipeline(), (LEFT, RIGHT), buckets=rng.choice([1, 3]), tasks=2, knows=knows, moves=moves)
    came = [host.bundle(frames(bundle), now=i, watermark=None, polled=True) for i, bundle in enumerate(history.bundles)]
    came.append(host.bundle(frames(([], [])), now=99, watermark=2**63 - 1, polled=True))
    return pl.concat([part.panes for part in came]), [frame for part in came for frame in part.late]


def late_rows(late: list[pl.DataFrame]) -> Counter[Row]:
    observed: Counter[Row] = Counter()
    for frame in late:
        for row in frame.iter_rows(named=True):
            side = ("left", "right").index(row["ev_input"])
            observed[side, tuple(map(seen, row[row["ev_input"]].values()))] += 1
    return observed


@pytest.mark.parametrize("how", HOWS)
def test_the_emitted_pairs_are_the_join_of_the_rows_that_were_not_late(how: JoinType) -> None:
    for number in range(max(1, HISTORIES // len(HOWS))):
        seed = f"{SEED}/window join/{how}/{number}"
        rng = Random(seed)
        history = random_history(rng, how)
        for run in (in_process, over_pages) if number % 4 == 0 else (in_process,):
            panes, late = run(history, rng)
            pairs, missed = model(history)
            assert observed(panes, history.mode) == pairs, f"seed {seed!r}: {history}"
            assert late_rows(late) == missed, f"seed {seed!r}: {history}"
