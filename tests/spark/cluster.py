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


@dataclass
class Cluster:
    """A master with its workers; each runs in a session (process group) that is listed."""

    url: str
    place: Path
    memory: str
    python_path: str
    processes: list[subprocess.Popen[bytes]]
    started: int = 0

    @property
    def sessions(self) -> tuple[int, ...]:
        """The master, and the workers in the order of their start."""
        return tuple(process.pid for process in self.processes)

    def start_worker(self) -> None:
        """Start a worker of one core."""
        number, self.started = self.started, self.started + 1
        worker = ["org.apache.spark.deploy.worker.Worker", "--cores", "1", "--memory", self.memory]
        place = ["--host", "127.0.0.1", "--webui-port", str(_free_port()), "--work-dir", f"{self.place}/work {number}"]
        self.processes.append(_start([*worker, *place, self.url], self.place, f"worker {number}", self.python_path))

    def kill_worker(self) -> None:
        """Kill the worker that started last, with its executors."""
        _kill(self.processes.pop())

    def await_workers(self) -> None:
        """Wait until all workers that were ever started have registered."""
        _wait(self.place / "master.log", "Registering worker", self.started)


@contextmanager
def standalone(
    place: Path, *, workers: int, memory: str = "1g", python_path: str = f"{ROOT}/src:{ROOT}"
) -> Iterator[Cluster]:
    """A master and workers of one core each, from Spark as pip installs it.

    ``python_path`` is where Python workers look for modules, in addition to the installed ones.
    """
    place.mkdir(parents=True, exist_ok=True)
    port, page = _free_port(), _free_port()
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    started = _start([*master, "--webui-port", str(page)], place, "master", python_path)
    cluster = Cluster(f"spark://127.0.0.1:{port}", place, memory, python_path, [started])
    try:
        for _ in range(workers):
            cluster.start_worker()
        cluster.await_workers()
        yield cluster
    finally:
        for process in cluster.processes:
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _start(command: list[str], place: Path, name: str, python_path: str) -> subprocess.Popen[bytes]:
    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "JAVA_HOME": str(find_java().home),
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "128m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "PYTHONPATH": python_path,
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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
