"""Random histories through the operators and through the model: the same outputs, in the same order and time."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventide as ev
from eventide.standalone import JoinWindow, SessionAggregator, SessionJoinWindow, WindowAggregator
from tests.effort import UNSHRUNK, examples
from tests.standalone.model import Model, Spec

KINDS = [(10, 10), (10, 5), (7, 3), (5, 10), (6, 1)]


def us(n: int) -> timedelta:
    return timedelta(microseconds=n)


def policy_of(policy: Any) -> Any:
    if policy == "never":
        return ev.never()
    return ev.on_update() if policy == "each" else ev.every(us(policy))


def retained(spec: Spec) -> dict[str, Any]:
    by_rows = spec.axis == "rows"
    kept = {} if spec.keep is None else {"limit_rows": spec.keep} if by_rows else {"allowed_lateness": us(spec.keep)}
    return kept if spec.keep_time is None else kept | {"allowed_lateness": us(spec.keep_time)}


def full_size(spec: Spec) -> dict[str, Any] | None:
    full = {} if spec.full_rows is None else {"rows": spec.full_rows}
    return (full | {"time": us(spec.full_time)} if spec.full_time else full) or None


def operator_of(spec: Spec, store: Any = None, **options: Any) -> Any:
    by_rows = spec.axis == "rows"
    window = (
        ev.rows(spec.size, every=spec.every)
        if by_rows
        else ev.sliding(us(spec.size), every=us(spec.every), gaps="allowed")
    )
    shared: dict[str, Any] = {
        "time": "time",
        "offset": "offset",
        "early": policy_of(spec.early),
        "late": policy_of(spec.late),
        **retained(spec),
        "full": full_size(spec),
        "store": store,
        "schema": {"offset": int, "time": int, "value": int},
        **options,
    }
    if spec.joins:
        return JoinWindow(window, **shared)
    # A list needs the messages, a sum does not.
    return WindowAggregator(window, {"value": ev.collect_sorted("value"), "total": ev.sum("value")}, **shared)


def outputs_of(operator: Any, spec: Spec) -> list[tuple[Any, ...]]:
    outputs = []
    for _, output in sorted(operator.get_result().group_by("pane_number"), key=lambda part: part[0]):
        row = output.row(0, named=True)
        start = row["window_start"]
        start = start if isinstance(start, int) else round(start.timestamp() * 1_000_000)
        values = output["value"].to_list() if spec.joins else row["value"]
        assert spec.joins or row["total"] == sum(values)
        now = round(row["emitted_at"].timestamp() * 1_000_000)
        outputs.append((now, start, row["pane_timing"], row["pane_index"], sorted(values)))
    operator.flush()
    return outputs


def _spec(kind: Any, axis: str, joins: bool, early: Any, late: Any, keep: Any, full: Any, age: Any) -> Spec:
    """On each axis only what it has: an end in time, or an age of what is counted in rows."""
    by_rows = axis == "rows"
    rows, time = full
    return Spec(*kind, axis, joins, early, late, keep, rows, 0 if by_rows else time, age if by_rows else None)


SPECS = st.builds(
    _spec,
    st.sampled_from(KINDS),
    st.sampled_from(["time", "time", "rows"]),
    st.booleans(),
    st.sampled_from(["never", "each", 10]),
    st.sampled_from(["never", "each", 10]),
    st.sampled_from([None, None, 5, 12]),
    st.sampled_from([(None, 0), (None, 0), (2, 0), (None, 4), (3, 7)]),
    st.sampled_from([None, 10]),
)
# A step is a message (how far its offset lies from the next new one, its time) or none, and how much time passes.
STEPS = st.lists(
    st.tuples(st.none() | st.tuples(st.integers(-4, 1), st.integers(-5, 40)), st.integers(0, 15)), max_size=14
)


@settings(max_examples=examples(20), phases=UNSHRUNK)
@given(SPECS, STEPS, st.sampled_from([None, ":memory:"]))
def test_operators_and_model_agree(spec: Spec, steps: list[Any], store: Any) -> None:
    operator, model = operator_of(spec, store), Model(spec)
    outputs: list[tuple[Any, ...]] = []
    now, known = 0, {}
    for message, passed in steps:
        now += passed
        if message is None:
            operator.timeout(now=now)
            model.look(now)
        else:
            back, time = message
            offset = max(0, len(known) + back)  # often one that was there before, sometimes one too far
            offset, time, value = known.setdefault(offset, (offset, time, offset * 7 % 10))
            operator.add_message({"offset": offset, "time": time, "value": value}, now=now)
            model.add(offset, time, value, now)
        outputs += outputs_of(operator, spec)
    assert outputs == model.emitted
    assert ([] if operator.dead.is_empty() else operator.dead["offset"].to_list()) == model.dead
    assert operator.get_windows().height == len(model.windows)
    operator.close()


class Consumer:
    """Takes outputs as they come; an output that it has seen, by its number, it does not take again."""

    def __init__(self, spec: Spec) -> None:
        self._joins = spec.joins
        self.taken: dict[int, Any] = {}

    def take(self, outputs: Any) -> None:
        for (number,), output in outputs.group_by("pane_number", maintain_order=True):
            row = output.row(0, named=True)
            window = row["window_start"], row["window_end"]
            entry = (window, sorted(output["value"].to_list()) if self._joins else row["value"])
            assert self.taken.setdefault(number, entry) == entry

    def latest(self) -> dict[Any, list[int]]:
        """The last word on each window; all messages, where messages are emitted once."""
        results: dict[Any, list[int]] = {}
        for _, (window, values) in sorted(self.taken.items()):
            results[window] = sorted([*results.get(window, []), *values]) if self._joins else values
        return results


@settings(max_examples=examples(15), phases=UNSHRUNK)
@given(SPECS, st.randoms(use_true_random=False), st.integers(1, 20))
@pytest.mark.parametrize("loses_messages", [False, True])
def test_crashes_lose_nothing_and_double_nothing(
    tmp_path_factory: pytest.TempPathFactory, loses_messages: bool, spec: Spec, rng: Random, count: int
) -> None:
    spec = spec._replace(
        keep=None, keep_time=None
    )  # what is too old depends on the order, which is another test's subject
    place = tmp_path_factory.mktemp("crash") / "store.db"
    stream = [{"offset": i, "time": rng.randint(-5, 40), "value": rng.randint(0, 9)} for i in range(1, count + 1)]
    operator, consumer, now, at = operator_of(spec, place), Consumer(spec), 0, 0
    crashes = 0
    while at < len(stream):
        now += rng.randint(0, 12)
        if rng.random() < 0.25 and crashes < 4:
            crashes += 1
            operator.close()  # as a crash does: without a commit
            if loses_messages:
                lose_messages(place)
            operator = operator_of(spec, place)
            at = 0 if operator.recover_from() is None else operator.recover_from() - 1
            continue
        size = rng.randint(1, 3)
        operator.add_message(stream[at : at + size], now=now)
        at += size
        if rng.random() < 0.5:
            operator.timeout(now=now)
        if rng.random() < 0.5:
            consumer.take(operator.get_result())
            if rng.random() < 0.7:
                operator.flush()
    beyond = {"offset": count + 1, "time": 1000, "value": 0}
    more = [dict(beyond, offset=count + 1 + i) for i in range(30 if spec.axis == "rows" else 1)]
    operator.add_message(more, now=now)
    operator.timeout(now=now + 1000)
    consumer.take(operator.get_result())
    operator.close()
    model = Model(spec._replace(early="each", late="each"))
    for row in [*stream, *more]:
        model.add(row["offset"], row["time"], row["value"], 0)
    # A window that is full before its end, and emits nothing late, is not emitted again when it is complete.
    once = spec.late == "never" and (spec.axis == "time" or spec.full_rows is not None)
    full = {
        window.start: sorted(window.taking_part)
        for window in model.windows.values()
        if window.taking_part and window.end <= model.front and not once
    }
    results = {number(window[0]): values for window, values in consumer.latest().items()}
    assert {start: results.get(start) for start in full} == full


def number(bound: Any) -> int:
    return bound if isinstance(bound, int) else round(bound.timestamp() * 1_000_000)


def lose_messages(place: Path) -> None:
    with closing(sqlite3.connect(place, isolation_level=None)) as database:
        if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'messages'").fetchone():
            database.execute("DELETE FROM messages")
            database.execute("DELETE FROM message_chunks")


KEYS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 40)), min_size=1, max_size=12)


def through_sessions(make: Any, stream: list[dict[str, Any]], size: int, rng: Random | None) -> Any:
    """All messages through an operator, which dies now and then if there is chance; with all of its outputs."""
    operator, at, left = make(), 0, 3 if rng else 0
    while at < len(stream):
        if rng and left and rng.random() < 0.3:
            left -= 1
            operator.close()
            operator = make()
            at = operator.recover_from() or 0
            continue
        operator.add_message(stream[at : at + size], now=at)
        at += size
    outputs = operator.get_result()
    operator.close()
    return outputs


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("touching", ["merge", "split"])
@settings(max_examples=examples(15), phases=UNSHRUNK)
@given(KEYS, st.integers(1, 3), st.sampled_from(["never", "each"]), st.randoms(use_true_random=False))
def test_the_last_word_on_sessions_is_what_all_messages_give(
    tmp_path_factory: pytest.TempPathFactory,
    touching: Any,
    restarts: bool,
    rows: list[tuple[str, int]],
    size: int,
    early: str,
    rng: Random,
) -> None:
    store = tmp_path_factory.mktemp("sessions") / "store.db" if restarts else None

    def make() -> SessionAggregator:
        return SessionAggregator(
            ev.sessions(us(4), touching=touching),
            {"values": ev.collect_list("offset"), "n": ev.count()},
            time="time",
            offset="offset",
            key="key",
            early=policy_of(early),
            late=ev.on_update(),
            store=store,
        )

    stream = [{"offset": i, "key": key, "time": time} for i, (key, time) in enumerate([*rows, ("c", 100)])]
    outputs = through_sessions(make, stream, size, rng if restarts else None)
    standing: dict[Any, Any] = {}
    for row in outputs.iter_rows(named=True):
        for old in row["replaces"]:
            assert standing.pop((row["key"], *old.values())) is not None
        standing[row["key"], row["window_start"], row["window_end"]] = (sorted(row["values"]), row["n"])
    expected = {}
    for key in {key for key, _ in rows}:
        run: list[tuple[int, int]] = []
        for time, offset in sorted((row["time"], row["offset"]) for row in stream if row["key"] == key):
            if run and time - run[-1][0] >= (4 + (touching == "merge")):
                expected[key, run[0][0]] = sorted(offset for _, offset in run)
                run = []
            run.append((time, offset))
        expected[key, run[0][0]] = sorted(offset for _, offset in run)
    results = {(key, number(start)): values for (key, start, _), (values, n) in standing.items() if key != "c"}
    assert results == expected


@settings(max_examples=examples(15), phases=UNSHRUNK)
@given(KEYS, st.integers(1, 3), st.sampled_from(["never", "each"]), st.randoms(use_true_random=False))
def test_a_session_join_tells_each_message_once(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int]], size: int, early: str, rng: Random
) -> None:
    store = tmp_path_factory.mktemp("sessions") / "store.db"

    def make() -> SessionJoinWindow:
        shared: dict[str, Any] = {"time": "time", "offset": "offset", "key": "key", "store": store}
        return SessionJoinWindow(ev.sessions(us(4)), **shared, early=policy_of(early))

    stream = [{"offset": i, "key": key, "time": time} for i, (key, time) in enumerate([*rows, ("c", 100)])]
    offsets = through_sessions(make, stream, size, rng)["offset"].to_list()
    assert sorted(offsets)[: len(rows)] == list(range(len(rows)))
    assert len(offsets) == len(set(offsets))
