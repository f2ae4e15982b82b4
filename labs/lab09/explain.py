"""Why a mean is wrong, or a step slow."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from p4reduce.labs.frame.text import counted
from p4reduce.labs.lab09.model import Backward
from p4reduce.labs.lab09.ranks import Floats, Net, Ran

_NEAR: Final = 1e-5


def explained_mean(found: Floats, parts: NDArray[np.float64], rank: int) -> str:
    """What is wrong with the mean of what the ranks gave, an array (ranks, elements); empty: nothing."""
    n = len(parts)
    mean = parts.mean(axis=0)
    room = _NEAR * float(np.abs(parts).max())

    def like(other: NDArray[np.float64]) -> bool:
        return bool((np.abs(found - other) <= room).all())

    if like(mean):
        return ""
    known = (
        (mean / n, f"the mean was divided twice: it is 1/{n} of the mean. Divide by the number of ranks once"),
        (mean * n, f"that is the sum. The switch adds; divide by the number of ranks, {n}, once"),
        (parts[rank], "that is this rank's own gradient. It must cross the network, and the sum come back"),
    )
    for other, why in known:
        if like(other):
            return why
    place = int(np.argmax(np.abs(found - mean)))
    return f"element {place} is {found[place]:.6g}, the mean is {mean[place]:.6g}"


def explained_time(back: Backward, ran: Ran, net: Net, took: float) -> str:
    """Where the time of a step over its bound went."""
    calls = ran.calls[0]
    trips = len(calls) * net.trip_seconds
    each = back.elements / len(calls)
    if trips > took / 4:
        said = f"{len(calls)} calls, and each takes a round trip of {net.trip_seconds * 1e6:.1f} us however little is"
        return f"{said} in it ({each:.0f} numbers on average). Larger buckets"
    first, computing = calls[0].at_s - ran.began_s, sum(back.seconds)
    if first > computing / 2:
        said = f"the backward pass took {computing * 1e6:.0f} us, and the first of {counted(len(calls), 'call')} was"
        said += f" started after {first * 1e6:.0f} us"
        return f"{said}. Links are idle until then: smaller buckets, each started when it is full"
    return f"{len(calls)} calls of {each:.0f} numbers. What is ready is to be sent while the backward pass goes on"
