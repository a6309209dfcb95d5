"""The wire protocol of a controller: the calls, their encoding, and the error codes.

A message is one line of JSON followed by the bytes that it refers to. The types of the ``Store`` protocol define what a
call takes and returns; other values are rejected. Keys of mappings are strings, bytes are ``[offset, length]`` after
the line, and a schema is bytes.
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

from eventide._arguments import is_integer
from eventide.errors import DataError, EventideError, PlanError, did_you_mean
from eventide.marks.errors import (
    ConflictError,
    LeaseLostError,
    SegmentSealedError,
    StoreFailedError,
    TooLargeError,
    TransactionEndedError,
    UnknownStreamError,
    WriterFencedError,
    wrong_type,
)
from eventide.marks.stores.store import EventLog, MarkStore

CALLS = tuple(
    sorted(
        name
        for protocol in (EventLog, MarkStore)
        for name, _ in inspect.getmembers(protocol, inspect.isfunction)
        if not name.startswith("_") and name != "note_columns"  # clients derive it from notes
    )
)
"""The calls of a store that are available over HTTP, each as ``POST /v1/CALL``."""
NOT_REPEATABLE = {"create_stream", "delete_stream", "scale", "open_writer", "put_mark", "put_group", "delete_group"}
"""Calls that are not idempotent. All others are repeated when a connection breaks."""
REQUEST_ERRORS = {
    "wrong_host": 421,
    "cross_origin": 403,
    "wrong_token": 401,
    "wrong_content_type": 415,
    "unknown_call": 404,
}
"""Codes of requests that are rejected before the call, with their HTTP status."""
ERRORS: tuple[tuple[str, int, type[EventideError]], ...] = (
    ("unknown_stream", 404, UnknownStreamError),
    ("segment_sealed", 409, SegmentSealedError),
    ("writer_fenced", 409, WriterFencedError),
    ("lease_lost", 409, LeaseLostError),
    ("conflict", 409, ConflictError),
    ("transaction_ended", 409, TransactionEndedError),
    ("store_failed", 500, StoreFailedError),
    ("too_large", 413, TooLargeError),
    ("invalid_data", 409, DataError),
    ("invalid_request", 422, PlanError),
    ("failed", 500, EventideError),
)
"""Codes of errors, with their HTTP status. The first matching type counts."""
CONTENT_TYPE = "application/vnd.eventide"
"""Of requests. A web page may send it to another origin only with permission, which a controller never grants."""
MAX_BODY = 64 * 1024 * 1024
"""The default size limit of a request in bytes."""


def encode(value: Any) -> bytes:
    r"""Encode a value, or the arguments of a call by name.

    >>> encode({"state": b"abc", "version": 1})
    b'{"state":[0,3],"version":1}\nabc'
    """
    tail = bytearray()
    head = _to_json(value, tail)
    return b"".join([json.dumps(head, separators=(",", ":")).encode(), b"\n", tail])


def decode(body: bytes, hint: Any) -> Any:
    r"""Decode a value of a type.

    >>> decode(b'[0,3]\nabc', bytes), decode(b'{"4":7}', Mapping[int, int])
    (b'abc', {4: 7})
    """
    return _from_json(*_split(body), hint, "it")


def decode_arguments(call: str, body: bytes) -> dict[str, Any]:
    """Decode the arguments of a call. Those with a default may be missing."""
    head, tail = _split(body)
    hints, signature = _signature(call)
    parameters = signature.parameters
    if not isinstance(head, dict):
        raise PlanError(f"{call} takes an object with its arguments: {', '.join(parameters)}.")
    for name in head:
        if name not in parameters:
            raise PlanError(f"{call} has no argument {name!r}. {did_you_mean(name, list(parameters))}")
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in head:
            raise PlanError(f"{call} needs the argument {name!r}.")
    return {name: _from_json(value, tail, hints[name], name) for name, value in head.items()}


def bind_arguments(call: str, *values: Any, **options: Any) -> dict[str, Any]:
    """Return the arguments of a call by name.

    >>> bind_arguments("seal", "orders")
    {'name': 'orders'}
    """
    _, signature = _signature(call)
    return signature.bind(*values, **options).arguments


def decode_result(call: str, body: bytes) -> Any:
    """Decode the result of a call."""
    return decode(body, _signature(call)[0]["return"])


def error_code(error: EventideError) -> tuple[str, int]:
    """The code and the HTTP status of an error.

    >>> error_code(PlanError("no"))
    ('invalid_request', 422)
    """
    return next((code, status) for code, status, kind in ERRORS if isinstance(error, kind))


def error_from_code(code: object, message: str) -> EventideError:
    """The error that a controller reported."""
    if code in REQUEST_ERRORS:
        return PlanError(message)
    return next((kind for name, _, kind in ERRORS if name == code), EventideError)(message)


@cache
def _signature(call: str) -> tuple[dict[str, Any], inspect.Signature]:
    """The types of a call, and its arguments."""
    method = getattr(EventLog, call, None) or getattr(MarkStore, call)
    signature = inspect.signature(method)
    _, *parameters = signature.parameters.values()  # without self
    return get_type_hints(method), signature.replace(parameters=parameters)


def _split(body: bytes) -> tuple[Any, bytes]:
    head, _, tail = body.partition(b"\n")
    try:
        return json.loads(head or b"null"), tail
    except ValueError as cause:
        raise PlanError(f"The request does not begin with a line of JSON: {cause}.") from cause


def _to_json(value: Any, tail: bytearray) -> Any:
    if isinstance(value, bytes | pa.Schema):
        body = value if isinstance(value, bytes) else value.serialize().to_pybytes()
        tail += body
        return [len(tail) - len(body), len(body)]
    if dataclasses.is_dataclass(value):
        return {field.name: _to_json(getattr(value, field.name), tail) for field in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(name): _to_json(item, tail) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_to_json(item, tail) for item in value]
    return value


def _from_json(value: Any, tail: bytes, hint: Any, what: str) -> Any:
    """Convert a JSON value to a type."""
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, types.UnionType):
        (other,) = [argument for argument in arguments if argument is not type(None)]
        return None if value is None else _from_json(value, tail, other, what)
    if kind is Literal and value in arguments:
        return value
    if kind in (str, bool, type(None)) and isinstance(value, kind):
        return value
    if kind is int and is_integer(value, at_least=-(2**63), at_most=2**63 - 1):
        return value
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if kind in (bytes, pa.Schema):
        body = _slice(value, tail, what)
        return body if kind is bytes else _read_schema(body, what)
    if isinstance(value, dict) and (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")):
        return _to_record(value, tail, kind, what)
    if isinstance(value, dict) and kind in (dict, Mapping):
        return {_to_number(name, what): _from_json(item, tail, arguments[1], what) for name, item in value.items()}
    if isinstance(value, list) and kind in (list, Sequence, Collection):
        return [_from_json(item, tail, arguments[0], what) for item in value]
    if isinstance(value, list) and kind is tuple:
        hints = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else arguments
        if len(hints) == len(value):
            return tuple(_from_json(item, tail, hint, what) for item, hint in zip(value, hints, strict=True))
    raise wrong_type(what, value, hint)


def _to_record(value: dict[str, Any], tail: bytes, kind: Any, what: str) -> Any:
    hints = get_type_hints(kind)
    if not value.keys() <= hints.keys():
        raise wrong_type(what, value, kind)
    try:
        return kind(**{name: _from_json(item, tail, hints[name], f"{what}.{name}") for name, item in value.items()})
    except TypeError as cause:  # a field is missing
        raise wrong_type(what, value, kind) from cause


def _slice(value: Any, tail: bytes, what: str) -> bytes:
    start, size = value if isinstance(value, list) and len(value) == 2 else (None, None)
    if type(start) is not int or type(size) is not int or not 0 <= start <= start + size <= len(tail):
        raise wrong_type(what, value, bytes)
    return tail[start : start + size]


def _read_schema(body: bytes, what: str) -> pa.Schema:
    try:
        return pa.ipc.read_schema(pa.py_buffer(body))
    except (pa.ArrowException, OSError, EOFError) as cause:
        raise wrong_type(what, body[:20], pa.Schema) from cause


def _to_number(text: str, what: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise wrong_type(what, text, int) from None
