"""``python -m tests.support.kills.lossy --runs 1000``: groups that lose frames, without other faults.

In virtual time, each link loses one frame of twenty unless ``--loss`` is given; plans, networks and reactions to deaths
are drawn from the seed. Some members compute for longer than a lease between two collectives. Every member must get
every sum, exact and over all members, and no member may be excluded or moved.
"""

import argparse
import random
import sys
import traceback

from p4reduce.runs.experiment import Experiment
from p4reduce.runs.virtual.cluster import Cluster
from tests.support.kills.invariants import check
from tests.support.kills.script import Got, play
from tests.support.kills.virtual import NETWORKS, PLANS

LOSS = 0.05
OPERATIONS = 6
LONGEST_S = 0.03
"""longest computation between two collectives: three leases"""


def draw(seed: int, loss: float) -> tuple[Experiment, int, list[float]]:
    """Return the experiment, the number of elements, and how long each member computes in seconds."""
    rng = random.Random(f"lossy {seed}")
    plan = rng.choice(PLANS)
    network = NETWORKS[2] if plan == "ps" else rng.choice(NETWORKS)
    experiment = Experiment(
        topology=network,
        plan=plan,
        lanes=64,
        seed=seed,
        faults={"loss": loss},
        on_failure=rng.choice(("shrink", "shrink", "raise")),
        rate=rng.choice(("1G", "10G")),
    )
    pauses = [rng.choice((0.0, 0.002, LONGEST_S * rng.random())) for _ in range(8)]
    return experiment, rng.choice((1, 63, 700, 5000)), pauses


def run(seed: int, loss: float = LOSS) -> int:
    """Play and check a run; raise `AssertionError` for a violation. Return the number of resent frames."""
    experiment, elements, pauses = draw(seed, loss)
    with Cluster(experiment, incidents=()) as cluster:
        got = {rank: Got() for rank in range(cluster.places)}

        def member(comm) -> None:
            place = comm.members[comm.rank]
            play(comm, seed, OPERATIONS, elements, got[place], pause_s=pauses[place])

        survivors = set(cluster.run_surviving(member))
        assert survivors == set(got), f"only {sorted(survivors)} of {len(got)} came to the end"
        assert not cluster.decisions, f"nobody died: {cluster.decisions[0]}"
        check(got, survivors, seed, OPERATIONS, elements)
        everybody = tuple(range(len(got)))
        for rank, own in got.items():
            assert not own.changes, f"rank {rank} heard of a change"
            assert all(contributors == everybody for _, contributors, _ in own.results), (
                f"rank {rank}: not all are in it"
            )
        return sum(status.resends for status in cluster.carrier.statuses())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--loss", type=float, default=LOSS, help="loss rate of each link, 0 to 1")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first run")
    chosen = parser.parse_args()
    broken = resends = 0
    for done, seed in enumerate(range(chosen.seed, chosen.seed + chosen.runs), start=1):
        try:
            resends += run(seed, chosen.loss)
        except Exception:
            broken += 1
            print(f"seed {seed}:", file=sys.stderr)
            traceback.print_exc()
        if done % 25 == 0:
            print(f"{done} of {chosen.runs} runs, {broken} broken", file=sys.stderr)
    print(f"{chosen.runs} runs of {OPERATIONS} collectives, {chosen.loss:.0%} lost: {resends} frames sent again")
    print(f"{broken} runs in which a sum was not exact, or a rank was excluded or moved")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
