"""A store over HTTP: real sockets, and every error as the store raised it."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from eventide.errors import EventideError, PlanError
from eventide.marks import events
from eventide.marks.controller import Controller, wire
from eventide.marks.errors import (
    LeaseLostError,
    SegmentSealedError,
    TransactionEndedError,
    UnknownStreamError,
    WriterFencedError,
)
from eventide.marks.mark import Mark, Note
from eventide.marks.stores import connect
from eventide.marks.stores.memory import MemoryStore
from eventide.marks.stores.remote import RemoteStore, remote_store
from eventide.marks.stores.store import Blob, Config, Part, Store
from tests.marks.server_harness import TOKEN, serving

SCHEMA = pa.schema({"n": pa.int64()}, metadata={"of": "orders"})
CONFIG = Config(schema=SCHEMA, segments=2, writer_timeout=7)


def body_of(*numbers: int) -> bytes:
    return events.encode(pa.table({"n": numbers}, schema=SCHEMA))


class Clock:
    now = 1_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def behind(clock: Clock) -> MemoryStore:
    return MemoryStore(clock)


def post(url: str, path: str, body: bytes, **headers: str | None) -> tuple[int, Any]:
    """Send a request as a client does, with other headers, or without some (None)."""
    usual = {"Authorization": f"Bearer {TOKEN}", "Content-Type": wire.CONTENT_TYPE}
    sent_headers = {name.replace("_", "-"): value for name, value in headers.items()}
    sent = {name: value for name, value in (usual | sent_headers).items() if value is not None}
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
    connection.request("POST", path, body, sent)
    answer = connection.getresponse()
    response = answer.status, answer.read()
    connection.close()
    return response[0], json.loads(response[1].partition(b"\n")[0])


def test_a_stream_is_the_same_on_both_sides(store: RemoteStore, behind: MemoryStore) -> None:
    created = store.create_stream("orders", CONFIG)
    store.scale("orders", [1], [(0.5, 0.75), (0.75, 1.0)])
    assert created.config == CONFIG
    assert store.stream("orders") == behind.stream("orders")
    assert store.stream("orders").config.schema.metadata == {b"of": b"orders"}
    assert store.streams() == ["orders"]


def test_events_come_back_as_they_were_written(store: RemoteStore) -> None:
    store.create_stream("orders", CONFIG)
    handle = store.open_writer("orders", "till")
    bodies = [events.encode(pa.table({"n": [1, 2]}, schema=SCHEMA)), body_of(3)]
    assert store.append(handle, 1, [Part(0, 2, bodies[0]), Part(1, 1, bodies[1])], note=5) == {0: 2, 1: 1}
    assert store.read("orders", 0, 0, rows=10) == [Blob(0, 2, bodies[0], "till")]
    assert store.read("orders", 1, 0, rows=10) == [Blob(0, 1, bodies[1], "till")]
    assert store.notes("orders") == [Note("till", 5, {0: 2, 1: 1}, 1_000_000)]
    assert [dict(note.written) for note in store.notes("orders")] == [{0: 2, 1: 1}]
    assert store.lengths("orders") == {0: 2, 1: 1}


def test_an_append_that_is_sent_again_changes_nothing(store: RemoteStore) -> None:
    store.create_stream("orders", CONFIG)
    handle = store.open_writer("orders", "till")
    two = Part(0, 2, body_of(1, 2))
    assert store.append(handle, 1, [two]) == store.append(handle, 1, [two]) == {0: 2}


def test_transactions_are_committed_over_http(store: RemoteStore) -> None:
    store.create_stream("orders", CONFIG)
    handle = store.open_writer("orders", "till")
    transaction = store.begin(handle, timeout=10_000_000)
    table = pa.table({"n": [1, 2, 3], events.POINT: [0.1, 0.9, 0.2]})
    store.add(handle, transaction.id, 1, 3, events.encode(table))
    assert store.lengths("orders") == {0: 0, 1: 0}
    assert store.commit(handle, transaction.id, note=9) == {0: 2, 1: 1}
    assert [transaction.status for transaction in store.transactions("orders")] == ["committed"]
    store.close_writer(handle)
    assert [note.closed for note in store.notes("orders")] == [True]


def test_marks_leases_and_groups_travel(store: RemoteStore) -> None:
    store.create_stream("orders", CONFIG)
    lease = store.acquire("orders", "here", 2_000_000)
    assert lease is not None
    assert store.leases() == [lease]
    mark = Mark(1, -5, 7, {0: 0, 1: 0}, 1_000_000)
    store.put_mark(lease, mark, obsolete=[("till", 5)])
    assert store.last_mark("orders") == mark
    assert store.marks("orders", limit=5) == [mark]
    assert store.put_group("orders", "night", 0, b"\nstate")
    assert not store.put_group("orders", "night", 0, b"other")
    assert store.group("orders", "night") == (1, b"\nstate")
    assert store.group("orders", "day") is None
    store.heartbeat("here", 2_000_000)
    assert store.controllers() == ["here"]


def test_a_controller_can_work_over_http(store: RemoteStore, clock: Clock) -> None:
    store.create_stream("orders", CONFIG)
    store.append(store.open_writer("orders", "till"), 1, [Part(0, 2, body_of(1, 2))], note=5)
    clock.now += 5_000_000
    store.note(store.open_writer("orders", "web"), 9, {0: 2})
    Controller(store).step()
    assert [mark.lower for mark in store.marks("orders")] == [9]  # the other one was silent


def refusals(store: Store) -> dict[str, EventideError]:
    """What a store says to things that cannot be."""
    store.create_stream("orders", CONFIG)
    old = store.open_writer("orders", "till")
    handle = store.open_writer("orders", "till", take_over=True)
    store.append(handle, 1, [Part(0, 2, body_of(1, 2))], note=5)
    store.scale("orders", [0], [(0.0, 0.5)])
    first = store.acquire("orders", "first", 1_500_000)
    assert first is not None
    store.release(first)
    errors: dict[str, EventideError] = {}
    for name, call in {
        "exists": lambda: store.create_stream("orders", CONFIG),
        "unknown": lambda: store.stream("odrers"),
        "in use": lambda: store.open_writer("orders", "till"),
        "taken": lambda: store.append(old, 2, []),
        "sealed": lambda: store.append(handle, 2, [Part(0, 1, body_of(1))]),
        "back": lambda: store.note(handle, 4, {2: 0}),
        "beyond": lambda: store.note(handle, 6, {1: 10}),
        "lost": lambda: store.put_mark(first, Mark(1, 5, 5, {1: 0, 2: 0}, 9)),
        "over": lambda: store.commit(handle, "no transaction"),
        "no cut": lambda: store.truncate("orders", {1: 0}),
    }.items():
        with pytest.raises(EventideError) as caught:
            call()
        errors[name] = caught.value
    return errors


def test_refusals_are_the_same_exceptions_with_the_same_words(store: RemoteStore, clock: Clock) -> None:
    here, there = refusals(MemoryStore(clock)), refusals(store)
    assert {name: (type(error), str(error)) for name, error in there.items()} == {
        name: (type(error), str(error)) for name, error in here.items()
    }
    kinds = {
        UnknownStreamError,
        WriterFencedError,
        SegmentSealedError,
        LeaseLostError,
        TransactionEndedError,
        PlanError,
    }
    assert kinds < {type(error) for error in there.values()}


@pytest.mark.parametrize(
    ("call", "body", "status", "code"),
    [
        ("stream", b'{"name":"nowhere"}', 404, "unknown_stream"),
        ("create_stream", None, 409, "conflict"),
        ("stream", b"not json", 422, "invalid_request"),
        ("stream", b"", 422, "invalid_request"),
        ("stream", b"[]", 422, "invalid_request"),
        ("stream", b'{"name":7}', 422, "invalid_request"),
        ("stream", b'{"nmae":"orders"}', 422, "invalid_request"),
        ("stream", b"{}", 422, "invalid_request"),
        ("marks", b'{"stream":"orders","after":true}', 422, "invalid_request"),
        ("marks", b'{"stream":"orders","after":9223372036854775808}', 422, "invalid_request"),
        ("truncate", b'{"name":"orders","cut":{"x":1}}', 422, "invalid_request"),
        ("scale", b'{"name":"orders","seal":[0],"ranges":[[0]]}', 422, "invalid_request"),
        ("put_group", b'{"stream":"orders","name":"g","version":0,"state":[0,9]}\nabc', 422, "invalid_request"),
        ("put_group", b'{"stream":"orders","name":"g","version":0,"state":[-1,1]}\nabc', 422, "invalid_request"),
        ("open_writer", b'{"stream":"orders","writer":"w","take_over":1}', 422, "invalid_request"),
        ("create_stream", b'{"name":"new","config":{"schema":[0,3]}}\nabc', 422, "invalid_request"),
        ("create_stream", b'{"name":"new","config":{}}', 422, "invalid_request"),
        ("release", b'{"lease":{"stream":"orders"}}', 422, "invalid_request"),
        ("release", b'{"lease":{"strange":1}}', 422, "invalid_request"),
        ("close", b"{}", 404, "unknown_call"),
        ("_found", b'{"name":"orders"}', 404, "unknown_call"),
    ],
)
def test_bad_requests_are_rejected(
    url: str, behind: MemoryStore, call: str, body: bytes | None, status: int, code: str
) -> None:
    behind.create_stream("orders", CONFIG)
    schema = SCHEMA.serialize().to_pybytes()
    body = body if body is not None else b'{"name":"orders","config":{"schema":[0,%d]}}\n' % len(schema) + schema
    status_code, content = post(url, f"/v1/{call}", body)
    assert (status_code, content["code"]) == (status, code)
    assert content["message"].endswith(("?", "."))


@pytest.mark.parametrize("rows", [-1, -(2**40)])
def test_negative_rows_are_rejected(store: RemoteStore, rows: int) -> None:
    store.create_stream("orders", CONFIG)
    handle = store.open_writer("orders", "till")
    with pytest.raises(PlanError, match="rows"):
        store.append(handle, 1, [Part(0, rows, body_of(1))])
    assert store.lengths("orders") == {0: 0, 1: 0}


def test_a_stream_has_a_segment(store: RemoteStore) -> None:
    with pytest.raises(PlanError, match="1 or more"):
        store.create_stream("orders", Config(schema=SCHEMA, segments=0))


def test_internal_faults_are_hidden(store: RemoteStore, behind: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[str]:
        raise OSError("/secret/path is full")

    monkeypatch.setattr(behind, "streams", broken)
    with pytest.raises(EventideError, match="The controller failed") as caught:
        store.streams()
    assert "secret" not in str(caught.value)


def test_a_body_that_is_too_large_is_rejected_and_nothing_is_kept(behind: MemoryStore) -> None:
    with serving(behind, max_body=1000) as url:
        store = RemoteStore(url, token=TOKEN)
        store.create_stream("orders", CONFIG)
        handle = store.open_writer("orders", "till")
        with pytest.raises(PlanError, match="larger than the 1,000 bytes"):
            store.append(handle, 1, [Part(0, 1, bytes(3000))])
        assert store.append(handle, 1, [Part(0, 1, body_of(1))]) == {0: 1}
        assert post(url, "/v1/streams", bytes(1001))[0] == 413
        store.close()


def test_a_wrong_token_is_rejected(behind: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EVENTIDE_TOKEN", raising=False)
    with serving(behind, token="sesame") as url:
        for token in (None, "open", "sesame2"):
            with pytest.raises(PlanError, match="token is missing or wrong"):
                connect(url, token=token).streams()
        assert post(url, "/v1/streams", b"{}", Authorization=None)[0] == 401
        assert post(url, "/v1/streams", b"{}", Authorization="sesame")[0] == 401
        assert post(url, "/v1/streams", b"{}", Authorization="Bearer sésame")[0] == 401
        assert post(url, "/v1/nothing", b"{}", Authorization=None)[0] == 401
        assert connect(url, token="sesame").streams() == []
        monkeypatch.setenv("EVENTIDE_TOKEN", "sesame")
        assert remote_store(url).streams() == []


def test_health_needs_no_token_and_the_status_does(behind: MemoryStore, clock: Clock) -> None:
    controller = Controller(behind, "here")
    behind.create_stream("orders", CONFIG)
    controller.step()
    with serving(behind, token="sesame", status=controller.status) as url:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=30)
        connection.request("GET", "/health")
        assert json.loads(connection.getresponse().read()) == {"status": "ok"}
        connection.request("GET", "/v1/status")
        refused = connection.getresponse()
        assert (refused.status, json.loads(refused.read())["code"]) == (401, "wrong_token")
        connection.request("GET", "/v1/status", headers={"Authorization": "Bearer sesame"})
        status = json.loads(connection.getresponse().read())
        assert (status["controller"], status["streams"][0]["stream"]) == ("here", "orders")
        connection.close()


def test_a_mark_whose_bounds_are_crossed_is_rejected_by_the_server(store: RemoteStore, behind: MemoryStore) -> None:
    store.create_stream("orders", CONFIG)
    lease = store.acquire("orders", "one", 1_500_000)
    assert lease is not None
    mark = Mark(1, 5, 5, {0: 0, 1: 0}, 0)
    object.__setattr__(mark, "upper", 4)  # what a client of another kind could send
    with pytest.raises(PlanError, match="below its lower time 5"):
        store.put_mark(lease, mark)
    assert behind.last_mark("orders") is None
