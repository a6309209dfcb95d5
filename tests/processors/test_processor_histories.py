"""Random histories: a processor does with state and timers what a plain model does, for any events between bundles."""

from __future__ import annotations

from typing import Any, ClassVar

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import eventide as ev
from eventide.operators.operator import Bundle, Counts
from eventide.operators.process import ProcessOperator
from eventide.spark import shuffle_pages as page
from eventide.spark.stamp import split_stamp
from eventide.time import MIN
from tests.effort import examples
from tests.processors.cases import enriched
from tests.state.harness import Paged, small_pages

LAG = 3
SCHEMA = {"t": pl.Int64, "k": pl.String, "do": pl.String, "name": pl.String, "v": pl.Int64}
KINDS = ("put", "forget", "set", "unset", "set clock")


class Puppet(ev.Processor):
    """Does what its rows say, first all of one kind, then all of the next."""

    state_schema: ClassVar = {"v": pl.Int64}
    clock = True

    def process(self, edge: str, rows: pl.DataFrame) -> None:
        put, forget, timed, untimed, clocked = (rows.filter(do=kind) for kind in KINDS)
        self.state.put(put)
        self.state.remove(forget)
        for name in ("once", "again"):
            self.timers.set(timed.filter(name=name).select("k", at=pl.col("t") + pl.col("v")), name=name)
            self.timers.remove(untimed.filter(name=name), name=name)
            later = clocked.filter(name=name).select("k", at=self.context.now + pl.col("v"))
            self.timers.set(later, name=name, clock=True)
        self.emit(self.state.get(rows).select("k", what=pl.lit("state"), at=pl.lit(0, pl.Int64), v="v"))

    def on_timer(self, rows: pl.DataFrame) -> None:
        values = self.state.get(rows)["v"]
        self.emit(rows.select("k", what="timer", at=pl.col("at").cast(pl.Int64), v=values))
        again = rows.filter(timer="again", clock=False)
        self.timers.set(again.select("k", at=pl.col("at").cast(pl.Int64) + 7), name="again")


class Model:
    """The same, key by key."""

    def __init__(self) -> None:
        self.state: dict[Any, int] = {}
        self.timers: dict[tuple[Any, str, bool], int] = {}
        self.watermark = MIN

    def push(self, rows: list[tuple[Any, ...]], now: int) -> list[tuple[Any, ...]]:
        if rows:
            self.watermark = max(self.watermark, max(t for t, *_ in rows) - LAG)
        for kind in KINDS:
            for t, k, do, name, v in rows:
                if do != kind:
                    continue
                if kind == "put":
                    self.state[k] = v
                elif kind == "forget":
                    self.state.pop(k, None)
                elif kind == "unset":
                    self.timers.pop((k, name, False), None)
                else:
                    clock = kind == "set clock"
                    self.timers[k, name, clock] = (now if clock else t) + v
        out = [(k, "state", 0, self.state.get(k)) for _, k, *_ in rows]
        while due := [timer for timer, at in self.timers.items() if at <= (now if timer[2] else self.watermark)]:
            for k, name, clock in due:
                at = self.timers.pop((k, name, clock))
                out.append((k, name, at, self.state.get(k)))
                if name == "again" and not clock:
                    self.timers[k, name, clock] = at + 7
        return out


times = st.integers(0, 60)
row = st.tuples(
    times, st.sampled_from(["a", "b", "c", None]), st.sampled_from(KINDS), st.sampled_from(["once", "again"]), times
)
happening = st.sampled_from(["nothing", "restart", "catch up", "let go", "save"])
histories = st.lists(st.tuples(st.lists(row, max_size=6), st.integers(0, 30), happening), max_size=12)


OUTPUT = {"k": pl.String, "what": pl.String, "at": pl.Int64, "v": pl.Int64}
PUPPET = ev.stream(time="t", key="k", watermark=ev.bounded_delay(f"{LAG} microseconds")).process(
    Puppet(), output=OUTPUT
)


@pytest.mark.parametrize("small", [True, False], ids=["small pages", "large pages"])
def test_a_processor_does_what_the_model_does(small: bool) -> None:
    @settings(max_examples=examples(10), deadline=None)
    @given(histories)
    def agrees(history: list[Any]) -> None:
        operator = ProcessOperator(PUPPET.plan, SCHEMA)
        model, paged, now = Model(), Paged(operator), 0  # type: ignore[arg-type]
        for rows, later, happens in history:
            now += later
            frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
            output = paged.step(lambda state, frame=frame, now=now: operator.step(state, Bundle(frame, now)))
            assert output.panes.sort("k", "what", "at", "v").rows() == sort(model.push(rows, now))
            assert output.counts.balanced and output.open_panes == len(model.state) + len(model.timers)
            happen(operator, paged, happens)

    with pytest.MonkeyPatch.context() as patch:
        if small:
            small_pages(patch)
        agrees()


def sort(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """As Polars sorts: nulls first."""
    return pl.DataFrame(rows, schema=OUTPUT, orient="row").sort("k", "what", "at", "v").rows()


def happen(operator: ProcessOperator, paged: Paged, what: str) -> None:
    match what:
        case "restart":
            paged.restart()
        case "catch up":
            paged.refresh(2)
        case "let go":
            paged.evict()
        case "save":
            _, state = ProcessOperator.load(operator.plan, operator.save(paged.state))
            head, ledger = operator.write(state, (store := type(paged.store)()), None)
            paged.state, paged.store, paged.head, paged.manifest = state, store, head, ledger
            paged.versions = [(state, ledger)]


@settings(max_examples=examples(8), deadline=None)
@given(histories, st.integers(2, 3), st.integers(0, 6))
def test_keys_in_different_buckets_and_rows_in_different_tasks_make_no_difference(
    history: list[Any], buckets: int, cut: int
) -> None:
    operator = ProcessOperator(PUPPET.plan, SCHEMA)
    whole, states, now = operator.initial(), [operator.initial()] * buckets, 0
    for rows, later, _ in history:
        now += later
        frame = pl.DataFrame(rows, schema=SCHEMA, orient="row")
        step = operator.step(whole, Bundle(frame, now))
        whole = step.state
        tasks = [operator.stamp(part, now, MIN) for part in (frame[:cut], frame[cut:])]
        parts = [split_stamp(stamp, operator.plan.key, buckets, home=0) for stamp in tasks]
        steps = []
        for bucket, state in enumerate(states):
            stamps = [page.stamp_from_bytes(page.stamp_to_bytes(part[bucket])) for part in parts]
            steps.append(operator.apply(state, stamps, now))
        states = [step.state for step in steps]
        observed = pl.concat([step.output.panes for step in steps])
        assert observed.sort("k", "what", "at", "v").equals(step.output.panes.sort("k", "what", "at", "v"))
        assert sum((step.output.counts for step in steps), Counts()) == step.output.counts
        assert {step.output.promise for step in steps} == {step.output.promise}


order = st.tuples(times, st.sampled_from(["a", "b", "c"]), st.integers(0, 9))
customer = st.tuples(times, st.sampled_from(["a", "b", "c"]), st.sampled_from(["kiel", "ulm"]))
pairs = st.lists(st.tuples(st.lists(customer, max_size=2), st.lists(order, max_size=4), happening), max_size=10)


@settings(max_examples=examples(8), deadline=None)
@given(pairs)
def test_two_inputs_match_for_any_event_between_bundles(history: list[Any]) -> None:
    customers = {"t": pl.Int64(), "id": pl.String(), "city": pl.String()}
    orders = {"t": pl.Int64(), "customer": pl.String(), "price": pl.Int64()}
    operator = ProcessOperator(enriched().plan, customers, orders)
    paged, cities, waiting = Paged(operator), {}, []  # type: ignore[arg-type, var-annotated]
    for new, ordered, happens in history:
        frames = [pl.DataFrame(new, schema=customers, orient="row"), pl.DataFrame(ordered, schema=orders, orient="row")]
        output = paged.step(lambda state, frames=frames: operator.step(state, Bundle(frames, 0)))
        cities |= {id_: city for _, id_, city in new}
        ready = [call for call in waiting if call[1] in cities] + [call for call in ordered if call[1] in cities]
        waiting = [call for call in waiting + ordered if call[1] not in cities]
        assert sorted(output.panes.rows()) == sorted((id_, cities[id_], price) for _, id_, price in ready)
        happen(operator, paged, happens)
