"""Processes that are forked from one that has everything imported: what Spark starts must not notice."""

from __future__ import annotations

import json
import marshal
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import eventide
from eventide.spark import zygote
from pyspark_eventide import handover
from pyspark_eventide.handover import GO, LENGTH, ZYGOTE

pytestmark = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="this system cannot watch a process")

_SOURCE = Path(eventide.__file__).parents[1]
_HERE = """
import json, os, sys
given = sys.argv[1:], os.environ.get("COLOUR"), os.getcwd(), sys.path[0], sys.stdin.read()
print(json.dumps([os.getpid(), *given, "pyarrow" in sys.modules]))
"""
_ENDS = """
import os, sys
sys.stderr.write("cannot go on")
sys.exit(7)
"""
_SAYS = "import sys; sys.exit('no more')"
_WAITS = """
import os, select
print(os.getpid(), flush=True)
select.select([], [], [])
"""


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    for name, text in {"here": _HERE, "ends": _ENDS, "says": _SAYS, "waits": _WAITS, "fails": "1 / 0"}.items():
        (tmp_path / f"pyspark_{name}.py").write_text(text, encoding="utf-8")
    return tmp_path


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A zygote of this process's own."""
    monkeypatch.delenv(ZYGOTE, raising=False)
    monkeypatch.setattr(zygote, "_started", {})
    zygote.start_zygote(str(_SOURCE))
    yield os.environ[ZYGOTE]
    zygote.stop_zygote()


def _start(module: str, modules: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """A Python process, as Spark starts it."""
    paths = (_SOURCE / "eventide" / "spark" / "workers", _SOURCE, modules)
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=modules,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONHASHSEED": "0", **environment},
    )


def _told(process: subprocess.Popen[str], text: str = "") -> Any:
    out, err = process.communicate(text)
    assert process.returncode == 0, err
    return json.loads(out)


def test_a_copy_has_the_arguments_the_environment_the_place_and_the_files(address: str, modules: Path) -> None:
    started = _start("pyspark_here", modules, "one", "two", COLOUR="green")
    pid, *rest, imported = _told(started, "something to read")
    assert rest == [["one", "two"], "green", str(modules), str(modules), "something to read"]
    assert pid != started.pid
    assert imported


@pytest.mark.parametrize("other", [{"PYTHONHASHSEED": "1"}, {"EVENTIDE_ZYGOTE": "/nowhere"}, {"EVENTIDE_ZYGOTE": ""}])
def test_where_a_copy_would_be_another_one_or_there_is_none_the_process_runs_itself(
    address: str, modules: Path, other: dict[str, str]
) -> None:
    started = _start("pyspark_here", modules, **other)
    pid, _, _, place, path, *_ = _told(started)
    assert pid == started.pid
    assert place == path == str(modules)


def test_a_process_ends_as_its_copy_does(address: str, modules: Path) -> None:
    ended = _start("pyspark_ends", modules)
    assert ended.communicate() == ("", "cannot go on")
    assert ended.returncode == 7
    said = _start("pyspark_says", modules)
    assert said.communicate() == ("", "no more\n")
    assert said.returncode == 1
    failed = _start("pyspark_fails", modules)
    assert "ZeroDivisionError" in failed.communicate()[1]
    assert failed.returncode == 1


def test_who_asks_and_goes_harms_nobody(address: str, modules: Path) -> None:
    for said in (b"", GO, GO + (100).to_bytes(LENGTH, "big"), GO + (1).to_bytes(LENGTH, "big") + b"."):
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(address)
            asking.recv(1 << 12)
            asking.sendall(said)
    started = _start("pyspark_here", modules)
    assert _told(started)[0] != started.pid


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_who_ends_the_process_ends_the_copy_and_the_other_way_round(
    address: str, modules: Path, number: signal.Signals
) -> None:
    started = _start("pyspark_waits", modules)
    assert started.stdout is not None
    copy = os.pidfd_open(int(started.stdout.readline()))
    if number == signal.SIGTERM:
        started.terminate()
    else:
        signal.pidfd_send_signal(copy, number)
    assert select.select([copy], [], [], 30)[0], "the copy has ended"
    assert started.wait(30) == 1


def test_it_ends_with_the_program_that_has_started_it() -> None:
    program = (
        "import os, signal\n"
        "from eventide.spark import zygote\n"
        "zygote.start_zygote('')\n"
        "print(zygote._started[os.getpid()].pid, flush=True)\n"
        "input()\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(_SOURCE)}
    environment.pop(ZYGOTE, None)
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as started:
        assert started.stdout is not None
        watched = os.pidfd_open(int(started.stdout.readline()))
        started.communicate("go\n")
    assert select.select([watched], [], [], 30)[0], "it has ended"


def test_a_program_that_was_started_by_another_has_its_own(address: str, modules: Path) -> None:
    program = (
        "import os, subprocess, sys\n"
        "from eventide.spark import zygote\n"
        "zygote.start_zygote('')\n"
        "print(os.environ['EVENTIDE_ZYGOTE'], flush=True)\n"
        "print(subprocess.run([sys.executable, '-m', 'pyspark_here'], stdin=subprocess.DEVNULL).returncode)\n"
    )
    paths = (_SOURCE / "eventide" / "spark" / "workers", _SOURCE, modules)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONHASHSEED": "0"}
    asked = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=modules, check=True
    )
    own, told, code = asked.stdout.splitlines()
    assert own != address
    assert json.loads(told)[-1], "it is a copy"
    assert code == "0"


def test_it_is_not_started_where_the_user_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ZYGOTE, "")
    monkeypatch.setattr(zygote, "_started", {})
    zygote.start_zygote("")
    assert not zygote._started


@pytest.mark.parametrize(
    ("module", "heard"),
    [("pyspark.worker", "a word\n"), ("pyspark.sql.streaming.transform_with_state_driver_worker", "")],
)
def test_the_process_that_tells_of_state_says_nothing_of_itself(module: str, heard: str) -> None:
    program = f"from pyspark_eventide.handover import hush; hush('{module}'); print('a word')"
    asked = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert asked.stdout == heard


def test_what_is_imported_before_the_fork_has_no_polars() -> None:
    program = "import sys; from pyspark_eventide.preloading import preload; preload(); print('polars' in sys.modules)"
    asked = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert asked.stdout == "False\n"


@pytest.mark.parametrize(
    ("module", "becomes"),
    [("pyspark.daemon", "pyspark_eventide.daemon"), ("pyspark.worker", "pyspark.worker")],
)
def test_a_daemon_of_spark_becomes_ours(module: str, becomes: str) -> None:
    import _socket

    ours, theirs = socket.socketpair(socket.AF_UNIX)
    theirs.sendall(os.getpid().to_bytes(LENGTH, "big"))
    asking = _socket.socket(fileno=ours.detach())
    os.close(handover._asked(asking, ["python", "-m", module, "more"], [], told=1))
    asking.close()
    received = b"".join(iter(lambda: theirs.recv(1 << 16), b""))
    wanted = marshal.loads(received[len(GO) + LENGTH :])
    assert wanted[:2] == (becomes, ["more"])
    theirs.close()


_FORKS = """
import os, threading
from pyspark_eventide.zygote import fork
done = threading.Event()
threading.Thread(target=done.wait, daemon=True).start()
child = fork()
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
done.set()
"""


def test_a_process_with_threads_forks_without_a_warning() -> None:
    command = [sys.executable, "-W", "always::DeprecationWarning", "-c", _FORKS]
    ended = subprocess.run(command, env=os.environ | {"PYTHONPATH": str(_SOURCE)}, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
