"""Chained pipelines: what is retracted upstream is retracted downstream, with any aggregate."""

from typing import Any

import polars as pl
import pytest

import eventide as ev

S = 1_000_000
OFTEN = ev.after_watermark(early=ev.on_update(), late=ev.on_update())


def panes(rows: list[tuple[float | None, int]]) -> pl.DataFrame:
    """Rows as an upstream pipeline gives them, all of one window."""
    bound = pl.Datetime("us", "UTC")
    return pl.DataFrame(
        {
            "t": [0] * len(rows),
            "window_start": pl.Series([0] * len(rows), dtype=pl.Int64).cast(bound),
            "window_end": pl.Series([10 * S] * len(rows), dtype=pl.Int64).cast(bound),
            "v": pl.Series([v for v, _ in rows], dtype=pl.Float64),
            "diff": pl.Series([d for _, d in rows], dtype=pl.Int8),
        }
    )


def over(**aggregates: Any) -> ev.Pipeline:
    stream = ev.stream(time="t").window(ev.inherit()).trigger(OFTEN, mode="retracting", skip_unchanged=True)
    return stream.agg(**aggregates)


def test_spread_is_right_where_values_are_large_and_close_together() -> None:
    rows = panes([(1772366400.0 + i, 1) for i in range(4)])
    result = over(sd=ev.std("v"), var=ev.var("v")).local(rows, clock=[0]).panes
    assert result.filter(pl.col("diff") > 0).select("sd", "var").row(-1) == pytest.approx((1.2909944, 1.6666667))


def test_spread_is_right_after_rows_were_retracted() -> None:
    bundles = [panes([(1e9, 1), (1e9 + 1, 1), (5.0, 1)]), panes([(5.0, -1), (1e9 + 2, 1)])]
    last = over(var=ev.var("v")).local(bundles, clock=[0, 1]).panes.filter(pl.col("diff") > 0).row(-1, named=True)
    assert last["var"] == pytest.approx(1.0)


def test_a_vanished_window_is_retracted_though_its_values_look_like_no_rows() -> None:
    result = over(m=ev.max("v")).local([panes([(None, 1)]), panes([(None, -1)])], clock=[0, 1]).panes
    assert result.select("m", "diff").rows() == [(None, 1), (None, -1)]


def test_what_is_new_cannot_be_less_than_nothing() -> None:
    plan = ev.stream(time="t").window(ev.inherit()).trigger(OFTEN, mode="discarding").agg(n=ev.count())
    with pytest.raises(ev.PlanError, match="over panes that can be retracted"):
        plan.local(panes([(1.0, 1)]))


def keys_per_window() -> ev.Pipeline:
    stream = ev.stream(time="ts", key="k", watermark=ev.bounded_delay("0.5s"))
    total = ev.stream(time="window_time").window(ev.inherit()).agg(keys=ev.count())
    return stream.window(ev.tumbling("10s")).agg(n=ev.count()).then(total)


def test_a_chain_is_drained_as_a_whole() -> None:
    rows = pl.DataFrame({"ts": [0, 1, 11 * S], "k": ["a", "b", "a"]})
    assert keys_per_window().local(rows, clock=[5], drain=False).panes["keys"].to_list() == [2]
    assert keys_per_window().local(rows, clock=[5]).panes["keys"].to_list() == [2, 1]


def test_a_chain_continues_from_its_saved_state() -> None:
    query = keys_per_window().start_local()
    query.push(pl.DataFrame({"ts": [0, 1], "k": ["a", "b"]}), now=0)
    later = keys_per_window().start_local(saved=query.save())
    later.push(pl.DataFrame({"ts": [11 * S], "k": ["a"]}), now=1)
    assert later.drain(now=2).panes["keys"].to_list() == [1]
    assert later.result.panes["keys"].to_list() == [2, 1]
    with pytest.raises(ev.PlanError, match="the state is of a chain of 2 pipelines, but this chain has 1"):
        keys_per_window().operators[0].start_local(saved=query.save())


HOURS = ev.stream(time="window_time").window(ev.tumbling("1 hour"))
MINUTES = ev.stream(time="ts", watermark="0 seconds").window(ev.tumbling("1 minute"))
EARLY_MINUTES = MINUTES.emit(early=ev.on_update(), allowed_lateness="1 hour").agg(n=ev.count())


def test_an_hour_over_retracted_minutes_counts_every_row_once() -> None:
    bundles = [pl.DataFrame({"ts": [at * S for at in times]}) for times in ([1], [2, 61], [3], [62], [4000])]
    result = EARLY_MINUTES.then(HOURS.agg(rows=ev.sum("n"), minutes=ev.count(), most=ev.max("n"))).local(bundles)
    assert result.panes.select("rows", "minutes", "most").rows() == [(5, 2, 3), (1, 1, 1)]


def test_a_window_whose_rows_are_all_retracted_emits_nothing() -> None:
    sessions = ev.stream(time="ts").window(ev.sessions("30 seconds")).emit(early=ev.on_update()).agg(n=ev.count())
    per_minute = ev.stream(time="window_time").window(ev.tumbling("1 minute")).agg(n=ev.sum("n"))
    bundles = [pl.DataFrame({"ts": [at * S]}) for at in (20, 45)]  # the session grows into the second minute
    result = sessions.then(per_minute).local(bundles, clock=[0, 1])
    assert result.panes.select("n", "diff").rows() == [(2, 1)]


@pytest.mark.parametrize("window", [ev.sessions("1 minute"), ev.rows(3)])
def test_windows_whose_bounds_depend_on_rows_do_not_follow_retractions(window: Any) -> None:
    with pytest.raises(ev.PlanError, match="cannot process retracted rows"):
        EARLY_MINUTES.then(ev.stream(time="window_time").window(window).agg(n=ev.count()))
    once = MINUTES.agg(n=ev.count())
    assert once.then(ev.stream(time="window_time").window(window).agg(n=ev.count())).plans


def test_only_a_complete_pipeline_with_one_input_follows_another() -> None:
    with pytest.raises(ev.PlanError, match=r"not a \w*Stream. Complete it first"):
        EARLY_MINUTES.then(HOURS)  # type: ignore[arg-type]
    both = ev.union(web=ev.stream(time="t"), shop=ev.stream(time="t")).window(ev.tumbling("1 minute"))
    with pytest.raises(ev.PlanError, match="cannot follow another one"):
        EARLY_MINUTES.then(both.agg(n=ev.count()))


def test_panes_of_windows_that_end_far_ahead_of_the_clock_enter_the_next_pipeline() -> None:
    monthly = ev.stream(time="ts", watermark=ev.bounded_delay("0s")).window(ev.calendar("month"))
    early = monthly.trigger(ev.after_watermark(early=ev.on_update()), mode="retracting").agg(n=ev.count())
    total = ev.stream(time="window_time", watermark=ev.bounded_delay("0s")).window(ev.inherit()).agg(total=ev.sum("n"))
    result = early.then(total).local(pl.DataFrame({"ts": [0, 1]}), clock=[5])
    assert result.dead.height == 0 and result.panes["total"].to_list() == [2]


PER_SHOP = ev.stream("ts", key="shop", watermark="0 seconds").window(ev.tumbling("1 minute")).agg(n=ev.count())
ROW_WINDOWS = ev.stream("ts", watermark="0 seconds").window(ev.rows(3)).agg(n=ev.count())


def hourly(time: str = "window_time", **options: Any) -> ev.WindowedStream:
    return ev.stream(time, **options).window(ev.tumbling("1 hour"))


MISTAKES: dict[str, tuple[ev.Pipeline, ev.Pipeline, str]] = {
    "time": (PER_SHOP, hourly("ts").agg(n=ev.count()), "no column 'ts'.*event time of a pane is 'window_time'"),
    "time that is none": (PER_SHOP, hourly("pane_index").agg(n=ev.count()), "'pane_index' is no event time"),
    "bounds of row windows": (ROW_WINDOWS, hourly("window_end").agg(n=ev.count()), "'window_end' is no event time"),
    "row windows": (ROW_WINDOWS, ev.stream("window_time").window(ev.inherit()).agg(n=ev.count()), "counted in rows"),
    "key": (PER_SHOP, hourly(key="shpo").agg(n=ev.count()), "key: .*no column 'shpo'. Did you mean 'shop'"),
    "aggregate": (PER_SHOP, hourly().agg(n=ev.sum("m")), r"sum\(m\): .*no column 'm'"),
    "aggregate of an expression": (PER_SHOP, hourly().agg(n=ev.sum(pl.col("m") * 2)), "no column 'm'"),
    "condition": (PER_SHOP, hourly().agg(n=ev.sum("n", where=pl.col("m") > 2)), "no column 'm'"),
    "composite": (PER_SHOP, hourly().agg(n=ev.composite(a=ev.sum("n"), b=ev.max("m"))), "no column 'm'"),
    "id": (
        PER_SHOP,
        ev.stream("window_time").deduplicate("id", within="1 hour").window(ev.tumbling("1 hour")).agg(n=ev.count()),
        "no column 'id'",
    ),
    "gap": (PER_SHOP, ev.stream("window_time").window(ev.sessions("gap")).agg(n=ev.count()), "no column 'gap'"),
    "third pipeline": (PER_SHOP.then(hourly().agg(most=ev.max("n"))), hourly(key="shop").agg(n=ev.count()), "'shop'"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_columns_that_a_chain_does_not_pass_on_are_found_when_it_is_built(case: str) -> None:
    first, following, message = MISTAKES[case]
    with pytest.raises(ev.PlanError, match=message):
        first.then(following)


def test_columns_whose_types_are_not_known_yet_are_accepted_in_a_chain() -> None:
    """Only names are known without rows: a key may be text, a result may be a struct with a time."""
    last = ev.stream("last.ts", key="shop").window(ev.tumbling("1 hour"))
    rows = pl.DataFrame({"ts": [1, 2], "shop": ["kiel", "kiel"]})
    first = ev.stream("ts", key="shop", watermark="0 seconds").window(ev.tumbling("1 minute"))
    chain = first.agg(last=ev.composite(ts=ev.max("ts"))).then(
        last.agg(shops=ev.collect_set("shop"), n=ev.count(), name=ev.min(pl.col("shop").str.to_uppercase()))
    )
    assert chain.local(rows).panes.select("shops", "n", "name").rows() == [(["kiel"], 1, "KIEL")]


def test_calls_between_pipelines_add_columns_to_a_chain() -> None:
    async def look_up(row: dict[str, Any]) -> dict[str, Any]:
        return {"region": "north"}

    regions = ev.stream("window_time", key="region").map_async(look_up, output={"region": pl.String})
    chain = PER_SHOP.then(regions.window(ev.tumbling("1 hour")).agg(n=ev.sum("n")))
    panes = chain.local(pl.DataFrame({"ts": [1, 2], "shop": ["kiel", "kiel"]})).panes
    assert panes.select("region", "n").rows() == [("north", 2)]
