"""The Java that a command starts: it lives no longer than the command, however that ends."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

_GRACE = 5  # seconds in which Java may remove its temporary files
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Java:
    """What runs below us. A signal that comes while a process is made waits until we know its number."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[Any]] = []
        self._starting = self._asked = False

    def start(self, *words: Any, **options: Any) -> subprocess.Popen[Any]:
        """Start a process, as ``Popen`` does, in a group of its own.

        What a terminal or ``timeout`` sends to our group would end Java in the middle of a batch. We get it, and stop.
        """
        self._starting = True
        try:
            own = {"process_group": 0} if os.name == "posix" else {}
            self._processes.append(subprocess.Popen(*words, **{**own, **options}))
        finally:
            self._starting = False
        if self._asked:
            raise KeyboardInterrupt
        return self._processes[-1]

    def interrupt(self, number: int, frame: Any) -> None:
        """Take a signal: nothing runs yet that would have to end well."""
        self._asked = True
        if not self._starting:
            raise KeyboardInterrupt

    def end(self) -> None:
        """End it, without a word to Spark: the talk with it may have been cut off in the middle."""
        logging.getLogger("py4j").propagate = False  # it only has to say that nobody is there
        for one in self._processes:
            _send(one, signal.SIGTERM)
        for one in self._processes:
            try:
                one.wait(_GRACE)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                _send(one, getattr(signal, "SIGKILL", signal.SIGTERM))
                one.wait()


@contextmanager
def own_java() -> Iterator[Java]:
    """While it is open, Spark's Java is started by us, and a signal ends both.

    Spark has a handler for Ctrl-C of its own, which talks to Java in the middle of another talk and can then wait for
    ever. It is not installed.
    """
    java = Java()
    before = {one: signal.signal(one, java.interrupt) for one in _SIGNALS}
    try:
        with _known_to_spark(java), _quiet():
            try:
                yield java
            except KeyboardInterrupt:
                java.end()
                raise
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@contextmanager
def _known_to_spark(java: Java) -> Iterator[None]:
    try:
        context: Any = import_module("pyspark.core.context")
        gateway: Any = import_module("pyspark.java_gateway")
        counters: Any = import_module("pyspark.accumulators")
    except ImportError:  # which is told where a session is asked for
        yield
        return
    signals = SimpleNamespace(SIGINT=signal.SIGINT, signal=lambda number, handler: None)
    told = _without_end(counters.UpdateRequestHandler.handle)
    ours = [
        (gateway, "Popen", java.start),
        (context, "signal", signals),
        (counters.UpdateRequestHandler, "handle", told),
    ]
    changed = [one for one in ours if hasattr(one[0], one[1])]  # a Spark that lacks one does it its own way
    before = [getattr(place, name) for place, name, _ in changed]
    for place, name, value in changed:
        setattr(place, name, value)
    try:
        yield
    finally:
        for (place, name, _), value in zip(changed, before, strict=True):
            setattr(place, name, value)


@contextmanager
def _quiet() -> Iterator[None]:
    """What Spark uses to talk to Java logs, as an error of the program, that a talk was interrupted: not shown."""

    def heard(record: logging.LogRecord) -> bool:
        return "py4j" not in Path(record.pathname).parts

    logging.root.addFilter(heard)
    try:
        yield
    finally:
        logging.root.removeFilter(heard)


def _without_end(handle: Callable[[Any], None]) -> Callable[[Any], None]:
    """What Spark does with counts from Java; that Java has ended is told by the command, and not by a stack trace."""

    def quiet(self: Any) -> None:
        with suppress(EOFError, ConnectionError):
            handle(self)

    return quiet


def _send(process: subprocess.Popen[Any], number: int) -> None:
    if process.poll() is not None:
        return
    if os.name == "posix":
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
