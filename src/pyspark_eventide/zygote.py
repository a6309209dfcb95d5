"""The process from which Spark's Python processes on this machine are forked.

Spark starts one for each kind of work that a query has, and each of them imports pyspark and Arrow: half a second of a
core, before a query's first result. This one imports them once, while Java starts; what Spark starts then asks it for
a copy (``handover``). It ends with the program that has started it.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import runpy
import select
import signal
import socket
import sys
import time
import warnings
from pathlib import Path
from typing import NoReturn

from pyspark_eventide.handover import GO, LENGTH, alike, hush
from pyspark_eventide.preloading import preload

_PATIENCE = 5.0  # seconds in which a process must have said what it is to be


def serve(listener: socket.socket) -> None:
    """Fork a copy for everyone who asks, until the other end of stdin is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # is for the program, not for us or for Spark
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    address: str = listener.getsockname()
    try:
        preload()
        waiting = select.poll()
        waiting.register(0, select.POLLIN)
        waiting.register(listener, select.POLLIN)
        while all(ready != 0 for ready, _ in waiting.poll()):
            asking, _ = listener.accept()
            with asking, contextlib.suppress(OSError):  # who asked has gone
                if _forked(asking):
                    listener.close()
                    _become(asking)
    finally:
        Path(address).unlink(missing_ok=True)


def _forked(asking: socket.socket) -> bool:
    """Greet, and fork; whether this is the copy."""
    asking.settimeout(_PATIENCE)
    asking.sendall(alike())
    return asking.recv(1) == GO and fork() == 0


def fork() -> int:
    """Fork as ``os.fork`` does, without the warning of Python 3.12 and later about processes with several threads.

    The only other thread is that of Arrow's memory allocator, which is made for forks: see ``preloading``.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _become(asking: socket.socket) -> NoReturn:
    """What the process that asks was to be, in its place."""
    try:
        module, told = _put_in_place(asking)
    except Exception:  # it has gone, or does it itself
        os._exit(1)
    code = 1
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for written in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                written.flush()
        os.write(told, bytes([code & 0xFF]))
        os._exit(code)


def _put_in_place(asking: socket.socket) -> tuple[str, int]:
    """Take on its files, its environment and its arguments; what it was to run, and where to tell how that ended."""
    size, files, *_ = socket.recv_fds(asking, LENGTH, 4)
    wanted = b""
    while len(wanted) < int.from_bytes(size, "big"):
        more = asking.recv(1 << 16)
        if not more:
            raise ConnectionError
        wanted += more
    module, arguments, path, environment, directory = marshal.loads(wanted)
    asking.sendall(os.getpid().to_bytes(LENGTH, "big"))
    if asking.recv(1) != GO:  # it does not watch us
        raise ConnectionError
    asking.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *standard, told = files
    for place, file in enumerate(standard):
        os.dup2(file, place)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(directory)
    sys.path[:], sys.argv[:] = path, ["", *arguments]
    hush(module)
    _called(module.rpartition(".")[2])
    return module, told


def _called(name: str) -> None:
    """Have the name shown in lists of processes, as far as that goes: the command that they show stays ours."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="ascii") as comm:  # noqa: PTH123
        comm.write(name[:15])


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
