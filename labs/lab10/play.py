"""A controller at work in virtual time: sums under way, switches that die, and what the controller makes of it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

import numpy as np

from p4reduce.base.units import PS_PER_MS, PS_PER_US
from p4reduce.control_plane.plans import Plan
from p4reduce.jobs.job import Job
from p4reduce.labs.controllers.diagnose import check_cleared, check_entries, check_gone
from p4reduce.labs.controllers.networks import plan_of
from p4reduce.labs.controllers.room import Room, Words, drawn
from p4reduce.labs.frame.report import Wrong
from p4reduce.labs.lab10.networks import Ground

TICK_PS: Final = 200 * PS_PER_US
PATIENCE_PS: Final = 12 * PS_PER_MS
"""virtual time after which nobody waits for a sum any more; a right controller needs some 4 ms"""
ELEMENTS: Final = 64 * 400 - 5
Ask = Callable[..., Any]


class Play:
    """One network with one job, and the student's controller.

    Attributes:
        took_ps: the virtual time of the last sum.
        changes: how often the controller has changed the tree.
        changed: is called after each change.
    """

    def __init__(self, ground: Ground, room: Room, ask: Ask, first_epoch: int, where: str) -> None:
        """``ask(name, *arguments)`` calls a function of the student's, with the room's p4rt."""
        self.ground, self.room, self._ask, self._first_epoch, self._where = ground, room, ask, first_epoch, where
        self.took_ps = self.changes = 0
        self.changed: Callable[[], None] = lambda: None
        self._random = np.random.default_rng(ground.network["job"])
        self._plan = self._answered("start", ask("start", ground.network))
        check_entries(room.sessions.book, self._plan, where)
        self.job: Job = room.network.add(self._plan)
        self._epochs = [self._plan.epoch]

    @property
    def root(self) -> str:
        """Of the tree that workers use."""
        return self._plan.root

    @property
    def now(self) -> int:
        """Virtual time, picoseconds."""
        return self.room.network.now

    def sum(self) -> None:
        """One sum of all workers, with the controller called every now and then. Raises Wrong."""
        inputs, _ = drawn(self._random, len(self.ground.network["workers"]), ELEMENTS)
        self._given = dict(zip(self.ground.network["workers"], inputs, strict=True))
        begin = self.now
        self._post()
        while self.room.waiting(self.job):
            self.room.advance(self.now + TICK_PS, self.job.endpoints)
            if self.room.waiting(self.job):
                if self.now > begin + PATIENCE_PS:
                    raise self._waits()
                self.tick()
        self.took_ps = self.now - begin
        wanted: Words = np.sum([self._given[worker] for worker in self.job.members], axis=0, dtype=np.int32)
        self.room.check_sum(self.job, self._sums, wanted, self._where)

    def _post(self) -> None:
        """Every member gives its numbers, from the first chunk on."""
        self._sums = [self._given[worker].copy() for worker in self.job.members]
        self.room.post(self.job, self._sums)

    def tick(self) -> None:
        """The controller looks around, and may change the tree."""
        answer = self._ask("tick", self.ground.network, self.now // PS_PER_US)
        if answer is not None:
            self._change(self._answered("tick", answer))

    def check_end(self, dead: Collection[str]) -> None:
        """Raises Wrong where entries of an epoch that is over are left in a switch that lives."""
        check_gone(self.room.sessions.book, self._plan, self._where, dead)

    def _waits(self) -> Wrong:
        dead = sorted(self.room.sessions.dead)
        said = f"after {PATIENCE_PS // PS_PER_MS} ms of virtual time {self.room.waiting(self.job)[0]} still waits"
        if dead:
            said += f"; {' and '.join(dead)} {'is' if len(dead) == 1 else 'are'} dead"
        lost = [switch for switch in dead if switch in self._plan.by_switch]
        if lost:
            said += f", and tick has not put another tree in the place of that with {lost[0]}: waiting for ever"
        elif why := self.room.why():
            said += f". {why}"
        return Wrong(said, self._where)

    def _change(self, plan: Plan) -> None:
        old, dead = self._plan, self.room.sessions.dead
        if plan.epoch in self._epochs:
            said = f"epoch {plan.epoch} again, for a tree with root {plan.root}: packets that were on their way in the "
            raise Wrong(f"{said}tree of {old.root} cannot be told from current ones. Use another epoch", self._where)
        check_entries(self.room.sessions.book, plan, self._where, dead)
        check_cleared(self.room.sessions.book, old, plan, self._where)
        if plan.workers == old.workers:
            self.room.network.change_over(self.job, plan)
        else:  # sums of some chunks have in them what the dead gave: all of it again, without
            self.room.network.give_up(self.job)
            self.room.network.retire(self.job)
            self.job = self.room.network.add(plan)
            self._post()
        self._epochs.append(plan.epoch)
        self._plan = plan
        self.changes += 1
        self.changed()

    def _answered(self, name: str, answer: Any) -> Plan:
        """The plan that an answer of the student's stands for."""
        if not isinstance(answer, dict) or set(answer) != {"epoch", "root"}:
            nothing = ", or None" if name == "tick" else ""
            said = f"{name} returned {answer!r:.60}; return {{'epoch': number, 'root': name of a switch}}{nothing}"
            raise Wrong(said, self._where)
        epoch, root, dead = answer["epoch"], answer["root"], self.room.sessions.dead
        topology, network = self.ground.topology, self.ground.network
        if isinstance(epoch, bool) or not isinstance(epoch, int) or not self._first_epoch <= epoch < 1 << 16:
            said = f"{epoch!r:.40} is no epoch: a number from {self._first_epoch} to 65535"
            raise Wrong(f"{name}: {said}", self._where)
        if not isinstance(root, str) or root not in self.ground.spines:
            raise Wrong(f"{name}: {root!r:.40} is no root; take a switch without workers", self._where)
        if root in dead and not self._written(root, epoch):
            said = f"{name} returned the root {root}, which is dead and has nothing of epoch {epoch}"
            raise Wrong(f"{said}: return the root of the tree that you installed", self._where)
        # What dies while a tree is written is a part of it still: the next tick sees it.
        gone = {leaf for leaf in dead if leaf not in self.ground.spines and not self._written(leaf, epoch)}
        staying = [worker for worker in network["workers"] if topology.neighbours(worker)[0] not in gone]
        job = {**network, "epoch": epoch, "root": root, "workers": staying}
        return plan_of(topology, job, frozenset(dead - {root}) & (gone | self.ground.spines))

    def _written(self, switch: str, epoch: int) -> bool:
        """Whether the controller has put a switch into an epoch's tree."""
        return (self.ground.network["job"], epoch) in self.room.sessions.book.jobs(switch)
