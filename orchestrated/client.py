"""The executor in another process, as the orchestrator sees it."""

import socket
from collections.abc import Collection, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from p4reduce.base.records import plain, restore
from p4reduce.base.safe_yaml import read_yaml
from p4reduce.comm import framing
from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.connection import Target
from p4reduce.control_plane.orchestrator.errors import RefusedError
from p4reduce.control_plane.orchestrator.executor import Order, Report, Role, Running
from p4reduce.control_plane.orchestrator.timetable import Timetable, Turn
from p4reduce.control_plane.plans import Plan
from p4reduce.orchestrated import wire
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4reduce.topologies.schema import build

PATIENCE_S: Final = 600.0
"""for one answer: an ``advance`` carries the packets of all tasks"""


class AbsentError(ClusterError):
    """No network listens at a socket, or it ended before it answered."""


class RemoteExecutor:
    """An :class:`~p4reduce.control_plane.orchestrator.executor.Executor` behind a socket. Raises ``ClusterError``."""

    def __init__(self, path: Path, *, patience_s: float = PATIENCE_S) -> None:
        """Connect to the network that serves at ``path``."""
        self._path = path
        self._patience_s = patience_s
        self._connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._connection.settimeout(patience_s)
        try:
            self._connection.connect(str(path))
            hello = self._ask("hello", version=wire.VERSION)
        except OSError as error:
            self._connection.close()
            raise AbsentError(f"{path}: no network answers there: {error.strerror or error}") from None
        except ClusterError:
            self._connection.close()
            raise
        self._instance = str(hello["instance"])
        self.topology: Topology = build(read_yaml(hello["topology"]), "network")
        """The network's."""
        self.program = str(hello["program"])
        """SHA-256 of the JSON that its switches run."""
        self.background = str(hello["background"])
        """Traffic of others in it, as :func:`~p4reduce.fabric.background.parse_background` takes it; '' without."""
        self.targets = [Target(name, address, device_id) for name, address, device_id in hello["targets"]]
        """Where its switches answer."""

    @property
    def instance(self) -> str:
        """Which network this is."""
        return self._instance

    def take_charge(self, term: int, database: str) -> None:
        """Give orders from now on; those of an earlier term are refused."""
        self._ask("take_charge", term=term, database=database)

    def now(self) -> int:
        """Its virtual time."""
        return int(self._ask("now"))

    def start(self, order: Order) -> None:
        """Run a task."""
        self._ask("start", order=plain(order))

    def swap(self, task: str, plans: Mapping[Role, Plan]) -> None:
        """Change a task's jobs to other epochs."""
        self._ask("swap", task=task, plans=wire.plans_to_data(plans))

    def replan(self, order: Order, *, at_once: bool = False) -> None:
        """Give a task other plans between two rounds."""
        self._ask("replan", order=plain(order), at_once=at_once)

    def keep_plans(self, task: str) -> None:
        """Forget an order to replan that waits."""
        self._ask("keep_plans", task=task)

    def set_schedule(self, timetable: Timetable) -> None:
        """Have tasks take turns from the end of this round on."""
        self._ask("set_schedule", timetable=plain(timetable))

    def turn(self) -> Turn:
        """Which schedule holds, and the present configuration."""
        return restore(Turn, self._ask("turn"))

    def stop(self, task: str) -> None:
        """Give a task up."""
        self._ask("stop", task=task)

    def advance(self, until_ps: int, *, after: int | None = None) -> int:
        """Let time pass."""
        return int(self._ask("advance", until_ps=until_ps, after=after))

    def reports(self, after: int) -> list[Report]:
        """What happened."""
        return [restore(Report, data) for data in self._ask("reports", after=after)]

    def running(self, names: Collection[str] | None = None) -> dict[str, Running]:
        """Tasks that were started."""
        return wire.running_from_data(self._ask("running", names=None if names is None else list(names)))

    def interface_bytes(self) -> dict[Hop, int]:
        """Bytes that interfaces have sent."""
        return wire.hops_from_data(self._ask("interface_bytes"))

    def host_bytes(self) -> dict[Hop, int]:
        """Bytes that hosts have sent for tasks."""
        return wire.hops_from_data(self._ask("host_bytes"))

    def links_down(self) -> set[Hop]:
        """Links without a carrier."""
        return {(node, port) for node, port in self._ask("links_down")}

    def change_link(self, a: str, b: str, *, up: bool, at_ps: int | None = None) -> None:
        """Cut or mend a link of the network, now or at a time; ``TopologyError`` when there is none."""
        self.topology.link_between(a, b)
        self._ask("change_link", a=a, b=b, up=up, at_ps=at_ps)

    def page(self, **wanted: Any) -> Any:
        """What a network answers whose process has a live page (``cli/live/tasks``)."""
        return self._ask("page", **wanted)

    def end_host(self, host: str, *, at_ps: int | None = None) -> None:
        """A host ends, with all processes at it, now or at a time."""
        self._ask("end_host", host=host, at_ps=at_ps)

    def end_process(self, host: str, *, task: str, at_ps: int | None = None) -> None:
        """The process of a task at a host ends, now or at a time."""
        self._ask("end_process", host=host, task=task, at_ps=at_ps)

    def end(self) -> None:
        """Have the network end, and close."""
        self._ask("end")
        self.close()

    def close(self) -> None:
        """Leave; the network stays."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ask(self, what: str, **fields: Any) -> Any:
        try:
            try:
                wire.send(self._connection, {"do": what, **fields})
            except ValueError as error:  # too large: nothing was sent
                raise RefusedError(f"{what}: {error}") from None
            answer = wire.receive(self._connection)
            while answer is not None and answer.get("still"):  # time passes, or somebody who looks holds it
                answer = wire.receive(self._connection)
        except TimeoutError:
            raise ClusterError(
                f"{self._path}: the network did not answer {what} within {self._patience_s:g} s"
            ) from None
        except (OSError, framing.FramingError) as error:
            raise AbsentError(f"{self._path}: the network was lost in {what}: {error}") from None
        if answer is None:
            raise AbsentError(f"{self._path}: the network was lost in {what}: it has ended")
        if answer.get("refused"):
            raise RefusedError(str(answer["error"]))
        if "error" in answer:
            raise ClusterError(f"{self._path}: {answer['error']}")
        return answer["answer"]
