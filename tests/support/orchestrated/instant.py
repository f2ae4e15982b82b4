"""Simulated switches and hosts that take no time, for thousands of histories; all else is production code.

Store, engine, recovery, controller, fleet and policies are those of production. A switch is a table of entries with
P4Runtime's rules; a host's round ends on time if the entries of its plans are in their switches and its links are up.
Everything that can stop an orchestrator passes a point of a `Fuse`: each transaction, each write, each request.
"""

from collections import deque
from dataclasses import dataclass, field

import finsy as fy

from p4reduce.base.errors import ControllerError
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.entries import key, plan_entries
from p4reduce.control_plane.fleet import Fleet
from p4reduce.control_plane.orchestrator import ExecutorReport, Running, TaskRefusedError
from p4reduce.control_plane.orchestrator.executor import ScheduleTurn, circuits_of
from p4switch.base.values import PS_PER_US
from tests.support.orchestrated.fuse import Fuse

ROUND_PS = 10 * PS_PER_US
"""communication time of a round"""
PATIENCE_PS = 5_000 * PS_PER_US
"""time until a host whose packets are lost gives up"""
MOST_ELEMENTS = 10**6
"""largest number of elements for which these hosts have memory"""


class LostError(RuntimeError):
    """The network does not answer."""


class Switch:
    """The entries of a switch."""

    def __init__(self) -> None:
        self.entries: dict[tuple[object, ...], object] = {}
        self.refuses = False


class _Connection:
    """A connection to a `Switch`, with the interface of `control_plane.connection.Connection`."""

    def __init__(self, name: str, switch: Switch, fuse: Fuse) -> None:
        self.name, self.switch, self.fuse = name, switch, fuse
        self.packets: deque[object] = deque()

    async def open(self, *, keep=False):
        return keep and bool(self.switch.entries)

    async def reopen(self):
        return True

    async def close(self):
        pass

    def _write(self, what):
        self.fuse(f"{what} {self.name}", ControllerError)
        if self.switch.refuses:
            raise ControllerError(f"switch {self.name}: {what}: PERMISSION_DENIED")

    async def insert(self, entities):
        if not entities:
            return
        self._write("insert")
        taken = [key(one) for one in entities if key(one) in self.switch.entries]
        if taken:
            raise ControllerError(f"switch {self.name}: ALREADY_EXISTS: {taken[0]}")
        for place, one in enumerate(entities):
            if place == len(entities) // 2 > 0:
                self.fuse(f"half of insert {self.name}")
            self.switch.entries[key(one)] = one
        self.fuse(f"inserted {self.name}", ControllerError)  # done, but the reply may be lost

    async def delete(self, entities):
        if not entities:
            return
        self._write("delete")
        for place, one in enumerate(entities):
            if place == len(entities) // 2 > 0:
                self.fuse(f"half of delete {self.name}")
            self.switch.entries.pop(key(one), None)
        self.fuse(f"deleted {self.name}", ControllerError)

    async def modify(self, entities):
        if entities:
            self._write("modify")

    async def read(self, entities):
        found = []
        for wanted in entities:
            if isinstance(wanted, fy.P4MulticastGroupEntry):
                found += [one for one in self.switch.entries.values() if isinstance(one, fy.P4MulticastGroupEntry)]
            elif isinstance(wanted, fy.P4TableEntry):
                table = wanted.table_id.rpartition(".")[2]
                found += [one for name, one in self.switch.entries.items() if name[0] == table]
        return found


class InstantController(Controller):
    """A controller of `Switch` objects."""

    def __init__(self, topology, program, switches, fuse, **options) -> None:
        from p4reduce.control_plane.connection import Target

        targets = [Target(switch.name, "nowhere") for switch in topology.switches]
        super().__init__(topology, targets, program, keep=True, **options)
        self.switches, self.fuse = switches, fuse

    async def _open(self):
        connections = {name: _Connection(name, switch, self.fuse) for name, switch in self.switches.items()}
        fleet = Fleet(self.topology, connections)
        await fleet.open(self._settings, keep=True)
        return fleet


@dataclass
class _Run:
    order: object
    plans: dict
    done_ps: int
    round: int = 0
    ended: bool = False
    stuck_ps: int | None = None
    times: dict = field(default_factory=dict)
    coming: object = None
    died: tuple = ()


class InstantHosts:
    """An executor that outlives orchestrators and ends only with its network."""

    switches_count = True

    def __init__(self, topology, switches, fuse, instance="1") -> None:
        self.topology, self.switches, self.fuse = topology, switches, fuse
        self.instance = instance
        self.time = 0
        self.runs: dict[str, _Run] = {}
        self.busy: dict[str, _Run] = {}  # runs that have not ended
        self.news = 0
        self.log: list[ExecutorReport] = []
        self.down: set[tuple[str, int]] = set()
        self.term, self.database = 0, None
        self.timetable = self.waiting = None
        self.round_ends_ps = 0
        self.windows = 0
        self.deaths: list = []  # (time in ps, function to call)
        self.members: dict[str, list] = {}  # ranks of each round, by task
        self.saved: dict[str, int] = {}  # checkpoints: next round, by task

    def take_charge(self, term, database):
        self.fuse("take charge", LostError)
        assert self.database in (None, database)
        assert term >= self.term
        self.term, self.database = term, database

    def now(self):
        return self.time

    def start(self, order):
        self.fuse("start", TaskRefusedError)
        name = order.task.name
        if name in self.runs and order.attempt <= self.runs[name].order.attempt:
            keys = {role: (plan.job, plan.epoch) for role, plan in order.plans.items()}
            if self.running([name])[name].keys != keys:
                raise TaskRefusedError(f"task {name}: another task of that name ran here")
        elif order.task.elements > MOST_ELEMENTS:
            raise TaskRefusedError(f"task {name}: no memory")
        else:
            assert name not in self.busy, "an attempt begins while the one before runs"
            number = self.saved.get(name, 0) if order.attempt else 0
            self.runs[name] = self.busy[name] = run = _Run(order, dict(order.plans), 0, number)
            del self.members.setdefault(name, [])[number:]
            if order.reads:
                assert {(plan.server, *plan.workers) for plan in order.read_plans.values()} == {
                    read[:2] for read in order.reads if order.schedule is not None
                }
                self._tell("restored", name, {"round": 0, "read_bytes": 0, "model_bytes": 0, "duration_ps": 0})
            self._begin(run)
        self.fuse("started", LostError)

    def swap(self, task, plans):
        self.fuse("swap", TaskRefusedError)
        run = self.runs[task]
        if run.died and not run.ended:
            raise TaskRefusedError(f"task {task}: its process of {run.died[0]} has died")
        for role, plan in plans.items():
            if not run.ended and run.plans[role].epoch != plan.epoch:
                self._replace(task, role, plan)
        self.fuse("swapped", LostError)

    def set_schedule(self, timetable):
        self.fuse("set schedule", TaskRefusedError)
        if timetable.number not in (self._number(self.timetable), self._number(self.waiting)):
            assert self.waiting is None
            assert timetable.number > self._number(self.timetable)
            self.waiting = timetable
            self.round_ends_ps = self.time + (ROUND_PS if self.busy else 0)
        self.fuse("schedule was set", LostError)

    def turn(self):
        self.fuse("turn", LostError)
        return ScheduleTurn(self._number(self.timetable), self._number(self.waiting))

    @staticmethod
    def _number(timetable):
        return 0 if timetable is None else timetable.number

    def _change_schedule(self):
        """Switch to the waiting schedule between two rounds; failures cannot be reported to a caller."""
        self.timetable, self.waiting = self.waiting, None
        for name, plans in self.timetable.plans.items():
            for role, plan in plans.items():
                if name in self.busy and self.busy[name].plans[role].epoch < plan.epoch:
                    self._replace(name, role, plan)
        self._tell("schedule", None, {"number": self.timetable.number})

    def _replace(self, task, role, plan):
        self.runs[task].plans[role] = plan
        numbers = {"in_flight": 1, "resent_frames": 1, "resent_bytes": 1, "late_frames": 0, "duration_ps": 1}
        self._tell("resumed", task, {"role": role, "job": plan.job, "epoch": plan.epoch, **numbers})

    def replan(self, order, *, at_once=False):
        self.fuse("replan", TaskRefusedError)
        run = self.runs[order.task.name]
        if not run.ended and {role: (one.job, one.epoch) for role, one in run.plans.items()} != order.keys:
            hosts = {order.task.server, *order.task.workers}
            if any(host in hosts and host not in order.anew for host in run.died):
                raise TaskRefusedError(f"task {order.task.name}: its process of {run.died[0]} has died")
            assert set(order.all_ranks) <= set(run.order.all_ranks)
            run.coming = order
            if at_once:
                self._turn(order.task.name, run, again=True)
        self.fuse("replanned", LostError)

    def keep_plans(self, task):
        self.fuse("keep plans", LostError)
        if task in self.runs:
            self.runs[task].coming = None
        self.fuse("kept plans", LostError)

    def _turn(self, name, run, *, again):
        run.order, run.coming, run.died = run.coming, None, ()
        run.plans = dict(run.order.plans)
        keys = {role: [*key] for role, key in run.order.keys.items()}
        self._tell("replanned", name, {"keys": keys, "round": run.round, "again": again})
        self._tell("restored", name, {"round": run.round, "read_bytes": 0, "model_bytes": 0, "duration_ps": 0})
        self._begin(run)

    def stop(self, task):
        self.fuse("stop", LostError)
        if task in self.runs:
            self.runs[task].ended = True
            self.busy.pop(task, None)
        self.fuse("stopped", LostError)

    def advance(self, until_ps, *, after=None):
        self.fuse("advance", LostError)
        while self.time < until_ps:
            if after is not None and self.news > after:
                break
            due = min((run.done_ps for run in self.busy.values() if not run.died), default=until_ps)
            due = min([due, *(at_ps for at_ps, _ in self.deaths)])
            if self.waiting is not None:
                due = min(due, self.round_ends_ps)
            self.time = min(until_ps, max(self.time, due))
            for one in [one for one in self.deaths if one[0] <= self.time]:
                self.deaths.remove(one)
                one[1]()
            if self.waiting is not None and self.time >= self.round_ends_ps:
                self._change_schedule()
            for name, run in list(self.busy.items()):
                if run.done_ps <= self.time and not run.died:
                    self._finish_round(name, run)
                if run.ended:
                    del self.busy[name]
        self.fuse("advanced", LostError)
        return self.time

    def reports(self, after):
        self.fuse("reports", LostError)
        return self.log[after:]

    def running(self, names=None):
        self.fuse("running", LostError)
        return {
            name: Running(
                {role: (plan.job, plan.epoch) for role, plan in run.plans.items()},
                run.round,
                run.ended,
                run.died,
                run.order.attempt,
            )
            for name, run in (self.runs.items() if names is None else self._named(names))
        }

    def _named(self, names):
        return [(name, self.runs[name]) for name in names if name in self.runs]

    def interface_bytes(self):
        return {end: 0 for link in self.topology.links for end in ((link.a, link.port_a), (link.b, link.port_b))}

    def host_bytes(self):
        return {}

    def links_down(self):
        return set(self.down)

    # --- external events

    def change_link(self, a, b, *, up):
        ends = {(a, self.topology.port(a, b)), (b, self.topology.port(b, a))}
        self.down = self.down - ends if up else self.down | ends
        self._tell("link", None, {"node": a, "port": self.topology.port(a, b), "up": up})

    def end_process(self, host, *, task=None):
        """End a host's process of a task (None: of all tasks); return whether there was one."""
        found = False
        for name, run in list(self.busy.items()):
            member = host in (run.order.task.server, *run.order.task.workers)
            if task in (None, name) and member and host not in run.died:
                run.died, found = (*run.died, host), True
                self._tell("died", name, {"host": host, "round": run.round})
        return found

    def carries(self, plan) -> bool:
        """Return whether packets of a plan reach their destinations."""
        inside = all(
            key(entry) in self.switches[switch].entries
            for switch, entries in plan_entries(plan).items()
            for entry in (*entries.prepare, *entries.activate)
        )
        return inside and not any(hop in self.down for pair in plan.paths for hop in plan.path_hops(*pair))

    def _begin(self, run):
        training = max(run.order.training_ps.values())
        run.times = {"started_ps": self.time, "trained_ps": self.time + training}
        run.done_ps = self.time + training + ROUND_PS
        run.stuck_ps = None

    def _window(self, name, run):
        """Return the schedule's window of a task; None while the task waits for a later schedule."""
        if run.order.schedule > self._number(self.timetable):
            return None
        (window,) = [one for one in self.timetable.windows if name in one.tasks]  # once a round
        return window

    def _finish_round(self, name, run):
        lit = True
        if run.order.schedule is not None:
            window = self._window(name, run)
            if window is None:
                run.done_ps = self.time + ROUND_PS
                return
            lit = all(set(circuits_of(plan)) <= set(window.circuits) for plan in run.plans.values())
            number, place = self.timetable.number, self.timetable.windows.index(window)
            self.windows += 1
            times = dict.fromkeys(("started_ps", "lit_ps", "ended_ps"), self.time)
            where = {"schedule": number, "round": self.windows, "window": place}
            self._tell("window", None, {**where, **times, "dark_lost": 0, "misrouted": 0})
        if not (lit and all(map(self.carries, run.plans.values()))):
            if run.stuck_ps is None:
                run.stuck_ps = self.time
            run.done_ps = self.time + ROUND_PS
            if self.time - run.stuck_ps >= PATIENCE_PS:
                run.ended = True
                self._tell("failed", name, {"reason": "no RESULT"})
            return
        done = dict.fromkeys(("uploaded_ps", "aggregated_ps", "done_ps"), self.time)
        ranks = list(run.order.all_ranks)
        self.members[name].append(tuple(ranks))
        self._tell("round", name, {"round": run.round, **run.times, **done, "ranks": ranks})
        run.round += 1
        if run.round == run.order.task.rounds:
            run.ended = True
            self._tell("finished", name, {"digest": f"{name} {run.round}"})
            return
        if run.order.task.max_restarts:
            self.saved[name] = run.round
        if run.coming is not None:
            self._turn(name, run, again=False)
        else:
            self._begin(run)

    def _tell(self, kind, task, data):
        self.log.append(ExecutorReport(len(self.log) + 1, self.time, kind, task, data))
        if kind not in ("round", "window"):
            self.news = len(self.log)


def restarted(hosts: InstantHosts) -> InstantHosts:
    """Return a new network in place of another: the state of hosts and switches is lost."""
    for switch in hosts.switches.values():
        switch.entries.clear()
    new = InstantHosts(hosts.topology, hosts.switches, hosts.fuse, instance=hosts.instance + "'")
    new.members, new.saved = hosts.members, hosts.saved
    return new
