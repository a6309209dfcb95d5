"""Random plans and random histories of them: few keys and a short axis, so that boundaries are hit again and again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import polars as pl

import eventide as ev
from tests.oracle.model import DAY, MAX, Row, Spec

AGGREGATES = {
    "n": ev.count(),
    "total": ev.sum("value"),
    "low": ev.min("value"),
    "high": ev.max("value"),
    "first": ev.first("value"),
    "last": ev.last("value"),
}
LISTS = {"all": ev.collect_list("value"), "sorted": ev.collect_sorted("value")}
SCHEMA = {
    "id": pl.Int64(),
    "key": pl.String(),
    "time": pl.Int64(),
    "value": pl.Int64(),
    "gap": pl.Int64(),
    "origin": pl.String(),
    "number": pl.Int64(),
}

# Days of 23, 25 and 24 hours; a midnight that does not exist, and one that comes twice.
ZONES = [
    ("Europe/Berlin", datetime(2026, 3, 28, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 10, 24, tzinfo=UTC)),
    ("America/Sao_Paulo", datetime(2018, 11, 3, tzinfo=UTC)),
    ("America/Havana", datetime(2025, 11, 1, tzinfo=UTC)),
]
HOUR = 3_600_000_000


@dataclass(frozen=True)
class Push:
    """A bundle: rows, the batch's clock, and an external watermark, if there is one.

    ``restart``: before it, the state was saved and another process has loaded it. ``replay``: it was run before, but
    what it gave was not committed, so it is run again from the same state. ``parts``: so many tasks read it.
    """

    rows: tuple[Row, ...]
    now: int
    note: int | None = None
    restart: bool = False
    replay: bool = False
    parts: int = 1


@dataclass(frozen=True)
class History:
    """A plan, where its watermark comes from, and what happens."""

    spec: Spec
    source: tuple[Any, ...] = ("none",)
    pushes: tuple[Push, ...] = field(default=())


def us(n: int) -> timedelta:
    return timedelta(microseconds=n)


def window_of(window: tuple[Any, ...], forget: int | None = None, timeout: int | None = None) -> Any:
    """The kind of window as users write it."""
    kind, *args = window
    closed = None if timeout is None else us(timeout)
    if kind == "global":
        return ev.global_window()
    if kind == "calendar":
        return ev.calendar(args[0], tz=args[1])
    if kind == "cumulate":
        return ev.cumulate(us(args[0]), us(args[1]), offset=us(args[2]))
    if kind == "sliding":
        return ev.sliding(us(args[0]), every=us(args[1]), offset=us(args[2]), gaps="allowed")
    if kind == "rows":
        return ev.rows(args[0], every=args[1], timeout=closed, forget_after=None if forget is None else us(forget))
    if kind == "row_sessions":
        return ev.row_sessions(absent=args[0] - 1, timeout=closed)
    if kind == "offsets":
        return ev.rows(args[0], every=args[1], by="number", timeout=closed)
    if kind == "offset_sessions":
        return ev.row_sessions(absent=args[0] - 1, by="number", timeout=closed)
    gap, touching, longest = args
    most = None if longest is None else us(longest)
    return ev.sessions(gap if isinstance(gap, str) else us(gap), touching=touching, max_duration=most)


def trigger_of(trigger: tuple[Any, ...] | None) -> Any:
    """The trigger as users write it."""
    if trigger is None:
        return None
    kind, *args = trigger
    if kind == "repeat":
        inner = args[0]
        if inner == ("count", 1):
            return ev.on_update()
        if inner[0] in ("delay", "aligned"):
            return ev.every(us(inner[1]), aligned=inner[0] == "aligned")
        return ev.repeatedly(trigger_of(inner))
    if kind == "watermark":
        return ev.after_watermark(early=trigger_of(args[0]), late=trigger_of(args[1]))
    if kind == "count":
        return ev.after_count(args[0])
    if kind == "delay":
        return ev.after_processing_time(us(args[0]))
    if kind == "never":
        return ev.never()
    names: dict[str, Any] = {"any": ev.any_of, "all": ev.all_of, "order": ev.in_order, "finally": ev.or_finally}
    return names[kind](*map(trigger_of, args))


def source_of(source: tuple[Any, ...], skew: int | None) -> Any:
    """The watermark's strategy as users write it."""
    kind, *args = source
    if skew == DAY and kind != "none":  # the default of all others
        guard: dict[str, Any] = {}
    else:
        guard = {"max_future_skew": None if skew is None else us(skew)}
    if kind == "none":
        return ev.no_watermark(**guard)
    if kind == "latest":
        return ev.bounded_delay(us(args[0]), at_latest=us(args[1]), **guard)
    if kind == "clock":
        return ev.processing_time(us(args[0]), **guard)
    if kind == "numbered":
        patience = None if args[1] is None else us(args[1])
        return ev.bounded_delay(us(args[0]), origin="origin", sequence="number", gap_timeout=patience, **guard)
    if kind == "origins":
        return ev.bounded_delay(us(args[0]), origin="origin", idle_timeout=us(args[1]), on_return=args[2], **guard)
    return ev.ascending(**guard) if kind == "ascending" else ev.bounded_delay(us(args[0]), **guard)


def pipeline_of(
    spec: Spec, source: tuple[Any, ...] = ("none",), aggregates: Any = None, *, size: int | None = None
) -> ev.Pipeline:
    """The plan as users write it; ``size`` bounds its state in bytes, which the model does not know."""
    key = "key" if spec.keyed else None
    stream = ev.stream(time="time", key=key, watermark=source_of(source, spec.skew))
    stream = stream.deduplicate() if spec.deduplicate else stream
    windows = stream.window(window_of(spec.window, spec.forget, spec.timeout), output_time=spec.at)  # type: ignore[arg-type]
    if spec.most is not None or size is not None:
        windows = windows.limit_state(rows=spec.most, bytes=size)
    lateness: Any = spec.lateness if spec.by_offset else us(spec.lateness)
    windows = windows.trigger(
        trigger_of(spec.trigger),
        mode=spec.mode,  # type: ignore[arg-type]
        allowed_lateness=lateness if spec.lateness else None,
        skip_unchanged=spec.only_updated,
        may_lose_data=True,
    )
    return windows.agg(**(aggregates or aggregates_of(spec)))


def aggregates_of(spec: Spec) -> dict[str, Any]:
    """Lists show the most and cost the most: only some plans have them."""
    return AGGREGATES | (LISTS if spec.lists else {})


def frame_of(rows: tuple[Row, ...]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


# Random plans

FAMILIES = (
    "tumbling",
    "sliding",
    "cumulate",
    "global",
    "calendar",
    "sessions",
    "dynamic",
    "cut",
    "rows",
    "row_sessions",
    "offsets",
    "offset_sessions",
    "repeats",
    "retained",
)
_BOUNDED = [name for name in FAMILIES if name not in ("calendar", "repeats", "retained")]


def random_window(rng: Random, family: str) -> tuple[Any, ...]:
    """A window of a family, on an axis of about 40 steps."""
    if family == "tumbling":
        size = rng.choice([1, 5, 10])
        return ("sliding", size, size, rng.choice([0, 0, 3, -2]) % size)
    if family == "sliding":
        size, every = rng.choice([(10, 5), (10, 4), (9, 3), (7, 5), (5, 10), (3, 4), (10, 1)])
        return ("sliding", size, every, rng.choice([0, 0, 1, -2]) % every)
    if family == "cumulate":
        step, size = rng.choice([(5, 10), (4, 12), (10, 10), (2, 8)])
        return ("cumulate", step, size, rng.choice([0, 0, 3]) % size)
    if family == "sessions":
        return ("sessions", rng.choice([1, 3, 5]), rng.choice(["merge", "merge", "split"]), None)
    if family == "dynamic":
        return ("sessions", "gap", rng.choice(["merge", "split"]), None)
    if family == "cut":
        gap = rng.choice([1, 3, 5])
        return ("sessions", gap, rng.choice(["merge", "split"]), rng.choice([5, 7, 12]))
    if family == "rows":
        size = rng.choice([1, 2, 3, 5])
        every = rng.choice([size, size, 1, 2, 4])
        return ("rows", size, every, 1 % every)
    if family == "row_sessions":
        return ("row_sessions", rng.choice([2, 3, 4]), "split", None)
    if family in ("offsets", "offset_sessions"):
        same = {"offsets": "rows", "offset_sessions": "row_sessions"}[family]
        return (family, *random_window(rng, same)[1:], rng.choice(["gapless", "highest"]))
    return ("global",)


def random_trigger(rng: Random, depth: int = 2) -> tuple[Any, ...]:
    """Any term of the algebra, mostly small ones."""
    leaf = depth == 0 or rng.random() < 0.35
    if leaf:
        return rng.choice(
            [
                ("count", 1),
                ("count", 2),
                ("count", 3),
                ("delay", 5),
                ("delay", 10),
                ("watermark", None, None),
                ("never",),
                ("repeat", ("count", 1)),
                ("repeat", ("delay", 10)),
                ("repeat", ("aligned", 10)),
            ]
        )
    kind = rng.choice(["repeat", "any", "all", "order", "finally", "watermark", "watermark"])
    if kind == "repeat":
        return ("repeat", random_trigger(rng, depth - 1))
    if kind == "watermark":
        early = random_trigger(rng, depth - 1) if rng.random() < 0.6 else None
        late = random_trigger(rng, depth - 1) if rng.random() < 0.6 else None
        return ("watermark", early, late)
    count = 2 if kind == "finally" or rng.random() < 0.8 else 3
    return (kind, *(random_trigger(rng, depth - 1) for _ in range(count)))


USUAL = [
    ("watermark", None, None),
    ("watermark", None, ("repeat", ("count", 1))),
    ("watermark", ("repeat", ("count", 1)), ("repeat", ("count", 1))),
    ("watermark", ("repeat", ("delay", 10)), ("repeat", ("count", 1))),
    ("watermark", ("count", 2), ("count", 2)),
    ("repeat", ("count", 1)),
    ("repeat", ("count", 3)),
    ("repeat", ("delay", 10)),
    ("repeat", ("aligned", 10)),
    ("repeat", ("watermark", None, None)),
    ("never",),
]


def random_spec(rng: Random, family: str) -> Spec:
    """A plan with a window of ``family``."""
    if family == "repeats":
        return random_spec(rng, rng.choice(("tumbling", "sliding", "sessions", "cut")))._replace(deduplicate=True)
    if family == "retained":
        inner = rng.choice(_BOUNDED)
        spec = random_spec(rng, inner)
        most = None if inner == "cut" or rng.random() < 0.1 else rng.choice([1, 2, 3, 5, 8])
        timeout = rng.choice([None, None, 0, 5, 50])
        return spec._replace(timeout=timeout if spec.by_row else None, most=most)
    cut, window = family == "cut", random_window(rng, family)
    by_row = family in ("rows", "row_sessions")
    spec = Spec(
        window=window,
        trigger=rng.choice(USUAL) if rng.random() < 0.5 else random_trigger(rng),
        mode=rng.choice(["accumulating", "retracting", "retracting", "accumulating" if cut else "discarding"]),
        only_updated=rng.random() < 0.25,
        lateness=0 if by_row else rng.choice([0, 0, 3, 10, 100]),
        deduplicate="gapless" in window and rng.random() < 0.5,
        at=rng.choice(["end", "end", "earliest", "latest"]),
        keyed=rng.random() < 0.75,
        skew=rng.choice([None, None, DAY, 10]),
        lists=rng.random() < 0.25,
    )
    return spec._replace(forget=rng.choice([None, 1, 8, 25])) if family == "rows" and spec.keyed else spec


def random_source(rng: Random, spec: Spec) -> tuple[Any, ...]:
    if spec.deduplicate or spec.gapless:
        return ("numbered", rng.choice([0, 4]), None if spec.gapless else rng.choice([None, 10]))
    return rng.choice(
        [
            ("none",),
            ("none",),
            ("lag", 0),
            ("lag", 4),
            ("ascending",),
            ("clock", 3),
            ("latest", 4, 8),
            ("origins", 2, 15, "hold"),
            ("origins", 0, 10, "catch_up"),
        ]
    )


# Random histories


def random_history(rng: Random, spec: Spec, source: tuple[Any, ...]) -> History:
    """What happens: disorder, bundles that are empty or all late, a clock that stands still, a drain at the end."""
    pushes: list[Push] = []
    now, note, ids = rng.choice([0, 0, 0, -50]), -20, 0
    centre = rng.choice([-10, 0, 5])
    skewed = spec.skew is not None and spec.skew < DAY
    before: list[Row] = []
    for _ in range(rng.choice([1, 2, 2, 3, 3, 4, 6])):
        now += rng.choice([0, 1, 5, 10, 30])
        centre += rng.choice([0, 2, 5, 10]) if not skewed else 0
        around = centre if not skewed else now
        behind = rng.random() < 0.15  # a bundle that may be all late
        rows = []
        for _ in range(rng.choice([0, 1, 1, 2, 3, 5, 8])):
            ids += 1
            spread = rng.randint(-12, 12) - 15 * behind
            row = Row(
                id=ids,
                key=rng.choice(["a", "a", "a", "b", None]) if spec.keyed else None,
                time=None if rng.random() < 0.03 else around + spread,
                value=None if rng.random() < 0.1 else rng.randint(0, 9),
                gap=rng.choice([1, 3, 3, 5, 8, 8, 0, None]) if rng.random() < 0.9 else 3,
                origin=rng.choice(["x", "x", "y"]),
            )
            if source[0] not in ("numbered", "origins") and spec.by_offset:
                row = row._replace(origin=None)
            if spec.skew == DAY and row.time is not None and rng.random() < 0.05:
                row = row._replace(time=now + DAY + rng.choice([-1, 0, 1, 1, 1, 2, DAY]))
            rows.append(_numbered(rng, row, before) if source[0] == "numbered" or spec.by_offset else row)
            before.append(rows[-1])
        declared = None
        if source[0] == "none" and rng.random() < 0.7:
            note = max(note, around + rng.choice([-10, -5, -5, 0, 0, 5]))
            declared = note
        pushes.append(
            Push(tuple(rows), now, declared, rng.random() < 0.1, rng.random() < 0.1, rng.choice([1, 1, 2, 3]))
        )
    if rng.random() < 0.7:
        pushes.append(Push((), now, MAX))
    return History(spec, source, tuple(pushes))


def _numbered(rng: Random, row: Row, before: list[Row]) -> Row:
    """The next row of its origin, one that overtook some, one without a number, or one that has come before."""
    if before and rng.random() < 0.2:
        return rng.choice(before)._replace(id=row.id)
    known = {other.number: other for other in before if other.origin == row.origin and other.number}
    last = max(known, default=0)
    number = rng.choice([*[last + 1] * 6, last + 2, last + 3, max(last - 1, 1), 0, None])
    return known.get(number, row._replace(number=number))._replace(id=row.id)


def on_the_calendar(rng: Random, history: History) -> History:
    """The same history with half hours for microseconds, around a day on which a zone sets its clocks."""
    zone, begins = rng.choice(ZONES)
    base, unit = int(begins.timestamp()) * 1_000_000, HOUR
    spec = history.spec._replace(
        window=("calendar", rng.choice(["day", "day", "week", "month"]), zone),
        lateness=history.spec.lateness * unit,
        trigger=_scaled(history.spec.trigger, unit),
        skew=history.spec.skew if history.spec.skew in (None, DAY) else history.spec.skew * unit,
    )

    def on_calendar(time: int | None, now: int) -> int | None:
        if time is None or time <= now + DAY // 2:
            return None if time is None else base + time * unit
        return base + now * unit + time - now  # about a day ahead, as before

    pushes = [
        Push(
            tuple(row._replace(time=on_calendar(row.time, push.now)) for row in push.rows),
            base + push.now * unit,
            push.note if push.note in (None, MAX) else base + push.note * unit,
            push.restart,
            push.replay,
            push.parts,
        )
        for push in history.pushes
    ]
    kind, *args = history.source
    source = (kind, *(arg * unit if isinstance(arg, int) else arg for arg in args))
    return History(spec, source, tuple(pushes))


def _scaled(trigger: Any, unit: int) -> Any:
    if not isinstance(trigger, tuple):
        return trigger
    kind, *args = trigger
    if kind in ("delay", "aligned"):
        return (kind, args[0] * unit)
    return (kind, *(_scaled(arg, unit) for arg in args))


def random_histories(rng: Random, family: str, count: int) -> list[History]:
    """Some histories of one plan."""
    spec = random_spec(rng, family)
    source = random_source(rng, spec)
    histories = [random_history(rng, spec, source) for _ in range(count)]
    if family == "calendar":
        seed = rng.random()
        return [on_the_calendar(Random(seed), history) for history in histories]
    return histories


def smaller(history: History) -> list[History]:
    """Simpler histories, simplest first: a failing one is replaced by the first of these that still fails."""
    pushes = history.pushes
    fewer = [replace(history, pushes=pushes[:i] + pushes[i + 1 :]) for i in range(len(pushes))]
    for i, push in enumerate(pushes):
        for j in range(len(push.rows)):
            less = replace(push, rows=push.rows[:j] + push.rows[j + 1 :])
            fewer.append(replace(history, pushes=(*pushes[:i], less, *pushes[i + 1 :])))
    plainer = [
        replace(history, spec=history.spec._replace(**{name: value}))
        for name, value in Spec._field_defaults.items()
        if getattr(history.spec, name) != value
    ]
    simpler = [replace(history, spec=history.spec._replace(trigger=t)) for t in _parts(history.spec.trigger)]
    quiet = [
        replace(history, pushes=(*pushes[:i], calm, *pushes[i + 1 :]))
        for i, push in enumerate(pushes)
        for calm in (
            replace(push, **change) for change in ({"note": None}, {"restart": False}, {"replay": False}, {"parts": 1})
        )
        if calm != push
    ]
    return fewer + simpler + plainer + quiet


def _parts(trigger: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    kind, *args = trigger
    inner = [arg for arg in args if isinstance(arg, tuple) and arg[0] != "aligned"]
    parts = list(inner)
    for i, arg in enumerate(args):
        if isinstance(arg, tuple):
            parts += [(kind, *args[:i], part, *args[i + 1 :]) for part in _parts(arg) if part[0] != "aligned"]
            if kind == "watermark":
                parts.append((kind, *args[:i], None, *args[i + 1 :]))
    return parts
