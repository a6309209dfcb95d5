"""Messages about operators that users write themselves, and about their calls to the world outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from eventide.errors.kinds import DataError, EventideError, PlanError, did_you_mean
from eventide.errors.user_code import user_line
from eventide.errors.values import shown


def not_a_processor(given: object) -> PlanError:
    """Something else than a processor."""
    if isinstance(given, type):
        return PlanError(f".process({given.__name__}): give it a processor, not its class: {given.__name__}(…).")
    return PlanError(
        f".process({shown(given)}): this is no processor. Derive a class from ev.Processor (by "
        "columns) or ev.RowProcessor "
        "(row by row), and give an instance of it."
    )


def nothing_processed(processor: str, method: str) -> PlanError:
    """The one method that every processor needs is missing."""
    return PlanError(f"{processor} has no method {method}: say there what becomes of the rows.")


def cannot_copy(processor: str, cause: BaseException) -> PlanError:
    """A processor that cannot be copied for each bundle."""
    return PlanError(
        f"{processor} cannot be copied, and each bundle gets a fresh copy: {_said(cause)}. Make what cannot be copied "
        "(connections, locks) in open(), or in a function under functools.cache."
    )


def bad_schema(what: str, given: object) -> PlanError:
    """A schema that does not name columns and their types."""
    return PlanError(
        f"{what}={shown(given)}: name the columns and their types, as in {{'shop': pl.String, 'n': pl.Int64}}."
    )


def no_output(what: str) -> PlanError:
    """The columns of the result are not known."""
    return PlanError(f"{what}: say which columns the results have: output={{'shop': pl.String, 'n': pl.Int64}}.")


def own_name(what: str, column: str) -> PlanError:
    """A column whose name Eventide needs."""
    return PlanError(f"{what}: {column!r} begins with two underscores; such names are Eventide's own. Rename it.")


def state_is_key(processor: str, column: str) -> PlanError:
    """A column of state has the name of a key column."""
    return PlanError(f"{processor}.state_schema: {column!r} is a key column, which state has anyway. Leave it out.")


def key_is_of_timers(column: str) -> PlanError:
    """A key column has the name of a column of timers."""
    return PlanError(f"key: {column!r} is a column that timers have. Rename the column before it becomes a key.")


def unknown_choice(option: str, given: object, known: Iterable[str]) -> PlanError:
    """An option with a value that it does not have."""
    return PlanError(f".process({option}={shown(given)}): {did_you_mean(str(given), known)}")


def only_row_by_row(processor: str) -> PlanError:
    """One row cannot be told from the others of a failing call."""
    return PlanError(
        f".process(on_error='dead'): {processor} takes many rows at once, so it is not known which of them failed. "
        "Derive it from ev.RowProcessor, or call self.dead(rows, why) in process()."
    )


def only_for_windows(said: str) -> PlanError:
    """A processor has no windows to which a setting could apply."""
    return PlanError(f".{said}() is said of windows, and .process() has none. Leave it out; state and timers do this.")


def windowed_already(method: str) -> PlanError:
    """A step that comes before windows."""
    return PlanError(f".{method}() comes before windows: call it on the stream, before .window(…).")


def key_hidden(edge: str, column: str, own: str) -> PlanError:
    """An input has a column with the name of the key that is not its key."""
    return PlanError(
        f"input {edge!r}: its key is {own!r}, which is given under the name {column!r}, but it has another column of "
        "that name. Rename one of them."
    )


def processor_failed(processor: str, method: str, row: Mapping[str, object] | None, cause: BaseException) -> DataError:
    """A user's processor raised."""
    first = "" if row is None else f"; the first row of the call was {dict(row)!r}"
    return DataError(f"{processor}.{method} failed{_at(cause)}: {_said(cause)}{first}")


def misused(processor: str, method: str, cause: EventideError) -> EventideError:
    """A user's processor called Eventide in a way that does not work."""
    where = _at(cause)
    return type(cause)(f"{cause} (in {processor}.{method}{where})") if where else cause


def not_a_frame(processor: str, call: str, given: object) -> DataError:
    """Something else than a frame."""
    return DataError(f"{processor}: {call} takes a Polars frame, not {type(given).__name__}.")


def columns_missing(processor: str, call: str, missing: Iterable[str], given: Iterable[str]) -> DataError:
    """A frame lacks columns."""
    names, known = list(missing), list(given)
    hint = did_you_mean(names[0], known)
    return DataError(f"{processor}: {call} needs the column {names[0]!r}, which the frame does not have. {hint}")


def columns_unknown(processor: str, call: str, unknown: Iterable[str], known: Iterable[str]) -> DataError:
    """What is emitted has columns that were not declared."""
    name = next(iter(unknown))
    return DataError(
        f"{processor}: {call} has a column {name!r} that output= does not name. {did_you_mean(name, known)} "
        "Add it to output=, or leave it out."
    )


def misfit(processor: str, call: str, column: str, found: object, wanted: object) -> DataError:
    """A column has another type than was declared."""
    return DataError(f"{processor}: {call}: the column {column!r} is {found}, but {wanted} was declared. Cast it.")


def row_misfit(column: str, dtype: object, value: object) -> DataError:
    """A value that is not of the declared type."""
    return DataError(f"{column!r} is {shown(value)}, which is not {dtype} as declared")


def unknown_column(column: str, known: Iterable[str]) -> DataError:
    """A row with a column that was not declared."""
    return DataError(f"{column!r} was not declared. {did_you_mean(column, known)}")


def no_time(processor: str, name: str) -> DataError:
    """A timer without a time."""
    timer = f"timer {name!r}" if name else "a timer"
    return DataError(
        f"{processor}: {timer} was set to a time that is null or cannot be read. Filter such rows out, or use "
        "timers.remove(…) to take a timer back."
    )


def clock_not_declared(processor: str) -> DataError:
    """Timers on the batch clock, without a word of it in the class."""
    return DataError(
        f"{processor} sets a timer on the batch clock. Say `clock = True` in the class, so that the host lets time "
        "pass when no rows come."
    )


def timers_never_end(processor: str, rounds: int) -> DataError:
    """on_timer sets timers that are due at once, again and again."""
    return DataError(
        f"{processor}.on_timer has set timers that were due already {rounds} times in a row, without coming any "
        "further in time. Set them later than the ones that are due."
    )


def dead_outside(processor: str) -> DataError:
    """dead() where there are no rows to reject."""
    return DataError(f"{processor}: dead() is for rows that process() was given, and is called inside of it.")


def not_given(processor: str) -> DataError:
    """Rows are rejected that were not given, or twice."""
    return DataError(
        f"{processor}: dead() takes rows of the frame that process() was given, each once. Filter that frame, and keep "
        "its columns that begin with two underscores."
    )


def mark_went_back(processor: str, key: int, before: str, after: str) -> DataError:
    """A processor takes a promise back."""
    return DataError(
        f"{processor} sends the watermark {after} with key {key}, but has sent {before} before. A watermark is a "
        "promise and never goes back; return nothing to hold it."
    )


def not_a_mark(processor: str, method: str, given: object) -> DataError:
    """Something else than watermarks was returned."""
    return DataError(
        f"{processor}.{method} returned {shown(given)}. Return the watermarks to send on: a tuple of "
        "ev.Watermark, or () to "
        "hold them."
    )


def not_async(given: object) -> PlanError:
    """A function that is not asynchronous."""
    return PlanError(f".map_async({shown(given)}): give it a function that is written with `async def`.")


def column_retyped(function: str, column: str, was: object, wanted: object) -> PlanError:
    """A call gives a column that the rows have, with another type."""
    return PlanError(
        f".map_async({function}): the rows have a column {column!r} of type {was}, and output= says {wanted}. What a "
        "call replaces keeps its type; give the new column another name."
    )


def calls_after_calls(first: str, second: str) -> PlanError:
    """Two calls of an input, one of which spans bundles."""
    return PlanError(
        f".map_async({second}) follows .map_async({first}), and across_bundles=True allows one .map_async per input: "
        "make both calls in one function."
    )


def time_from_calls(column: str) -> PlanError:
    """Calls that span bundles give a column that the watermark needs when a row arrives."""
    return PlanError(
        f".map_async(across_bundles=True): the time or the watermark reads {column!r}, which the calls give. "
        "Watermarks are known when rows arrive: use columns of the rows, or leave out across_bundles=True."
    )


def offsets_across_bundles() -> PlanError:
    """Windows by offset behind calls that span bundles."""
    return PlanError(
        ".map_async(across_bundles=True): windows by= an offset need all rows of a bundle at once. Leave out "
        "across_bundles=True, or window by time."
    )


def calls_need_driver() -> PlanError:
    """Calls that span bundles, where no process lives from batch to batch."""
    return PlanError(
        '.map_async(across_bundles=True) runs in process and with ev.run(state="driver"): elsewhere no process makes '
        "calls between batches, so leave the option out."
    )


def bad_answer(given: object) -> DataError:
    """A call gave something that is no row."""
    return DataError(f"it returned {type(given).__name__}, not a dict, a list of dicts, or None")


def call_failed(function: str, attempts: int, cause: BaseException, timeout: str | None) -> str:
    """Why a row is a dead letter, in one line.

    >>> call_failed("look_up", 3, KeyError("shop"), None)
    "KeyError: 'shop' (in look_up, attempt 3)"
    """
    late = isinstance(cause, TimeoutError) and timeout is not None and not str(cause)
    said = f"no answer within {timeout}" if late else _said(cause)
    return f"{said} (in {function}, attempt {attempts})"


def answer_unfit(function: str, cause: BaseException) -> str:
    """Why a row whose call was answered is a dead letter, in one line."""
    return f"{cause} (in {function})"


def row_failed(processor: str, method: str, cause: BaseException) -> str:
    """Why a row is a dead letter, in one line."""
    found = user_line(cause)
    return f"{_said(cause)} (in {processor}.{method}{'' if found is None else f', line {found[1]}'})"


def _at(cause: BaseException) -> str:
    found = user_line(cause)
    return "" if found is None else f" at {found[0]}, line {found[1]}"


def _said(cause: BaseException) -> str:
    return f"{type(cause).__name__}: {cause}"
