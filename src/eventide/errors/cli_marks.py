"""Messages of ``eventide marks``."""

from __future__ import annotations

from collections.abc import Sequence

from eventide.errors.addresses import without_password
from eventide.errors.kinds import PlanError


def scale_how() -> PlanError:
    """Nothing, or two things at once, to do."""
    return PlanError("Say either --split SEGMENT [--into N], or --merge SEGMENT --merge SEGMENT.")


def merge_what() -> PlanError:
    """One segment, which is merged with nothing."""
    return PlanError("Name two segments or more that are neighbours: --merge SEGMENT --merge SEGMENT.")


def truncate_where() -> PlanError:
    """No place, or two."""
    return PlanError("Say either --mark NUMBER, or --before TIME.")


def no_mark(stream: str, what: str) -> PlanError:
    """No mark to cut at."""
    return PlanError(f"Stream {stream!r} has no mark {what}. See: eventide marks marks ADDRESS")


def bad_column(text: str, known: Sequence[str]) -> PlanError:
    """Not NAME:TYPE."""
    return PlanError(f"--column {text!r}: write NAME:TYPE with a type of: {', '.join(known)}.")


def no_store(url: str) -> PlanError:
    """A file that is not there."""
    return PlanError(
        f"There is no store {url!r}. Is the path right? eventide marks create makes one with its first stream."
    )


def not_a_store(url: str) -> PlanError:
    """A database of something else."""
    return PlanError(
        f"{url!r} holds no streams: it is a database of something else. Is the path right? eventide marks create makes "
        "a store with its first stream."
    )


def store_without_stream(store: str, stream: str) -> PlanError:
    """The address of a stream, where that of a store is asked for."""
    return PlanError(f"Name the store without #{stream}: eventide marks streams {without_password(store)}")


def no_directory(path: str) -> PlanError:
    """A file in a directory that is not there."""
    return PlanError(f"There is no directory {path!r}. Make it first, or correct the path of the store.")
