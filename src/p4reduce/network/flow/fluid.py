"""A fluid of flows that share links: strict classes, hosts in turn, queues first come, first served.

A flow carries units (chunks) at one rate on every link that it uses. How flows of one class share a link depends on
who serves it:

- A *host* asks its senders in turn, so that flows share its link frame by frame: max-min fair (Bertsekas and Gallager,
  Data Networks, 2nd ed., section 6.5.2).
- A *switch's queue* is first come, first served, and each flow keeps a fixed window on its way. Then x_j = W_j / (rtt_j
  + q_j), where q_j is what waits before the queues on its way, and a queue stands only before a link that is full: the
  only such rates there are (Mo and Walrand, Fair end-to-end window-based congestion control, 2000).

Higher classes take what they need first; lower ones share what is left.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
SWEEPS: Final = 30
HALVINGS: Final = 40
CLOSE: Final = 1e-6


@dataclass(frozen=True)
class Demand:
    """What one flow wants.

    Attributes
    ----------
    busy : mapping
        Link -> how long it is busy with a unit, ps.
    most : float
        Units a picosecond that it would have alone.
    window : float
        Units on their way at most.
    rtt_ps : float
        Until a unit is answered, where nothing waits.
    ways : sequence of frozenset
        Links that a unit and its answer cross, for each sender: the slowest way counts.
    streams : bool
        Whether its senders do not wait for each other, so that a window of each stands before a link that is full even
        where a host lets one of them send less.
    cycle : bool
        Whether its units go round all ways, one after the other, in which the whole window is: queues share it.
    priority : int
        Its class, 7 first.
    """

    busy: Mapping[int, float]
    most: float
    window: float
    rtt_ps: float
    ways: Sequence[frozenset[int]]
    streams: bool = False
    cycle: bool = False
    priority: int = 0


Waits = dict[tuple[int, int], tuple[int, float]]
"""(class, link) -> which queue its frames wait in, and for how long, ps; a queue stands before the first of links that
are full alike"""


def rates(demands: Sequence[Demand], hosts: frozenset[int]) -> tuple[Floats, Waits]:
    """Units a picosecond of each flow, and how long frames wait.

    hosts: links that a host serves.
    """
    found = np.zeros(len(demands))
    waits: Waits = {}
    users: dict[int, list[int]] = {}
    for number, demand in enumerate(demands):
        for link in demand.busy:
            users.setdefault(link, []).append(number)
    shared = [link for link, own in users.items() if len(own) > 1]
    left = dict.fromkeys(shared, 1.0)
    for priority in sorted({demand.priority for demand in demands}, reverse=True):
        own = [number for number, demand in enumerate(demands) if demand.priority == priority]
        links = [link for link in shared if any(link in demands[number].busy for number in own)]
        got, waiting = _class([demands[number] for number in own], links, left, hosts)
        found[own] = got
        waits |= {(priority, link): wait for link, wait in waiting.items()}
        for number, rate in zip(own, got, strict=True):
            for link in links:
                left[link] = max(0.0, left[link] - rate * demands[number].busy.get(link, 0.0))
    return found, waits


def _class(
    demands: Sequence[Demand], links: Sequence[int], left: dict[int, float], hosts: frozenset[int]
) -> tuple[Floats, dict[int, tuple[int, float]]]:
    """Of one class, of what is left of each link."""
    most = np.array([demand.most for demand in demands])
    starved = [any(left[link] <= CLOSE for link in demand.busy if link in left) for demand in demands]
    most[starved] = 0.0
    busy = np.array([[demand.busy.get(link, 0.0) for link in links] for demand in demands]).reshape(len(demands), -1)
    room = np.array([left[link] for link in links])
    full = most @ busy > room * (1 + CLOSE)
    if not full.any():
        return most, {}
    # Links that are used alike fill up alike: one of them stands for all.
    first: dict[tuple[object, ...], int] = {}
    alike: dict[int, int] = {}
    columns: list[int] = []
    for place in np.flatnonzero(full).tolist():
        key = (*busy[:, place].tolist(), float(room[place]), links[place] in hosts)
        if key not in first:
            first[key] = len(columns)
            columns.append(place)
        alike[links[place]] = first[key]
    busy, room = busy[:, columns], room[columns]
    turns = np.array([links[place] in hosts for place in columns])
    queues = np.flatnonzero(~turns).tolist()
    ways = [
        sorted({tuple(sorted({alike[link] for link in way if link in alike})) for way in demand.ways})
        for demand in demands
    ]
    window = np.array([demand.window for demand in demands])
    rtt = np.array([demand.rtt_ps for demand in demands])
    for number, demand in enumerate(demands):
        if demand.cycle:
            queued = max(1, sum(not alike.keys().isdisjoint(way) for way in demand.ways))
            window[number] /= queued
            rtt[number] /= queued
    streams = np.array([demand.streams for demand in demands])
    wait = np.zeros(len(columns))

    def share(*, queued: bool = True) -> Floats:
        """Rates, or (queued) what comes before queues."""
        waited = np.array([max((sum(wait[place] for place in way) for way in own), default=0.0) for own in ways])
        held: Floats = np.minimum(most, window / (rtt + waited))
        if not turns.any():
            return held
        shared = _in_turn(held, busy[:, turns], room[turns])
        return np.where(streams, held, shared) if queued else shared

    for _ in range(SWEEPS):
        before = wait.copy()
        for place in queues:
            wait[place] = 0.0
            if share() @ busy[:, place] <= room[place] * (1 + CLOSE):
                continue
            low, high = 0.0, float((window * busy[:, place]).sum() / max(room[place], CLOSE))
            for _ in range(HALVINGS):
                wait[place] = (low + high) / 2
                if share() @ busy[:, place] > room[place]:
                    low = wait[place]
                else:
                    high = wait[place]
            wait[place] = high
        if np.allclose(before, wait, rtol=CLOSE, atol=1.0):
            break
    rate = share(queued=False)
    # Higher classes may leave little room; who comes now waits for what is there, at the rate of the link.
    wait = np.minimum(wait, window @ busy)
    stands = set(queues)
    return rate, {link: (place, float(wait[place])) for link, place in alike.items() if place in stands}


def _in_turn(most: Floats, busy: Floats, room: Floats) -> Floats:
    """Max-min fair rates, none above its ``most``: all rise together, until a link is full."""
    rate = np.zeros(len(most))
    rising = np.ones(len(most), np.bool_)
    left = room.copy()
    while rising.any():
        load = busy[rising].sum(axis=0)
        steps = np.divide(left, load, out=np.full(len(left), np.inf), where=load > 0)
        step = min(float(steps.min(initial=np.inf)), float((most - rate)[rising].min()))
        rate[rising] += step
        left = np.maximum(0.0, left - step * load)
        stopped = (rate >= most * (1 - 1e-12)) | (busy[:, (steps <= step * (1 + 1e-12)) & (load > 0)] > 0).any(axis=1)
        rising &= ~stopped
    return rate
