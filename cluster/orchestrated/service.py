"""A world behind a Unix socket: one orchestrator after the other talks to it."""

import os
import select
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from p4reduce.cluster import framing
from p4reduce.cluster.errors import ClusterError
from p4reduce.cluster.orchestrated import wire
from p4reduce.cluster.orchestrated.world import World
from p4reduce.control_plane.errors import PlanError
from p4reduce.fabric.errors import FabricError
from p4reduce.topologies import to_yaml

SILENCE_S: Final = 3600.0
"""without an orchestrator for so long, the network ends"""

Request = dict[str, Any]


class Service:
    """Answers requests; see :class:`~p4reduce.cluster.orchestrated.client.RemoteExecutor` for the other end."""

    def __init__(self, world: World, path: Path, *, silence_s: float = SILENCE_S) -> None:
        """Listen at ``path``, which must not exist; ``ClusterError`` when that is not possible."""
        self._world = world
        self._path = path
        self._silence_s = silence_s
        self._ended = False
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._answers: dict[str, Callable[[Request], Any]] = {
            "hello": self._hello,
            "now": lambda _: world.now(),
            "start": lambda request: world.start(wire.order_from_data(world.topology, request["order"])),
            "swap": lambda request: world.swap(
                str(request["task"]), wire.plans_from_data(world.topology, request["plans"])
            ),
            "stop": lambda request: world.stop(str(request["task"])),
            "advance": lambda request: world.advance(int(request["until_ps"]), after=request["after"]),
            "reports": lambda request: [wire.report_to_data(one) for one in world.reports(int(request["after"]))],
            "running": lambda _: wire.running_to_data(world.running()),
            "interface_bytes": lambda _: wire.hops_to_data(world.interface_bytes()),
            "links_down": lambda _: sorted(world.links_down()),
            "change_link": self._change_link,
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
        """Serve one connection after the other until one says 'end', or nobody comes for a long time."""
        try:
            while not self._ended:
                ready, _, _ = select.select([self._listener], [], [], self._silence_s)
                if not ready:
                    return
                connection, _ = self._listener.accept()
                connection.settimeout(self._silence_s)
                with connection:
                    self._talk(connection)
        finally:
            self.close()

    def close(self) -> None:
        """Remove the socket."""
        self._listener.close()
        self._path.unlink(missing_ok=True)

    def _talk(self, connection: socket.socket) -> None:
        """Answer until the other end is gone; an orchestrator may be killed at any moment."""
        try:
            while not self._ended and (request := wire.receive(connection)) is not None:
                wire.send(connection, self._answer(request))
        except (OSError, framing.FramingError):
            return

    def _answer(self, request: Request) -> Request:
        what = request.get("do")
        handler = self._answers.get(str(what))
        if handler is None:
            return {"error": f"unknown request {what!r}"}
        try:
            return {"answer": handler(request)}
        except (ClusterError, FabricError, PlanError, ValueError, KeyError, TypeError) as error:
            return {"error": f"{what}: {type(error).__name__}: {error}"}

    def _hello(self, request: Request) -> Request:
        if request.get("version") != wire.VERSION:
            raise ClusterError(f"version {request.get('version')!r} of the messages, not {wire.VERSION}")
        targets = self._world.switches.targets()
        return {
            "instance": self._world.instance,
            "topology": to_yaml(self._world.topology),
            "program": self._world.program.sha256,
            "targets": [(target.name, target.address, target.device_id) for target in targets],
        }

    def _change_link(self, request: Request) -> None:
        self._world.change_link(
            str(request["a"]), str(request["b"]), up=bool(request["up"]), at_ps=request.get("at_ps")
        )

    def _end(self, _: Request) -> None:
        self._ended = True
