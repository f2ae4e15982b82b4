"""GPUs of hosts that several jobs train on: rates divide, or the first has them all. Fluid, in picoseconds."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass
class _Training:
    units: Mapping[str, int]
    left: float
    """picoseconds on GPUs of its own"""
    priority: int | None
    rate: float = 1.0


class Gpus:
    """Who trains where. A job is as fast as the slowest of its hosts; times are those of a fluid, rounded up."""

    def __init__(self, each: int) -> None:
        """``each``: GPUs of a host."""
        self._each = each
        self._jobs: dict[str, _Training] = {}
        self._now = 0

    def begin(self, job: str, units: Mapping[str, int], train_ps: int, now: int, priority: int | None = None) -> None:
        """A job trains from now on; with priorities, the lower number has GPUs first."""
        self._pass(now)
        self._jobs[job] = _Training(units, float(train_ps), priority)
        self._share()

    def next_end(self) -> int | None:
        """When the next job has trained, if nothing changes; None: nobody trains."""
        ends = [self._now + one.left / one.rate for one in self._jobs.values() if one.rate > 0]
        return max(self._now, _up(min(ends))) if ends else None

    def done(self, now: int) -> list[str]:
        """Jobs that have trained by now; they leave their GPUs."""
        self._pass(now)
        ended = [name for name, one in self._jobs.items() if one.left <= 0.5]
        for name in ended:
            del self._jobs[name]
        if ended:
            self._share()
        return ended

    def _pass(self, now: int) -> None:
        for one in self._jobs.values():
            one.left -= one.rate * (now - self._now)
        self._now = now

    def _share(self) -> None:
        wanted: dict[str, int] = {}
        order = sorted(self._jobs.values(), key=lambda one: (one.priority is None, one.priority or 0))
        for one in order:
            for host, units in one.units.items():
                wanted[host] = wanted.get(host, 0) + units
        taken: dict[str, int] = {}
        for one in order:
            rates = []
            for host, units in one.units.items():
                if one.priority is None:
                    rates.append(min(1.0, self._each / wanted[host]))
                else:
                    rates.append(max(0.0, min(1.0, (self._each - taken.get(host, 0)) / units)))
                    taken[host] = taken.get(host, 0) + units
            one.rate = min(rates)


def _up(value: float) -> int:
    return -int(-value // 1)
