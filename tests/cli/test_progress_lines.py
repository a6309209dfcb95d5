"""The line of a batch: what it says, and which batches have one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest

from eventide.cli.live_progress import LiveProgress, ProgressLines
from eventide.spark.metrics import BatchMetrics, CommandEffect

NOON, SECOND = datetime(2026, 3, 1, 12, tzinfo=UTC), timedelta(seconds=1)


def batch(number: int = 12, **more: Any) -> BatchMetrics:
    return BatchMetrics(batch=number, depth=more.pop("depth", 0), at=NOON + 31 * SECOND, watermark=NOON, **more)


def printed(*batches: BatchMetrics) -> list[str]:
    lines: list[str] = []
    progress = ProgressLines(lines.append)
    for metrics in batches:
        progress(metrics)
    return lines


def test_the_line_of_a_batch_has_all_that_matters() -> None:
    metrics = batch(
        rows=1000,
        kept=997,
        seconds=2.0,
        late=2,
        dead={"null_time": 1},
        panes={"EARLY": 3, "ON_TIME": 2, "LATE": 1},
        retractions=4,
        least_origin="till-west",
        slowest=(("till-west", NOON),),
        idle_origins=("till-east",),
    )
    assert str(metrics) == (
        "batch 12 at 2026-03-01T12:00:31Z | 1,000 rows (500 rows/s) | watermark 2026-03-01T12:00:00Z (31.0 s behind) | "
        "panes 3 early, 2 on time, 1 late, 4 retracted | 2 late rows | 1 dead (1 null_time) | slowest origin till-west "
        "| idle till-east"
    )
    assert printed(metrics) == [str(metrics)]


def test_a_batch_that_forgets_says_how_much() -> None:
    assert str(batch(forgotten_origins=2, forgotten_keys=1)).endswith(" | forgot 2 origins, 1 key")
    assert "forgot" not in str(batch())


@pytest.mark.parametrize(("operation", "emitted"), [("join", "7 rows joined"), ("processor", "7 rows emitted")])
def test_a_join_and_a_processor_have_no_panes(operation: Any, emitted: str) -> None:
    line = str(batch(rows=3, operation=operation, panes={"ON_TIME": 7}))
    assert f" | {emitted} | " in line
    assert "on time" not in line and "window" not in line


@pytest.mark.parametrize(
    ("operation", "kept"), [("window", "in windows"), ("join", "in the join"), ("processor", "processed")]
)
def test_the_account_of_rows_uses_the_terms_of_the_operator(operation: Any, kept: str) -> None:
    progress = LiveProgress()
    progress(batch(rows=10, kept=8, late=1, dead={"failed": 1}, operation=operation))
    assert progress.balance == f"10 rows = 8 {kept} + 1 late + 1 dead (1 failed)"


def test_the_second_operator_of_a_chain_is_named() -> None:
    assert str(batch(depth=1)).startswith("batch 12, operator 1 at 2026-03-01")


@pytest.mark.parametrize(
    "effect",
    [
        {"rows": 1},
        {"panes": {"ON_TIME": 1}},
        {"late": 1},
        {"dead": {"failed": 1}},
        {"drained": True},
        {"idle_origins": ("west",)},
        {"commands": (CommandEffect("1", "advance_watermark"),)},
    ],
)
def test_a_batch_that_had_an_effect_has_a_line(effect: dict[str, Any]) -> None:
    assert len(printed(batch(0, rows=1), batch(1, **effect))) == 2


def test_a_tick_that_moves_nothing_but_the_clock_has_no_line() -> None:
    moved = BatchMetrics(batch=1, depth=0, at=NOON + 32 * SECOND, watermark=NOON + SECOND)
    assert len(printed(batch(0, rows=1), moved)) == 1


def test_a_drained_stream_is_reported_once() -> None:
    lines = printed(batch(0, rows=1), batch(1, drained=True), batch(2, drained=True))
    assert len(lines) == 2 and "watermark drained" in lines[1]


def test_the_line_names_the_commands_that_the_batch_applied() -> None:
    (line,) = printed(batch(commands=(CommandEffect("1", "retire", "till-west"), CommandEffect("2", "drain"))))
    assert line.endswith(" | applied retire till-west, drain")


def test_a_watermark_ahead_of_the_clock_is_not_behind() -> None:
    assert "(2.0 s ahead)" in str(BatchMetrics(batch=0, depth=0, at=NOON, watermark=NOON + 2 * SECOND))


def drawn(progress: LiveProgress, width: int) -> list[str]:
    from rich.console import Console

    console = Console(width=width, record=True, file=StringIO())
    console.print(progress)
    return console.export_text().splitlines()


@pytest.mark.parametrize(("width", "operators"), [(80, 2), (60, 1)])
def test_the_live_view_fits_its_terminal(width: int, operators: int) -> None:
    progress = LiveProgress(operators, clock=lambda: 0.0)
    more: Any = {"late": 1_200, "dead": {"null_time": 1_000}, "panes": {"EARLY": 9_000, "ON_TIME": 900, "LATE": 70}}
    for number in range(60):
        slowest = tuple((f"till-{till}", NOON + till * SECOND / 8) for till in range(12))
        more["idle_origins"] = tuple(f"till-{till}" for till in range(3))
        origins = {"slowest": slowest, "origins": 12, "least_origin": "till-4", "gaps": 3}
        progress(batch(number, rows=1_000_000, seconds=1.24, open_windows=7_000, state_bytes=10**10, **origins, **more))
        if operators == 2:
            progress(batch(number, depth=1, rows=1_000, retractions=9_000, **more))
    lines, wide = drawn(progress, width), drawn(progress, 300)
    names = [line.split()[0] for line in lines]
    assert names == [line.split()[0] for line in wide]  # nothing is wrapped: a line for each fact and each origin
    assert max(len(line.rstrip()) for line in lines) <= width and not any("…" in line for line in lines)
    assert any(line.startswith("rows") and "60,000,000" in line and "batch 59 in 1.2 s" in line for line in lines)
    assert any(line.startswith("lag") and "▁" in line for line in lines)
    assert any(line.startswith("state") and "7,000 open windows" in line for line in lines)
