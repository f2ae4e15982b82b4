"""From the network's counts to the result of a run."""

import functools
import importlib.metadata
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import p4reduce
from p4reduce.base.registry import requirements
from p4reduce.control_plane.counters import (
    Fate,
    LinkIncident,
    Operation,
    SwitchCounters,
    Traffic,
    add,
    compare_counters,
    compare_links,
    expected_on_links,
    lossy_bound_ps,
    parts_bound,
    plan_bound,
)
from p4reduce.control_plane.entries import P4Program
from p4reduce.control_plane.plans.best import FORESTS
from p4reduce.control_plane.plans.routes import hops, on_wire_ps
from p4reduce.network.jobs.network import Job
from p4reduce.network.virtual import Incidents, LinkCounters, Where
from p4reduce.runs.experiment import FaultOptions
from p4reduce.runs.jobs import FlowCarrier, RunJobs
from p4reduce.runs.result import CollectiveRecord, LinkLoad, NetworkResult, StepResult, Steps, TreeEdge
from p4reduce.runs.virtual.carrier import Carrier
from p4reduce.runs.virtual.surviving import SurvivingCarrier
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop


@dataclass(frozen=True)
class CarriedCounts:
    """Collectives carried and counters read, in virtual time or on real links."""

    topology: Topology
    jobs: Sequence[Job]
    """The first job is the one that the run is about."""
    links: Mapping[Hop, LinkCounters] | None
    """None if nothing was counted: links then carry what is predicted."""
    incidents: Mapping[Where, Incidents]
    counters: dict[str, SwitchCounters]
    """Counters of the P4 program."""
    unseen_losses: bool = False
    """Whether frames may be lost without a record in ``incidents``, e.g. in a kernel or BMv2."""
    uncounted_queues: bool = False
    """Whether switches may lose such frames before they count them as sent (BMv2's output queues)."""
    interrupted: bool = False
    """Whether collectives were given up: their frames cannot be predicted."""


def network_result(carrier: RunJobs, steps: Steps | None = None) -> NetworkResult:
    """Return the network's result, checked against the predictions. Frames under way arrive first.

    ``steps``: of a script; None: each collective is a step. The flow model counts nothing: its bytes are predicted.
    """
    if isinstance(carrier, FlowCarrier):
        modelled = CarriedCounts(carrier.topology, carrier.jobs, None, {}, {})
        return result_of(modelled, carrier.records, carrier.result_sha256, steps, carrier.experiment.faults)
    if not isinstance(carrier, Carrier):
        raise TypeError(f"{type(carrier).__name__} has no network to look at")
    carrier.drain()
    network = carrier.network.fabric
    counters = carrier.switches.controller.read_counters()
    journal = carrier.journal.decisions if isinstance(carrier, SurvivingCarrier) else []
    observed = CarriedCounts(
        carrier.topology,
        carrier.jobs,
        network.links,
        network.incidents(),
        counters,
        interrupted=bool(journal or carrier.closings.happened),
    )
    result = result_of(observed, carrier.records, carrier.result_sha256, steps, carrier.experiment.faults)
    closings = carrier.closings
    left_out = [record for job in sorted(closings.left_out) for record in closings.left_out[job].records()]
    return replace(result, membership=list(journal), closed=list(closings.happened), left_out=left_out)


def result_of(
    observed: CarriedCounts,
    records: Sequence[CollectiveRecord],
    digest: str,
    steps: Steps | None = None,
    faults: FaultOptions | None = None,
) -> NetworkResult:
    """Return the figures of a run, with all differences of counts from predictions. ``faults``: of every link."""
    predicted = add({}, *(job.predicted() for job in observed.jobs if job.carried))
    links = _links(observed, predicted)
    plan = observed.jobs[0].plan
    mesh = (len(plan.workers), Operation.ALL_TO_ALL)
    hop = plan_bound(plan, *mesh).hop if plan.mesh else plan_bound(plan, 1).hop
    if any(name in plan.name for name in FORESTS):
        hop = parts_bound([(job.plan, _elements(job)) for job in observed.jobs if job.plan.name == plan.name]).hop
    # In the flow model unused links are not listed.
    busiest = max(links, key=lambda load: load.bytes, default=_predicted_load(observed.topology, hop, Traffic()))
    total = sum(load.bytes for load in links)
    median = _median_record(records) if steps is None else steps.median
    least = _least_with_losses(observed, median, faults)
    iterations = len(records) if steps is None else len(steps.every)
    return NetworkResult(
        plan=plan.name,
        topology=observed.topology.name,
        workers=len(plan.workers),
        lanes=plan.lanes,
        elements=median.elements if median else 0,
        window=plan.window,
        slots=plan.slots,
        slots_limited=plan.slots_limited,
        rtt_ps=plan.rtt_ps,
        communication_ps=median.communication_ps if median else 0,
        bound_ps=median.bound_ps if median else 0,
        bound_link=f"{hop[0]} -> {observed.topology.neighbour(*hop)}",
        ratio_to_bound=median.communication_ps / median.bound_ps if median and median.bound_ps else 0.0,
        loss_bound_ps=least,
        ratio_to_loss_bound=median.communication_ps / least if median and least else None,
        total_bytes=total,
        busiest_bytes=busiest.bytes,
        busiest_link=f"{busiest.node} -> {busiest.peer}",
        bytes_per_iteration=total // max(1, iterations),
        prediction_differences=[] if observed.interrupted or observed.links is None else _differences(observed),
        result_sha256=digest,
        refused=_refused(observed.counters),
        steps=None if steps is None else len(steps.every),
        steps_by=None if steps is None else steps.how,
        collectives=list(records),
        links=links,
        tree=[edge for job in observed.jobs for edge in _edges(job)],
    )


def _least_with_losses(
    observed: CarriedCounts, median: CollectiveRecord | StepResult | None, faults: FaultOptions | None
) -> int | None:
    """Return the bound of the median collective with its links' losses.

    None without losses, for a script, and where several groups or collectives could have the median.
    """
    loss = faults.missing if faults else 0.0
    jobs = [job for job in observed.jobs if job.carried]
    if not loss or not jobs or not isinstance(median, CollectiveRecord) or not median.bound_ps:
        return None
    if {job.plan.name for job in jobs} != {observed.jobs[0].plan.name}:
        return None
    if len({(job.plan.workers, job.plan.server) for job in jobs}) > 1:
        return None
    most = [max(elements for _, elements, _ in job.carried) for job in jobs]
    largest = {
        operation for job, n in zip(jobs, most, strict=True) for operation, elements, _ in job.carried if elements == n
    }
    operation = next((operation for operation in largest if len(largest) == 1 or operation == median.operation), None)
    if operation is None:
        return None
    parts = [(job.plan, elements) for job, elements in zip(jobs, most, strict=True)]
    return lossy_bound_ps(median.bound_ps, loss, parts, operation)


def describe_topology(topology: Topology) -> dict[str, Any]:
    """Return nodes and links as plain data, for drawing."""
    return {
        "name": topology.name,
        "nodes": [
            {
                "name": node.name,
                "kind": node.kind,
                "role": node.role,
                "capable": node.capable,
                "position": node.position,
            }
            for node in topology.nodes
        ],
        "links": [
            {"a": link.a, "b": link.b, "rate_bps": link.rate_bps, "delay_ps": link.delay_ps} for link in topology.links
        ],
    }


def _median_record(records: Sequence[CollectiveRecord]) -> CollectiveRecord | StepResult | None:
    """Return the record of median communication time, among those that move the most elements."""
    largest = [record for record in records if record.elements == max(other.elements for other in records)]
    if not largest:
        return None
    middle = statistics.median_low(record.communication_ps for record in largest)
    return next(record for record in largest if record.communication_ps == middle)


def _links(observed: CarriedCounts, predicted: dict[Hop, Traffic]) -> list[LinkLoad]:
    if observed.links is None:
        return [_predicted_load(observed.topology, hop, traffic) for hop, traffic in predicted.items()]
    loads = []
    for (node, port), seen in observed.links.items():
        expected = predicted.get((node, port), Traffic())
        loads.append(
            LinkLoad(
                node=node,
                port=port,
                peer=observed.topology.neighbour(node, port),
                frames=seen.frames,
                bytes=seen.bytes,
                first_frames=seen.inc_first_frames,
                first_bytes=seen.inc_first_bytes,
                resend_frames=seen.inc_resend_frames,
                resend_bytes=seen.inc_resend_bytes,
                predicted_frames=expected.frames,
                predicted_bytes=expected.bytes,
                lost=seen.lost,
                duplicated=seen.duplicated,
                reordered=seen.reordered,
                corrupted=seen.corrupted,
                queue_drops=seen.queue_drops,
                max_queue=seen.max_depth,
                busy_ps=seen.busy_ps,
            )
        )
    return loads


def _predicted_load(topology: Topology, hop: Hop, traffic: Traffic) -> LinkLoad:
    """Return the load of a link that carries what is predicted."""
    node, port = hop
    rate = topology.link_at(*hop).rate_bps
    return LinkLoad(
        node=node,
        port=port,
        peer=topology.neighbour(node, port),
        frames=traffic.frames,
        bytes=traffic.bytes,
        first_frames=traffic.frames,
        first_bytes=traffic.bytes,
        resend_frames=0,
        resend_bytes=0,
        predicted_frames=traffic.frames,
        predicted_bytes=traffic.bytes,
        lost=0,
        duplicated=0,
        reordered=0,
        corrupted=0,
        queue_drops=0,
        max_queue=0,
        busy_ps=on_wire_ps(traffic.frames, traffic.bytes, rate),
    )


def _elements(job: Job) -> int:
    """Return the elements that a job has carried: its part of the arrays."""
    return max(1, sum(elements for operation, elements, _ in job.carried if operation is Operation.ALL_REDUCE))


def _differences(observed: CarriedCounts) -> list[str]:
    """Return the differences of predicted and counted first transmissions, on links and at the P4 program's ports."""
    incidents = _incidents(observed.incidents)
    jobs = [job for job in observed.jobs if job.carried]
    expected = add({}, *(expected_on_links(job.plan, job.predicted(), incidents.get(job.plan.job, [])) for job in jobs))
    links = observed.links or {}
    counted = {hop: Traffic(seen.inc_first_frames, seen.inc_first_bytes) for hop, seen in links.items()}
    if observed.unseen_losses:
        expected = _allow_losses(observed, jobs, expected, counted)
    at_ports = compare_counters(observed.topology, expected, observed.counters)
    return compare_links(observed.topology, expected, counted) + at_ports


def _allow_losses(
    observed: CarriedCounts, jobs: Sequence[Job], expected: dict[Hop, Traffic], counted: Mapping[Hop, Traffic]
) -> dict[Hop, Traffic]:
    """Return the expected traffic, lowered to the counts on links that may lack frames that were lost before them.

    A sender counts each first transmission whatever happens to the frame later, so the first link of each overlay hop
    is exact under any loss. Later links lack the frames lost before them, whose number is unknown. With
    ``uncounted_queues``, a switch may also have lost frames that it sent itself, but must then have sent them again.
    """
    allowed = {hop for job in jobs for path in job.plan.paths.values() for hop in hops(job.plan.topology, path)[1:]}
    if observed.uncounted_queues:
        switches = {node.name for node in observed.topology.switches}
        allowed |= {
            hop
            for hop, load in (observed.links or {}).items()
            if hop[0] in switches and hop in expected and load.frames >= expected[hop].frames
        }
    measured = allowed & counted.keys() & expected.keys()
    return {**expected, **{hop: counted[hop] for hop in measured if counted[hop].frames < expected[hop].frames}}


def _incidents(places: Mapping[Where, Incidents]) -> dict[int, list[LinkIncident]]:
    """Return losses and duplicates of first transmissions, by job."""
    incidents: dict[int, list[LinkIncident]] = {}
    for ((node, port), destination, job), seen in places.items():
        for fate, frames, size in (
            (Fate.LOST, seen.lost, seen.lost_bytes),
            (Fate.CORRUPTED, seen.corrupted, seen.corrupted_bytes),
            (Fate.DUPLICATED, seen.duplicated, seen.duplicated_bytes),
            (Fate.QUEUE_DROPPED, seen.queue_dropped, seen.queue_dropped_bytes),
        ):
            if frames:
                incidents.setdefault(job, []).append(LinkIncident(node, port, destination, fate, frames, size))
    return incidents


def _refused(counters: dict[str, SwitchCounters]) -> dict[str, dict[str, int]]:
    return {
        name: {reason: traffic.frames for reason, traffic in own.refused.items() if traffic.frames}
        for name, own in counters.items()
        if any(traffic.frames for traffic in own.refused.values())
    }


def _edges(job: Job) -> list[TreeEdge]:
    return [TreeEdge(job.plan.job, *edge, job.plan.paths[edge]) for edge in job.plan.edges]


# The provenance of figures: enough to reproduce them, and nothing that changes from run to run.


def provenance(program: P4Program | None, seed: int) -> dict[str, str]:
    """Return commit, hash of the P4 JSON (``-`` if no switch ran), versions and seed, as text."""
    inputs = {
        "p4reduce": p4reduce.__version__,
        "commit": _commit(Path(p4reduce.__file__).parent),
        "p4_json": "-" if program is None else program.name,
        "p4_json_sha256": "-" if program is None else program.sha256,
        "seed": str(seed),
        "python": platform.python_version(),
    }
    return inputs | _versions()


@functools.cache
def _versions() -> dict[str, str]:
    """Return the versions of the required libraries."""
    return {library: importlib.metadata.version(library) for library in requirements()}


@functools.cache
def _commit(folder: Path) -> str:
    """Return the commit of a source checkout, with ``+changes`` if files differ from it; otherwise the release.

    A checkout must contain this very file: an installation may lie within another project's repository.
    """

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")
        commit = git("rev-parse", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/")
    except (OSError, subprocess.SubprocessError):
        return f"release {p4reduce.__version__}"
    return f"{commit}+changes" if changed else commit
