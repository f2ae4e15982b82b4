"""Every knob on every data set: accuracy, bytes on links, virtual time."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from p4reduce.base.units import PS_PER_S
from p4reduce.comm.communicator import Communicator
from p4reduce.comm.errors import ClusterError
from p4reduce.experiments.placement.knobs import training
from p4reduce.experiments.placement.knobs.exchanges import Exchange, Quantized, TopElements, TopFrames, Whole
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.workers.training import diamonds, digits
from p4reduce.workers.training.blas import single_threaded_blas
from p4reduce.workers.training.digits import Split
from p4reduce.workers.training.model import DIGITS_LAYERS, FloatArray, Mlp
from p4reduce.workers.training.options import TrainingOptions
from p4reduce.workers.training.task import TrainingTask

WORKERS: Final = 8
TOPOLOGY: Final = "leaf-spine-8"
FLOAT: Final = "float32"
MakeExchange = Callable[[int, int, int], Exchange]
"""from a gradient's size, the number of workers, and a seed"""


@dataclass(frozen=True)
class Knob:
    """A way to train: what is exchanged, after how many local steps, who is waited for."""

    make: MakeExchange = field(default=lambda size, workers, seed: Whole())
    every: int = 1
    late: bool = False
    served: bool = False
    staleness: int | None = 0


def _bits(level: int, feedback: bool) -> Knob:
    return Knob(lambda size, workers, seed: Quantized(size, workers, level, feedback=feedback, seed=seed))


KNOBS: Final[Mapping[str, Knob]] = {
    FLOAT: Knob(),
    "int8": _bits(127, feedback=False),
    "int4": _bits(7, feedback=False),
    "int4, error feedback": _bits(7, feedback=True),
    "-1, 0, 1, error feedback": _bits(1, feedback=True),
    "top 10 % of numbers": Knob(lambda size, workers, seed: TopElements(size, workers, 0.1)),
    "top 10 % of frames": Knob(lambda size, workers, seed: TopFrames(size, 0.1)),
    "local SGD, every 4": Knob(every=4),
    "local SGD, every 8": Knob(every=8),
    "late ones carried over": Knob(late=True),
    "server, all wait": Knob(served=True),
    "server, staleness 2": Knob(served=True, staleness=2),
    "server, asynchronous": Knob(served=True, staleness=None),
}


@dataclass(frozen=True)
class DataSet:
    """What is learned, and how long."""

    load: Callable[[int], Split]
    layers: tuple[int, ...]
    epochs: int
    batch: int
    learning_rate: float


DATA: Final[Mapping[str, DataSet]] = {
    "digits": DataSet(digits.load, DIGITS_LAYERS, 6, 128, 0.5),
    "diamonds": DataSet(diamonds.load, diamonds.DIAMONDS_LAYERS, 4, 256, 0.6),
}


@dataclass(frozen=True)
class KnobUnit:
    """A training."""

    data: str
    knob: str
    seed: int
    epochs: int = 0
    """0: as many as the data set has"""


@dataclass(frozen=True)
class KnobRow:
    """What came of it: a line of knobs.csv."""

    data: str
    knob: str
    seed: int
    accuracy: float
    """share of the test set that the weights at the end recognize"""
    bytes: int
    """of INC frames on all links, what was sent again among them"""
    busiest: int
    """of the directed link that carried most"""
    time_s: float
    """virtual, computing included"""
    gradients: float
    """that came in a round, on average"""


@dataclass(frozen=True)
class KnobPoint:
    """Means of the seeds; bytes and time over those of float32 with the same seed."""

    data: str
    knob: str
    seeds: int
    accuracy: float
    deviation: float
    bytes: float
    busiest: float
    time: float
    gradients: float


def run_knob(unit: KnobUnit) -> KnobRow:
    """One training on packets. ``ClusterError`` where a sum is wrong, or workers end with different weights."""
    knob, data = KNOBS[unit.knob], DATA[unit.data]
    options = TrainingOptions(
        epochs=unit.epochs or data.epochs,
        global_batch=data.batch,
        learning_rate=data.learning_rate,
        momentum=0.0,
        seed=unit.seed,
    )
    split, model = data.load(unit.seed), Mlp(data.layers)

    def train(comm: Communicator) -> tuple[FloatArray, float]:
        task = TrainingTask(options, 0 if comm.is_server else comm.rank, comm.size, split, model)
        if knob.served:
            return training.asynchronous(comm, task, knob.staleness), float(comm.size)
        exchange = knob.make(model.size, comm.size, WORKERS * unit.seed + comm.rank)
        if knob.late:
            return training.partial(comm, task, exchange)
        return training.synchronous(comm, task, exchange, knob.every), float(comm.size)

    with single_threaded_blas(), Cluster(Experiment(topology=TOPOLOGY, workers=WORKERS)) as cluster:
        began = cluster.carrier.network.now
        found = cluster.run_threads(train, server=knob.served)
        ended = max(status.done_at_ps for status in cluster.carrier.statuses())
        cluster.carrier.drain()
        links = cluster.carrier.network.fabric.links.values()
        counted = [link.inc_first_bytes + link.inc_resend_bytes for link in links]
    weights, gradients = found[-1]
    if not knob.served and any(not np.array_equal(weights, other) for other, _ in found):
        raise ClusterError(f"{unit.data}, {unit.knob}, seed {unit.seed}: workers ended with different weights")
    accuracy = model.accuracy(weights, split.test.images, split.test.labels)
    return KnobRow(
        unit.data,
        unit.knob,
        unit.seed,
        accuracy,
        sum(counted),
        max(counted),
        (ended - began) / PS_PER_S,
        gradients,
    )


def knob_points(rows: Sequence[KnobRow]) -> list[KnobPoint]:
    """Means over seeds, in the order of the rows; nothing of a data set without float32."""
    groups: dict[tuple[str, str], list[KnobRow]] = {}
    for row in rows:
        groups.setdefault((row.data, row.knob), []).append(row)
    base = {(row.data, row.seed): row for row in rows if row.knob == FLOAT}
    points = []
    for (data, knob), own in groups.items():
        if any((data, row.seed) not in base for row in own):
            continue
        accuracies = [row.accuracy for row in own]
        against = [(row, base[data, row.seed]) for row in own]
        points.append(
            KnobPoint(
                data,
                knob,
                len(own),
                statistics.fmean(accuracies),
                statistics.stdev(accuracies) if len(own) > 1 else 0.0,
                statistics.fmean(row.bytes / one.bytes for row, one in against),
                statistics.fmean(row.busiest / one.busiest for row, one in against),
                statistics.fmean(row.time_s / one.time_s for row, one in against),
                statistics.fmean(row.gradients for row in own),
            )
        )
    return points
