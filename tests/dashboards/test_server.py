"""Who sees a dashboard, what it answers, and which requests change something."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from eventide.dashboards.access import HEADERS
from eventide.dashboards.server import STATIC, create_app, create_server
from eventide.dashboards.watched_queries import QueryDirectory
from eventide.errors import PlanError
from eventide.metrics import Gap
from eventide.spark.batch_history import History
from tests.dashboards.histories import TOKEN, at, batch, first_events, pane, request, write

BEARER = f"Bearer {TOKEN}"
ORIGIN = "http://127.0.0.1:8080"
SPITEFUL = "<img src=x onerror=alert(1)>\"'&</script>"
API = (
    *("/api/queries", "/api/queries/revenue/summary", "/api/queries/revenue/charts", "/api/queries/revenue/events"),
    "/api/queries/revenue/state",
)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write(tmp_path / "revenue", [batch(0), batch(1, least_origin="7", slowest=(("7", at(-9)),))], [pane(1)])


def app_of(place: Path, **options: Any) -> Starlette:
    return create_app(QueryDirectory(place), token=TOKEN, poll=0.01, **options)


def cookie_of(app: Starlette) -> str:
    return request(app, f"/?token={TOKEN}").headers["set-cookie"].partition(";")[0]


@pytest.mark.parametrize("path", ["/", *API])
def test_strangers_get_nothing(checkpoint: Path, path: str) -> None:
    app = app_of(checkpoint)
    for headers in ({}, {"authorization": "Bearer wrong"}, {"cookie": "eventide_dashboard_8080=wrong"}):
        answer = request(app, path, **headers)
        assert answer.status == 401 and b"revenue" not in answer.body
    assert request(app, f"{path}?token=wrong").status == 401


def test_the_token_of_the_url_becomes_a_cookie_that_scripts_and_other_sites_cannot_use(checkpoint: Path) -> None:
    app = app_of(checkpoint)
    opened = request(app, f"/?token={TOKEN}")
    cookie = opened.headers["set-cookie"]
    assert opened.status == 200 and "HttpOnly" in cookie and "SameSite=strict" in cookie and TOKEN not in cookie
    assert request(app, "/api/queries", cookie=cookie.partition(";")[0]).status == 200
    assert request(app, "/api/queries", authorization=BEARER).status == 200
    assert request(app, f"/api/queries?token={TOKEN}").status == 401  # a URL of data is no place for a token


def test_the_token_is_compared_in_constant_time(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[tuple[bytes, bytes]] = []
    monkeypatch.setattr("hmac.compare_digest", lambda left, right: compared.append((left, right)) or left == right)
    app = app_of(checkpoint)
    request(app, "/?token=wrong")
    request(app, "/api/queries", authorization="Bearer worse")
    assert [left for left, _ in compared if left] == [b"wrong", b"worse"]


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "", None])
def test_a_host_that_is_not_the_dashboard_is_rejected(checkpoint: Path, host: str | None) -> None:
    for path in ("/", "/static/app.js", *API):
        assert request(app_of(checkpoint), path, host=host, authorization=BEARER).status == 403


def test_further_hosts_are_accepted_by_name(checkpoint: Path) -> None:
    app = app_of(checkpoint, hosts=["Shop.example"])
    assert request(app, "/api/queries", host="shop.example:8080", authorization=BEARER).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9"},
        {"sec_fetch_site": "cross-site"},
    ],
)
def test_requests_of_other_pages_are_rejected(checkpoint: Path, headers: dict[str, str]) -> None:
    app = app_of(checkpoint, allow_control=True)
    for path in API:
        assert request(app, path, cookie=cookie_of(app), **headers).status == 403
    posted = {"method": "POST", "body": b'{"do": "drain"}', "content_type": "application/json", **headers}
    assert request(app, "/api/queries/revenue/commands", cookie=cookie_of(app), **posted).status == 403  # type: ignore[arg-type]
    assert commands_in(checkpoint) == []


EVERYWHERE = ("/", "/none", "/api/queries/", "/static/app.js", "/static/none.js", "/static", *API[:3])


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "HEAD"])
def test_every_path_and_method_needs_a_known_host_and_no_other_page(checkpoint: Path, method: str) -> None:
    app = app_of(checkpoint)
    for path in EVERYWHERE:
        for headers in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
            answer = request(app, path, method=method, authorization=BEARER, **headers)
            assert answer.status == 403, path
            assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
            assert "evil" not in answer.headers.get("location", "")


def test_unknown_paths_wrong_methods_and_errors_have_the_headers_of_every_response(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_of(checkpoint)
    answers = {path: request(app, path, authorization=BEARER) for path in ("/none", "/api/queries/", "/static/")}
    assert {path: answer.status for path, answer in answers.items()} == dict.fromkeys(answers, 404)  # no redirects
    answers["method"] = request(app, "/api/queries", method="POST", authorization=BEARER)
    assert answers["method"].status == 405
    monkeypatch.setattr("eventide.dashboards.server.charts", lambda *_, **__: 1 / 0)
    answers["error"] = request(app, API[2], authorization=BEARER)
    assert answers["error"].status == 500
    for answer in answers.values():
        assert {name: answer.headers.get(name.lower()) for name in HEADERS} == HEADERS


def test_the_cookie_of_a_page_with_tls_is_never_sent_without_it(checkpoint: Path) -> None:
    app = app_of(checkpoint)
    assert "; Secure" in request(app, f"/?token={TOKEN}", scheme="https").headers["set-cookie"]
    assert "Secure" not in request(app, f"/?token={TOKEN}").headers["set-cookie"]


def test_every_response_forbids_inline_code_and_other_hosts(checkpoint: Path) -> None:
    app = app_of(checkpoint)
    for path in ("/", "/static/app.js", "/static/none.js", *API[:3]):
        for headers in ({}, {"authorization": BEARER}):
            answer = request(app, path, **headers)
            policy = answer.headers["content-security-policy"]
            assert (
                policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'") and "unsafe" not in policy
            )
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "no-referrer"


def test_the_page_is_small_and_refers_to_nothing_elsewhere() -> None:
    files = list(STATIC.iterdir())
    assert sum(file.stat().st_size for file in files) < 100_000
    for file in files:
        text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert "://" not in text and "innerHTML" not in text and "eval(" not in text
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert "<style" not in page and "style=" not in page and "<script>" not in page and "onclick=" not in page


@pytest.mark.parametrize("name", ["../server.py", "..%2fserver.py", "%2e%2e/server.py", "index.html", "none.js"])
def test_only_the_files_of_the_page_are_served(checkpoint: Path, name: str) -> None:
    assert request(app_of(checkpoint), f"/static/{name}").status == 404


def commands_in(checkpoint: Path) -> list[Any]:
    return [json.loads(file.read_text()) for file in (checkpoint / "eventide" / "control").glob("*.json")]


def send(app: Starlette, command: Any, **headers: str) -> Any:
    body = command if isinstance(command, bytes) else json.dumps(command).encode()
    defaults = {"origin": ORIGIN, "cookie": cookie_of(app), "content_type": "application/json"}
    return request(app, "/api/queries/revenue/commands", method="POST", body=body, **defaults | headers)


@pytest.mark.parametrize(
    "command",
    [
        {"do": "retire", "origin": SPITEFUL},
        {"do": "retire", "origin": None},
        {"do": "skip_gap", "origin": "7", "up_to": 41},
        {"do": "drain"},
    ],
)
def test_a_command_is_exactly_one_file_and_is_shown_until_it_is_applied(checkpoint: Path, command: Any) -> None:
    app = app_of(checkpoint, allow_control=True)
    answer = send(app, command)
    (written,) = commands_in(checkpoint)
    assert answer.status == 202 and written["id"] == answer.json()["id"] and command.items() <= written.items()
    pending = request(app, "/api/queries/revenue/summary", authorization=BEARER).json()["commands"]["pending"]
    assert [entry["id"] for entry in pending] == [written["id"]]


def test_an_applied_command_is_shown_with_its_batch(checkpoint: Path) -> None:
    from eventide.spark.metrics import CommandEffect

    app = app_of(checkpoint, allow_control=True)
    id_ = send(app, {"do": "retire", "origin": "7"}).json()["id"]
    write(checkpoint, [batch(2, commands=(CommandEffect(id_, "retire", "7"),))])
    commands = request(app, "/api/queries/revenue/summary", authorization=BEARER).json()["commands"]
    assert commands["pending"] == [] and [(command["id"], command["batch"]) for command in commands["applied"]] == [
        (id_, 2)
    ]


def test_a_dashboard_is_read_only_unless_control_is_allowed(checkpoint: Path) -> None:
    app = app_of(checkpoint)
    assert send(app, {"do": "drain"}).status == 403 and commands_in(checkpoint) == []
    assert request(app, API[1], authorization=BEARER).json()["allow_control"] is False


@pytest.mark.parametrize(
    "command",
    [
        {"do": "advance_watermark"},
        {"do": "retire"},
        {"do": "retire", "origin": 7},
        {"do": ["drain"]},
        [],
        b"{",
        {"do": "skip_gap", "up_to": "1"},
    ],
)
def test_a_command_that_is_none_writes_nothing(checkpoint: Path, command: Any) -> None:
    assert send(app_of(checkpoint, allow_control=True), command).status == 400 and commands_in(checkpoint) == []


def test_a_command_needs_its_origin_its_type_and_a_sensible_size(checkpoint: Path) -> None:
    app = app_of(checkpoint, allow_control=True)
    assert send(app, {"do": "drain"}, content_type="text/plain").status == 415
    assert send(app, {"do": "retire", "origin": "x" * 5000}).status == 413
    posted = {"method": "POST", "body": b'{"do": "drain"}', "content_type": "application/json"}
    assert request(app, "/api/queries/revenue/commands", cookie=cookie_of(app), **posted).status == 403  # type: ignore[arg-type]
    assert commands_in(checkpoint) == []


def test_events_show_the_query_now_and_after_each_new_batch(checkpoint: Path) -> None:
    app = app_of(checkpoint)
    events = asyncio.run(first_events(app, API[3], 2, lambda: write(checkpoint, [batch(2)]), authorization=BEARER))
    assert [(event["batch"], event["fate"]["rows"]) for event in events] == [(1, 20), (2, 30)]


def test_missing_sequence_numbers_are_listed(tmp_path: Path) -> None:
    gaps = (Gap("7", 4, 6, at(-9)), Gap(None, 8, 8, at(-8)))
    write(tmp_path / "revenue", [batch(0, gaps=5, gap_ranges=gaps)])
    shown = request(app_of(tmp_path / "revenue"), "/api/queries/revenue/summary", authorization=BEARER).json()
    assert [(gap["origin"], gap["first"], gap["last"]) for gap in shown["gap_ranges"]] == [("7", 4, 6), (None, 8, 8)]
    assert shown["gap_sentence"].startswith("5 runs of sequence numbers are missing: 4 to 6 of 7, 8 and 3 more.")


def test_names_with_markup_come_back_as_data(tmp_path: Path) -> None:
    history = History(tmp_path / "revenue" / "eventide" / "history.jsonl")
    history.write([batch(0, least_origin=SPITEFUL, slowest=((SPITEFUL, at(-9)),), origins=2)])
    history.fail(SPITEFUL)
    answer = request(app_of(tmp_path), "/api/queries", authorization=BEARER)
    assert answer.headers["content-type"] == "application/json"
    (query,) = answer.json()["queries"]
    assert query["origins"][0]["name"] == SPITEFUL and query["health"] == {"word": "failed", "why": SPITEFUL}


def test_charts_of_the_last_batches_begin_with_the_batch_before_them(checkpoint: Path) -> None:
    write(checkpoint, [batch(number) for number in range(40)])
    app = app_of(checkpoint)

    def shown(last: int) -> list[int]:
        response = request(app, f"{API[2]}?last={last}", authorization=BEARER)
        return list(response.json()["points"]["batch"])

    assert shown(3) == [36, 37, 38, 39]
    assert shown(1000) == list(range(40))
    assert shown(0) == shown(-5) == shown(1) == [38, 39]


def test_charts_take_a_range_and_a_number_of_points(checkpoint: Path) -> None:
    app = app_of(checkpoint)
    drawn = request(app, f"{API[2]}?points=10", authorization=BEARER).json()
    assert drawn["points"]["rows"] == [10, 10] and drawn["panes"]["timing"] == ["ON_TIME"]
    for wrong in ("points=x", "since=1e9", f"since={1 << 70}"):
        assert request(app, f"{API[2]}?{wrong}", authorization=BEARER).status == 400
    assert request(app, "/api/queries/other/charts", authorization=BEARER).status == 404


@pytest.mark.parametrize("token", ["short", "with a space in it", "slash/and?query=in-it", ""])
def test_a_token_that_cannot_be_in_a_url_is_rejected(tmp_path: Path, token: str) -> None:
    with pytest.raises(PlanError, match="at least 16"):
        create_server(QueryDirectory(tmp_path), port=0, token=token)


def test_a_place_without_files_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="There is no file or directory"):
        QueryDirectory(tmp_path / "none")
    with pytest.raises(PlanError, match="--trace FILE"):
        QueryDirectory("s3a://shop/checkpoints")
