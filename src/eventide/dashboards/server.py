"""The web server of a dashboard: one page, its data as JSON, and a stream of events for each query."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import threading
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from eventide._web_server import WebServer
from eventide.dashboards.access import Access, Guard
from eventide.dashboards.query_view import charts, summary
from eventide.dashboards.stored_state import StoredStateReader
from eventide.dashboards.watched_queries import QueryDirectory, WatchedQuery
from eventide.errors import EventideError, PlanError
from eventide.marks.controller.http_client import is_loopback

STATIC = Path(__file__).parent / "static"
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_MAX_BODY = 4096  # bytes of a command
_POLL = 0.5  # seconds between two looks at a history
_HEARTBEAT = 15.0  # seconds after which a silent connection is used, so that proxies keep it
_POINTS = (10, 2000)
_STATE_TIMEOUT = 20.0  # seconds for reading the state of a query


def create_app(
    queries: QueryDirectory,
    *,
    token: str,
    allow_control: bool = False,
    hosts: Collection[str] = (),
    behind_after: int | None = None,
    poll: float = _POLL,
    state_timeout: float = _STATE_TIMEOUT,
) -> Starlette:
    """Return the application. Everything except its static files needs the ``token``."""
    access = Access(token, hosts)
    endpoints = _Endpoints(queries, access, allow_control, behind_after, poll, state_timeout)
    api = "/api/queries/{id:path}"
    app = _Application(
        access,
        routes=[
            Route("/", endpoints.page),
            Route("/static/{name}", endpoints.static),
            Route("/api/queries", endpoints.list),
            Route(f"{api}/charts", endpoints.charts),
            Route(f"{api}/events", endpoints.events),
            Route(f"{api}/commands", endpoints.command, methods=["POST"]),
            Route(f"{api}/state", endpoints.state),
            Route(f"{api}/summary", endpoints.summary),
        ],
    )
    app.state.stopping = endpoints.stopping
    return app


class _Application(Starlette):
    """The application behind its guard, which also sees errors and unknown paths."""

    def __init__(self, access: Access, *, routes: Sequence[Route]) -> None:
        super().__init__(routes=routes)
        self.router.redirect_slashes = False
        self._access = access

    def build_middleware_stack(self) -> ASGIApp:
        """Return the guard with everything behind it."""
        return Guard(super().build_middleware_stack(), self._access)


class DashboardServer(WebServer):
    """Serves a dashboard."""

    def __init__(self, app: Starlette, host: str, port: int, token: str) -> None:
        super().__init__(app, host, port, name="dashboard", timeout_graceful_shutdown=2)
        self.url = f"{self.address}/?token={token}"
        self._thread: threading.Thread | None = None
        self._stopping: threading.Event = app.state.stopping

    def __repr__(self) -> str:
        return f"<Dashboard at {self.url}>"

    def _repr_html_(self) -> str:
        from html import escape

        url = escape(self.url, quote=True)
        return f'<a href="{url}" target="_blank" rel="noopener noreferrer">{escape(self.address)}</a>'

    def start_in_background(self) -> None:
        """Serve in a thread until ``stop()`` or the end of the program."""
        self._thread = threading.Thread(target=self.serve_until_stopped, name="eventide-dashboard", daemon=True)
        self._thread.start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams of events, which do not end by themselves, then stop."""
        self._stopping.set()
        await super().shutdown(sockets)

    def stop(self) -> None:
        """Stop serving."""
        super().stop()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self._socket.close()


def create_server(
    queries: QueryDirectory,
    *,
    host: str = "127.0.0.1",
    port: int = 8080,
    token: str | None = None,
    allow_control: bool = False,
    hosts: Collection[str] = (),
    behind_after: int | None = None,
) -> DashboardServer:
    """Return a server that is bound to its address and does not serve yet."""
    token = secrets.token_urlsafe(32) if token is None else token
    if not (len(token) >= 16 and token.isascii() and all(char.isalnum() or char in "-_.~" for char in token)):
        raise PlanError(
            "The token of a dashboard has at least 16 letters, digits, or - _ . ~, because it is part of a URL. Leave "
            "it out to get a random token."
        )
    named = {*hosts, *([] if host in ("0.0.0.0", "::") or is_loopback(host) else [host])}
    app = create_app(queries, token=token, allow_control=allow_control, hosts=named, behind_after=behind_after)
    return DashboardServer(app, host, port, token)


class _Endpoints:
    def __init__(
        self,
        queries: QueryDirectory,
        access: Access,
        allow_control: bool,
        behind_after: int | None,
        poll: float,
        state_timeout: float,
    ) -> None:
        self._queries = queries
        self._access = access
        self._allow_control = allow_control
        self._behind_after = behind_after
        self._poll = poll
        self._state_timeout = state_timeout
        self._stored_state = StoredStateReader()
        self.stopping = threading.Event()

    async def page(self, request: Request) -> Response:
        """Return the page. The token of its URL becomes a cookie."""
        token = request.query_params.get("token")
        has_token = token is not None and self._access.is_token(token)
        if not has_token and (rejection := self._access.reject(request, opens_page=True)) is not None:
            return _rejected(*rejection)
        response = _file(STATIC / "index.html")
        if has_token:
            response.set_cookie(
                self._access.cookie_name(request),
                self._access.cookie_value,
                httponly=True,
                samesite="strict",
                secure=request.url.scheme == "https",
            )
        return response

    async def static(self, request: Request) -> Response:
        """Return a file of the page. These files are the same for everybody, so they need no token."""
        name = request.path_params["name"]
        known = {file.name: file for file in STATIC.iterdir() if file.suffix in _TYPES and file.suffix != ".html"}
        return _file(known[name]) if name in known else _rejected(404, "There is no such file.")

    async def list(self, request: Request) -> Response:
        """Return the summaries of all queries."""
        if (rejection := self._access.reject(request)) is not None:
            return _rejected(*rejection)

        def read() -> list[dict[str, Any]]:
            return [self._summary(query) for query in self._queries.look()]

        return _json({"queries": await run_in_threadpool(read), "allow_control": self._allow_control})

    async def summary(self, request: Request) -> Response:
        """Return the summary of a query."""
        return await self._of_query(request, self._summary)

    async def charts(self, request: Request) -> Response:
        """Return the columns of the charts of a query, for a range of processing time or the last batches."""
        try:
            since, until, last, points = (_number(request, name) for name in ("since", "until", "last", "points"))
        except ValueError:
            return _rejected(400, "since, until, last and points are whole numbers.")
        low, high = _POINTS
        limit = 600 if points is None else min(max(points, low), high)
        newest = None if last is None else max(last, 1)

        def read(query: WatchedQuery) -> Mapping[str, Any]:
            with query.lock:
                query.refresh()
                return charts(query, since=since, until=until, last=newest, points=limit)

        return await self._of_query(request, read)

    async def state(self, request: Request) -> Response:
        """Return the largest keys of a query, read from its checkpoint: on demand, and one query at a time."""
        if (rejection := self._access.reject(request)) is not None:
            return _rejected(*rejection)
        query = self._queries.get(request.path_params["id"])
        if query is None:
            return _rejected(404, "There is no such query.")
        try:
            content = await asyncio.wait_for(asyncio.to_thread(self._stored_state.read, query), self._state_timeout)
        except TimeoutError:
            return _rejected(503, "Reading the state takes too long for a page. Read it with eventide inspect --keys.")
        except (EventideError, OSError) as error:
            return _rejected(409, str(error))
        return _json(content)

    async def events(self, request: Request) -> Response:
        """Send the summary of a query now and after each batch, as server-sent events."""
        if (rejection := self._access.reject(request)) is not None:
            return _rejected(*rejection)
        query = self._queries.get(request.path_params["id"])
        if query is None:
            return _rejected(404, "There is no such query.")
        return StreamingResponse(self._follow(query, request), media_type="text/event-stream")

    async def command(self, request: Request) -> Response:
        """Send a command to a query: one file in its control directory."""
        if (rejection := self._access.reject(request)) is not None:
            return _rejected(*rejection)
        if not self._allow_control:
            return _rejected(403, "This dashboard is read-only. Start it with --allow-control to send commands.")
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return _rejected(415, "A command is JSON.")
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > _MAX_BODY:
                return _rejected(413, "This command is too long.")
        try:
            command = json.loads(body)
        except ValueError:
            return _rejected(400, "A command is a JSON object.")
        query = self._queries.get(request.path_params["id"])
        if query is None:
            return _rejected(404, "There is no such query.")
        try:
            id_ = await run_in_threadpool(send_command, query, command)
        except PlanError as error:
            return _rejected(400, str(error))
        return _json({"id": id_}, 202)

    async def _follow(self, query: WatchedQuery, request: Request) -> AsyncIterator[bytes]:
        shown, silent = "", 0.0
        while not (self.stopping.is_set() or await request.is_disconnected()):
            text = json.dumps(await run_in_threadpool(self._summary, query), ensure_ascii=False)
            if text != shown:
                shown, silent = text, 0.0
                yield f"event: summary\ndata: {text}\n\n".encode()
            elif silent >= _HEARTBEAT:
                silent = 0.0
                yield b": still here\n\n"
            await asyncio.sleep(self._poll)
            silent += self._poll

    async def _of_query(self, request: Request, read: Callable[[WatchedQuery], Mapping[str, Any]]) -> Response:
        if (rejection := self._access.reject(request)) is not None:
            return _rejected(*rejection)
        query = self._queries.get(request.path_params["id"])
        if query is None:
            return _rejected(404, "There is no such query.")
        return _json(await run_in_threadpool(read, query))

    def _summary(self, query: WatchedQuery) -> dict[str, Any]:
        with query.lock:
            query.refresh()
            content = summary(query, behind_after=self._behind_after)
        return content | {"allow_control": self._allow_control and query.control is not None}


def send_command(query: WatchedQuery, command: Any) -> str:
    """Send a command, and return its id."""
    control = query.control
    if control is None:
        raise PlanError("A history file without its checkpoint takes no commands.")
    do = command.get("do") if isinstance(command, dict) else None
    origin = command.get("origin") if isinstance(command, dict) else None
    if do == "drain":
        return control.drain()
    if do not in ("retire", "skip_gap"):
        raise PlanError("A dashboard sends drain, retire and skip_gap. For other commands use the command line.")
    if origin is not None and not isinstance(origin, str):
        raise PlanError("The origin of a command is its name, as text.")
    if do == "retire":
        if "origin" not in command:
            raise PlanError("retire needs the name of an origin; null is that of rows without an origin.")
        return control.retire(origin)
    up_to = command.get("up_to")
    if up_to is not None and type(up_to) is not int:
        raise PlanError("up_to is the last sequence number to skip, a whole number.")
    return control.skip_gap(origin, up_to=up_to)


def _number(request: Request, name: str) -> int | None:
    text = request.query_params.get(name)
    number = None if text is None else int(text)
    if number is not None and abs(number) >= 1 << 63:
        raise ValueError(name)
    return number


def _file(path: Path) -> Response:
    return Response(path.read_bytes(), media_type=_TYPES[path.suffix])


def _json(content: Any, status: int = 200) -> Response:
    return JSONResponse(content, status_code=status)


def _rejected(status: int, message: str) -> Response:
    return _json({"message": message}, status)
