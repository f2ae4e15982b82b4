"""Frames that may be ahead of a job's, and the time-outs that cover them."""

from dataclasses import replace

from p4reduce.control_plane.plans import PlanRequest, make_plan
from p4reduce.control_plane.plans.plan import Plan
from p4reduce.control_plane.plans.routes import frame_time_ps
from p4reduce.control_plane.resources import Resources
from p4reduce.network.jobs.specs import Occupant, ahead_ps, chunk_times, covers, timing_of
from p4reduce.topologies import load
from p4reduce.workers.records import Collective

TOPOLOGY = load("leaf-spine:leaves=2,spines=1,hosts=4,servers=2,rate=40G,uplink=10G")
FRAME_PS = {rate: frame_time_ps(62 + 4 * 256, rate * 10**9) for rate in (10, 40)}


def planned(job: int, workers: tuple[str, ...], server: str | None = None, plan: str = "steiner") -> Plan:
    return make_plan(TOPOLOGY, PlanRequest(plan, job, workers=workers, server=server, lanes=256), Resources(4096))


def occupant(plan: Plan, priority: int, window: int = 10) -> Occupant:
    return Occupant(plan, window, priority, priority)


ONE = planned(1, ("h1", "h5"))
TWO = planned(2, ("h2", "h6"))
BESIDE = planned(3, ("h3", "h4"))


def test_a_chunk_is_once_on_every_link_of_a_tree_in_each_direction():
    times = chunk_times(ONE)
    assert times["h1", 1] == FRAME_PS[40]
    assert {hop[0] for hop in times} == {"h1", "h5", "leaf1", "leaf2", "spine1"} - {ONE.root} | {ONE.root}
    star = chunk_times(planned(4, ("h1", "h2", "h5"), "server1", plan="ps"))
    assert star["server1", 1] == 3 * FRAME_PS[40]


def test_one_class_everywhere_adds_nothing():
    for priority in (0, 5):
        assert ahead_ps(occupant(ONE, priority), [occupant(TWO, priority), occupant(BESIDE, priority)]) == 0
    assert ahead_ps(occupant(ONE, 0), []) == 0


def test_the_windows_of_higher_jobs_on_shared_links_are_covered_there_and_back():
    low = ahead_ps(occupant(ONE, 1), [occupant(TWO, 6), occupant(BESIDE, 7)])
    shared = chunk_times(ONE).keys() & chunk_times(TWO).keys()
    # Up and down once over the shared links of the worker farther from the root: 10 chunks on each link.
    assert low == 10 * sum(chunk_times(TWO)[hop] for hop in shared if _on_one_way(hop, ONE))
    assert low >= 2 * 10 * FRAME_PS[10]
    assert ahead_ps(occupant(ONE, 6), [occupant(TWO, 1)]) == 0
    # A job of the same class counts as soon as there are others.
    both = ahead_ps(occupant(ONE, 3), [occupant(TWO, 3), occupant(planned(4, ("h2", "h6")), 1)])
    assert both == low


def _on_one_way(hop: tuple[str, int], plan: Plan) -> bool:
    """Return whether a hop is on the path, in either direction, of the worker farthest from the root."""
    far = max(plan.workers, key=lambda worker: len(_climb(plan, worker)))
    return hop in _climb(plan, far)


def _climb(plan: Plan, worker: str) -> set[tuple[str, int]]:
    above, found = dict(plan.edges), set()
    while worker in above:
        found |= {*plan.path_hops(worker, above[worker]), *plan.path_hops(above[worker], worker)}
        worker = above[worker]
    return found


def test_a_job_whose_class_moves_counts_with_the_highest_that_it_had():
    moving = Occupant(TWO, 10, 0, 5)
    assert ahead_ps(occupant(ONE, 4), [moving]) > 0
    assert ahead_ps(moving, [occupant(ONE, 0)]) > 0


def test_time_outs_grow_by_what_stands_before():
    plain, behind = timing_of(ONE), timing_of(ONE, 10**9)
    assert plain == timing_of(ONE, 0)
    assert behind.min_ps - 4 * ONE.rtt_ps == 2 * 10**9
    assert behind.initial_ps > plain.initial_ps
    assert behind.max_ps >= plain.max_ps


def test_plans_without_a_top():
    """In a ring and an all-to-all a chunk goes one way to a neighbour."""
    for name in ("ring", "all-to-all"):
        plan = planned(4, ("h1", "h2", "h5"), plan=name)
        behind = ahead_ps(occupant(plan, 1), [occupant(TWO, 6)])
        assert behind >= 10 * FRAME_PS[10]
        assert ahead_ps(occupant(TWO, 1), [occupant(plan, 6)]) > 0


def test_of_higher_jobs_all_of_an_operation_counts():
    windows = ahead_ps(occupant(ONE, 1), [occupant(TWO, 6)])
    higher, alike = occupant(TWO, 6), occupant(TWO, 1)
    higher.burst = alike.burst = 70
    assert ahead_ps(occupant(ONE, 1), [higher]) == 7 * windows
    assert ahead_ps(occupant(ONE, 1), [alike, occupant(BESIDE, 0), occupant(planned(4, ("h1", "h2")), 0)]) == windows


STAR = load("star:hosts=4,rate=10G")


def owned(number: int, collective: Collective | None, room: int = 10) -> Occupant:
    """Return a job of all hosts of the star, one of which is its server."""
    hosts = [host.name for host in STAR.workers]
    server = hosts.pop(number)
    request = PlanRequest("steiner", number + 1, workers=tuple(hosts), server=server, lanes=256)
    plan = make_plan(STAR, request, Resources(4096))
    return Occupant(plan, 64, 0, 0, room=room, under_way=collective)


def test_windows_of_one_class_are_covered_while_they_are_under_way():
    full, empty = FRAME_PS[10], frame_time_ps(62, 10**10)
    first, second = owned(0, Collective.PULL), owned(1, Collective.PULL)
    assert covers([first]) == [(0, 0, 0)]
    # Frames of both jobs towards a server, a worker of the other job, and to h3; a server also pulls the other's.
    there = 10 * (2 * full + empty)
    assert covers([first, second]) == [(there, 10 * 2 * full, there)] * 2
    third = owned(2, Collective.PUSH)
    assert covers([first, second, third])[0][1] > covers([first, second])[0][1]
    assert covers([first, owned(1, None)]) == [(0, 0, 0)] * 2


def test_what_a_job_knows_and_its_class_say_what_is_covered():
    first, second = owned(0, Collective.PULL), owned(1, Collective.PULL)
    first.knows = False
    assert covers([first, second])[0] == (0, 0, 0)
    assert covers([first, second])[1] != (0, 0, 0)
    second.lowest = second.highest = 3
    assert covers([first, second]) == [(0, 0, 0)] * 2


def test_jobs_of_the_same_workers_fill_no_queue_behind_their_links():
    plans = [make_plan(STAR, PlanRequest("steiner", job, lanes=256), Resources(4096)) for job in (1, 2)]
    cover, burst, strangers = covers(
        [Occupant(plan, 64, 0, 0, room=10, under_way=Collective.ALL_REDUCE) for plan in plans]
    )[0]
    assert cover == strangers > 0
    assert burst == 0


def test_trees_of_one_tensor_hold_each_other_up_by_two_chunks():
    requests = [PlanRequest("steiner", job, lanes=256, part=(job - 1, 1, 2), pace_ps=10**7) for job in (1, 2)]
    plans = [make_plan(STAR, one, Resources(4096)) for one in requests]

    def under_way(plan: Plan) -> Occupant:
        return Occupant(plan, 64, 0, 0, room=10, under_way=Collective.ALL_REDUCE)

    first, second = covers([under_way(plan) for plan in plans])
    apart, _ = covers([under_way(replace(plan, part=(0, 1, 1))) for plan in plans])
    assert first == second
    assert first.all_ps == 2 * apart.all_ps // 10
    assert first.strangers_ps == 0
    twice = covers([under_way(plan) for plan in (*plans, *plans)])
    assert all(one.strangers_ps > 0 for one in twice), "two tensors at once are not paced together"
