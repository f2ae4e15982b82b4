"""Ray: jobs whose ranks run on the nodes that p4reduce chose."""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from p4reduce.adapters.network import EndedJob, SharedNetwork
from p4reduce.adapters.planner import Chosen, Planner, Request, request_of
from p4reduce.adapters.rank import take_part
from p4reduce.adapters.slurm.demo import DemoJob, demo_jobs
from p4reduce.base.errors import ControllerError, PlanError
from p4reduce.group import remote
from p4reduce.group.errors import ClusterError
from p4reduce.group.remote import connect
from p4reduce.topologies import Topology, load
from p4switch.base.values import PS_PER_S

# Ray: jobs whose ranks run on the nodes that p4reduce chose, and join its network.
#
# A host of the topology is a Ray node with the label ``p4reduce-host``. A job is a placement group with a bundle for
# each of its ranks, which requires the label of its host; Ray ensures that only these ranks run there.


LABEL: Final = "p4reduce-host"
RANKS_S: Final = 120.0
"""wall-clock time for ranks to connect, and to compute"""
Rank = Callable[[Mapping[str, str]], Any]
"""function that a rank runs, with the environment for ``connect``; Ray sends it to the node"""


@dataclass(frozen=True)
class RayResult:
    """The end of a job, with its hosts in rank order: as chosen, and as reported by Ray."""

    name: str
    chosen: Chosen
    had: tuple[str, ...]
    returned: tuple[Any, ...]
    ended: EndedJob


def ray_module() -> Any:
    """Return the Ray module; `ClusterError` if it is not installed."""
    try:
        import ray  # noqa: PLC0415  (an extra)
    except ImportError as error:
        raise ClusterError(f"Ray is not installed ({error}): pip install 'p4reduce[ray]'") from None
    return ray


@contextmanager
def local_cluster(topology: Topology) -> Iterator[Any]:
    """Run a Ray cluster on this machine with a node for each worker host; this process is its driver."""
    ray = ray_module()
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for host in topology.workers:
            cluster.add_node(num_cpus=1, labels={LABEL: host.name}, include_dashboard=False)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
        cluster.wait_for_nodes()
        yield ray
    finally:
        ray.shutdown()
        cluster.shutdown()


def hosts_of_nodes(nodes: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return hosts by node identifier, from ``ray.nodes()``: nodes that are alive and have the label."""
    return {
        str(node["NodeID"]): str(node["Labels"][LABEL])
        for node in nodes
        if node.get("Alive") and LABEL in (node.get("Labels") or {})
    }


class RayJobs:
    """Begins jobs on hosts that the planner chose; one at a time, or several concurrently."""

    def __init__(self, planner: Planner, network: SharedNetwork) -> None:
        self._ray = ray_module()
        self._planner, self._network = planner, network
        self._open: dict[str, tuple[Chosen, Any, list[Any]]] = {}

    def begin(self, requests: Mapping[str, Request], rank: Rank) -> dict[str, str]:
        """Begin as many of these jobs as hosts permit; return why the others wait."""
        able = set(hosts_of_nodes(self._ray.nodes()).values())
        faults = {name: fault for name, request in requests.items() if (fault := self._planner.fault(request))}
        choices, reasons = self._planner.choose(
            {n: request for n, request in requests.items() if n not in faults}, able
        )
        waiting = dict(choices)
        try:
            for name, chosen in choices.items():
                try:
                    folder = self._network.begin(name, chosen.hosts, chosen.plan, chosen.elements)
                except (PlanError, ControllerError) as error:
                    del waiting[name]
                    self._planner.end(name)
                    reasons[name] = f"no tree: {error}"
                    continue
                try:
                    self._open[name] = chosen, *self._in_ray(chosen, folder, rank)
                except BaseException:
                    self._network.remove(name, "Ray does not begin the job")
                    raise
                del waiting[name]
        except BaseException:
            for name in waiting:
                self._planner.end(name)
            raise
        return {**reasons, **faults}

    def next_ended(self) -> list[RayResult]:
        """Let virtual time pass until a job has left the network; empty if there is no job.

        `ClusterError` if for `RANKS_S` ranks neither connect nor call.
        """
        ended = self._network.advance(patience_s=RANKS_S)
        if not ended and self._open:
            raise ClusterError(f"no time passes: {self._network.missing()}")
        return [self._result(job) for job in ended]

    def _in_ray(self, chosen: Chosen, folder: Path, rank: Rank) -> tuple[Any, list[Any]]:
        """Return the placement group of a job, and the futures of its ranks; after an error neither is left."""
        from ray.util.placement_group import placement_group, remove_placement_group  # noqa: PLC0415
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy  # noqa: PLC0415

        labels = [{LABEL: host} for host in chosen.hosts]
        group = placement_group([{"CPU": 1}] * len(labels), bundle_label_selector=labels)
        try:
            run = self._ray.remote(num_cpus=1, max_retries=0)(_in_node)
            return group, [
                run.options(
                    scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=number)
                ).remote(rank, rank_environment(folder, number, len(labels)))
                for number in range(len(labels))
            ]
        except BaseException:
            remove_placement_group(group)
            raise

    def _result(self, ended: EndedJob) -> RayResult:
        from ray.util.placement_group import remove_placement_group  # noqa: PLC0415

        chosen, group, waits = self._open.pop(ended.name)
        self._network.remove(ended.name, ended.error or "the job has ended")
        self._planner.end(ended.name)
        hosts = hosts_of_nodes(self._ray.nodes())
        try:
            told = self._ray.get(waits, timeout=RANKS_S) if not ended.error else []
        except self._ray.exceptions.RayError as error:
            raise ClusterError(f"{ended.name}: {error}") from None
        finally:
            remove_placement_group(group)
        had = tuple(hosts.get(node, "?") for node, _ in told)
        return RayResult(ended.name, chosen, had, tuple(value for _, value in told), ended)


def rank_environment(folder: Path, rank: int, size: int) -> dict[str, str]:
    """Return the environment of a rank for ``connect``."""
    return {remote.ADDRESS: str(folder / "socket"), remote.RANK: str(rank), remote.SIZE: str(size)}


def _in_node(rank: Rank, environment: Mapping[str, str]) -> tuple[str, Any]:
    """Run a rank in a Ray worker; return the worker's node and the rank's result."""
    import ray  # noqa: PLC0415

    return str(ray.get_runtime_context().get_node_id()), rank(environment)


# Jobs of a real Ray on one machine, on the hosts that p4reduce chose; every sum is checked.
#
#     python -m p4reduce.adapters.ray --jobs 6
#
# Exit code 1 if a rank ran elsewhere or a sum was not exact, 2 if Ray is not installed.


def main() -> None:
    """Run the jobs, all of which are submitted at the beginning."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--topology", default="leaf-spine-8-partial", help="a node of Ray for each host")
    parser.add_argument("--placement", default="ina-aware")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true", help="JSON on stdout, nothing else")
    options = parser.parse_args()
    try:
        ray_module()
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    topology = load(options.topology)
    jobs = {f"ray-{job.number}": job for job in demo_jobs(options.jobs, len(topology.workers), options.seed)}
    try:
        results = run_jobs(topology, jobs, options.placement)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    whole = [result for result in results if is_whole(result, jobs[result.name])]
    if options.json:
        print(json.dumps([_data(result, jobs[result.name]) for result in results], indent=1))
    else:
        for result in results:
            there = ",".join(result.chosen.hosts)
            print(f"{result.name}: {result.chosen.plan or 'alone'} on {there}; exact sums: {sum(result.returned)}")
        print(f"{len(whole)} of {len(jobs)} jobs on planned hosts, all sums exact")
    sys.exit(len(whole) != len(jobs))


def run_jobs(topology: Topology, jobs: Mapping[str, DemoJob], placement: str) -> list[RayResult]:
    """Run all jobs as hosts become free; return results in the order of their ends."""
    results: list[RayResult] = []
    with (
        tempfile.TemporaryDirectory(prefix="p4reduce-") as folder,
        local_cluster(topology),
        SharedNetwork(topology, Path(folder)) as network,
    ):
        ray_jobs = RayJobs(Planner(topology, policy=placement), network)
        waiting = {name: request_of(name, job.comment, job.workers) for name, job in jobs.items()}
        while len(results) < len(jobs):
            for name, job in jobs.items():
                if name in waiting and name not in ray_jobs.begin({name: waiting[name]}, partial(_rank, job)):
                    del waiting[name]
            results += ray_jobs.next_ended()
    return results


def is_whole(result: RayResult, job: DemoJob) -> bool:
    """Return whether all ranks ran on their chosen hosts, and every sum was exact in every element."""
    return result.had == result.chosen.hosts and sum(result.returned) == job.workers * job.rounds


def _rank(job: DemoJob, environment: Mapping[str, str]) -> int:
    """Run a rank in a Ray worker; return its number of exact sums."""
    comm = connect(environment)
    exact = take_part(comm, job.elements, job.rounds, job.training_ps / PS_PER_S, job.number)
    comm.close()
    return exact


def _data(result: RayResult, job: DemoJob) -> dict[str, object]:
    return {
        "job": result.name,
        "plan": result.chosen.plan,
        "planned": list(result.chosen.hosts),
        "had": list(result.had),
        "exact": sum(result.returned),
        "rounds": job.rounds,
        "begun_ps": result.ended.begun_ps,
        "ended_ps": result.ended.ended_ps,
    }


if __name__ == "__main__":
    main()
