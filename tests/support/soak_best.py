"""``python -m tests.support.soak_best``: compare plan ``best`` with every other plan on random networks, on packets.

Each point draws a network, its capable switches, rates, workers and a size; ``best`` and all other plans run an
all-reduce in virtual time. Prints how often and by how much ``best`` was slower than the fastest other plan, and the
error of its predicted time. The exit code is 1 if ``best`` is more than 2 % slower than another plan at a point.
"""

import argparse
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from rich.progress import track

from p4reduce.base.errors import P4ReduceError
from p4reduce.control_plane.plans.best import fastest, predicted_forest_ps, predicted_ps
from p4reduce.control_plane.plans.bounds import best_plan_ps
from p4reduce.control_plane.plans.problem import Problem, TreeLayout
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.runner import run_experiment
from p4reduce.runs.virtual.cluster import build_topology, worker_hosts

OTHERS = (
    "packing", "striped", "rina", "hierarchical", "halving-doubling", "double-binary-tree", "steiner", "spt", "mst",
    "ring",
)  # fmt: skip
SIZES = (1, 256, 1_000, 4_096, 16_384, 40_000, 65_536, 262_144, 1_000_000)
WORSE = 1.02


@dataclass(frozen=True)
class Point:
    """A drawn network and size; times in ps."""

    topology: str
    workers: int
    elements: int
    best_ps: int
    predicted_ps: int
    chosen: str
    other_ps: dict[str, int]
    bound_ps: int | None

    @property
    def over(self) -> float:
        """Time of ``best`` relative to the fastest other plan."""
        return self.best_ps / min(self.other_ps.values())

    @property
    def wrong_by(self) -> float:
        """Relative error of the prediction."""
        return self.predicted_ps / self.best_ps - 1


def draw_topology(rng: random.Random) -> str:
    """Return a builder with random parameters: racks, a fat-tree or a wide-area network."""
    rate, delay = rng.choice(("10G", "25G", "100G")), rng.choice(("1us", "1us", "3us", "10us"))
    more = f"rate={rate},delay={delay}"
    kind = rng.choice(("leaf-spine", "leaf-spine", "fat-tree", "wan"))
    if kind == "fat-tree":
        switches = [f"{layer}{pod}-{n}" for layer in ("edge", "agg") for pod in (1, 2, 3, 4) for n in (1, 2)]
        switches += [f"core{n}" for n in (1, 2, 3, 4)]
        return f"fat-tree:k=4,servers=0,{more}" + capable(rng, switches)
    if kind == "wan":
        return f"wan:graph=germany50,{more}"
    leaves, spines, hosts = rng.randint(2, 6), rng.randint(1, 4), rng.randint(1, 5)
    uplink = rng.choice(("", f",uplink={rng.choice(('10G', '40G', '100G'))}"))
    switches = [f"leaf{n + 1}" for n in range(leaves)] + [f"spine{n + 1}" for n in range(spines)]
    return f"leaf-spine:leaves={leaves},spines={spines},hosts={hosts},servers=0,{more}{uplink}" + capable(rng, switches)


def capable(rng: random.Random, switches: list[str]) -> str:
    """Return the topology option with the aggregating switches: by layer, at random, or all."""
    how = rng.choice(("all", "leaf", "spine", "chance", "chance", "one"))
    chosen = {
        "all": switches,
        "leaf": [name for name in switches if name.startswith(("leaf", "edge"))],
        "spine": [name for name in switches if not name.startswith(("leaf", "edge"))],
        "chance": [name for name in switches if rng.random() < 0.4],
        "one": [rng.choice(switches)],
    }[how]
    return f",capable={'+'.join(chosen)}" if chosen else f",capable={switches[0]}"


def points(count: int, seed: int) -> Iterator[Point]:
    """Yield ``count`` points; if no plan is possible, another point is drawn."""
    rng = random.Random(seed)
    while count:
        topology, elements = draw_topology(rng), rng.choice(SIZES)
        with_lanes = {"lanes": 256, "elements": elements, "topology": topology}
        network = build_topology(Experiment(**with_lanes))
        workers = rng.randint(2, min(16, len(network.workers)))
        try:
            yield point(with_lanes | {"workers": workers}, rng.randrange(1000))
        except P4ReduceError as error:
            print(f"{topology}: {error}", file=sys.stderr)
            continue
        count -= 1


def point(given: dict[str, object], seed: int) -> Point:
    """Run all plans on one drawn network."""

    def time_ps(plan: str) -> int:
        return run_experiment(Experiment(plan=plan, seed=seed, **given)).network.communication_ps  # type: ignore[arg-type]

    experiment = Experiment(**given)  # type: ignore[arg-type]
    network = build_topology(experiment)
    workers = worker_hosts(network, experiment.workers)
    problem = Problem(network, workers, elements=experiment.elements)
    chosen, parts = fastest(problem)
    layout = parts[0].layout
    forest = layout is None or isinstance(layout, TreeLayout)
    guess_ps = predicted_forest_ps(problem, parts) if forest else predicted_ps(problem, layout)
    return Point(
        topology=experiment.topology,
        workers=len(workers),
        elements=experiment.elements,
        best_ps=time_ps("best"),
        predicted_ps=guess_ps,
        chosen=chosen,
        other_ps={plan: time_ps(plan) for plan in OTHERS},
        bound_ps=best_plan_ps(network, workers, experiment.elements, 256) if len(network.switches) < 25 else None,
    )


def main() -> int:
    """Run and print; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100, help="number of points")
    parser.add_argument("--seed", type=int, default=1, help="seed of the random points")
    options = parser.parse_args()
    found = list(track(points(options.count, options.seed), total=options.count, transient=True))
    slower = [one for one in found if one.over > WORSE]
    for one in sorted(slower, key=lambda one: -one.over)[:10]:
        others = ", ".join(f"{name} {time / 1e6:.1f}" for name, time in one.other_ps.items())
        print(f"{one.over:.3f} {one.topology} workers {one.workers} elements {one.elements:,}: "
              f"best ({one.chosen}) {one.best_ps / 1e6:.1f} us, predicted "
              f"{one.predicted_ps / 1e6:.1f}; {others}")  # fmt: skip
    for one in sorted(found, key=lambda one: -abs(one.wrong_by))[:3]:
        print(f"predicted {one.wrong_by:+.1%}: {one.topology} workers {one.workers} elements {one.elements:,}: "
              f"{one.chosen} {one.best_ps / 1e6:.1f} us")  # fmt: skip
    large = [abs(one.wrong_by) for one in found if one.elements >= 16_384]
    small = [abs(one.wrong_by) for one in found if one.elements < 16_384]
    below = [one for one in found if one.bound_ps and min(one.best_ps, *one.other_ps.values()) < one.bound_ps]
    print(f"{len(found)} points: best over the fastest other plan: worst {max(one.over for one in found):.3f}; "
          f"more than {WORSE} at {len(slower)}")  # fmt: skip
    print(f"prediction: from 16,384 elements on mean {mean(large):.1%}, worst {max(large, default=0):.1%}; "
          f"below mean {mean(small):.1%}, worst {max(small, default=0):.1%}")  # fmt: skip
    print(f"faster than the bound of the best plan: {len(below)}")
    gains = sorted(one.other_ps["steiner"] / one.best_ps for one in found)
    print(f"steiner over best: median {gains[len(gains) // 2]:.2f}, most {gains[-1]:.2f}")
    return 1 if slower or below else 0


def mean(values: list[float]) -> float:
    """Return the mean; 0 if there are no values."""
    return sum(values) / len(values) if values else 0.0


if __name__ == "__main__":
    sys.exit(main())
