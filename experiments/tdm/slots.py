"""Windows by the clock: circuits change at fixed times, whatever is under way.

What a job has not sent when its window ends waits for its next window, one way or the other (`Keep`): with ``starts``
it does not wait, and meets dark mirrors or another group's circuits; with ``pause`` its endpoints stop, a guard before
the end; with ``gates`` the switches' ports to the cross-connect hold back the queue of its group.
"""

from p4reduce.base.units import PS_PER_S
from p4reduce.experiments.tdm.acts import Act
from p4reduce.experiments.tdm.installing import QUEUES
from p4reduce.experiments.tdm.parts import Installed, Sent
from p4reduce.experiments.tdm.player import Player
from p4reduce.fabric.gates import ALL_QUEUES
from p4reduce.topologies.optical import uplinks

LONGEST_HEADERS = 62
"""bytes before the lanes"""
WARM_UP = 2
"""rounds until all have trained and communicated once"""


class SlottedPlayer(Player):
    """The same with fixed slots; all jobs are in one cycle."""

    def acts(self) -> list[Act[Sent]]:
        """The clock's, and everybody's."""
        schedule = self.schedule
        self.network.advance(self.network.now)  # the fabric knows of all endpoints then
        self._round_ps = round(schedule.round_s * PS_PER_S)
        self._guard_ps = round(schedule.guard_s * PS_PER_S)
        starts = [round(process.start_s * PS_PER_S) for process in schedule.processes]
        self._slots = list(zip(starts, [*starts[1:], self._round_ps], strict=True))
        if self.keep == "gates":
            self._set_gates()
        waiting = [self._slotted(one) for one in self.jobs.values()]
        return [self._ticks(), *waiting]

    def _set_gates(self) -> None:
        """In darkness no group's queue is open, afterwards that of the group whose window it is."""
        entries: list[tuple[int, int]] = []
        closed = ALL_QUEUES & ~sum(1 << queue for queue in QUEUES)
        fabric = self.network.fabric
        # What leaves a switch is at the mirrors a fibre's delay later.
        fibre = max(link.delay_ps for own in uplinks(fabric.topology).values() for link in own)
        for number, (start, end) in enumerate(self._slots):
            dark = min(self.delta_ps, end - start)
            open_ = max(0, end - start - dark - fibre)
            after = end - start - dark - open_
            found = ((dark, closed), (open_, closed | 1 << QUEUES[self._group(number)]), (after, closed))
            entries += [entry for entry in found if entry[0]]
        longest = LONGEST_HEADERS + 4 * next(iter(self.jobs.values())).parts[0].job.plan.lanes
        for switch, fibres in uplinks(fabric.topology).items():
            for link in fibres:
                fabric.set_gates((switch, link.port_of(switch)), entries, base_ps=0, longest=longest)

    def _group(self, process: int) -> int:
        found = [one.plan.group for one in self.jobs.values() if one.plan.process == process]
        return found[0] if found else 0

    def _window(self, one: Installed, number: int) -> tuple[int, int]:
        """When a job's window opens and closes in a round."""
        start, end = self._slots[one.plan.process]
        base = number * self._round_ps
        return base + start + self.delta_ps, max(base + start + self.delta_ps, base + end - self._guard_ps)

    def _ticks(self) -> Act[Sent]:
        """The cross-connect's clock, and that of the endpoints."""
        if self.keep == "pause":
            self._pause(0)
        for number in range(self.rounds + WARM_UP):
            base = number * self._round_ps
            for process, (start, _) in enumerate(self._slots):
                yield (base + start, ())
                circuits = self.schedule.processes[process].configurations[0].circuits
                self.reconfigure(circuits, self.delta_ps)
            if self.keep == "pause" and number + 1 < self.rounds + WARM_UP:
                self._pause(number + 1)
            if number < self.rounds:
                self.played.rounds_ps.append(self._round_ps)
        yield ((self.rounds + WARM_UP) * self._round_ps, ())
        self.stopping = self.halted = True

    def _pause(self, number: int) -> None:
        fabric = self.network.fabric
        for one in self.jobs.values():
            opens, closes = self._window(one, number)
            for index in (index for part in one.parts for index in part.job.endpoints):
                if number == 0:
                    fabric.pause(index)
                fabric.resume(index, opens)
                fabric.pause(index, closes)

    def _slotted(self, one: Installed) -> Act[Sent]:
        """Train, wait for the window, communicate, wait for the window's end."""
        cycle = self.schedule.cycles[one.plan.cycle]
        closes = self._slots[one.plan.process][1]
        yield (closes if closes < self._round_ps else 0, ())
        while not self.stopping:
            self.train([one], cycle)
            yield from self.until_trained([one])
            now = self.network.now
            number = now // self._round_ps
            opens, closes = self._window(one, number)
            if now >= closes:
                opens = self._window(one, number + 1)[0]
            yield (max(now, opens), ())
            yield from self.communicate([one])
            self.finished([one])
            number = (self.network.now - 1) // self._round_ps
            yield (number * self._round_ps + self._slots[one.plan.process][1], ())
