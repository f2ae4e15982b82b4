"""Iteration times of jobs that share links, predicted from how much of the time each of them communicates."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from p4reduce.control_plane.placement.loads import Load
from p4reduce.control_plane.placement.racks import Floats

_STEPS: Final = 24
_DAMPING: Final = 0.5
_NEAR: Final = 1e-4
"""of a communication's length, by which a step that ends the iteration changes it at most"""
FULL: Final = 1e-3
"""share of a link's rate that is left to tasks where others take all of it"""


def iteration_times(loads: Sequence[Load], capacity_bps: Floats) -> Floats:
    """Seconds of an iteration of every job, float64 (jobs,).

    A mean-field fixed point. Job k communicates for M_k of its iteration T_k = C_k + M_k, so a job that sends finds it
    at work with probability M_k / T_k, and they share a link evenly; one that other links keep from taking half of this
    one leaves the rest:

        S_jl = A_jl (1 + sum over k of M_k / T_k min(1, u_kl / (1 - u_kl))),   M_j = max over links of S_jl
        u_kl = min(1, A_kl / max over links m other than l of S_km)

    A_jl is the time that job j's bits take on link l alone. Jobs whose phases lock do worse than that.

    Parameters
    ----------
    loads : sequence of Load
        The jobs.
    capacity_bps : float64 (links,)
        What links have left for them.
    """
    count = len(loads)
    compute = np.array([load.compute_s for load in loads], np.float64)
    users: dict[int, int] = {}
    alone = np.zeros(count)
    for number, load in enumerate(loads):
        for link, bits in load.bits.items():
            users[link] = users.get(link, 0) + 1
            alone[number] = max(alone[number], bits / capacity_bps[link])
    shared = {link: place for place, link in enumerate(link for link, jobs in users.items() if jobs > 1)}
    if not shared:
        return compute + alone
    takes, elsewhere = np.zeros((count, len(shared))), np.zeros(count)
    for number, load in enumerate(loads):
        for link, bits in load.bits.items():
            if link in shared:
                takes[number, shared[link]] = bits / capacity_bps[link]
            else:
                elsewhere[number] = max(elsewhere[number], bits / capacity_bps[link])
    busy = np.maximum(alone, 1e-12)
    slowed, rows = takes, np.arange(count)
    for _ in range(_STEPS):
        worst = slowed.argmax(axis=1)
        others = np.repeat(np.maximum(slowed[rows, worst], elsewhere)[:, None], len(shared), axis=1)
        rest = slowed.copy()
        rest[rows, worst] = 0.0
        others[rows, worst] = np.maximum(rest.max(axis=1), elsewhere)
        share = np.minimum(takes / np.maximum(others, 1e-12), 1.0)
        weight = np.where(share < 0.5, share / np.maximum(1.0 - share, 0.5), 1.0)
        pressure = weight * (busy / (compute + busy))[:, None]
        slowed = takes * (1.0 + pressure.sum(axis=0)[None, :] - pressure)
        wanted = np.maximum(np.maximum(alone, slowed.max(axis=1)), 1e-12)
        near = bool((np.abs(wanted - busy) <= _NEAR * wanted).all())
        busy = (1 - _DAMPING) * busy + _DAMPING * wanted
        if near:
            break
    return np.asarray(compute + busy, np.float64)
