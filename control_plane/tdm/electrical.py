"""The electrical twin: a leaf-spine with one spine for each OXC port of a ToR, uplinks as fast as those ports."""

from collections.abc import Sequence

import numpy as np

from p4reduce.control_plane.tdm.demand import Floats
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.packing import Packed, Part


def ideal_s(demand: Floats, network: OpticalNetwork) -> float:
    """Seconds with packets sprayed evenly: the busiest ToR's bytes, out or in, over R * B."""
    most = max(float(demand.sum(axis=1).max(initial=0.0)), float(demand.sum(axis=0).max(initial=0.0)))
    if not most:
        return 0.0
    return most / (network.ports * network.circuit) if network.ports else float("inf")


def ecmp_s(
    packed: Packed, parts: Sequence[Part], network: OpticalNetwork, *, flows: int, polarized: bool, seed: int
) -> float:
    """Seconds with ECMP: every directed edge of a tree is ``flows`` flows of equal size, each on a random spine.

    Of two levels only the ToR chooses. With the switch in the hash every flow of every ToR is drawn for itself.
    Polarized (ToRs hash alike, and flows of a job differ in nothing that the hash sees but their number), a job's k-th
    flow takes the same spine from every ToR.
    """
    if not network.ports:
        return float("inf") if any(packed.edges) else 0.0
    random = np.random.default_rng(seed)
    up = np.zeros((network.pods, network.ports))
    down = np.zeros((network.pods, network.ports))
    for units, edges, part in zip(packed.units, packed.edges, parts, strict=True):
        pairs = [pair for a, b in edges for pair in ((a, b), (b, a))]
        sizes = [float(part.load)] * len(pairs)
        if part.alltoall:
            used = [pod for pod, count in enumerate(units) if count]
            pairs = [(a, b) for a in used for b in used if a != b]
            sizes = [float(part.load) * units[a] * units[b] for a, b in pairs]
        common = random.integers(0, network.ports, flows)
        for (a, b), size in zip(pairs, sizes, strict=True):
            spines = common if polarized else random.integers(0, network.ports, flows)
            np.add.at(up[a], spines, size / flows)
            np.add.at(down[b], spines, size / flows)
    return float(max(up.max(initial=0.0), down.max(initial=0.0))) / network.circuit
