"""The controller as a program: what it needs to start, what it says, and how it ends."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from eventide.errors import PlanError
from eventide.marks.controller.__main__ import main
from eventide.marks.controller.http_server import ServerSettings, resolve_token
from eventide.marks.stores.memory import MemoryStore
from eventide.marks.stores.remote import RemoteStore
from eventide.marks.stores.store import Config
from tests.marks.server_harness import TOKEN, serving

PROGRAM = [sys.executable, "-m", "eventide.marks.controller"]


@pytest.fixture
def behind() -> Iterator[str]:
    store = MemoryStore()
    store.create_stream("orders", Config(schema=pa.schema({"n": pa.int64()})))
    with serving(store) as url:
        yield url


@pytest.fixture
def signals() -> Iterator[None]:
    """What the program does to them is undone."""
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGTERM, before[0])
    signal.signal(signal.SIGINT, before[1])


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("EVENTIDE_")} | {
        "EVENTIDE_TOKEN": TOKEN
    }


@pytest.mark.parametrize("ends", [signal.SIGTERM, signal.SIGINT])
def test_it_says_when_it_is_ready_and_ends_when_it_is_reported(behind: str, ends: signal.Signals) -> None:
    """It speaks to its store over HTTP here, as any client might."""
    words = [*PROGRAM, "--store", behind, "--port", "0", "--name", "here"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment()) as running:
        try:
            assert running.stdout is not None
            line = running.stdout.readline()
            assert line.startswith("here is ready at http://127.0.0.1:")
            store = RemoteStore(line.split()[-1], token=TOKEN)
            assert store.streams() == ["orders"]
            store.close()
        finally:
            running.send_signal(ends)
        assert running.wait(30) == 0
    beyond = RemoteStore(behind, token=TOKEN)
    assert beyond.controllers() == []  # it has left, so that others take over at once
    assert beyond.leases() == []
    beyond.close()


def test_on_loopback_nothing_is_needed() -> None:
    assert ServerSettings(host="localhost").scheme == "http"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.7", "marks.shop"])
def test_elsewhere_it_does_not_start_without_a_certificate(host: str) -> None:
    with pytest.raises(PlanError, match=r"needs a certificate: add --certificate and --key"):
        ServerSettings(host=host, token="sesame")


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="belong together"):
        ServerSettings(certificate=tmp_path / "certificate.pem")


def test_a_certificate_that_cannot_be_read_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("none")
    with pytest.raises(PlanError, match=r"certificate\.pem cannot be read"):
        ServerSettings(certificate=tmp_path / "certificate.pem", key=tmp_path / "key.pem")


def test_the_token_is_that_of_the_file_or_else_of_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("sesame\n")
    assert resolve_token(file, {"EVENTIDE_TOKEN": "other"}) == "sesame"
    assert resolve_token(None, {"EVENTIDE_TOKEN": "other"}) == "other"


def test_an_empty_or_missing_token_file_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" \n")
    with pytest.raises(PlanError, match="is empty"):
        resolve_token(tmp_path / "token")
    with pytest.raises(PlanError, match="cannot be read"):
        resolve_token(tmp_path / "missing")


@pytest.mark.parametrize("token", ["", "two\nlines", "sésame", " sesame"])
def test_a_token_that_cannot_be_sent_is_rejected(token: str) -> None:
    with pytest.raises(PlanError, match="printable ASCII"):
        ServerSettings(token=token)
    with pytest.raises(PlanError, match="printable ASCII"):
        RemoteStore("https://marks.shop", token=token)


def test_without_the_packages_of_a_server_it_says_how_to_get_them(
    behind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, signals: None
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "eventide.marks.controller.http_server")
    monkeypatch.delitem(sys.modules, "eventide._web_server")
    assert main(["--store", behind]) == 2
    assert "pip install 'pyspark-eventide[marks]'" in capsys.readouterr().err


def test_what_cannot_be_is_reported_in_one_line_and_ends_it(
    behind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, signals: None
) -> None:
    monkeypatch.delenv("EVENTIDE_TOKEN", raising=False)
    assert main(["--store", behind, "--host", "0.0.0.0"]) == 2
    assert "needs a certificate" in capsys.readouterr().err
    assert main(["--store", "mongodb://here"]) == 2
    assert "is not a store for marks" in capsys.readouterr().err
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert main(["--store", behind, "--port", str(taken.getsockname()[1])]) == 2
    assert "Choose another --port" in capsys.readouterr().err
