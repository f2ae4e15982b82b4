"""Scenarios: graph, trees, jobs, faults and events, drawn from a source of choices."""

from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Any

from tests.support.golden.choices import Choices
from tests.support.golden.frames import SEQ_MODULUS
from tests.support.golden.graph import Graph, Node, any_graph, graph_of_tree, host, switch
from tests.support.golden.network import Faults
from tests.support.golden.trees import Tree, random_tree
from tests.support.golden.work import AT_ROOT, AT_SERVER, Work

MAX_WORKERS = 30
WORK_LIMIT = 400
"""approximate limit of the contributions of all workers to all chunks of a job"""

FAULT_PERCENT = ([0, 5, 15, 30], [0, 5, 15, 30], [0, 5, 15, 30], [0, 1, 5], [0, 0, 3])
"""choices of the percentages of loss, duplication, reordering, copies held back, and marks of congestion"""


class What(Enum):
    """Events that may happen during a run."""

    NEW_EPOCH = "a new epoch on the same tree"
    SWAP = "a new epoch on another tree"
    REMOVE = "a worker is gone"
    RESTART = "a switch forgets everything"
    FLAP = "an entry is deleted, and written again later"
    ABORT = "the job leaves unfinished"


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a job, once all its workers have ``percent`` of its chunks. ``pick`` chooses a switch or worker."""

    job: int
    percent: int
    what: What
    pick: int
    tree: Tree | None = None


@dataclass(frozen=True, slots=True)
class JobShape:
    """One job. ``after``: the earlier job whose slots it takes over, once that job has ended."""

    work: Work
    tree: Tree
    region: tuple[int, int]
    udp_ports: dict[Node, int]
    after: int | None = None
    deadline_us: int | None = None


@dataclass(slots=True, repr=False)
class Scenario:
    """Everything that a run needs. Its order of steps follows from ``seed``."""

    seed: int
    graph: Graph
    jobs: list[JobShape]
    events: list[Event]
    faults: Faults  # the largest probabilities of any link
    fault_steps: int  # number of steps after which links have no faults
    first_generation: int
    spoofs: int  # forged packets in 1,000 steps
    slow: int = 0  # percentage of hosts that rarely send unasked
    sample_mask: int = 0xFF
    window_factor: int = 2  # slots for each chunk of a window; 2 in the protocol

    def __repr__(self) -> str:
        jobs = "; ".join(
            f"job {j.work.job}: {j.work.chunks} chunks from seq {j.work.first_seq:#x}, {j.work.slots} slots, {j.tree}"
            + ("" if j.deadline_us is None else f", deadline {j.deadline_us} us")
            + ("" if j.after is None else f", on the slots of job {self.jobs[j.after].work.job}")
            for j in self.jobs
        )
        events = ", ".join(f"{e.what.name} of job #{e.job} at {e.percent} %" for e in self.events)
        return f"<seed {self.seed}; {jobs}; events: {events or 'none'}; {self.faults}, for {self.fault_steps} steps>"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the scenario of a failing example of hypothesis."""
        printer.text(repr(self))


def draw_scenario(choices: Choices, lanes: int, slots: int, size: int = MAX_WORKERS) -> Scenario:
    """Return a random scenario of at most ``size`` workers on switches of ``slots`` slots and ``lanes`` lanes."""
    switches, hosts = choices.integer(1, choices.pick([2, 4, 8])), 1 + choices.integer(1, choices.pick([3, 8, size]))
    room = choices.pick([0, slots - 96])
    ids = choices.shuffled([choices.integer(0, 200), choices.integer(201, 400), choices.integer(401, 65535)])
    job = partial(_job, choices, switches=switches, hosts=hosts, lanes=lanes)
    jobs = [job(ids[0], region=(room, 48))]
    if choices.chance(40):
        jobs.append(job(ids[1], region=(room + 48, 48)))
    if choices.chance(30):
        jobs.append(job(ids[2], region=(room, 48), after=0))
    graph = (
        any_graph(choices, switches, hosts)
        if choices.chance(40)
        else graph_of_tree(choices, jobs[0].tree.edges(), switches, hosts)
    )
    events = [_event(choices, jobs, switches) for _ in range(choices.integer(0, 4))]
    if len(jobs) > 1 and jobs[-1].after is not None and choices.chance(40):
        events.append(Event(0, choices.integer(0, 90), What.ABORT, 0))
    return Scenario(
        seed=choices.integer(0, 2**32 - 1),
        graph=graph,
        jobs=jobs,
        events=events,
        faults=Faults(*(choices.pick(options) / 100 for options in FAULT_PERCENT)),
        fault_steps=choices.pick([0, 300, 1000, 10_000]),
        first_generation=choices.pick([1, 2**31 - 4, 2**32 - 100_000]),
        spoofs=choices.pick([0, 10, 40]),
        slow=choices.pick([0, 0, 20]),
        sample_mask=choices.pick([0xFF, 0, 3]),
    )


def _job(
    choices: Choices,
    job: int,
    *,
    switches: int,
    hosts: int,
    lanes: int,
    region: tuple[int, int],
    after: int | None = None,
) -> JobShape:
    members = choices.shuffled([host(i) for i in range(hosts)])[: choices.integer(2, hosts)]
    server = members.pop() if choices.chance(40) else None
    members = members[:MAX_WORKERS]
    tree = _tree(choices, switches, members, server)
    slots = choices.pick([2, 4, 8, 16])
    chunks = min(choices.integer(slots // 2, 3 * slots), max(slots + 3, WORK_LIMIT // len(members)))
    kinds = AT_ROOT if server is None else AT_SERVER
    extreme = choices.chance(25)
    work = Work(
        job=job,
        first_seq=choices.pick([0, choices.integer(0, SEQ_MODULUS - 1), SEQ_MODULUS - choices.integer(1, chunks)]),
        slots=slots,
        lanes=lanes,
        collectives=tuple(choices.pick(kinds) for _ in range(chunks)),
        extreme=frozenset(range(0, chunks, 3)) if extreme else frozenset(),
    )
    udp_ports = {host(i): choices.pick([9400, 9400, 5000 + i]) for i in range(hosts)}
    closes = slots >= 8 and server is None and choices.chance(50)
    deadline_us = choices.pick([200, 0, 30, 2000]) if closes else None
    return JobShape(work, tree, region, udp_ports, after, deadline_us)


def _tree(choices: Choices, switches: int, members: list[Node], server: Node | None) -> Tree:
    depth, fan_in = choices.integer(1, 4), choices.pick([8, 2, 3, 32])
    return random_tree(
        choices, [switch(i) for i in range(switches)], members, server, max_depth=depth, max_fan_in=fan_in
    )


def _event(choices: Choices, jobs: list[JobShape], switches: int) -> Event:
    job = choices.integer(0, len(jobs) - 1)
    what = choices.pick([What.NEW_EPOCH, What.SWAP, What.REMOVE, What.RESTART, What.FLAP])
    shape = jobs[job].tree
    tree = _tree(choices, switches, shape.members(), shape.server) if what is What.SWAP else None
    return Event(job, choices.integer(0, 95), what, choices.integer(0, 999), tree)


def straggling(scenario: Scenario) -> None:
    """Give each job that may have a deadline a short one, make some hosts slow, and remove all events."""
    scenario.jobs = [
        replace(job, deadline_us=10) if job.tree.server is None and job.work.slots >= 8 else job
        for job in scenario.jobs
    ]
    scenario.slow, scenario.events, scenario.fault_steps = 30, [], 10_000
