"""Tasks on a network whose switches have few slots, on packets: ``python -m tests.support.orchestrated.few_slots``.

Prints mean completion times relative to plentiful slots, for each way to assign slots. Weights are equal in all runs.
"""

import argparse
import random
import statistics
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from p4reduce.control_plane.orchestrator import TaskState
from p4reduce.control_plane.scheduling import Task
from p4reduce.control_plane.scheduling.task import WantedHosts
from p4reduce.play.tasks.world import World
from p4reduce.topologies import leaf_spine
from p4switch.base.values import PS_PER_MS
from tests.support.orchestrated.bench import OPTIONS, PROGRAM, PS_PER_US, digests, open_store, orchestrating


def tasks(seed, count):
    """Return tasks with Poisson arrivals and 3 to 8 workers."""
    chance, at_us, found = random.Random(seed), 0.0, []
    for number in range(count):
        elements, rounds = chance.choice([8000, 16000, 32000]), chance.choice([8, 16, 24])
        training = chance.choice([20, 60, 120]) * PS_PER_US
        wanted = WantedHosts(chance.choice([3, 4, 6, 8]))
        found.append(
            Task(f"t{number}", "", (), elements, rounds, training, arrival_ps=int(at_us) * PS_PER_US, wanted=wanted)
        )
        at_us += chance.expovariate(1 / 400)
    return found


def run(seed, count, giving, slots):
    """Return the mean completion time in ms, the number of changes, and the digests."""
    topology = leaf_spine(leaves=4, spines=2, hosts=8, servers=4)
    with (
        World(topology, PROGRAM) as world,
        tempfile.TemporaryDirectory() as folder,
        open_store(Path(folder) / "t.sqlite") as store,
    ):
        store.submit(tasks(seed, count))
        with orchestrating(world, store, options=replace(OPTIONS, slots=giving), slots=slots) as orchestrator:
            orchestrator.run()
        rows = store.tasks()
        assert {row.state for row in rows} == {TaskState.FINISHED}
        taken = statistics.mean((row.finished_ps - row.arrival_ps) / PS_PER_MS for row in rows)
        return taken, len(store.history.replans()), digests(store)


def main() -> None:
    """Print a table of completion times."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.orchestrated.few_slots", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tasks", type=int, default=8)
    parser.add_argument("--slots", type=int, nargs="+", default=[128, 16], help="numbers of slots of every switch")
    given = parser.parse_args()
    sys.stdout.write("  ".join(f"{name:>10}" for name in ("slots", "giving", "x plenty", "worst", "changes")) + "\n")
    plenty = [run(seed, given.tasks, "first", None) for seed in range(given.seeds)]
    for slots in given.slots:
        for giving in ("first", "whole", "value"):
            found = [run(seed, given.tasks, giving, slots) for seed in range(given.seeds)]
            assert [one[2] for one in found] == [one[2] for one in plenty], "weights"
            times = [one[0] / base[0] for one, base in zip(found, plenty, strict=True)]
            cells = (slots, giving, f"{statistics.mean(times):.3f}", f"{max(times):.3f}", sum(one[1] for one in found))
            sys.stdout.write("  ".join(f"{cell:>10}" for cell in cells) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
