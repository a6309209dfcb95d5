"""A store over HTTP: connections that break, addresses that lead nowhere, and what travels in the clear."""

from __future__ import annotations

import http.client
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from eventide.errors import EventideError, PlanError
from eventide.marks.errors import UnreachableError
from eventide.marks.events import encode
from eventide.marks.stores import connect
from eventide.marks.stores.memory import MemoryStore
from eventide.marks.stores.remote import RemoteStore
from eventide.marks.stores.store import Config, Part
from tests.marks.server_harness import TOKEN, serving
from tests.services import unavailable

CONFIG = Config(schema=pa.schema({"n": pa.int64()}), segments=2)


def body_of(*numbers: int) -> bytes:
    return encode(pa.table({"n": numbers}, schema=CONFIG.schema))


@pytest.fixture
def behind() -> MemoryStore:
    return MemoryStore()


def test_a_client_that_disconnects_in_the_middle_of_a_request_has_no_effect_on_others(
    behind: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    with serving(behind) as url:
        parts = urlsplit(url)
        with socket.create_connection((str(parts.hostname), parts.port)) as rude:
            rude.sendall(b"POST /v1/streams HTTP/1.1\r\nHost: here\r\nContent-Length: 100\r\n\r\n{}")
        assert RemoteStore(url, token=TOKEN).streams() == []
    assert caplog.records == []


def test_threads_do_not_share_a_connection(url: str) -> None:
    store = RemoteStore(url, token=TOKEN)
    store.create_stream("orders", CONFIG)
    handles = [store.open_writer("orders", f"till {number}") for number in range(4)]

    def write(place: int) -> None:
        for sequence in range(1, 21):
            store.append(handles[place], sequence, [Part(0, 1, body_of(1))])

    threads = [threading.Thread(target=write, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert store.lengths("orders") == {0: 80, 1: 0}
    store.close()


def test_threads_that_have_ended_leave_no_connections_behind(url: str) -> None:
    store = RemoteStore(url, token=TOKEN)

    for _ in range(20):
        thread = threading.Thread(target=store.now)
        thread.start()
        thread.join()
    assert len(store._client._idle) == 1
    store.close()
    assert store._client._idle == []


def test_an_answer_that_was_not_read_is_not_taken_for_that_of_the_next_call(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RemoteStore(url, token=TOKEN)
    store.create_stream("orders", CONFIG)
    with monkeypatch.context() as patch:
        patch.setattr(http.client.HTTPResponse, "read", _interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.lengths("orders")
    assert store.streams() == ["orders"]
    store.close()


def _interrupted(*_: object) -> bytes:
    raise KeyboardInterrupt


class Unreliable:
    """Lies between a client and a server, and breaks connections after the request or before it."""

    def __init__(self, url: str, breaks: list[str]) -> None:
        parts = urlsplit(url)
        self._target = (str(parts.hostname), int(parts.port or 0))
        self._breaks = breaks
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._socket.accept()
                self._serve(client, self._breaks.pop(0) if self._breaks else "never")

    def _serve(self, client: socket.socket, breaks: str) -> None:
        with client, socket.create_connection(self._target) as server:
            while breaks != "before" and (request := _message(client)):
                server.sendall(request)
                answer = _message(server)
                if breaks == "after":
                    return
                client.sendall(answer)

    def close(self) -> None:
        self._socket.close()


def _message(sender: socket.socket) -> bytes:
    """A whole request or answer."""
    received = b""
    while (more := sender.recv(1 << 20)) != b"":
        received += more
        head, end, body = received.partition(b"\r\n\r\n")
        size = [int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
        if end and len(body) == size[0]:
            break
    return received


@pytest.mark.parametrize("breaks", ["before", "after"])
def test_an_append_over_a_connection_that_breaks_is_done_once(url: str, behind: MemoryStore, breaks: str) -> None:
    behind.create_stream("orders", CONFIG)
    handle = behind.open_writer("orders", "till")
    between = Unreliable(url, [breaks] * 3)
    waits: list[float] = []
    store = RemoteStore(between.url, token=TOKEN, pause=waits.append)
    assert store.append(handle, 1, [Part(0, 2, body_of(1, 2))], note=5) == {0: 2}
    assert behind.lengths("orders") == {0: 2, 1: 0}
    assert waits == [0.0, 0.05, 0.1]
    store.close()
    between.close()


def test_a_call_that_cannot_be_repeated_is_not(url: str, behind: MemoryStore) -> None:
    between = Unreliable(url, ["after"])
    store = RemoteStore(between.url, token=TOKEN)
    with pytest.raises(UnreachableError, match="does not answer"):
        store.create_stream("orders", CONFIG)
    assert behind.streams() == ["orders"]
    store.close()
    between.close()


def test_a_group_that_was_made_again_is_not_deleted_by_a_repetition(url: str, behind: MemoryStore) -> None:
    behind.create_stream("orders", CONFIG)
    behind.put_group("orders", "billing", 0, b"state")
    between = Unreliable(url, ["after"])
    store = RemoteStore(between.url, token=TOKEN)
    with pytest.raises(UnreachableError, match="does not answer"):
        store.delete_group("orders", "billing")
    assert behind.group("orders", "billing") is None
    store.close()
    between.close()


def test_nobody_there_is_reported_when_patience_is_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    waits: list[float] = []
    store = RemoteStore(f"http://127.0.0.1:{port}", patience=0, pause=waits.append)
    with pytest.raises(UnreachableError, match="Is it running"):
        store.streams()
    assert waits == [0.0]


def test_a_server_of_another_kind_is_reported() -> None:
    with serving(MemoryStore()) as url, pytest.raises(EventideError, match="not as a controller does"):
        RemoteStore(f"{url}/elsewhere", patience=0).streams()


@pytest.mark.parametrize("url", ["ftp://here", "http://", "nowhere"])
def test_an_address_of_another_kind_is_rejected(url: str) -> None:
    with pytest.raises(PlanError, match="not a store"):
        RemoteStore(url, token=TOKEN)


def test_a_token_is_not_sent_in_the_clear() -> None:
    with pytest.raises(PlanError, match="Use https"):
        RemoteStore("http://marks.shop:8787", token="sesame")


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    place = tmp_path_factory.mktemp("tls")
    files = (place / "certificate.pem", place / "key.pem")
    words = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    words += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(files[0]), "-keyout", str(files[1])]
    try:
        subprocess.run(words, check=True, capture_output=True)
    except FileNotFoundError:
        unavailable("the program openssl, which makes the certificate, is not installed", needs="openssl")
    return files


def test_calls_are_encrypted(
    certificate: tuple[Path, Path], behind: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    behind.create_stream("orders", CONFIG)
    with serving(behind, token="sesame", certificate=certificate[0], key=certificate[1]) as url:
        assert url.startswith("https://")
        monkeypatch.setenv("EVENTIDE_CA", str(certificate[0]))
        assert connect(url, token="sesame").streams() == ["orders"]
        monkeypatch.delenv("EVENTIDE_CA")
        with pytest.raises(UnreachableError, match="CERTIFICATE_VERIFY_FAILED"):
            connect(url, token="sesame").streams()


def test_a_file_of_certificates_that_is_none_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="EVENTIDE_CA"):
        RemoteStore("https://here", ca=str(tmp_path / "missing.pem"))
