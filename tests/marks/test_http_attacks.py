"""A controller under attack: web pages, other users, incomplete requests, and events that are none."""

from __future__ import annotations

import socket
import stat
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from eventide.errors import DataError, PlanError
from eventide.marks import Reader, events
from eventide.marks.controller.connections import ConnectionLimits
from eventide.marks.controller.http_client import create_token, token_file, user_token
from eventide.marks.controller.http_server import ServerSettings, resolve_token
from eventide.marks.mark import Mark
from eventide.marks.stores.memory import MemoryStore
from eventide.marks.stores.remote import RemoteStore, remote_store
from eventide.marks.stores.sql_dialects import sqlite_store
from eventide.marks.stores.store import Config, Part, WriterHandle
from eventide.marks.streams import open_stream
from eventide.spark.marks_batches import read_range
from tests.marks.server_harness import TOKEN, serving
from tests.marks.test_http import CONFIG, SCHEMA, body_of, post


@pytest.fixture
def behind() -> MemoryStore:
    store = MemoryStore()
    store.create_stream("orders", CONFIG)
    return store


DELETE = b'{"name":"orders"}'


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({"Content_Type": "text/plain"}, 415, "wrong_content_type"),
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415, "wrong_content_type"),
        ({"Content_Type": "multipart/form-data; boundary=x"}, 415, "wrong_content_type"),
        ({"Content_Type": None}, 415, "wrong_content_type"),
        ({"Origin": "http://evil.example"}, 403, "cross_origin"),
        ({"Origin": "null"}, 403, "cross_origin"),
        ({"Sec_Fetch_Site": "cross-site"}, 403, "cross_origin"),
        ({"Host": "evil.example"}, 421, "wrong_host"),
        ({"Host": "evil.example:8787"}, 421, "wrong_host"),
        ({"Host": "127.0.0.1.evil.example"}, 421, "wrong_host"),
        ({"Authorization": None}, 401, "wrong_token"),
        ({"Authorization": f"Basic {TOKEN}"}, 401, "wrong_token"),
        ({"Authorization": f"Bearer {TOKEN[:-1]}"}, 401, "wrong_token"),
    ],
)
def test_a_request_that_a_web_page_or_another_user_can_send_is_rejected(
    url: str, behind: MemoryStore, headers: dict[str, str | None], status: int, code: str
) -> None:
    received, content = post(url, "/v1/delete_stream", DELETE, **headers)
    assert (received, content["code"]) == (status, code)
    assert behind.streams() == ["orders"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1:8787", "[::1]:8787"])
def test_a_request_for_loopback_is_answered(url: str, host: str) -> None:
    assert post(url, "/v1/streams", b"{}", Host=host) == (200, ["orders"])


def test_further_names_are_answered_where_they_are_allowed(behind: MemoryStore) -> None:
    with serving(behind, hosts=("Marks.Shop",)) as url:
        assert post(url, "/v1/streams", b"{}", Host="marks.shop:443")[0] == 200
        assert post(url, "/v1/streams", b"{}", Host="other.shop")[0] == 421


def test_a_controller_for_other_machines_goes_by_its_certificate() -> None:
    assert ServerSettings(token="sesame").accepted_hosts == ()
    assert ServerSettings(token="sesame", hosts=("a",)).accepted_hosts == ("a",)


def test_a_token_is_created_once_and_read_by_clients_of_the_same_user(
    behind: MemoryStore, own_place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EVENTIDE_TOKEN")
    file = own_place / "eventide" / "token"
    assert token_file() == file
    assert user_token() is None
    with pytest.raises(PlanError, match="token is missing or wrong"), serving(behind) as url:
        remote_store(url).streams()
    token = resolve_token(None)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert len(token) == 64 and token == resolve_token(None) == user_token()
    assert list(file.parent.iterdir()) == [file]
    with serving(behind, token=token) as url:
        assert remote_store(url).streams() == ["orders"]
    assert token not in repr(ServerSettings(token=token))


def test_controllers_that_create_the_token_at_the_same_time_agree(own_place: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        tokens = set(threads.map(lambda _: create_token(), range(8)))
    assert tokens == {user_token()}


def test_a_token_that_others_can_read_is_rejected(own_place: Path) -> None:
    create_token()
    (own_place / "eventide" / "token").chmod(0o644)
    with pytest.raises(PlanError, match="Other users can read the token"):
        user_token()


def test_the_token_of_the_user_is_not_sent_to_other_machines(own_place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_token()
    monkeypatch.delenv("EVENTIDE_TOKEN")
    assert "Authorization" not in remote_store("https://marks.shop")._client._headers
    assert "Authorization" in remote_store("http://localhost:8787")._client._headers


def connected(url: str, *sent: bytes) -> socket.socket:
    parts = urlsplit(url)
    connection = socket.create_connection((str(parts.hostname), int(parts.port or 0)), timeout=30)
    for part in sent:
        connection.sendall(part)
    return connection


def closed(connection: socket.socket) -> bool:
    """Whether the server closes the connection without an answer."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


INCOMPLETE = {
    "nothing": b"",
    "a header": b"POST /v1/streams HTTP/1.1\r\nHost: localhost\r\n",
    "a body": b"POST /v1/streams HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{}",
}


@pytest.mark.parametrize("sent", INCOMPLETE.values(), ids=list(INCOMPLETE))
def test_an_incomplete_request_is_closed_in_time(behind: MemoryStore, sent: bytes) -> None:
    with serving(behind, limits=ConnectionLimits(header_seconds=0.2, body_seconds=0.2)) as url:
        with connected(url, sent) as connection:
            assert closed(connection)
        assert post(url, "/v1/streams", b"{}") == (200, ["orders"])


def test_bytes_that_trickle_do_not_prolong_the_time(behind: MemoryStore) -> None:
    ended = threading.Event()

    def trickle(connection: socket.socket) -> None:
        with suppress(OSError):
            while not ended.wait(0.05):
                connection.sendall(b"x")

    limits = ConnectionLimits(header_seconds=0.4, body_seconds=0.4)
    with serving(behind, limits=limits) as url, connected(url, INCOMPLETE["a header"]) as connection:
        thread = threading.Thread(target=trickle, args=(connection,), daemon=True)
        start = time.monotonic()
        thread.start()
        assert closed(connection)
        assert time.monotonic() - start < 10
        ended.set()
        thread.join()


def test_a_connection_that_is_idle_between_requests_stays_open(behind: MemoryStore) -> None:
    with serving(behind, limits=ConnectionLimits(header_seconds=0.2, body_seconds=0.2)) as url:
        store = RemoteStore(url, token=TOKEN, patience=0)
        store.streams()
        (connection,) = store._client._idle
        used = connection.sock
        time.sleep(0.6)  # longer than a request may take
        assert store.streams() == ["orders"]
        assert store._client._idle[0].sock is used
        store.close()


def test_many_incomplete_requests_do_not_keep_others_out(behind: MemoryStore) -> None:
    limits = ConnectionLimits(header_seconds=60, body_seconds=60, connections=40, per_peer=20)
    with serving(behind, limits=limits) as url:
        rude = [connected(url, INCOMPLETE["a header"]) for _ in range(100)]
        store = RemoteStore(url, token=TOKEN, patience=5)
        assert all(store.streams() == ["orders"] for _ in range(5))
        store.close()
        for connection in rude:
            connection.close()


ANSWERED = b"POST /v1/streams HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"


def test_a_request_without_the_token_does_not_keep_its_connection(url: str) -> None:
    with connected(url, ANSWERED) as connection:
        answer = b""
        while part := connection.recv(1 << 16):
            answer += part
    assert answer.startswith(b"HTTP/1.1 401") and b"\r\nconnection: close\r\n" in answer.lower()


def test_many_idle_connections_do_not_keep_others_out(behind: MemoryStore) -> None:
    health = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with serving(behind, limits=ConnectionLimits(connections=40, per_peer=20)) as url:
        idle = []
        for _ in range(60):  # a connection is idle once its request is answered
            idle.append(connected(url, health))
            assert b"200 OK" in idle[-1].recv(1 << 16)
        store = RemoteStore(url, token=TOKEN, patience=5)
        assert store.streams() == ["orders"]
        store.close()
        for connection in idle:
            connection.close()


def test_a_process_with_few_files_survives_more_connections_than_it_may_have(own_place: Path) -> None:
    """300 incomplete requests to a controller with 256 file descriptors."""
    program = [sys.executable, "-m", "eventide.marks.controller", "--store", f"sqlite:///{own_place}/marks.db"]
    limited = ["bash", "-c", 'ulimit -n 256; exec "$@"', "bash", *program, "--port", "0"]
    with subprocess.Popen(limited, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            url = running.stdout.readline().split()[-1]
            rude = [connected(url, INCOMPLETE["a body"]) for _ in range(300)]
            store = RemoteStore(url, token=TOKEN, patience=10)
            store.create_stream("orders", CONFIG)
            assert store.streams() == ["orders"]
            store.close()
            for connection in rude:
                connection.close()
        finally:
            running.terminate()


def seated(store: RemoteStore) -> WriterHandle:
    return store.open_writer("orders", "till")


OTHER = events.encode(pa.table({"m": ["x"]}))


def cut_short() -> bytes:
    """Text whose offsets lie: readers would read beyond its end."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, pa.schema({"s": pa.string()})) as writer:
        writer.write_table(pa.table({"s": ["abcdefg"]}))
    before, offsets, after = bytes(out.getvalue()).rpartition(bytes([0, 0, 0, 0, 7, 0, 0, 0]))
    assert offsets
    return before + bytes([0, 0, 0, 0, 255, 255, 0, 0]) + after


@pytest.mark.parametrize(
    ("rows", "body", "message"),
    [
        (1, b"no events", "This is no append to 'orders'"),
        (1, b"", "This is no append to 'orders'"),
        (1, body_of(1)[:-20], "This is no append to 'orders'"),
        (1, OTHER, r"the columns are \['m: string'\], not \['n: int64'\]"),
        (2**63 - 3, body_of(1), "there are 1 rows, not 9223372036854775805"),
        (0, body_of(1), "there are 1 rows, not 0"),
        (-1, body_of(1), "there are 1 rows, not -1"),
    ],
)
def test_an_append_that_no_reader_could_read_is_rejected(
    store: RemoteStore, rows: int, body: bytes, message: str
) -> None:
    handle = seated(store)
    with pytest.raises(PlanError, match=message):
        store.append(handle, 1, [Part(0, 1, body_of(1)), Part(1, rows, body)])
    assert store.lengths("orders") == {0: 0, 1: 0}
    assert store.append(handle, 1, [Part(0, 1, body_of(1))]) == {0: 1}


def test_values_that_lie_about_their_length_are_rejected(store: RemoteStore) -> None:
    store.create_stream("texts", Config(schema=pa.schema({"s": pa.string()})))
    with pytest.raises(PlanError, match="This is no append to 'texts'"):
        store.append(store.open_writer("texts", "till"), 1, [Part(0, 1, cut_short())])


@pytest.mark.parametrize("point", [-0.1, 1.0, float("nan"), float("inf"), None])
def test_events_of_a_transaction_lie_in_the_key_space(store: RemoteStore, point: float | None) -> None:
    handle = seated(store)
    transaction = store.begin(handle, timeout=10_000_000)
    table = pa.table({"n": [1], events.POINT: pa.array([point], pa.float64())})
    with pytest.raises(PlanError, match="__point"):
        store.add(handle, transaction.id, 1, 1, events.encode(table))
    with pytest.raises(PlanError, match="there is no column __point"):
        store.add(handle, transaction.id, 1, 1, body_of(1))
    fine = events.encode(pa.table({"n": [1], events.POINT: [0.5]}, schema=SCHEMA.append(pa.field(events.POINT, "f8"))))
    with pytest.raises(PlanError, match="there are 1 rows, not 2"):
        store.add(handle, transaction.id, 1, 2, fine)
    store.add(handle, transaction.id, 1, 1, fine)
    assert sum(store.commit(handle, transaction.id).values()) == 1


def test_times_that_are_none_and_empty_names_are_rejected(store: RemoteStore) -> None:
    handle = seated(store)
    lease = store.acquire("orders", "here", store.now() + 60_000_000)
    assert lease is not None
    for call, message in (
        (lambda: store.append(handle, 1, [], note=-(2**63)), "not an instant"),
        (lambda: store.note(handle, -(2**63), {}), "not an instant"),
        (lambda: store.begin(handle, timeout=-1), "timeout"),
        (lambda: store.heartbeat("here", -1), "until"),
        (lambda: store.create_stream("", CONFIG), "name"),
        (lambda: store.create_stream("a\0b", CONFIG), "name"),
        (lambda: store.create_stream("new", Config(schema=SCHEMA, mark_every=-1)), "mark_every"),
        (lambda: store.open_writer("orders", ""), "writer"),
        (lambda: store.put_group("orders", "", 0, b""), "name"),
        (lambda: store.append(handle._replace(writer=""), 1, []), "handle"),
        (lambda: store.put_mark(lease, Mark(1, 7, 5, {0: 0}, 1)), "below its lower time"),
        (lambda: store.put_mark(lease, Mark(1, 5, 7, {0: 0}, -1)), "is not a mark"),
        (lambda: store.put_mark(lease, Mark(1, 5, 7, {0: -1}, 1)), "is not a mark"),
    ):
        with pytest.raises(PlanError, match=message):
            call()
    assert store.streams() == ["orders"] and store.last_mark("orders") is None


def test_a_damaged_blob_is_reported_with_its_position(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/marks.db"
    damaged = sqlite_store(address)
    damaged.create_stream("orders", Config(schema=SCHEMA))
    handle = damaged.open_writer("orders", "till")
    for number, body in enumerate((body_of(1, 2), b"not events", body_of(4))):
        damaged.append(handle, number + 1, [Part(0, 2 if number == 0 else 1, body)])
    damaged.close()
    message = "Stream 'orders', segment 0, offset 2: 1 events cannot be read: .*{0: 3}"
    stream = open_stream(f"{address}#orders")
    with pytest.raises(DataError, match=message):
        list(read_range(stream, 0, 0, 4, rows=10))
    assert [len(table) for _, table in read_range(stream, 0, 0, 2, rows=10)] == [2]
    assert [table["n"].to_pylist() for _, table in read_range(stream, 0, 3, 4, rows=10)] == [[4]]
    with Reader(f"{address}#orders", group="g") as reader, pytest.raises(DataError, match=message):
        reader.read(10)
    stream.store.close()
