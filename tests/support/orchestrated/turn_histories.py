"""Histories of the orchestrator over an optical cross-connect: schedules in transit, joining tasks, moving circuits."""

import contextlib
from dataclasses import replace

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from p4reduce.base.errors import PlanError
from p4reduce.base.records import from_json
from p4reduce.control_plane.orchestrator.executor import circuits_of, is_read
from p4reduce.control_plane.orchestrator.history import SchedulePhase
from p4reduce.control_plane.orchestrator.options import AT_WORK, ENDED, PlanPhase, TaskState
from p4reduce.control_plane.plans import Plan
from p4reduce.control_plane.scheduling import Selection, policy_named
from p4reduce.control_plane.scheduling.task import WantedHosts
from p4reduce.topologies.optical import oxc
from tests.support.orchestrated.drawn import serving
from tests.support.orchestrated.histories import OPTIONS, STATISTICS, Histories
from tests.support.orchestrated.instant import PS_PER_US

PODS = oxc(3, 2, 4, rate="10G")
HOSTS = tuple(host.name for host in PODS.hosts)
RATE = PODS.link_at("h1", 1).rate_bps
LINKS = (("h1", "tor1"), ("h4", "tor2"), ("tor1", "oxc1"), ("tor3", "oxc1"))


@st.composite
def turn_tasks(draw):
    """Draw the fields of a task, which can mostly take turns, and its deadline in ps or None."""
    hosts = draw(st.permutations(HOSTS))
    count = draw(st.sampled_from([1, 1, 1, 2, 3, 4]))
    fields = {
        "server": hosts[0],
        "workers": tuple(hosts[1 : 1 + count]),
        "elements": draw(st.sampled_from([1, 100, *[4000] * 8, 666, 10**9])),
        "rounds": draw(st.integers(1, 4)),
        "training_ps": draw(st.sampled_from([0, 20 * PS_PER_US, 50 * PS_PER_US])),
        "demand_bps": draw(st.sampled_from([*[0] * 6, RATE // 10, 2 * RATE])),
        "on_failure": draw(st.sampled_from([*["abort"] * 8, *["raise"] * 4, "shrink"])),
        "exchange": draw(st.sampled_from([None, None, None, "rar", "a2a"])),
    }
    if draw(st.booleans()):  # placed by the scheduler; sometimes too many hosts, sometimes with a given server
        shards = tuple(draw(st.lists(st.sampled_from([*HOSTS, *HOSTS, "nobody"]), max_size=3)))
        wanted = WantedHosts(draw(st.sampled_from([1, 1, 2, 2, 3, 4, 5, 40])), shards, draw(st.sampled_from([0, 1000])))
        fields |= {"wanted": wanted, "workers": ()}
        fields["server"] = draw(st.sampled_from([*[""] * 8, hosts[0]]))
    elif draw(st.integers(0, 7)) == 0:
        fields["select"] = Selection("random", 0.6, seed=1)
    if fields["on_failure"] != "raise" and draw(st.integers(0, 15)) == 0:
        fields["max_restarts"] = 1
    late = draw(st.sampled_from([None, None, None, 30 * PS_PER_US, 500 * PS_PER_US]))
    if draw(st.integers(0, 7)) == 0 and fields["workers"]:
        fields["workers"] = (*fields["workers"], "nobody")
    if fields["workers"] and draw(st.integers(0, 3)) == 0:
        fields = serving(fields) | {"server": draw(st.sampled_from(["", fields["server"]]))}
    return fields, late


class TurnHistories(Histories):
    """Histories with one database and one cross-connect; delta is longer than some rounds."""

    topology = PODS
    options = replace(OPTIONS, schedule="tdm", delta_ps=5 * PS_PER_US, service_ports=2)

    @staticmethod
    def _policy(task, state, *, lanes=256):
        if task.elements == 666:
            raise ZeroDivisionError("somebody else's policy")
        return policy_named("steiner")(task, state, lanes=lanes)

    @initialize(some=st.lists(turn_tasks(), min_size=1, max_size=4))
    def begin(self, some):
        self._submit(some)

    @rule(some=st.lists(turn_tasks(), min_size=1, max_size=3))
    def submit(self, some):
        self._submit(some)

    @rule(number=st.integers(0, 2))
    def submit_some_that_move_others(self, number):
        """Submit two tasks that take turns at a host, and a third that joins one and shrinks its circuits."""
        fields = {"elements": 4000, "rounds": 4, "training_ps": 20 * PS_PER_US}
        hosts = (("h1", "h3"), ("h1", "h5"), ("h2", "h5"))[number:] + (("h2", "h5"),) * number
        self._submit([({**fields, "server": a, "workers": (b,)}, None) for a, b in hosts])

    @rule(link=st.sampled_from(LINKS), up=st.booleans())
    def change_a_link(self, link, up):
        self.cut = True
        self.hosts.change_link(*link, up=up)

    @rule(name=st.sampled_from(sorted(switch.name for switch in PODS.switches)), refuses=st.booleans())
    def refuse(self, name, refuses):
        self.switches[name].refuses = refuses

    @rule(what=st.sampled_from(["schedule", "tasks", "circuits"]), text=st.sampled_from(["not json", "{}", "[]"]))
    def damage_a_schedule(self, what, text):
        if self.orchestrator is not None:
            return
        tables = {"schedule": "schedules", "tasks": "windows", "circuits": "configurations"}
        with self.user.transaction():
            self.user._connection.execute(
                f"UPDATE OR IGNORE {tables[what]} SET {what} = ? "  # noqa: S608  (names of ours)
                f"WHERE rowid = (SELECT max(rowid) FROM {tables[what]})",
                (text,),
            )
        self.damaged = True

    damaged = False

    @invariant()
    def what_holds_is_a_schedule(self):
        """Check that no port, host of a process or task is used twice, and that trees use their window's circuits."""
        if self.damaged:
            return
        at_work = {row.name: row.task for row in self.user.tasks(AT_WORK)}
        rows = [row for row in self.user.schedules.rows() if row.phase in ("installing", "set", "active")]
        assert sum(row.phase is SchedulePhase.ACTIVE for row in rows) <= 1
        assert len(rows) <= 2
        for row in rows:
            STATISTICS["schedules looked at"] += 1
            windows = self.user.schedules.windows(row.number)
            names = [name for window in windows for name in window.tasks]
            assert len(names) == len(set(names)), "a task has two turns"
            for process in {window.process for window in windows}:
                own = [name for window in windows if window.process == process for name in window.tasks]
                hosts = [host for name in own for host, _ in row.schedule.plan(name).placement]
                assert len(hosts) == len(set(hosts)), "a host trains two tasks at a time"
                assert set(hosts) <= set(HOSTS)
            for window in windows:
                ports = [end for link in window.circuits for end in ((link.a, link.port_a), (link.b, link.port_b))]
                assert len(ports) == len(set(ports)), "a port is joined twice"
                bonds = {link: link.rate_bps // RATE for link in window.circuits}
                for switch in PODS.switches:
                    assert sum(width for link, width in bonds.items() if switch.name in (link.a, link.b)) <= 2
        services = {
            row.name for row in self.user.tasks((TaskState.SCHEDULED, *AT_WORK)) if row.task.serving is not None
        }
        standing = set()
        for plan_row in self.user.plans((PlanPhase.INSTALLING, PlanPhase.INSTALLED, PlanPhase.ACTIVE)):
            if plan_row.task in services:
                with contextlib.suppress(ValueError, KeyError, PlanError):  # damaged by a rule
                    standing.update(circuits_of(from_json(Plan, plan_row.plan, "plan", topology=PODS)))
        STATISTICS["circuits that stay looked at"] += len(standing)
        ports = [end for link in standing for end in ((link.a, link.port_a), (link.b, link.port_b))]
        assert len(ports) == len(set(ports)), "a port is that of two circuits that stay"
        for row in rows:
            for window in self.user.schedules.windows(row.number):
                ends = {end for link in window.circuits for end in ((link.a, link.port_a), (link.b, link.port_b))}
                assert not ends & set(ports), "a circuit that stays is in a schedule"
        active = self.user.schedules.active()
        if active is None:
            return
        windows = self.user.schedules.windows(active.number)
        for plan_row in self.user.plans((PlanPhase.ACTIVE,)):
            task = at_work.get(plan_row.task)
            if is_read(plan_row.role):
                continue
            window = next((window for window in windows if plan_row.task in window.tasks), None)
            if task is None or window is None:
                continue  # the task waits for the next schedule
            try:
                plan = from_json(Plan, plan_row.plan, "plan", topology=PODS)
            except (ValueError, KeyError, PlanError):
                continue  # damaged by a rule
            assert set(circuits_of(plan)) <= set(window.circuits)
            placed = {host for host, _ in active.schedule.plan(plan_row.task).placement}
            assert placed == {task.server, *task.workers}

    def teardown(self):
        try:
            super().teardown()
        finally:
            STATISTICS["histories with turns"] += 1

    def _check_end(self):
        super()._check_end()
        schedules = self.user.schedules.rows()
        STATISTICS["schedules"] += len(schedules)
        for row in schedules:
            assert row.phase not in (SchedulePhase.INSTALLING, SchedulePhase.SET), row
            STATISTICS[f"schedules {row.phase}"] += 1
        STATISTICS["reads"] += sum(is_read(plan.role) for plan in self.user.plans(tuple(PlanPhase)))
        STATISTICS["circuits moved"] += len(self.user.history.swaps())
        if not self.damaged:
            for row in self.user.tasks():
                assert row.state in ENDED
                if row.state == "finished" and row.task.serving is None:
                    named = [one for one in schedules if row.name in {plan.job for plan in one.schedule.jobs}]
                    assert named, "it finished without ever having had a turn"
