"""The embedded switch with a clock that advances from frame to frame."""

from collections.abc import Callable
from typing import Final

from p4switch.interpreter import Event, Interpreter
from p4switch.program import Program
from tests.support.conformance.targets.embedded import EmbeddedSwitch

STEPS_US: Final = (1, 3, 1000, 50, 300_000, 7, 5_000_000)
"""Times between frames, used in rotation: within a burst, within a round trip, beyond a program's time-outs."""


class TimedSwitch(EmbeddedSwitch):
    """An interpreted switch; ``listen`` receives its trace events."""

    def __init__(self, program: Program, listen: Callable[[Event], None] | None = None) -> None:
        super().__init__(program, "interpreted")
        self._frames = self._now = 0
        runner = self.device.runner
        if listen is not None and isinstance(runner, Interpreter):
            runner.trace = listen

    def send(self, port: int, frame: bytes) -> None:
        self._now += STEPS_US[self._frames % len(STEPS_US)]
        self._frames += 1
        self._sent += self.device.inject(port, frame, time_us=self._now)
