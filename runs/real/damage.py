"""What of a network in real time has ended or begun anew since the last look: links, switches."""

import queue
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

from p4reduce.comm.membership import OnFailure
from p4reduce.control_plane.lookout import Sighting
from p4reduce.runs.real.presence import Presence
from p4reduce.runs.real.processor import Signs
from p4reduce.runs.real.relays import LinkRelays
from p4reduce.runs.real.targets import RealTarget
from p4reduce.runs.real.trees import Trees
from p4reduce.runs.real.wires import Wires

IDLE_S: Final = 0.5
"""for which a switch that does not answer has used no processor time, while members wait: it is not only slow"""


class Damage:
    """Tells the ``trees`` of it. Whatever happens wakes the ``presence``. Use as a context manager.

    Of a run with ``on_failure`` "abort" links and processes of switches are not heard of, but raise.
    """

    def __init__(
        self,
        target: RealTarget,
        wires: Wires,
        relays: LinkRelays,
        trees: Trees,
        presence: Presence,
        on_failure: OnFailure,
    ) -> None:
        self._target, self._wires, self._relays = target, wires, relays
        self._trees, self._presence, self._on_failure = trees, presence, on_failure
        self._apart = bool(target.processes)  # switches are no part of this process, and may fall silent
        self._ended: set[str] = set()
        self._silent: dict[str, tuple[float, Signs]] = {}  # since when it has used no processor time
        self._sightings: queue.SimpleQueue[Sighting] = queue.SimpleQueue()
        self._parts = ExitStack()
        if wires.events is not None:
            presence.wake_for(wires.events)
        for pid in target.processes:
            presence.wake_at_end(pid)

    def news(self) -> list[str]:
        """What has happened since the last call. Raises where nothing can go on."""
        self._relays.check()
        if self._on_failure == "abort":
            self._target.check()
            said = []
        else:
            said = [*self._switches_ended(), *self._links_cut()]
        while not self._sightings.empty():
            said += self._heard(self._sightings.get())
        return said + self._fell_silent()

    def __enter__(self) -> Self:
        self._parts.enter_context(self._target.controller.look_out(self._saw))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parts.close()

    def _saw(self, sighting: Sighting) -> None:
        """Called by the controller's thread."""
        self._sightings.put(sighting)
        self._presence.wake()

    def _switches_ended(self) -> list[str]:
        found = [name for name in self._target.ended() if name not in self._ended]
        self._ended.update(found)
        return [self._lose(name, "has ended") for name in found if name not in self._trees.reach.switches]

    def _links_cut(self) -> list[str]:
        reach = self._trees.reach
        links = [ends for ends in self._wires.cut() if ends not in reach.links]
        reach.links.update(links)
        return [f"link {'-'.join(sorted(ends))} is down" for ends in links if not ends & reach.switches]

    def _heard(self, sighting: Sighting) -> list[str]:
        switch = sighting.switch
        if sighting.what == "silent":
            if (pid := self._target.process_of(switch)) is not None:
                self._silent[switch] = (time.monotonic(), Signs(pid))
            elif self._apart and switch not in self._trees.reach.switches:  # not a process of ours any more
                return [self._lose(switch, "does not answer")]
            return []
        self._silent.pop(switch, None)
        if sighting.what == "answers":
            return []
        self._trees.begin_anew(switch)
        return [f"switch {switch} began anew"]

    def _fell_silent(self) -> list[str]:
        """Switches that are there, but do nothing, while members wait."""
        now, said = time.monotonic(), []
        for switch, (since, signs) in list(self._silent.items()):
            if signs.seen():
                self._silent[switch] = (now, signs)
            elif now - since > IDLE_S and self._presence.late:
                del self._silent[switch]
                said.append(self._lose(switch, "does not answer"))
        return said

    def _lose(self, switch: str, how: str) -> str:
        self._trees.lose(switch)
        return f"switch {switch} {how}"
