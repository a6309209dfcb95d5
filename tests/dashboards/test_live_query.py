"""A query of this process is shown from memory."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import eventide as ev
from eventide.dashboards.query_view import summary
from eventide.dashboards.watched_queries import QueryDirectory
from eventide.spark.control import Control
from tests.cli.typed import typed
from tests.dashboards.histories import TOKEN, batch, write


def query_at(checkpoint: Path, *, active: bool = True, exception: Any = None) -> Any:
    """What a dashboard uses of a query."""
    spark = SimpleNamespace(name="revenue", exception=lambda: exception)
    return SimpleNamespace(spark=spark, control=Control(checkpoint), history=[batch(0)], is_active=active)


def test_new_batches_of_a_running_query_appear_once(tmp_path: Path) -> None:
    running = query_at(tmp_path)
    (query,) = QueryDirectory(live=running).look()
    assert query.refresh() and not query.refresh()
    running.history.extend([batch(1), batch(2)])
    assert query.refresh()
    shown = summary(query)
    assert (shown["id"], shown["batches"], shown["fate"]["rows"]) == ("revenue", 3, 30)
    assert (shown["running"], shown["health"]["word"]) == (True, "on time")


def test_a_query_that_has_failed_says_why(tmp_path: Path) -> None:
    (query,) = QueryDirectory(live=query_at(tmp_path, active=False, exception="It broke.\nat line 1")).look()
    query.refresh()
    assert summary(query)["health"] == {"word": "failed", "why": "It broke."}


def test_a_dashboard_serves_in_the_background_until_it_is_stopped(tmp_path: Path) -> None:
    from urllib.request import Request, urlopen

    page = ev.dashboard(query_at(tmp_path), token=TOKEN)
    try:
        request = Request(f"{page.address}/api/queries", headers={"Authorization": f"Bearer {TOKEN}"})
        with urlopen(request, timeout=10) as answer:
            assert [query["id"] for query in json.load(answer)["queries"]] == ["revenue"]
    finally:
        page.stop()
    assert page.url == f"{page.address}/?token={TOKEN}"


def test_the_command_rejects_a_place_without_queries_and_an_unsafe_token(tmp_path: Path) -> None:
    missing = typed("dashboard", str(tmp_path / "none"))
    assert missing.exit_code == 2 and "There is no file or directory" in missing.output
    write(tmp_path / "revenue", [batch(0)])
    short = typed("dashboard", str(tmp_path), "--port", "0", "--token", "abc")
    assert short.exit_code == 2 and "at least 16" in short.output
