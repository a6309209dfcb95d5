"""The exception types. There are few on purpose: who must act differs, not what went wrong."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class EventideError(Exception):
    """Every error that Eventide raises on purpose."""


class PlanError(EventideError, ValueError):
    """The pipeline is wrong. Raised while it is built or bound to a schema, before any row is read."""


class DataError(EventideError, RuntimeError):
    """The data broke a promise that the plan relies on. The job stops, and the message names the cause."""


class Refused(EventideError):  # noqa: N818 - it is an answer rather than a fault
    """The receiver takes nothing now. Nothing is lost: what was offered is offered again.

    Raise it in ``downstream=`` of a standalone operator to refuse a result. Such an operator raises it itself while it
    waits for its own receiver, so that operators can be chained.

    >>> import eventide as ev
    >>> def closed(output):
    ...     raise ev.Refused("come back later")
    >>> names = ev.JoinWindow(ev.rows(2), offset="n", downstream=closed)
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

    >>> import warnings, eventide as ev
    >>> warnings.filterwarnings("ignore", category=ev.DriverLimitWarning)
    """


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name, or the list of what exists.

    >>> did_you_mean("prcie", ["price", "shop"])
    "Did you mean 'price'?"
    >>> did_you_mean("zzz", ["price", "shop"])
    "There are: 'price', 'shop'."

    Names that begin with two underscores are our own, and not a user's to choose.
    """
    known = [one for one in known if not str(one).startswith("__")]
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f"Did you mean {near[0]!r}?"
    return f"There are: {', '.join(map(repr, known))}." if known else "There are none."
