"""All jobs on one topology that never changes: what policies without switching plan."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from p4reduce.control_plane.tdm.crossing import cross
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.gpus import share_gpus
from p4reduce.control_plane.tdm.grouping import Rounds, search_partition
from p4reduce.control_plane.tdm.groups import NEVER, Group, TreeGroups
from p4reduce.control_plane.tdm.hosts import Placement, busiest_gpu_s, busiest_nic_s, on_hosts
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.packing import Packed, search
from p4reduce.control_plane.tdm.parts import parts_of
from p4reduce.control_plane.tdm.registry import Options


@dataclass(frozen=True)
class Together:
    """Jobs in one layer of GPUs, or in two that share them."""

    given: tuple[int, ...]
    layers: tuple[int, ...]
    """of each job"""
    packed: Packed
    placements: tuple[Placement, ...]
    training_s: float
    """until all have trained, GPUs shared"""
    communication_s: float
    """of all at once"""


def plan_together(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> Together:
    """The same packing, trees and pipelining as with switching, for all jobs at once; of several layerings the best.

    Raises
    ------
    TdmError
        When jobs do not fit two layers, or no circuits do.
    """
    best: Together | None = None
    for layers, given in _layerings(jobs, network, options):
        found = _lay(jobs, network, options, layers, given)
        if best is None or _total(found) < _total(best):
            best = found
    if best is None or _total(best) == NEVER:
        raise TdmError(
            f"circuits: no placement was found in which {network.ports} ports of a ToR are enough; use more ports"
        )
    return best


def two_layers(jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options) -> Group:
    """The jobs of the first of two groups that both fit the GPUs; those that communicate together with switching."""
    planner = TreeGroups(jobs, network, moves=min(options.moves, 2000), seed=options.seed)
    rounds = Rounds(jobs, planner, network.delta_s)
    return search_partition(rounds, restarts=options.restarts, seed=options.seed).groups[0].jobs


def _layerings(
    jobs: Sequence[TdmJob], network: OpticalNetwork, options: Options
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    try:
        given = tuple(share_gpus(jobs, network.all_gpus))
    except TdmError:
        first = two_layers(jobs, network, options)
        layers = tuple(0 if j in first else 1 for j in range(len(jobs)))
        found = [0] * len(jobs)
        for layer in (0, 1):
            own = [j for j in range(len(jobs)) if layers[j] == layer]
            for j, units in zip(own, share_gpus([jobs[j] for j in own], network.all_gpus), strict=True):
                found[j] = units
        return [(layers, tuple(found))]
    shares = [given]
    if any(job.elastic for job in jobs):
        for share in (0.75, 0.5):
            try:
                shares.append(tuple(share_gpus(jobs, int(network.all_gpus * share))))
            except TdmError:
                continue
        if all(job.elastic for job in jobs) and len(jobs) <= network.pods:
            whole = [network.pod_gpus] * len(jobs)
            for _ in range(network.pods - len(jobs)):
                whole[max(range(len(jobs)), key=lambda j: jobs[j].work / whole[j])] += network.pod_gpus
            shares.append(tuple(whole))
    return [((0,) * len(jobs), one) for one in shares]


def _lay(
    jobs: Sequence[TdmJob],
    network: OpticalNetwork,
    options: Options,
    layers: tuple[int, ...],
    given: tuple[int, ...],
) -> Together:
    parts = parts_of(jobs, given, network, layers)
    packed = search(parts, network, moves=options.moves, restarts=3, seed=options.seed)
    placements: list[Placement] = [()] * len(jobs)
    for layer in sorted(set(layers)):
        own = [j for j in range(len(jobs)) if layers[j] == layer]
        on = on_hosts([jobs[j] for j in own], [packed.units[j] for j in own], network, longest_last=layer == 1)
        for j, placement in zip(own, on, strict=True):
            placements[j] = placement
    circuits_s = packed.circuit_bytes / network.circuit
    if circuits_s == NEVER and network.ports and any(part.alltoall for part in parts):
        with suppress(TdmError):
            circuits_s = cross(parts, packed, network, returns=True).seconds
    return Together(
        given,
        layers,
        packed,
        tuple(placements),
        busiest_gpu_s(jobs, placements, network),
        max(circuits_s, busiest_nic_s(jobs, placements, network)),
    )


def _total(found: Together) -> float:
    return found.training_s + found.communication_s
