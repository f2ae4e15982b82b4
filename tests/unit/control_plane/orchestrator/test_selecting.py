"""Selection of a task's workers: compared with a search over all subsets, in loaded networks, on full hosts."""

from itertools import combinations

import pytest

from p4reduce.base.errors import PlanError
from p4reduce.control_plane.orchestrator import ComputingManager, HostProfile
from p4reduce.control_plane.orchestrator.installer import Selector
from p4reduce.control_plane.scheduling import NetworkState, Rejection, Selection, Task, consumed, policy_named
from p4reduce.topologies import leaf_spine

TOPOLOGY = leaf_spine(leaves=3, spines=2, hosts=2, servers=1)
WORKERS = ("h5", "h1", "h3", "h2", "h6")
STEINER = policy_named("steiner")


def task(how="cheapest", budget=0.6, workers=WORKERS, demand_bps=0, name="a", **more):
    return Task(name, "server1", workers, 1000, demand_bps=demand_bps, select=Selection(how, budget, **more))


def choose(given, state=None, profiles=None, policy=STEINER):
    selector = Selector(policy, ComputingManager(TOPOLOGY, profiles), 64)
    assert selector.fault(given) == ""
    return selector.choose(given, given.select, state or NetworkState(TOPOLOGY))


def cost(workers, state=None):
    """Return the load of these workers' tree on links, up and down, computed independently."""
    return consumed(STEINER(Task("x", "server1", workers, 1000), state or NetworkState(TOPOLOGY)), TOPOLOGY)


@pytest.mark.parametrize("budget", [0.2, 0.4, 0.6, 0.8, 1.0])
def test_cheapest_takes_as_many_as_any_subset_within_the_budget(budget):
    choice = choose(task(budget=budget))
    allowed = round(budget * cost(WORKERS))
    most = max(count for count in range(1, 6) for subset in combinations(WORKERS, count) if cost(subset) <= allowed)
    assert len(choice.task.workers) == most
    assert choice.why["copies"] == cost(choice.task.workers) <= choice.why["allowed"] == allowed
    assert choice.why["copies_of_all"] == cost(WORKERS)
    assert choice.task.select is choice.decision.task.select is None


def test_those_left_out_are_named_with_what_they_would_cost_and_order_is_that_of_ranks():
    choice = choose(task(budget=0.6))
    chosen = choice.task.workers
    assert list(chosen) == [worker for worker in WORKERS if worker in chosen] == choice.why["chosen"]
    assert set(choice.why["left_out"]) == set(WORKERS) - set(chosen) != set()
    for host, reason in choice.why["left_out"].items():
        more = tuple(worker for worker in WORKERS if worker in (*chosen, host))
        assert reason == f"{cost(more)} copies, {choice.why['allowed']} are allowed"


def test_utility_is_the_tasks_else_the_hosts():
    far = {"h5": 1.0, "h1": 1.0, "h3": 1.0, "h2": 1.0, "h6": 99.0}
    profiles = {host: HostProfile(utility=utility) for host, utility in far.items()}
    assert "h6" in choose(task("useful", 0.6), profiles=profiles).why["chosen"]
    own = choose(task("useful", 0.6, utilities=(("h6", 0.0), ("h3", 99.0))), profiles=profiles)
    assert "h3" in own.why["chosen"]
    assert "h6" not in own.why["chosen"]
    assert own.why["utilities"] == {**far, "h6": 0.0, "h3": 99.0}
    missing = Selector(STEINER, ComputingManager(TOPOLOGY), 64).fault(task("useful", 0.6, utilities=(("h5", 1.0),)))
    assert missing.startswith("select: how useful the data of h1 are is not known; say so in")


def test_random_is_the_same_for_the_same_seed_and_task():
    found = {seed: choose(task("random", 0.5, seed=seed)).why["chosen"] for seed in range(8)}
    assert found == {seed: choose(task("random", 0.5, seed=seed)).why["chosen"] for seed in reversed(range(8))}
    assert len({tuple(chosen) for chosen in found.values()}) > 1
    names = {tuple(choose(task("random", 0.5, name=name)).why["chosen"]) for name in "abcdefgh"}
    assert len(names) > 1
    assert all(cost(tuple(chosen)) <= round(0.5 * cost(WORKERS)) for chosen in found.values())


def test_all_is_everyone_without_a_budget():
    choice = choose(Task("a", "server1", WORKERS, 1, select=Selection("all")))
    assert choice.task.workers == WORKERS
    assert choice.why == {"how": "all", "chosen": list(WORKERS), "copies_of_all": cost(WORKERS)}


def test_a_full_host_and_one_behind_a_full_link_are_left_out():
    state = NetworkState(TOPOLOGY)
    state.background_bps["h1", 1] = 10**10
    profiles = {"h2": HostProfile(most_models=1)}
    computing = ComputingManager(TOPOLOGY, profiles)
    computing.place(Task("other", "h1", ("h2",), 1))
    given = task(budget=1.0, demand_bps=10**9)
    choice = Selector(STEINER, computing, 64).choose(given, given.select, state)
    assert choice.task.workers == ("h5", "h3", "h6")
    assert choice.why["left_out"]["h2"] == "trains its most already"
    assert "h1" in choice.why["left_out"]["h1"]
    assert "copies" not in choice.why["left_out"]["h1"]


def test_where_nobody_fits_the_first_says_why():
    with pytest.raises(PlanError, match=r"select: no local model fits: h5: \d+ copies, 1 are allowed"):
        choose(task(budget=0.05))
    state = NetworkState(TOPOLOGY)
    state.background_bps["leaf1", TOPOLOGY.port("leaf1", "server1")] = 10**10
    with pytest.raises(PlanError, match=r"no local model fits: h5: .*server1"):
        choose(task(demand_bps=10**9), state)


def test_the_policy_is_asked_once_for_each_part():
    asked = []

    def counting(given, state, *, lanes=256):
        asked.append((given.workers, bool(state.background_bps), given.demand_bps))
        if len(given.workers) > 3 and state.background_bps:
            raise Rejection("too many")
        return STEINER(given, state, lanes=lanes)

    state = NetworkState(TOPOLOGY, background_bps={("h1", 1): 1})
    choice = choose(task(budget=1.0), state, policy=counting)
    assert len(choice.why["chosen"]) == 3
    assert set(choice.why["left_out"].values()) == {"too many"}
    assert len(asked) == len(set(asked)) <= 1 + 5 * 6 // 2


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"how": "best", "budget": 0.4}, "select.how: 'best' is none of all, random, cheapest, useful"),
        ({"how": "all", "budget": 0.4}, "select.budget: 'all' has no budget"),
        ({"how": "random"}, "select.budget: None is no number above 0, up to 1; write for example 0.4"),
        ({"how": "random", "budget": 0}, "select.budget: 0 is no number above 0"),
        ({"how": "random", "budget": 1.1}, "select.budget: 1.1 is no number"),
        ({"how": "random", "budget": float("nan")}, "select.budget: nan is no number"),
        ({"how": "random", "budget": 0.4, "seed": -1}, "select.seed: -1 is no whole number"),
        ({"how": "random", "budget": 0.4, "utilities": (("h1", 1),)}, "select.utilities: 'random' does not look"),
        ({"how": "useful", "budget": 0.4, "utilities": (("h1", -1),)}, "select.utilities.'h1': -1 is no number"),
        ({"how": "useful", "budget": 0.4, "utilities": (("h9", 1),)}, "select.utilities: 'h9' is no worker"),
        ({"how": "useful", "budget": 0.4, "utilities": (("h1", 1), ("h1", 2))}, "a host is named twice"),
    ],
)
def test_what_no_selection_can_be_is_refused(fields, complaint):
    with pytest.raises(PlanError) as refused:
        Task("a", "server1", WORKERS, 1, select=Selection(**fields))
    assert complaint in str(refused.value)


def test_the_number_of_compared_workers_is_limited():
    many = tuple(f"w{number}" for number in range(65))
    with pytest.raises(PlanError, match="'cheapest' compares at most 64 workers, not 65; 'random' takes any number"):
        task(workers=many)
    assert len(task("random", workers=many).workers) == 65
