"""The clarity of 53,940 real diamonds from their price, weight, measures, cut and colour, as plotnine ships them.

Harder than the digits: eight grades that lie close together, which no model tells apart for sure.
"""

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import numpy as np

from p4reduce.workers.training.digits import TEST_SHARE, DataError, Dataset, FloatArray, LabelArray, Split

DIAMONDS_LAYERS: Final = (19, 256, 128, 8)
"""39,048 parameters"""
DIAMONDS: Final = 53_940
_FARTHEST: Final = 5.0
"""standard deviations: a few stones have measures that are mistakes"""
_CUTS: Final = ("Fair", "Good", "Very Good", "Premium", "Ideal")
_COLOURS: Final = "DEFGHIJ"
_CLARITIES: Final = ("I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF")
_MEASURES: Final = (0, 4, 5, 6, 7, 8, 9)
"""columns: carat, depth, table, price, x, y, z"""


def load(seed: int) -> Split:
    """The diamonds, shuffled by ``seed`` and split 80 : 20; inputs are scaled by the part that is learned from.

    Raises ``DataError`` without plotnine.
    """
    inputs, labels = _diamonds()
    order = np.random.default_rng(seed).permutation(len(labels))
    tests = round(len(labels) * TEST_SHARE)
    learned = inputs[order[tests:]]
    scaled = ((inputs - learned.mean(axis=0)) / learned.std(axis=0)).clip(-_FARTHEST, _FARTHEST).astype(np.float32)
    everything = Dataset(scaled, labels)
    return Split(train=everything.take(order[tests:]), test=everything.take(order[:tests]))


@cache
def _diamonds() -> tuple[FloatArray, LabelArray]:
    """Inputs (count, 19) and clarity; of plotnine's file alone: the library takes seconds to import."""
    found = find_spec("plotnine")
    if found is None or found.origin is None:
        raise DataError("the diamonds come with plotnine, which is missing: pip install 'p4reduce[study]'")
    path = Path(found.origin).parent / "data" / "diamonds.csv"
    try:
        rows = np.loadtxt(path, delimiter=",", dtype=str, skiprows=1, quotechar='"')
        measures = rows[:, _MEASURES].astype(np.float64)
        labels = np.array([_CLARITIES.index(name) for name in rows[:, 3]], np.int64)
    except (OSError, ValueError, IndexError):
        raise DataError(f"{path}: is not the table of diamonds; install another release of plotnine") from None
    measures[:, [0, 3]] = np.log(measures[:, [0, 3]])  # weight and price span orders of magnitude
    cuts = rows[:, 1, None] == np.array(_CUTS)
    colours = rows[:, 2, None] == np.array(list(_COLOURS))
    return np.hstack([measures, cuts, colours]).astype(np.float32), labels
