"""The process from which Spark's Python processes on this machine are forked.

Spark starts one for each kind of work that a query has, and each of them imports pyspark and Arrow: half a second of a
core, before a query's first result. This one imports them once, while Java starts; what Spark starts then asks it for
a copy (``handover``). It ends with the program that has started it.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import select
import signal
import socket
import sys
from pathlib import Path

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
    return asking.recv(1) == GO and os.fork() == 0


def _become(asking: socket.socket) -> None:
    """What the process that asks was to be, in its place: with its files, its environment and its arguments."""
    import runpy

    code, told = 1, None
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        size, files, *_ = socket.recv_fds(asking, LENGTH, 4)
        wanted = b""
        while len(wanted) < int.from_bytes(size, "big"):
            wanted += asking.recv(1 << 16)
        module, arguments, path, environment, directory = marshal.loads(wanted)
        asking.sendall(os.getpid().to_bytes(LENGTH, "big"))
        if asking.recv(1) != GO:  # it does not watch us, and does it itself
            return
        asking.close()
        *standard, told = files
        for place, file in enumerate(standard):
            os.dup2(file, place)
            os.close(file)
        os.environ.clear()
        os.environ.update(environment)
        os.chdir(directory)
        sys.path[:], sys.argv[:] = path, ["", *arguments]
        hush(module)
        _called(module.rpartition(".")[2])
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
        if told is not None:
            os.write(told, bytes([code & 0xFF]))
        os._exit(code)


def _called(name: str) -> None:
    """Have the name shown in lists of processes, as far as that goes: the command that they show stays ours."""
    with contextlib.suppress(OSError), open("/proc/self/comm", "w", encoding="ascii") as comm:  # noqa: PTH123
        comm.write(name[:15])


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
