"""What happened to first transmissions at our ports, by the names of a topology."""

from collections.abc import Iterable

from p4reduce.fabric.counters import Incidents, Where
from p4reduce.fabric.real.io.path import ADDRESSES, DataPath
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop


def read_incidents(path: DataPath, ports: Iterable[Hop], topology: Topology) -> dict[Where, Incidents]:
    """The incidents of a paused or stopped data path, whose links are named by ``ports`` in their order."""
    path.drain()
    names = {node.index if node.is_host else ADDRESSES + node.index: node.name for node in topology.nodes}
    where = list(ports)
    return {
        Where(where[link], names.get(destination, ""), job): seen
        for (link, destination, job), seen in path.recordings.incidents().items()
    }
