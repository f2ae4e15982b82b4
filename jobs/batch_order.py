"""Whoever is behind goes first: classes by batch at hosts and in switches, while an asynchronous training runs."""

from collections.abc import Sequence
from typing import Final, Protocol

from p4reduce.control_plane.batches import BATCHES, JobGroup, batch_entries, group_size, lag_entry
from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.entries import Entity, fingerprint, switches_on_paths
from p4reduce.control_plane.errors import ControllerError
from p4reduce.jobs.asynchronous import AsynchronousJob
from p4reduce.jobs.clockwork import Clockwork

REBASE: Final = 4
"""batches by which the oldest one moves before the controller writes anew"""


class BatchOrder(Protocol):
    """How classes follow the batches of one asynchronous job.

    Attributes
    ----------
    writes : int
        Entries that were written while the job ran, those of the beginning not counted.
    """

    writes: int

    def moved(self, done: Sequence[int], oldest: int, newest: int) -> None:
        """A worker has ended a round: so many has each done."""

    def close(self) -> None:
        """Take the entries out."""


def group_of(job: AsynchronousJob, cell: int, base: int, most: int) -> JobGroup:
    """The group of a job's workers; their classes are base .. base + most."""
    plans = job.plans
    return JobGroup(plans[0].job, group_size(len(plans)), cell, plans[0].generation, base, most)


class _Hosts:
    """Classes at hosts: base + min(lag, most), at once, since they know whose round it is."""

    def __init__(self, clockwork: Clockwork, job: AsynchronousJob, group: JobGroup) -> None:
        self._network, self._job, self._group = clockwork.network, job, group

    def moved(self, done: Sequence[int], newest: int) -> None:
        for one, rounds in zip(self._job.jobs, done, strict=True):
            self._network.set_class(one, self._group.base + min(newest - rounds, self._group.most))


class SwitchOrder:
    """The switches find out by themselves: one entry in each, and nothing to write while the job runs."""

    def __init__(self, clockwork: Clockwork, controller: Controller, job: AsynchronousJob, group: JobGroup) -> None:
        self.writes = 0
        self._hosts, self._controller = _Hosts(clockwork, job, group), controller
        self._entries: dict[str, Sequence[Entity]] = dict.fromkeys(_switches(job), (lag_entry(group),))
        _insert(controller, self._entries)

    def moved(self, done: Sequence[int], oldest: int, newest: int) -> None:
        """Only hosts need to be told."""
        del oldest
        self._hosts.moved(done, newest)

    def close(self) -> None:
        """Take the entries out."""
        for switch, entries in self._entries.items():
            self._controller.delete(switch, entries)


class ControllerOrder:
    """The controller writes a class for each of eight iterations, anew when the oldest one has moved by ``rebase``.

    What it writes takes effect ``latency_ps`` later. ``staleness`` is the job's bound: with more than 8 - rebase, or
    none, batches that are told apart in no entry may be under way: ControllerError.
    """

    def __init__(
        self,
        clockwork: Clockwork,
        controller: Controller,
        job: AsynchronousJob,
        group: JobGroup,
        *,
        staleness: int | None,
        latency_ps: int,
        rebase: int = REBASE,
    ) -> None:
        if staleness is None or rebase < 1 or staleness + rebase > BATCHES:
            raise ControllerError(
                f"staleness: {staleness}, rebase: {rebase}: entries tell {BATCHES} batches apart; "
                f"needed: staleness + rebase <= {BATCHES}, or order batches in the switches"
            )
        self.writes = 0
        self._clockwork, self._controller, self._group = clockwork, controller, group
        self._hosts = _Hosts(clockwork, job, group)
        self._latency_ps, self._rebase, self._span = latency_ps, rebase, staleness + rebase
        self._written = 0
        self._switches = _switches(job)
        entries = batch_entries(group, 0, self._span)
        self._there = {fingerprint(entry) for entry in entries}
        _insert(controller, dict.fromkeys(self._switches, entries))

    def moved(self, done: Sequence[int], oldest: int, newest: int) -> None:
        """Hosts are told, and switches where the oldest batch has moved far enough."""
        self._hosts.moved(done, newest)
        base = oldest - oldest % self._rebase
        if base > self._written:
            self._written = base
            self._clockwork.at(self._clockwork.network.now + self._latency_ps, lambda: self._write(base))

    def _write(self, oldest: int) -> None:
        """Entries whose class has changed."""
        entries = batch_entries(self._group, oldest, self._span)
        changed = [entry for entry in entries if fingerprint(entry) not in self._there]
        self._there = {fingerprint(entry) for entry in entries}
        for switch in self._switches:
            self._controller.modify(switch, changed)
        self.writes += len(changed) * len(self._switches)

    def close(self) -> None:
        """Take the entries out."""
        for switch in self._switches:
            self._controller.delete(switch, batch_entries(self._group, 0, self._span))


def _switches(job: AsynchronousJob) -> list[str]:
    """All that its frames pass."""
    return sorted({switch for plan in job.plans for switch in switches_on_paths(plan)})


def _insert(controller: Controller, entries: dict[str, Sequence[Entity]]) -> None:
    for switch, own in entries.items():
        controller.insert(switch, own)
