"""The AI tasks: who is the global model, who are the local models."""

from dataclasses import replace

import numpy as np

from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.scheduling.task import Task
from p4reduce.experiments.poster.settings import PosterSettings, Scenario
from p4reduce.topologies import Topology


def draw_tasks(topology: Topology, settings: PosterSettings, seed: int, size: int) -> list[Task]:
    """``settings.tasks`` tasks of ``size`` local models at random hosts.

    The same seed gives the same global models, and the local models of a smaller size are the first ones of a
    larger size: sizes and policies are compared on the same tasks.
    """
    hosts = [host.name for host in topology.hosts]
    most = max(settings.sizes)
    if most >= len(hosts):
        raise ClusterError(
            f"sizes: {most} local models and a global one need {most + 1} hosts, {topology.name!r} has {len(hosts)}"
        )
    random = np.random.Generator(np.random.Philox(key=[seed, 0xA1]))
    tasks = []
    for number in range(settings.tasks):
        chosen = [hosts[place] for place in random.permutation(len(hosts))[: most + 1]]
        tasks.append(
            Task(
                name=f"task{number}",
                server=chosen[0],
                workers=tuple(chosen[1 : size + 1]),
                elements=settings.elements,
                demand_bps=settings.demand_bps,
            )
        )
    return tasks


def tasks_of(scenario: Scenario, topology: Topology, settings: PosterSettings, seed: int, size: int) -> list[Task]:
    """The drawn tasks in the queue of their scenario."""
    return [replace(task, priority=scenario.priority) for task in draw_tasks(topology, settings, seed, size)]
