"""Interruption against saving: the tree of a running task is swapped, or not, by the orchestrator's own decision."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.orchestrator import Options, Orchestrator, Store, TaskState
from p4reduce.control_plane.scheduling import Decision, Rejection, Task, consumed, policy_named
from p4reduce.control_plane.scheduling.policy import NetworkState
from p4reduce.network.jobs.switches import VIRTUAL_DEADLINE_S, bundled
from p4reduce.network.virtual import Faults
from p4reduce.play.tasks.world import World
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from studies.poster.settings import PosterSettings, Scenario, draw_tasks

POLICY = "steiner"
TRAINING_PS = 20_000_000
"""short, so that the swap comes while the task communicates: at any other time there is nothing to interrupt"""
CONTROL_LATENCY_PS = 10_000_000
_NEVER_PS = 10**15
_ROUND = 1
"""in which the swap comes; the rounds behind it remain"""


@dataclass(frozen=True)
class SwapRow:
    """One trial: a line of swaps.csv. Times in virtual picoseconds, bytes summed over all links."""

    scenario: str
    loss: float
    """chance of a frame on every link"""
    seed: int
    detour: float
    """by how much the first tree's bytes were to exceed the best tree's, as a share"""
    rounds: int
    threshold: float | None
    """a swap must save so many times its cost; None: never swapped, what the others are compared with"""
    decision: str
    """swap or keep"""
    remaining_rounds: int
    saving_bytes: int
    """expected: (bytes of a round on the old tree - on the new one) * remaining rounds"""
    cost_bytes: int
    """expected at most: a window of frames on all hops of the new tree"""
    in_flight: int
    """chunks"""
    resent_frames: int
    resent_bytes: int
    """on the workers' links"""
    late_frames: int
    """of the old epoch, dropped by hosts"""
    interruption_ps: int
    """until every worker had all that was in flight"""
    link_bytes: int
    """of all rounds, counted"""
    saved_bytes: int
    """counted: less than without the swap; negative where the interruption took more than the tree saved"""
    finished_ps: int
    later_ps: int
    """than without the swap; negative: earlier"""


@dataclass(frozen=True)
class SwapUnit:
    """What one process does: a network with a loss rate, under one seed."""

    settings: PosterSettings
    scenario: Scenario
    loss: float
    seed: int


@dataclass(frozen=True)
class SwapResult:
    """What came of it."""

    rows: tuple[SwapRow, ...]
    differences: tuple[str, ...]
    """wrong weights or bytes"""


@dataclass(frozen=True)
class _Trial:
    """One run of a task: its first tree avoids links, which are free again from a time on."""

    topology: Topology
    task: Task
    avoided: frozenset[Hop]
    free_ps: int
    threshold: float | None


def swap_units(settings: PosterSettings) -> list[SwapUnit]:
    """All trials, by network, loss rate and seed."""
    by_name = {scenario.name: scenario for scenario in settings.scenarios}
    return [
        SwapUnit(settings, by_name[name], loss, seed)
        for name, loss in settings.swap_networks
        if name in by_name
        for seed in settings.seeds[: settings.swap_seeds]
    ]


def run_swaps(unit: SwapUnit) -> SwapResult:
    """Run every detour, number of rounds and threshold, each on a network of its own, and once without a swap.

    All trials of a task must give the same weights in every round, whatever the tree, the swap and the loss.
    """
    settings, topology = unit.settings, unit.scenario.build()
    (drawn,) = draw_tasks(topology, replace(settings, tasks=1), unit.seed, max(settings.sizes))
    chance = np.random.Generator(np.random.Philox(key=[unit.seed, 0x5A]))
    rows: list[SwapRow] = []
    differences: list[str] = []
    for detour in settings.swap_detours:
        avoided = _avoided(topology, drawn, settings.lanes, detour, unit.seed)
        for rounds in settings.swap_rounds:
            task = replace(drawn, rounds=rounds, training_ps=TRAINING_PS)
            before, wrong = _run(unit, _Trial(topology, task, avoided, _NEVER_PS, None), detour)
            rows.append(before.row)
            differences += wrong
            trained, done = before.communicating
            change_ps = round(trained + chance.uniform(0.05, 0.95) * (done - trained))
            for threshold in settings.swap_thresholds:
                trial = _Trial(topology, task, avoided, change_ps - CONTROL_LATENCY_PS, threshold)
                found, wrong = _run(unit, trial, detour)
                row = found.row
                saved, later = before.row.link_bytes - row.link_bytes, row.finished_ps - before.row.finished_ps
                rows.append(replace(row, saved_bytes=saved, later_ps=later))
                differences += wrong
                if found.digest != before.digest:
                    differences.append(f"{_names(row)}: other weights than without a swap")
    return SwapResult(tuple(rows), tuple(differences))


@dataclass(frozen=True)
class _Found:
    row: SwapRow
    digest: str | None
    communicating: tuple[int, int]
    """from when to when, in the round of the swap"""


def _run(unit: SwapUnit, trial: _Trial, detour: float) -> tuple[_Found, list[str]]:
    lanes, task = unit.settings.lanes, trial.task
    options = Options(
        control_latency_ps=CONTROL_LATENCY_PS,
        # Counters are read, and trees considered, when the links are free again; reading a large network's switches
        # many times in a round would take longer than its packets.
        measure_every_ps=trial.free_ps,
        threshold=trial.threshold,
    )
    with _world(unit, trial.topology) as (world, store):
        store.submit([task])
        best = policy_named(POLICY)

        def decide(task: Task, state: NetworkState, *, lanes: int = lanes) -> Decision:
            full = trial.avoided if world.now() < trial.free_ps else frozenset()
            return best(task, replace(state, down=state.down | full), lanes=lanes)

        program = bundled(lanes)
        with Controller(
            trial.topology,
            world.switches.targets(),
            program,
            election_id=store.take_charge(),
            keep=True,
            deadline_s=VIRTUAL_DEADLINE_S,
        ) as controller:
            Orchestrator(store, controller, world, decide, name=POLICY, options=options).run()
        return _found(unit, trial, detour, store, sum(world.interface_bytes().values()))


def _found(unit: SwapUnit, trial: _Trial, detour: float, store: Store, octets: int) -> tuple[_Found, list[str]]:
    task = trial.task
    end, history = store.task(task.name), store.history
    decisions = history.decisions(task.name)
    weighed = next((one for one in decisions if one["what"] in ("swap", "keep")), None)
    why = {} if weighed is None else weighed["why"]
    swaps, rounds = history.swaps(), history.rounds(task.name)
    row = SwapRow(
        scenario=unit.scenario.name,
        loss=unit.loss,
        seed=unit.seed,
        detour=detour,
        rounds=task.rounds,
        threshold=trial.threshold,
        decision="swap" if swaps else "keep",
        **{name: int(why.get(name, 0)) for name in ("remaining_rounds", "saving_bytes", "cost_bytes")},
        **{
            name: sum(int(swap[name] or 0) for swap in swaps)
            for name in ("in_flight", "resent_frames", "resent_bytes", "late_frames")
        },
        interruption_ps=max((int(swap["duration_ps"] or 0) for swap in swaps), default=0),
        link_bytes=octets,
        saved_bytes=0,
        finished_ps=end.finished_ps or 0,
        later_ps=0,
    )
    wrong = []
    if end.state is not TaskState.FINISHED or len(rounds) != task.rounds:
        wrong.append(f"{_names(row)}: {end.state.value} after {len(rounds)} rounds: {end.reason}")
    first = next(one["why"]["round_bytes"] for one in decisions if one["what"] == "schedule")
    if not swaps and not unit.loss and octets != first * task.rounds:
        wrong.append(f"{_names(row)}: {octets} bytes on links, predicted were {first * task.rounds}")
    at = rounds[min(_ROUND, len(rounds) - 1)] if rounds else {"trained_ps": 0, "done_ps": 0}
    return _Found(row, end.digest, (at["trained_ps"], at["done_ps"])), wrong


@contextmanager
def _world(unit: SwapUnit, topology: Topology) -> Iterator[tuple[World, Store]]:
    with (
        tempfile.TemporaryDirectory() as folder,
        World(topology, bundled(unit.settings.lanes), faults=Faults(loss=unit.loss), seed=unit.seed) as world,
        Store(Path(folder) / "tasks.sqlite", synchronous=False) as store,
    ):
        yield world, store


def _avoided(topology: Topology, task: Task, lanes: int, detour: float, seed: int) -> frozenset[Hop]:
    """Links between switches, both directions, without which the best tree is larger by at least a share.

    Links are taken away in a random order, but none without which there is no tree; all that can be where even that
    does not make the tree so large.
    """
    policy = policy_named(POLICY)
    least = consumed(policy(task, NetworkState(topology), lanes=lanes), topology)
    between = [link for link in topology.links if all(topology.node(end).is_switch for end in (link.a, link.b))]
    chance = np.random.Generator(np.random.Philox(key=[seed, 0x5B]))
    gone: frozenset[Hop] = frozenset()
    for place in chance.permutation(len(between)):
        link = between[place]
        more = gone | {(link.a, link.port_a), (link.b, link.port_b)}
        try:
            size = consumed(policy(task, NetworkState(topology, down=set(more)), lanes=lanes), topology)
        except Rejection:
            continue
        gone = more
        if size >= (1 + detour) * least:
            break
    return gone


def _names(row: SwapRow) -> str:
    return (
        f"swap on {row.scenario}, loss {row.loss:g}, seed {row.seed}, detour {row.detour:g}, {row.rounds} rounds, "
        f"threshold {row.threshold}"
    )
