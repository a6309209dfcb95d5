"""Messages that several modules of this package raise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from eventide.errors import DataError, PlanError, did_you_mean, user_line


def no_output(what: str) -> PlanError:
    """The columns of the result are not known."""
    return PlanError(f"{what}: say which columns the results have: output={{'shop': pl.String, 'n': pl.Int64}}.")


def processor_failed(processor: str, method: str, row: Mapping[str, object] | None, cause: BaseException) -> DataError:
    """A user's processor raised."""
    first = "" if row is None else f"; the first row of the call was {dict(row)!r}"
    return DataError(f"{processor}.{method} failed{_at(cause)}: {_said(cause)}{first}")


def not_a_frame(processor: str, call: str, given: object) -> DataError:
    """Something else than a frame."""
    return DataError(f"{processor}: {call} takes a Polars frame, not {type(given).__name__}.")


def columns_missing(processor: str, call: str, missing: Iterable[str], given: Iterable[str]) -> DataError:
    """A frame lacks columns."""
    names, known = list(missing), list(given)
    hint = did_you_mean(names[0], known)
    return DataError(f"{processor}: {call} needs the column {names[0]!r}, which the frame does not have. {hint}")


def calls_need_driver() -> PlanError:
    """Calls that span bundles, where no process lives from batch to batch."""
    return PlanError(
        '.map_async(across_bundles=True) runs in process and with pipeline.run(state="driver"): elsewhere no process '
        "makes calls between batches, so leave the option out."
    )


def _at(cause: BaseException) -> str:
    found = user_line(cause)
    return "" if found is None else f" at {found[0]}, line {found[1]}"


def _said(cause: BaseException) -> str:
    return f"{type(cause).__name__}: {cause}"
