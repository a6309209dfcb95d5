"""Messages that several modules of this package raise."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from eventide.errors import DataError, PlanError, cause_text, did_you_mean, user_line


def no_output(what: str) -> PlanError:
    """Return the error about a result without declared columns."""
    return PlanError(f"{what}: declare the columns of the results: output={{'shop': pl.String, 'n': pl.Int64}}.")


def processor_failed(processor: str, method: str, row: Mapping[str, object] | None, cause: BaseException) -> DataError:
    """Return the error about an exception in user code."""
    first = "" if row is None else f"; the first row of the call was {dict(row)!r}"
    return DataError(f"{processor}.{method} failed{cause_place(cause)}: {cause_text(cause)}{first}")


def not_a_frame(processor: str, call: str, value: object) -> DataError:
    """Return the error about a value that is no frame."""
    return DataError(f"{processor}: {call} takes a Polars frame, not {type(value).__name__}.")


def columns_missing(processor: str, call: str, missing: Iterable[str], columns: Iterable[str]) -> DataError:
    """Return the error about a frame that lacks columns."""
    name = next(iter(missing))
    hint = did_you_mean(name, columns)
    return DataError(f"{processor}: {call} needs the column {name!r}, which the frame does not have. {hint}")


def calls_need_driver() -> PlanError:
    """Return the error about calls that span bundles, on a host whose processes end with each batch."""
    return PlanError(
        '.map_async(across_bundles=True) runs in process and with pipeline.run(state="driver"): elsewhere no process '
        "makes calls between batches, so remove the option."
    )


def cause_place(cause: BaseException) -> str:
    """Return the line of user code that raised, if there is one, to follow a verb."""
    line = user_line(cause)
    return "" if line is None else f" at {line[0]}, line {line[1]}"
