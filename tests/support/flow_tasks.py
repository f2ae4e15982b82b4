"""Random tasks of the orchestrator, on packets and in the flow model, with the times of their rounds."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal

from p4reduce.control_plane.orchestrator import OrchestratorOptions, TaskState
from p4reduce.control_plane.scheduling import Task
from p4reduce.control_plane.scheduling.task import WantedHosts
from p4reduce.play.tasks.world import World
from p4reduce.topologies import Topology
from p4switch.base.values import PS_PER_MS, PS_PER_S
from tests.support.flow_settings import random_topology
from tests.support.orchestrated.bench import PROGRAM, open_store, orchestrating

MOST_ELEMENTS = 300_000


@dataclass(frozen=True)
class TasksSetting:
    """Tasks, the policy that chooses their trees, and (host, time in ps) of the hosts that end."""

    topology: Topology
    tasks: tuple[Task, ...]
    policy: str
    options: OrchestratorOptions
    dying: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class TasksPlayed:
    """Result of a setting; times in ps."""

    communicated_ps: int
    """sum over all rounds of all tasks: time from the round's last local model to its end"""
    finished_ps: int
    """the end of the last task"""
    ended: tuple[tuple[str, TaskState, int], ...]
    """(name, final state, number of rounds) of each task, sorted"""


def random_tasks(random: Random) -> TasksSetting:
    """Return one to five tasks; some select their hosts, some have a class, in some settings a host ends."""
    while True:
        topology = random_topology(random)
        hosts = [host.name for host in topology.hosts]
        if len(hosts) >= 4 and len({link.delay_ps for link in topology.links}) < 40:
            break
    slowest = min(link.rate_bps for link in topology.links)
    tasks = []
    for number in range(random.randint(1, 5)):
        random.shuffle(hosts)
        elements = max(1, min(MOST_ELEMENTS, round(10 ** random.uniform(1, 5.5))))
        takes_ps = elements * 32 * PS_PER_S // slowest
        count = random.randint(1, min(6, len(hosts) - 1))
        chosen = random.random() < 0.4
        tasks.append(
            Task(
                f"task{number}",
                hosts[0],
                () if chosen else tuple(hosts[1 : 1 + count]),
                elements,
                random.randint(1, 5),
                round(takes_ps * random.choice((0.1, 0.5, 1, 3))),
                arrival_ps=round(takes_ps * random.choice((0, 0, random.random() * 3))),
                priority=random.choice((None, None, random.randint(1, 7))),
                wanted=WantedHosts(count) if chosen else None,
                on_failure=random.choice(("abort", "shrink")),
                max_restarts=random.choice((0, 1)),
            )
        )
    longest = max(task.rounds * (task.training_ps + task.elements * 32 * PS_PER_S // slowest) for task in tasks)
    dying = [(random.choice(hosts), random.randint(1, PS_PER_MS + 2 * longest))] if random.random() < 0.3 else []
    policy = random.choice(("steiner", "steiner", "overlay-mst", "spt", "spff"))
    options = OrchestratorOptions(
        measure_every_ps=random.choice((PS_PER_MS, 10 * PS_PER_MS)), threshold=random.choice((0.1, 1.0))
    )
    return TasksSetting(topology, tuple(tasks), policy, options, tuple(dying))


def play_tasks(setting: TasksSetting, time: Literal["virtual", "flow"]) -> TasksPlayed:
    """Run all tasks to their end."""
    with (
        tempfile.TemporaryDirectory() as folder,
        World(setting.topology, PROGRAM, checkpoints=Path(folder) / "kept", time=time) as world,
        open_store(Path(folder) / "tasks.sqlite") as store,
    ):
        store.submit(list(setting.tasks))
        for host, at_ps in setting.dying:
            world.damage.end_host(host, at_ps=at_ps)
        with orchestrating(world, store, policy=setting.policy, options=setting.options) as orchestrator:
            orchestrator.run()
        rows = store.tasks()
        rounds = [one for row in rows for one in store.history.rounds(row.name)]
        return TasksPlayed(
            sum(one["done_ps"] - one["trained_ps"] for one in rounds),
            max((row.finished_ps or 0 for row in rows), default=0),
            tuple(sorted((row.name, row.state, len(store.history.rounds(row.name))) for row in rows)),
        )


def text_of(setting: TasksSetting) -> str:
    """Return a one-line description of a setting."""
    each = [f"{task.size} workers, {task.elements} elements, {task.rounds} rounds" for task in setting.tasks]
    return f"{setting.policy} on {setting.topology.name}: {'; '.join(each)}{_dying(setting.dying)}"


def _dying(dying: Sequence[tuple[str, int]]) -> str:
    return "".join(f"; {host} ends at {at_ps / 1e6:.0f} us" for host, at_ps in dying)
