"""Messages about controllers: how they are started, and what goes wrong between them and their clients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eventide.errors.addresses import without_password
from eventide.errors.kinds import DataError, EventideError, PlanError, did_you_mean
from eventide.errors.marks import (
    ConflictError,
    LeaseLostError,
    SeatTakenError,
    SegmentSealedError,
    StoreFailedError,
    TransactionOverError,
    UnknownStreamError,
)


class UnreachableError(EventideError):
    """A controller does not answer. Whether it did what was asked is not known, unless asking again is harmless."""


class TooLargeError(PlanError):
    """A request is larger than a controller takes. Nothing of it was done."""


# The first that fits: codes say which exception it was, so that it is the same on both sides.
_CODES: tuple[tuple[str, int, type[EventideError]], ...] = (
    ("unknown_stream", 404, UnknownStreamError),
    ("segment_sealed", 409, SegmentSealedError),
    ("seat_taken", 409, SeatTakenError),
    ("lease_lost", 409, LeaseLostError),
    ("conflict", 409, ConflictError),
    ("transaction_over", 409, TransactionOverError),
    ("store_failed", 500, StoreFailedError),
    ("gone", 409, DataError),
    ("refused", 422, PlanError),
    ("failed", 500, EventideError),
)
_OF_REQUESTS = ("wrong_token", "wrong_host", "from_a_page", "wrong_content_type", "unknown_call")
_KINDS = {code: kind for code, _, kind in _CODES}


def code_of(error: EventideError) -> tuple[str, int]:
    """How an error is told over HTTP: its code, and the status.

    >>> code_of(PlanError("no"))
    ('refused', 422)
    """
    return next((code, status) for code, status, kind in _CODES if isinstance(error, kind))


def told(code: object, message: str) -> EventideError:
    """The error that a controller told."""
    if code == "too_large":
        return TooLargeError(message)
    kind = PlanError if code in _OF_REQUESTS else _KINDS.get(str(code), EventideError)
    return kind(message)


def unreachable(url: str, cause: object) -> UnreachableError:
    """No answer."""
    return UnreachableError(
        f"The controller at {without_password(url)} does not answer: {cause}. Is it running? Is the address right?"
    )


def not_an_answer(url: str, status: int) -> UnreachableError:
    """An answer that no controller gives."""
    return UnreachableError(
        f"{without_password(url)} answered with status {status}, but not as a controller does. Is the address right?"
    )


def wrong_token() -> PlanError:
    """A request without the right token."""
    return PlanError(
        "The token is missing or wrong. Set EVENTIDE_TOKEN, or say token=, to that of the controller; "
        "clients of the user that runs it find it by themselves."
    )


def too_large(most: int) -> TooLargeError:
    """A request that would not fit."""
    return TooLargeError(
        f"The request is larger than the {most:,} bytes that this controller takes. Flush smaller batches, or start it "
        "with a larger --max-body."
    )


def unknown_call(name: str, known: Iterable[str]) -> PlanError:
    """A path that leads nowhere."""
    return PlanError(f"There is no call {name!r}. {did_you_mean(name, known)}")


def not_json(cause: object) -> PlanError:
    """A request that cannot be read."""
    return PlanError(f"The request does not begin with a line of JSON: {cause}.")


def strange_arguments(call: str, names: Iterable[str], known: Iterable[str]) -> PlanError:
    """Arguments that a call does not have."""
    known = list(known)
    strange = [name for name in names if name not in known]
    if not strange:
        return PlanError(f"{call} takes an object with its arguments: {', '.join(known)}.")
    return PlanError(f"{call} has no argument {strange[0]!r}. {did_you_mean(strange[0], known)}")


def missing_argument(call: str, name: str) -> PlanError:
    """An argument that a call needs."""
    return PlanError(f"{call} needs the argument {name!r}.")


def wrong_type(what: str, value: object, hint: Any) -> PlanError:
    """A value that is not what a call takes."""
    kind = hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "").replace("collections.abc.", "")
    return PlanError(f"{what} is {str(value)[:50]!r}, but it must be of type {kind}.")


def failed_inside() -> EventideError:
    """A fault of the controller, or of its store."""
    return EventideError("The controller failed. Its log says why.")


def needs_protection(host: str) -> PlanError:
    """An address that others can reach, without encryption."""
    return PlanError(
        f"A controller at {host}, which other machines can reach, needs a certificate: add --certificate and --key, or "
        "use --host 127.0.0.1."
    )


def wrong_host(host: str) -> PlanError:
    """A request that means another server: perhaps a web page that has changed its address."""
    return PlanError(f"This controller is not {host!r}. Add --allow-host {host}, if clients call it so.")


def from_a_page() -> PlanError:
    """A request that a browser sends for a web page."""
    return PlanError("A controller does not answer web pages: a request with Origin or Sec-Fetch-Site is rejected.")


def wrong_content_type(given: str, needed: str) -> PlanError:
    """A content type that any web page may send."""
    return PlanError(f"The content type is {given!r}, and must be {needed!r}.")


def token_readable_by_others(path: object) -> PlanError:
    """A token that is no secret."""
    return PlanError(f"Other users can read the token in {path}. Say chmod 600, or delete it.")


def no_token_file(path: object, cause: object) -> PlanError:
    """No place for a token."""
    return PlanError(f"The token cannot be stored in {path}: {cause}. Set EVENTIDE_TOKEN, or give --token-file.")


def not_events(stream: str, cause: object) -> PlanError:
    """An append that no reader could read."""
    return PlanError(f"This is no append to {stream!r}: {cause}. Send an Arrow IPC stream of its columns.")


def impossible_mark(mark: object) -> PlanError:
    """A mark that ends before it begins."""
    return PlanError(f"{mark} is no mark: upper is not below lower, and its clock and its offsets are from 0.")


def certificate_without_key() -> PlanError:
    """Half of what TLS needs."""
    return PlanError("--certificate and --key belong together: give both, or none.")


def unreadable(what: str, path: object, cause: object) -> PlanError:
    """A file that was named, and cannot be used."""
    return PlanError(f"{what} {path} cannot be read: {cause}.")


def empty_token(path: object) -> PlanError:
    """A token that anybody would guess."""
    return PlanError(f"The token in {path} is empty. Put a long random text into it.")


def unusable_token() -> PlanError:
    """A token that a header cannot hold."""
    return PlanError("A token must be printable ASCII, without spaces around it. Make one: openssl rand -hex 32.")


def no_server(package: object) -> PlanError:
    """A controller without the packages that make it a server."""
    return PlanError(
        f"A controller as a program needs the package {package!r}. Say: pip install 'pyspark-eventide[marks]'"
    )


def token_in_the_clear(url: str) -> PlanError:
    """A token that anybody on the way could read."""
    return PlanError(f"{without_password(url)} is not encrypted, so the token would be readable on the way. Use https.")


def address_in_use(host: str, port: int, cause: object) -> PlanError:
    """A port that another program has."""
    return PlanError(f"{host}:{port} cannot be listened on: {cause}. Choose another --port; 0 takes a free one.")
