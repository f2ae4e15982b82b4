"""The turns of a schedule on packets: one clock for all, every byte through the P4 program."""

from collections.abc import Mapping, Sequence
from typing import Literal

from p4reduce.base.progress import Progress
from p4reduce.comm.errors import ClusterError
from p4reduce.control_plane.tdm.schedule import Matrix, Schedule
from p4reduce.experiments.tdm.acts import Act, Acts, Wait
from p4reduce.experiments.tdm.counting import Counting
from p4reduce.experiments.tdm.installing import Installer
from p4reduce.experiments.tdm.parts import Installed, Sent
from p4reduce.experiments.tdm.results import Played
from p4reduce.fabric import Stop
from p4reduce.jobs.network import JobNetwork
from p4reduce.workers.records import State

Keep = Literal["starts", "pause", "gates"]


class Player(Acts[Installed, Sent]):
    """A process ends when its jobs are done."""

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
        super().__init__(schedule, installed, rounds)
        self.installer, self.network, self.keep = installer, network, keep
        self._progress = progress
        self._counting = Counting(network, installed.values())
        self.halted = False

    @property
    def now(self) -> int:
        """Picoseconds."""
        return self.network.now

    def run(self) -> Played:
        """All rounds."""
        self.begin()
        self._drive(self.acts())
        self._settle()
        return self.played

    # --- the clock

    def _drive(self, acts: list[Act[Sent]]) -> None:
        waits: dict[int, Wait[Sent]] = {}
        for number, act in enumerate(acts):
            self._go_on(number, act, waits)
        while waits and not self.halted:
            now = self.now
            self.look()
            ready = [number for number, wait in waits.items() if self._over(wait, now)]
            if ready:
                for number in ready:
                    self._go_on(number, acts[number], waits)
                continue
            times = [at for at, _ in waits.values() if at is not None]
            end = self.gpus.next_end()
            times += [] if end is None else [end]
            under = [one for _, own in waits.values() for one in own]
            working = [index for one in under for index in one.busy()]
            times += [now + look for one in under if one.now and (look := one.look_ps()) is not None]
            if not times and not working:
                raise ClusterError("nobody trains and nobody communicates: the schedule waits for itself")
            until = min(times) if times else None
            reason = self.network.advance(until, working, first=True) if working else self.network.advance(until)
            self._check(working, quiet=reason is Stop.QUIET and until is None)

    def _go_on(self, number: int, act: Act[Sent], waits: dict[int, Wait[Sent]]) -> None:
        try:
            waits[number] = next(act)
        except StopIteration:
            waits.pop(number, None)

    def _over(self, wait: Wait[Sent], now: int) -> bool:
        at, under = wait
        if at is not None:
            return now >= at
        over = True
        for one in under:
            while one.now and one.through():
                self._next(one)
            over &= not one.now
        return over

    def _next(self, one: Sent) -> None:
        for part in one.go_on():
            self._counting.post(part)

    def _check(self, working: Sequence[int], *, quiet: bool) -> None:
        records = self.network.endpoints.records
        failed = [index for index in working if records["status"][index] == State.FAILED]
        if failed or (working and quiet):
            index = (failed or list(working))[0]
            error = self.network.status(index).error or "nothing moves any more"
            raise ClusterError(f"{self.schedule.policy}: {self.network.hosts[index]}: {error}")
        if self._progress is not None:
            self._progress("rounds", len(self.played.rounds_ps), self.rounds)

    # --- what turns ask for

    def send(self, jobs: Sequence[Installed], configuration: int) -> Sequence[Sent]:
        """Each job's phases follow each other, or those of all together where sub-phases are the group's."""
        groups = [jobs] if any(one.together for one in jobs) else [[one] for one in jobs]
        found = [Sent(self.network, own, configuration) for own in groups]
        for one in found:
            self._next(one)
        return found

    def sent(self, jobs: Sequence[Installed], under: Sequence[Sent], start: int) -> None:
        """Every sum and block is looked at."""
        del jobs, start
        for part in (part for one in under for part in one.done):
            self.played.exact &= part.exact() or (part.divided and bool(part.busy(self.network)))

    def ended_ps(self, job: Installed, start: int) -> int:
        """When its last worker had its result."""
        return max((self.network.done_ps(part.job) for part in job.parts), default=start)

    def light(self, matrix: Matrix, dark_ps: int) -> None:
        """An event of the fabric; the electrical twin has none."""
        if not self.network.fabric.topology.crossconnects:
            return
        index = self.installer.matrices.index(matrix)
        self.network.fabric.reconfigure(None, self.installer.circuits[index], None, dark_ps)

    def boundary(self) -> tuple[int, tuple[str, ...]]:
        """Against what plans predict."""
        return self._counting.boundary()

    # --- books

    def _settle(self) -> None:
        if not self.halted:  # else gates would go on without the cross-connect's clock
            self.network.advance(self.now + 100_000_000)
        _, differing = self._counting.boundary()
        unfinished = any(part.busy(self.network) for one in self.jobs.values() for part in one.parts)
        if not self.played.windows and not unfinished:
            self.played.differing += differing
        links = self.network.fabric.links.array()
        self.played.dark_lost, self.played.misrouted = int(links["dark_lost"].sum()), int(links["misrouted"].sum())
        self.played.lost = int(links["lost"].sum() + links["queue_drops"].sum())
        carriers = {id(part.job): part.job for one in self.jobs.values() for part in one.parts}
        statuses = [status for job in carriers.values() for status in self.network.statuses(job)]
        self.played.resends = sum(status.resends for status in statuses)
        self.played.lasted_ps = self.now
