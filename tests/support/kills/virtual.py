"""A group in virtual time with random failures, joins and restarts of switches, drawn from a seed."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from unittest import mock

from p4reduce.control_plane.entries import PLAN_TABLES, wildcards
from p4reduce.group.errors import ClusterError
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.runs.virtual.incidents import Incident
from p4reduce.runs.virtual.surviving import SurvivingCarrier
from tests.support.kills.invariants import check
from tests.support.kills.script import Got, play

MS = 1_000_000_000
DETECTED_MS = 12
ANSWERED_MS = 2
RESUMED_MS = 20
LINK_MS = 5
NETWORKS = ("star:hosts=4", "leaf-spine:leaves=2,spines=2,hosts=2", "leaf-spine:leaves=2,spines=2,hosts=3,servers=1")
PLANS = ("steiner", "steiner", "mst", "spt", "ring", "ps")
SEVERAL = ("packing", "packing", "striped", "rina", "halving-doubling", "double-binary-tree", "hierarchical", "best")
"""plans of several trees, in most of which workers aggregate for others; used in every fourth group"""
OPERATIONS, ELEMENTS = 8, 700


@dataclass
class Seen:
    """Result of one group."""

    incidents: list[Incident]
    outcome: str
    """``shrunk``, ``grown``, ``rerouted``, ``untouched`` or ``ended``."""
    outcomes: Counter[str] = field(default_factory=Counter)
    """Number of decisions by outcome."""
    noticed_ms: list[float] = field(default_factory=list)
    resumed_ms: list[float] = field(default_factory=list)
    deaths: int = 0
    joins: int = 0


def draw(seed: int) -> tuple[Experiment, list[Incident]]:
    """Return an experiment (network, plan, faults) and its incidents: 1 to 3 failures, some in quick succession."""
    rng = random.Random(seed)
    network, plan = rng.choice(NETWORKS), rng.choice(PLANS)
    if seed % 4 == 3:
        plan = random.Random(f"trees of {seed}").choice(SEVERAL)
    if plan == "ps":
        network = NETWORKS[2]
    experiment = Experiment(
        topology=network,
        plan=plan,
        lanes=64,
        seed=seed,
        faults={"loss": rng.choice((0.0, 0.001, 0.01, 0.05)) * rng.random()},
        on_failure=rng.choice(("shrink", "shrink", "shrink", "raise", "abort")),
        rate="1G",
    )
    hosts = [f"h{number}" for number in range(1, 5 if "hosts=3" not in network else 7)]
    spare = [*hosts]
    at = rng.randrange(MS, 8 * MS)
    incidents = []
    for _ in range(rng.choice((1, 1, 2, 3))):
        kind = rng.choices(("host", "process", "link", "switch"), (5, 4, 2, 1))[0]
        if kind in {"host", "process"}:
            what = spare.pop(rng.randrange(len(spare)))
        elif network.startswith("star"):
            kind, what = "link", f"{rng.choice(hosts)}-s1"
        elif kind == "switch":
            what = rng.choice(("spine1", "spine2", "leaf1"))
        else:
            what = rng.choice((f"leaf{rng.randint(1, 2)}-spine{rng.randint(1, 2)}", f"{hosts[0]}-leaf1"))
        incidents.append(Incident(at, kind, what))
        at += rng.choice((rng.randrange(1, 17 * MS), rng.randrange(1, 2 * MS)))
    if seed % 3 == 0:
        experiment, incidents = _with_joins(experiment, incidents, hosts, random.Random(f"joins of {seed}"))
    if seed % 5 == 3:
        incidents = _with_restarts(network, incidents, random.Random(f"restarts of {seed}"))
    return experiment, incidents


def _with_restarts(network: str, incidents: list[Incident], rng: random.Random) -> list[Incident]:
    """Add one or two restarts of switches: at once, or after an outage of less or more than a lease."""
    found = [*incidents]
    for _ in range(rng.choice((1, 1, 2))):
        switch = "s1" if network.startswith("star") else rng.choice(("spine1", "spine2", "leaf1", "leaf2"))
        away = rng.choice((0, 0, rng.randrange(1, 9 * MS), rng.randrange(1, 30 * MS)))
        found.append(Incident(rng.randrange(MS, 30 * MS), "restart", switch, away))
    return sorted(found, key=lambda one: one.at_ps)


def _with_joins(
    experiment: Experiment, incidents: list[Incident], hosts: list[str], rng: random.Random
) -> tuple[Experiment, list[Incident]]:
    """Add one or two joins: of a host kept in reserve, of one that died, or of one that restarts."""
    places = hosts[: len(hosts) - rng.randrange(2)]
    experiment = experiment.model_copy(update={"workers": len(places)})
    there = [one for one in incidents if one.kind not in {"host", "process"} or one.what in places]
    for _ in range(rng.choice((1, 1, 2))):
        what = rng.choice([*hosts[-1:], *[one.what for one in there if one.kind in {"host", "process"}], *hosts[:1]])
        there.append(Incident(rng.randrange(MS, 40 * MS), "join", what))
    return experiment, sorted(there, key=lambda one: one.at_ps)


def run(seed: int) -> Seen:
    """Play and check a group; raise `AssertionError` for a violation."""
    experiment, incidents = draw(seed)
    seen = Seen(incidents, "untouched")
    since_ps = [0]
    with _calls_noted(since_ps), Cluster(experiment, incidents=incidents) as cluster:
        got = {rank: Got() for rank in range(cluster.places)}
        controller = cluster.carrier.switches.controller
        keys, generations = _watch(controller)
        survivors: set[int] = set()
        ended = ""
        try:
            survivors = set(
                cluster.run_surviving(
                    lambda comm: play(comm, seed, OPERATIONS, ELEMENTS, got[comm.members[comm.rank]], pause_s=0.002)
                )
            )
        except ClusterError as error:
            ended = str(error)
        assert all(count == 1 for count in keys.values()), f"I4: {keys.most_common(1)}"
        assert all(count == 1 for count in generations.values()), f"I4: generation {generations.most_common(1)}"
        carrier = cluster.carrier
        now = carrier.network.now
        if ended:
            seen.outcome = "ended"
            assert now >= incidents[0].at_ps, ended
            words = ("rank", "cannot", "lost", "nobody", "fallen")
            assert any(word in ended for word in words), f"an error that does not say who: {ended}"
            happened = [one.at_ps for one in incidents if one.at_ps <= now]
            # Members that compute meanwhile notice it only when they wait.
            late = (now - max(happened[-1], since_ps[-1])) / MS
            assert late <= RESUMED_MS, f"ended after {late} ms"
        elif survivors:
            check(got, survivors, seed, OPERATIONS, ELEMENTS)
            seen.deaths = sum(len(one.lost) for one in cluster.decisions)
            seen.joins = sum(len(one.joined) for one in cluster.decisions)
            seen.outcomes.update(one.outcome for one in cluster.decisions)
            if cluster.decisions:
                seen.outcome = "shrunk" if seen.deaths else "grown" if seen.joins else "rerouted"
            _check_decisions(cluster, survivors)
            _check_times(cluster, incidents, seen)
        _check_leftovers(cluster)
    return seen


def _watch(controller) -> tuple[Counter, Counter]:
    """Count the (job, epoch) and generation of every plan that is installed now or later."""
    keys = Counter((plan.job, plan.epoch) for plan in controller.installed)
    generations = Counter(plan.generation for plan in controller.installed)
    install = controller.install

    def counted(plan) -> None:
        keys[plan.job, plan.epoch] += 1
        generations[plan.generation] += 1
        install(plan)

    controller.install = counted
    return keys, generations


@contextmanager
def _calls_noted(since_ps: list[int]) -> Iterator[None]:
    """Append the time at which the last participant has called, for each collective."""
    carry = SurvivingCarrier.carry

    def noted(carrier, calls, *more):
        since_ps.append(max(call.start_ps for call in calls))
        return carry(carrier, calls, *more)

    with mock.patch.object(SurvivingCarrier, "carry", noted):
        yield


def _check_decisions(cluster: Cluster, survivors: set[int]) -> None:
    members = tuple(range(cluster.size))
    for decision in cluster.decisions:
        assert decision.before == members
        assert set(decision.after) == {*members} - {*decision.lost} | {*decision.joined}
        assert min(decision.joined, default=cluster.size) > max(members) or not decision.joined
        members = decision.after
    epochs = [one.epoch for one in cluster.decisions]
    terms = [one.term for one in cluster.decisions]
    assert epochs == sorted(set(epochs)), "I4: an epoch of the group was used twice"
    assert terms == sorted(set(terms)), "I4: a term was used twice"
    assert survivors <= set(members)


def _check_times(cluster: Cluster, incidents: list[Incident], seen: Seen) -> None:
    """Check the times from the last incident, or from when all members waited, to decision and resumption."""
    for one in cluster.carrier.restored:
        known = [incident for incident in incidents if incident.at_ps <= one.noticed_ps]
        since = max(one.began_ps, known[-1].at_ps)
        noticed, resumed = (one.noticed_ps - since) / MS, (one.resumed_ps - since) / MS
        seen.noticed_ms.append(noticed)
        seen.resumed_ms.append(resumed)
        # A dead member whose contributions are complete is noticed only when it does not answer the next prepare.
        before = [incident.at_ps for incident in known[:-1] if incident.at_ps > known[-1].at_ps - DETECTED_MS * MS]
        assert noticed <= DETECTED_MS + (ANSWERED_MS if before else 0), f"noticed after {noticed} ms"
        assert resumed <= RESUMED_MS, f"resumed after {resumed} ms"
        if [incident.kind for incident in incidents] == ["link"]:
            assert resumed <= LINK_MS, f"another tree after {resumed} ms"


def _check_leftovers(cluster: Cluster) -> None:
    """Check that reachable switches have no entries but those of installed jobs, and that no slot is lost."""
    controller = cluster.carrier.switches.controller
    carrier = cluster.carrier
    for plan in controller.installed:
        controller.uninstall(plan)
    lost = carrier.reach.switches if hasattr(carrier, "reach") else set()
    for switch, entries in controller.read(wildcards(PLAN_TABLES)).items():
        assert not entries or switch in lost, f"{switch} keeps {len(entries)} entries: {entries[0]}"
    for switch in controller.topology.switches:
        free = controller.resources.free(switch.name)
        assert free == controller.program.slots, f"{switch.name}: {free} slots are free"
