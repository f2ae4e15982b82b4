"""Histories of an orchestrator as a state machine: tasks, failures and kills in any order; invariants after each.

``tests/property/control_plane/orchestrator/test_histories.py`` runs hundreds, ``python -m
tests.support.orchestrated.soak`` thousands.
"""

import json
import tempfile
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from p4reduce.base.errors import ControllerError
from p4reduce.base.records import from_json
from p4reduce.control_plane.orchestrator import Orchestrator, OrchestratorOptions, PlanPhase, StoreError, TaskState
from p4reduce.control_plane.orchestrator.executor import is_read
from p4reduce.control_plane.orchestrator.installer import InstalledEntries
from p4reduce.control_plane.orchestrator.options import AT_WORK, ENDED
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.resources import Resources
from p4reduce.control_plane.scheduling import Task
from tests.support.orchestrated.drawn import BAD_SPECS, HOSTS, PROGRAM, TOPOLOGY, UPLINKS, faulty, tasks
from tests.support.orchestrated.fuse import Fuse, FusedStore, Killed
from tests.support.orchestrated.instant import (
    PS_PER_US,
    InstantController,
    InstantHosts,
    LostError,
    Switch,
    restarted,
)

OPTIONS = OrchestratorOptions(
    control_latency_ps=5 * PS_PER_US,
    measure_every_ps=200 * PS_PER_US,
    threshold=0.5,
    retries=2,
    back_off_ps=50 * PS_PER_US,
)
MOST_STEPS = 3000
"""maximum steps of an undisturbed orchestrator until everything has ended"""
STATISTICS: Counter[str] = Counter()
"""counts of events in the histories of this process"""


class Histories(RuleBasedStateMachine):
    """One database, one network, and orchestrators in succession."""

    topology = TOPOLOGY
    options = OPTIONS

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="p4r-history-")
        self.path = Path(self.folder.name) / "tasks.sqlite"
        self.fuse = Fuse()
        self.switches = {switch.name: Switch() for switch in self.topology.switches}
        self.hosts = InstantHosts(self.topology, self.switches, self.fuse)
        self.user = FusedStore(self.path, Fuse())
        self.store = self.controller = self.orchestrator = None
        self.names = 0
        self.few: int | None = None
        self.cut = False
        self.networks = 0
        self.died: dict[str, set[str]] = {}  # hosts by task
        STATISTICS["histories"] += 1

    # --- actions of users, networks and others

    def _submit(self, some):
        made = []
        for fields, late in some:
            self.names += 1
            times = {"arrival_ps": self.hosts.time, "deadline_ps": None if late is None else self.hosts.time + late}
            made.append(Task(f"t{self.names}", **fields, **times))
        self.user.submit(made)
        STATISTICS["tasks"] += len(made)

    @initialize(some=st.lists(tasks(), min_size=1, max_size=4))
    def begin(self, some):
        self._submit(some)

    @initialize(slots=st.sampled_from(["first", "first", "whole", "value"]), move=st.sampled_from([None, 0.0]))
    def choose_options(self, slots, move):
        if self.options.schedule:
            return
        self.options = replace(OPTIONS, slots=slots, move=move, placement="ina-aware" if move == 0 else "packed")
        self.few = 128 if slots != "first" else None  # room for one or two trees

    @rule(some=st.lists(tasks(), min_size=1, max_size=3))
    def submit(self, some):
        self._submit(some)

    @rule(spec=st.sampled_from(BAD_SPECS))
    def write_a_bad_row(self, spec):
        self.names += 1
        with self.user.transaction():
            self.user._connection.execute(
                "INSERT INTO tasks (name, spec, arrival_ps, state) VALUES (?, ?, ?, 'queued')",
                (f"t{self.names}", spec, self.hosts.time),
            )

    @rule(number=st.integers(1, 8))
    def cancel(self, number):
        name = f"t{number}"
        if name in self.user and self.user.task(name).state not in ENDED:
            self.user.request_cancel(name)

    @rule(link=st.sampled_from(UPLINKS), up=st.booleans())
    def change_a_link(self, link, up):
        self.cut = True
        self.hosts.change_link(*link, up=up)

    @rule(name=st.sampled_from(sorted(switch.name for switch in TOPOLOGY.switches)), refuses=st.booleans())
    def refuse(self, name, refuses):
        self.switches[name].refuses = refuses

    @rule(name=st.sampled_from(sorted(switch.name for switch in TOPOLOGY.switches)))
    def restart_a_switch(self, name):
        """Restart a switch, with or without an orchestrator."""
        if name in self.switches:
            self.switches[name].entries.clear()
            STATISTICS["switches began anew"] += 1

    @rule(place=st.integers(0, 100))
    def end_a_process(self, place):
        """End a process of a running task, with or without an orchestrator."""
        found = [
            (name, host)
            for name, run in self.hosts.busy.items()
            for host in (*run.order.task.workers, run.order.task.server)
        ]
        if found:
            name, host = found[place % len(found)]
            self.died.setdefault(name, set()).add(host)
            STATISTICS["processes that died"] += self.hosts.end_process(host, task=name)

    @rule(
        us=st.integers(0, 60),
        deaths=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 100), st.booleans()), min_size=1, max_size=3),
        left=st.sampled_from([0, 0, *range(1, 100)]),
    )
    def work_while_some_die(self, us, deaths, left):
        """Let hosts or processes die in succession: while tasks begin or run, and while survivors get new trees."""
        self.fuse.set(0, "kill")
        self._work(self.hosts.time + us * PS_PER_US)
        at_ps = self.hosts.time
        for gap_us, place, host in deaths:
            at_ps += gap_us * PS_PER_US
            die = self._change_host if host else self.end_a_process
            what = (HOSTS[place % len(HOSTS)], False) if host else (place,)
            self.hosts.deaths.append((at_ps, partial(die, *what)))
        self.fuse.set(left, "kill")
        self._work(at_ps + 100 * PS_PER_US)
        self.fuse.set(0, "kill")

    @rule(host=st.sampled_from(HOSTS), up=st.booleans())
    def end_a_host(self, host, up):
        """Take a host's link down and end all its processes, or bring the link back up."""
        self._change_host(host, up)

    def _change_host(self, host, up):
        if host not in {one.name for one in self.topology.hosts}:
            return
        self.cut = True
        (leaf,) = self.topology.neighbours(host)
        self.hosts.change_link(host, leaf, up=up)
        if not up:
            for name, run in self.hosts.busy.items():
                self.died.setdefault(name, set()).update({host} & {*run.order.task.workers, run.order.task.server})
            STATISTICS["hosts that died"] += self.hosts.end_process(host)

    @rule(place=st.integers(0, 100))
    def lose_an_entry(self, place):
        """Delete an entry while no orchestrator runs; the next orchestrator must notice."""
        found = [(switch, name) for switch in self.switches.values() for name in switch.entries if _is_plans(name)]
        if found and self.orchestrator is None:
            switch, name = found[place % len(found)]
            del switch.entries[name]

    @rule(text=st.sampled_from(["{}", "not json", '{"grant": {}}']), place=st.integers(0, 9))
    def damage_a_plan(self, text, place):
        rows = self.user.plans()
        if rows and self.orchestrator is None:
            with self.user.transaction():
                self.user._connection.execute(
                    "UPDATE plans SET plan = ? WHERE generation = ?", (text, rows[place % len(rows)].generation)
                )

    @rule()
    def restart_the_network(self):
        self._leave()
        self.hosts = restarted(self.hosts)
        self.networks += 1
        STATISTICS["networks"] += 1

    # --- actions of orchestrators

    def _leave(self):
        """Drop the orchestrator: its database stays, its memory is lost."""
        if self.controller is not None:
            self.controller.close()
        if self.store is not None:
            self.store.close()
        self.store = self.controller = self.orchestrator = None

    def _come(self):
        self.store = FusedStore(self.path, self.fuse)
        term = self.store.take_charge()
        self.controller = InstantController(
            self.topology, PROGRAM, self.switches, self.fuse, election_id=term, slots=self.few
        )
        self.controller.start()
        self.orchestrator = Orchestrator(
            self.store, self.controller, self.hosts, self._policy, name="own", options=self.options
        )

    @staticmethod
    def _policy(task, state, *, lanes=256):
        return faulty(task, state, lanes=lanes)

    def _work(self, until_ps):
        try:
            if self.orchestrator is None:
                self._come()
            self.orchestrator.run(until_ps)
        except (Killed, LostError, StoreError, ControllerError):
            assert self.fuse.blown or any(switch.refuses for switch in self.switches.values())
            STATISTICS[f"ended: {self.fuse.blown.rstrip('0123456789')}"] += 1
            self._leave()
        STATISTICS["points"] += self.fuse.passed
        self.fuse.passed = 0

    @rule(us=st.integers(1, 300))
    def work(self, us):
        self.fuse.set(0, "kill")
        self._work(self.hosts.time + us * PS_PER_US)

    @rule(left=st.integers(1, 150), how=st.sampled_from(["kill", "kill", "fail"]), us=st.integers(20, 300))
    def work_until_something_happens(self, left, how, us):
        self.fuse.set(left, how)
        self._work(self.hosts.time + us * PS_PER_US)
        self.fuse.set(0, "kill")

    @rule()
    def leave(self):
        self._leave()

    # --- invariants

    @invariant()
    def what_is_reserved_belongs_to_live_plans(self):
        if self.orchestrator is None:
            return
        plans = {row.generation: from_json(Plan, row.plan, "plan", topology=self.topology) for row in self.user.plans()}
        resources = Resources(PROGRAM.slots)
        for plan in plans.values():
            resources.adopt(plan.grant)  # raises if two plans share a resource
        assert taken(self.controller.resources) == taken(resources)
        assert {plan.generation for plan in self.controller.installed} == set(plans)
        for row in self.user.plans():
            state = self.user.task(row.task).state
            assert row.phase is PlanPhase.REMOVING or state in (TaskState.SCHEDULED, *AT_WORK), (row, state)

    @invariant()
    def hosts_do_what_the_database_says(self):
        if self.orchestrator is None:
            return
        at_work = {row.name for row in self.user.tasks(AT_WORK)}
        for row in self.user.plans((PlanPhase.INSTALLED, PlanPhase.ACTIVE)):
            task = self.user.task(row.task)
            if not task.fault and not is_read(row.role) and task.task.serving is None:
                known = [host for host in json.loads(row.plan)["workers"] if host != task.task.server]
                waits = task.state in AT_WORK and row.phase is PlanPhase.INSTALLED
                shrinks = task.task.on_failure == "shrink" and set(known) < set(task.task.workers)
                assert list(task.task.workers) == known or (waits and (task.wanted is not None or shrinks))
        active = {(row.job, row.epoch) for row in self.user.plans((PlanPhase.ACTIVE,))}
        for name, run in self.hosts.runs.items():
            if not run.ended:
                assert name in at_work
                keys = {(plan.job, plan.epoch) for plan in run.plans.values()}
                told = {(row.job, row.epoch) for row in self.user.plans((PlanPhase.INSTALLED,))}  # not adopted yet
                assert keys <= active | told

    def teardown(self):
        """Check that an undisturbed orchestrator in a working network brings everything to an end."""
        try:
            self._check_end()
        finally:
            self._leave()
            self.user.close()
            self.folder.cleanup()

    def _check_end(self):
        self.fuse.set(0, "kill")
        for switch in self.switches.values():
            switch.refuses = False
        self._leave()
        for _ in range(2):  # the second orchestrator has nothing to do
            self._come()
            steps = 0
            while self.orchestrator.step():
                steps += 1
                assert steps < MOST_STEPS, "it does not come to an end"
            self.what_is_reserved_belongs_to_live_plans()
            inventory = InstalledEntries.read(self.controller)
            assert inventory.strangers([]) == {}
            assert taken(self.controller.resources) == taken(Resources(PROGRAM.slots))
            self._leave()
        for row in self.user.tasks():
            assert row.state in ENDED, row
            assert row.state is TaskState.FINISHED or row.reason, row
            if not row.fault and row.state is TaskState.FINISHED:
                assert row.task.select is None
                if row.wanted is None:
                    assert set(row.task.workers) <= set(row.candidates)
                    STATISTICS["tasks of some of their workers"] += row.task.workers != row.candidates
            if row.state is TaskState.FINISHED:
                rounds = [one["round"] for one in self.user.history.rounds(row.name)]
                whole = list(range(row.task.rounds))
                # Rounds that a network did not report before it ended are unknown; the checkpoint includes them.
                assert rounds == whole or (row.attempt and self.networks and rounds[-1:] == whole[-1:]), row
                self._check_members(row)
            STATISTICS[f"tasks {row.state}"] += 1
            STATISTICS[f"{row.task.kind} {row.state}"] += 1
            for one in self.user.history.replans(row.name):
                STATISTICS[f"changed: {one['what']}{'' if one['done_ps'] else ', not done'}"] += 1
        assert all(row.phase is PlanPhase.REMOVED for row in self.user.plans(tuple(PlanPhase)))
        assert all(run.ended for run in self.hosts.runs.values())

    def _check_members(self, row):
        """Check that rounds match the hosts' records, and that members are lost for good, and only by deaths."""
        by_round = {one["round"]: tuple(one["ranks"]) for one in self.user.history.rounds(row.name)}
        true = self.hosts.members[row.name]
        assert by_round == {number: true[number] for number in by_round}
        assert len(true) == row.task.rounds
        assert row.attempt <= row.task.max_restarts
        if row.attempt:
            STATISTICS["tasks that began anew and finished"] += 1
            return
        found = list(by_round.values())
        for sooner, later in pairwise(found):
            assert set(later) <= set(sooner)
        if len(found[-1]) < len(row.ranks) or len(row.ranks) < (row.wanted.count if row.wanted else len(found[0])):
            assert row.task.on_failure == "shrink"
            STATISTICS["tasks that went on with fewer"] += 1
        if not self.died.get(row.name) and row.wanted is None and not self.cut:
            assert len(set(found)) == 1


def taken(resources):
    """Return all allocated resources, by switch."""

    def ids(these):
        return set(range(these._next)) - set(these._freed)

    stats = ids(resources._stats)
    found = {
        name: (dict(own.pool._used), ids(own.groups) - {0}, ids(own.rids) - {0})
        for name, own in resources._switches.items()
    }
    return stats, {name: own for name, own in found.items() if any(own)}


def _is_plans(name):
    from p4reduce.control_plane.entries import PLAN_TABLES

    return name[0] in PLAN_TABLES or name[0] == "multicast group"
