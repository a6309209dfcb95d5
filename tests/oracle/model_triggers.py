"""The oracle's triggers: the state of one window's trigger as a small tree of objects."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple


class Moment(NamedTuple):
    """What a trigger sees when it is asked: the batch's clock, and whether the window is complete."""

    now: int
    complete: bool


class Never:
    """Also the ground on which the others stand: nothing joins, nothing is due, nothing fires."""

    def join(self, rows: int, now: int) -> None:
        """Rows have come."""

    def due(self, now: int) -> bool:
        """Whether a deadline has come."""
        return False

    def ready(self, moment: Moment) -> bool:
        """Whether it fires now."""
        return False

    def fire(self, moment: Moment) -> bool:
        """It fires; the answer is whether it has finished."""
        return False

    def merge(self, other: Any) -> None:
        """Take over the state of a window that this one has swallowed."""

    def inherit(self, other: Any) -> None:
        """Take over the deadlines of a window that this one replaces, whose rows count here anew."""


class Count(Never):
    def __init__(self, n: int) -> None:
        self.n, self.seen = n, 0

    def join(self, rows: int, now: int) -> None:
        self.seen += rows

    def ready(self, moment: Moment) -> bool:
        return self.seen >= self.n

    def fire(self, moment: Moment) -> bool:
        return True

    def merge(self, other: Any) -> None:
        self.seen += other.seen


class Delay(Never):
    def __init__(self, length: int, aligned: bool = False) -> None:
        self.length, self.aligned, self.deadline = length, aligned, None

    deadline: int | None

    def join(self, rows: int, now: int) -> None:
        if self.deadline is None:
            self.deadline = (now // self.length * self.length if self.aligned else now) + self.length

    def due(self, now: int) -> bool:
        return self.deadline is not None and self.deadline <= now

    def ready(self, moment: Moment) -> bool:
        return self.due(moment.now)

    def fire(self, moment: Moment) -> bool:
        return True

    def merge(self, other: Any) -> None:
        known = [at for at in (self.deadline, other.deadline) if at is not None]
        self.deadline = min(known, default=None)

    inherit = merge


class Repeat(Never):
    def __init__(self, spec: tuple[Any, ...], complete: bool) -> None:
        self.spec, self.inner = spec, build(spec, complete)

    def join(self, rows: int, now: int) -> None:
        self.inner.join(rows, now)

    def due(self, now: int) -> bool:
        return self.inner.due(now)

    def ready(self, moment: Moment) -> bool:
        return self.inner.ready(moment)

    def fire(self, moment: Moment) -> bool:
        if self.inner.fire(moment):
            self.inner = build(self.spec, False)
        return False

    def merge(self, other: Any) -> None:
        self.inner.merge(other.inner)

    def inherit(self, other: Any) -> None:
        self.inner.inherit(other.inner)


class Parallel(Never):
    """Any or all: only those that are ready fire."""

    def __init__(self, choose: Callable[[Iterable[bool]], bool], inner: list[Never]) -> None:
        self.choose, self.inner = choose, inner

    def join(self, rows: int, now: int) -> None:
        for trigger in self.inner:
            trigger.join(rows, now)

    def due(self, now: int) -> bool:
        return any(trigger.due(now) for trigger in self.inner)

    def ready(self, moment: Moment) -> bool:
        return self.choose(trigger.ready(moment) for trigger in self.inner)

    def fire(self, moment: Moment) -> bool:
        return self.choose([trigger.fire(moment) for trigger in self.inner if trigger.ready(moment)])

    def merge(self, other: Any) -> None:
        for mine, its in zip(self.inner, other.inner, strict=True):
            mine.merge(its)

    def inherit(self, other: Any) -> None:
        for mine, its in zip(self.inner, other.inner, strict=True):
            mine.inherit(its)


class InOrder(Never):
    def __init__(self, inner: list[Never]) -> None:
        self.inner, self.turn = inner, 0

    def join(self, rows: int, now: int) -> None:
        self.inner[self.turn].join(rows, now)

    def due(self, now: int) -> bool:
        return self.inner[self.turn].due(now)

    def ready(self, moment: Moment) -> bool:
        return self.inner[self.turn].ready(moment)

    def fire(self, moment: Moment) -> bool:
        if not self.inner[self.turn].fire(moment):
            return False
        last = self.turn == len(self.inner) - 1
        self.turn += not last
        return last

    def merge(self, other: Any) -> None:
        self.turn = max(self.turn, other.turn)
        for mine, its in zip(self.inner, other.inner, strict=True):
            mine.merge(its)

    def inherit(self, other: Any) -> None:
        for mine, its in zip(self.inner, other.inner, strict=True):
            mine.inherit(its)


class Watermark(Never):
    """``early`` until the window is complete, then once, then ``late``. Born complete, it starts with ``late``.

    Without ``late`` a window that is born complete has its one pane nevertheless: its rows were not late for it.
    """

    def __init__(self, early: tuple[Any, ...] | None, late: tuple[Any, ...] | None, complete: bool) -> None:
        self.past = complete and late is not None
        self.before, self.after = early, late
        self.early = Repeat(early, complete) if early else Never()
        self.late = Repeat(late, complete) if late else Never()

    def join(self, rows: int, now: int) -> None:
        (self.late if self.past else self.early).join(rows, now)

    def due(self, now: int) -> bool:
        return (self.late if self.past else self.early).due(now)

    def ready(self, moment: Moment) -> bool:
        if self.past:
            return self.late.ready(moment) if self.after else True
        return moment.complete or self.early.ready(moment)

    def fire(self, moment: Moment) -> bool:
        if self.past:
            return self.late.fire(moment) if self.after else True
        if not moment.complete:
            return self.early.fire(moment)
        self.past = True
        self.early = Repeat(self.before, True) if self.before else Never()
        return self.after is None

    def merge(self, other: Any) -> None:
        self.early.merge(other.early)
        self.late.merge(other.late)

    def inherit(self, other: Any) -> None:
        self.early.inherit(other.early)
        self.late.inherit(other.late)


def build(spec: tuple[Any, ...], complete: bool) -> Never:
    """A trigger in its first state, for a window that is complete already or is not."""
    match spec:
        case ("never",):
            return Never()
        case ("count", n):
            return Count(n)
        case ("delay", length):
            return Delay(length)
        case ("aligned", length):
            return Delay(length, aligned=True)
        case ("repeat", inner):
            return Repeat(inner, complete)
        case ("watermark", early, late):
            return Watermark(early, late, complete)
    kind, *parts = spec
    triggers = [build(part, complete) for part in parts]
    if kind == "order":
        return InOrder(triggers)
    return Parallel(all if kind == "all" else any, triggers)  # or_finally is any_of


def stops_early(spec: tuple[Any, ...]) -> bool:
    """Whether a trigger can finish for good before its window's end."""
    return _stops(spec) == 2


def _stops(spec: tuple[Any, ...]) -> int:
    """0: never, 1: at the window's end, 2: at any time."""
    kind, *parts = spec
    if kind in ("count", "delay", "aligned"):
        return 2
    if kind == "watermark":
        return 1 if parts[1] is None else 0
    if kind in ("all", "order"):
        return min(map(_stops, parts))
    return 0 if kind in ("never", "repeat") else max(map(_stops, parts))  # or_finally is any_of
