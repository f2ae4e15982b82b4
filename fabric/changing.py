"""What changes in a network while it runs: circuits, gates and faults of its links."""

from collections.abc import Iterable

from p4reduce.fabric.circuits import Circuits
from p4reduce.fabric.errors import FabricError
from p4reduce.fabric.faults import Faults
from p4reduce.fabric.gates import GateLists, Gates
from p4reduce.fabric.records import NO_LIMIT
from p4reduce.fabric.seen import Seen
from p4reduce.fabric.wiring import set_faults
from p4reduce.topologies import Link
from p4reduce.topologies.model import Hop


class Changing(Seen):
    """The part of a network that changes its links."""

    _circuits: Circuits
    _gates: GateLists
    _seed: int

    def reconfigure(
        self, crossconnect: str | None, circuits: Iterable[Link], at_ps: int | None = None, dark_ps: int = 0
    ) -> None:
        """Join ports of a cross-connect (None: of all of them) from a time on, and all its others to nothing.

        Ports whose circuits change are dark in [at_ps, at_ps + dark_ps), receivers' lock time included; a frame that
        has a bit there then, or whose bits would go two ways, is lost. Circuits that stay carry on. One
        that begins while another is under way is the one that counts, for the ports that it changes.

        circuits: links between switches at ports that lead to the cross-connect, with the rate of both directions
        (:func:`~p4reduce.topologies.optical.lay_circuits`).
        """
        self._circuits.reconfigure(crossconnect, circuits, self._time(at_ps), dark_ps)

    def check_circuits(self, circuits: Iterable[Link]) -> None:
        """`FabricError` for circuits that :meth:`reconfigure` would refuse."""
        self._circuits.check(circuits)

    def set_gates(self, port: Hop, gates: Gates, *, base_ps: int = 0, longest: int | None = None) -> None:
        """From now on a switch's port sends from a queue only while its gate is open (IEEE 802.1Qbv).

        gates: (picoseconds, open queues as bits) in turns, as if since ``base_ps``; none: always open. longest: bytes
        of the longest frame, which must fit in before a gate closes; ``max_frame`` if absent.
        """
        self._gates.set(port, gates, base_ps, longest)

    def set_faults(self, port: Hop, faults: Faults) -> None:
        """From now on this happens to frames that leave a node by a port; those on their way arrive.

        ``Faults(loss=1)`` cuts a direction of a link. Draws go on where they were.
        """
        set_faults(self._wiring.links, self._wiring.link_places, {port: faults}, self._seed)

    def _time(self, at_ps: int | None) -> int:
        time_ps = self.now if at_ps is None else at_ps
        if time_ps > NO_LIMIT:
            raise FabricError(f"at_ps={time_ps} is beyond the end of virtual time, {NO_LIMIT} ps (53 days)")
        if time_ps < self.now:
            raise FabricError(f"at_ps={time_ps} is past: it is {self.now} ps")
        return time_ps
