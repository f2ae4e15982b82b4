"""Jobs through their rounds: a generator for each cycle, one clock for all. A process ends when its jobs are done."""

from collections.abc import Generator, Mapping, Sequence
from typing import Final, Literal

from p4reduce.base.progress import Progress
from p4reduce.base.units import PS_PER_S
from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.tdm.schedule import Cycle, Schedule
from p4reduce.experiments.tdm.counting import Counting
from p4reduce.experiments.tdm.gpus import Gpus
from p4reduce.experiments.tdm.installing import Installed, Installer, Part
from p4reduce.experiments.tdm.results import Played, Span, What, Window
from p4reduce.experiments.tdm.turns import turns_of
from p4reduce.fabric import Stop
from p4reduce.jobs.network import JobNetwork
from p4reduce.workers.records import State

Keep = Literal["starts", "pause", "gates"]
_LOOK_PS: Final = 10_000_000
"""in which is looked whether the blocks of a configuration have come"""
_STEP_PS: Final = 200_000
"""in which is looked whether an acknowledgement that was owed has come"""

Wait = tuple[str, int, Sequence[Part]]
"""what a cycle waits for: ("until", time, ()) or ("parts", 0, parts)"""
Acts = Generator[Wait, None, None]


class Player:
    """Moves jobs through their rounds."""

    def __init__(
        self,
        schedule: Schedule,
        installed: Mapping[str, Installed],
        installer: Installer,
        network: JobNetwork,
        *,
        rounds: int,
        keep: Keep,
        progress: Progress | None,
    ) -> None:
        self._schedule, self._jobs, self._installer, self._network = schedule, installed, installer, network
        self._rounds, self._keep, self._progress = rounds, keep, progress
        self._delta_ps = round(schedule.network.delta_s * PS_PER_S)
        self._gpus = Gpus(schedule.network.gpus)
        self._trained: set[str] = set()
        self._began: dict[str, int] = {}
        self._counting = Counting(network, installed.values())
        self._played = Played(schedule.policy, schedule.round_s)
        self._played.iterations_ps = {name: [] for name in installed}
        self._last: dict[str, int] = {}
        self._lit = -1
        self._stopping = self._halted = False

    def run(self) -> Played:
        """All rounds."""
        self._reconfigure(self._installer.matrices.index(self._schedule.processes[0].configurations[0].circuits), 0)
        self._drive(self._acts())
        self._settle()
        return self._played

    def _acts(self) -> list[Acts]:
        """What everybody does."""
        acts: list[Acts] = []
        alone = len(self._schedule.cycles) == 1  # else others send across its boundaries
        for cycle in self._schedule.cycles:
            if cycle.mode == "gated":
                acts.append(self._gated(cycle, report=alone))
            elif cycle.mode == "exclusive":
                acts.append(self._exclusive(cycle))
            else:
                acts += [self._alone(self._jobs[name], cycle) for name in cycle.jobs]
        return acts

    # --- the clock

    def _drive(self, acts: list[Acts]) -> None:
        waits: dict[int, Wait] = {}
        for number, act in enumerate(acts):
            self._go_on(number, act, waits)
        while waits and not self._halted:
            now = self._network.now
            for name in self._gpus.done(now):
                self._trained.add(name)
                self._span(name, "train", self._began[name], now)
            ready = [number for number, wait in waits.items() if self._over(wait, now)]
            if ready:
                for number in ready:
                    self._go_on(number, acts[number], waits)
                continue
            times = [wait[1] for wait in waits.values() if wait[0] == "until"]
            end = self._gpus.next_end()
            times += [] if end is None else [end]
            parts = [part for wait in waits.values() for part in wait[2]]
            working = [index for part in parts for index in part.busy(self._network)]
            if any(part.blocked for part in parts):
                times.append(now + _LOOK_PS)
            if not times and not working:
                if not any(wait[2] for wait in waits.values()):
                    raise ClusterError("nobody trains and nobody communicates: the schedule waits for itself")
                times.append(now + _STEP_PS)  # an acknowledgement is on its way
            until = min(times) if times else None
            reason = self._network.advance(until, working, first=True) if working else self._network.advance(until)
            self._check(working, quiet=reason is Stop.QUIET and until is None)

    def _go_on(self, number: int, act: Acts, waits: dict[int, Wait]) -> None:
        try:
            waits[number] = next(act)
        except StopIteration:
            waits.pop(number, None)

    def _over(self, wait: Wait, now: int) -> bool:
        if wait[0] == "until":
            return now >= wait[1]
        if wait[0] == "train":
            return False
        return all(part.through(self._network) for part in wait[2])

    def _check(self, working: Sequence[int], *, quiet: bool) -> None:
        records = self._network.endpoints.records
        failed = [index for index in working if records["status"][index] == State.FAILED]
        if failed or (working and quiet):
            index = (failed or list(working))[0]
            error = self._network.status(index).error or "nothing moves any more"
            raise ClusterError(f"{self._schedule.policy}: {self._network.hosts[index]}: {error}")
        if self._progress is not None:
            self._progress("rounds", len(self._played.rounds_ps), self._rounds)

    # --- what cycles do

    def _train(self, jobs: Sequence[Installed], cycle: Cycle) -> None:
        for one in jobs:
            self._trained.discard(one.plan.job)
            self._began[one.plan.job] = self._network.now
            priority = one.plan.priority if cycle.mode == "priority" else None
            units = dict(one.plan.placement)
            self._gpus.begin(one.plan.job, units, round(one.train_s * PS_PER_S), self._network.now, priority)

    def _until_trained(self, jobs: Sequence[Installed]) -> Acts:
        while not all(one.plan.job in self._trained for one in jobs):
            end = self._gpus.next_end()
            assert end is not None  # noqa: S101
            yield ("until", end, ())

    def _communicate(self, jobs: Sequence[Installed], configuration: int = -1) -> Acts:
        """All parts of jobs that belong to a configuration of their process; -1: those of all."""
        parts = []
        for one in jobs:
            for part in one.parts:
                if part.blocked and configuration > 0:
                    parts.append(part)
                elif configuration < 0 or max(0, part.configuration) == configuration:
                    parts.append(part)
                    self._counting.post(part)
                    part.post(self._network)
                if part.blocked and part in parts:
                    part.let(self._network, max(0, configuration))
        start = self._network.now
        yield ("parts", 0, parts)
        for part in parts:
            self._played.exact &= part.exact() or (bool(part.blocked) and bool(part.busy(self._network)))
        for one in jobs:
            self._span(one.plan.job, "communicate", start, self._done_ps(one, start))

    def _done_ps(self, one: Installed, start: int) -> int:
        return max((self._network.done_ps(part.job) for part in one.parts), default=start)

    def _finished(self, jobs: Sequence[Installed]) -> None:
        for one in jobs:
            name, now = one.plan.job, self._network.now
            if name in self._last:
                self._played.iterations_ps[name].append(now - self._last[name])
            self._last[name] = now

    def _gated(self, cycle: Cycle, *, report: bool) -> Acts:
        """Groups take turns: one communicates while the others train; a single one does both in turns."""
        turns = turns_of(self._schedule, cycle)
        groups = {key: [self._jobs[name] for name in own] for key, own in turns.items()}
        order = sorted(groups)
        first = groups[order[0]]
        self._train(first, cycle)
        yield from self._until_trained(first)
        began = self._network.now
        for number in range(self._rounds + 1):
            for place, key in enumerate(order):
                start = self._network.now
                own = groups[key]
                others = groups[order[(place + 1) % len(order)]] if len(order) > 1 else []
                self._train(others, cycle)
                lit, done = yield from self._process(own, switching=len(self._schedule.processes) > 1, key=key)
                self._finished(own)
                if len(order) == 1:
                    others = own
                    self._train(own, cycle)
                yield from self._until_trained(others)
                frames, differing = self._counting.boundary() if report else (0, ())
                if report:
                    window = Window(key, start, self._network.now, done - lit, frames, differing)
                    self._played.windows.append(window)
                    self._played.differing += differing
            if number > 0 and report:  # in the first one circuits are lit already
                self._played.rounds_ps.append(self._network.now - began)
            began = self._network.now

    def _process(
        self, own: Sequence[Installed], *, switching: bool, key: int
    ) -> Generator[Wait, None, tuple[int, int]]:
        """Circuits, darkness, communication; when light was there, and when all was done."""
        configurations = self._schedule.processes[key if switching else 0].configurations
        lit = done = self._network.now
        for place, one in enumerate(configurations):
            index = self._installer.matrices.index(one.circuits)
            dark = self._reconfigure(index, self._delta_ps)
            if dark and not all(_local(part) for job in own for part in job.parts):
                yield ("until", self._network.now + dark, ())
            if place == 0:
                lit = self._network.now
            several = len(configurations) > 1
            yield from self._communicate(own, place if several else -1)
            done = max([done, *(self._done_ps(job, lit) for job in own)])
        return lit, done

    def _exclusive(self, cycle: Cycle) -> Acts:
        for _ in range(self._rounds + 1):
            for name in cycle.jobs:
                yield from self._once(self._jobs[name], cycle)

    def _alone(self, one: Installed, cycle: Cycle) -> Acts:
        own = self._played.iterations_ps
        while not self._stopping:
            yield from self._once(one, cycle)
            self._stopping = min(map(len, own.values())) >= self._rounds

    def _once(self, one: Installed, cycle: Cycle) -> Acts:
        self._train([one], cycle)
        yield from self._until_trained([one])
        yield from self._communicate([one])
        self._finished([one])

    # --- circuits

    def _reconfigure(self, index: int, dark_ps: int) -> int:
        """Light a configuration; how long ports are dark for it: nothing where it is lit already."""
        if index == self._lit:
            return 0
        if self._lit >= 0:
            self._played.reconfigurations += 1
        self._lit = index
        self._network.fabric.reconfigure(None, self._installer.circuits[index], None, dark_ps)
        if dark_ps:
            self._span("", "dark", self._network.now, self._network.now + dark_ps)
        return dark_ps

    # --- books

    def _span(self, job: str, what: What, start: int, end: int) -> None:
        self._played.spans.append(Span(job, what, start, end))

    def _settle(self) -> None:
        self._network.advance(self._network.now + 100_000_000)
        _, differing = self._counting.boundary()
        unfinished = any(part.busy(self._network) for one in self._jobs.values() for part in one.parts)
        if not self._played.windows and not unfinished:
            self._played.differing += differing
        links = self._network.fabric.links.array()
        self._played.dark_lost, self._played.misrouted = int(links["dark_lost"].sum()), int(links["misrouted"].sum())
        self._played.lost = int(links["lost"].sum() + links["queue_drops"].sum())
        statuses = [
            status for one in self._jobs.values() for part in one.parts for status in self._network.statuses(part.job)
        ]
        self._played.resends = sum(status.resends for status in statuses)
        self._played.lasted_ps = self._network.now


def _local(part: Part) -> bool:
    return part.configuration == -1 and not part.blocked
