"""Errors that several modules of the test tools raise."""

from __future__ import annotations

from eventide.errors import PlanError, shown


def bad_window(value: object) -> PlanError:
    """A window is not a pair of bounds."""
    return PlanError(f"window={shown(value)}: a window is written (start, end), such as window=('12:00', '12:02').")


def not_a_row(value: object) -> PlanError:
    """The value is no row."""
    text = repr(value) if len(repr(value)) <= 60 else f"{type(value).__name__} of {len(repr(value))} characters"
    hint = " Unpack a list: .add(*rows)." if isinstance(value, list) else ""
    return PlanError(
        f".add({text}): add rows as dicts, such as .add({{'ts': '12:00', 'user': 'a'}}), or one frame.{hint}"
    )


def missing_package(user: str, package: str, extra: str) -> PlanError:
    """An optional dependency is not installed."""
    return PlanError(f"{user} need the package {package!r}. Install it with: pip install 'pyspark-eventide[{extra}]'")


def bad_transcript(place: str, problem: str, fix: str = "") -> PlanError:
    """A transcript file is invalid. ``place`` is file and line."""
    return PlanError(f"{place}: {problem}" + (f" {fix}" if fix else ""))
