"""Histories of queries, as eventide run writes them, and a browser in miniature."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from starlette.applications import Starlette

from eventide.plan.pipeline import Pipeline
from eventide.spark.batch_history import History
from eventide.spark.metrics import BatchMetrics
from eventide.spark.pane_counts import WindowPanes
from eventide.time import as_datetime
from tests.driver.harness import Checkpoint, Driver

SECOND = 1_000_000
NOON = 1_772_366_400 * SECOND  # 2026-03-01T12:00:00Z
TOKEN = "a-token-of-a-test"


def batch(number: int, **more: Any) -> BatchMetrics:
    """A batch of ten rows at a second of its own, ten seconds before the clock."""
    at = NOON + number * SECOND
    values: dict[str, Any] = {"rows": 10, "kept": 10, "watermark": as_datetime(at - 10 * SECOND), "seconds": 0.5}
    return BatchMetrics(batch=number, at=as_datetime(at), **{"depth": 0} | values | more)


def at(seconds: float) -> Any:
    """An instant after noon."""
    return as_datetime(NOON + int(seconds * SECOND))


def pane(number: int, timing: str = "ON_TIME", diff: int = 1) -> WindowPanes:
    start = NOON + number // 5 * 5 * SECOND
    return WindowPanes(number, start, start + 5 * SECOND, timing, diff, 2, NOON + number * SECOND)


def write(checkpoint: Path, batches: Sequence[BatchMetrics], panes: Sequence[WindowPanes] = ()) -> Path:
    """A checkpoint with a history."""
    history = History(checkpoint / "eventide" / "history.jsonl")
    history.write([], panes)
    for metrics in batches:
        history.write([metrics])
    return checkpoint


def with_state(checkpoint: Path, pipeline: Pipeline, rows: pl.DataFrame) -> Path:
    """The same with the state of a query in the driver, after a batch of these rows."""
    files = Checkpoint(checkpoint)
    files.log_offsets(0, NOON)
    Driver(files, pipeline, [rows.schema]).batch(0, [rows])
    return write(checkpoint, [batch(0)])


@dataclass
class Response:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def request(app: Starlette, path: str, *, method: str = "GET", body: bytes = b"", **headers: str | None) -> Response:
    """Send one request to an application, without a socket. Headers that are None are left out."""
    return asyncio.run(send_request(app, path, method, body, headers))


async def send_request(
    app: Starlette, path: str, method: str, body: bytes, headers: Mapping[str, str | None]
) -> Response:
    """Do the same in a running loop."""
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    with suppress(ZeroDivisionError):  # a server logs it, after the response
        await app(scope_of(path, method, headers), receive, send)
    fields = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return Response(sent[0]["status"], fields, b"".join(part.get("body", b"") for part in sent[1:]))


def scope_of(path: str, method: str, headers: Mapping[str, str | None]) -> dict[str, Any]:
    """An HTTP request as ASGI describes it. Its ``scheme`` is given with the headers."""
    place, _, query = path.partition("?")
    scheme = headers.get("scheme") or "http"
    fields = {name.replace("_", "-"): value for name, value in headers.items() if name != "scheme"}
    named = {"host": "127.0.0.1:8080"} | fields
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": scheme,
        "path": place,
        "raw_path": place.encode(),
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in named.items() if value is not None],
        "server": ("127.0.0.1", 8080),
        "client": ("127.0.0.1", 50000),
        "root_path": "",
    }


async def first_events(app: Starlette, path: str, count: int, after_first: Any, **headers: str) -> list[Any]:
    """The first events of a stream; ``after_first`` is called once the first has arrived."""
    events: list[Any] = []
    done = asyncio.Event()

    async def receive() -> Any:
        await done.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        text = message.get("body", b"").decode()
        if text.startswith("event: summary"):
            events.append(json.loads(text.split("data: ", 1)[1]))
            if len(events) == 1:
                after_first()
            if len(events) >= count:
                done.set()

    await asyncio.wait_for(app(scope_of(path, "GET", headers), receive, send), timeout=20)
    return events
