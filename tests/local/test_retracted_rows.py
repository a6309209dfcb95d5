"""Rows that are panes of a retracting pipeline: retractions are applied, or the pipeline is rejected."""

from typing import Any, ClassVar

import polars as pl
import pytest

import eventide as ev

S = 1_000_000
BUNDLES = [pl.DataFrame({"ts": [at * S]}) for at in (1, 2)]
MINUTES = (
    ev.stream("ts", watermark="0 seconds")
    .window(ev.tumbling("1 minute"))
    .emit(early=ev.on_update(), allowed_lateness="1 hour")
    .agg(n=ev.count())
)
PANES = ev.stream("window_time", watermark="0 seconds")
HOURS = PANES.window(ev.tumbling("1 hour"))
BY_NUMBER = ev.stream("window_time", watermark=ev.bounded_delay("0s", sequence="pane_index", first_sequence=0))


class Total(ev.Processor):
    """The sum of all rows so far."""

    state_schema: ClassVar[dict[str, Any]] = {"total": pl.Int64}

    def process(self, edge: str, rows: pl.DataFrame) -> None:
        net = rows.select("window_start", total=pl.col("n") * pl.col("diff")).group_by("window_start").sum()
        known = self.state.get(net)["total"].fill_null(0)
        self.state.put(net.with_columns(pl.col("total") + known))
        self.emit(net.select(total=pl.col("total") + known))


class Forwarded(ev.Processor):
    """The panes with their diff, under fewer columns."""

    retractions = True

    def process(self, edge: str, rows: pl.DataFrame) -> None:
        self.emit(rows.select("window_time", "n", "diff"))


class NetTotal(Total):
    """The same, for rows that are retracted."""

    retractions = True


def processed(processor: ev.Processor) -> ev.Pipeline:
    keyed = ev.stream("window_time", key="window_start", watermark="0 seconds")
    return keyed.process(processor, output={"total": pl.Int64})


CANNOT = {
    "deduplicate by id": (
        PANES.deduplicate("window_start", within="1 hour").window(ev.tumbling("1 hour")).agg(n=ev.sum("n")),
        "deduplicate",
    ),
    "deduplicate by number": (
        BY_NUMBER.deduplicate().window(ev.tumbling("1 hour")).agg(n=ev.sum("n")),
        "deduplicate",
    ),
    "a limit of rows": (HOURS.limit_state(rows=2).agg(n=ev.sum("n")), "limit_state"),
    "sessions": (PANES.window(ev.sessions("1 minute")).agg(n=ev.sum("n")), "sessions"),
    "rows": (PANES.window(ev.rows(3)).agg(n=ev.sum("n")), "rows"),
    "a processor": (processed(Total()), "retractions = True"),
    "discarding": (HOURS.emit(early=ev.on_update(), mode="discarding").agg(n=ev.sum("n")), "discarding"),
}


@pytest.mark.parametrize("case", CANNOT)
def test_what_cannot_apply_retractions_is_rejected_in_a_chain(case: str) -> None:
    following, names = CANNOT[case]
    with pytest.raises(ev.PlanError, match=names) as raised:
        MINUTES.then(following)
    assert "The pipeline before retracts panes" in str(raised.value)


def test_no_advice_on_retractions_counts_rows_twice() -> None:
    """Panes that accumulate repeat the rows of the panes before them, so a later pipeline would count them again."""
    following, _ = CANNOT["sessions"]
    with pytest.raises(ev.PlanError) as raised:
        MINUTES.then(following)
    assert "accumulating" not in str(raised.value)
    windows = ev.stream("ts", watermark="0 seconds").window(ev.tumbling("1 minute"))
    added = windows.emit(early=ev.on_update(), allowed_lateness="1 hour", mode="discarding").agg(n=ev.count())
    assert added.then(following).local(BUNDLES, clock=[10, 11]).panes["n"].to_list() == [2]


@pytest.mark.parametrize("case", CANNOT)
def test_what_cannot_apply_retractions_rejects_panes_that_are_retracted(case: str) -> None:
    following, names = CANNOT[case]
    panes = MINUTES.local(BUNDLES, clock=[10, 11]).panes
    with pytest.raises(ev.DataError, match=names):
        following.local(panes)


@pytest.mark.parametrize("case", CANNOT)
def test_panes_of_which_none_is_retracted_are_rows_like_others(case: str) -> None:
    following, _ = CANNOT[case]
    once = ev.stream("ts", watermark="0 seconds").window(ev.tumbling("1 minute")).agg(n=ev.count())
    assert once.then(following).plans
    panes = once.local(pl.concat(BUNDLES)).panes
    assert following.local(panes).metrics.dead == {}


def test_a_processor_that_handles_retractions_follows_a_retracting_pipeline() -> None:
    chain = MINUTES.then(processed(NetTotal()))
    assert chain.local(BUNDLES).panes["total"].to_list()[-1] == 2
    assert "diff" in chain.explain()


@pytest.mark.parametrize("window", [ev.tumbling("1 hour"), ev.sliding("1 hour", "30 minutes"), ev.inherit()])
def test_panes_in_a_frame_are_applied_with_their_diff(window: Any) -> None:
    panes = MINUTES.local(BUNDLES).panes
    totals = PANES.window(window).agg(n=ev.sum("n")).local(panes).panes
    assert totals["n"].unique().to_list() == [2]


@pytest.mark.parametrize("dropped", ["pane_timing", "pane_index", ["pane_timing", "pane_index", "window_end"]])
def test_panes_whose_columns_were_dropped_are_applied_with_their_diff(dropped: str | list[str]) -> None:
    panes = MINUTES.local(BUNDLES, clock=[10, 11]).panes.drop(dropped)
    totals = HOURS.agg(panes=ev.count(), n=ev.sum("n")).local(panes).panes
    assert totals.select("panes", "n").rows() == [(1, 2)]


def test_a_column_of_the_user_with_the_name_and_type_of_diff_is_answered_with_what_to_change() -> None:
    goals = BUNDLES[0].with_columns(diff=pl.lit(3, pl.Int8))
    minutes = ev.stream("ts", watermark="0 seconds").window(ev.tumbling("1 minute"))
    details = minutes.agg(n=ev.sum("diff")).local(goals).dead["ev_detail"].unique().to_list()
    assert len(details) == 1 and "rename it or cast it to a wider type" in details[0]
    assert minutes.agg(n=ev.sum("goals")).local(goals.rename({"diff": "goals"})).dead.is_empty()
    assert minutes.agg(n=ev.sum("diff")).local(goals.cast({"diff": pl.Int16})).dead.is_empty()


def test_results_of_sql_are_applied_with_their_diff() -> None:
    minutes = ev.sql(
        """
        CREATE STREAM clicks WATERMARK FOR ts AS ts - INTERVAL '0' SECOND;
        SELECT window_time, COUNT(*) AS n
        FROM TUMBLE(clicks, DESCRIPTOR(ts), INTERVAL '1' MINUTE)
        GROUP BY window_start, window_end
        EMIT EARLY ON UPDATE ALLOWED LATENESS INTERVAL '1' HOUR
        """
    )
    results = minutes.local(BUNDLES, clock=[10, 11]).panes
    assert (results["diff"] == -1).any()
    totals = HOURS.agg(panes=ev.count(), n=ev.sum("n")).local(results).panes
    assert totals.select("panes", "n").rows() == [(1, 2)]


def test_a_processor_between_two_pipelines_passes_retractions_on() -> None:
    columns = {"window_time": pl.Datetime("us", "UTC"), "n": pl.Int64, "diff": pl.Int8}
    for diff in (pl.Int8, pl.Int64):
        forwarded = ev.stream("window_time", watermark="0 seconds").process(
            Forwarded(), output=columns | {"diff": diff}
        )
        chain = MINUTES.then(forwarded).then(HOURS.agg(panes=ev.count(), n=ev.sum("n")))
        panes = chain.local(BUNDLES, clock=[10, 11]).panes
        assert panes.select("panes", "n").rows() == [(1, 2)]


def test_what_cannot_apply_retractions_is_rejected_behind_a_processor_that_passes_them_on() -> None:
    columns = {"window_time": pl.Datetime("us", "UTC"), "n": pl.Int64, "diff": pl.Int8}
    forwarded = ev.stream("window_time", watermark="0 seconds").process(Forwarded(), output=columns)
    following, names = CANNOT["sessions"]
    with pytest.raises(ev.PlanError, match=names):
        MINUTES.then(forwarded).then(following)


def test_panes_without_the_columns_of_a_pane_are_rows() -> None:
    rows = pl.DataFrame({"ts": [1, 2], "diff": [-1, 5], "n": [3, 4]})
    totals = ev.stream("ts").window(ev.tumbling("1 hour")).agg(n=ev.sum("n"), diffs=ev.sum("diff"))
    assert totals.local(rows).panes.select("n", "diffs").rows() == [(7, 4)]


def test_a_limit_of_bytes_applies_retractions() -> None:
    hours = HOURS.limit_state(bytes=1_000_000).agg(n=ev.sum("n"))
    assert MINUTES.then(hours).local(BUNDLES).panes["n"].to_list() == [2]
