"""How the calls of a store travel: one line of JSON, and behind it the bytes that it speaks of.

The types of the ``Store`` protocol say what each call takes and gives; what does not fit them is refused. A mapping by
number has its numbers as text, bytes are ``[where, how many]`` in what follows the line, a schema is bytes, too.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import types
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pyarrow as pa

from eventide.errors import controller as errors
from eventide.marks.stores.store import Log, TimeKeeping

CALLS = tuple(
    sorted(
        name
        for protocol in (Log, TimeKeeping)
        for name, _ in inspect.getmembers(protocol, inspect.isfunction)
        if not name.startswith("_") and name != "note_columns"  # the same as notes
    )
)
"""The names of all calls of a store that travel."""
CONTENT_TYPE = "application/vnd.eventide"
"""Of requests. A web page may not send it to another address without asking, and a controller never agrees."""
MAX_BODY = 64 * 1024 * 1024
"""How large a request may be, unless the controller was started with another limit."""


def packed(value: Any) -> bytes:
    r"""A value, or the arguments of a call by name, as a line of JSON and bytes.

    >>> packed({"state": b"abc", "version": 1})
    b'{"state":[0,3],"version":1}\nabc'
    """
    tail = bytearray()
    head = _plain(value, tail)
    return b"".join([json.dumps(head, separators=(",", ":")).encode(), b"\n", tail])


def unpacked(body: bytes, hint: Any) -> Any:
    r"""The value of ``packed``, which must be of a type.

    >>> unpacked(b'[0,3]\nabc', bytes), unpacked(b'{"4":7}', Mapping[int, int])
    (b'abc', {4: 7})
    """
    return _typed(*_parts(body), hint, "it")


def arguments(call: str, body: bytes) -> dict[str, Any]:
    """The arguments of a call. Those that have a default may be missing."""
    head, tail = _parts(body)
    hints, parameters = _signature(call)
    if not isinstance(head, dict) or not head.keys() <= parameters.keys():
        raise errors.strange_arguments(call, head if isinstance(head, dict) else (), parameters)
    missing = [name for name, one in parameters.items() if one.default is one.empty and name not in head]
    if missing:
        raise errors.missing_argument(call, missing[0])
    return {name: _typed(value, tail, hints[name], name) for name, value in head.items()}


def answer(call: str) -> Any:
    """The type of what a call gives."""
    return _signature(call)[0]["return"]


@cache
def _signature(call: str) -> tuple[dict[str, Any], dict[str, inspect.Parameter]]:
    method = getattr(Log, call, None) or getattr(TimeKeeping, call)
    parameters = dict(inspect.signature(method).parameters)
    del parameters["self"]
    return get_type_hints(method), parameters


def _parts(body: bytes) -> tuple[Any, bytes]:
    head, _, tail = body.partition(b"\n")
    try:
        return json.loads(head or b"null"), tail
    except ValueError as cause:
        raise errors.not_json(cause) from cause


def _plain(value: Any, tail: bytearray) -> Any:
    if isinstance(value, bytes | pa.Schema):
        body = value if isinstance(value, bytes) else value.serialize().to_pybytes()
        tail += body
        return [len(tail) - len(body), len(body)]
    if dataclasses.is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name), tail) for one in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {name: _plain(one, tail) for name, one in value._asdict().items()}
    if isinstance(value, Mapping):
        return {str(name): _plain(one, tail) for name, one in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain(one, tail) for one in value]
    return value


def _typed(value: Any, tail: bytes, hint: Any, what: str) -> Any:
    """A value as the type that it must have."""
    kind, inner = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, types.UnionType):
        (other,) = [one for one in inner if one is not type(None)]
        return None if value is None else _typed(value, tail, other, what)
    if kind is Literal and value in inner:
        return value
    if kind in (str, bool, type(None)) and isinstance(value, kind):
        return value
    if kind is int and isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63:
        return value
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if kind in (bytes, pa.Schema):
        body = _bytes(value, tail, what)
        return body if kind is bytes else _schema(body, what)
    if isinstance(value, dict) and (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")):
        return _record(value, tail, kind, what)
    if isinstance(value, dict) and kind in (dict, Mapping):
        return {_number(name, what): _typed(one, tail, inner[1], what) for name, one in value.items()}
    if isinstance(value, list) and kind in (list, Sequence, Collection):
        return [_typed(one, tail, inner[0], what) for one in value]
    if isinstance(value, list) and kind is tuple:
        hints = [inner[0]] * len(value) if inner[-1] is Ellipsis else inner
        if len(hints) == len(value):
            return tuple(_typed(one, tail, each, what) for one, each in zip(value, hints, strict=True))
    raise errors.wrong_type(what, value, hint)


def _record(value: dict[str, Any], tail: bytes, kind: Any, what: str) -> Any:
    hints = get_type_hints(kind)
    if not value.keys() <= hints.keys():
        raise errors.wrong_type(what, value, kind)
    try:
        return kind(**{name: _typed(one, tail, hints[name], f"{what}.{name}") for name, one in value.items()})
    except TypeError as cause:  # something is missing
        raise errors.wrong_type(what, value, kind) from cause


def _bytes(value: Any, tail: bytes, what: str) -> bytes:
    start, size = value if isinstance(value, list) and len(value) == 2 else (None, None)
    if type(start) is not int or type(size) is not int or not 0 <= start <= start + size <= len(tail):
        raise errors.wrong_type(what, value, bytes)
    return tail[start : start + size]


def _schema(body: bytes, what: str) -> pa.Schema:
    try:
        return pa.ipc.read_schema(pa.py_buffer(body))
    except (pa.ArrowException, OSError, EOFError) as cause:
        raise errors.wrong_type(what, body[:20], pa.Schema) from cause


def _number(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise errors.wrong_type(what, text, int) from None
