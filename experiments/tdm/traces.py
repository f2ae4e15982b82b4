"""Arrivals of jobs: durations of Philly's and Helios' traces, Muri's mix of GPUs, Poisson arrivals."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from p4reduce.control_plane.tdm.errors import TdmError
from p4reduce.control_plane.tdm.pairs import Alone


@dataclass(frozen=True)
class Durations:
    """Log-normal seconds of a job that runs alone."""

    mu: float
    sigma: float
    source: str


TRACES: Final = {
    "philly": Durations(6.85, 2.18, "Microsoft Philly (ATC 2019): median 1,186 s, mean 14,613 s, P90 12,860 s"),
    "helios": Durations(5.33, 2.64, "SenseTime Helios (SC 2021), GPU jobs: median 206 s, mean 6,652 s"),
}
GPUS: Final = (1, 4, 8, 16, 32)
SHARES: Final = (0.36, 0.28, 0.31, 0.03, 0.02)
"""of jobs with so many GPUs: trace 1 of Muri (SIGCOMM 2022)"""
SIGMA: Final = 0.4
"""of the logarithm of training times of an iteration"""
TRAIN_S: Final = 0.1


@dataclass(frozen=True)
class Arrival:
    """One job of a trace."""

    arrival_s: float
    gpus: int
    duration_s: float
    """of the whole job, alone on its GPUs"""
    step: Alone
    """an iteration; one GPU communicates with nobody"""


def draw_trace(trace: str, seed: int, *, jobs: int, gpus: int, load: float, c_over_w: float = 1.0) -> list[Arrival]:
    """A trace: Poisson arrivals, at the rate at which its GPU seconds are ``load`` times what the cluster has.

    Parameters
    ----------
    trace : str
        Of :data:`TRACES`.
    seed : int
        Of the random numbers; the same seed gives the same jobs at every load.
    jobs, gpus : int
        How many; of the cluster. Jobs of more GPUs than there are are drawn again, smaller.
    load : float
        Above 1 the queue grows as long as jobs arrive.
    c_over_w : float
        Communication over training of an iteration.

    Raises
    ------
    TdmError
        For an unknown trace or numbers that are not positive.
    """
    if trace not in TRACES:
        raise TdmError(f"trace: {trace[:40]!r} is none of {', '.join(TRACES)}")
    if not (jobs >= 1 and gpus >= 1 and 0 < load < 100 and 0 <= c_over_w < 1000):
        raise TdmError("trace: jobs, gpus and load must be positive, load below 100, c/w between 0 and 1000")
    random = np.random.default_rng(seed)
    known = TRACES[trace]
    seconds = random.lognormal(known.mu, known.sigma, jobs)
    sizes = random.choice(GPUS, jobs, p=SHARES)
    sizes = np.minimum(sizes, gpus)
    train = TRAIN_S * np.exp(random.normal(0.0, SIGMA, jobs))
    gaps = random.exponential(1.0, jobs)
    at = np.cumsum(gaps) - gaps[0]
    span = float((seconds * sizes).sum()) / (gpus * load)
    at *= span / max(float(at[-1]), 1e-9) if jobs > 1 else 0.0
    return [
        Arrival(float(t), int(g), float(d), Alone(float(w), float(w) * c_over_w if g > 1 else 0.0))
        for t, g, d, w in zip(at, sizes, seconds, train, strict=True)
    ]
