"""Messages about windows."""

from __future__ import annotations

from collections.abc import Sequence

from eventide.errors.kinds import PlanError, did_you_mean
from eventide.errors.values import shown
from eventide.time import format_duration


def steps_do_not_fill(step: int, size: int) -> PlanError:
    """The last step of cumulate() would be cut short."""
    if size < step:
        swapped = f"ev.cumulate({format_duration(size)!r}, {format_duration(step)!r})"
        return PlanError(f"cumulate(step, size): the step is longer than the window. Swap them: {swapped}.")
    return PlanError(
        f"cumulate(): size ({format_duration(size)}) is not a multiple of step ({format_duration(step)}), so the last "
        "window would be cut short. Choose a step that divides the size."
    )


def too_many_windows(name: str, count: int, most: int) -> PlanError:
    """Each row would be in more windows than can be meant."""
    return PlanError(
        f"{name}: a row would belong to {count} windows, and more than {most} are not kept apart. "
        "Let windows begin less often."
    )


def unknown_unit(unit: object, known: Sequence[str]) -> PlanError:
    """A calendar unit that does not exist."""
    return PlanError(f"calendar(): there is no unit {shown(unit)}. {did_you_mean(str(unit), known)}")


def unknown_touching(value: object) -> PlanError:
    """``touching`` is neither merge nor split."""
    return PlanError(
        f"sessions(): touching={shown(value)} is not known. {did_you_mean(str(value), ['merge', 'split'])} "
        "'merge': rows exactly gap apart are one session; 'split': they are two."
    )


def sessions_too_short(most: int, gap: int) -> PlanError:
    """``max_duration`` below the gap."""
    return PlanError(
        f"sessions(): max_duration ({most} µs) is shorter than gap ({gap} µs), so that even a single row's "
        "session would be cut. Make max_duration at least as long as gap."
    )


def not_a_row_count(name: str, value: object) -> PlanError:
    """A row count that is no positive integer."""
    return PlanError(
        f"{name}={shown(value)} is not a number of rows: it must be an integer of at least 1. "
        "For windows in time use tumbling() or sliding()."
    )


def not_a_window(value: object) -> PlanError:
    """Something that is no window was given to .window()."""
    return PlanError(
        f".window() needs a window such as ev.tumbling('1 minute'), not {shown(value)} ({type(value).__name__}). "
        "A kind of your own implements ev.WindowKind: axis, shared, slice_of, windows_of, describe."
    )


def no_windows_frame(kind: str) -> PlanError:
    """A kind of the user's own does not say what its windows are."""
    return PlanError(
        f"The window kind '{kind}': windows_of() must give a Polars frame with the columns slice, start and end, one "
        "row for each window of each slice."
    )


def slice_without_window(kind: str, at: int) -> PlanError:
    """Rows of this slice would be lost."""
    return PlanError(
        f"The window kind '{kind}': windows_of() gives no window for slice {at}, so its rows would be lost. "
        "Where a position lies in no window, slice_of() must be null."
    )


def slice_outside_window(kind: str, at: int, start: int, end: int) -> PlanError:
    """A slice is named by a position in it, or the watermark cannot tell when it is done."""
    return PlanError(
        f"The window kind '{kind}': slice {at} does not lie in its window [{start}, {end}). Let slice_of() give the "
        "first position of the slice."
    )


def no_gap_column(column: str, known: Sequence[str]) -> PlanError:
    """The dynamic gap's column does not exist."""
    return PlanError(f"sessions(): there is no column {column!r} for the gap. {did_you_mean(column, known)}")


def bad_gap_type(column: str, dtype: object) -> PlanError:
    """The dynamic gap's column has the wrong type."""
    return PlanError(
        f"sessions(): the gap column {column!r} is {dtype}; it must be a Duration or integer microseconds."
    )


def shares_windows(kind: str) -> PlanError:
    """A kind that says its slices share nothing, but they do."""
    return PlanError(
        f"The windows '{kind}' have shared = False, but a slice has several windows, or a window several slices. "
        "Set shared = True, or make each slice one window."
    )


def slice_is_no_integer(kind: str, dtype: object) -> PlanError:
    """A slice that is no position."""
    return PlanError(f"slice_of() of the windows '{kind}' gives {dtype}; it must give Int64. Use // instead of /.")


def no_zone(tz: object) -> PlanError:
    """A zone that is no name."""
    return PlanError(f"calendar(tz={shown(tz)}): name a time zone, such as 'UTC' or 'Europe/Berlin'.")


def not_an_offset(value: object) -> PlanError:
    """A first offset that is no integer."""
    return PlanError(f"rows(first={shown(value)}): the first offset of an origin is an integer, mostly 0 or 1.")


def first_of_nothing(value: int) -> PlanError:
    """Rows that are counted as they come begin at 1."""
    return PlanError(f"rows(first={value}) needs offset=: rows that are numbered as they arrive begin at 1.")


def not_an_offset_column(where: str, value: object) -> PlanError:
    """Offsets are in a column."""
    return PlanError(
        f"{where}: offset={shown(value)} is no name of a column. Name the one that holds an origin's offsets."
    )


def no_offset_column(column: str, known: Sequence[str]) -> PlanError:
    """The column of offsets does not exist."""
    return PlanError(f"Windows by offset: there is no column {column!r}. {did_you_mean(column, known)}")


def bad_offset_type(column: str, dtype: object) -> PlanError:
    """The column of offsets has the wrong type."""
    return PlanError(f"Windows by offset: the column {column!r} is {dtype}; offsets are integers.")
