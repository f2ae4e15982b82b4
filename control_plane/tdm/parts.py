"""Jobs as packing sees them."""

from collections.abc import Sequence

from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.packing import Part


def parts_of(
    jobs: Sequence[TdmJob], given: Sequence[int], network: OpticalNetwork, layers: Sequence[int] | None = None
) -> list[Part]:
    """Jobs as packing sees them; an a2a sends in both phases."""
    found = []
    for place, (job, units) in enumerate(zip(jobs, given, strict=True)):
        fixed = None
        if job.hosts:
            counts = [0] * network.pods
            for host in job.hosts:
                counts[network.pod_of(host)] += 1
            fixed = tuple(counts)
        alltoall = job.kind == "a2a"
        load = job.bytes * (2 if alltoall else 1)
        found.append(Part(load, units, alltoall, 0 if layers is None else layers[place], fixed))
    return found
