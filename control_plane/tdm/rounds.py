"""How long a round takes: equations (1), (2) and (3)."""

from collections.abc import Sequence
from typing import Final, Literal

import numpy as np

from p4reduce.control_plane.tdm.demand import Floats

Reading = Literal["overlap", "serial", "literal"]
READINGS: Final = ("overlap", "serial", "literal")


def communication_s(demand: Floats, circuits: Floats, circuit: float, nic_s: float) -> float:
    """(2): seconds of a sub-phase, a lower bound: max over pairs of D_ij / (B L_ij), or the busiest NIC.

    D is in bytes and B in bits a second as printed; here both are bytes. D_i / B_tor of (2) shares the pod's NICs
    among all jobs, but a job has only those of its own servers: ``nic_s`` is max over servers of D_server / b.

    Parameters
    ----------
    demand : float64 (pods, pods)
        Bytes from pod to pod.
    circuits : (pods, pods)
        L.
    circuit : float
        B, bytes a second.
    nic_s : float
        Seconds of the busiest NIC.

    Returns
    -------
    float
        Infinite where L_ij = 0 and D_ij > 0, which (2) leaves open.
    """
    wanted = demand > 0
    if not wanted.any():
        return nic_s
    if (np.asarray(circuits)[wanted] == 0).any():
        return float("inf")
    return max(nic_s, float((demand[wanted] / (circuit * np.asarray(circuits)[wanted])).max()))


def process_s(phases: Sequence[float], training_s: float, delta_s: float, reading: Reading = "overlap") -> float:
    """(3): seconds of a process in which one group communicates and the other trains.

    Parameters
    ----------
    phases : sequence of float
        C_kt, seconds of each sub-phase; one where chunks are pipelined; none, or zeros, where nobody communicates.
    training_s : float
        W, the longest training of the other group.
    delta_s : float
        The OXC's reconfiguration; in none of the paper's equations.
    reading : 'overlap', 'serial' or 'literal'
        overlap: max(delta + C, W), since darkness hides behind training. serial: delta + max(C, W).
        literal: as printed, sum over sub-phases of max(C_t, W), which counts training in each of them: up to twice too
        long; without delta.
    """
    total = float(sum(phases))
    if reading == "literal":
        return float(sum(max(phase, training_s) for phase in phases)) if phases else training_s
    dark = delta_s if total > 0 else 0.0
    if reading == "serial":
        return dark + max(total, training_s)
    return max(dark + total, training_s)


def round_s(
    phases: Sequence[Sequence[float]],
    training_s: Sequence[float],
    delta_s: float,
    reading: Reading = "overlap",
) -> float:
    """(1): t_round of two processes. ``training_s[k]`` is of group k, which trains in the other process."""
    return process_s(phases[0], training_s[1], delta_s, reading) + process_s(phases[1], training_s[0], delta_s, reading)
