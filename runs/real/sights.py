"""What can be seen of a network in real time while it carries packets, and why not what cannot."""

import importlib.resources
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from p4reduce.control_plane.plans import Plan
from p4reduce.dataplane.device import Device
from p4reduce.dataplane.trace.glossary import of_folder
from p4reduce.dataplane.trace.what_if import what_if
from p4reduce.fabric.real.host import DeviceHost
from p4reduce.runs.real.link_sights import Interfaces, LinkSights
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop

MOST_CELLS: Final = 65_536
"""slots of all switches together that are read at once"""
MOST_FRAMES: Final = 32
CATCH_S: Final = 0.3
"""for which frames of a link are caught"""
_ETH_P_ALL: Final = 3
_LONGEST: Final = 65_536
NO_SLOTS: Final = (
    "BMv2 does not let P4Runtime read registers, so slots are not shown; what switches told workers that asked is."
)
NO_TRACE: Final = (
    "BMv2 does not tell what it did with a packet: 'p4reduce net up --target bmv2 --trace' has it logged, "
    "'p4reduce trace' shows what the program does."
)
NO_FRAMES: Final = (
    "Links are datagrams between processes here, which nobody else sees; with --links veth frames are caught."
)


class NotSeenError(ValueError):
    """What cannot be seen here, and why."""


@dataclass(frozen=True)
class Sights:
    """A network in real time.

    Attributes
    ----------
    topology : Topology
        The network.
    target : str
        'embedded' or 'bmv2'.
    links : callable
        What links have carried.
    plans : callable
        The plans of the jobs that are installed now.
    host : DeviceHost or None
        Of embedded switches, which stand still while its lock is held.
    interfaces : mapping or None
        Of switches' ports, where links are those of the kernel.
    records : mapping
        Files with the endpoints of hosts (``Endpoints.kept_in``), by host.
    notes : sequence of str
        For people: who counts what.
    """

    topology: Topology
    target: str
    links: Callable[[], LinkSights]
    plans: Callable[[], Sequence[Plan]]
    host: DeviceHost | None = None
    interfaces: Interfaces | None = None
    records: Mapping[str, Path] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def why_no_slots(self) -> str:
        """Empty where slots are read."""
        return NO_SLOTS if self.host is None else ""

    @property
    def why_no_frames(self) -> str:
        """Empty where frames are caught."""
        return NO_FRAMES if self.interfaces is None else ""

    def moment(self) -> tuple[int, LinkSights, dict[tuple[int, int], dict[str, list[int]]]]:
        """Nanoseconds of the machine's monotonic clock, links, and by (job, epoch) the slots of each switch."""
        at_ns, links = time.monotonic_ns(), self.links()
        if self.host is None or not any(plan.aggregators for plan in self.plans()):
            return at_ns, links, {}
        with self.host.lock:
            return at_ns, links, self._slots()

    def _slots(self) -> dict[tuple[int, int], dict[str, list[int]]]:
        left = MOST_CELLS
        found: dict[tuple[int, int], dict[str, list[int]]] = {}
        for plan in self.plans():
            own = found.setdefault((plan.job, plan.epoch), {})
            for aggregator in plan.aggregators:
                left -= aggregator.slots
                device = self._device(aggregator.name)
                if device is None or left < 0:
                    continue
                names = [name for name in device.registers if name.rsplit(".", 1)[-1] == "slots"]
                for register in (device.registers[name] for name in names[:1]):
                    cells = register.copy(aggregator.base, aggregator.base + aggregator.slots)
                    own[aggregator.name] = [cells.read(place) for place in range(aggregator.slots)]
        return found

    def frames(self, link: Hop) -> list[bytes]:
        """Frames that arrive by a link within `CATCH_S`, at most `MOST_FRAMES`. Raises `NotSeenError`."""
        if self.interfaces is None:
            raise NotSeenError(NO_FRAMES)
        node, port = self._end(link)
        name = self.interfaces.get(node, {}).get(port)
        if name is None:
            raise NotSeenError(f"{node} is a host: frames are caught where they come to a switch.")
        found: list[bytes] = []
        deadline = time.monotonic() + CATCH_S
        try:
            with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as tap:
                tap.bind((name, _ETH_P_ALL))
                while len(found) < MOST_FRAMES and (left := deadline - time.monotonic()) > 0:
                    tap.settimeout(left)
                    frame, _, _, address = tap.recvmsg(_LONGEST, 0)
                    if address[2] != socket.PACKET_OUTGOING:
                        found.append(frame)
        except TimeoutError:
            pass
        except OSError as error:
            raise NotSeenError(f"frames at {name} cannot be caught: {error.strerror or error}") from None
        return found

    def trace(self, link: Hop, frame: bytes) -> dict[str, Any]:
        """What the switch at a link's end would do with a frame now, on a copy of it. Raises `NotSeenError`."""
        node, port = self._end(link)
        if self.topology.node(node).is_host:
            raise NotSeenError(f"{node} is a host: it takes the frame itself, no P4 program sees it")
        if self.host is None:
            raise NotSeenError(NO_TRACE)
        root = Path(str(importlib.resources.files("p4reduce")))
        with self.host.lock:
            device = self._device(node)
            if device is None:
                raise NotSeenError(f"{node} has no program")
            try:
                return {"switch": node, **what_if(device, port, frame, [root], of_folder(root / "p4src"))}
            except ValueError as error:
                raise NotSeenError(str(error)) from None

    def _end(self, link: Hop) -> Hop:
        """Where a link leads: (node, port)."""
        try:
            node = self.topology.neighbour(*link)
            return node, self.topology.link_at(*link).port_of(node)
        except (KeyError, IndexError, ValueError):
            raise NotSeenError(f"no link leaves {link[0]} by port {link[1]}") from None

    def _device(self, switch: str) -> Device | None:
        return None if self.host is None else self.host.device(switch)
