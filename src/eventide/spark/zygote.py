"""Starts ``pyspark_eventide.zygote``, from which Spark's Python processes on this machine are forked."""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
from pathlib import Path

from eventide.spark.surroundings import own_directory
from pyspark_eventide.handover import ZYGOTE

_started: dict[int, subprocess.Popen[bytes]] = {}  # by the process that has started it: a fork has none of its own


def start_zygote(paths: str) -> None:
    """Start it, unless this program has one, or the system cannot watch it, or the user has set ``EVENTIDE_ZYGOTE``
    to nothing. Java, which is to be started afterwards, hears of it through the environment. ``paths`` are those that
    Python processes of Spark's get besides their own.
    """
    place = own_directory("eventide-sockets")
    if place is None or not hasattr(os, "pidfd_open") or os.getpid() in _started or os.environ.get(ZYGOTE) == "":
        return
    address = place / f"zygote-{os.getpid()}"
    address.unlink(missing_ok=True)  # of a program that had this number before
    found = os.pathsep.join(filter(None, (paths, os.environ.get("PYTHONPATH"))))
    # As Spark has it: neither can be changed in a process that runs.
    environment = {"PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1"} | dict(os.environ) | {"PYTHONPATH": found}
    environment.pop(ZYGOTE, None)  # that of a program which has started this one is not asked for it
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen()  # who asks before it has imported all waits for it
        _started[os.getpid()] = subprocess.Popen(
            [sys.executable, "-m", "pyspark_eventide.zygote", str(listener.fileno())],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            env=environment,
        )
    os.environ[ZYGOTE] = str(address)
    atexit.register(stop_zygote)


def stop_zygote() -> None:
    """End it; what it has forked goes on."""
    started = _started.pop(os.getpid(), None)
    if started is not None:
        started.terminate()  # it may still import, and would not hear anything else
        started.communicate()
        Path(os.environ[ZYGOTE]).unlink(missing_ok=True)
