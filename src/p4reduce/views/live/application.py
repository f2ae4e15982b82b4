"""The page's web application: access control, answers and server."""

import asyncio
import contextlib
import json
import logging
import secrets
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from functools import partial
from importlib.resources import files
from typing import Any, Final, Protocol

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from p4reduce.base.errors import BadInput
from p4reduce.topologies.model import Hop
from p4reduce.views.live.play import MOST_TEXT, WHICH, PlaySource, TraceSource
from p4reduce.views.live.player import WATCH
from p4reduce.views.live.session import BACKLOG, NotOffered, Source, WantedView
from p4reduce.views.report.curves import DRAWINGS, HALVINGS, PALETTE, load_colour
from p4reduce.views.report.network import NetworkDrawing, draw_inline

# Drawing of a scene, made when a viewer requests it.


MAX_DRAWN: Final = 400
"""Most nodes of a topology that is drawn."""
COLOURS: Final = 32


def drawn(plain: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scene with its drawing as SVG (None: too large), always made here, and the colours."""
    jobs = plain["jobs"]
    paths = list(dict.fromkeys(tuple(path) for job in jobs for path in job["paths"]))
    hosts = {node["name"] for node in plain["nodes"] if node["kind"] == "host"}
    taking = {name for path in paths for name in (path[0], path[-1]) if name in hosts}
    svg = None
    if 0 < len(plain["nodes"]) <= MAX_DRAWN:
        drawing = NetworkDrawing.of_result(
            {"nodes": plain["nodes"], "links": [{"a": link["from"], "b": link["to"]} for link in plain["links"][::2]]},
            title=f"Network {plain['topology']}",
            paths=paths,
            aggregators={name for job in jobs for name in job["switches"]},
            participants=taking if jobs else None,
            marked=True,
        )
        svg = str(draw_inline(drawing))
    return {**plain, "svg": svg, "colours": colours()}


def colours() -> list[dict[str, str]]:
    """Return the colours of loads from the least to the full scale, light and dark."""
    pairs = []
    for number in range(COLOURS):
        style = load_colour(2.0 ** (HALVINGS * ((number + 1) / COLOURS - 1)))
        light, dark = (part.partition(":")[2] for part in style.split(";"))
        pairs.append({"light": light, "dark": dark})
    return pairs


TOKEN: Final = "x-live-token"  # noqa: S105  (the name of a header)
IDLE_S: Final = 9.0
"""Seconds for which a connection may be open without a request with the token, before the first or after an answer."""
MOST_CONNECTIONS: Final = 64
TAKEN_AT_ONCE: Final = 16
"""Connections accepted in one turn of the loop; each is read within three turns, before MOST_CONNECTIONS others can
have taken its place."""
TICK_S: Final = 0.2
QUIET_TICKS: Final = 100
"""Ticks after which a comment is sent, so that a closed page is noticed."""
MOST_BODY: Final = 1 << 16
BODY_S: Final = 10.0
"""Seconds for the body of a request."""
ACTIONS: Final = ("pause", "go", "step", "speed")
STATIC: Final = {
    "page.js": "text/javascript",
    "api.js": "text/javascript",
    "frames.js": "text/javascript",
    "network.js": "text/javascript",
    "panels.js": "text/javascript",
    "play.js": "text/javascript",
    "steps.js": "text/javascript",
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


class Connections:
    """Connections of one server: at most ``MOST_CONNECTIONS``, and none without the token beyond ``IDLE_S``.

    If there are too many, the connection that has been idle longest is closed; a new one is refused only if none is
    idle. So connections held open without the token keep no viewer away.
    """

    def __init__(self) -> None:
        self.idle: dict[_Connection, None] = {}
        """Connections without an active request with the token, the longest idle first."""
        self.busy: set[_Connection] = set()

    def has_room(self) -> bool:
        """Return whether one more may come; close an idle one if that makes room."""
        if len(self.idle) + len(self.busy) < MOST_CONNECTIONS:
            return True
        if not self.idle:
            return False
        next(iter(self.idle)).shut()
        return True


class _Connection(H11Protocol):
    """A connection that is closed after ``IDLE_S`` without a request with the token.

    Requests without it, some of which are answered, do not extend this: otherwise a client that never reads the answers
    would hold its connection for ever.
    """

    def __init__(self, *arguments: Any, connections: Connections, token: str, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._of = connections
        self._token = token
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self._of.has_room():
            self._rest()
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is before or self.transport.is_closing():
            return
        if has_token(Request(dict(self.cycle.scope)), self._token):
            self._forget()
            self._of.busy.add(self)
        elif self in self._of.busy:
            self._rest()

    def on_response_complete(self) -> None:
        cycle = self.cycle
        super().on_response_complete()
        if self.cycle is cycle and self in self._of.busy and not self.transport.is_closing():
            self._rest()

    def shut(self) -> None:
        """Close the connection at once and discard unsent data, also in the system."""
        self._forget()
        at_once = struct.pack("ii", 1, 0)
        self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        self.transport.abort()

    def _rest(self) -> None:
        self._forget()
        self._of.idle[self] = None
        self._deadline = self.loop.call_later(IDLE_S, self.shut)

    def _forget(self) -> None:
        self._of.idle.pop(self, None)
        self._of.busy.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _Server(uvicorn.Server):
    """A server that accepts ``TAKEN_AT_ONCE`` connections in one turn, while ``BACKLOG`` may wait in the system.

    asyncio has one number for both.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or ():
            listener.listen(BACKLOG)


class PageServer:
    """A server for one socket that listens already."""

    def __init__(self, source: Source | PlaySource | TraceSource, token: str, port: int) -> None:
        for name in ("uvicorn", "asyncio"):  # requests of strangers, and exhausted resources, are not news of the run
            logging.getLogger(name).addHandler(logging.NullHandler())
            logging.getLogger(name).propagate = False
        config = uvicorn.Config(
            application(source, token, port, lambda: self._server.should_exit),
            lifespan="off",
            ws="none",
            http=partial(_Connection, connections=Connections(), token=token),  # type: ignore[arg-type]
            loop="asyncio",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
            timeout_keep_alive=int(IDLE_S),
            backlog=TAKEN_AT_ONCE,
        )
        self._server = _Server(config)

    def run(self, listener: socket.socket) -> None:
        """Serve until :meth:`end`; in any thread."""
        with contextlib.suppress(asyncio.CancelledError):
            self._server.run(sockets=[listener])

    def end(self) -> None:
        """Stop; streams to open pages end."""
        self._server.should_exit = True


def application(
    source: Source | PlaySource | TraceSource, token: str, port: int, ending: Callable[[], bool]
) -> ASGIApp:
    """Return the application of a page; ``ending``: whether streams are to end."""
    shown = _Play(source, ending) if isinstance(source, PlaySource | TraceSource) else _Run(source, ending)
    routes = [
        Route("/", partial(_page, shown.page)),
        Route("/static/{name}", _static),
        Route("/api/stream", shown.stream),
        *shown.routes(),
    ]
    return _Guard(
        Starlette(routes=routes, exception_handlers={NotOffered: _not_offered, BadRequest: _bad}), token, port
    )


class BadRequest(ValueError):
    """Raised for a request that cannot be answered; the text gives the reason."""


def has_token(request: Request, token: str) -> bool:
    """Return whether a request has the token: in a header, or for GET also in its address."""
    given = request.headers.get(TOKEN)
    if request.method == "GET":
        given = given or request.query_params.get("token")
    return secrets.compare_digest((given or "").encode(), token.encode())


class _Guard:
    """Guard that admits requests with this server's name and the token, and adds the headers to every answer."""

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
        if refused is not None:  # its body is not read
            refused.headers["connection"] = "close"
        await (self._app if refused is None else refused)(scope, receive, with_headers)

    def _refuse(self, request: Request) -> Response | None:
        if request.headers.get("host", "") not in self._hosts:
            return PlainTextResponse("this server answers to its own address only\n", 421)
        origin = request.headers.get("origin")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            return PlainTextResponse("not from other pages\n", 403)
        if request.url.path.startswith("/static/"):
            return None
        if not has_token(request, self._token):
            return PlainTextResponse("open the address that p4reduce printed: it has a token\n", 403)
        return None


class _Ticking(Protocol):
    """A source with ticks."""

    def tick(self) -> dict[str, Any]: ...

    def looks(self, change: int) -> None: ...


class _Ticks:
    """Stream of a source's ticks."""

    def __init__(self, source: _Ticking, ending: Callable[[], bool]) -> None:
        self._ticking = source
        self._ending = ending
        self._lock = threading.Lock()
        self._said: dict[str, Any] = {}
        self._version = 0

    def _tick(self) -> dict[str, Any]:
        """Return the source's tick with its ``number``, which grows when anything else in it changes.

        Answers may overtake each other: a page drops those older than what it shows.
        """
        with self._lock:
            tick = self._ticking.tick()
            if tick != self._said:
                self._said, self._version = tick, self._version + 1
            return {**tick, "number": self._version}

    async def stream(self, request: Request) -> Response:
        return StreamingResponse(self._ticks(request), media_type="text/event-stream")

    async def _ticks(self, request: Request) -> AsyncIterator[bytes]:
        self._ticking.looks(1)
        try:
            last, quiet = "", 0
            while not self._ending():
                text = json.dumps(self._tick())
                if text != last or quiet >= QUIET_TICKS:
                    last, quiet = text, 0
                    yield f"data: {text}\n\n".encode()
                quiet += 1
                await asyncio.sleep(TICK_S)
        finally:
            self._ticking.looks(-1)


class _Run(_Ticks):
    """Requests of a run's page."""

    page = "index.html"

    def __init__(self, source: Source, ending: Callable[[], bool]) -> None:
        super().__init__(source, ending)
        self._source = source

    def routes(self) -> list[Route]:
        return [
            Route("/api/scene", self.scene),
            Route("/api/view", self.view),
            Route("/api/frames", self.frames),
            Route("/api/flights", self.flights),
            Route("/api/steps", self.steps),
            Route("/api/trace", self.trace, methods=["POST"]),
            Route("/api/run", self.run, methods=["POST"]),
            Route("/metrics", self.metrics),
        ]

    def scene(self, request: Request) -> Response:
        return JSONResponse(drawn(self._source.scene()))

    def view(self, request: Request) -> Response:
        query = request.query_params
        time_ps = query.get("time")
        wanted = WantedView(
            None if time_ps in {None, "", "now"} else _whole("time", str(time_ps)),
            _whole("offset", query.get("offset", "0")),
            query.get("switch") or None,
            query.get("job") or None,
        )
        return JSONResponse(self._source.view(wanted))

    def metrics(self, request: Request) -> Response:
        from p4reduce.views import metrics  # noqa: PLC0415  (for those who ask)

        try:
            return Response(metrics.of_source(self._source), media_type=metrics.CONTENT_TYPE)
        except BadInput as error:
            return PlainTextResponse(f"{error}\n", 501)

    def frames(self, request: Request) -> Response:
        query = request.query_params
        time_ps = _whole("time", query["time"]) if "time" in query else None
        return JSONResponse(self._source.frames(self._link(query), time_ps))

    def flights(self, request: Request) -> Response:
        span = [_whole(name, request.query_params.get(name, "")) for name in ("from", "to")]
        return JSONResponse(self._source.flights(*span))

    def steps(self, request: Request) -> Response:
        return JSONResponse(self._source.replay(_whole("frame", request.query_params.get("frame", ""))))

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
        number = number or (action == "speed" and value == WATCH)
        if (value is not None and not (number and (value == WATCH or 0 <= value < 1 << 62))) or (
            action == "speed" and value == 0
        ):
            raise BadRequest("value: a number of picoseconds")
        self._source.control(action, value)
        return JSONResponse(self._tick())

    def _link(self, given: Any) -> Hop:
        node, port = given.get("node"), _whole("port", str(given.get("port", "")))
        known = {(link["from"], link["port"]) for link in self._source.scene()["links"]}
        if (node, port) not in known:
            raise BadRequest("node, port: no link leaves there")
        return str(node), port


class _Play(_Ticks):
    """Requests of the page of a playground, or of traces."""

    page = "play.html"

    def __init__(self, source: PlaySource | TraceSource, ending: Callable[[], bool]) -> None:
        super().__init__(source, ending)
        self._source = source

    def routes(self) -> list[Route]:
        own = [Route("/api/files", self.files)]
        if isinstance(self._source, PlaySource):
            own += [
                Route("/api/try", partial(self.attempt, self._source), methods=["POST"]),
                Route("/api/save", partial(self.save, self._source), methods=["POST"]),
            ]
        return own

    def files(self, request: Request) -> Response:
        try:
            return JSONResponse(self._source.files())
        except BadInput as error:
            raise NotOffered(str(error)) from None

    async def attempt(self, source: PlaySource, request: Request) -> Response:
        asked = await _body(request, MOST_TEXT)
        texts = {which: text for which in WHICH if isinstance(text := asked.get(which), str)}
        if len(texts) < len(WHICH):
            raise BadRequest(f"{', '.join(WHICH)}: a text each")
        return JSONResponse(await asyncio.to_thread(source.attempt, texts))

    async def save(self, source: PlaySource, request: Request) -> Response:
        asked = await _body(request, MOST_TEXT)
        which, text, base = (asked.get(name) for name in ("which", "text", "base"))
        if which not in WHICH or not isinstance(text, str) or not isinstance(base, str):
            raise BadRequest("which, text, base: one of the page's texts, and the digest that it had")
        return JSONResponse({"digest": await asyncio.to_thread(source.save, which, text, base)})


def _whole(name: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        raise BadRequest(f"{name}: a whole number") from None
    if not -(1 << 62) < number < 1 << 62:
        raise BadRequest(f"{name}: a whole number")
    return number


async def _body(request: Request, most: int = MOST_BODY) -> dict[str, Any]:
    text = b""
    try:
        async with asyncio.timeout(BODY_S):
            async for part in request.stream():
                text += part
                if len(text) > most:
                    raise BadRequest("the request is too long")
    except TimeoutError:
        raise BadRequest(f"the request did not come within {BODY_S:g} s") from None
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        raise BadRequest("the request is no JSON") from None
    if not isinstance(body, dict):
        raise BadRequest("the request is no JSON object")
    return body


def _page(name: str, request: Request) -> Response:
    return Response(_read(name), media_type="text/html")


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name == "colours.css":
        return Response(PALETTE + DRAWINGS, media_type="text/css")
    if name not in STATIC:
        return PlainTextResponse("there is no such file\n", 404)
    return Response(_read(name), media_type=STATIC[name])


def _read(name: str) -> bytes:
    return files("p4reduce.views.live").joinpath("static", name).read_bytes()


async def _not_offered(request: Request, error: Exception) -> Response:
    """Answer normally, not with an error: a run may end while its page requests something."""
    return JSONResponse({"refused": str(error)})


async def _bad(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 400)
