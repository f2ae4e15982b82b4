"""Jobs of a real Ray on one machine, on the hosts that p4reduce chose; every sum is checked.

    python -m p4reduce.adapters.ray.demo --jobs 6

Exit code 1 when a rank ran elsewhere or a sum was not exact, 2 where Ray is not installed.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from p4reduce.adapters.network import SharedNetwork
from p4reduce.adapters.planner import Planner, request_of
from p4reduce.adapters.rank import take_part
from p4reduce.adapters.ray.jobs import RayJobs, RayResult, local_cluster, ray_module
from p4reduce.adapters.slurm.demo import DemoJob, demo_jobs
from p4reduce.group.errors import ClusterError
from p4reduce.group.remote import connect
from p4reduce.topologies import Topology, load
from p4switch.base.units import PS_PER_S


def main() -> None:
    """Run the jobs, all of which are there from the beginning."""
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
    whole = [one for one in results if is_whole(one, jobs[one.name])]
    if options.json:
        print(json.dumps([_data(one, jobs[one.name]) for one in results], indent=1))
    else:
        for one in results:
            there = ",".join(one.chosen.hosts)
            print(f"{one.name}: {one.chosen.plan or 'alone'} on {there}; exact sums: {sum(one.returned)}")
        print(f"{len(whole)} of {len(jobs)} jobs on planned hosts, all sums exact")
    sys.exit(len(whole) != len(jobs))


def run_jobs(topology: Topology, jobs: Mapping[str, DemoJob], placement: str) -> list[RayResult]:
    """All jobs, as hosts become free; results in the order of their ends."""
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
    """Whether all ranks ran where they were to, and every sum was right in every element."""
    return result.had == result.chosen.hosts and sum(result.returned) == job.workers * job.rounds


def _rank(job: DemoJob, environment: Mapping[str, str]) -> int:
    """In a worker of Ray."""
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
    from p4reduce.adapters.ray.demo import main as run  # Ray sends functions by the names of their modules

    run()
