"""Messages of the test kit: a test that is written wrongly. A test that fails is an ``AssertionError``."""

from __future__ import annotations

from collections.abc import Iterable

from eventide.errors.kinds import PlanError, did_you_mean
from eventide.errors.values import shown


def no_such_field(word: str, name: str, known: Iterable[str]) -> PlanError:
    """An expectation that names a field which no row has."""
    return PlanError(f"{word}({name}=…): there is no field {name!r}. {did_you_mean(name, known)}")


def bad_window(value: object) -> PlanError:
    """A window that is no pair."""
    return PlanError(f"window={shown(value)}: a window is written (start, end), such as window=('12:00', '12:02').")


def not_a_pane(value: object) -> PlanError:
    """expect() of something else."""
    return PlanError(f".expect({shown(value)}): expect panes, such as pane(user='a', total=5), or retraction(…).")


def not_a_row(value: object) -> PlanError:
    """add() of something else."""
    text = repr(value) if len(repr(value)) <= 60 else f"{type(value).__name__} of {len(repr(value))} characters"
    hint = " Unpack a list: .add(*rows)." if isinstance(value, list) else ""
    return PlanError(
        f".add({text}): add rows as dicts, such as .add({{'ts': '12:00', 'user': 'a'}}), or one frame.{hint}"
    )


def schema_of_inputs(names: Iterable[str], known: Iterable[str]) -> PlanError:
    """The schema of a pipeline with several inputs is one for each."""
    form = ", ".join(f"{name!r}: {{…}}" for name in known)
    return PlanError(
        f"TestStream(schema=…): this pipeline has several inputs. Write schema={{{form}}}, not {list(names)}."
    )


def rows_without_input(known: Iterable[str]) -> PlanError:
    """Rows that name no input, where there are several."""
    form = ", ".join(f"{name}=[{{…}}]" for name in known)
    return PlanError(f".add(): this pipeline has several inputs. Name the input of the rows: .add({form}).")


def unknown_input(names: Iterable[str], known: Iterable[str]) -> PlanError:
    """Rows for an input that the pipeline does not have."""
    name, known = next(name for name in names if name not in known), list(known)
    if not known:
        return PlanError(f".add({name}=…): this pipeline has one input. Add its rows as dicts: .add({{…}}, {{…}}).")
    return PlanError(f".add({name}=…): there is no such input. {did_you_mean(name, known)}")


def frame_among_rows() -> PlanError:
    """A frame and something else in one bundle."""
    return PlanError(".add(): a bundle is either one frame or dicts. Concatenate frames first, or add them one by one.")


def unknown_columns(names: Iterable[str], known: Iterable[str]) -> PlanError:
    """A row with a column that the first bundle did not have."""
    name, known = next(iter(names)), list(known)
    return PlanError(
        f".add(): the rows have no column {name!r}. {did_you_mean(name, known)} Columns are those of the first bundle "
        "and of TestStream(schema=…)."
    )


def wrong_type(detail: str) -> PlanError:
    """A value that does not fit its column."""
    return PlanError(f".add(): {detail}. Columns get their types from the first bundle; name others in schema=….")


def ended(action: str) -> PlanError:
    """Something after end()."""
    return PlanError(f".{action}(): the stream has ended. Only expectations may follow .end().")


def clock_back(now: str, to: str) -> PlanError:
    """Processing time must not go back."""
    return PlanError(f"The clock stands at {now} and cannot go back to {to}.")


def one_clock() -> PlanError:
    """advance_processing_time() takes one of two."""
    return PlanError(".advance_processing_time(): say how long ('10 seconds'), or until when (to='12:05'), not both.")


def nothing_to_show() -> PlanError:
    """A picture needs windows in time."""
    return PlanError("A picture shows event time, but these windows are counted in rows. There is none of them.")


def no_rows_yet() -> PlanError:
    """A question about panes before there are any columns."""
    return PlanError("No rows have been added yet, so it is not known which columns panes have. Add rows first.")


def missing_package(user: str, package: str, extra: str) -> PlanError:
    """An optional dependency is not installed."""
    return PlanError(f"{user} need the package {package!r}. Install it with: pip install 'pyspark-eventide[{extra}]'")


def bad_transcript(place: str, problem: str, mend: str = "") -> PlanError:
    """A transcript file that cannot be used; ``place`` is file and line."""
    return PlanError(f"{place}: {problem}" + (f" {mend}" if mend else ""))
