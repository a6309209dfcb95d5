"""A warning for scripts that end while their queries run: Spark stops with the program, and so does the query."""

from __future__ import annotations

import atexit
import sys
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eventide.spark.query import Query

_queries: weakref.WeakSet[Query] = weakref.WeakSet()


def warn_at_exit(query: Query) -> None:
    """Warn when the program ends while this query is running."""
    if not _queries:
        atexit.unregister(_warn)
        atexit.register(_warn)  # after Spark's own handlers, so before them: the Java process still answers
    _queries.add(query)


def _warn() -> None:
    if is_interactive():
        return
    for query in list(_queries):
        if _runs(query):
            print(
                f"Warning: the program ended while {query.label} was running, which stopped it after "
                f"{query.batches} {'batch' if query.batches == 1 else 'batches'}. "
                "Wait for it with ev.run(..., wait=True) or query.await_termination().",
                file=sys.stderr,
            )


def is_interactive() -> bool:
    """Whether a person types into this process: a shell or a notebook."""
    if hasattr(sys, "ps1") or sys.flags.interactive:
        return True
    shell = sys.modules.get("IPython")
    return shell is not None and shell.get_ipython() is not None


def _runs(query: Query) -> bool:
    try:
        return query.is_active
    except Exception:  # the Java process has ended, and the query with it
        return False
