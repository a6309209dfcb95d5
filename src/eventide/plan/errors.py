"""Messages about plans that several modules raise."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eventide.errors import PlanError, did_you_mean


def key_is_a_side(name: str) -> PlanError:
    """A key column has the name of an input."""
    return PlanError(
        f"the key column {name!r} has the name of an input (or 'ev_input'), under which its rows are stored in late "
        "rows and dead letters. Name the column that both sides share, such as key='order'. If it is called "
        f"{name!r}, rename the column or the input."
    )


def unknown_input(names: Sequence[str], inputs: Sequence[str]) -> PlanError:
    """Rows name other inputs than the pipeline has."""
    return PlanError(f"This pipeline has the inputs {list(inputs)}, but rows were given for {list(names)}.")


def several_inputs(inputs: Sequence[str]) -> PlanError:
    """Plain rows for a pipeline with several inputs."""
    names = ", ".join(f"{name!r}: …" for name in inputs)
    return PlanError(f"This pipeline has several inputs. Give the rows of each: {{{names}}}.")


def set_twice(method: str) -> PlanError:
    """A setting that was made before."""
    return PlanError(
        f".{method}() was already called on this stream, and it can be called once. Start from the stream again."
    )


def check_key(names: Sequence[str]) -> None:
    """Reject a key that names a column twice."""
    for place, name in enumerate(names):
        if name in names[:place]:
            raise PlanError(f"key: the column {name!r} is named twice.")


def missing_column(role: str, column: str, columns: Iterable[str]) -> PlanError:
    """A column that the plan names and the rows do not have."""
    return PlanError(f"{role}: there is no column {column!r} in the rows. {did_you_mean(column, columns)}")


def internal_name(column: str) -> PlanError:
    """A column with a reserved name."""
    return PlanError(f"The column {column!r} begins with two underscores; such names are reserved. Rename it.")


def inherits_row_windows() -> PlanError:
    """Windows that are counted in rows, for a pipeline that uses the windows of another."""
    return PlanError(
        "inherit() cannot take windows counted in rows: row numbers of different keys are not the same "
        "window, and lie "
        "on no time axis. Window the panes by their time: ev.stream(time='window_time', …).window(ev.tumbling(…))."
    )


def names_of_late_rows(columns: Sequence[str]) -> PlanError:
    """Columns of the rows that Eventide adds to late rows and dead letters."""
    names = ", ".join(map(repr, columns))
    return PlanError(
        f"The rows have columns that Eventide adds to late rows and dead letters: {names}. To process such rows "
        f"again, drop the columns: rows.drop({names}). Otherwise rename your columns."
    )


def too_long(what: str, length: int) -> PlanError:
    """A duration that, added to an instant, does not fit into 64 bits."""
    return PlanError(f"{what}: {length} µs plus an instant exceed 64 bits. Choose a shorter duration.")
