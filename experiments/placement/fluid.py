"""Iteration times of jobs that share links, by the fluid of :mod:`~p4reduce.experiments.placement.kernels.fluid`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.experiments.placement.kernels.fluid import iteration_ends

Floats = NDArray[np.float64]
Link = int
_LEAST: Final = 1e-9


@dataclass(frozen=True)
class Flow:
    """A job as a fluid: seconds that it computes, bits by link of an iteration, and bits of one of its flows.

    ``latency_s`` passes between its last bit and the end of its iteration, ``begin_s`` before its first iteration.
    Shares of a link are as weights of flows: ``stream`` is over the flow's weight.
    """

    compute_s: float
    bits: Mapping[Link, float]
    stream: float
    latency_s: float = 0.0
    begin_s: float = 0.0

    def alone_s(self, capacity_bps: Floats) -> float:
        """Seconds of an iteration where nobody else is."""
        longest = max((bits / capacity_bps[link] for link, bits in self.bits.items()), default=0.0)
        return float(self.compute_s + longest + self.latency_s)


def ends_of(flows: Sequence[Flow], capacity_bps: Floats, rounds: int) -> Floats:
    """When every job ends its first iterations, seconds, float64 (jobs, rounds). ``ValueError`` for fewer than one."""
    if rounds < 1:
        raise ValueError(f"rounds: {rounds}, must be at least 1")
    used = sorted({link for flow in flows for link in flow.bits})
    place = {link: number for number, link in enumerate(used)}
    starts = np.cumsum([0, *(len(flow.bits) for flow in flows)]).astype(np.int64)
    links = np.array([place[link] for flow in flows for link in flow.bits], np.int64)
    bits = np.array([share for flow in flows for share in flow.bits.values()], np.float64)

    def column(values: list[float]) -> Floats:
        return np.array(values, np.float64)

    found: Floats = iteration_ends(
        column([max(flow.compute_s, _LEAST) for flow in flows]),
        column([flow.latency_s for flow in flows]),
        column([flow.stream for flow in flows]),
        starts,
        links,
        bits,
        column([capacity_bps[link] for link in used]),
        column([flow.begin_s for flow in flows]),
        rounds,
    )
    return found


def steady_times(flows: Sequence[Flow], capacity_bps: Floats, *, rounds: int = 24, skipped: int = 6) -> list[float]:
    """Mean seconds of an iteration of every job, after the first ones."""
    ends = ends_of(flows, capacity_bps, rounds)
    return [float((own[-1] - own[skipped - 1]) / (rounds - skipped)) for own in ends]
