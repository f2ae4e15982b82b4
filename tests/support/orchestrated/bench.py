"""Test bench: a world that persists while orchestrators are killed and replaced."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.orchestrator import (
    ComputingManager,
    Executor,
    Orchestrator,
    OrchestratorOptions,
    PlanPhase,
    Store,
    TaskState,
)
from p4reduce.control_plane.orchestrator.installer import InstalledEntries
from p4reduce.control_plane.orchestrator.options import ENDED
from p4reduce.control_plane.scheduling import Policy, Task, policy_named
from p4reduce.network.jobs.network import bundled
from p4reduce.play.tasks.world import World
from p4reduce.topologies import Topology, leaf_spine
from p4switch.base.values import PS_PER_MS, PS_PER_US

LANES = 64
PROGRAM = bundled(LANES)
OPTIONS = OrchestratorOptions(control_latency_ps=10 * PS_PER_US, measure_every_ps=PS_PER_MS)


class Killed(BaseException):
    """Ends the orchestrator as abruptly as kill -9."""


class KillAt:
    """Checkpoint callback that kills the orchestrator at its ``number``-th step of a name (None: any name)."""

    def __init__(self, number: int, step: str | None = None) -> None:
        self.left, self.step = number, step
        self.seen: list[str] = []

    def __call__(self, step: str) -> None:
        self.seen.append(step)
        if self.step in (None, step):
            self.left -= 1
            if self.left == 0:
                raise Killed(step)


def nothing(step: str) -> None:
    """Do nothing at a step."""


def two_spines() -> Topology:
    """Return a network with two paths between any two leaves, so that a tree can be swapped."""
    return leaf_spine(leaves=3, spines=2, hosts=2, servers=1)


def some_tasks(elements: int = 4000, rounds: int = 3) -> list[Task]:
    """Return two tasks that share switches and a host; the second arrives later."""
    return [
        Task("first", "server1", ("h1", "h3", "h5"), elements, rounds, 20 * PS_PER_US, 10**9),
        Task("second", "h6", ("h2", "h4", "h5"), elements, rounds, 10 * PS_PER_US, 10**9, arrival_ps=30 * PS_PER_US),
    ]


@contextmanager
def orchestrating(
    world: World,
    store: Store,
    *,
    policy: str | Policy = "steiner",
    options: OrchestratorOptions = OPTIONS,
    checkpoint: Callable[[str], None] = nothing,
    executor: Executor | None = None,
    slots: int | None = None,
    computing: ComputingManager | None = None,
) -> Iterator[Orchestrator]:
    """Yield an orchestrator with its own controller, as in a new process; ``slots`` limits every switch."""
    term = store.take_charge()
    targets = world.switches.targets()
    with Controller(world.topology, targets, PROGRAM, election_id=term, keep=True, slots=slots) as controller:
        chosen = policy_named(policy) if isinstance(policy, str) else policy
        name = policy if isinstance(policy, str) else "own"
        yield Orchestrator(
            store,
            controller,
            executor or world,
            chosen,
            name=name,
            options=options,
            computing=computing,
            checkpoint=checkpoint,
        )


def open_store(path: Path) -> Store:
    """Open a database without durability: tests would wait for the disk."""
    return Store(path, synchronous=False)


def run_killed(world: World, path: Path, kills: list[KillAt], **options: object) -> list[str]:
    """Run until all tasks have ended, with a new orchestrator after each kill; return the steps taken."""
    steps: list[str] = []
    for kill in [*kills, KillAt(0)]:
        with open_store(path) as store:
            try:
                with orchestrating(world, store, checkpoint=kill, **options) as orchestrator:  # type: ignore[arg-type]
                    orchestrator.run()
            except Killed:
                steps += kill.seen
                continue
            steps += kill.seen
            break
    return steps


def digests(store: Store) -> dict[str, str | None]:
    """Return the digests of the tasks' results, by name."""
    return {row.name: row.digest for row in store.tasks()}


def undisturbed(
    tmp_path: Path, tasks: list[Task], topology: Topology, policy: str = "steiner"
) -> dict[str, str | None]:
    """Return the digests of a run in which nothing goes wrong."""
    with World(topology, PROGRAM) as world, open_store(tmp_path / "undisturbed.sqlite") as store:
        store.submit(tasks)
        with orchestrating(world, store, policy=policy) as orchestrator:
            orchestrator.run()
        assert {row.state for row in store.tasks()} <= {TaskState.FINISHED, TaskState.RESCHEDULED}
        return digests(store)


def check_end(world: World, store: Store) -> None:
    """Check that all tasks ended (with a reason unless finished), switches are empty, and keys were used once."""
    for row in store.tasks():
        assert row.state in ENDED, row
        assert row.state is TaskState.FINISHED or row.reason, row
    plans = store.plans(tuple(PlanPhase))
    assert all(plan.phase is PlanPhase.REMOVED for plan in plans)
    assert len({(plan.job, plan.epoch) for plan in plans}) == len({plan.generation for plan in plans}) == len(plans)
    targets = world.switches.targets()
    with Controller(world.topology, targets, PROGRAM, election_id=store.take_charge(), keep=True) as controller:
        assert InstalledEntries.read(controller).strangers([]) == {}


def rounds_of(store: Store, tasks: Mapping[str, int]) -> None:
    """Check that every round of these tasks is in the database once."""
    for name, rounds in tasks.items():
        assert [row["round"] for row in store.history.rounds(name)] == list(range(rounds))
