"""The value of data locality in placement, on packets: a task's hosts read shards from their homes, then train.

Other tasks occupy some hosts of the cluster. A policy with knowledge of the shards places the task near them; the same
policy without that knowledge chooses other hosts, which read the same shards.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from p4reduce.control_plane.placement import ClusterView, Racks, place, reads
from p4reduce.control_plane.plans import PlanRequest
from p4reduce.control_plane.scheduling.task import Task, WantedHosts
from p4reduce.control_plane.scheduling.view import NetworkState
from p4reduce.group.errors import ClusterError
from p4reduce.network.jobs.asynchronous import Clockwork
from p4reduce.network.jobs.network import EmbeddedSwitches, JobNetwork, bundled
from p4reduce.play.tasks.reading import TaskReading, read_keys
from p4reduce.topologies import load
from p4switch.base.values import PS_PER_S
from studies.frame import column, record, scaled
from studies.placement.calibration import LANES, NUMBERS, QUEUE_FRAMES, Trainer, TrainerRun

TOPOLOGY: Final = "leaf-spine:leaves=4,spines=2,hosts=8,rate=10G"
BUSY: Final = 12
"""number of hosts, of 32, that other tasks occupy; shards may be stored there, too"""
LEAST_WORKERS: Final = 3
MOST_WORKERS: Final = 8
SHARD_BYTES: Final = 500_000
ELEMENTS: Final = 61_706
COMPUTE_S: Final = 50e-6
ROUNDS: Final = 6
_LATEST_PS: Final = 60 * PS_PER_S

Lying = Literal["anywhere", "in two racks"]
"""homes of the shards: any hosts, or hosts of two racks that are drawn for the task"""
LYING: Final[tuple[Lying, ...]] = ("anywhere", "in two racks")


@dataclass(frozen=True)
class ShardCell:
    """A task on packets: the homes of its shards, its policy, and whether the policy knows them."""

    lying: Lying
    policy: str
    told: bool
    seed: int


@record
class ShardRow:
    """Times of the reads, and of the whole task."""

    lying: Lying = column("shards lie")
    policy: str = column("policy")
    told: bool = column("told")
    seed: int
    read_s: float = column("reading, ms", scaled(1e3, "{:.3f}"))
    read_bytes: int = column("read, kB", scaled(1e-3, "{:.0f}"))
    """bytes of shards whose home was not their reader"""
    racks: int = column("racks", "{:.2f}")
    iteration_s: float = column("iteration, us", scaled(1e6, "{:.1f}"))
    jct_s: float = column("JCT, ms", scaled(1e3, "{:.3f}"))


def shard_cells(policies: Sequence[str], seeds: Sequence[int]) -> list[ShardCell]:
    """Return cells for every policy, with and without knowledge of the shards."""
    return [
        ShardCell(lying, policy, told, seed)
        for lying in LYING
        for policy in policies
        for told in (False, True)
        for seed in seeds
    ]


def run_shards(cell: ShardCell) -> Iterator[ShardRow]:
    """Run a task. ``ClusterError`` if data or a sum are wrong."""
    topology = load(TOPOLOGY)
    racks = Racks(topology)
    hosts = [host.name for host in topology.workers]
    random = np.random.Generator(np.random.Philox(key=[cell.seed, LYING.index(cell.lying)]))
    kept = {hosts[place] for place in random.choice(len(hosts), BUSY, replace=False)}
    count = int(random.integers(LEAST_WORKERS, MOST_WORKERS + 1))
    homes = hosts
    if cell.lying == "in two racks":
        drawn = random.choice(len(racks.members), 2, replace=False)
        homes = [host for place in drawn for host in list(racks.members.values())[place]]
    wanted = WantedHosts(count, tuple(homes[place] for place in random.integers(len(homes), size=count)), SHARD_BYTES)
    task = Task(
        f"task{cell.seed}",
        "",
        (),
        ELEMENTS,
        ROUNDS,
        round(COMPUTE_S * PS_PER_S),
        wanted=wanted if cell.told else WantedHosts(count),
    )
    slots = dict.fromkeys(hosts, 1)
    free = {host: int(host not in kept) for host in hosts}
    chosen = place(task, ClusterView(racks, NetworkState(topology), slots, free, rings=True), cell.policy).workers
    read = Counter(reads(wanted, chosen))
    with (
        EmbeddedSwitches(topology, bundled(LANES)) as switches,
        JobNetwork(switches, queue_frames=QUEUE_FRAMES) as network,
    ):
        told = sorted((home, reader, number * SHARD_BYTES) for (home, reader), number in read.items())
        read_s = _read(network, told)
        request = PlanRequest("steiner", job=1, workers=chosen, server=None, lanes=LANES)
        plan, clockwork = switches.controller.start_job(request), Clockwork(network)
        about = Trainer(chosen, "steiner", ELEMENTS, COMPUTE_S, network.now / PS_PER_S)
        run = TrainerRun(clockwork, network.add(plan, NUMBERS), about, ROUNDS)
        run.begin([run])
        clockwork.run()
    yield ShardRow(
        cell.lying,
        cell.policy,
        cell.told,
        cell.seed,
        read_s,
        SHARD_BYTES * read.total(),
        len({racks.of[host] for host in chosen}),
        (run.ends_ps[-1] / PS_PER_S - read_s) / ROUNDS,
        run.ends_ps[-1] / PS_PER_S,
    )


def _read(network: JobNetwork, told: list[tuple[str, str, int]]) -> float:
    """Return the seconds until all shards are read, in the same way as the orchestrator's tasks read them."""
    reading = TaskReading(network, told, keys=read_keys(), lanes=LANES)
    while not reading.step():
        if network.now >= _LATEST_PS:
            raise ClusterError("shards: reading does not end")
        network.advance(_LATEST_PS, reading.active(), first=True)
    if reading.error is not None:
        raise ClusterError(f"shards: {reading.error}")
    return network.now / PS_PER_S if told else 0.0
