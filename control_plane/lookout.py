"""A controller that looks at its switches again and again: who began anew, and who does not answer."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal, Self

from p4reduce.base.event_loop import EventLoopThread
from p4reduce.control_plane.errors import ControllerError
from p4reduce.control_plane.fleet import Fleet
from p4reduce.control_plane.restarts import LOOK_MS

LOOK_S: Final = LOOK_MS / 1000
SILENT_S: Final = 1.0
"""for which a switch may not answer before it is called silent; and for each look"""


@dataclass(frozen=True)
class Sighting:
    """Something to be told of a switch, once: it began ``anew``, and has its base entries again; it is ``silent``, for
    ``SILENT_S`` by now; or it was, and ``answers`` with all that it had.
    """

    switch: str
    what: Literal["anew", "silent", "answers"]
    why: str = ""
    """Why it does not answer."""


class Lookout:
    """Reads the nonce of each switch every ``LOOK_S``, by a new stream where the old one has ended.

    Runs beside whatever the controller does. Use as a context manager, or :meth:`close` it before the controller.
    """

    def __init__(
        self, loop: EventLoopThread, fleet: Fleet, switches: Sequence[str], tell: Callable[[Sighting], None]
    ) -> None:
        self._loop, self._fleet, self._tell = loop, fleet, tell
        self._ended = False
        self._following = loop.run(self._start(switches))

    def close(self) -> None:
        """Look no more; may be called again."""
        self._loop.run(self._stop())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _start(self, switches: Sequence[str]) -> list["asyncio.Task[None]"]:
        return [asyncio.create_task(self._follow(switch)) for switch in switches]

    async def _stop(self) -> None:
        self._ended = True
        for task in self._following:
            task.cancel()
        await asyncio.gather(*self._following, return_exceptions=True)

    async def _follow(self, switch: str) -> None:
        answered, silent = time.monotonic(), False
        while not self._ended:
            await asyncio.sleep(LOOK_S)
            why = await self._look(switch)
            if why is None:
                if silent:
                    self._tell(Sighting(switch, "answers"))
                answered, silent = time.monotonic(), False
            elif not silent and time.monotonic() >= answered + SILENT_S:
                self._tell(Sighting(switch, "silent", why))
                silent = True

    async def _look(self, switch: str) -> str | None:
        """Restore it where it began anew; why it did not answer."""
        try:
            async with asyncio.timeout(SILENT_S):
                anew = await self._fleet.began_anew(switch)
            if anew:
                await self._fleet.restore(switch)
                self._tell(Sighting(switch, "anew"))
        except ControllerError as error:
            return str(error)
        except TimeoutError:
            return f"switch {switch}: no answer within {SILENT_S:g} s"
        return None
