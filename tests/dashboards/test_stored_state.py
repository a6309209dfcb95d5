"""The state that a page reads on demand: what it shows, and what it refuses to read."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from starlette.applications import Starlette

import eventide as ev
from eventide.dashboards import stored_state
from eventide.dashboards.server import create_app
from eventide.dashboards.watched_queries import QueryDirectory
from eventide.spark import inspection
from eventide.spark.storage import RECORDS
from tests.dashboards.histories import NOON, SECOND, TOKEN, batch, request, send_request, with_state, write

BEARER = f"Bearer {TOKEN}"
WINDOWS = ev.stream(time="t", key="shop", watermark="1 hour").window(ev.tumbling("1 minute"))
ROWS = pl.DataFrame({"t": [NOON, NOON + 1, NOON + 60 * SECOND], "shop": ["ulm", "kiel", "ulm"]})


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return with_state(tmp_path / "revenue", WINDOWS.limit_state(rows=9).agg(n=ev.count()), ROWS)


def app_of(place: Path, **options: Any) -> Starlette:
    return create_app(QueryDirectory(place), token=TOKEN, **options)


def state_of(app: Starlette) -> Any:
    return request(app, "/api/queries/revenue/state", authorization=BEARER)


def message_of(app: Starlette, status: int) -> str:
    answer = state_of(app)
    assert answer.status == status
    return str(answer.json()["message"])


def test_the_largest_keys_and_the_windows_that_are_closed_next_are_read(checkpoint: Path) -> None:
    (operator,) = state_of(app_of(checkpoint)).json()["operators"]
    assert (operator["operator"], operator["at"], operator["keys"]) == (0, NOON, 2)
    largest = [(row["key"], row["entries"], row["rows"], row["bytes"] > 0) for row in operator["largest"]]
    assert largest == [("shop=ulm", 2, 2, True), ("shop=kiel", 1, 1, True)]
    window = {"window_start": "2026-03-01T12:00:00Z", "window_end": "2026-03-01T12:01:00Z"}
    assert operator["closes_next"] == [{"key": "shop=ulm", **window, "limit": "rows", "room": 7}]


def test_a_plan_without_limits_closes_no_windows_early(tmp_path: Path) -> None:
    app = app_of(with_state(tmp_path / "revenue", WINDOWS.agg(n=ev.count()), ROWS))
    (operator,) = state_of(app).json()["operators"]
    assert operator["closes_next"] is None and len(operator["largest"]) == 2


def test_a_long_key_is_cut(tmp_path: Path) -> None:
    rows = pl.DataFrame({"t": [NOON], "shop": ["x" * 10_000]})
    app = app_of(with_state(tmp_path / "revenue", WINDOWS.agg(n=ev.count()), rows))
    (operator,) = state_of(app).json()["operators"]
    assert len(operator["largest"][0]["key"]) < 300 and operator["largest"][0]["key"].endswith("…")


def test_state_on_the_executors_names_the_command_that_reads_it(checkpoint: Path) -> None:
    record = {"state": "executors", "operators": []}
    (checkpoint / "eventide" / "plan.json").write_text(json.dumps(record), encoding="utf-8")
    app = app_of(checkpoint)
    assert "is read with Spark: eventide inspect" in message_of(app, 409)
    summary = request(app, "/api/queries/revenue/summary", authorization=BEARER).json()
    assert summary["state"]["unreadable"] == message_of(app, 409)


def test_without_a_checkpoint_or_a_batch_there_is_no_state(checkpoint: Path, tmp_path: Path) -> None:
    trace = checkpoint / "eventide" / "history.jsonl"
    alone = tmp_path / "revenue.jsonl"
    alone.write_bytes(trace.read_bytes())
    assert "whose checkpoint is on this machine" in message_of(app_of(alone), 409)
    new = write(tmp_path / "new" / "revenue", [batch(0)])
    assert "has not finished a batch" in message_of(app_of(new), 409)
    assert request(app_of(new), "/api/queries/other/state", authorization=BEARER).status == 404


def test_a_large_state_is_not_read_into_the_server(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_state, "_MAX_BYTES", 10)
    assert "eventide inspect" in message_of(app_of(checkpoint), 409)


def test_a_slow_read_ends_with_a_message_and_no_second_one_starts_meanwhile(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()
    monkeypatch.setattr(inspection, "inspect_driver", lambda *_, **__: released.wait(20))
    app = app_of(checkpoint, state_timeout=0.5)

    async def ask() -> tuple[int, str]:
        answer = await send_request(app, "/api/queries/revenue/state", "GET", b"", {"authorization": BEARER})
        return answer.status, answer.json()["message"]

    async def ask_twice() -> list[tuple[int, str]]:
        try:
            return [await ask(), await ask()]
        finally:
            released.set()

    (slow, too_long), (busy, already) = asyncio.run(ask_twice())
    assert slow == 503 and "takes too long" in too_long
    assert busy == 409 and "already" in already


def test_a_damaged_checkpoint_is_a_message(checkpoint: Path) -> None:
    record = checkpoint / RECORDS / "0"
    record.write_bytes(record.read_bytes()[:-20])
    assert "damaged" in message_of(app_of(checkpoint), 409)
