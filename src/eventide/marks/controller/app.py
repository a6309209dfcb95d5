"""The HTTP face of a controller: every call of its store as ``POST /v1/CALL``, for writers and readers without the
database.

A request is the call's arguments as ``wire`` packs them, an answer what it gives; a refusal is JSON with ``code`` and
``message``. ``GET /health`` says that it is there, ``GET /v1/status`` what the controller knows of its streams.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from eventide.errors import controller as errors
from eventide.errors import marks
from eventide.errors.kinds import EventideError
from eventide.marks.controller import wire
from eventide.marks.controller.status import Status
from eventide.marks.stores.store import Store

_log = logging.getLogger("eventide.marks")


def app(
    store: Store,
    *,
    token: str | None = None,
    max_body: int = wire.MAX_BODY,
    status: Callable[[], Status] | None = None,
) -> Starlette:
    """The application. With a ``token`` every request must bear it, but for ``/health``."""
    face = _Face(store, token, max_body, status)
    return Starlette(
        routes=[
            Route("/health", face.health, methods=["GET"]),
            Route("/v1/status", face.status, methods=["GET"]),
            Route("/v1/{call}", face.call, methods=["POST"]),
        ]
    )


class _Face:
    def __init__(self, store: Store, token: str | None, max_body: int, status: Callable[[], Status] | None) -> None:
        self._store = store
        self._token = token
        self._max_body = max_body
        self._status = status

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def status(self, request: Request) -> Response:
        if not self._knows(request):
            return _refusal("wrong_token", 401, errors.wrong_token())
        if self._status is None:
            return _refusal("unknown_call", 404, errors.unknown_call("status", wire.CALLS))
        return JSONResponse(asdict(await run_in_threadpool(self._status)))

    async def call(self, request: Request) -> Response:
        call = request.path_params["call"]
        known = self._knows(request)
        try:
            body = await self._body(request, keep=known)
        except ClientDisconnect:
            return Response(status_code=400)  # to nobody
        if not known:
            return _refusal("wrong_token", 401, errors.wrong_token())
        if call not in wire.CALLS:
            return _refusal("unknown_call", 404, errors.unknown_call(call, wire.CALLS))
        if body is None:
            return _refusal("too_large", 413, errors.too_large(self._max_body))
        return await run_in_threadpool(self._answer, call, body)

    def _answer(self, call: str, body: bytes) -> Response:
        try:
            given = wire.arguments(call, body)
            _check(call, given)
            return Response(wire.packed(getattr(self._store, call)(**given)), media_type="application/octet-stream")
        except EventideError as error:
            return _refusal(*errors.code_of(error), error)
        except Exception:
            _log.exception("The call %s failed", call)
            return _refusal("failed", 500, errors.failed_inside())

    def _knows(self, request: Request) -> bool:
        if self._token is None:
            return True
        given = request.headers.get("authorization", "").encode()
        return hmac.compare_digest(given, f"Bearer {self._token}".encode())

    async def _body(self, request: Request, *, keep: bool) -> bytes | None:
        """None if it is too large. It is read even if it is not kept: who still sends one does not hear the answer."""
        kept = bytearray()
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size <= self._max_body:
                kept += chunk if keep else b""
            elif size > 4 * self._max_body:
                break
        return bytes(kept) if size <= self._max_body else None


def _check(call: str, given: dict[str, Any]) -> None:
    """What Python's own callers are kept from before they come here."""
    if call == "create_stream" and given["config"].segments < 1:
        raise marks.bad_segments(given["config"].segments)
    rows = [part.rows for part in given.get("parts", ())] if call == "append" else [given.get("rows", 0)]
    if min(rows, default=0) < 0:
        raise errors.wrong_type("rows", min(rows), "a whole number, 0 or more")


def _refusal(code: str, status: int, error: EventideError) -> Response:
    return JSONResponse({"code": code, "message": str(error)}, status_code=status)
