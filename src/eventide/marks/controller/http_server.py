"""The HTTP server of a controller: every call of its store as ``POST /v1/CALL``.

Requests and results are encoded by ``wire``; an error is JSON with ``code`` and ``message``. ``GET /health`` reports
that the server is up, ``GET /v1/status`` the status of the controller and its streams.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import socket
import ssl
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from eventide._web_server import WebServer
from eventide.errors import EventideError, PlanError, did_you_mean
from eventide.marks import events
from eventide.marks.controller import wire
from eventide.marks.controller.connections import ConnectionLimits, RequestGuard, protocol_factory
from eventide.marks.controller.controller import Status
from eventide.marks.controller.http_client import check_token, create_token, is_loopback, read_token, token_file
from eventide.marks.errors import TooLargeError, bad_segments, unreadable, wrong_type
from eventide.marks.mark import Mark
from eventide.marks.stores.store import Config, Store

_NOT_NEGATIVE = "a whole number, 0 or more"

_log = logging.getLogger("eventide.marks")


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Where to listen, and how access is protected. Only loopback needs no certificate.

    The default token is the one of the current user, created on first use. ``hosts`` are further names of the server.
    """

    host: str = "127.0.0.1"
    port: int = 8787
    token: str = field(default_factory=create_token, repr=False)
    hosts: tuple[str, ...] = ()
    certificate: Path | None = None
    key: Path | None = None
    max_body: int = wire.MAX_BODY

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise PlanError("--certificate and --key belong together: pass both, or none.")
        check_token(self.token)
        if self.certificate is None and not is_loopback(self.host):
            raise PlanError(
                f"A controller at {self.host}, which other machines can reach, needs a certificate: add --certificate "
                "and --key, or use --host 127.0.0.1."
            )
        if self.certificate is not None and self.key is not None:
            try:
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key)
            except (OSError, ssl.SSLError) as cause:
                raise unreadable("The certificate, or its key,", self.certificate, cause) from cause

    @property
    def accepted_hosts(self) -> tuple[str, ...] | None:
        """The accepted names of the server; None accepts all, because the certificate names them."""
        return self.hosts if self.hosts or is_loopback(self.host) else None

    @property
    def scheme(self) -> str:
        """The scheme of its URL."""
        return "http" if self.certificate is None else "https"


def resolve_token(path: Path | None, environment: Mapping[str, str] = os.environ) -> str:
    """The token from a file, from ``EVENTIDE_TOKEN``, or of the current user."""
    if path is not None:
        return read_token(path)
    return environment.get("EVENTIDE_TOKEN") or create_token(token_file(environment))


def create_app(
    store: Store,
    *,
    token: str,
    hosts: Collection[str] | None = (),
    max_body: int = wire.MAX_BODY,
    status: Callable[[], Status] | None = None,
) -> Starlette:
    """The application. Every request except ``/health`` needs the ``token``.

    ``hosts`` are the accepted names of the server besides loopback; None accepts all.
    """
    endpoints = _StoreEndpoints(store, RequestGuard(token, hosts), max_body, status)
    return Starlette(
        routes=[
            Route("/health", endpoints.health, methods=["GET"]),
            Route("/v1/status", endpoints.status, methods=["GET"]),
            Route("/v1/{call}", endpoints.call, methods=["POST"]),
        ]
    )


class Server(WebServer):
    """Serves the calls of a store. ``on_ready`` is called with its URL."""

    def __init__(
        self,
        app: Starlette,
        settings: ServerSettings,
        on_ready: Callable[[str], None],
        limits: ConnectionLimits | None = None,
    ) -> None:
        super().__init__(
            app,
            settings.host,
            settings.port,
            name="server",
            scheme=settings.scheme,
            http=protocol_factory(limits or ConnectionLimits()),
            timeout_keep_alive=75,
            timeout_graceful_shutdown=10,
            ssl_certfile=settings.certificate,
            ssl_keyfile=settings.key,
        )
        self._on_ready = on_ready
        self.url = self.address

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then call ``on_ready``."""
        await super().startup(sockets)
        self._on_ready(self.url)


def check_arguments(store: Store, call: str, arguments: Mapping[str, Any]) -> None:
    """Reject arguments that have the right type, but would break the readers or writers of a stream."""
    for name, value in arguments.items():
        _check_names(name, value)
    for name in ("until", "timeout"):  # stores check event times, which may be negative
        _check_not_negative(name, arguments.get(name))
    if call == "create_stream":
        _check_config(arguments["config"])
    elif call == "put_mark":
        _check_mark(arguments["mark"])
    elif call == "append":
        for part in arguments["parts"]:
            _check_events(store, arguments["handle"].stream, part.rows, part.body)
    elif call == "add":
        _check_events(store, arguments["handle"].stream, arguments["rows"], arguments["body"], has_points=True)
    else:
        _check_not_negative("rows", arguments.get("rows"))


class _StoreEndpoints:
    def __init__(self, store: Store, guard: RequestGuard, max_body: int, status: Callable[[], Status] | None) -> None:
        self._store = store
        self._guard = guard
        self._max_body = max_body
        self._status = status

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def status(self, request: Request) -> Response:
        rejection = self._guard.reject(request)
        if rejection is not None:
            return _reject_request(*rejection)
        if self._status is None:
            return _reject_request("unknown_call", "This server has no status.", close=False)
        return JSONResponse(asdict(await run_in_threadpool(self._status)))

    async def call(self, request: Request) -> Response:
        call = request.path_params["call"]
        rejection = self._guard.reject(request)
        try:
            body = await self._read_body(request, keep=rejection is None)
        except ClientDisconnect:
            return Response(status_code=400)  # the client is gone
        if rejection is not None:
            return _reject_request(*rejection)
        if call not in wire.CALLS:
            message = f"There is no call {call!r}. {did_you_mean(call, wire.CALLS)}"
            return _reject_request("unknown_call", message, close=False)
        if body is None:
            message = (
                f"The request is larger than the {self._max_body:,} bytes that this controller accepts. Flush smaller "
                "batches, or start the controller with a larger --max-body."
            )
            return _error_response(TooLargeError(message))
        return await run_in_threadpool(self._execute, call, body)

    def _execute(self, call: str, body: bytes) -> Response:
        try:
            arguments = wire.decode_arguments(call, body)
            check_arguments(self._store, call, arguments)
            result = getattr(self._store, call)(**arguments)
            return Response(wire.encode(result), media_type="application/octet-stream")
        except EventideError as error:
            return _error_response(error)
        except Exception:
            _log.exception("The call %s failed", call)
            return _error_response(EventideError("The controller failed. See its log."))

    async def _read_body(self, request: Request, *, keep: bool) -> bytes | None:
        """The body; None if it is too large.

        It is read even if it is not kept, because a client that is still sending does not receive the response.
        """
        body = bytearray()
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size <= self._max_body:
                body += chunk if keep else b""
            elif size > 4 * self._max_body:
                break
        return bytes(body) if size <= self._max_body else None


def _reject_request(code: str, message: str, *, close: bool = True) -> Response:
    headers = {"Connection": "close"} if close else None
    content = {"code": code, "message": message}
    return JSONResponse(content, status_code=wire.REQUEST_ERRORS[code], headers=headers)


def _error_response(error: EventideError) -> Response:
    code, status = wire.error_code(error)
    return JSONResponse({"code": code, "message": str(error)}, status_code=status)


def _check_names(name: str, value: Any) -> None:
    """Reject empty strings and null characters: every string in a call is a name."""
    if isinstance(value, str):
        if not value or "\0" in value:
            raise wrong_type(name, value, "text that is not empty, without a null character")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for attribute in dataclasses.fields(value):
            _check_names(f"{name}.{attribute.name}", getattr(value, attribute.name))
    elif isinstance(value, tuple | list):
        for item in value:
            _check_names(name, item)


def _check_not_negative(name: str, value: int | None) -> None:
    if (value or 0) < 0:
        raise wrong_type(name, value, _NOT_NEGATIVE)


def _check_config(config: Config) -> None:
    if config.segments < 1:
        raise bad_segments(config.segments)
    for name in ("writer_timeout", "mark_every", "writer_lease"):
        _check_not_negative(name, getattr(config, name))


def _check_mark(mark: Mark) -> None:
    if mark.at < 0 or min(mark.cut.values(), default=0) < 0:
        raise PlanError(f"{mark} is not a mark: its clock and its offsets must not be negative.")


def _check_events(store: Store, stream: str, rows: int, body: bytes, *, has_points: bool = False) -> None:
    """Reject bytes that are not this many valid events of the stream."""
    try:
        table = events.decode(body)
        table.validate(full=True)
    except (pa.ArrowException, OSError, EOFError, ValueError, MemoryError) as cause:
        raise _invalid_append(stream, str(cause) or type(cause).__name__) from cause
    if has_points:
        table = _drop_points(stream, table)
    expected: pa.Schema = store.stream(stream).config.schema
    if not table.schema.equals(expected):
        columns, expected_columns = ([f"{item.name}: {item.type}" for item in of] for of in (table.schema, expected))
        raise _invalid_append(stream, f"the columns are {columns}, not {expected_columns}")
    if table.num_rows != rows:
        raise _invalid_append(stream, f"there are {table.num_rows} rows, not {rows}")


def _drop_points(stream: str, table: pa.Table) -> pa.Table:
    """The events of a transaction without their points in the key space, which are from 0 to less than 1."""
    if events.POINT not in table.column_names or table[events.POINT].type != pa.float64():
        raise _invalid_append(stream, f"there is no column {events.POINT} of numbers")
    points = table[events.POINT]
    is_valid = pc.and_(pc.greater_equal(points, 0.0), pc.less(points, 1.0))
    if points.null_count or not pc.all(is_valid, min_count=0).as_py():
        raise _invalid_append(stream, f"{events.POINT} is not from 0 to less than 1")
    return table.drop_columns([events.POINT])


def _invalid_append(stream: str, cause: object) -> PlanError:
    return PlanError(f"This is no append to {stream!r}: {cause}. Send an Arrow IPC stream with its columns.")
