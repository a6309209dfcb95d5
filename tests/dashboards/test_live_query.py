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
from eventide.time import as_datetime
from tests.cli.typed import typed
from tests.dashboards.histories import NOON, SECOND, TOKEN, batch, write


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
    shown = summary(query, now=NOON + 3 * SECOND)
    assert (shown["id"], shown["batches"], shown["fate"]["rows"]) == ("revenue", 3, 30)
    assert (shown["running"], shown["health"]["word"]) == (True, "on time")


def test_the_lag_of_a_running_query_grows_while_no_batch_ends(tmp_path: Path) -> None:
    running = query_at(tmp_path)
    west = ("west", as_datetime(NOON - 30 * SECOND))
    running.history[:] = [batch(0, slowest=(west,), least_origin="west", origins=2)]
    (query,) = QueryDirectory(live=running).look()
    query.refresh()
    for seconds, lag in ((3, "30.0 s"), (14, "40.0 s"), (45, "1m 10s")):
        shown = summary(query, now=NOON + seconds * SECOND)
        assert shown["sentence"] == f"west is {lag} behind; everything waits for it."
    assert shown["health"]["why"] == "the watermark is 50.0 s behind the clock"
    running.is_active = False
    stopped = summary(query, now=NOON + 45 * SECOND)["sentence"]
    assert stopped == "The query has stopped. At its last batch: west was 30.0 s behind; everything waited for it."


def test_a_query_with_a_history_shows_what_was_before_this_run(tmp_path: Path) -> None:
    write(tmp_path, [batch(0), batch(1)])
    (query,) = QueryDirectory(live=query_at(tmp_path)).look()
    assert query.refresh() and query.tables.batches["batch"].to_list() == [0, 1]


def test_a_batch_without_a_commit_is_unfinished(tmp_path: Path) -> None:
    for name in ("offsets/8", "offsets/9", "commits/8", "offsets/.9.crc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (query,) = QueryDirectory(write(tmp_path, [batch(8)])).look()
    unfinished = query.unfinished_batch()
    assert unfinished is not None and unfinished[0] == 9
    (tmp_path / "commits" / "9").touch()
    assert query.unfinished_batch() is None


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
