"""The interval join and its model side by side, and a transcript of where they differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import polars as pl

from eventide.operators.factory import operator_of
from eventide.operators.interval_join import IntervalJoin
from eventide.operators.operator import Output, Stamp, Step
from eventide.operators.window_logic import Stamped
from eventide.state.operator_state import State
from eventide.time import MAX, MIN
from eventide.watermarks import Watermark
from tests.oracle.compare import written
from tests.oracle.join_histories import SCHEMAS, History, Push, frames_of, pipeline_of
from tests.oracle.join_model import LEFT, RIGHT, Model, Out
from tests.state.harness import Paged

Observed = tuple[Output, tuple[int, int], tuple[int, int]]  # with the watermarks before and after the bundle
Run = Callable[[IntervalJoin, History, Random], Iterator[list[Observed]]]


def bound(history: History) -> IntervalJoin:
    return operator_of(pipeline_of(history).plan, *SCHEMAS)  # type: ignore[return-value]


def stamps_of(operator: IntervalJoin, push: Push) -> list[Stamp]:
    """Each side's rows, read by so many tasks."""
    stamps = []
    for edge, rows in enumerate(frames_of(push.rows)):
        size = -(-rows.height // push.parts)
        stamps += [operator.stamp(rows.slice(i * size, size), push.now, 0, edge) for i in range(push.parts)]
    return stamps


def _absorb(operator: IntervalJoin, state: State, stamps: Sequence[Stamp], push: Push) -> Step[State]:
    return operator.apply(state, stamps, push.now, notes=[Watermark(*note) for note in push.notes])


def _observe(before: State, step: Step[State]) -> Observed:
    return step.output, before.tracker.effective_times, step.state.tracker.effective_times  # type: ignore[union-attr, return-value]


def in_memory(operator: IntervalJoin, history: History, rng: Random) -> Iterator[list[Observed]]:
    """One state, that is sometimes saved and loaded."""
    state = operator.initial()
    for push in history.pushes:
        if rng.random() < 0.2:
            operator, state = type(operator).load(operator.plan, operator.save(state))
        step = _absorb(operator, state, stamps_of(operator, push), push)
        yield [_observe(state, step)]
        state = step.state


def in_buckets(operator: IntervalJoin, history: History, rng: Random) -> Iterator[list[Observed]]:
    """Two states, each with some of the keys; both see all progress."""
    states = [operator.initial(), operator.initial()]
    for push in history.pushes:
        stamps, observed = stamps_of(operator, push), []
        for bucket, state in enumerate(states):
            of_bucket = [_of_bucket(stamp, bucket) for stamp in stamps]
            step = _absorb(operator, state, of_bucket, push)
            observed.append(_observe(state, step))
            states[bucket] = step.state
        yield observed


def _of_bucket(stamp: Stamp, bucket: int) -> Stamp:
    mine = pl.col("key").fill_null("a") == ("a" if bucket else "b")
    rows = stamp.stamped.rows.filter(mine)
    dead = [letters.filter(mine) for letters in stamp.dead]
    return replace(stamp, rows=stamp.rows if bucket else 0, dead=dead, stamped=Stamped(pl.DataFrame(), rows))


def in_pages(operator: IntervalJoin, history: History, rng: Random) -> Iterator[list[Observed]]:
    """A state that rests in pages; after each bundle anything may happen. Every byte is as in memory."""
    paged, state = Paged(operator), operator.initial()  # type: ignore[arg-type]
    for push in history.pushes:
        stamps = stamps_of(operator, push)
        if rng.random() < 0.2:
            paged.attempt(lambda state: _absorb(operator, state, stamps, push), rng.choice([None, 0, 1, 2]))  # noqa: B023
        step = _absorb(operator, state, stamps, push)
        output = paged.step(lambda state: _absorb(operator, state, stamps, push))  # noqa: B023
        assert written(output) == written(step.output)
        yield [_observe(state, step)]
        state = step.state
        match rng.choice(["nothing", "restart", "catch up"]):
            case "restart":
                paged.restart()
            case "catch up":
                paged.refresh(rng.randint(0, 4))


def got(observed: Sequence[Observed]) -> dict[str, Any]:
    """What a bundle gave, in the model's words."""
    outputs = [output for output, *_ in observed]
    pairs = [pair for output in outputs for pair in output.panes.select("id", "id_right").iter_rows()]
    ids = pl.coalesce(pl.col("left", "right").struct.field("id"))
    counts = sum((output.counts for output in outputs[1:]), outputs[0].counts)
    return {
        "pairs": Counter(pairs),
        "late": sorted(i for output in outputs for i in output.late.select(ids).to_series()),
        "dead": sorted(i for output in outputs for i in output.dead.select(ids).to_series()),
        "counts": (counts.rows, counts.kept, counts.late, sum(counts.dead.values())),
        "kept": sum(output.open_panes for output in outputs),
    }


def wanted(push: Push, out: Out, model: Model) -> dict[str, Any]:
    return {
        "pairs": Counter(out.pairs),
        "late": sorted(out.late),
        "dead": sorted(out.dead),
        "counts": (len(push.rows), len(out.entered), len(out.late), len(out.dead)),
        "kept": sum(map(len, model.kept)),
    }


def check(history: History, run: Run, rng: Random, operator: IntervalJoin | None = None) -> None:
    """Fail, with a transcript up to the first bundle in which the join and its model differ."""
    model = Model(history.spec)
    lines = ["", f"literal {history!r}", ""]
    outs: list[Out] = []
    promised: list[dict[int, int]] = [{}]
    reached = (MIN, MIN)
    for push, observed in zip(history.pushes, run(operator or bound(history), history, rng), strict=True):
        was, reached = observed[0][1:]
        outs.append(model.step(push.rows, was, reached))
        want, have = wanted(push, outs[-1], model), got(observed)
        rows = " ".join(f"{'LR'[r.side]}{r.id}:{r.key}@{r.time}={r.value}" for r in push.rows) or "(no rows)"
        lines.append(f"at {push.now}: {rows}   W {was} -> {reached}")
        if want != have:
            raise AssertionError("\n".join([*lines, f"  expected {want}", f"  got      {have}"]))
        _check_promises(history, observed, promised[-1], lines)
        promised.append(dict(observed[0][0].promises))
    if min(reached) == MAX:
        _check_accounts(history, outs, lines)


def _check_promises(
    history: History, observed: Sequence[Observed], promised: dict[int, int], lines: Sequence[str]
) -> None:
    """No emitted row is behind the output watermark of its side."""
    for output, *_ in observed:
        for side, name in ((LEFT, "time"), (RIGHT, "time_right")):
            least = output.panes[name].min()
            promise = promised.get(history.watermarks[side][2])
            if least is not None and promise is not None and least < promise:  # type: ignore[operator]
                raise AssertionError("\n".join([*lines, f"  {name} {least} is earlier than promised: {promise}"]))


def _check_accounts(history: History, outs: Sequence[Out], lines: Sequence[str]) -> None:
    """After all is drained, each row of an outer side is emitted once without a partner, or at least once with one."""
    pairs = [pair for out in outs for pair in out.pairs]
    for side in (LEFT, RIGHT):
        lone = Counter(pair[side] for pair in pairs if pair[1 - side] is None)
        matched = {pair[side] for pair in pairs if None not in pair}
        for row in (row for out in outs for row in out.entered if row.side == side):
            right = lone[row.id] == (history.spec.pads(side) and row.id not in matched)
            assert right, "\n".join([*lines, f"  {row} stands {lone[row.id]} times alone"])
