"""What batches did, written down and drawn."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from eventide.cli.history import QueryHistory, history_page, read_history
from eventide.cli.live_progress import LiveProgress, sparkline
from eventide.metrics import Gap
from eventide.spark.batch_history import History, RunHistory, history_file
from eventide.spark.metrics import BatchMetrics, CommandEffect, EventTimes, to_json
from eventide.spark.pane_counts import WindowPanes
from eventide.time import as_datetime
from tests.cli.typed import typed

SECOND = 1_000_000


def second(number: float) -> datetime:
    return as_datetime(int(number * SECOND))


def batch(number: int, **more: object) -> BatchMetrics:
    entry = {"batch": number, "depth": 0, "at": second(100 + number), "watermark": second(90 + number)}
    return BatchMetrics(**entry | {"rows": 10, "kept": 10} | more)  # type: ignore[arg-type]


def window(number: int, **more: object) -> WindowPanes:
    entry = {"batch": number, "start": 60 * SECOND, "end": 120 * SECOND, "timing": "EARLY", "diff": 1, "keys": 2}
    return WindowPanes(**entry | {"at": (100 + number) * SECOND} | more)  # type: ignore[arg-type]


TIMES = st.integers(0, 4_000_000_000_000_000).map(as_datetime)
NAMES = st.none() | st.text(max_size=5)
BATCHES = st.builds(
    BatchMetrics,
    batch=st.integers(0, 9),
    depth=st.integers(0, 2),
    at=TIMES,
    rows=st.integers(0, 99),
    dead=st.dictionaries(st.sampled_from(["null_time", "future"]), st.integers(1, 9)),
    panes=st.dictionaries(st.sampled_from(["EARLY", "LATE"]), st.integers(1, 9)),
    watermark=st.none() | TIMES,
    least_origin=NAMES,
    idle_origins=st.lists(NAMES, max_size=2).map(tuple),
    slowest=st.lists(st.tuples(NAMES, st.none() | TIMES), max_size=3).map(tuple),
    operation=st.sampled_from(["window", "join", "processor"]),
    seconds=st.floats(0, 100),
    previous_watermark=st.none() | TIMES,
    gap_ranges=st.lists(st.builds(Gap, NAMES, st.integers(1, 9), st.integers(1, 9), TIMES), max_size=2).map(tuple),
    commands=st.lists(st.builds(CommandEffect, id=st.text(), action=st.text(), origin=NAMES), max_size=2).map(tuple),
)


@given(BATCHES)
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, metrics: BatchMetrics) -> None:
    file = tmp_path_factory.mktemp("history") / "h.jsonl"
    History(file).write([metrics])
    assert read_history(file).batches == [metrics]


def test_a_batch_that_is_repeated_counts_once(tmp_path: Path) -> None:
    history = History(tmp_path / "h.jsonl")
    for metrics in (batch(0), batch(1), batch(1)):
        history.write([metrics], [window(metrics.batch)])
    result = read_history(tmp_path / "h.jsonl")
    assert [metrics.batch for metrics in result.batches] == [0, 1]
    assert [metrics.batch for metrics in result.windows] == [0, 1]


def test_a_history_does_not_grow_without_end(tmp_path: Path) -> None:
    history = History(tmp_path / "h.jsonl", most=2_000)
    for number in range(100):
        history.write([batch(number)])
    kept = [metrics.batch for metrics in read_history(tmp_path / "h.jsonl").batches]
    assert kept == list(range(kept[0], 100)) and 2 <= len(kept) < 20


def test_a_line_that_a_crash_cut_off_is_left_out(tmp_path: Path) -> None:
    History(tmp_path / "h.jsonl").write([batch(0)])
    with (tmp_path / "h.jsonl").open("a") as file:
        file.write('{"batch": 1, "de')
    assert len(read_history(tmp_path / "h.jsonl").batches) == 1


def test_the_next_run_deletes_a_line_that_a_crash_cut_off(tmp_path: Path) -> None:
    History(tmp_path / "h.jsonl").write([batch(0)])
    with (tmp_path / "h.jsonl").open("a") as file:
        file.write('{"batch": 1, "de')
    History(tmp_path / "h.jsonl").write([batch(1)])
    assert [metrics.batch for metrics in read_history(tmp_path / "h.jsonl").batches] == [0, 1]


def test_a_history_that_cannot_be_written_is_a_warning_and_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.warns(UserWarning, match="cannot be written"):
        run = RunHistory([History(tmp_path / "file" / "h.jsonl"), History(tmp_path / "h.jsonl")])
    run.write([batch(0)])
    (tmp_path / "h.jsonl").unlink()
    (tmp_path / "h.jsonl").mkdir()
    with pytest.warns(UserWarning, match="cannot be written"):
        run.write([batch(1)])
    run.write([batch(2)])


def test_a_file_that_was_deleted_is_created_again(tmp_path: Path) -> None:
    run = RunHistory([History(tmp_path / "h.jsonl")])
    run.write([batch(0)])
    (tmp_path / "h.jsonl").unlink()
    run.write([batch(0)])
    run.write([batch(1)])
    assert len(read_history(tmp_path / "h.jsonl").batches) == 2


def test_a_failure_is_written_once_until_the_query_runs_again(tmp_path: Path) -> None:
    run = RunHistory([History(tmp_path / "h.jsonl")])
    for cause in (ValueError("first"), RuntimeError("the same, as Spark reports it")):
        run.fail(cause)
    assert (tmp_path / "h.jsonl").read_text().splitlines() == ['{"failed": "ValueError: first"}']
    run.write([batch(0)])
    run.fail(ValueError("again"))
    assert len((tmp_path / "h.jsonl").read_text().splitlines()) == 3


def test_a_name_that_is_no_unicode_text_does_not_stop_a_history(tmp_path: Path) -> None:
    History(tmp_path / "h.jsonl").write([batch(0, least_origin="\ud800")])
    assert len(read_history(tmp_path / "h.jsonl").batches) == 1


def test_the_history_of_a_checkpoint_is_next_to_it(tmp_path: Path) -> None:
    place = history_file(str(tmp_path))
    assert place is not None
    History(place).write([batch(3)])
    assert read_history(tmp_path).batches[0].batch == 3
    assert history_file("s3a://shop/checkpoint") is None


def test_machines_get_instants_that_they_can_read() -> None:
    entry = json.loads(json.dumps(to_json(batch(0, slowest=(("a", second(5)), ("b", None))))))
    assert entry["watermark"] == "1970-01-01T00:01:30Z"
    assert entry["lag_seconds"] == 10
    assert entry["slowest"] == [
        {"origin": "a", "watermark": "1970-01-01T00:00:05Z"},
        {"origin": "b", "watermark": None},
    ]


def test_the_picture_is_self_contained(tmp_path: Path) -> None:
    history = History(tmp_path / "shop.jsonl")
    for number in range(5):
        slow = batch(number, slowest=(("north", second(90)), ("west", second(95))), least_origin="north")
        history.write([slow], [window(number, timing="ON_TIME")])
    done = typed("plot", str(tmp_path / "shop.jsonl"))
    assert done.stdout == f"{tmp_path / 'shop.html'}\n"
    html = (tmp_path / "shop.html").read_text(encoding="utf-8")
    assert html.startswith("<!DOCTYPE html>") and "http" not in html.replace("http://www.w3.org/2000/svg", "")
    assert html.count("<figure>") == 3
    assert "It held the watermark back in 5 of 5 batches." in html
    assert 'class="pane ON_TIME"' in html and 'class="watermark"' in html


def tooltips(html: str, kind: str) -> list[str]:
    """The tooltips of the cells or marks of a class."""
    groups = re.findall(rf'<g class="{kind}"[^>]*>(.*?)</g>', html.split("<figure>", 1)[1])
    return [title for group in groups for title in re.findall("<title>(.*?)</title>", group)]


def test_a_picture_of_a_history_shows_rows_by_density_late_rows_and_dead_letters() -> None:
    times = EventTimes(second(80), second(100), (4, 0, 6))
    late = {"late": 5, "late_times": ((second(50), 3),)}
    batches = [batch(0, event_times=times), batch(1, event_times=times, dead={"null_time": 2}, **late)]
    html = history_page(QueryHistory(batches, []), title="", last=9)
    assert sum(int(title.split()[0]) for title in tooltips(html, "density")) == 20
    assert tooltips(html, "event late") == [
        "3: 3 rows, event time 1970-01-01T00:00:50Z, arrived 1970-01-01T00:01:41Z, late",
        "2: 2 rows, no known event time, arrived 1970-01-01T00:01:41Z, late",
    ]
    assert tooltips(html, "event dead") == [
        "2 null_time: 2 rows, no known event time, arrived 1970-01-01T00:01:41Z, dead letter"
    ]
    assert all(f"{name}</li>" in html for name in ("rows: the darker, the more", "late row", "dead letter"))


def test_a_picture_of_ten_thousand_batches_adds_up_and_stays_small() -> None:
    batches = [
        batch(
            number,
            event_times=EventTimes(second(80 + number), second(100 + number), (1,) * 20),
            late=3,
            late_times=((second(40 + number), 2), (second(60 + number), 1)),
            dead={"future": 1},
        )
        for number in range(10_000)
    ]
    html = history_page(QueryHistory(batches, []), title="", last=10_000)

    def total(kind: str) -> int:
        numbers = [re.match("[0-9,]+", title) for title in tooltips(html, kind)]
        return sum(int(number[0].replace(",", "")) if number else 1 for number in numbers)

    assert [total(kind) for kind in ("density", "event late", "density dead")] == [200_000, 30_000, 10_000]
    assert len(html) < 1_500_000


def test_a_late_row_far_from_all_data_does_not_compress_the_picture_of_a_history() -> None:
    def ticks(**late: object) -> list[str]:
        times = EventTimes(second(80), second(100), (4, 6))
        html = history_page(QueryHistory([batch(0), batch(1, event_times=times, **late)], []), title="", last=9)
        return re.findall('class="tick middle">([^<]*)<', html)

    assert ticks() == ticks(late=1, late_times=((as_datetime(-(10**15)), 1),))


def test_a_picture_shows_the_newest_batches() -> None:
    history = QueryHistory([batch(number) for number in range(50)], [])
    assert "2 batches from 1970-01-01T00:02:28Z to 1970-01-01T00:02:29Z" in history_page(history, title="", last=2)


def test_a_picture_says_that_a_stream_was_drained_and_counts_only_what_was_before() -> None:
    slow = {"slowest": (("north", second(90)),), "least_origin": "north"}
    history = QueryHistory([batch(0, **slow), batch(1, **slow, drained=True, watermark=None)], [])
    html = history_page(history, title="", last=9)
    assert "At 1970-01-01T00:01:41Z the stream was drained" in html
    assert "It held the watermark back in 1 of 1 batches." in html


def test_a_picture_without_panes_says_how_to_have_them() -> None:
    assert "--trace" in history_page(QueryHistory([batch(0)], []), title="", last=9)
    assert "--trace" not in history_page(QueryHistory([batch(0)], [window(0)]), title="", last=9)


@pytest.mark.parametrize("text", ["{}\n", "not json\n", '{"window": {"start": 1}}\n', '{"at": "never"}\n'])
def test_another_file_is_no_history(tmp_path: Path, text: str) -> None:
    (tmp_path / "h.jsonl").write_text(text)
    result = typed("plot", str(tmp_path / "h.jsonl"))
    assert result.exit_code == 2 and "line 1, is not a history line" in result.stderr


def test_without_a_history_the_message_says_how_to_write_one(tmp_path: Path) -> None:
    result = typed("plot", str(tmp_path))
    assert result.exit_code == 2 and "--trace FILE" in result.stderr


def shown(progress: LiveProgress, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(progress)
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def clock(*seconds: float) -> Iterator[float]:
    yield from seconds
    while True:
        yield seconds[-1]


def test_progress_counts_rows_panes_and_what_was_set_aside() -> None:
    progress = LiveProgress()
    progress(batch(0, rows=13, late=2, dead={"null_time": 1}, panes={"EARLY": 3}))
    progress(batch(1, panes={"ON_TIME": 2}, retractions=2))
    picture = shown(progress)
    assert "23   " in picture and "batch 1" in picture
    assert "3 early   2 on time   2 retracted" in picture
    assert "2 late   1 dead (null_time)" in picture
    assert "1970-01-01T00:01:31Z" in picture and "10.0 s" in picture


def test_progress_of_a_chain_has_the_rows_of_the_first_and_the_panes_of_the_last() -> None:
    progress = LiveProgress(operators=2)
    progress(batch(0, rows=100, panes={"ON_TIME": 7}))
    progress(batch(0, depth=1, rows=7, panes={"ON_TIME": 1}, late=1))
    assert (progress.rows, progress.panes, progress.late) == (100, {"ON_TIME": 1}, 1)


def test_the_rows_of_each_operator_of_a_chain_add_up() -> None:
    progress = LiveProgress(operators=2)
    progress(batch(0, rows=100, kept=97, late=2, dead={"future": 1}))
    progress(batch(0, depth=1, rows=7, kept=4, late=1, dead={"failed": 2}, operation="processor"))
    assert progress.balance.splitlines() == [
        "100 rows = 97 in windows + 2 late + 1 dead (1 future)",
        "operator 1: 7 rows = 4 processed + 1 late + 2 dead (2 failed)",
    ]
    lines = [line.rstrip() for line in shown(progress).splitlines()]
    assert "not used      2 late   1 dead (future)" in lines
    assert "not used      1 late   2 dead (failed)   of 7 rows of operator 1" in lines
    assert (progress.late, progress.dead) == (3, {"future": 1, "failed": 2})


def test_the_rate_is_that_of_the_last_seconds() -> None:
    times = clock(0)
    progress = LiveProgress(clock=lambda: next(times))
    times = clock(5)
    progress(batch(0, rows=1000))
    times = clock(100)
    progress(batch(1, rows=50))
    assert progress.rate == 5.0


def test_progress_shows_each_slow_origin_and_who_is_idle() -> None:
    progress = LiveProgress()
    times = (("north", second(90)), ("west", second(95)))
    progress(batch(0, slowest=times, origins=5, idle_origins=("east",), gaps=2, least_origin="north"))
    picture = shown(progress)
    assert f"north  {24 * '█'}  " in picture and f"west   {12 * '█'}{12 * '─'}  " in picture
    assert "and 3 that are ahead" in picture
    assert "idle       east" in picture
    assert "2 runs of sequence numbers are missing" in picture


def test_the_bars_of_origins_have_the_scale_of_active_origins() -> None:
    progress = LiveProgress()
    times = (("away", second(-9000)), ("north", second(90)), ("west", second(95)))
    progress(batch(0, slowest=times, origins=3, idle_origins=("away",), least_origin="north"))
    picture = shown(progress)
    assert f"away   {24 * '█'}  idle" in picture
    assert f"north  {24 * '█'}  " in picture and f"west   {12 * '█'}{12 * '─'}  " in picture


def test_a_narrow_terminal_has_a_line_for_each_origin() -> None:
    progress = LiveProgress()
    progress(batch(0, slowest=(("north", second(90)), ("west", second(95))), origins=2))
    assert "\nnorth  1970-01-01T00:01:30Z\nwest   1970-01-01T00:01:35Z\n" in shown(progress, width=40)


def test_before_the_first_batch_progress_says_so() -> None:
    assert "Waiting for the first batch" in shown(LiveProgress())


@given(st.lists(st.floats(0, 1e9), max_size=50))
@example([0.0, 2.225073858507203e-309])  # 1 divided by their distance is not a finite number
def test_a_sparkline_has_a_bar_for_each_value(values: list[float]) -> None:
    assert len(sparkline(values)) == len(values)


@pytest.mark.parametrize(("first", "ended"), [(True, True), (False, False)])
def test_rows_for_a_stream_that_was_drained_before_are_known(first: bool, ended: bool) -> None:
    progress = LiveProgress()
    progress(BatchMetrics(batch=0, depth=0, at=second(1), rows=2, late=2, drained=first))
    progress(BatchMetrics(batch=1, depth=0, at=second(2), drained=True))
    assert progress.ended is ended
