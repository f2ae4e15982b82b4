"""A world behind a Unix socket. Several may look at it; the orchestrator of the newest term alone gives orders."""

import os
import selectors
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from p4reduce.base.records import plain, restore
from p4reduce.control_plane.orchestrator.executor import Order, Timetable
from p4reduce.control_plane.orchestrator.options import RefusedError
from p4reduce.group import remote
from p4reduce.group.errors import ClusterError
from p4reduce.play.tasks import client
from p4reduce.play.tasks.world import World
from p4reduce.topologies import to_yaml
from p4switch.base.safe_yaml import one_line

# One end of a connection that never blocks: whoever is at the other end may be stopped in the middle of a message.


_CHUNK: Final = 1 << 16


class Peer:
    """A connection with what came in and is not whole, and what is to go out and was not taken yet.

    Attributes
    ----------
    term : int or None
        Of the orchestrator at the other end; None for one that only looks.
    closed : bool
        The other end is gone, or does not speak the protocol.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection: Final = connection
        self.term: int | None = None
        self.closed = False
        self._in = bytearray()
        self._out = bytearray()

    def fileno(self) -> int:
        """For selectors."""
        return self.connection.fileno()

    @property
    def sending(self) -> bool:
        """Whether something is to go out; until then nothing more is taken in."""
        return bool(self._out)

    @property
    def has_more(self) -> bool:
        """Whether a message is here that no selector tells of: from a client that does not wait for answers."""
        return not self._out and remote.is_whole(self._in)

    def receive(self) -> dict[str, Any] | None:
        """A whole message, if there is one now."""
        try:
            message = remote.unpack(self._in, limit=client.LIMIT)
            if message is None:
                data = self.connection.recv(_CHUNK)
                self.closed = not data
                self._in += data
                message = remote.unpack(self._in, limit=client.LIMIT)
        except BlockingIOError:
            return None
        except (OSError, remote.FramingError):
            self.closed = True
            return None
        return message

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message as far as the other end takes it; :meth:`flush` goes on. ``ValueError``: it is too large."""
        self._out += remote.pack(dict(message), limit=client.LIMIT)
        self.flush()

    def flush(self) -> None:
        """Send what is left, as far as the other end takes it."""
        try:
            while self._out:
                del self._out[: self.connection.send(self._out[:_CHUNK])]
        except BlockingIOError:
            return
        except OSError:
            self.closed = True
            self._out.clear()


SILENCE_S: Final = 3600.0
"""without an orchestrator for so long, the network ends"""

MOST_PEERS: Final = 64
"""connections at one time; beyond that the oldest that is not in charge is closed"""
ORDERS: Final = frozenset({"start", "swap", "replan", "keep_plans", "set_schedule", "stop", "advance"})
"""what only the orchestrator in charge may ask"""

STILL_S: Final = 60.0
"""between signs that time is still passing, or is held by somebody who looks"""

Request = dict[str, Any]
Pages = Callable[[World, Request], Any]
"""Answers 'page': somebody wants to look at a world."""


@dataclass(frozen=True)
class _Advance:
    """Time that somebody asked for and that has not passed yet."""

    peer: Peer
    until_ps: int
    after: int | None


class Service:
    """Answers requests; see :class:`~p4reduce.play.tasks.client.RemoteExecutor` for the other end.

    It never waits for one connection: an orchestrator that is stopped, half-way through a message or with an answer
    that it does not take, is displaced by the next term like any other.
    """

    def __init__(self, world: World, path: Path, *, silence_s: float = SILENCE_S, pages: Pages | None = None) -> None:
        """Listen at ``path``, which must not exist; ``ClusterError`` when that is not possible."""
        self._world = world
        self._pages = pages
        self._told_s = 0.0
        self._path = path
        self._silence_s = silence_s
        self._ended = False
        self._peers: list[Peer] = []
        self._advance: _Advance | None = None
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._answers: dict[str, Callable[[Request], Any]] = {
            "hello": self._hello,
            "now": lambda _: world.now(),
            "start": lambda request: world.start(restore(Order, request["order"], topology=world.topology)),
            "swap": lambda request: world.swap(
                str(request["task"]), client.plans_from_data(world.topology, request["plans"])
            ),
            "replan": lambda request: world.replan(
                restore(Order, request["order"], topology=world.topology), at_once=bool(request["at_once"])
            ),
            "keep_plans": lambda request: world.keep_plans(str(request["task"])),
            "set_schedule": lambda request: world.set_schedule(
                restore(Timetable, request["timetable"], topology=world.topology)
            ),
            "turn": lambda _: plain(world.turn()),
            "stop": lambda request: world.stop(str(request["task"])),
            "reports": lambda request: [plain(one) for one in world.reports(int(request["after"]))],
            "running": lambda request: client.running_to_data(world.running(request.get("names"))),
            "interface_bytes": lambda _: client.hops_to_data(world.interface_bytes()),
            "host_bytes": lambda _: client.hops_to_data(world.host_bytes()),
            "links_down": lambda _: sorted(world.links_down()),
            "change_link": self._change_link,
            "page": self._page,
            "end_host": lambda request: world.damage.end_host(str(request["host"]), at_ps=request.get("at_ps")),
            "end_process": lambda request: world.damage.end_process(
                str(request["host"]), task=str(request["task"]), at_ps=request.get("at_ps")
            ),
            "end": self._end,
        }
        try:
            before = os.umask(0o177)  # nobody else reaches the socket
            try:
                self._listener.bind(str(path))
            finally:
                os.umask(before)
            self._listener.listen()
        except OSError as error:
            self._listener.close()
            raise ClusterError(f"{path}: cannot listen there: {error.strerror or error}") from None

    def serve(self) -> None:
        """Serve until one says 'end', or nobody asks for anything for a long time."""
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        try:
            while not self._ended:
                idle = self._advance is None and not any(peer.has_more for peer in self._peers)
                events = self._selector.select(self._silence_s if idle else 0)
                if idle and not events:
                    return
                if any(key.fileobj is self._listener for key, _ in events):
                    self._accept()
                for peer in list(self._peers):
                    self._talk(peer)
                if self._advance is not None and not self._ended:
                    self._go_on(self._advance)
        finally:
            self.close()

    def close(self) -> None:
        """Remove the socket, leave all."""
        for peer in self._peers:
            peer.connection.close()
        self._selector.close()
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        if len(self._peers) >= MOST_PEERS:
            self._drop(next(peer for peer in self._peers if peer.term is None or peer.term < self._world.term))
        peer = Peer(connection)
        self._peers.append(peer)
        self._selector.register(peer, selectors.EVENT_READ)

    def _drop(self, peer: Peer) -> None:
        """A connection is over; time that only its orchestrator wanted stops."""
        if self._advance is not None and self._advance.peer is peer:
            self._advance = None
        self._peers.remove(peer)
        self._selector.unregister(peer)
        peer.connection.close()

    def _talk(self, peer: Peer) -> None:
        """Take one request of a peer that has its last answer."""
        peer.flush()
        if not peer.sending and not self._ended and (request := peer.receive()) is not None:
            if self._advance is not None and self._advance.peer is peer and request.get("do") != "end":
                peer.closed = True  # it asks again before it has its answer: not one of ours
            elif (answer := self._answer(peer, request)) is not None:
                self._send(peer, answer)
        if peer.closed:
            self._drop(peer)
        else:
            self._selector.modify(peer, selectors.EVENT_WRITE if peer.sending else selectors.EVENT_READ)

    @staticmethod
    def _send(peer: Peer, answer: Request) -> None:
        try:
            peer.send(answer)
        except ValueError as error:
            peer.send({"error": one_line(error)})

    def _answer(self, peer: Peer, request: Request) -> Request | None:
        """The answer to a request, whatever it is; None where it comes later."""
        what = one_line(request.get("do"), 60)
        try:
            if what in ORDERS or (what == "end" and peer.term is not None):
                self._check_charge(peer)
            if what == "take_charge":
                self._take_charge(peer, int(request["term"]), str(request["database"]))
                return {"answer": None}
            if what == "advance":
                after = request["after"]
                self._told_s = time.monotonic()
                self._advance = _Advance(peer, int(request["until_ps"]), None if after is None else int(after))
                return None
            handler = self._answers.get(what)
            return {"error": f"unknown request {what!r}"} if handler is None else {"answer": handler(request)}
        except RefusedError as error:
            return {"error": str(error), "refused": True}
        except Exception as error:  # no request may end the network
            return {"error": f"{what}: {type(error).__name__}: {one_line(error)}"}

    def _check_charge(self, peer: Peer) -> None:
        if peer.term is None:
            raise ClusterError("nobody gives orders without a term; take charge first")
        if peer.term < self._world.term:
            raise ClusterError(_taken_over(self._world.term, peer.term))

    def _take_charge(self, peer: Peer, term: int, database: str) -> None:
        if any(other is not peer and other.term == term for other in self._peers):
            raise ClusterError(f"an orchestrator of term {term} is in charge already")
        self._world.take_charge(term, database)
        peer.term = term
        if self._advance is not None:
            waiting, self._advance = self._advance.peer, None
            self._send(waiting, {"error": _taken_over(term, waiting.term)})

    def _go_on(self, advance: _Advance) -> None:
        """Let time pass until all of it has, or somebody else wants something."""
        answer: Request
        try:
            if time.monotonic() - self._told_s > STILL_S:
                self._told_s = time.monotonic()
                self._send(advance.peer, {"still": True})
            now = self._world.advance(advance.until_ps, after=advance.after, unless=self._is_wanted)
            answer = {"answer": now}
            if now < advance.until_ps and (advance.after is None or self._world.news <= advance.after):
                return
        except Exception as error:
            answer = {"error": f"advance: {type(error).__name__}: {one_line(error)}"}
        self._advance = None
        self._send(advance.peer, answer)

    def _is_wanted(self) -> bool:
        return bool(self._selector.select(0)) or time.monotonic() - self._told_s > STILL_S

    def _hello(self, request: Request) -> Request:
        if request.get("version") != client.VERSION:
            raise ClusterError(f"version {request.get('version')!r} of the messages, not {client.VERSION}")
        targets = self._world.switches.targets()
        return {
            "instance": self._world.instance,
            "topology": to_yaml(self._world.topology),
            "program": self._world.program.sha256,
            "background": "" if self._world.background is None else str(self._world.background),
            "targets": [(target.name, target.address, target.device_id) for target in targets],
        }

    def _change_link(self, request: Request) -> None:
        self._world.change_link(
            str(request["a"]), str(request["b"]), up=bool(request["up"]), at_ps=request.get("at_ps")
        )

    def _page(self, request: Request) -> Any:
        if self._pages is None:
            raise ClusterError("this network was started without a page; 'p4reduce orchestrate' starts one with it")
        return self._pages(self._world, request)

    def _end(self, _: Request) -> None:
        self._ended = True


def _taken_over(term: int, from_term: int | None) -> str:
    return f"an orchestrator of term {term} has taken over from that of term {from_term}"
