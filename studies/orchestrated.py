"""Runs of tasks by an orchestrator from submission to end, on packets, for studies."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.orchestrator import Orchestrator, OrchestratorOptions, Store
from p4reduce.control_plane.scheduling import Task
from p4reduce.control_plane.scheduling.view import Policy
from p4reduce.network.jobs.network import VIRTUAL_DEADLINE_S, bundled
from p4reduce.network.virtual import Faults
from p4reduce.play.tasks.world import World
from p4reduce.topologies import Topology


@contextmanager
def orchestrated(
    topology: Topology,
    tasks: Sequence[Task],
    policy: Callable[[World], Policy],
    *,
    name: str,
    options: OrchestratorOptions,
    lanes: int,
    loss: float = 0.0,
    seed: int = 0,
) -> Iterator[tuple[World, Store]]:
    """Run all tasks to their end; yield the network and the database. ``name``: name of the policy."""
    program = bundled(lanes)
    with (
        tempfile.TemporaryDirectory() as folder,
        World(topology, program, faults=Faults(loss=loss), seed=seed) as world,
        Store(Path(folder) / "tasks.sqlite", synchronous=False) as store,
    ):
        store.submit(tasks)
        with Controller(
            topology,
            world.switches.targets(),
            program,
            election_id=store.take_charge(),
            keep=True,
            deadline_s=VIRTUAL_DEADLINE_S,
        ) as controller:
            Orchestrator(store, controller, world, policy(world), name=name, options=options).run()
        yield world, store
