"""Operators that users write themselves: rows, watermarks and timers reach them, and what they emit goes on."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import polars as pl
import pytest

import eventide as ev
from eventide.operators.chain import Chain
from eventide.operators.factory import operator_of
from eventide.operators.operator import Bundle, Stamp
from eventide.operators.process import ProcessOperator
from eventide.processors import keyed_state as changes
from eventide.state import pane_table as panes
from eventide.time import MAX, MIN
from tests.processors.cases import (
    ALARMS,
    ENRICHED,
    MINUTE,
    TOTALS,
    RunningTotal,
    Silence,
    alarms,
    enriched,
    minutes,
    rows,
    totals,
)

STREAM = ev.stream(time="t", key="k", watermark=ev.ascending())
PLAIN = {"k": pl.String}


def run(
    processor: ev.Processor, *bundles: pl.DataFrame, output: Any = None, stream: Any = STREAM, **options: Any
) -> Any:
    pipeline = stream.process(processor, output=output or PLAIN, **options)
    return pipeline.local(list(bundles), clock=list(range(len(bundles))))


# State


def test_a_running_total_continues_from_bundle_to_bundle() -> None:
    result = totals().local([rows((1, "a", 5), (2, "b", 1)), rows((3, "a", 2), (3, "a", 3))], clock=[0, 1])
    assert result.panes.rows() == [("a", 5), ("b", 1), ("a", 10)]
    assert result.panes.schema == TOTALS


def test_a_null_key_is_a_key_like_any_other() -> None:
    result = totals().local([rows((1, None, 5)), rows((2, None, 2), (2, "a", 1))], clock=[0, 1])
    assert result.panes.rows() == [(None, 5), (None, 7), ("a", 1)]


def test_minus_zero_and_zero_are_one_key_and_so_are_all_that_are_no_numbers() -> None:
    pipeline = ev.stream(time="t", key="k").process(RunningTotal(), output={"k": pl.Float64, "total": pl.Int64})
    nan = float("nan")
    bundles = [pl.DataFrame({"t": [1, 1], "k": [k, nan], "v": [1, 1]}) for k in (-0.0, 0.0)]
    assert pipeline.local(bundles, clock=[0, 1]).panes["total"].to_list() == [1, 1, 2, 2]


def test_a_key_that_is_no_number_is_matched_again_when_it_is_alone() -> None:
    pipeline = ev.stream(time="t", key="k").process(RunningTotal(), output={"k": pl.Float64, "total": pl.Int64})
    alone = pl.DataFrame({"t": [1], "k": [float("nan")], "v": [1]})
    result = pipeline.local([alone, alone, alone], clock=[0, 1, 2])
    assert result.panes["total"].to_list() == [1, 2, 3]
    assert result.steps[-1].open_panes == 1


def test_without_a_key_there_is_one_state() -> None:
    class Count(ev.Processor):
        state_schema: ClassVar = {"n": pl.Int64}

        def process(self, edge: str, rows: pl.DataFrame) -> None:
            known = self.state.get(rows)["n"].fill_null(0)
            self.emit(pl.DataFrame({"n": [known[0] + rows.height]}))
            self.state.put(pl.DataFrame({"n": [known[0] + rows.height]}))
            self.timers.set(rows.head(1).select(at=pl.lit(0)))

        def on_timer(self, rows: pl.DataFrame) -> None:
            self.state.remove(rows)

    stream = ev.stream(time="t")
    result = run(Count(), rows((1, "a", 1), (1, "b", 1)), rows((1, "c", 1)), output={"n": pl.Int64}, stream=stream)
    assert result.panes["n"].to_list() == [2, 3]
    assert result.steps[-1].open_panes == 0


def test_of_several_rows_of_a_key_the_last_is_remembered() -> None:
    class Last(ev.Processor):
        state_schema: ClassVar = {"v": pl.Int64}

        def process(self, edge: str, rows: pl.DataFrame) -> None:
            self.state.put(rows)
            self.emit(self.state.get(rows))

    result = run(Last(), rows((1, "a", 1), (1, "b", 2), (1, "a", 3)), output={"k": pl.String, "v": pl.Int64})
    assert result.panes.rows() == [("a", 3), ("b", 2), ("a", 3)]


def test_what_is_removed_is_gone_also_within_the_bundle() -> None:
    class Forget(ev.Processor):
        state_schema: ClassVar = {"v": pl.Int64}

        def process(self, edge: str, rows: pl.DataFrame) -> None:
            self.state.put(rows)
            self.state.remove(rows.filter(pl.col("v") == 0))
            self.emit(self.state.get(rows))

    output = {"k": pl.String, "v": pl.Int64}
    result = run(Forget(), rows((1, "a", 1), (1, "b", 2)), rows((1, "a", 0), (1, "b", 3)), output=output)
    assert result.panes.rows() == [("a", 1), ("b", 2), ("a", None), ("b", 3)]
    assert result.steps[-1].open_panes == 1


def test_keys_with_the_same_hash_do_not_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (changes, panes):
        monkeypatch.setattr(module, "row_hashes", lambda frame, by: pl.zeros(frame.height, pl.UInt64, eager=True))
    bundles = [rows((1, "a", 1), (1, "b", 2)), rows((2, "a", 1)), rows((30, "b", 1))]
    assert totals().local(bundles, clock=[0, 1, 2]).panes.rows() == [("a", 1), ("b", 2), ("a", 2), ("b", 3)]
    assert alarms().local(bundles, clock=[0, 1, 2], drain=False).panes["k"].to_list() == ["a"]


def test_what_is_written_follows_the_keys_that_are_touched() -> None:
    from tests.state.harness import Paged

    plan = totals().plan
    operator = ProcessOperator(plan, rows().schema)
    paged = Paged(operator)  # type: ignore[arg-type]
    many = pl.DataFrame({"t": [1] * 50_000, "k": [f"k{i}" for i in range(50_000)], "v": [1] * 50_000})
    paged.step(lambda state: operator.step(state, Bundle(many, 0)))
    large = sum(paged.store.puts)
    for now in range(1, 4):
        paged.step(lambda state, now=now: operator.step(state, Bundle(rows((2, "k7", 1)), now)))
        assert sum(paged.store.puts) < large / 50  # a copy of the store counts what this bundle put
    paged.restart()
    assert paged.step(lambda state: operator.step(state, Bundle(rows((2, "k7", 1)), 4))).panes["total"].to_list() == [5]


# Timers


def test_an_alarm_for_a_key_that_falls_silent() -> None:
    query = alarms().start_local()
    assert query.push(rows((0, "a", 1), (0, "b", 1)), now=0).panes.height == 0
    assert query.push(rows((9, "b", 1)), now=1).panes.height == 0  # moves the timer of b
    step = query.push(rows((12, "c", 1)), now=2)
    assert (step.panes["k"].to_list(), minutes(step.panes["since"])) == (["a"], [0])
    assert query.push(rows((19, "c", 1)), now=3).panes["k"].to_list() == ["b"]
    assert query.push(rows((20, "c", 1)), now=4).panes.height == 0  # each alarm is given once
    assert query.drain().panes["k"].to_list() == ["c"]


def test_a_timer_that_is_due_already_fires_in_the_same_bundle() -> None:
    class Echo(ev.Processor):
        def process(self, edge: str, rows: pl.DataFrame) -> None:
            self.timers.set(rows.with_columns(at=pl.col("t")))

        def on_timer(self, rows: pl.DataFrame) -> None:
            self.emit(rows.select("k"))

    query = STREAM.process(Echo(), output=PLAIN).start_local()
    assert query.push(rows((5, "a", 1), (9, "b", 1)), now=0).panes["k"].to_list() == ["a", "b"]
    assert query.push(rows((3, "late", 1)), now=0).panes["k"].to_list() == ["late"]


def test_timers_of_different_names_do_not_move_each_other_and_come_in_order() -> None:
    class Two(ev.Processor):
        def process(self, edge: str, rows: pl.DataFrame) -> None:
            self.timers.set(rows.select("k", at=pl.col("t") + 20), name="late")
            self.timers.set(rows.select("k", at=pl.col("t") + 10), name="early")
            self.timers.set(rows.select("k", at=pl.col("t") + 15), name="never")
            self.timers.remove(rows, name="never")

        def on_timer(self, rows: pl.DataFrame) -> None:
            self.emit(rows.select("timer", at=pl.col("at").cast(pl.Int64)))

    result = run(Two(), rows((0, "a", 1)), output={"timer": pl.String, "at": pl.Int64})
    assert result.panes.rows() == [("early", 10), ("late", 20)]


def test_a_timer_that_sets_itself_again_fires_for_all_the_time_that_passed() -> None:
    class Beat(ev.Processor):
        def process(self, edge: str, rows: pl.DataFrame) -> None:
            if rows["v"][0]:
                self.timers.set(rows.select("k", at=pl.col("t") + MINUTE))

        def on_timer(self, rows: pl.DataFrame) -> None:
            self.emit(rows.select("k", "at"))
            self.timers.set(rows.select("k", at=pl.col("at").dt.offset_by("1m")))

    query = STREAM.process(Beat(), output={"k": pl.String, "at": pl.Datetime("us", "UTC")}).start_local()
    query.push(rows((0, "a", 1)), now=0)
    assert minutes(query.push(rows((3, "b", 0)), now=1).panes["at"]) == [1, 2, 3]
    assert minutes(query.drain().panes["at"]) == [4]  # and not forever
    assert query.push(now=9).open_panes == 0


def test_a_timer_that_never_comes_further_is_rejected() -> None:
    class Stuck(ev.Processor):
        def process(self, edge: str, rows: pl.DataFrame) -> None:
            self.timers.set(rows.select("k", at="t"))

        def on_timer(self, rows: pl.DataFrame) -> None:
            self.timers.set(rows)

    with pytest.raises(ev.DataError, match="set timers that were due already 100 times in a row"):
        run(Stuck(), rows((0, "a", 1)))


def test_timers_on_the_batch_clock() -> None:
    class Later(ev.Processor):
        clock = True

        def process(self, edge: str, rows: pl.DataFrame) -> None:
            self.timers.set(rows.select("k", at=pl.lit(self.context.now + 100)), clock=True)

        def on_timer(self, rows: pl.DataFrame) -> None:
            assert rows["clock"].all()
            self.emit(rows.select("k"))

    query = STREAM.process(Later(), output=PLAIN).start_local()
    query.push(rows((5, "a", 1)), now=0)
    query.push(rows((900, "b", 1)), now=50)  # event time has no say
    assert query.push(now=99).panes.height == 0
    assert query.push(now=100).panes["k"].to_list() == ["a"]
    assert query.push(now=1000).panes["k"].to_list() == ["b"]
    query.push(rows((901, "c", 1)), now=1001)
    ended = query.drain()
    assert (ended.panes.height, ended.open_panes) == (0, 1)  # the end of the stream has none either


# Watermarks


class Watching(ev.Processor):
    """Tells what it hears of."""

    def open(self, context: Any) -> None:
        self.heard: list[str] = []

    def process(self, edge: str, rows: pl.DataFrame) -> None:
        self.heard.append(f"rows of {edge}")
        assert [self.context.watermarks[edge]] == rows["t"].tail(1).to_list()

    def on_edge_watermark(self, edge: str, watermark: ev.Watermark) -> tuple[()]:
        self.heard.append(f"{edge} is at {watermark.time // MINUTE} of {watermark.key}")
        return ()

    def on_watermark(self, watermark: ev.Watermark) -> tuple[ev.Watermark, ...]:
        self.heard.append(f"all are at {watermark.time // MINUTE} of {watermark.key}")
        self.emit(pl.DataFrame({"k": self.heard}))
        return (watermark,)


def two(first: ev.Stream, other: ev.Stream, processor: ev.Processor, output: Any = PLAIN) -> Any:
    return ev.process({"left": first, "right": other}, processor, output=output)


def test_an_edge_emits_at_once_and_all_edges_when_all_have_arrived() -> None:
    query = two(STREAM, STREAM, Watching()).start_local({"left": rows().schema, "right": rows().schema})
    assert query.push({"left": rows((5, "a", 1))}, now=0).panes.height == 0
    step = query.push({"left": rows((7, "a", 1)), "right": rows((6, "b", 1))}, now=1)
    assert step.panes["k"].to_list() == [
        *("rows of left", "rows of right", "left is at 7 of 0", "right is at 6 of 0", "all are at 6 of 0"),
    ]
    assert step.promise == step.watermark_us == 6 * MINUTE
    step = query.push({"right": rows((9, "b", 1))}, now=2)
    assert step.panes["k"].to_list() == ["rows of right", "right is at 9 of 0", "all are at 7 of 0"]


def test_watermarks_of_different_keys_are_distinguished() -> None:
    heard: list[str] = []

    class Edges(Watching):
        def on_edge_watermark(self, edge: str, watermark: ev.Watermark) -> tuple[ev.Watermark, ...]:  # type: ignore[override]
            return (watermark,)

        def on_watermark(self, watermark: ev.Watermark) -> tuple[ev.Watermark, ...]:
            heard.append(str(watermark))
            return ()

    right = ev.stream(time="t", key="k", watermark=ev.ascending(watermark_key=1))
    query = two(STREAM, right, Edges()).start_local({"left": rows().schema, "right": rows().schema})
    step = query.push({"left": rows((5, "a", 1)), "right": rows((6, "b", 1))}, now=0)
    assert step.promises == {0: 5 * MINUTE, 1: 6 * MINUTE} and not heard


def test_a_processor_that_returns_nothing_holds_the_watermark() -> None:
    class Hold(RunningTotal):
        def on_watermark(self, watermark: ev.Watermark) -> Any:
            return [ev.Watermark(watermark.key, watermark.time - MINUTE)] if watermark.time > 2 * MINUTE else None

    query = STREAM.process(Hold(), output=TOTALS).start_local()
    assert query.push(rows((1, "a", 1)), now=0).promise == MIN
    assert query.push(rows((3, "a", 1)), now=0).promise == 2 * MINUTE
    again = STREAM.process(Hold(), output=TOTALS).start_local(saved=query.save())
    step = again.push(rows((3, "a", 1)), now=0)
    assert (step.promise, step.watermark_us) == (2 * MINUTE, 3 * MINUTE)


def test_a_watermark_that_goes_back_is_rejected() -> None:
    class Back(RunningTotal):
        def on_watermark(self, watermark: ev.Watermark) -> Any:
            return [ev.Watermark(watermark.key, -watermark.time)]

    with pytest.raises(ev.DataError, match=r"Back sends the watermark .* but has sent .* before"):
        run(Back(), rows((1, "a", 1)), rows((2, "a", 1)), output=TOTALS)


def test_a_pipeline_follows_a_processor_and_believes_its_watermark() -> None:
    out = {"k": pl.String, "since": pl.Datetime("us", "UTC")}
    per_hour = ev.stream(time="since").window(ev.tumbling("1h")).agg(n=ev.count())
    chain = STREAM.process(Silence(), output=out).then(per_hour)
    result = chain.local([rows((0, "a", 1), (0, "b", 1)), rows((60, "c", 1))], clock=[0, 1])
    assert result.panes["n"].to_list() == [2, 1]


# Late rows, dead letters and counts


def test_late_rows_are_marked_and_counted() -> None:
    class Mark(ev.Processor):
        def process(self, edge: str, rows: pl.DataFrame) -> None:
            self.emit(rows.select("v", late=pl.col(self.LATE)))

    output = {"v": pl.Int64, "late": pl.Boolean}
    result = run(Mark(), rows((5, "a", 1), (3, "a", 2)), rows((4, "a", 3), (6, "a", 4)), output=output)
    assert result.panes.rows() == [(1, False), (2, False), (3, True), (4, False)]
    assert (result.metrics.refined, result.metrics.late, result.metrics.kept) == (1, 0, 4)


def test_late_rows_can_be_diverted() -> None:
    result = totals(late="divert").local([rows((5, "a", 1)), rows((4, "a", 3), (6, "a", 4))], clock=[0, 1])
    assert result.panes["total"].to_list() == [1, 5]
    assert result.late.select("t", "v").rows() == [(4 * MINUTE, 3)]
    assert result.metrics.balanced and result.metrics.late == 1


class Picky(ev.Processor):
    def process(self, edge: str, rows: pl.DataFrame) -> None:
        self.dead(rows.filter(pl.col("v") < 0), "below zero")
        self.emit(rows.filter(pl.col("v") >= 0).select("k"))


def test_rows_that_a_processor_rejects_are_dead_letters() -> None:
    bundle = rows((1, "a", 1), (2, "b", -1)).with_columns(t=pl.Series([1, None]))
    result = run(Picky(), rows((1, "a", 1), (2, "b", -1), (3, "c", 2)), bundle)
    assert result.panes["k"].to_list() == ["a", "c", "a"]
    assert result.dead.select("k", "ev_reason", "ev_detail").rows() == [
        ("b", "failed", "below zero"),
        ("b", "null_time", "the time 't' is null"),
    ]
    assert result.metrics.dead == {"failed": 1, "null_time": 1} and result.metrics.balanced


@pytest.mark.parametrize(
    "again",
    [
        pytest.param(lambda rows: rows.select("k"), id="rows that are not as they were given"),
        pytest.param(lambda rows: pl.concat([rows, rows]), id="each of them twice"),
    ],
)
def test_only_rows_that_were_given_can_be_rejected_and_once(again: Any) -> None:
    class Wrong(ev.Processor):
        def process(self, edge: str, rows: pl.DataFrame) -> None:
            self.dead(again(rows), "no")

    with pytest.raises(ev.DataError, match="takes rows of the frame passed to process"):
        run(Wrong(), rows((1, "a", 1)))


def test_outside_of_process_there_is_nothing_to_reject() -> None:
    class Wrong(RunningTotal):
        def on_watermark(self, watermark: ev.Watermark) -> Any:
            self.dead(rows((1, "a", 1)), "no")

    with pytest.raises(ev.DataError, match="can be called only there"):
        run(Wrong(), rows((1, "a", 1)), output=TOTALS)


# Several inputs


def customers(*of: tuple[int, str, str]) -> pl.DataFrame:
    return pl.DataFrame(of, schema={"t": pl.Int64, "id": pl.String, "city": pl.String}, orient="row")


def orders(*of: tuple[int, str, int]) -> pl.DataFrame:
    return pl.DataFrame(of, schema={"t": pl.Int64, "customer": pl.String, "price": pl.Int64}, orient="row")


def test_rows_of_two_inputs_meet_in_the_state_of_their_key() -> None:
    bundles = {
        "customers": [customers((1, "eva", "kiel")), customers((5, "tom", "ulm")), customers()],
        "orders": [orders((2, "eva", 10), (3, "tom", 20)), orders((4, "tom", 21)), orders((9, "eva", 11))],
    }
    pipeline = ev.process(
        {
            "customers": ev.stream(time="t", key="id"),
            "orders": ev.stream(time="t", key="customer"),
        },
        enriched().plan.processor,
        output=ENRICHED,
    )
    result = pipeline.local(bundles, clock=[0, 1, 2])
    assert result.panes.rows() == [("eva", "kiel", 10), ("tom", "ulm", 20), ("tom", "ulm", 21), ("eva", "kiel", 11)]


def test_dead_letters_of_inputs_say_which_one() -> None:
    query = two(STREAM, STREAM, Picky()).start_local({"left": rows().schema, "right": rows().schema})
    step = query.push({"left": rows((1, "a", 1)), "right": rows((1, "b", -1))}, now=0)
    assert step.dead.select("k", "ev_input", pl.col("right").struct.field("v")).rows() == [("b", "right", -1)]
    assert step.counts.balanced


def test_a_union_is_one_input_after_the_other() -> None:
    class Names(ev.Processor):
        def process(self, edge: str, rows: pl.DataFrame) -> None:
            self.emit(rows.select(k=pl.lit(edge) + pl.col("k")))

    pipeline = ev.union(web=STREAM, tills=STREAM).process(Names(), output=PLAIN)
    result = pipeline.local({"web": rows((1, "a", 1)), "tills": rows((1, "b", 1)).select("v", "k", "t")}, clock=[0])
    assert result.panes["k"].to_list() == ["weba", "tillsb"]


def test_a_column_that_hides_the_key_is_rejected() -> None:
    right = ev.stream(time="t", key="other", watermark=ev.ascending())
    schemas = {"left": rows().schema, "right": {**rows().schema, "other": pl.String()}}
    with pytest.raises(ev.PlanError, match="input 'right': its key is 'other', which is given under the name 'k'"):
        two(STREAM, right, RunningTotal(), TOTALS).start_local(schemas)


# Bundles, tasks and replays


def test_fields_are_fresh_in_every_bundle() -> None:
    class Remembering(ev.Processor):
        def __init__(self) -> None:
            self.seen: list[str] = []

        def process(self, edge: str, rows: pl.DataFrame) -> None:
            self.seen += rows["k"].to_list()
            self.emit(pl.DataFrame({"k": ["+".join(self.seen)]}))

    mine = Remembering()
    pipeline = STREAM.process(mine, output=PLAIN)
    mine.seen.append("changed afterwards")
    result = pipeline.local([rows((1, "a", 1)), rows((2, "b", 1))], clock=[0, 1])
    assert result.panes["k"].to_list() == ["a", "b"]


def test_a_step_that_failed_leaves_no_trace_and_can_be_made_again() -> None:
    class Fragile(RunningTotal):
        def process(self, edge: str, rows: pl.DataFrame) -> None:
            super().process(edge, rows)
            if (rows["v"] < 0).any():
                raise ValueError("negative")

    query = STREAM.process(Fragile(), output=TOTALS).start_local()
    query.push(rows((1, "a", 1)), now=0)
    before = query.save()
    with pytest.raises(ev.DataError):
        query.push(rows((2, "a", 5), (2, "a", -1)), now=1)
    assert query.save() == before
    assert query.push(rows((2, "a", 5)), now=1).panes["total"].to_list() == [6]


def test_stamps_of_several_tasks_are_one_bundle() -> None:
    operator = ProcessOperator(totals().plan, rows().schema)
    parts = [rows((1, "a", 5)), rows((2, "b", 1), (2, "a", 1))]
    stamps = [operator.stamp(part, 0, MIN) for part in parts]
    apart = operator.apply(operator.initial(), stamps, 0).output
    whole = operator.step(operator.initial(), Bundle(pl.concat(parts), 0)).output
    assert apart.panes.rows() == whole.panes.rows() == [("a", 6), ("b", 1)]
    assert apart.counts == whole.counts


def test_a_stamp_survives_its_way_as_bytes() -> None:
    from eventide.state import format as snapshot

    operator = ProcessOperator(totals().plan, rows().schema)
    stamp = operator.stamp(rows((1, "a", 5)), 0, MIN)
    content = snapshot.load(snapshot.dump({"rows": stamp.stamped.rows, "summary": stamp.summary}))
    again = Stamp(1, (), content["summary"], 0, type(stamp.stamped)(pl.DataFrame(), content["rows"]))
    assert operator.apply(operator.initial(), [again], 0).output.panes.rows() == [("a", 5)]


def test_a_plan_survives_its_way_to_a_task() -> None:
    plan = pickle.loads(pickle.dumps(totals().plan))
    query = totals().start_local()
    query.push(rows((1, "a", 1)), now=0)
    later = ev.Pipeline(plan).start_local(saved=query.save())
    assert later.push(rows((2, "a", 1)), now=1).panes["total"].to_list() == [2]


def test_the_clock_does_not_go_back() -> None:
    query = totals().start_local()
    query.push(rows((1, "a", 1)), now=5)
    with pytest.raises(ev.DataError, match="clock"):
        query.push(rows((1, "a", 1)), now=4)


def test_an_ended_stream_is_reported() -> None:
    heard = []

    class End(RunningTotal):
        def on_watermark(self, watermark: ev.Watermark) -> Any:
            heard.append(watermark.time)
            return watermark

    result = run(End(), rows((1, "a", 1)), output=TOTALS)
    assert heard == [MINUTE, MAX] and result.steps[-1].promise == MAX


class Behind(RunningTotal):
    """Delays its watermarks, or holds them."""

    def __init__(self, delay: int | None) -> None:
        self.delay = delay

    def on_watermark(self, watermark: ev.Watermark) -> Any:
        return self.delay and ev.Watermark(watermark.key, watermark.time - self.delay)


@pytest.mark.parametrize("delay", [None, MINUTE], ids=["held", "delayed"])
def test_an_ended_stream_ends_the_output_watermark_even_if_the_processor_holds_it(delay: int | None) -> None:
    result = run(Behind(delay), rows((5, "a", 1)), output=TOTALS)
    assert [step.promise for step in result.steps] == [4 * MINUTE if delay else MIN, MAX]
    assert result.steps[-1].promises == {0: MAX}


def test_the_end_is_promised_for_every_watermark_key() -> None:
    right = ev.stream(time="t", key="k", watermark=ev.ascending(watermark_key=1))
    result = two(STREAM, right, Behind(None), TOTALS).local(
        {"left": rows((5, "a", 1)), "right": rows((6, "b", 1))}, clock=[0]
    )
    assert result.steps[-1].promises == {0: MAX, 1: MAX}


def test_the_state_of_another_processor_is_rejected() -> None:
    query = totals().start_local()
    query.push(rows((1, "a", 1)), now=0)
    with pytest.raises(ev.PlanError, match="the processor changed from RunningTotal to Silence"):
        alarms().start_local(saved=query.save())


def test_under_its_name_a_processor_may_become_another_class() -> None:
    class Renamed(RunningTotal):
        pass

    query = totals(name="totals").start_local()
    query.push(rows((1, "a", 1)), now=0)
    later = STREAM.process(Renamed(), output=TOTALS, name="totals").start_local(saved=query.save())
    assert later.push(rows((2, "a", 1)), now=1).panes["total"].to_list() == [2]


def test_the_state_can_be_inspected() -> None:
    query = alarms().start_local()
    assert query.push(rows((1, "a", 1)), now=0).open_panes == 2
    state, timers = query.scan()
    assert state["k"].to_list() == timers["k"].to_list() == ["a"]
    assert query.result.panes.schema == ALARMS


class Through(ev.Processor):
    """Lets everything pass."""

    def process(self, edge: str, rows: pl.DataFrame) -> None:
        self.emit(rows.select("t", "t_right", "k"))


LEFT_KEY, RIGHT_KEY = (ev.stream(time="t", key="k", watermark=ev.ascending(watermark_key=key)) for key in (0, 1))
TWO_TIMES = {"t": pl.Int64, "t_right": pl.Int64, "k": pl.String}
BY_RIGHT_TIME = ev.stream(time="t_right", watermark=ev.no_watermark(watermark_key=1)).window(ev.tumbling("1 minute"))
WITH_TWO_TIMES = (
    ev.join(LEFT_KEY, RIGHT_KEY, on="k", within="0 seconds")
    .then(ev.stream(time="t", watermark=ev.no_watermark()).process(Through(), output=TWO_TIMES))
    .then(BY_RIGHT_TIME.agg(n=ev.count()))
)


def sides(*minutes: int) -> dict[str, pl.DataFrame]:
    frame = pl.DataFrame({"t": [minute * MINUTE for minute in minutes], "k": "a"})
    return {"left": frame, "right": frame}


def test_a_processor_forwards_watermark_keys_that_it_does_not_use() -> None:
    bundles = [sides(1, 2), sides(3)]
    rows = {name: [bundle[name] for bundle in bundles] for name in ("left", "right")}
    _, passed, counted = WITH_TWO_TIMES.local(rows, drain=False).operators
    assert [dict(step.promises) for step in passed.steps] == [
        {0: 2 * MINUTE, 1: 2 * MINUTE},
        {0: 3 * MINUTE, 1: 3 * MINUTE},
    ]
    assert [step.watermark_us for step in counted.steps] == [2 * MINUTE, 3 * MINUTE]
    assert counted.panes["n"].to_list() == [1, 1]


def test_a_chain_of_one_process_forwards_watermark_keys_too() -> None:
    plans = WITH_TWO_TIMES.plans
    frames = sides(1, 2)
    join = operator_of(plans[0], frames["left"].schema, frames["right"].schema)
    through = operator_of(plans[1], join.output_schemas()["panes"])
    chain = Chain([join, through, operator_of(plans[2], through.output_schemas()["panes"])])
    stamps = [join.stamp(frame, 0, -(2**63), edge) for edge, frame in enumerate(frames.values())]
    step = chain.step(chain.initial(), stamps, 0)
    assert step.outputs[-1].watermark_us == 2 * MINUTE


def test_a_key_that_passes_survives_a_restart_and_is_emitted_once() -> None:
    heard: list[str] = []

    class Hearing(Through):
        def on_watermark(self, watermark: ev.Watermark) -> tuple[ev.Watermark, ...]:
            heard.append(str(watermark.key))
            return (watermark,)

    hearing = ev.stream(time="t", watermark=ev.no_watermark()).process(Hearing(), output=TWO_TIMES)
    pipeline = WITH_TWO_TIMES.operators[0].then(hearing)
    query = pipeline.start_local()
    query.push(sides(1, 2), now=0)
    later = pipeline.start_local(saved=query.save())
    step = later.push(sides(1, 2), now=1)
    assert heard == ["0", "1"] and dict(step.promises) == {0: 2 * MINUTE, 1: 2 * MINUTE}


def test_windows_end_the_watermarks_of_other_keys_and_explain_says_so() -> None:
    observed = WITH_TWO_TIMES.operators[2].explain()
    assert "event time follows watermark key 1; windows do not forward watermarks of other keys" in observed
    assert "other keys" not in STREAM.window(ev.tumbling("1 minute")).agg(n=ev.count()).explain()
