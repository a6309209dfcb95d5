"""The HTTP face of a controller: every call of its store as ``POST /v1/CALL``, for writers and readers without the
database.

A request is the call's arguments as ``wire`` packs them, an answer what it gives; a refusal is JSON with ``code`` and
``message``. ``GET /health`` says that it is there, ``GET /v1/status`` what the controller knows of its streams.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import asdict

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from eventide.errors import controller as errors
from eventide.errors.kinds import EventideError
from eventide.marks.controller import wire
from eventide.marks.controller.checks import check
from eventide.marks.controller.guard import Guard
from eventide.marks.controller.status import Status
from eventide.marks.stores.store import Store

_log = logging.getLogger("eventide.marks")


def app(
    store: Store,
    *,
    token: str,
    hosts: Collection[str] | None = (),
    max_body: int = wire.MAX_BODY,
    status: Callable[[], Status] | None = None,
) -> Starlette:
    """The application. Every request but ``/health`` must have the ``token``.

    ``hosts`` are the names under which it may be asked, beside those of loopback; None: any.
    """
    face = _Face(store, Guard(token, hosts), max_body, status)
    return Starlette(
        routes=[
            Route("/health", face.health, methods=["GET"]),
            Route("/v1/status", face.status, methods=["GET"]),
            Route("/v1/{call}", face.call, methods=["POST"]),
        ]
    )


class _Face:
    def __init__(self, store: Store, guard: Guard, max_body: int, status: Callable[[], Status] | None) -> None:
        self._store = store
        self._guard = guard
        self._max_body = max_body
        self._status = status

    async def health(self, request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def status(self, request: Request) -> Response:
        refused = self._guard.refused(request)
        if refused is not None:
            return _refusal(*refused, close=True)
        if self._status is None:
            return _refusal("unknown_call", 404, errors.unknown_call("status", wire.CALLS))
        return JSONResponse(asdict(await run_in_threadpool(self._status)))

    async def call(self, request: Request) -> Response:
        call = request.path_params["call"]
        refused = self._guard.refused(request)
        try:
            body = await self._body(request, keep=refused is None)
        except ClientDisconnect:
            return Response(status_code=400)  # to nobody
        if refused is not None:
            return _refusal(*refused, close=True)
        if call not in wire.CALLS:
            return _refusal("unknown_call", 404, errors.unknown_call(call, wire.CALLS))
        if body is None:
            return _refusal("too_large", 413, errors.too_large(self._max_body))
        return await run_in_threadpool(self._answer, call, body)

    def _answer(self, call: str, body: bytes) -> Response:
        try:
            given = wire.arguments(call, body)
            check(self._store, call, given)
            return Response(wire.packed(getattr(self._store, call)(**given)), media_type="application/octet-stream")
        except EventideError as error:
            return _refusal(*errors.code_of(error), error)
        except Exception:
            _log.exception("The call %s failed", call)
            return _refusal("failed", 500, errors.failed_inside())

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


def _refusal(code: str, status: int, error: EventideError, *, close: bool = False) -> Response:
    """Why a call was not done. Who may not call at all does not keep the connection."""
    headers = {"Connection": "close"} if close else None
    return JSONResponse({"code": code, "message": str(error)}, status_code=status, headers=headers)
