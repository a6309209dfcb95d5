"""Hints for names, options and arguments that do not exist, and for those that are missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from difflib import get_close_matches
from functools import wraps
from inspect import Parameter, signature
from typing import Any, ParamSpec, TypeVar

from eventide._familiar import FAMILIAR
from eventide._familiar_options import EXAMPLES, OPTIONS, TOO_MANY, TOO_MANY_VALUES, UNNAMED
from eventide.errors import PlanError, did_you_mean, shown

P = ParamSpec("P")
T = TypeVar("T")
K = TypeVar("K", bound=type)


def with_option_hints(function: Callable[P, T]) -> Callable[P, T]:
    """A function that answers a call with wrong arguments by what to write instead.

    >>> @with_option_hints
    ... def rows(size, *, by=None): ...
    >>> rows(3, offset="n")
    Traceback (most recent call last):
    ...
    eventide.errors.PlanError: rows() has no option 'offset'. Use by=, the column of offsets.
    >>> rows(3, "n")
    Traceback (most recent call last):
    ...
    eventide.errors.PlanError: rows(…, 'n'): say what it is, such as by='n'. The options are: by.
    >>> rows()
    Traceback (most recent call last):
    ...
    eventide.errors.PlanError: rows() needs size=. Write for example ev.rows(100).
    """
    call = _Call(function)

    @wraps(function)
    def checked(*args: P.args, **named: P.kwargs) -> T:
        call.check(args, named)
        return function(*args, **named)

    return checked


class _Call:
    """The arguments that a function takes."""

    def __init__(self, function: Callable[..., Any]) -> None:
        parameters = dict(signature(function).parameters)
        self.bound = parameters.pop("self", None) is not None
        if function.__name__ == "__init__":
            self.name = function.__qualname__.split(".")[-2]
        elif function.__name__ == "__call__":
            self.name = function.__qualname__.split(".")[-2].lower()
        else:
            self.name = ("." if self.bound else "") + function.__name__
        kinds = {name: parameter.kind for name, parameter in parameters.items()}
        self.any_option = Parameter.VAR_KEYWORD in kinds.values()
        self.any_number = Parameter.VAR_POSITIONAL in kinds.values()
        variable = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)
        self.known = [name for name, kind in kinds.items() if kind not in variable]
        self.options = [name for name, kind in kinds.items() if kind is Parameter.KEYWORD_ONLY]
        self.positional = [name for name in self.known if name not in self.options]
        self.required = [name for name in self.known if parameters[name].default is Parameter.empty]

    def check(self, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Reject arguments that the function does not take, and the lack of one that it needs."""
        if self.bound:
            args = args[1:]
        if not self.any_option:
            for name in named:
                if name not in self.known:
                    hint = OPTIONS.get(self.name, {}).get(name) or did_you_mean(name, self.known)
                    raise PlanError(f"{self.name}() has no option {name!r}. {hint}")
        if not self.any_number and len(args) > len(self.positional):
            raise self._without_name(args)
        unnamed = self.positional[: len(args)]
        missing = [name for name in self.required if name not in named and name not in unnamed]
        if missing:
            example = f" Write for example {EXAMPLES[self.name]}." if self.name in EXAMPLES else ""
            raise PlanError(f"{self.name}() needs {' and '.join(f'{name}=' for name in missing)}.{example}")
        for name in unnamed:
            if name in named:
                raise PlanError(f"{self.name}() has {name}= twice, with its name and without it. Leave one out.")

    def _without_name(self, args: tuple[Any, ...]) -> PlanError:
        """The error for an argument that has no place without its name."""
        extra = args[len(self.positional)]
        call = f"{self.name}({'…, ' if self.positional else ''}{shown(extra)})"
        plain = isinstance(extra, str | int | float | timedelta)
        instead = TOO_MANY.get(self.name) or ("" if plain else TOO_MANY_VALUES.get(self.name))
        if instead:
            return PlanError(f"{call}: too many arguments. {instead}")
        if not self.options:
            number = len(self.positional) or "no"
            return PlanError(f"{call}: it takes {number} argument{'s' * (number != 1)}.")
        example = f", such as {UNNAMED.get(self.name, self.options[0])}={shown(extra)}" if plain else ""
        return PlanError(f"{call}: say what it is{example}. The options are: {', '.join(self.options)}.")


def with_attribute_hints(kind: K) -> K:
    """Make a class suggest an existing attribute when an unknown one is read.

    >>> import eventide as ev
    >>> ev.stream("ts").groupBy
    Traceback (most recent call last):
    ...
    AttributeError: There is no Stream.groupBy: use key= of ev.stream(…)
    """

    def __getattr__(self: Any, name: str) -> Any:  # noqa: N807
        if name.startswith("_"):  # those that Python asks for
            raise AttributeError(name)
        raise AttributeError(no_attribute(type(self).__name__, name, dir(type(self))))

    kind.__getattr__ = __getattr__  # type: ignore[attr-defined]  # type checkers report what does not exist
    return kind


def no_attribute(owner: str, name: str, known: Iterable[str]) -> str:
    """Return the message for an attribute that does not exist, with what is probably meant.

    It ends without a period, because Python adds a suggestion of its own where it has one.

    >>> no_attribute("eventide", "avg", [])
    'There is no eventide.avg: use ev.mean(column)'
    >>> no_attribute("Stream", "agregate", ["agg", "window"])
    'There is no Stream.agregate'
    >>> no_attribute("eventide", "tumblng", ["tumbling"])
    "There is no eventide.tumblng. Did you mean: 'tumbling'?"
    """
    familiar = FAMILIAR.get(owner, {})
    if name in familiar:
        return f"There is no {owner}.{name}: use {familiar[name]}"
    close = get_close_matches(name, [word for word in known if not word.startswith("_")], n=1, cutoff=0.7)
    return f"There is no {owner}.{name}" + (f". Did you mean: {close[0]!r}?" if close else "")
