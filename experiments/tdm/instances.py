"""Random jobs for the experiments: gangs that fill the GPUs twice, elastic jobs, jobs of known models."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

import numpy as np

from p4reduce.control_plane.tdm.jobs import Kind, TdmJob
from p4reduce.control_plane.tdm.models import MODELS, model_job
from p4reduce.control_plane.tdm.network import OpticalNetwork, parse_network

X1: Final = parse_network("oxc:pods=8,hosts=4,ports=4,rate=25G")
X2: Final = parse_network("oxc:pods=8,hosts=4,ports=2,rate=25G")
X3: Final = parse_network("oxc:pods=16,hosts=8,ports=8,rate=25G")
X4: Final = parse_network("oxc:pods=32,hosts=16,ports=8,rate=100G,gpus=8")
X5: Final = parse_network("oxc:pods=128,hosts=16,ports=8,rate=100G,gpus=8")
TRAIN_S: Final = 0.1
"""median of log-normal training times"""
SIGMA: Final = 0.2
"""of training times where gains of two groups are measured; beyond, unequal periods eat them (measured by itself)"""
Mix = Literal["sums", "mixed", "all-to-all"]
KINDS: Final[dict[Mix, tuple[Kind, ...]]] = {
    "sums": ("ps", "rar"),
    "mixed": ("ps", "rar", "a2a"),
    "all-to-all": ("a2a",),
}
"""what jobs are, in turns"""


def sizes(network: OpticalNetwork, random: np.random.Generator, least: int, most: int) -> list[int]:
    """Gangs of ``least`` to ``most`` units that fill all GPUs; the last is what is left, the ends moved to fit."""
    found: list[int] = []
    left = network.all_gpus
    while left:
        units = min(left, int(random.integers(least, most + 1)))
        if 0 < left - units < least:
            units = left if left <= most else left - least
        found.append(units)
        left -= units
    return found


def gangs(
    network: OpticalNetwork,
    seed: int,
    *,
    sigma: float = 0.4,
    load: float = 1.0,
    least: int = 4,
    most: int = 12,
    layers: int = 2,
    kinds: Sequence[Kind] = KINDS["sums"],
) -> list[TdmJob]:
    """Jobs that fill the GPUs ``layers`` times, ``kinds`` in turns.

    Training is log-normal around `TRAIN_S`; ``load`` is c/w, where c is what the job's NICs take for it alone.
    """
    random = np.random.default_rng(seed)
    units = [one for _ in range(layers) for one in sizes(network, random, least, most)]
    return [_job(network, random, place, one, sigma, load, kinds) for place, one in enumerate(units)]


def elastic(
    network: OpticalNetwork, seed: int, *, jobs: int = 8, sigma: float = 0.4, load: float = 1.0
) -> list[TdmJob]:
    """Jobs whose units the scheduler chooses; c/w is ``load`` on an equal share of the GPUs of a group."""
    random = np.random.default_rng(seed)
    share = max(2, 2 * network.all_gpus // jobs)
    return [_job(network, random, place, share, sigma, load, KINDS["sums"], elastic=True) for place in range(jobs)]


def of_models(network: OpticalNetwork, seed: int, *, jobs: int, units: int) -> list[TdmJob]:
    """Jobs of equal size, each of a model drawn from all."""
    random = np.random.default_rng(seed)
    names = sorted(MODELS)
    del network
    return [model_job(f"j{place}", names[int(random.integers(len(names)))], units) for place in range(jobs)]


def _job(
    network: OpticalNetwork,
    random: np.random.Generator,
    place: int,
    units: int,
    sigma: float,
    load: float,
    kinds: Sequence[Kind],
    *,
    elastic: bool = False,
) -> TdmJob:
    train_s = TRAIN_S * float(np.exp(random.normal(0.0, sigma)))
    kind = kinds[place % len(kinds)]
    sent = train_s * load * network.nic / (2 * (units - 1) if kind == "a2a" else 1)
    sent = max(4, round(sent / 4) * 4)
    return TdmJob(f"j{place}", kind, sent, train_s, units, elastic=elastic)


def scaled(job: TdmJob, scale: float) -> TdmJob:
    """Its bytes and times divided: packets of a 64th show the same as the whole."""
    return replace(job, bytes=max(4, round(job.bytes / scale / 4) * 4), compute_s=job.compute_s / scale)
