"""Taking turns beside no TDM, the source's system, one topology, darkness, and electrical networks."""

import statistics
from collections.abc import Sequence
from dataclasses import replace

from p4reduce.control_plane.tdm.electrical import ecmp_s, ideal_s
from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.grouping import Rounds, search_partition
from p4reduce.control_plane.tdm.groups import SeedGroups, TreeGroups
from p4reduce.control_plane.tdm.jobs import TdmJob
from p4reduce.control_plane.tdm.network import OpticalNetwork
from p4reduce.control_plane.tdm.packing import demand, search
from p4reduce.control_plane.tdm.parts import parts_of
from p4reduce.control_plane.tdm.registry import Options, make_schedule
from p4reduce.control_plane.tdm.rounds import Reading
from p4reduce.experiments.tdm.instances import KINDS, SIGMA, X1, elastic, gangs
from p4reduce.experiments.tdm.planning.values import Values


def gains(seed: int, quick: bool) -> Values:
    """no TDM, seed, one topology and ideal EPS over `tdm`, for R = 4, 3, 2 and both loads."""
    found: Values = {}
    for load in (1.0, 0.5):
        for ports in (4, 3, 2):
            network = replace(X1, ports=ports)
            jobs = gangs(network, seed, sigma=SIGMA, load=load)
            ours = make_schedule("tdm", jobs, network).round_s
            found[f"no-tdm R={ports} c/w={load:g}"] = [make_schedule("no-tdm", jobs, network).round_s / ours]
            if load == 1.0:
                rounds = Rounds(jobs, SeedGroups(jobs, network), network.delta_s)
                found[f"seed R={ports}"] = [search_partition(rounds, evaluations=50 if quick else 200).round_s / ours]
                found[f"static R={ports}"] = [make_schedule("static", jobs, network).round_s / ours]
                found[f"frozen R={ports}"] = _frozen(jobs, network)
                found[f"ideal R={ports}"] = [ours / make_schedule("eps-ideal", jobs, network).round_s]
    for ports in (4, 2):
        network = replace(X1, ports=ports)
        jobs = elastic(network, seed, jobs=12, sigma=SIGMA)
        ratio = make_schedule("no-tdm", jobs, network).round_s / make_schedule("tdm", jobs, network).round_s
        found[f"elastic R={ports}"] = [ratio]
    return found


def mixed(seed: int, quick: bool) -> Values:
    """The same with all-to-all jobs, which need a circuit to every pod they are in; 0 where no topology does."""
    del quick
    found: Values = {}
    for ports in (4, 3, 2):
        network = replace(X1, ports=ports)
        jobs = gangs(network, seed, sigma=SIGMA, kinds=KINDS["mixed"])
        ours = make_schedule("tdm", jobs, network).round_s
        for policy in ("no-tdm", "static"):
            try:
                value = make_schedule(policy, jobs, network).round_s / ours
            except TdmError:
                value = 0.0
            found[f"mixed {policy} R={ports}"] = [value]
    return found


def _frozen(jobs: Sequence[TdmJob], network: OpticalNetwork) -> list[float]:
    """One topology for the placements that `tdm` chose: only trees may change; 0 where ports are too few for that."""
    rounds = Rounds(jobs, TreeGroups(jobs, network), network.delta_s)
    best = search_partition(rounds)
    layers = [layer for layer, group in enumerate(best.groups) for _ in group.jobs]
    own = [jobs[j] for group in best.groups for j in group.jobs]
    units = [row for group in best.groups for row in group.units]
    parts = [
        replace(part, fixed=row)
        for part, row in zip(parts_of(own, [job.units for job in own], network, layers), units, strict=True)
    ]
    packed = search(parts, network, one_topology=True, restarts=2)
    if packed.circuit_bytes == float("inf"):
        return [0.0]
    times = [max(group.communication_s, packed.circuit_bytes / network.circuit) for group in best.groups]
    one, other = best.groups
    return [(max(times[0], other.training_s) + max(times[1], one.training_s)) / best.round_s]


def delta(seed: int, quick: bool) -> Values:
    """What darkness costs, hidden behind training and not."""
    del quick
    found: Values = {}
    jobs = gangs(X1, seed, sigma=SIGMA)
    readings: tuple[Reading, ...] = ("overlap", "serial")
    for reading in readings:
        options = Options(reading=reading)
        least = make_schedule("tdm", jobs, X1.with_delta(0.0), options).round_s
        for delta_s in (0.2e-3, 1e-3, 10e-3):
            round_s = make_schedule("tdm", jobs, X1.with_delta(delta_s), options).round_s
            found[f"{reading} {delta_s * 1e3:g} ms"] = [100 * (round_s / least - 1)]
    return found


def electrical(seed: int, quick: bool) -> Values:
    """Communication with ECMP over that with circuits, and ideal EPS, for groups of `tdm` at R = 2."""
    network = replace(X1, ports=2)
    jobs = gangs(network, seed, sigma=SIGMA)
    planner = TreeGroups(jobs, network)
    best = search_partition(Rounds(jobs, planner, network.delta_s))
    found: Values = {}
    for group in best.groups:
        if group.packed is None:
            continue
        parts = parts_of([jobs[j] for j in group.jobs], group.given, network)
        nic_s = planner.bound(group.jobs)[0]
        for flows in (1, 4, 16):
            for polarized in (False, True):
                draws = range(5 if quick else 20)
                times = [
                    max(nic_s, ecmp_s(group.packed, parts, network, flows=flows, polarized=polarized, seed=s))
                    for s in draws
                ]
                name = f"ecmp {flows}" + (" polarized" if polarized else "")
                found.setdefault(name, []).append(statistics.fmean(times) / group.communication_s)
        ideal = max(nic_s, ideal_s(demand(group.packed, parts, network.pods).astype(float), network))
        found.setdefault("over ideal", []).append(group.communication_s / ideal)
    return found
