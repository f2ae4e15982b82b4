"""Bytes between pods and inside them: equations (4) and (5).

The corrected reading is the default, ``literal=True`` the printed one:

- (4) has a factor of 2 for RAR and A2A, and (1) sums over both sub-phases: each would count twice. Corrected: 1.
- (4) counts GPUs (G), (5) units (AN): equal only if a unit is one GPU, as it is here. A_i = AN_i (U - 1) F.
- (5) prints F_i for F_p, F_r and F_a, and A for R in its second line. A ring's link carries F (m - 1) / m in a
  sub-phase, not F. PN of the pod that has the PS is 0: it sends itself nothing over the OXC.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from p4reduce.control_plane.tdm.jobs import TdmJob

Phase = Literal[1, 2]
Floats = npt.NDArray[np.float64]


def pod_bytes(job: TdmJob, units: Sequence[int], *, literal: bool = False) -> Floats:
    """(4): bytes between each pod's ToR and its servers in one sub-phase, equal both ways.

    Parameters
    ----------
    job : TdmJob
        Its kind and bytes.
    units : sequence of int, (pods,)
        G_i, units in each pod.
    literal : bool
        As printed.

    Returns
    -------
    float64 (pods,)
    """
    here = np.asarray(units, np.float64)
    factor = 2.0 if literal and job.kind != "ps" else 1.0
    others = float(here.sum()) - 1.0 if job.kind == "a2a" else 1.0
    return factor * here * others * job.bytes


def pair_bytes(
    job: TdmJob,
    units: Sequence[int],
    phase: Phase,
    *,
    ps_pod: int | None = None,
    ring: Sequence[int] = (),
    literal: bool = False,
) -> Floats:
    """(5): bytes from pod to pod over the OXC in one sub-phase.

    ToRs add up what their pod sends before it leaves (INC): PS and RAR send one copy for each pod.

    Parameters
    ----------
    job, units, literal
        As in :func:`pod_bytes`.
    phase : 1 or 2
        PS: push, pull. The others send the same in both.
    ps_pod : int
        n_p, of a PS.
    ring : sequence of int
        Pods of a RAR in the order of its ring; each sends to the next.

    Returns
    -------
    float64 (pods, pods)
        [i, j]: from i to j.
    """
    here = np.asarray(units, np.float64)
    found: Floats = np.zeros((len(here), len(here)))
    if job.kind == "ps":
        if ps_pod is None:
            raise ValueError("ps_pod: a PS job has its PS in a pod")
        for pod, units_here in enumerate(here):
            if units_here and pod != ps_pod:
                found[(pod, ps_pod) if phase == 1 else (ps_pod, pod)] = job.bytes
    elif job.kind == "rar":
        size = len(ring)
        share = 1.0 if literal else (size - 1) / max(size, 1)
        for place, pod in enumerate(ring if size > 1 else ()):
            found[pod, ring[(place + 1) % size]] += job.bytes * share
    else:
        found += np.outer(here, here) * job.bytes
        np.fill_diagonal(found, 0.0)
    return found


def both_ways(demand: Any) -> Floats:
    """What a full-duplex circuit must carry: the larger of both directions (max, not sum)."""
    largest: Floats = np.maximum(demand, np.transpose(demand))
    return largest
