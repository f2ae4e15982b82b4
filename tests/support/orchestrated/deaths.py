"""Cost of a worker's death for a task, by reaction to it, on packets: ``python -m tests.support.orchestrated.deaths``.

The host of one worker fails at a moment drawn from the seed. Every digest is compared with exact sums over the ranks
that the rounds report.
"""

import argparse
import random
import statistics
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from p4reduce.control_plane.orchestrator import OrchestratorOptions, TaskState
from p4reduce.control_plane.scheduling import Task
from p4reduce.control_plane.scheduling.task import WantedHosts
from p4reduce.play.tasks.world import World
from p4reduce.topologies import leaf_spine
from p4switch.base.values import PS_PER_MS
from tests.support.orchestrated.bench import PROGRAM, PS_PER_US, check_end, open_store, orchestrating
from tests.support.orchestrated.sums import expected_digest, ranks_of

OPTIONS = OrchestratorOptions()


@dataclass(frozen=True)
class Way:
    """A task's reaction to the death of a worker; ``anew``: its owner resubmits it as soon as it has failed."""

    fields: dict
    options: OrchestratorOptions = OPTIONS
    anew: bool = False


WAYS = {
    "nobody dies": Way({}),
    "shrink": Way({"on_failure": "shrink"}),
    "shrink with --move 1": Way({"on_failure": "shrink"}, OrchestratorOptions(move=1.0)),
    "abort, max_restarts 1": Way({"max_restarts": 1}),
    "raise, submitted again": Way({"on_failure": "raise"}, anew=True),
    "abort, submitted again": Way({}, anew=True),
}


@dataclass(frozen=True)
class Cost:
    """Virtual ms until the task finished, ms from the death to the next finished round, number of summed models."""

    finished_ms: float
    resumed_ms: float
    models: int


def run(seed: int, way: Way, rounds: int, base: Cost | None) -> Cost:
    """Run once; ``base`` is the run in which nobody dies, or None for that run itself."""
    chance = random.Random(seed)
    task = Task("a", "server1", (), 16_000, rounds, 500 * PS_PER_US, wanted=WantedHosts(6), **way.fields)
    with (
        tempfile.TemporaryDirectory() as folder,
        World(
            leaf_spine(leaves=4, spines=2, hosts=4, servers=1), PROGRAM, checkpoints=Path(folder) / "checkpoints"
        ) as world,
        open_store(Path(folder) / "t.sqlite") as store,
    ):
        store.submit([task])
        died_ps = 0
        with orchestrating(world, store, options=way.options) as orchestrator:
            if base is not None:
                died_ps = round(chance.uniform(0.2, 0.8) * base.finished_ms * PS_PER_MS)
                orchestrator.run(died_ps)
                victim = chance.choice(store.task("a").task.workers)
                world.damage.end_host(victim)
            orchestrator.run()
            if way.anew and base is not None:
                failed = store.task("a")
                assert failed.state is TaskState.FAILED
                assert victim in failed.reason
                store.submit([replace(task, name="again", arrival_ps=world.now())])
                orchestrator.run()
        check_end(world, store)
        row = store.tasks()[-1]
        assert row.state is TaskState.FINISHED, row.reason
        assert row.digest == expected_digest(row.task, ranks_of(store, row.name))
        done = [one for name in {"a", row.name} for one in store.history.rounds(name)]
        later = min((one["done_ps"] for one in done if one["done_ps"] > died_ps), default=died_ps)
        return Cost(
            (row.finished_ps or 0) / PS_PER_MS, (later - died_ps) / PS_PER_MS, sum(map(len, ranks_of(store, row.name)))
        )


def main() -> None:
    """Print a table of costs."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.orchestrated.deaths", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=40)
    given = parser.parse_args()
    columns = ("finished, ms", "worst", "over nobody dies", "round done, ms", "worst", "models in it")
    sys.stdout.write(f"{'':<24}" + "".join(f"{name:>18}" for name in columns) + "\n")
    base = run(0, WAYS["nobody dies"], given.rounds, None)
    for name, way in WAYS.items():
        found = [run(seed, way, given.rounds, base) for seed in range(given.seeds)] if name != "nobody dies" else [base]
        times, again = [one.finished_ms for one in found], [one.resumed_ms for one in found]
        cells = (
            f"{statistics.mean(times):.2f}",
            f"{max(times):.2f}",
            f"{statistics.mean(times) / base.finished_ms:.3f}",
            f"{statistics.mean(again):.2f}" if name != "nobody dies" else "-",
            f"{max(again):.2f}" if name != "nobody dies" else "-",
            f"{statistics.mean(one.models for one in found) / base.models:.3f}",
        )
        sys.stdout.write(f"{name:<24}" + "".join(f"{cell:>18}" for cell in cells) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
