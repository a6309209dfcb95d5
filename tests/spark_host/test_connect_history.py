"""The client of Spark Connect follows the history that a process of the server writes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from eventide.spark.batch_history import History
from eventide.spark.connect_history import FollowedHistory
from eventide.spark.metrics import BatchMetrics, batch_metrics, metrics_in_progress
from eventide.spark.metrics_listener import published_in

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def batch(number: int, rows: int = 1, depth: int = 0) -> BatchMetrics:
    return BatchMetrics(batch=number, depth=depth, at=NOON, rows=rows, kept=rows)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "history.jsonl"
    History(path).write([batch(0)])
    return path


def test_batches_of_earlier_runs_are_not_repeated(file: Path) -> None:
    seen: list[BatchMetrics] = []
    followed = FollowedHistory(file, seen.append)
    History(file).write([batch(1), batch(1, depth=1)])
    assert [metrics.depth for metrics in followed] == [0, 1]
    History(file).write([batch(2)])
    assert followed[-1] == batch(2) and len(followed) == 3
    assert seen == [batch(1), batch(1, depth=1), batch(2)]


def test_an_incomplete_line_is_read_when_it_is_complete(file: Path) -> None:
    followed = FollowedHistory(file)
    text = file.read_text()
    with file.open("a") as opened:
        opened.write(text[:20])
    assert not len(followed)
    with file.open("a") as opened:
        opened.write(text[20:])
    assert list(followed) == [batch(0)]


def test_a_full_file_is_read_to_its_end_before_its_successor(file: Path) -> None:
    followed = FollowedHistory(file)
    for number in (1, 2):
        History(file).write([batch(number)])
    History(file, most=1).write([batch(3)])  # the file is full, so this line begins another one
    assert [metrics.batch for metrics in followed] == [1, 2, 3]
    History(file, most=1).write([batch(4)])
    assert followed[-1] == batch(4) and len(followed) == 4


def test_a_query_without_a_history_has_no_batches(tmp_path: Path) -> None:
    followed = FollowedHistory(tmp_path / "history.jsonl")
    assert not followed
    History(tmp_path / "history.jsonl").write([batch(0)])
    assert list(followed) == [batch(0)]


def test_an_error_of_on_batch_is_a_warning_and_ends_its_calls(file: Path) -> None:
    calls = []

    def on_batch(metrics: BatchMetrics) -> None:
        calls.append(metrics.batch)
        raise KeyError("shop")

    followed = FollowedHistory(file, on_batch)
    History(file).write([batch(1), batch(2)])
    with pytest.warns(UserWarning, match=r"on_batch=\) failed in batch 1 \(KeyError: 'shop'\)"):
        assert len(followed) == 2
    assert calls == [1]


def test_on_batch_may_read_the_history(file: Path) -> None:
    lengths = []
    followed = FollowedHistory(file, lambda metrics: lengths.append(len(followed)))
    History(file).write([batch(1)])
    assert len(followed) == 1 and lengths == [1]


def test_a_failure_that_the_other_process_has_written_is_known(file: Path) -> None:
    followed = FollowedHistory(file)
    History(file).fail("The table is gone.")
    followed.refresh()
    assert followed.has_failure and not len(followed)


def test_a_history_that_cannot_be_read_is_reported_once_and_read_again(file: Path) -> None:
    followed = FollowedHistory(file)
    with file.open("a") as opened:
        opened.write("not JSON\n")
    with pytest.warns(
        UserWarning, match=r"The history .*history\.jsonl cannot be read \(JSONDecodeError: .* miss batch"
    ):
        followed.refresh_or_warn()
    with file.open("a") as opened:
        opened.write("not JSON\n")
    followed.refresh_or_warn()
    History(file).write([batch(1)])
    followed.refresh_or_warn()
    assert list(followed) == [batch(1)]


def test_listeners_get_the_batches_that_the_other_process_has_computed(file: Path) -> None:
    followed = FollowedHistory(file)
    followed.start("4f2a99")
    History(file).write([batch(7)])
    assert list(published_in({"id": "4f2a99", "batchId": 7})) == [batch(7)]
    followed.close()


def test_a_closed_history_has_the_last_batch(file: Path) -> None:
    seen: list[BatchMetrics] = []
    followed = FollowedHistory(file, seen.append)
    followed.start("4f2a99")
    History(file).write([batch(1)])
    followed.close()
    assert seen == [batch(1)]


def test_observed_metrics_are_read_as_spark_connect_reports_them() -> None:
    def row(**values: Any) -> dict[str, Any]:
        return {"values": list(values.values()), "schema": {"type": "struct", "fields": [{"name": n} for n in values]}}

    counts = {"rows": 3, "kept": 2, "late": 1, "watermark": 5}
    observed = row(rows=3, detail="{}", buckets=[row(now=7, counts=counts)])
    progress = {
        "batchId": 4,
        "durationMs": {"triggerExecution": 10},
        "observedMetrics": {"eventide.0.0.4f2a": observed},
    }
    assert metrics_in_progress(progress) == [batch_metrics(4, 0, counts | {"at": 7, "detail": "{}"})]
