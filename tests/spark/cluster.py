"""A real cluster on this machine: Spark's standalone master and workers, each in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from eventide.spark.java import find_java
from tests.spark.chaos import ROOT

_START = 90  # seconds until master and workers have found each other


@dataclass(frozen=True)
class Cluster:
    """A master with its workers; all run in the sessions (process groups) that are listed."""

    url: str
    sessions: tuple[int, ...]


@contextmanager
def standalone(place: Path, *, workers: int) -> Iterator[Cluster]:
    """A master and workers of one core each, from Spark as pip installs it."""
    place.mkdir(parents=True, exist_ok=True)
    port, page = _free_port(), _free_port()
    url = f"spark://127.0.0.1:{port}"
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    worker = ["org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", "1g", "--host", "127.0.0.1"]
    started = [_start([*master, "--webui-port", str(page)], place, "master")]
    try:
        for number in range(workers):
            own = ["--webui-port", str(_free_port()), "--work-dir", str(place / f"work {number}"), url]
            started.append(_start([*worker, *own], place, f"worker {number}"))
        _wait(place / "master.log", "Registering worker", workers)
        yield Cluster(url, tuple(process.pid for process in started))
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _start(command: list[str], place: Path, name: str) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "256m",
        "PYTHONPATH": f"{ROOT}/src:{ROOT}",
        "PYSPARK_PYTHON": sys.executable,
    }
    log = (place / f"{name}.log").open("wb")
    return subprocess.Popen(
        [str(home / "bin" / "spark-class"), *command],
        env=environment,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _wait(log: Path, word: str, times: int) -> None:
    until = time.monotonic() + _START
    while log.read_text(encoding="utf-8", errors="replace").count(word) < times:
        assert time.monotonic() < until, log.read_text(encoding="utf-8", errors="replace")[-3000:]
        time.sleep(0.2)


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
