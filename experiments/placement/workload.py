"""Jobs that arrive at a cluster: sizes, models, lengths, drawn from a seed."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from p4reduce.control_plane.frames import frame_bytes


@dataclass(frozen=True)
class Model:
    """A model that is trained: float32 numbers, and seconds that a worker computes in an iteration."""

    name: str
    elements: int
    compute_s: float

    @property
    def bits(self) -> float:
        """Of the model on a wire, in frames of 256 lanes."""
        return 8.0 * self.elements / LANES * (frame_bytes(LANES) + AROUND)


LANES: Final = 256
AROUND: Final = 24
"""bytes on the wire around a frame: preamble, check sum, gap"""
MODELS: Final = (
    Model("ResNet-50", 25_557_032, 0.060),
    Model("VGG-16", 138_357_544, 0.120),
    Model("BERT-large", 336_226_108, 0.300),
    Model("GPT-2", 124_439_808, 0.150),
)
"""Numbers of parameters are those of torchvision and of the models' papers; seconds are ours, for a batch that fills a
GPU: what matters is their ratio to communication, 0.25 to 0.6 of an iteration through a tree at 25 Gb/s"""
SMALLEST: Final = 2
LARGEST: Final = 32
MEDIAN_S: Final = 120.0
SIGMA: Final = 1.0
"""of the logarithm of a job's length"""


@dataclass(frozen=True)
class ClusterJob:
    """A job: when it comes, how many workers it wants, what it trains and how many iterations."""

    name: str
    arrival_s: float
    workers: int
    model: Model
    rounds: float
    alone_s: float
    """length at the links' rate, through a tree that is its own"""


def draw_jobs(seed: int, count: int, load: float, slots: int, rate_bps: float) -> list[ClusterJob]:
    """Poisson arrivals of jobs of 2 to 32 workers (log-uniform) and log-normal lengths.

    ``load`` is the share of all ``slots`` that they would keep busy if each ran alone through its own tree; what they
    lose to each other comes on top. ``ValueError`` for one that is not above 0.
    """
    if not load > 0:
        raise ValueError(f"load: {load}, must be above 0")
    random = np.random.Generator(np.random.Philox(key=[seed, count]))
    sizes = np.exp(random.uniform(np.log(SMALLEST), np.log(LARGEST + 1), count)).astype(int)
    models = random.integers(len(MODELS), size=count)
    lengths = MEDIAN_S * np.exp(SIGMA * random.standard_normal(count))
    busy = float(np.mean(sizes * lengths))  # slot-seconds of a job
    arrivals = np.cumsum(random.exponential(busy / (load * slots), count))
    found = []
    for number in range(count):
        model = MODELS[models[number]]
        iteration = model.compute_s + model.bits / rate_bps
        rounds = max(1.0, round(lengths[number] / iteration))
        found.append(
            ClusterJob(
                f"job{number}", float(arrivals[number]), int(sizes[number]), model, rounds, float(rounds * iteration)
            )
        )
    return found
