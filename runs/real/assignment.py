"""What each host does in a run in real time: the one job that carries the run's collective, and who takes part."""

from dataclasses import dataclass
from typing import Final

from p4reduce.comm.calls import SERVED
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.fabric.real.bmv2 import QUEUE_FRAMES
from p4reduce.jobs.job import Job
from p4reduce.runs.experiment import Experiment, ExperimentError
from p4reduce.runs.virtual.carrier import FIRST_BROADCAST_JOB, MAIN_JOB, SERVED_JOB
from p4reduce.runs.virtual.cluster import worker_hosts
from p4reduce.topologies import Topology

WINDOW: Final = 256
"""Chunks that may be in flight where nobody says how many: processes add more delay than links, so rate * round trip
of the plan would be too few; how many there are at a time, loss and round-trip times decide. On BMv2 no more than an
output queue holds: results then find room in it, unless some are sent again. (With a deadline that bounds what is on
its way: what waits for a straggler is in no queue, and is to be open at once.)"""


@dataclass(frozen=True)
class Assignment:
    """Who takes part in a run's collective, and in which job."""

    workers: tuple[str, ...]
    server: str | None
    """Host of the parameter server, where the collective needs one."""
    request: PlanRequest

    @staticmethod
    def of(experiment: Experiment, topology: Topology) -> "Assignment":
        """For one collective of ``experiment``; numbers of jobs as in virtual time. Raises ``ExperimentError``."""
        workers = worker_hosts(topology, experiment.workers)
        servers = [host.name for host in topology.servers]
        operation = experiment.collective
        plan, members, job, server = experiment.plan, workers, MAIN_JOB, None
        if operation == "all_to_all" and experiment.elements % len(workers):
            raise ExperimentError(f"elements: {experiment.elements} are no equal blocks for {len(workers)} workers")
        if operation != "all_reduce" and plan == "ring":
            plan = "ps"  # a ring only reduces: everything else goes host to host
        if operation in SERVED:
            if not servers:
                raise ExperimentError(f"collective: {operation} needs a topology with a server, e.g. leaf-spine-8")
            job, server = SERVED_JOB, servers[0]
        elif operation == "broadcast":
            if len(workers) == 1:
                raise ExperimentError("workers: 1, but a broadcast in real time needs somebody to send to")
            job, server, members = FIRST_BROADCAST_JOB, workers[0], workers[1:]
        narrow = experiment.target == "bmv2" and experiment.deadline_ps is None
        window = experiment.window or (min(WINDOW, QUEUE_FRAMES) if narrow else WINDOW)
        request = PlanRequest(
            plan=plan,
            job=job,
            workers=members,
            server=server,
            lanes=experiment.lanes,
            window=window,
            deadline_ps=experiment.deadline_ps,
        )
        return Assignment(workers, servers[0] if servers else None, request)

    def participants(self, job: Job) -> list[str]:
        """Hosts with an endpoint in ``job``: workers in rank order, then the server's."""
        hosts = [worker for worker in self.workers if worker in (*job.plan.workers, job.plan.server)]
        if job.plan.server is not None and job.plan.server not in hosts:
            hosts.append(job.plan.server)
        return hosts

    def rank(self, host: str) -> int:
        """A worker's place; the number of workers for a server's host."""
        return self.workers.index(host) if host in self.workers else len(self.workers)
