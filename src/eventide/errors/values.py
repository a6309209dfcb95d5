"""How messages show the value that a user gave."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, time, timedelta
from typing import Any

_PLAIN = (str, bytes, int, float, bool, type(None), date, time, timedelta)
_LONGEST = 80


def shown(value: Any) -> str:
    """Return a value as a user knows it: never the fields of an object of Eventide, never an address in memory.

    >>> import eventide as ev
    >>> shown("1 minute"), shown([1, None]), shown(print), shown(int)
    ("'1 minute'", '[1, None]', 'the function print', 'the class int')
    >>> shown(ev.tumbling("1 minute")), shown(ev.sum("price"))
    ('tumbling 1m', 'sum(price)')
    >>> shown(object())
    'a value of type object'
    """
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{shown(key)}: {shown(part)}' for key, part in value.items())}}}"
    if type(value) in (list, tuple, set, frozenset):
        return _shown_items(value)
    describe = getattr(value, "describe", None)
    if callable(describe):
        try:
            return str(describe())
        except TypeError:  # a method of the same name that is another thing
            return _by_type(value)
    return _shown_object(value)


def _shown_items(values: Any) -> str:
    items = ", ".join(map(shown, values))
    if isinstance(values, tuple):
        return f"({items}{',' * (len(values) == 1)})"
    return f"[{items}]" if isinstance(values, list) else f"{{{items}}}"


def _shown_object(value: Any) -> str:
    if type(value).__module__.partition(".")[0] == "eventide":
        return str(value) if "__str__" in _methods(type(value)) else _by_type(value)
    if callable(value) and hasattr(value, "__name__"):
        return f"the function {value.__name__}"
    text = repr(value)
    return _by_type(value) if len(text) > _LONGEST or "\n" in text or text.startswith("<") else text


def _methods(kind: type) -> set[str]:
    """Return the names that the classes of Eventide define for objects of this kind."""
    return {name for base in kind.__mro__ if base is not object for name in vars(base)}


def _by_type(value: Any) -> str:
    return f"a value of type {type(value).__name__}"
