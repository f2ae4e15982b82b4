"""The page and what it asks for: who is let in, what is answered, and how it is served."""

import asyncio
import contextlib
import json
import secrets
import socket
from collections.abc import AsyncIterator, Callable
from importlib.resources import files
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from p4reduce.cli.live.drawing import drawn
from p4reduce.cli.live.source import NotOffered, Source, Wanted
from p4reduce.cli.report.style import DRAWINGS, PALETTE
from p4reduce.topologies.model import Hop

TOKEN: Final = "x-live-token"  # noqa: S105  (the name of a header)
TICK_S: Final = 0.2
QUIET_TICKS: Final = 100
"""after which a comment is sent, so that a page that went away is noticed"""
MOST_BODY: Final = 1 << 16
ACTIONS: Final = ("pause", "go", "step", "speed")
STATIC: Final = {
    "page.js": "text/javascript",
    "api.js": "text/javascript",
    "network.js": "text/javascript",
    "panels.js": "text/javascript",
    "timeline.js": "text/javascript",
    "units.js": "text/javascript",
    "live.css": "text/css",
    "icon.svg": "image/svg+xml",
}
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Serving:
    """A server for one socket that listens already."""

    def __init__(self, source: Source, token: str, port: int) -> None:
        config = uvicorn.Config(
            application(source, token, port, lambda: self._server.should_exit),
            lifespan="off",
            ws="none",
            http="h11",
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
            timeout_keep_alive=30,
        )
        self._server = uvicorn.Server(config)

    def run(self, listener: socket.socket) -> None:
        """Until :meth:`end`; in any thread."""
        with contextlib.suppress(asyncio.CancelledError):
            self._server.run(sockets=[listener])

    def end(self) -> None:
        """Stop; streams to pages that are open end."""
        self._server.should_exit = True


def application(source: Source, token: str, port: int, ending: Callable[[], bool]) -> ASGIApp:
    """The page and what it asks for; ``ending``: whether streams are to end."""
    api = _Api(source, ending)
    routes = [
        Route("/", _page),
        Route("/static/{name}", _static),
        Route("/api/stream", api.stream),
        Route("/api/scene", api.scene),
        Route("/api/view", api.view),
        Route("/api/frames", api.frames),
        Route("/api/trace", api.trace, methods=["POST"]),
        Route("/api/run", api.run, methods=["POST"]),
    ]
    return _Guard(
        Starlette(routes=routes, exception_handlers={NotOffered: _not_offered, BadRequest: _bad}), token, port
    )


class BadRequest(ValueError):
    """A request that cannot be answered; the text says why."""


class _Guard:
    """Lets requests in that name this server and have the token; adds the headers to every answer."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token
        self._hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [
                    *message.get("headers", []),
                    *((name.encode(), value.encode()) for name, value in HEADERS.items()),
                ]
            await send(message)

        if scope["type"] != "http":
            return
        refused = self._refuse(Request(scope))
        await (self._app if refused is None else refused)(scope, receive, with_headers)

    def _refuse(self, request: Request) -> Response | None:
        if request.headers.get("host", "") not in self._hosts:
            return PlainTextResponse("this server answers to its own address only\n", 421)
        origin = request.headers.get("origin")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            return PlainTextResponse("not from other pages\n", 403)
        if request.url.path.startswith("/static/"):
            return None
        given = request.headers.get(TOKEN) if request.method != "GET" else None
        if request.method == "GET":
            given = request.headers.get(TOKEN) or request.query_params.get("token")
        if not secrets.compare_digest((given or "").encode(), self._token.encode()):
            return PlainTextResponse("open the address that p4reduce printed: it has a token\n", 403)
        return None


class _Api:
    def __init__(self, source: Source, ending: Callable[[], bool]) -> None:
        self._source = source
        self._ending = ending

    async def stream(self, request: Request) -> Response:
        return StreamingResponse(self._ticks(request), media_type="text/event-stream")

    async def _ticks(self, request: Request) -> AsyncIterator[bytes]:
        self._source.looks(1)
        try:
            said, quiet = "", 0
            while not self._ending():
                text = json.dumps(self._source.tick())
                if text != said or quiet >= QUIET_TICKS:
                    said, quiet = text, 0
                    yield f"data: {text}\n\n".encode()
                quiet += 1
                await asyncio.sleep(TICK_S)
        finally:
            self._source.looks(-1)

    def scene(self, request: Request) -> Response:
        return JSONResponse(drawn(self._source.scene()))

    def view(self, request: Request) -> Response:
        query = request.query_params
        time_ps = query.get("time")
        wanted = Wanted(
            None if time_ps in {None, "", "now"} else _whole("time", str(time_ps)),
            _whole("offset", query.get("offset", "0")),
            query.get("switch") or None,
            query.get("job") or None,
        )
        return JSONResponse(self._source.view(wanted))

    def frames(self, request: Request) -> Response:
        return JSONResponse(self._source.frames(self._link(request.query_params)))

    async def trace(self, request: Request) -> Response:
        asked = await _body(request)
        link = self._link(asked)
        try:
            frame = bytes.fromhex(asked["frame"])
        except (KeyError, TypeError, ValueError):
            raise BadRequest("frame: hexadecimal digits") from None
        if not 14 <= len(frame) <= MOST_BODY:
            raise BadRequest("frame: an Ethernet frame")
        return JSONResponse(await asyncio.to_thread(self._source.trace, link, frame))

    async def run(self, request: Request) -> Response:
        asked = await _body(request)
        action, value = asked.get("action"), asked.get("value")
        if action not in ACTIONS:
            raise BadRequest(f"action: one of {', '.join(ACTIONS)}")
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if (value is not None and not (number and 0 <= value < 1 << 62)) or (action == "speed" and value == 0):
            raise BadRequest("value: a number of picoseconds")
        self._source.control(action, value)
        return JSONResponse(self._source.tick())

    def _link(self, given: Any) -> Hop:
        node, port = given.get("node"), _whole("port", str(given.get("port", "")))
        known = {(link["from"], link["port"]) for link in self._source.scene()["links"]}
        if (node, port) not in known:
            raise BadRequest("node, port: no link leaves there")
        return str(node), port


def _whole(name: str, text: str) -> int:
    try:
        found = int(text)
    except ValueError:
        raise BadRequest(f"{name}: a whole number") from None
    if not -(1 << 62) < found < 1 << 62:
        raise BadRequest(f"{name}: a whole number")
    return found


async def _body(request: Request) -> dict[str, Any]:
    text = b""
    async for part in request.stream():
        text += part
        if len(text) > MOST_BODY:
            raise BadRequest("the request is too long")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise BadRequest("the request is no JSON") from None
    if not isinstance(found, dict):
        raise BadRequest("the request is no JSON object")
    return found


def _page(request: Request) -> Response:
    return Response(_read("index.html"), media_type="text/html")


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name == "colours.css":
        return Response(PALETTE + DRAWINGS, media_type="text/css")
    if name not in STATIC:
        return PlainTextResponse("there is no such file\n", 404)
    return Response(_read(name), media_type=STATIC[name])


def _read(name: str) -> bytes:
    return files("p4reduce.cli.live").joinpath("static", name).read_bytes()


async def _not_offered(request: Request, error: Exception) -> Response:
    """An answer, not an error: a run may end while its page asks for something."""
    return JSONResponse({"refused": str(error)})


async def _bad(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400)
