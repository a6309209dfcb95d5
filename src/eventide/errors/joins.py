"""Messages about operators with several inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from eventide.errors.kinds import DataError, PlanError, did_you_mean
from eventide.errors.values import shown


@contextmanager
def naming_input(name: str | None) -> Iterator[None]:
    """Add the name of an input to an error about its rows; None: there is only one input.

    >>> with naming_input("left"):
    ...     raise PlanError("there is no column 'ts'.")
    Traceback (most recent call last):
    eventide.errors.kinds.PlanError: input 'left': there is no column 'ts'.
    """
    try:
        yield
    except (PlanError, DataError) as cause:
        if name is None:
            raise
        raise type(cause)(f"input {name!r}: {cause}") from cause


def key_is_a_side(name: str) -> PlanError:
    """A key column has the name of an input."""
    return PlanError(
        f"the key column {name!r} has the name of an input (or 'side'), under which its rows are kept. "
        "Rename the column or the input."
    )


def unequal_keys(left: str, ours: str, found: object, right: str, theirs: str, other: object) -> PlanError:
    """Keys that are compared have different types."""
    return PlanError(
        f"the key {ours!r} of {left!r} is {found}, but {theirs!r} of {right!r} is {other}: equal values would never "
        "meet. Cast one of them."
    )


def said_too_early(what: str, name: str, setting: str) -> PlanError:
    """A setting of windows on a stream that is one of several inputs would be forgotten."""
    how = {
        "union": f"say .{setting}() after ev.union(…)",
        "join": "a join tells each pair once, when its second row comes: leave it out",
        "process": "a processor decides for itself: leave it out",
    }.get(what, f"give it to ev.{what}(…) itself, as trigger=, lateness= or mode=")
    return PlanError(f"{what}: .{setting}() of the input {name!r} has no effect: {how}.")


def retention_by_time_only(side: str) -> PlanError:
    """A join bounds what it keeps by time."""
    return PlanError(
        f"join: .retain(rows=…) and .retain(bytes=…) of the {side} stream are not kept to by joins. "
        "Bound it by time: .retain(time='1 hour'), or with within=."
    )


def retained_rows_already(side: str) -> PlanError:
    """With ``over=rows(n)`` the right side keeps n rows of each key, whatever is said of time."""
    return PlanError(
        f"join: with over=ev.rows(n) the {side} stream keeps its last n rows of each key; .retain(…) of it has no "
        "effect. Leave it out."
    )


def named_twice(name: str) -> PlanError:
    """A name of an input that was given by its place has been given again."""
    return PlanError(f"union: {name!r} is the name of an input that was given by its place. Choose another name.")


def input_named(what: str, name: str) -> PlanError:
    """An input has a name that the rows need."""
    return PlanError(f"{what}: an input cannot be called {name!r}, which is a column of Eventide's own. Rename it.")


def key_reserved(what: str, name: str) -> PlanError:
    """A key column has a name that the rows need."""
    return PlanError(f"{what}: {name!r} is a column that every row of the output has. Rename the key column.")


def discarding_sessions() -> PlanError:
    """A session that grows is another window, so that old pairs would be told again."""
    return PlanError(
        "window_join: in discarding mode a session that grows would tell its pairs again. Choose mode='retracting', "
        "or another kind of window."
    )


def retained_apart(what: str, name: str) -> PlanError:
    """One of several inputs has a retention, but what is kept is kept of all of them together."""
    mend = {
        "union": "windows hold the rows of all: say .retain(…) after ev.union(…)",
        "process": "a processor keeps what it puts into its state: remove it there, with a timer",
    }.get(what, "windows hold the rows of all: bound them with lateness=")
    return PlanError(f"{what}: .retain(…) of the input {name!r} has no effect. {mend[0].upper()}{mend[1:]}.")


def unequal_key_counts(what: str, left: Sequence[str], right: Sequence[str]) -> PlanError:
    """Keys of different length."""
    return PlanError(
        f"{what}: one input has the key {list(left)}, another {list(right)}. Give all streams keys of the same length, "
        "column by column what is to be equal, or name the columns with on=."
    )


def no_key(what: str) -> PlanError:
    """A join without anything that must be equal."""
    return PlanError(f"{what}: there is nothing that must be equal. Give both streams a key, or name columns with on=.")


def bad_on(what: str, on: object) -> PlanError:
    """``on`` is neither names nor pairs of names."""
    return PlanError(
        f"{what}: on={shown(on)} is not a column name, a list of names that both sides have, or a dict that says which "
        "column of the left side equals which of the right."
    )


def not_streams(what: str, name: str, given: object) -> PlanError:
    """Something else than a plain stream was given as an input."""
    if type(given).__name__ == "Stream":
        return PlanError(
            f"{what}: the input {name!r} already has windows or inputs. Give it before .window(…) is called"
        )
    return PlanError(
        f"{what}: the input {name!r} is {shown(given)}, and not a stream. Give it what ev.stream(time=…, key=…, "
        "watermark=…) returns, before .window(…) is called."
    )


def unknown_how(what: str, how: object) -> PlanError:
    """``how`` is not a kind of join."""
    known = ["inner", "left", "right", "full"]
    return PlanError(f"{what}: how={shown(how)} is not known. {did_you_mean(str(how), known)}")


def unknown_mode(what: str, mode: object) -> PlanError:
    """No accumulation mode."""
    known = ["accumulating", "discarding", "retracting"]
    return PlanError(f"{what}: mode={shown(mode)} is not known. {did_you_mean(str(mode), known)}")


def outer_discarding(how: str) -> PlanError:
    """A padded row that was told could not be taken back."""
    return PlanError(
        f"window_join(how={shown(how)}): in discarding mode a row that was padded early could not be "
        "taken back when its "
        "partner comes. Choose mode='retracting', or leave the trigger out so that each window fires once."
    )


def not_for_sides(what: str, why: str) -> PlanError:
    """A kind of window that joins cannot have."""
    return PlanError(f"{what}: {why}")


def column_taken(name: str) -> PlanError:
    """A column of a side has a name that the joined rows need, or that the other side has."""
    return PlanError(
        f"the joined rows would have two columns {name!r}, or one with a name of Eventide's own. "
        "Rename it on one side, or choose another suffix=."
    )


def unknown_input(given: Sequence[str], known: Sequence[str]) -> PlanError:
    """Rows for an input that there is not, or none for one that there is."""
    return PlanError(f"this pipeline has the inputs {list(known)}, but rows were given for {list(given)}.")


def no_such_input(name: str | None, known: Sequence[str]) -> PlanError:
    """A watermark or an end for an input that the pipeline does not have."""
    if not known:
        return PlanError(f"this pipeline has one input, which has no name, so {name!r} cannot be meant. Name no input.")
    if name is None:
        return PlanError(f"this pipeline has the inputs {list(known)}. Name the one that is meant.")
    return PlanError(f"there is no input {name!r}. {did_you_mean(name, known)}")


def no_such_key(key: object, known: Sequence[int]) -> PlanError:
    """A watermark with a key that no input has."""
    keys = ", ".join(map(str, sorted(set(known))))
    return PlanError(f"no input of this pipeline has watermark key {shown(key)}. Known keys: {keys}.")


def several_inputs(known: Sequence[str]) -> PlanError:
    """Plain rows for a pipeline with several inputs."""
    names = ", ".join(f"{name!r}: …" for name in known)
    return PlanError(f"this pipeline has several inputs. Give the rows of each: {{{names}}}.")


def in_a_chain(names: Sequence[str]) -> PlanError:
    """A pipeline with several inputs follows another, which gives it only one."""
    return PlanError(
        f"a pipeline with the inputs {list(names)} cannot follow another one, which gives only one of them. "
        "Let it stand first in the chain, or write what comes before it to a table and read that as a stream."
    )


def one_input(given: int) -> PlanError:
    """Several DataFrames for a pipeline of one stream."""
    return PlanError(f"this pipeline has one input, but {given} DataFrames were given. Unite them first.")


def streams_and_tables(names: Sequence[str]) -> PlanError:
    """Some inputs are streaming, others are not."""
    return PlanError(
        f"of the inputs {list(names)} some are streaming and some are not. Read all of them with readStream, or none; "
        "or run the pipeline with state='driver', which reads tables beside streams once."
    )


def unequal_lengths(lengths: Sequence[int]) -> PlanError:
    """Inputs with different numbers of bundles."""
    return PlanError(
        f"the inputs have {', '.join(map(str, lengths))} bundles. Each bundle takes one frame of every input: give "
        "them equally many; a frame may be empty."
    )


def bad_within(within: object) -> PlanError:
    """``within`` is neither a duration nor two of them."""
    return PlanError(
        f"join: within={shown(within)} is not a duration or a pair of them. Say how far right.time "
        "may lie from left.time: "
        "within=('-1 minute', '1 hour'), or within='5 minutes' for either direction."
    )


def empty_interval(within: object) -> PlanError:
    """No two rows could meet."""
    return PlanError(
        f"join: within={shown(within)} holds nothing: its lower bound lies above the upper one. Swap them."
    )


def interval_too_long(bound: object) -> PlanError:
    """Beside an instant, the bound would not fit into 64 bits."""
    return PlanError(
        f"join: within has the bound {shown(bound)}, which is longer than 36,000 years. Choose a shorter one."
    )


def unbounded(side: str) -> PlanError:
    """State would grow for ever."""
    open_bound = {"left": "an upper", "right": "a lower"}[side]
    return PlanError(
        f"join: without {open_bound} bound of time, rows of the {side} stream would be kept for ever, because a "
        f"partner may come at any time. Give the bound, or say how long the rows are kept: {side}.retain(time=…)."
    )


def retained_already(side: str) -> PlanError:
    """Two rules for how long rows are kept."""
    return PlanError(
        f"join: within already says how long rows of the {side} stream are kept. Leave its .retain(…) out, or leave "
        "the bound open (None)."
    )


def bad_where(where: object) -> PlanError:
    """``where`` is no expression."""
    return PlanError(
        f"join: where={shown(where)} is not an expression of Polars over the columns of the joined rows, such as "
        "pl.col('price') > pl.col('price_right')."
    )


def where_unknown(name: str, known: Sequence[str]) -> PlanError:
    """``where`` reads a column that the joined rows do not have."""
    return PlanError(
        f"join: where reads the column {name!r}, which the joined rows do not have. {did_you_mean(name, known)}"
    )


def where_of_many(where: object) -> PlanError:
    """A condition that looks at more than one pair would depend on which pairs come together."""
    return PlanError(
        f"join: where={where} looks at several pairs at once, so its result would depend on the bundles that rows come "
        "in. Say it of one pair, or filter what the join gives."
    )


def where_not_boolean(found: object) -> PlanError:
    """``where`` does not say yes or no."""
    return PlanError(f"join: where gives {found} for each pair of rows. It must give a boolean: which pairs to keep.")


def bad_max_matches(given: object) -> PlanError:
    """``max_matches`` is no count."""
    return PlanError(f"join: max_matches={shown(given)} is not a count of rows above zero.")


def too_many_matches(most: int, key: object, many: int) -> DataError:
    """A bundle gives more pairs than memory should hold."""
    return DataError(
        f"join: one bundle gives more than {most:,} pairs of rows; the key {shown(key)} alone gives {many:,} or more. "
        "Narrow within, join on more columns, leave such keys out, or raise max_matches."
    )


def within_or_over() -> PlanError:
    """Neither says how near rows must be, or both do."""
    return PlanError(
        "join: say how near two rows must be, in one way: within=('-1 minute', '1 hour') for times, or over=ev.rows(3) "
        "or over=ev.range('2 minutes') for what precedes the left row."
    )


def bad_over(over: object) -> PlanError:
    """``over`` does not look back."""
    return PlanError(
        f"join: over={shown(over)} does not say how far to look back. Give ev.rows(n) or "
        "ev.range(length); for rows of the "
        "same window use ev.window_join."
    )
