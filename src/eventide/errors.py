"""Exception types, and how messages show values."""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import date, time, timedelta
from types import TracebackType
from typing import Any

__all__ = ["DataError", "DriverLimitWarning", "EventideError", "LateRowsWarning", "PlanError", "Rejected"]


class EventideError(Exception):
    """Every error that Eventide raises on purpose.

    >>> import eventide as ev
    >>> try:
    ...     ev.tumbling("1 month")
    ... except ev.EventideError as error:
    ...     print(type(error).__name__)
    PlanError
    """


class PlanError(EventideError, ValueError):
    """The pipeline is wrong. Raised while it is built or bound to a schema, before any row is read.

    >>> import eventide as ev
    >>> ev.tumbling("-1 minute")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    eventide.errors.PlanError: ...
    """


class DataError(EventideError, RuntimeError):
    """The data broke a promise that the plan relies on. The job stops, and the message names the cause.

    >>> import eventide as ev, polars as pl
    >>> marks = ev.punctuated("mark")
    >>> pipeline = ev.stream("ts", watermark=marks).window(ev.tumbling("1 minute")).agg(n=ev.count())
    >>> decreasing = [{"ts": time, "mark": time} for time in ("2026-03-01T12:05:00Z", "2026-03-01T12:01:00Z")]
    >>> pipeline.local([pl.DataFrame([row]) for row in decreasing])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    eventide.errors.DataError: ...
    """


class Rejected(EventideError):  # noqa: N818 - it is an answer rather than a fault
    """The receiver takes nothing now. Nothing is lost: what was offered is offered again.

    Raise it in ``downstream=`` of a standalone operator to reject a result. Such an operator raises it itself while it
    waits for its own receiver, so that operators can be chained.

    >>> import eventide as ev
    >>> def closed(output):
    ...     raise ev.standalone.Rejected("come back later")
    >>> names = ev.standalone.JoinWindow(ev.rows(2), offset="n", downstream=closed)
    >>> names.add_message({"n": 1}, now=0)
    >>> names.timeout(now=1)
    False
    """


class LateRowsWarning(UserWarning):
    """Most rows of a batch are late: the delay is too short, or the watermark has gone too far.

    >>> import warnings, eventide as ev
    >>> warnings.filterwarnings("ignore", category=ev.LateRowsWarning)
    """


class DriverLimitWarning(UserWarning):
    """A query outgrows the driver: its state needs most of the memory, or most of the time of long batches.

    Also if a table sink cannot let the executors write large batches, so that they pass through the driver.

    >>> import warnings, eventide as ev
    >>> warnings.filterwarnings("ignore", category=ev.DriverLimitWarning)
    """


_OURS = "eventide"


_PLAIN = (str, bytes, int, float, bool, type(None), date, time, timedelta)


_FRAMES = ("polars", "pandas", "pyspark", "pyarrow")


_LONGEST = 80


_UNNAMED = re.compile(r"_c\d+")  # as Spark names the columns of a CSV file without a header


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name, or the list of what exists.

    >>> did_you_mean("prcie", ["price", "shop"])
    "Did you mean 'price'?"
    >>> did_you_mean("zzz", ["price", "shop"])
    "There are: 'price', 'shop'."
    >>> did_you_mean("price", ["_c0", "_c1"])
    "There are: '_c0', '_c1'. If the first line of the CSV files has the names, add ?header=true to their address."

    Names that begin with two underscores are internal and are not suggested.
    """
    names = [known_name for known_name in known if not str(known_name).startswith("__")]
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {near[0]!r}?"
    listed = f"There are: {', '.join(map(repr, names))}." if names else "There are none."
    return listed + _csv_hint([str(known_name) for known_name in names])


def _csv_hint(names: list[str]) -> str:
    """What to do where the names of columns show that a CSV file was not read as it was written."""
    if names and all(_UNNAMED.fullmatch(name) for name in names):
        return " If the first line of the CSV files has the names, add ?header=true to their address."
    separator = next((mark for mark in ";\t|" if len(names) == 1 and mark in names[0]), None)
    return "" if separator is None else f" If the CSV files are separated by {separator!r}, add sep= to their address."


def user_line(cause: BaseException) -> tuple[str, int] | None:
    """Return the file name and the line of the user's code that raised; None: no code of a user took part.

    A user's code begins at the first frame outside of Eventide. Of its file, the innermost line counts: what a library
    raises below it is rarely useful to the user.
    """
    frames = list(_frames(cause.__traceback__))
    first = next((file for module, file, _ in frames if module.partition(".")[0] != _OURS), None)
    lines = [line for _, file, line in frames if file == first]
    return None if first is None else (first.replace("\\", "/").rpartition("/")[2], lines[-1])


def first_line(cause: BaseException) -> str:
    r"""Return the first line of the message of another system, without hints and without its full stop.

    >>> first_line(ValueError("no such host.\nIs the server running?")), first_line(KeyError())
    ('no such host', 'KeyError')
    """
    lines = str(cause).strip().splitlines()
    return (lines[0] if lines else type(cause).__name__).rstrip(".")


def cause_text(cause: BaseException) -> str:
    """Return the type and the message of an exception.

    >>> cause_text(KeyError("price"))
    "KeyError: 'price'"
    """
    return f"{type(cause).__name__}: {cause}"


def user_stack_level() -> int:
    """Return how many calls above the function that calls this one the user's code is, for ``warnings.warn``."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in (_OURS, "pyspark"):
        frame, level = frame.f_back, level + 1
    return level


def _frames(traceback: TracebackType | None) -> list[tuple[str, str, int]]:
    frames = []
    while traceback is not None:
        frame = traceback.tb_frame
        frames.append((str(frame.f_globals.get("__name__", "")), frame.f_code.co_filename, traceback.tb_lineno))
        traceback = traceback.tb_next
    return frames


def shown(value: Any) -> str:
    """Return a value as a user knows it: never the fields of an object of Eventide, never an address in memory.

    >>> import eventide as ev
    >>> shown("1 minute"), shown([1, None]), shown(print), shown(int)
    ("'1 minute'", '[1, None]', 'the function print', 'the class int')
    >>> shown(ev.tumbling("1 minute")), shown(ev.sum("price"))
    ('tumbling 1m', 'sum(price)')
    >>> shown(object())
    'a value of type object'
    """
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{shown(key)}: {shown(part)}' for key, part in value.items())}}}"
    if type(value) in (list, tuple, set, frozenset):
        return _shown_items(value)
    if type(value).__module__.partition(".")[0] in _FRAMES:  # they describe themselves with a table
        return _by_type(value)
    describe = getattr(value, "describe", None)
    if callable(describe):
        try:
            return str(describe())
        except TypeError:  # a method of the same name that is another thing
            return _by_type(value)
    return _shown_object(value)


def _shown_items(values: Any) -> str:
    items = ", ".join(map(shown, values))
    if isinstance(values, tuple):
        return f"({items}{',' * (len(values) == 1)})"
    return f"[{items}]" if isinstance(values, list) else f"{{{items}}}"


def _shown_object(value: Any) -> str:
    if type(value).__module__.partition(".")[0] == "eventide":
        return str(value) if "__str__" in _methods(type(value)) else _by_type(value)
    if callable(value) and hasattr(value, "__name__"):
        return f"the function {value.__name__}"
    text = repr(value)
    return _by_type(value) if len(text) > _LONGEST or "\n" in text or text.startswith("<") else text


def _methods(kind: type) -> set[str]:
    """Return the names that the classes of Eventide define for objects of this kind."""
    return {name for base in kind.__mro__ if base is not object for name in vars(base)}


def _by_type(value: Any) -> str:
    return f"a value of type {type(value).__name__}"
