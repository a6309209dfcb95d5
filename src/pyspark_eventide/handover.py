"""What Spark starts on this machine asks the ``zygote`` to fork it, and stands in for the copy.

Every Python process of Spark's runs this before all else, so it makes do with what is built into Python: ``socket``,
``json`` and ``signal`` would take longer to import than all the rest takes.
"""

from __future__ import annotations

import marshal
import os
import sys

ZYGOTE = "EVENTIDE_ZYGOTE"
"""The environment variable that has the address of its socket."""
LENGTH = 8  # bytes of a number
GO = b"!"

_PATIENCE = 10.0  # seconds: it may still import
_PRINTS = "pyspark.sql.streaming.transform_with_state_driver_worker"


def hush(module: str) -> None:
    """Quiet the process that tells Spark of a query's state, which prints that it begins, for each query."""
    if module == _PRINTS:
        import builtins

        builtins.print = lambda *said, **how: None


def hand_over(command: list[str], path: list[str]) -> None:
    """Have the command (``python -m module …``) run by a copy of the zygote, and end as it ends.

    Returns where that cannot be; then this process runs it, as if nothing had been.
    """
    address = os.environ.get(ZYGOTE)
    if not address or not command[2].startswith(("pyspark.", "pyspark_eventide.")):
        return
    import _socket

    zygote = _socket.socket(_socket.AF_UNIX)
    try:
        zygote.settimeout(_PATIENCE)
        zygote.connect(address)
        watch = _asked(zygote, command, path) if zygote.recv(1 << 12) == alike() else None
    except OSError:  # it is not there any more, or is not quick enough
        return
    finally:
        zygote.close()
    if watch is not None:
        _stand_in(watch)


def alike() -> bytes:
    """What a process must have in common with its copy, because it cannot be changed in one that runs."""
    from importlib.machinery import PathFinder

    pyspark = PathFinder.find_spec("pyspark")
    place = None if pyspark is None else pyspark.origin
    return marshal.dumps((sys.executable, place, os.environ.get("PYTHONHASHSEED", "0")))


def _asked(zygote: object, command: list[str], path: list[str]) -> int:
    """Tell what is to run; a file descriptor that is ready when it has ended."""
    import _socket
    from array import array

    assert isinstance(zygote, _socket.socket)
    wanted = marshal.dumps((command[2], command[3:], path, dict(os.environ), os.getcwd()))  # noqa: PTH109
    files = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array("i", [0, 1, 2]))]
    zygote.sendall(GO)
    zygote.sendmsg([len(wanted).to_bytes(LENGTH, "big")], files)
    zygote.sendall(wanted)
    watch = os.pidfd_open(int.from_bytes(zygote.recv(LENGTH), "big"))
    zygote.sendall(GO)
    return watch


def _stand_in(watch: int) -> None:
    """For Spark this process is the one it has started: pass on that it shall end, and end with the copy."""
    import _signal  # type: ignore[import-not-found]
    import select

    def pass_on(number: int, frame: object) -> None:
        try:
            _signal.pidfd_send_signal(watch, number)
        except ProcessLookupError:  # it has ended by itself
            return

    _signal.signal(_signal.SIGTERM, pass_on)
    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    ended = select.poll()
    ended.register(watch, select.POLLIN)
    ended.poll()
    os._exit(0)
