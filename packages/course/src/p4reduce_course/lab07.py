"""Lab 07: two jobs in one network, a forger, and a change of epoch."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from p4reduce.control_plane.plans import Plan
from p4reduce.network.jobs.network import Job
from p4reduce.topologies import Topology
from p4reduce.workers.wire import PacketType
from p4reduce_course.controllers.diagnose import (
    check_apart,
    check_cleared,
    check_edges,
    check_entries,
    check_gone,
    check_no_copies,
    check_only,
    check_open,
    check_order,
    check_untouched,
    copies_of,
)
from p4reduce_course.controllers.rehearsal import Rehearsal, changed_controller
from p4reduce_course.controllers.room import (
    Forgery,
    Held,
    Room,
    anew_is_right,
    check_refused,
    drawn,
    epoch_of,
    packet,
    parameters_of,
    plan_of,
    told,
    wired,
)
from p4reduce_course.frame.lab import Draws, GradingTask, Lab, LabPart, LabStep, run_steps
from p4reduce_course.frame.report import Check, TooSlow, Wrong
from p4reduce_course.python_trail import EntryPlace, key_of, located
from p4reduce_course.sandbox.process import StudentCode
from p4switch.base.values import PS_PER_US

# The networks of lab 07: every leaf has four hosts, one of which has no part in any job and forges packets.


KINDS: Final = ("a leaf-spine", "a tree")
_HOSTS: Final = 4
_BESIDE: Final = 7
"""largest difference between the numbers of the two jobs"""
_APART: Final = 4096
"""of which this is the unit in the second network: as many as there are slots"""


_WIDE: Final = 256
"""slots of the first job where networks are installed one after the other"""


@dataclass(frozen=True)
class TwoJobScene:
    """A network with two jobs, and a change of each.

    Attributes:
        network: the network as the student's code gets it, with both jobs before the change.
        changed: the first job after its change: a worker has left, and another switch is the root.
        other: the second job after its change, of the same kind.
        forgers: by leaf, a host that has no part in a job.
    """

    topology: Topology
    network: dict[str, Any]
    changed: dict[str, Any]
    other: dict[str, Any]
    forgers: dict[str, str]


def draw(draws: Draws, kind: int, again: int = 0) -> TwoJobScene:
    """Returns one of the networks; ``again``: another one of its kind, whose jobs have many slots."""
    random = draws.generator(f"network {kind}" + (f", {again}" if again else ""))
    if kind == 0:
        leaves = int(random.integers(2, 4))
        links = [(f"s{leaf}", f"s{leaves + spine}") for leaf in range(1, leaves + 1) for spine in (1, 2)]
        roots = [f"s{leaves + 1}", f"s{leaves + 2}", f"s{leaves + 2}"]
    else:  # leaves under two switches that are linked, and one more leaf, which has a host and no worker
        leaves = 4
        links = [("s1", "s5"), ("s2", "s5"), ("s3", "s6"), ("s4", "s6"), ("s5", "s6"), ("s6", "s7")]
        links.append((f"h{_HOSTS * leaves + 1}", "s7"))
        roots = ["s5", "s6", "s6"]
    hosts: dict[str, list[str]] = {}
    for leaf in range(1, leaves + 1):
        hosts[f"s{leaf}"] = [f"h{_HOSTS * (leaf - 1) + host}" for host in range(1, _HOSTS + 1)]
        links += [(host, f"s{leaf}") for host in hosts[f"s{leaf}"]]
    topology = wired(KINDS[kind].replace(" ", "-"), links, random)
    orders = {leaf: [names[int(place)] for place in random.permutation(_HOSTS)] for leaf, names in hosts.items()}
    first = [name for names in orders.values() for name in names[:2]]
    second = [name for names in orders.values() for name in names[1:3]]
    # One job's number is the same in both networks. The other one is so close to it that slots derived from job numbers
    # overlap, or so far that what is left of a division by a power of two is the same.
    number, step = draws.integer("job", 0, 999), int(random.integers(1, _BESIDE + 1))
    slots = int(random.choice((64, 128, 256))), int(random.choice((4, 8)))
    slots = (_WIDE, _WIDE // 2) if again else slots
    jobs = [
        {"job": number, "root": roots[0], "slots": slots[0], "workers": first},
        {"job": number + step * (_APART if kind else 1), "root": roots[1], "slots": slots[1], "workers": second},
    ]
    left, gone = (workers[int(random.integers(0, len(workers)))] for workers in (first, second))
    changed = {**jobs[0], "root": roots[2], "workers": [name for name in first if name != left]}
    other = {**jobs[1], "root": roots[0], "workers": [name for name in second if name != gone]}
    forgers = {leaf: names[3] for leaf, names in orders.items()}
    return TwoJobScene(topology, {"jobs": jobs, **told(topology)}, changed, other, forgers)


# One network of lab 07, from its entries to late packets; each act is run once, and its result is kept.


ELEMENTS: Final = 64 * 40 - 11
LONG: Final = 64 * 400
"""elements of the second job's sum, during which the first job changes"""
_BEGUN_PS: Final = 20 * PS_PER_US
Ask = Callable[..., Any]


class ActPlay:
    """The acts of one network, in order. After a failed act other than ``entries``, later acts fail in the same way."""

    def __init__(self, scene: TwoJobScene, room: Room, ask: Ask, first_epoch: int, where: str) -> None:
        """Prepares the acts. ``ask(name, *arguments)`` calls a student's function with the room's p4rt."""
        self.scene, self.room, self._ask, self._first_epoch, self._where = scene, room, ask, first_epoch, where
        self._plans: list[Plan] = []
        self._jobs: list[Job] = []
        self._known: list[Job] = []
        self._old: list[Plan] = []  # before changes, of both jobs
        self._random = np.random.default_rng(scene.network["jobs"][0]["job"])

    def acts(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yields the name and the function of each act."""
        yield "install", self.install
        yield "entries", self.entries
        yield "sums", self.sums
        yield "forged", self.forged
        yield "change", self.change
        yield "late", self.late
        yield "back", self.back

    def shown(self, wrong: Wrong, home: Path, label: str) -> Wrong:
        """Adds entries and packets of the job that a finding names; leaves it unchanged if there is no plan of it."""
        about = [plan for plan in self._plans if re.search(rf"\bjob {plan.job}\b", wrong.finding.said)]
        return self.room.shown(wrong, about[0], home, label) if about else wrong

    def install(self) -> None:
        """Calls the student's ``install``, and makes the plans with the epochs that it returns."""
        epochs = self._ask("install", self.scene.network)
        check_open(self.room.sessions.highest, self.scene.topology, self._where)
        jobs = self.scene.network["jobs"]
        if isinstance(epochs, dict) and epochs and not set(epochs) & {job["job"] for job in jobs}:
            message = f"install returned epochs of jobs {', '.join(map(str, epochs)):.40}; this network has the jobs "
            message += ", ".join(str(job["job"]) for job in jobs)
            raise Wrong(f"{message}: forget what you kept of the one before", self._where)
        if not isinstance(epochs, dict) or set(epochs) != {job["job"] for job in jobs}:
            raise Wrong(f"install returned {epochs!r:.60}; return a dict: the epoch of each job", self._where)
        self._plans = [plan_of(self.scene.topology, {**job, "epoch": self._epoch(epochs[job["job"]])}) for job in jobs]

    def _epoch(self, epoch: Any) -> int:
        if isinstance(epoch, bool) or not isinstance(epoch, int) or not self._first_epoch <= epoch < 1 << 16:
            raise Wrong(f"{epoch!r:.40} is no epoch: a number from {self._first_epoch} to 65535", self._where)
        return epoch

    def entries(self) -> None:
        """Checks the entries of both jobs, and that the jobs share nothing."""
        check_apart(self.room.sessions.book, self._plans, self._where)
        for plan in self._plans:
            check_entries(self.room.sessions.book, plan, self._where)
        check_only(self.room.sessions.book, self._plans, self._where)

    def sums(self) -> None:
        """Checks the sums of both jobs at the same time."""
        self._jobs = [self.room.network.add(plan) for plan in self._plans]
        self._known = list(self._jobs)
        self._sum_all()
        self.room.check_links(self._known, self._where)

    def _sum_all(self) -> None:
        given = [drawn(self._random, len(job.members), ELEMENTS) for job in self._jobs]
        for job, (inputs, _) in zip(self._jobs, given, strict=True):
            self.room.post(job, inputs)
        self.room.run(self._jobs)
        for job, (inputs, wanted) in zip(self._jobs, given, strict=True):
            self.room.check_sum(job, inputs, wanted, self._where)

    # --- the forger

    def forged(self) -> None:
        """Sends forged packets, which must be refused, then checks all of table edge, and the sums."""
        for forgery in self._forgeries():
            check_refused(self.room, forgery, self._where)
        check_edges(self.room.sessions.book, self.scene.topology, self._where)
        self._sum_all()
        self.room.check_links(self._known, self._where)

    def _forgeries(self) -> Iterator[Forgery]:
        topology = self.scene.topology
        first, second = self._plans
        for leaf, forger in self.scene.forgers.items():
            victim = next(child.name for child in first.by_switch[leaf].children if child.is_worker)
            named = {"job": first.job, "epoch": first.epoch, "seq": _next(self._jobs[0])}
            yield Forgery(
                f"{forger} sends {leaf} a PUSH of job {first.job} in the name of {victim}, from its own port",
                forger,
                packet(topology, forger, victim, leaf, **named, kind=PacketType.PUSH),
                leaf,
                8,
                "table peer trusts the address without the port",
            )
            parent = first.by_switch[leaf].parent
            if parent is None:
                continue
            yield Forgery(
                f"{forger} sends {leaf} a RESULT of job {first.job} in the name of {parent.name}, from its own port",
                forger,
                packet(topology, forger, parent.name, leaf, **named, kind=PacketType.RESULT),
                leaf,
                8,
                "table peer trusts the address without the port",
            )
            edge, place = self._edge(leaf, forger)
            yield Forgery(
                f"{forger} sends {parent.name} a PUSH of job {first.job} in the name of {leaf}, its own switch",
                forger,
                packet(topology, forger, leaf, parent.name, **named, kind=PacketType.PUSH),
                leaf,
                16,
                f"table edge says which host stands behind a port, and nothing else may be sent on from there{edge}",
                place,
            )
        leaf, (outsider, *_) = next(iter(self._strangers(second).items()))
        named = {"job": second.job, "epoch": second.epoch, "seq": _next(self._jobs[1])}
        yield Forgery(
            f"{outsider}, a worker of job {first.job}, sends {leaf} a PUSH of job {second.job}",
            outsider,
            packet(topology, outsider, outsider, leaf, **named, kind=PacketType.PUSH),
            leaf,
            8,
            "a worker of one job has no part in the other",
        )

    def _edge(self, leaf: str, host: str) -> tuple[str, EntryPlace]:
        """Returns what table edge of a leaf says of a host's port, and the place of this entry."""
        port = self.scene.topology.neighbours(leaf).index(host) + 1
        rows = {row.match["ingress_port"]: row for row in self.room.sessions.book.rows(leaf, "edge")}
        if port not in rows:
            return f". {leaf} has no entry for port {port}, where {host} is", EntryPlace(leaf, "edge", action="host")
        ip = rows[port].params["ip"]
        node = self.scene.topology.by_ip.get(ip)
        text = f". {leaf}'s entry for port {port}, where {host} is, has the ip of {node.name if node else hex(ip)}"
        return text, EntryPlace(leaf, key_of("edge", port), ("ip",))

    def _strangers(self, plan: Plan) -> dict[str, list[str]]:
        """Returns workers that belong to the first job only, by their switch."""
        strangers: dict[str, list[str]] = {}
        for worker in self._plans[0].workers:
            if worker not in plan.workers:
                strangers.setdefault(self.scene.topology.neighbours(worker)[0], []).append(worker)
        return strangers

    # --- another epoch

    def change(self) -> None:
        """Changes the first job, which loses a worker and gets another root, during a sum of the second job."""
        room, other = self.room, self._jobs[1]
        inputs, wanted = drawn(self._random, len(other.members), LONG)
        room.post(other, inputs)
        room.network.advance(room.network.now + _BEGUN_PS)

        def meanwhile() -> None:
            room.run([other])
            check_untouched(room.sessions.book, other.plan, self._where)
            room.check_sum(other, inputs, wanted, self._where)

        self._change(0, self.scene.network["jobs"][0], self.scene.changed, meanwhile)

    def back(self) -> None:
        """Changes the first job once more: the worker comes back, another one leaves, and the first root is back.

        Then the second job changes.
        """
        first, second = self.scene.network["jobs"]
        gone = next(name for name in first["workers"] if name not in self.scene.changed["workers"])
        stay = [name for name in first["workers"] if name != next(name for name in first["workers"] if name != gone)]
        changes = ((0, self.scene.changed, {**first, "workers": stay}), (0, {**first, "workers": stay}, first))
        for place, now, new in (*changes, (1, second, self.scene.other)):
            other = self._jobs[1 - place].plan
            self._change(
                place,
                now,
                new,
                lambda other=other: check_untouched(self.room.sessions.book, other, self._where),  # type: ignore[misc]
            )

    def _change(self, place: int, now: dict[str, Any], new: dict[str, Any], meanwhile: Callable[[], None]) -> None:
        """Lets a job change from a description to another one; ``meanwhile`` is called after the answer."""
        room, old, book = self.room, self._jobs[place], self.room.sessions.book
        copies = copies_of(book, old.plan)
        book.changed.clear()
        epoch = self._epoch(self._ask("change", self.scene.network, {**now, "epoch": old.plan.epoch}, new))
        meanwhile()
        self._check_another(old.plan, new, epoch)
        plan = plan_of(self.scene.topology, {**new, "epoch": epoch})
        self._plans[place] = plan
        check_apart(book, self._plans, self._where)
        for either in (plan, self._plans[1 - place]):
            check_entries(book, either, self._where)
        for earlier in (*self._old_of(old.plan), old.plan):
            check_cleared(book, earlier, plan, self._where)
        check_order(book, old.plan.job, old.plan.epoch, self._where)
        check_gone(book, plan, self._where)
        check_no_copies(book, old.plan, copies, self._where)
        check_only(book, self._plans, self._where)
        check_edges(book, self.scene.topology, self._where)
        room.network.retire(old)
        self._old.append(old.plan)
        self._jobs[place] = room.network.add(plan)
        self._known.append(self._jobs[place])
        self._sum_all()
        room.check_links(self._known, self._where)

    def _old_of(self, plan: Plan) -> list[Plan]:
        """Returns the plans that a plan's job had before."""
        return [old for old in self._old if old.job == plan.job]

    def _check_another(self, old: Plan, new: dict[str, Any], epoch: int) -> None:
        """Raises Wrong if the job has had this epoch before."""
        if epoch == old.epoch:
            left = [name for name in old.workers if name not in new["workers"]]
            whose = f"a packet of {left[0]}, which has left, or one that is late," if left else "a packet that is late"
            message = f"job {old.job} has epoch {epoch} after its change, as before: {whose}"
            raise Wrong(f"{message} cannot be told from a current one. Use another epoch", self._where)
        if epoch in [plan.epoch for plan in self._old_of(old)]:
            before = ", ".join(str(plan.epoch) for plan in (*self._old_of(old), old))
            message = f"job {old.job} has had the epochs {before}, and change returned {epoch} again, for"
            message += f" {len(new['workers'])} workers and root {new['root']}: a late packet of that time cannot be"
            raise Wrong(f"{message} told from a current one. Each change needs an epoch never used before", self._where)

    def late(self) -> None:
        """Sends packets of the first job's old epoch, which must be refused."""
        topology, job = self.scene.topology, self._known[0]
        old = job.plan
        gone = next(name for name in old.workers if name not in self.scene.changed["workers"])
        stays = self.scene.changed["workers"][0]
        for worker, why in ((gone, "which has left"), (stays, "which is late")):
            leaf = topology.neighbours(worker)[0]
            named = {"job": old.job, "epoch": old.epoch, "seq": _next(job)}
            frame = packet(topology, worker, worker, leaf, **named, kind=PacketType.PUSH)
            otherwise = "entries of the old epoch are still there; delete them, table job first"
            message = f"{worker}, {why}, sends a PUSH of job {old.job}, epoch {old.epoch}"
            check_refused(self.room, Forgery(message, worker, frame, leaf, 7, otherwise), self._where)


def _next(job: Job) -> int:
    """Returns the next chunk of a job's workers, which a switch accepts from a legitimate sender."""
    return sum(-(-elements // job.plan.lanes) for _, elements, _ in job.carried)


# Grading of lab 07: two jobs in one network, forged packets, and a change of epoch.


FILE: Final = "controller.py"
_CHANGES: Final = 220
"""most changes of a controller that are tried; each takes some 20 ms"""
_MANY: Final = 12
"""networks that are installed one after the other: their jobs have more slots than a switch"""
_MANY_TITLE: Final = f"{_MANY} networks, one after the other"
_TITLES: Final = (
    ("jobs", "entries", "entries of two jobs"),
    ("jobs", "sums", "both add up at once"),
    ("forger", "forged", "forged packets are refused"),
    ("epochs", "change", "one changes while the other goes on"),
    ("epochs", "late", "late packets are refused"),
    ("epochs", "back", "it changes again, and back, and the other one changes"),
)


def _title(number: int, act: str) -> str:
    """Returns the title of a network's check; that of its entries, for its installation."""
    titles = {known: title for _, known, title in _TITLES}
    return f"{KINDS[number]}: {titles.get(act, _TITLES[0][2])}"


def grade(task: GradingTask) -> Iterator[Check]:
    """Yields all checks of lab 07."""
    with StudentCode(task.answers / FILE, seen=task.seen) as code:
        yield from run_steps(task, _Grader(task, code).steps())


class _Grader:
    def __init__(self, task: GradingTask, code: StudentCode, room: type[Room] = Room) -> None:
        self.task, self.code, self.room = task, code, room
        self.home = task.folder
        self.draws = task.hidden
        self.path = str(task.answers / FILE)
        self.held, self.first_epoch = Held.of(task.personal), epoch_of(task.personal)
        self._known: dict[int, dict[str, Wrong]] = {}
        self._located = not task.explain  # whether the lines of a mistake were told

    def steps(self) -> list[LabStep]:
        steps = [
            LabStep(part, _title(number, act), lambda number=number, act=act: self._check(number, act))  # type: ignore[misc]
            for part, act, _ in _TITLES
            for number in range(len(KINDS))
        ]
        place = next(at for at, step in enumerate(steps) if step.part != "jobs")
        return [*steps[:place], LabStep("jobs", _MANY_TITLE, self.many), *steps[place:]]

    def many(self) -> None:
        """Installs networks one after the other, without packets. Raises Wrong if numbers run out, or overlap."""
        self.code.begin()
        for number in range(1, _MANY + 1):
            wrong = self._installed(self.code, number)
            if wrong is None:
                continue
            with StudentCode(Path(self.path)) as code:
                anew = number > 1 and not isinstance(wrong, TooSlow) and self._installed(code, number) is None
            told = anew_is_right(self.task, FILE, "install", wrong) if anew else self._traced(wrong, _MANY_TITLE)
            text = f"network {number} of {_MANY} in one process: {told.finding.said}"
            raise self.code.shown(Wrong(text, told.finding.where), self.home, "many-networks")

    def _installed(self, code: StudentCode, number: int) -> Wrong | None:
        """Returns what is wrong with the entries of one of many networks."""
        scene = draw(self.draws, 0, number)
        with Rehearsal(scene.topology, self.held, edges=False) as room:
            play = ActPlay(scene, room, partial(room.call, code), self.first_epoch, self.path)
            try:
                play.install()
                play.entries()
            except Wrong as wrong:
                return wrong
        return None

    def _check(self, number: int, act: str) -> None:
        if number not in self._known:
            self._known[number] = self._played(self.code, number)
        wrong = self._known[number].get(act)
        if wrong is not None:
            raise wrong

    def _told(self, wrong: Wrong, number: int, act: str) -> Wrong:
        """Returns a finding, the first one with the lines that led to it."""
        if number and not self._located and not isinstance(wrong, TooSlow):
            self._located = True
            with StudentCode(Path(self.path)) as code:
                if act not in self._played(code, number):
                    return anew_is_right(self.task, FILE, "install", wrong)
            self._located = False
        return self._traced(wrong, _title(number, act))

    def _traced(self, wrong: Wrong, title: str) -> Wrong:
        """Returns a finding of a check, with the lines that led to it if it is the first one."""
        if self._located or isinstance(wrong, TooSlow):
            return wrong
        self._located = True
        place = changed_controller(
            self.task, FILE, self.code, wrong, title, lambda *given: _Grader(*given).steps(), _CHANGES
        )
        return located(self.task, FILE, self.code, wrong, place)

    def _played(self, code: StudentCode, number: int) -> dict[str, Wrong]:
        """Returns the findings of a network, by act."""
        scene = draw(self.draws, number)
        with self.room(scene.topology, self.held, edges=False) as room:

            def ask(name: str, *arguments: Any) -> Any:
                return room.call(code, name, *arguments)

            findings: dict[str, Wrong] = {}
            over: Wrong | None = None
            play = ActPlay(scene, room, ask, self.first_epoch, self.path)
            code.begin()
            for name, act in play.acts():
                try:
                    if over is not None:
                        raise over
                    act()
                except Wrong as wrong:
                    label, told = f"network-{number + 1}-{name}", self._told(wrong, number, name)
                    findings[name] = code.shown(play.shown(told, self.home, label), self.home, label)
                    if name != "entries":  # later acts show what wrong entries cause
                        over = findings[name]
            return findings


LAB: Final = Lab(
    number="07",
    name="07-two-jobs-and-a-forger",
    title="two jobs and a forger",
    minutes=60,
    parts=(
        LabPart("jobs", "two jobs in the same switches", 40),
        LabPart("forger", "no host speaks in another's name", 30),
        LabPart("epochs", "a job changes, and what is late is refused", 30),
    ),
    files=(FILE,),
    grade=grade,
    praise="two jobs that do not mix, whatever other hosts send",
    parameters=parameters_of,
)
