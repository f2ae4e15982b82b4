"""No run beats the bounds of its plan's busiest link, of its task or of the best plan, on random graphs and rates."""

import random

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.counters import plan_bound, task_bound_ps
from p4reduce.control_plane.plans.bounds import best_plan_ps
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.participant import tensor
from p4reduce.runs.runner import result_of, run_experiment
from p4reduce.runs.virtual.cluster import Cluster, build_topology, worker_hosts
from tests.support.effort import examples

PLANS = ("steiner", "spt", "mst", "ring", "ps")
OF_ANY_KIND = (
    "best",
    "packing",
    "striped",
    "rina",
    "hierarchical",
    "halving-doubling",
    "double-binary-tree",
    *PLANS[:4],
)
RATES = (1, 2, 5, 10, 25, 40, 100)


def random_topology(rng):
    """Draw a connected graph of 1 to 6 switches, 2 to 6 workers and a server, with a rate for every link."""
    switches = [f"s{number}" for number in range(rng.randint(1, 6))]
    pairs = {(rng.choice(switches[:number]), switch) for number, switch in enumerate(switches) if number}
    if len(switches) > 2:
        pairs |= {tuple(sorted(rng.sample(switches, 2))) for _ in range(rng.randint(0, 3))}
    workers = [f"h{number}" for number in range(rng.randint(2, 6))]
    links = [*pairs, *((host, rng.choice(switches)) for host in [*workers, "ps"])]
    nodes = [
        *(
            f"  - {{name: {name}, kind: switch, capable: {'false' if number and not rng.randrange(3) else 'true'}}}"
            for number, name in enumerate(switches)
        ),
        *(f"  - {{name: {name}, kind: host}}" for name in workers),
        "  - {name: ps, kind: host, role: server}",
    ]
    rows = [
        f"  - {{a: {a}, b: {b}, rate: {rng.choice(RATES)}G, delay: {rng.choice((0, 10, 1000))}ns}}" for a, b in links
    ]
    return "\n".join(["nodes:", *nodes, "links:", *rows, ""])


@pytest.mark.parametrize("seed", range(examples(12, 1000)))
def test_no_run_is_faster(seed, tmp_path):
    rng = random.Random(seed)
    path = tmp_path / "random.yaml"
    path.write_text(random_topology(rng))
    elements = rng.choice((1, 63, 64, 1000, 5000, 20_000))
    late = rng.choice((0.0, 0.0, 1e-6, 1e-5))
    numbers = rng.choice(({}, {"numbers": "fixed", "scale": 1000.0}))
    experiment = Experiment(topology=str(path), plan=rng.choice(PLANS), lanes=64, seed=seed, **numbers)

    def participate(comm):
        for turn in range(2):
            comm.compute(late * comm.rank)
            comm.all_reduce(tensor(0, comm.rank, turn, elements))

    with Cluster(experiment) as cluster:
        cluster.run_threads(participate)
        plan = cluster.carrier.jobs[0].plan
        result = result_of(cluster).network
    assert result.prediction_differences == []
    of_plan = plan_bound(plan, elements)
    of_task = task_bound_ps(plan.topology, plan.workers, elements, 64)
    for record in result.collectives:
        assert record.bound_ps == of_plan.time_ps
        assert record.done_ps - record.start_ps >= max(of_plan.time_ps, of_task)
        if not late:
            assert record.communication_ps >= max(of_plan.time_ps, of_task)


@pytest.mark.parametrize("seed", range(50_000, 50_000 + examples(8, 1000)))
def test_no_plan_is_faster_than_the_bound_of_the_best(seed, tmp_path):
    """Two of eleven plans, if possible, on a random graph with a random set of capable switches."""
    rng = random.Random(seed)
    path = tmp_path / "random.yaml"
    path.write_text(random_topology(rng))
    elements = rng.choice((1, 64, 1000, 5000, 20_000))
    given = {"topology": str(path), "lanes": 64, "elements": elements, "seed": seed}
    network = build_topology(Experiment(**given))
    bound_ps = best_plan_ps(network, worker_hosts(network, None), elements, 64)
    assert bound_ps is not None
    for plan in ("ring", *rng.sample(OF_ANY_KIND, 2)):
        try:
            result = run_experiment(Experiment(**given, plan=plan)).network
        except PlanError:
            assert plan != "ring"
            continue
        assert result.communication_ps >= bound_ps
        assert result.prediction_differences == []
