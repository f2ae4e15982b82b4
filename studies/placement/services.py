"""Inference beside training in the orchestrator, on packets: latencies of a service, and the slowdown of training.

A training gets hosts in several racks; then a service arrives whose clients are at other hosts. Either the orchestrator
chooses the host of its server and gives it a class (`control_plane/placement/services.py`), or the server's host is
random and all traffic has one class.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

import numpy as np

from p4reduce.control_plane.orchestrator import OrchestratorOptions
from p4reduce.control_plane.scheduling import policy_named
from p4reduce.control_plane.scheduling.task import ServiceRequests, Task, WantedHosts
from p4reduce.group.errors import ClusterError
from p4reduce.topologies import Topology, load
from p4switch.base.values import PS_PER_MS, PS_PER_US
from studies.frame import column, percent, record
from studies.orchestrated import orchestrated
from studies.placement.calibration import LANES

NETWORKS: Final = {
    "one spine": "leaf-spine:leaves=4,spines=1,hosts=8,rate=25G",
    "two spines": "leaf-spine:leaves=4,spines=2,hosts=8,rate=25G",
}
"""topologies by name; with two spines, answers can avoid the tree of a training"""
LEAST_WORKERS: Final = 3
MOST_WORKERS: Final = 7
ELEMENTS: Final = 61_706
TRAINING_PS: Final = 130 * PS_PER_US
"""computing time of a round, with which communication takes 0.4 of the round"""
CLIENTS: Final = 5
ANSWER: Final = 16 * LANES
ROUND_S: Final = 230e-6
"""approximate seconds of a round of training"""
LONGER: Final = 1.8
"""ratio of the training's length to the mean time of a client's requests"""
MORE_ROUNDS: Final = 10
ONE_CLASS: Final = 1
ARRIVES_PS: Final = PS_PER_MS
OPTIONS: Final = OrchestratorOptions(control_latency_ps=10 * PS_PER_US, measure_every_ps=PS_PER_MS, placement="spread")
"""the training spans several racks: within one rack it would share no link with a service"""

Way = Literal["chosen", "drawn"]
""""chosen": the orchestrator chooses the server, whose frames go first; "drawn": a random server, one class for all"""
WAYS: Final[tuple[Way, ...]] = ("chosen", "drawn")


@dataclass(frozen=True)
class ServiceCell:
    """A training and a service, drawn by the seed."""

    network: str
    seed: int
    rates_hz: tuple[float, ...]
    """request rates of each client"""
    requests: int
    """number of requests of each client"""


@record
class ServiceRow:
    """Latencies of a service with and without training; rounds of training with and without the service."""

    network: str = column("network")
    way: Way = column("server")
    rate_hz: float = column("requests/s a client", "{:g}")
    seed: int
    p50_us: float = column("p50, us", "{:.1f}")
    p99_us: float = column("p99, us", "{:.1f}")
    alone_us: float = column("p99 without training, us", "{:.1f}")
    ratio: float = column("ratio", "{:.3f}")
    loss: float = column("training loses", percent())
    """relative increase of the length of rounds beside the service"""


def service_cells(
    networks: Sequence[str], seeds: Sequence[int], rates_hz: Sequence[float], requests: int
) -> list[ServiceCell]:
    """Return a cell for each network and seed, which has both ways at all rates beside the same training."""
    return [ServiceCell(network, seed, tuple(rates_hz), requests) for network in networks for seed in seeds]


def run_service(cell: ServiceCell) -> Iterator[ServiceRow]:
    """Run the service beside training, and each of them alone. ``ClusterError`` if something does not finish."""
    topology = load(NETWORKS[cell.network])
    random = np.random.Generator(np.random.Philox(key=[cell.seed, 46]))
    rounds = round(LONGER * cell.requests / min(cell.rates_hz) / ROUND_S) + MORE_ROUNDS
    training = Task(
        "training",
        "",
        (),
        ELEMENTS,
        rounds,
        TRAINING_PS,
        priority=ONE_CLASS,
        wanted=WantedHosts(int(random.integers(LEAST_WORKERS, MOST_WORKERS + 1))),
    )
    without = _run(topology, [training])
    taken = {host for task in without.tasks for host in (*task.workers, task.server)}
    left = [host.name for host in topology.workers if host.name not in taken]
    drawn = [left[place] for place in random.choice(len(left), CLIENTS + 1, replace=False)]
    for way, rate_hz in product(WAYS, cell.rates_hz):
        service = Task(
            "service",
            drawn[-1] if way == "drawn" else "",
            tuple(drawn[:-1]),
            ANSWER,
            cell.requests,
            arrival_ps=ARRIVES_PS,
            priority=ONE_CLASS if way == "drawn" else None,
            serving=ServiceRequests(rate_hz, seed=cell.seed),
        )
        both = _run(topology, [*without.tasks, service])
        (placed,) = [task for task in both.tasks if task.serving is not None]
        alone = _run(topology, [placed])
        loss = _beside(both.rounds["training"], both) / _mean(without.rounds["training"]) - 1
        yield ServiceRow(
            cell.network,
            way,
            rate_hz,
            cell.seed,
            both.p50_ps / PS_PER_US,
            both.p99_ps / PS_PER_US,
            alone.p99_ps / PS_PER_US,
            both.p99_ps / alone.p99_ps,
            loss,
        )


@dataclass(frozen=True)
class _Ran:
    """Tasks at their hosts, (start, end) of rounds by task, and times and latencies of the service, if there is one."""

    tasks: tuple[Task, ...]
    rounds: dict[str, list[tuple[int, int]]]
    began_ps: int = 0
    ended_ps: int = 0
    p50_ps: int = 0
    p99_ps: int = 0


def _run(topology: Topology, tasks: Sequence[Task]) -> _Ran:
    policy = policy_named("steiner")
    with orchestrated(topology, tasks, lambda _: policy, name="steiner", options=OPTIONS, lanes=LANES) as (_, store):
        rows = store.tasks()
        if wrong := [f"{row.name}: {row.reason}" for row in rows if row.state != "finished"]:
            raise ClusterError(f"services: {wrong[0]}")
        history = store.history
        rounds = {
            row.name: [(round_["started_ps"], round_["done_ps"]) for round_ in history.rounds(row.name)]
            for row in rows
            if row.task.serving is None
        }
        ran = _Ran(tuple(row.task for row in rows), rounds)
        for row in rows:
            if row.task.serving is not None:
                (why,) = [decision["why"] for decision in history.decisions(row.name) if decision["what"] == "served"]
                began, ended = int(row.started_ps or 0), int(row.finished_ps or 0)
                return _Ran(ran.tasks, rounds, began, ended, why["p50_ps"], why["p99_ps"])
        return ran


def _beside(rounds: Sequence[tuple[int, int]], ran: _Ran) -> float:
    """Return the mean length of rounds during the service; ``ClusterError`` if training ended before it."""
    if rounds[-1][1] < ran.ended_ps:
        raise ClusterError("services: a training ended before the service: give it more rounds")
    return _mean([span for span in rounds if span[0] >= ran.began_ps and span[1] <= ran.ended_ps])


def _mean(rounds: Sequence[tuple[int, int]]) -> float:
    return float(np.mean([end - start for start, end in rounds]))
