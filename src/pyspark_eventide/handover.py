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
_DAEMONS = {"pyspark.daemon": "pyspark_eventide.daemon"}  # Spark does not ask for ours wherever it starts one


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
    if not address or not command[2].startswith("pyspark"):
        return
    import _socket

    zygote = _socket.socket(_socket.AF_UNIX)
    code, told = os.pipe()
    copy = None
    try:
        zygote.settimeout(_PATIENCE)
        zygote.connect(address)
        if zygote.recv(1 << 12) == alike():
            copy = _asked(zygote, command, path, told)
            _pass_on_signals(copy)
            zygote.sendall(GO)
    except OSError:  # it is not there any more, or is not quick enough
        copy = None
        _pass_on_signals(None)
    zygote.close()
    os.close(told)
    if copy is not None:
        _stand_in(copy, code)
    os.close(code)


def alike() -> bytes:
    """What a process must have in common with its copy, because it cannot be changed in one that runs."""
    from importlib.machinery import PathFinder

    pyspark = PathFinder.find_spec("pyspark")
    place = None if pyspark is None else pyspark.origin
    return marshal.dumps((sys.executable, place, os.environ.get("PYTHONHASHSEED", "0")))


def _asked(zygote: object, command: list[str], path: list[str], told: int) -> int:
    """Tell what is to run, and where it shall tell how it ended; a file descriptor by which it can be watched.

    It waits for a word before it begins.
    """
    import _socket
    from array import array

    assert isinstance(zygote, _socket.socket)
    module, here = _DAEMONS.get(command[2], command[2]), os.getcwd()  # noqa: PTH109
    found = path if sys.flags.safe_path else [here, *path]  # where it is started comes first, as with any ``-m``
    wanted = marshal.dumps((module, command[3:], found, dict(os.environ), here))
    files = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array("i", [0, 1, 2, told]))]
    zygote.sendall(GO)
    zygote.sendmsg([len(wanted).to_bytes(LENGTH, "big")], files)
    zygote.sendall(wanted)
    return os.pidfd_open(int.from_bytes(zygote.recv(LENGTH), "big"))


def _pass_on_signals(copy: int | None) -> None:
    """Who tells this process to end means the copy; without one it is as before."""
    import _signal  # type: ignore[import-not-found]

    def pass_on(number: int, frame: object) -> None:
        try:
            _signal.pidfd_send_signal(copy, number)
        except ProcessLookupError:  # it has ended by itself
            return

    _signal.signal(_signal.SIGTERM, _signal.SIG_DFL if copy is None else pass_on)


def _stand_in(copy: int, code: int) -> None:
    """For Spark this process is the one it has started, so it ends when and as the copy does."""
    import _signal
    import select

    _signal.signal(_signal.SIGINT, _signal.SIG_IGN)
    ended = select.poll()
    ended.register(copy, select.POLLIN)
    ended.poll()
    os.set_blocking(code, False)
    try:
        os._exit(int.from_bytes(os.read(code, 1) or b"\1", "big"))
    except BlockingIOError:  # a process that it has forked goes on; it was killed itself
        os._exit(1)
