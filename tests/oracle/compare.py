"""The columnar code and the model side by side, and a transcript of where they differ."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import polars as pl

import eventide as ev
from eventide.operators.operator import Bundle, Output, Step
from eventide.operators.windowed_aggregate import State, WindowedAggregate
from eventide.panes import EMITTED_AT, PANE, WINDOW_TIME
from eventide.watermarks import Watermark
from tests.oracle.histories import SCHEMA, History, Push, aggregates_of, frame_of, pipeline_of, smaller
from tests.oracle.model import MAX, MIN, Model, Out, Pane, Spec, shown

_PANE = (*PANE[:-2], WINDOW_TIME, EMITTED_AT)  # in the order of the model


def bound(history: History) -> WindowedAggregate:
    """The operator of a history's plan: one serves all histories of the plan."""
    return WindowedAggregate(pipeline_of(history.spec, history.source).plan, pl.Schema(SCHEMA))


def run(operator: WindowedAggregate, history: History) -> list[Output]:
    """What the columnar code gives, step by step."""
    state, outputs = operator.initial(), []
    for push in history.pushes:
        if push.restart:
            operator, state = WindowedAggregate.load(operator.plan, operator.save(state))
        step = _step(operator, state, push)
        if push.replay:
            again = _step(operator, state, push)
            assert written(again.output) == written(step.output), f"a bundle run again gave something else: {push}"
            step = again
        state = step.state
        outputs.append(step.output)
    return outputs


def _step(operator: WindowedAggregate, state: State, push: Push) -> Step[State]:
    notes = () if push.note is None else (Watermark(0, push.note),)
    rows = frame_of(push.rows)
    if push.parts == 1:
        return operator.step(state, Bundle(rows, push.now, notes))
    size = -(-rows.height // push.parts)
    parts = [rows.slice(i * size, size) for i in range(push.parts)]
    stamps = [operator.stamp(part, push.now, state.watermark) for part in parts]
    return operator.apply(state, stamps, push.now, notes=notes)


def written(output: Output) -> str:
    """All that a bundle gave, to the last bit of each float. (Arrow's own bytes also hold what lies under nulls.)"""
    frames = [(frame.schema, frame.rows()) for frame in (output.panes, output.late, output.dead)]
    return repr([*frames, output.watermark_us, output.promise, output.counts, output.open_panes])


def expected(history: History, watermarks: Iterable[int]) -> list[Out]:
    """What the model gives, with the watermarks that stood after each bundle."""
    model = Model(history.spec)
    pairs = zip(history.pushes, watermarks, strict=True)
    return [model.step(list(push.rows), push.now, watermark) for push, watermark in pairs]


def panes_of(frame: pl.DataFrame, spec: Spec) -> list[Pane]:
    """Rows of output in the model's words."""
    bounds = [pl.col("window_end").cast(pl.Int64).fill_null(MAX), pl.col("window_start").cast(pl.Int64).fill_null(MIN)]
    fields = [*_PANE[:-2], *(pl.col(name).cast(pl.Int64) for name in _PANE[-2:])]
    keys = [
        pl.col(name) if name in frame.columns else pl.lit(None, pl.String).alias(name) for name in ("key", "origin")
    ]
    return [
        Pane(diff, end, start, shown((of, origin) if spec.by_offset else of), tuple(map(_plain, rest[:-7])), *rest[-7:])
        for diff, end, start, of, origin, *rest in frame.select(
            "diff", *bounds, *keys, *aggregates_of(spec), *fields
        ).iter_rows()
    ]


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def got(steps: list[Output], spec: Spec) -> list[dict[str, Any]]:
    """What the columnar code gave, in the model's words: per step panes, late rows, dead letters, counters."""
    panes = panes_of(pl.concat([step.panes for step in steps]), spec)
    smallest = []
    for step in steps:
        mine, panes = panes[: step.panes.height], panes[step.panes.height :]
        late = step.late["id"].to_list()
        dead = list(step.dead.select("id", "ev_reason").iter_rows())
        smallest.append({"panes": mine, "late": late, "dead": dead, "counts": asdict(step.counts)})
    return smallest


def wanted(outs: list[Out]) -> list[dict[str, Any]]:
    return [{"panes": out.panes, "late": out.late, "dead": sorted(out.dead), "counts": out.counts()} for out in outs]


def difference(history: History, operator: WindowedAggregate | None = None) -> str | None:
    """A transcript of the history up to the first step in which they differ; None where they agree."""
    steps = run(operator or bound(history), history)
    want = wanted(expected(history, (step.watermark_us for step in steps)))
    have = got(steps, history.spec)
    for i, (expected_step, other) in enumerate(zip(want, have, strict=True)):
        other["dead"].sort()
        if expected_step != other:
            return transcript(history, steps, want, have, i)
    return None


def check(history: History, operator: WindowedAggregate | None = None) -> None:
    """Fail, with the smallest history that still shows it, where model and columns differ."""
    if difference(history, operator) is None:
        return
    smallest = history
    while True:
        less = next((h for h in smaller(smallest) if _fails(h)), None)
        if less is None:
            break
        smallest = less
    raise AssertionError(difference(smallest) or difference(history, operator))


def _fails(history: History) -> bool:
    if not history.pushes:
        return False
    try:
        return difference(history) is not None
    except ev.EventideError:
        return False


def transcript(history: History, steps: list[Output], want: list[Any], have: list[Any], failed: int) -> str:
    """A history as one reads it."""
    lines = ["", f"spec    {history.spec}", f"source  {history.source}", f"literal {history!r}", ""]
    for i, (push, step) in enumerate(zip(history.pushes[: failed + 1], steps, strict=False)):
        rows = " ".join(
            f"{row.key}@{row.time}={row.value}"
            + (f"~{row.gap}" if "gap" in history.spec.window else "")
            + (f"#{row.origin}{row.number}" if row.number is not None else "")
            for row in push.rows
        )
        if push.restart:
            lines.append("restart from saved state")
        lines.append(f"bundle {i} at {push.now}: {rows or '(no rows)'}   [note {push.note}] W' = {step.watermark_us}")
        agreed = i < failed
        for name in ("panes", "late", "dead", "counts"):
            if agreed or want[i][name] == have[i][name]:
                if have[i][name] and name != "counts":
                    lines += _listed(f"  {name}", have[i][name])
            else:
                lines += _listed(f"  {name} expected", want[i][name]) + _listed(f"  {name} got", have[i][name])
    return "\n".join(lines)


def _listed(title: str, value: Any) -> list[str]:
    if not isinstance(value, list):
        return [f"{title}: {value}"]
    return [f"{title}:", *(f"    {_said(entry)}" for entry in value)] if value else [f"{title}: nothing"]


def _said(row: Any) -> str:
    if not isinstance(row, Pane):
        return str(row)
    flags = ("first " if row.is_first else "") + ("last " if row.is_last else "")
    return (
        f"{row.diff:+d} {row.key} [{row.start}, {row.end}) {row.values} {row.timing}"
        f" index {row.index}/{row.nonspeculative_index} {flags}time {row.time} at {row.at}"
    )
