"""Which members still reach each other, where links and switches are known to be down."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.plans import Plan
from p4reduce.topologies import Topology
from p4reduce.topologies.damaged import Ends, unreachable, without


class Reach:
    """A network, as far as it is not known to be damaged, and the members at its hosts.

    ``hosts``: of members, by rank. ``links`` and ``switches`` are what is down; whoever learns of more adds to them.
    """

    def __init__(self, topology: Topology, hosts: Sequence[str], links: set[Ends], switches: set[str]) -> None:
        self._topology = topology
        self._hosts = hosts
        self.links = links
        self.switches = switches

    @property
    def view(self) -> Topology:
        """What is left of the network."""
        return without(self._topology, self.links, self.switches)

    def apart(self, hosts: Iterable[str]) -> frozenset[str]:
        """Hosts that cannot go on with the others: the largest part does."""
        return unreachable(self._topology, hosts, self.links, self.switches)

    def damaged(self, plan: Plan) -> bool:
        """Whether a plan uses a link or a switch that is down."""
        return any(
            frozenset(pair) in self.links or {*pair} & self.switches
            for path in plan.paths.values()
            for pair in pairwise(path)
        )

    def lost(self, members: Sequence[int], dead: Mapping[int, str]) -> tuple[dict[int, str], tuple[int, ...]]:
        """Members that are dead or that no tree reaches any more, and why; those of them that live.

        ``ClusterError`` where no two of those who are left reach each other.
        """
        found = {member: dead[member] for member in members if member in dead}
        left = [member for member in members if member not in found]
        hosts = self.apart([self._hosts[member] for member in left])
        if hosts and len(left) - len(hosts) == 1:
            raise ClusterError("the network has fallen apart: no two ranks reach each other any more")
        cut = tuple(member for member in left if self._hosts[member] in hosts)
        return found | dict.fromkeys(cut, "cannot be reached any more"), cut
