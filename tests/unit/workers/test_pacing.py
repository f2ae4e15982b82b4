"""Pacing: new chunks leave no faster than the plan's busiest link takes them, at regular times."""

from collections.abc import Iterator

import numpy as np
import pytest

from p4reduce.control_plane.plans import PlanRequest, make_plan
from p4reduce.control_plane.resources import Resources
from p4reduce.network.jobs.specs import pace_of
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.result import NetworkResult
from p4reduce.runs.runner import move_tensors, result_of
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.topologies import load
from p4reduce.workers.kernels.endpoint import deadline, expire, transmit
from p4reduce.workers.kernels.frames import HAS_LANES, flags_of
from p4reduce.workers.kernels.sender import set_up
from p4reduce.workers.numbers import FixedScale, Numbers
from p4reduce.workers.operation import Post
from p4reduce.workers.records import NEVER, Collective
from p4reduce.workers.specs import FIXED, Congestion
from p4switch.base.values import PS_PER_US
from tests.support.loopback.golden import quantized_sum
from tests.support.loopback.jobs import Job, random_arrays, same_bytes
from tests.support.loopback.network import Faults

PACE_PS = 5 * PS_PER_US
PACED = Congestion(pace_ps=PACE_PS)
LANES = 4


def paced_job(size: int, numbers: Numbers | None = None, faults: Faults = Faults()) -> Job:
    given = {} if numbers is None else {"numbers": numbers}
    job = Job(size, lanes=LANES, slots=64, faults=faults, **given)
    for index in job.workers:
        set_up(job.endpoints.records[index], PACED, 1)
    return job


def departures(job: Job, until_ps: int, late: dict[int, int]) -> Iterator[tuple[int, bool]]:
    """Yield departure times of an unanswered worker's frames, and whether they have lanes; late: delays of the host."""
    records, out = job.endpoints.records, np.zeros(100, np.uint8)
    now = 0
    while now <= until_ps:
        while transmit(records, 0, now, out):
            yield now, bool(flags_of(out) & HAS_LANES)
        following = int(deadline(records, 0))
        if following == NEVER:
            return
        assert following > now, "an endpoint asks to be woken in the past"
        now = following + late.pop(following, 0)
        expire(records, 0, now)


def posted(numbers: Numbers | None = None) -> Job:
    job = paced_job(1, numbers)
    array = np.ones(400, np.float32)
    job.post([Post(Collective.ALL_REDUCE, array, array)])
    return job


def test_chunks_leave_one_pace_apart() -> None:
    times = [at for at, _ in departures(posted(FixedScale(1.0)), 20 * PACE_PS, {})]
    assert times == [turn * PACE_PS for turn in range(21)]


def test_who_is_a_little_late_keeps_the_beat_and_who_is_very_late_catches_up_by_one() -> None:
    beat = [turn * PACE_PS for turn in range(12)]
    late = {beat[3]: PACE_PS // 2, beat[6]: 10 * PACE_PS}
    times = [at for at, _ in departures(posted(FixedScale(1.0)), 25 * PACE_PS, late)]
    assert times[:6] == [*beat[:3], beat[3] + PACE_PS // 2, beat[4], beat[5]]
    pause = beat[6] + 10 * PACE_PS
    assert times[6:10] == [pause, pause, pause + PACE_PS, pause + 2 * PACE_PS]


def test_exponents_that_lead_are_not_paced() -> None:
    frames = list(departures(posted(), 0, {}))
    assert len(frames) == 32, "a window of 32 chunks"
    assert not any(lanes for _, lanes in frames)


def test_sums_stay_what_they_are_under_faults() -> None:
    job = paced_job(3, faults=Faults(loss=0.05, duplicate=0.05, reorder=0.05))
    sources = random_arrays(3, 4_000, 1)
    same_bytes(job.all_reduce(sources), quantized_sum(sources, LANES, job.numbers))


def test_a_pace_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="pace_ps: -1, must be >= 0"):
        Congestion(pace_ps=-1)


@pytest.mark.parametrize(
    ("topology", "plan", "times"),
    [
        ("star:hosts=4,rate=10G", "steiner", 0),  # every link carries a chunk once, at the hosts' rate
        ("star:hosts=4,servers=1,rate=10G", "ps", 4),
        ("star:hosts=4,rate=10G", "ring", 0),
        ("leaf-spine:leaves=2,spines=1,hosts=2,rate=40G,oversubscription=4", "steiner", 2),
    ],
)
def test_the_pace_is_that_of_the_busiest_link_where_hosts_are_faster(topology: str, plan: str, times: int) -> None:
    built = load(topology)
    made = make_plan(built, PlanRequest(plan=plan), Resources())
    assert pace_of(made) == (0 if times == 0 else made.chunk_ps)
    if times:
        (link,) = {built.link_at(worker, made.up(worker).port).rate_bps for worker in made.workers}
        assert made.chunk_ps == pytest.approx(times * made.frame_bytes * 8e12 / link, rel=0.1)


def moved(congestion: Congestion | None) -> NetworkResult:
    """The parameter-server baseline along a chain: hosts at the far end share every link with all others."""
    experiment = Experiment(topology="leaf-spine-8", plan="ps", window=64, elements=60_000, seed=2)
    with Cluster(experiment, congestion=congestion) as cluster:
        move_tensors(cluster, None)
        return result_of(cluster).network


def test_paced_workers_hardly_queue_and_are_done_sooner() -> None:
    paced, at_once = moved(None), moved(FIXED)
    assert paced.result_sha256 == at_once.result_sha256
    deepest, before = (max(link.max_queue for link in one.links) for one in (paced, at_once))
    assert deepest < before / 4
    assert paced.communication_ps < at_once.communication_ps
