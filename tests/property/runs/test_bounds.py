"""No run beats the least time of its plan's busiest link, nor of its task, on random graphs with random rates."""

import random

import pytest

from p4reduce.control_plane.counters import plan_bound, task_bound_ps
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.inputs import tensor
from p4reduce.runs.runner import result_of
from p4reduce.runs.virtual.cluster import Cluster
from tests.support.effort import examples

PLANS = ("steiner", "spt", "mst", "ring", "ps")
RATES = (1, 2, 5, 10, 25, 40, 100)


def random_topology(rng):
    """A connected graph of 1 to 6 switches with 2 to 6 workers and a server; every link has a rate of its own."""
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
