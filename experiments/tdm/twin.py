"""The electrical twin on packets: a spine for each port of a ToR to the cross-connect, uplinks as fast as those.

Every edge of a tree is several flows, each a share of the vector with a tree of its own, over one spine: with
`eps-ideal` one flow a spine, which is what spraying comes to; with `eps-ecmp` a hash picks the spine of each.
"""

from dataclasses import dataclass, replace
from itertools import pairwise, permutations
from typing import Final
from zlib import crc32

from p4reduce.control_plane.plans import Plan, PlanRequest, TreeLayout
from p4reduce.control_plane.predict import Operation
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.schedule import JobPlan
from p4reduce.experiments.tdm.installing import Installer
from p4reduce.experiments.tdm.pieces import Piece, pieces_of
from p4reduce.topologies import Link, Topology
from p4reduce.topologies.builder import TopologyBuilder
from p4reduce.topologies.model import Hop

ELECTRICAL: Final = ("eps-ideal", "eps-ecmp")
"""policies whose schedules are for the twin"""


@dataclass(frozen=True)
class Hashing:
    """How `eps-ecmp` picks spines: ``flows`` an edge; ``polarized``: not the ToR, only the flow is in the hash."""

    flows: int = 4
    polarized: bool = False


def twin_of(network: OpticalNetwork, delay: str = "1us") -> Topology:
    """The leaf-spine; a circuit's two fibres are the links to a spine and from it."""
    if network.ports < 1:
        raise TdmError("ports: a ToR without ports has no uplinks; packets need at least one")
    builder = TopologyBuilder(f"eps-{network.pods * network.servers}")
    for pod in range(network.pods):
        builder.switch(f"tor{pod + 1}")
    for spine in range(network.ports):
        builder.switch(f"spine{spine + 1}", capable=False)
    for pod in range(network.pods):
        for server in range(network.servers):
            builder.host(network.host(pod, server))
            builder.link(network.host(pod, server), f"tor{pod + 1}", network.rate_bps, delay)
    for pod in range(network.pods):
        for spine in range(network.ports):
            builder.link(f"tor{pod + 1}", f"spine{spine + 1}", network.port_rate_bps, delay)
    return builder.build()


class TwinInstaller(Installer):
    """The same without circuits."""

    hashing = Hashing()
    seed = 1

    def lay(self) -> list[tuple[Link, ...]]:
        """None, whatever the configuration."""
        return [() for _ in self.matrices]

    def rates(self, plan: JobPlan, configuration: int) -> dict[Hop, int]:
        """Links are always as fast as they are."""
        del plan, configuration
        return {}

    def pieces(self, plan: JobPlan, pod: int) -> list[Piece]:
        """Every piece in as many flows as an edge has."""
        found = pieces_of(plan, pod)
        if any(piece.operation is not Operation.ALL_REDUCE for piece in found):
            raise TdmError(f"job {plan.job!r}: the electrical twin adds up along trees, chunk by chunk")
        cut: list[Piece] = []
        for piece in found:
            first, last = piece.span
            count = self._flows if piece.tree.edges else 1
            ends = [first + (last - first) * flow / count for flow in range(count + 1)]
            cut += [replace(piece, span=span) for span in pairwise(ends)]
        return cut

    @property
    def _flows(self) -> int:
        network = self._schedule.network
        return network.ports if self._schedule.policy == "eps-ideal" else self.hashing.flows

    def _spine(self, plan: JobPlan, flow: int, source: str) -> str:
        """Where the ``flow``-th of a job's flows goes from a ToR."""
        ports = self._schedule.network.ports
        if self._schedule.policy == "eps-ideal":
            return f"spine{flow % ports + 1}"
        where = "" if self.hashing.polarized else f"@{source}"
        value = crc32(f"{self.seed}/{plan.job}/{flow}{where}".encode())
        value = (value ^ value >> 16) * 0x45D9F3B & 0xFFFFFFFF
        return f"spine{(value ^ value >> 16) % ports + 1}"

    def _tree(self, piece: Piece, plan: JobPlan, hosts: tuple[str, ...], elements: int, slots: int) -> Plan:
        del elements
        network, tree = self._schedule.network, piece.tree
        parents = {host: f"tor{network.pod_of(host) + 1}" for host in hosts}
        parents |= {f"tor{child + 1}": f"tor{parent + 1}" for child, parent in tree.edges}
        flow = round(piece.span[0] * self._flows)
        paths = {
            (child, parent): (child, parent) if child in hosts else (child, self._spine(plan, flow, child), parent)
            for child, parent in parents.items()
        }
        layout = TreeLayout(f"tor{tree.root + 1}", parents, paths=paths)
        return self._start(plan, PlanRequest("eps", self._next(), workers=hosts, layout=layout, max_slots=slots), ())

    def _routed(
        self, plan: JobPlan, hosts: tuple[str, ...]
    ) -> tuple[dict[tuple[str, str], tuple[str, ...]], dict[tuple[str, str], int], list[Link]]:
        """Switches forward by destination: the flows of a pair of pods are those to its hosts there."""
        network = self._schedule.network
        paths: dict[tuple[str, str], tuple[str, ...]] = {}
        for source, target in permutations(hosts, 2):
            a, b = (f"tor{network.pod_of(host) + 1}" for host in (source, target))
            up = () if a == b else (a, self._spine(plan, hosts.index(target), a))
            paths[source, target] = (source, *up, b, target)
        return paths, dict.fromkeys(paths, -1), []
