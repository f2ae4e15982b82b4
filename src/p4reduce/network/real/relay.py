"""Relays: compiled forwarding between two interfaces, with loss, duplication, reordering and delay of frames.

They are used on links whose ends are not embedded switches: BMv2's, or a host's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self, TypeVar

from p4reduce.network.real.io.path import DataPath, OpenPort, PortPlan, PortSpec, Veth
from p4reduce.network.real.switches import PausingLock, PortCounters, read_incidents, read_port
from p4reduce.network.virtual.counters import Incidents, Where
from p4reduce.network.virtual.records import FabricError, Faults
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4switch.abi import MAX_FRAME_BYTES

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Direction:
    """Counters of one direction of a relay. ``sent``: put on the relay's link, of which ``delivered`` left it."""

    into: PortCounters
    """Counters of the port where frames came in (its ``received_...``)."""
    out: PortCounters
    """Counters of the port by which they left (its ``sent``)."""


class Relays:
    """Forwarder of all frames between the two interfaces of each pair, both ways. A context manager.

    Pair k is one link; its faults and delay are those of a virtual fabric's link, separately in each direction.
    """

    def __init__(
        self,
        pairs: Sequence[tuple[str | PortSpec, str | PortSpec]],
        *,
        faults: Faults | Sequence[Faults] = Faults(),  # noqa: B008  (immutable)
        delay_ps: int | Sequence[int] = 0,
        seed: int = 0,
        max_frame: int = MAX_FRAME_BYTES,
    ) -> None:
        """Open the interfaces; frames move from `start` on.

        Parameters
        ----------
        pairs : sequence of pairs
            Interfaces of this network namespace, or ports of any kind.
        faults, delay_ps : one for all, or one for each pair
            Faults and delay (picoseconds) of the frames; the same in both directions.
        seed : int
            Seed of the faults: direction 2k is from the first to the second interface of pair k, 2k + 1 the other.
        max_frame : int
            Longest frame in bytes, without FCS.

        Raises
        ------
        FabricError
            An interface cannot be opened.
        """
        if not 60 <= max_frame <= MAX_FRAME_BYTES:
            raise FabricError(f"max_frame={max_frame} is not in 60..{MAX_FRAME_BYTES}")
        every_fault = _each("faults", faults, len(pairs))
        every_delay = _each("delay_ps", delay_ps, len(pairs))
        self.count: Final = len(pairs)
        self._lock = PausingLock()
        self._opened: list[OpenPort] = []
        self._path: DataPath | None = None
        self._stopped = False
        try:
            plans = []
            for number, pair in enumerate(pairs):
                for end, interface in enumerate(pair):
                    spec = Veth(interface) if isinstance(interface, str) else interface
                    self._opened.append(OpenPort(f"relay {number}", spec, max_frame))
                    # The link that leaves by the second end is the direction that comes in by the first.
                    plans.append(
                        PortPlan(
                            number,
                            end,
                            self._opened[-1],
                            relay=2 * number + 1 - end,
                            delay_ps=every_delay[number],
                            faults=every_fault[number],
                            draws=2 * number + 1 - end,
                        )
                    )
            self._path = DataPath(
                "relays",
                [f"relay {number}" for number in range(len(pairs))],
                plans,
                seed=seed,
                queue_frames=1,
                max_frame=max_frame,
                max_replicas=1,
                rest_us=0,
                packet_in_limit=1,
            )
        except BaseException:
            self._close()
            raise

    @property
    def _running(self) -> DataPath:
        assert self._path is not None  # noqa: S101
        return self._path

    def start(self) -> None:
        """Begin to forward."""
        self._running.start()
        self._lock.attach(self._running)

    def stop(self) -> None:
        """Stop forwarding and close the interfaces; counters can still be read. May be called again."""
        if self._stopped:
            return
        self._stopped = True
        self._lock.detach(self._running)
        self._running.stop()
        self._close()

    def check(self) -> None:
        """Raise `FabricError` if the thread ended by itself."""
        self._running.check()

    def address(self, pair: int, end: int) -> tuple[str, int]:
        """Return (IP address, UDP port) of the first (0) or second (1) port of a pair, if it is a UDP port."""
        host, number = self._opened[2 * pair + end].socket.getsockname()[:2]
        return str(host), int(number)

    def directions(self, pair: int) -> tuple[Direction, Direction]:
        """Return the counters from the first interface of a pair to the second, and back."""
        with self._lock:
            first, second = (self._read(2 * pair + end) for end in (0, 1))
        return Direction(first, second), Direction(second, first)

    def incidents(self, links: Sequence[tuple[Hop, Hop]], topology: Topology) -> dict[Where, Incidents]:
        """Return the incidents of first transmissions, by the ports at the ends of each pair's link.

        ``links[k]``: the ports behind the first and the second interface of pair k; frames from the first interface
        have left the first of these ports.
        """
        # The record of the link that leaves by the second interface describes frames from the first port.
        ports = [port for a, b in links for port in (b, a)]
        with self._lock:
            return read_incidents(self._running, ports, topology)

    def _read(self, place: int) -> PortCounters:
        path = self._running
        return read_port(path.ports[place], path.links[place], self._opened[place].dropped())

    def _close(self) -> None:
        if self._path is not None:
            self._path.close()
        for opened in self._opened:
            opened.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _each(name: str, setting: _T | Sequence[_T], count: int) -> Sequence[_T]:
    if not isinstance(setting, Sequence):
        return [setting] * count
    if len(setting) != count:
        raise FabricError(f"{name}: {len(setting)} settings for {count} pairs")
    return setting
