"""Jobs of unequal periods on the same GPUs: two groups, free, pairs; and with arrivals from traces."""

import statistics
from collections.abc import Sequence
from typing import Final

import numpy as np

from p4reduce.control_plane.tdm.models import MODELS
from p4reduce.control_plane.tdm.pairs import Alone, match, play, relative
from p4reduce.experiments.tdm.arrivals import run_trace
from p4reduce.experiments.tdm.planning.values import Values
from p4reduce.experiments.tdm.traces import draw_trace

TRACE_GPUS: Final = 32
TRACE_JOBS: Final = 3000


def pairs(seed: int, quick: bool) -> Values:
    """Throughput relative to alone: two groups, free, pairs; synthetic and of models at 100 Gb/s."""
    del quick
    random = np.random.default_rng(seed)
    train = 0.1 * np.exp(random.normal(0.0, 0.4, 8))
    synthetic = [Alone(float(w), float(w)) for w in train]
    nic = 100e9 / 8
    models = [Alone(one.compute_s, (2 if one.kind == "a2a" else 1) * one.unit_bytes / nic) for one in MODELS.values()]
    drawn = [models[int(x)] for x in random.integers(0, len(models), 12)]
    found: Values = {}
    for name, jobs in (("sigma 0.4", synthetic), ("models", drawn)):
        pairs, alone = match(jobs, [4] * len(jobs), 2 * len(jobs))
        rates = list(relative(pairs, alone).values())
        found[f"pairs {name}"] = [statistics.fmean(rates)]
        found[f"pairs {name} worst"] = [min(rates)]
        order = random.permutation(len(jobs))
        free = [play(jobs[a], jobs[b], None) for a, b in zip(order[::2], order[1::2], strict=True)]
        found[f"free {name}"] = [float(np.mean(free))]
        half = len(jobs) // 2
        first, second = [jobs[x] for x in order[:half]], [jobs[x] for x in order[half:]]
        round_s = _barrier(first, second)
        found[f"groups {name}"] = [statistics.fmean(job.period_s / round_s for job in jobs)]
    return found


def _barrier(first: Sequence[Alone], second: Sequence[Alone]) -> float:
    """t_round of two global groups."""
    (c1, w1), (c2, w2) = (
        (max(one.communicate_s for one in group), max(one.train_s for one in group)) for group in (first, second)
    )
    return max(c1, w2) + max(c2, w1)


def traces(seed: int, quick: bool) -> Values:
    """Mean JCT of exclusive over that of each policy."""
    found: Values = {}
    for load in (0.8, 1.0, 1.2):
        arrivals = draw_trace("philly", seed, jobs=150 if quick else TRACE_JOBS, gpus=TRACE_GPUS, load=load)
        alone = run_trace(arrivals, TRACE_GPUS, "exclusive").mean_jct_s
        for policy in ("pairs", "gated", "free"):
            found[f"{policy} {load:g}"] = [alone / run_trace(arrivals, TRACE_GPUS, policy).mean_jct_s]
    return found
