"""Histories as columns: nothing is counted twice, and fewer points keep sums and extremes."""

from __future__ import annotations

import json
from pathlib import Path
from time import process_time  # the tests of other processes take time, too
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from eventide.dashboards import series
from eventide.dashboards.history_tables import HistoryLog, HistoryTables
from eventide.dashboards.query_view import charts, summary
from eventide.dashboards.watched_queries import QueryDirectory
from eventide.spark.batch_history import History
from eventide.spark.metrics import EventTimes, from_json, to_json
from eventide.time import format_instant
from tests.dashboards.histories import NOON, SECOND, at, batch, pane, write

COUNTS = st.fixed_dictionaries(
    {"kept": st.integers(0, 99), "late": st.integers(0, 9), "null_time": st.integers(0, 9), "early": st.integers(0, 5)}
)


def frame_of(counts: list[dict[str, int]]) -> pl.DataFrame:
    tables = HistoryTables()
    lines = []
    for number, values in enumerate(counts):
        dead = {"null_time": values["null_time"]}
        rows = values["kept"] + values["late"] + values["null_time"]
        more = {"kept": values["kept"], "late": values["late"], "dead": dead, "panes": {"EARLY": values["early"]}}
        lines.append(to_json(batch(number, rows=rows, state_bytes=values["kept"], **more)))  # type: ignore[arg-type]
    tables.add(lines)
    return tables.batches


@settings(max_examples=40, deadline=None)
@given(st.lists(COUNTS, min_size=1, max_size=70), st.integers(1, 20))
def test_downsampling_keeps_sums_and_extremes(counts: list[dict[str, int]], points: int) -> None:
    batches = frame_of(counts)
    sampled = series.downsample(batches, points)
    assert sampled.height == min(points, batches.height)
    for name in series.SUMS:
        assert sampled[name].sum() == batches[name].sum()
    assert sampled["batches"].sum() == batches.height
    assert sampled["watermark_low"].min() == batches["watermark"].min()
    assert sampled["watermark"][-1] == batches["watermark"][-1]
    assert sampled["state_bytes"].max() == batches["state_bytes"].max()
    assert sampled["seconds_max"].max() == batches["seconds"].max()
    assert sampled["lag"].max() == (batches["at"] - batches["watermark"]).max()
    assert (sampled["rows"] == sampled["kept"] + sampled["late"] + sampled["dead_null_time"]).all()


def test_a_repeated_batch_counts_once(tmp_path: Path) -> None:
    write(tmp_path, [batch(0), batch(1, rows=7, kept=7), batch(1)])
    log = HistoryLog(tmp_path / "eventide" / "history.jsonl")
    assert log.refresh() and log.tables.batches["rows"].to_list() == [10, 10]


def test_a_log_reads_only_complete_new_lines(tmp_path: Path) -> None:
    file = tmp_path / "eventide" / "history.jsonl"
    write(tmp_path, [batch(0)])
    log = HistoryLog(file)
    assert log.refresh() and not log.refresh()
    with file.open("a") as opened:
        opened.write('{"batch": 1, "de')
    assert not log.refresh()
    with file.open("a") as opened:
        opened.write('pth": 0, "at": "2026-03-01T12:00:01Z"}\nnot a line of JSON\n[1]\n{"batch": "x"}\n')
    assert log.refresh()
    assert log.tables.batches["batch"].to_list() == [0, 1] and log.tables.unreadable == 3


def test_a_log_survives_the_replacement_of_a_full_file(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl", most=3000)
    log = HistoryLog(history.path)
    for number in range(12):
        history.write([batch(number)])
        assert log.refresh()
    kept = log.tables.batches["batch"].to_list()
    assert kept == list(range(kept[0], 12)) and len(kept) > 3


def test_a_failure_lasts_until_the_next_batch(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl")
    history.write([batch(0)])
    history.fail("The table is gone.")
    log = HistoryLog(history.path)
    assert log.refresh() and log.tables.failure == "The table is gone."
    history.write([batch(1)])
    assert log.refresh() and log.tables.failure is None


def test_a_chain_has_the_rows_of_its_first_operator_and_the_panes_of_its_last() -> None:
    tables = HistoryTables()
    first, last = batch(0, rows=100, kept=100, panes={"ON_TIME": 7}, state_bytes=5), batch(0, depth=1, state_bytes=6)
    tables.add(map(to_json, (first, last)))
    only = series.of_query(tables.batches).row(0, named=True)
    assert (only["rows"], only["on_time"], only["state_bytes"]) == (100, 0, 11)


def test_a_range_of_time_includes_its_neighbours_so_that_lines_continue() -> None:
    batches = frame_of([{"kept": 1, "late": 0, "null_time": 0, "early": 0}] * 10)
    shown = series.between(batches, NOON + 3 * SECOND, NOON + 5 * SECOND)
    assert shown["batch"].to_list() == [2, 3, 4, 5, 6]
    assert series.between(batches, NOON + 99 * SECOND, None)["batch"].to_list() == [9]


def density(number: int, low: int, high: int, rows: list[int]) -> dict[str, object]:
    times = {"low": f"2026-03-01T12:00:{low:02}Z", "high": f"2026-03-01T12:00:{high:02}Z", "rows": rows}
    return to_json(batch(number)) | {"event_times": times}


def test_event_times_and_phases_survive_in_a_history() -> None:
    times = EventTimes(at(0), at(24), (3, 0, 4))
    line = json.loads(json.dumps(to_json(batch(0, event_times=times, phases={"read": 0.5, "compute": 0.25}))))
    assert (from_json(line).event_times, from_json(line).phases) == (times, {"read": 0.5, "compute": 0.25})
    tables = HistoryTables()
    tables.add([line])
    row = tables.batches.row(0, named=True)
    assert (row["event_low"], row["event_high"], row["density"]) == (NOON, NOON + 24 * SECOND, [3, 0, 4])
    assert (row["read"], row["compute"], row["deliver"]) == (0.5, 0.25, None)


def test_the_rows_of_histograms_add_up() -> None:
    tables = HistoryTables()
    tables.add([density(0, 0, 10, [3, 1]), density(1, 5, 25, [2, 0, 4]), density(2, 30, 30, [9])])
    for points in (1, 2, 3):
        observed = series.densities(tables.batches, points)
        assert sum(map(sum, observed["rows"])) == 19 and len(observed["at"]) == points
    assert series.densities(tables.batches, 3)["rows"] == [[3, 1], [2, 0, 4], [9]]
    single = series.densities(tables.batches, 1)
    assert single["low"] == [NOON] and single["high"] == [NOON + 30 * SECOND]


def test_late_rows_have_their_event_times_where_the_history_has_them() -> None:
    tables = HistoryTables()
    times = ((at(-30), 2), (at(-20), 1))
    late = [batch(0, late=3, late_times=times), batch(1, late=5), batch(2), batch(3, late=4, late_times=times)]
    tables.add(json.loads(json.dumps(to_json(metrics))) for metrics in late)
    marks = series.late_rows(tables.batches)
    known = [NOON - 30 * SECOND, NOON - 20 * SECOND]
    assert marks["time"].to_list() == [*known, None, *known, None]
    assert marks["rows"].to_list() == [2, 1, 5, 2, 1, 1]
    assert marks["at"].to_list() == [NOON, NOON, NOON + SECOND, *[NOON + 3 * SECOND] * 3]
    assert from_json(to_json(late[0])).late_times == times


def test_late_rows_of_many_batches_are_added_up() -> None:
    tables = HistoryTables()
    tables.add(to_json(batch(number, late=2, late_times=((at(number - 60), 2),))) for number in range(2000))
    marks = series.late_rows(tables.batches)
    assert marks.height <= series.LATE_ROWS * series.BINS and marks["rows"].sum() == 4000
    assert series.late_rows(tables.batches.head(0)).is_empty()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 90), st.lists(st.integers(-50, 90), max_size=5)),
        min_size=1,
        max_size=9,
    )
)
def test_the_parts_of_the_latency_add_up(batches: list[tuple[int, int, list[int]]]) -> None:
    tables = HistoryTables()
    tables.add(
        to_json(
            batch(
                3 * n,
                watermark=at(3 * n - lag),
                slowest=tuple((str(i), at(o)) for i, o in enumerate(origins)),
                seconds=s / 10,
            )
        )
        for n, (s, lag, origins) in enumerate(batches)
    )
    parts = {part.name: part for part in series.latency_parts(tables.batches)}
    lag = tables.batches["at"] - tables.batches["watermark"]
    assert (parts["disorder"] + parts["slowest"] == lag).all()
    assert (parts["slowest"] >= 0).all() and (parts["disorder"] >= 0).all()
    assert set(parts["interval"]) == ({1_500_000} if len(batches) > 1 else {0})
    assert parts["processing"].to_list() == [s * 100_000 for s, _, _ in batches]


def test_an_idle_origin_is_no_part_of_the_latency() -> None:
    tables = HistoryTables()
    slowest = (("idle", at(-500)), ("west", at(-10)), ("north", at(-4)), ("east", at(-4)))
    tables.add([to_json(batch(0, slowest=slowest, idle_origins=("idle",), watermark=at(-10)))])
    assert [part[0] / SECOND for part in series.latency_parts(tables.batches)] == [4, 6, 0, 0.5]


def test_the_summary_adds_up_and_sorts_origins_by_their_lag(tmp_path: Path) -> None:
    origins = (("north", at(-20)), ("west", at(-9)), ("new", None))
    more = {
        "rows": 13,
        "late": 2,
        "dead": {"future": 1},
        "slowest": origins,
        "idle_origins": ("west", "far"),
        "origins": 4,
    }
    write(tmp_path / "revenue", [batch(0), batch(1, least_origin="north", **more)])
    (query,) = QueryDirectory(tmp_path).look()
    query.refresh()
    shown = summary(query)
    assert (shown["id"], shown["sentence"]) == (
        "revenue",
        "The query has stopped. At its last batch: north was 21.0 s behind; everything waited for it.",
    )
    assert [origin["name"] for origin in shown["origins"]] == ["new", "north", "west", "far"]
    assert [origin["idle"] for origin in shown["origins"]] == [False, False, True, True]
    fate = shown["fate"]
    assert fate["balanced"] and fate["rows"] == 23 == fate["kept"] + fate["late"] + sum(fate["dead"].values())
    assert fate["dead"] == {"future": 1}


def test_the_rows_of_each_operator_of_a_chain_are_shown_and_add_up(tmp_path: Path) -> None:
    first = batch(0, rows=13, late=2, dead={"future": 1})
    last = batch(0, depth=1, rows=7, kept=4, late=1, dead={"failed": 2}, operation="processor")
    write(tmp_path / "revenue", [first, last, batch(1), batch(1, depth=1, rows=0, kept=0, operation="processor")])
    shown = summary_of(tmp_path / "revenue")
    (later,) = shown["later_fates"]
    assert (shown["fate"]["rows"], shown["fate"]["kept"], shown["fate"]["late"]) == (23, 20, 2)
    assert (later["operator"], later["rows"], later["kept"], later["late"]) == (1, 7, 4, 1)
    assert (later["dead"], later["kept_as"], later["balanced"]) == ({"failed": 2}, "processed", True)


def test_dead_letters_of_unknown_reasons_are_shown_by_name(tmp_path: Path) -> None:
    letters = {"rows": 15, "dead": {"future": 1, "torn": 3, "burnt": 1}}
    write(tmp_path / "revenue", [batch(0, **letters), batch(1, **letters), batch(1, **letters), batch(2)])
    shown = summary_of(tmp_path / "revenue")["fate"]
    assert shown["dead"] == {"future": 2, "torn": 6, "burnt": 2} and shown["balanced"]
    (query,) = QueryDirectory(tmp_path / "revenue").look()
    query.refresh()
    assert charts(query)["points"]["dead_other"] == [4, 4, 0]


def summary_of(place: Path) -> dict[str, Any]:
    (query,) = QueryDirectory(place).look()
    query.refresh()
    return summary(query)


def test_totals_do_not_shrink_when_a_full_history_is_replaced(tmp_path: Path) -> None:
    history = History(tmp_path / "history.jsonl", most=4000)
    letters = {"rows": 14, "late": 1, "dead": {"torn": 2, "future": 1}, "panes": {"LATE": 2}}
    for number in range(20):
        operators = [batch(number, **letters), batch(number, depth=1, rows=5, kept=5)]
        history.write(operators)
        if number % 3 == 0:
            history = History(tmp_path / "history.jsonl", most=4000)  # the query was started again
            history.write(operators)  # the batch is repeated
        shown = summary_of(tmp_path / "history.jsonl")
        first, second = shown["fate"], shown["later_fates"][0]
        count = number + 1
        assert (first["rows"], first["late"], second["rows"]) == (14 * count, count, 5 * count)
        assert first["dead"] == {"torn": 2 * count, "future": count} and first["panes"]["LATE"] == 2 * count
        assert first["balanced"] and first["since"] is None
    assert shown["batches"] < 10  # of which the history still has the lines


def test_totals_say_since_when_they_count_if_the_history_has_no_earlier_batch(tmp_path: Path) -> None:
    write(tmp_path / "revenue", [batch(number) for number in range(7, 9)])
    assert summary_of(tmp_path / "revenue")["fate"]["since"] == NOON + 7 * SECOND


def test_queries_of_a_directory_are_found_and_new_ones_appear(tmp_path: Path) -> None:
    write(tmp_path / "team" / "b", [batch(0)])
    queries = QueryDirectory(tmp_path)
    write(tmp_path / "a", [batch(0)])
    assert [query.id for query in queries.look()] == ["a", "team/b"]
    assert queries.get("../secret") is None
    assert [query.id for query in QueryDirectory(tmp_path / "a").look()] == ["a"]


def test_ten_thousand_batches_open_within_two_seconds(tmp_path: Path) -> None:
    origins = tuple((f"partition-{number}", at(-number)) for number in range(12))
    line = to_json(batch(0, slowest=origins, least_origin="partition-11", origins=12))
    history = tmp_path / "history.jsonl"
    History(history, windows=2_000).write([], [pane(number) for number in range(2_000)])
    with history.open("a") as opened:
        for number in range(10_000):
            time = format_instant(NOON + number * SECOND)
            opened.write(json.dumps(line | {"batch": number, "at": time}) + "\n")
    start = process_time()
    (query,) = QueryDirectory(history).look()
    query.refresh()
    shown, drawn = summary(query), charts(query)
    seconds = process_time() - start
    assert shown["batches"] == 10_000 and len(drawn["points"]["at"]) == 600 and len(drawn["panes"]["at"]) == 800
    assert seconds < 2
