"""Local search for two groups on the bound of a round: flips and swaps of gangs, all at once with arrays."""

import numpy as np

from p4reduce.control_plane.tdm.demand import Floats
from p4reduce.control_plane.tdm.rounds import Reading

Mask = np.typing.NDArray[np.bool_]


def descend(
    first: Mask, nic_s: Floats, train_s: Floats, units: Floats, gpus: int, delta_s: float, reading: Reading
) -> Mask:
    """The local optimum below a partition: the best flip or swap while the bound falls. O(J^2) a step.

    Parameters
    ----------
    first : bool (jobs,)
        Who is in the first group; both must fit.
    nic_s, train_s, units : float64 (jobs,)
        c and w of each job, and its GPUs.
    gpus, delta_s, reading
        Of a group at most; as in `process_s`.

    Returns
    -------
    bool (jobs,)
    """
    here = first.copy()
    least = float(_bound(*_tops(here, nic_s, train_s), delta_s, reading)[0])
    while True:
        inside, outside = np.flatnonzero(here), np.flatnonzero(~here)
        # A swap takes one of each side out; "nobody" (index -1, nothing) makes it a flip.
        a, b = np.append(inside, -1), np.append(outside, -1)
        size_a, size_b = np.append(units[inside], 0.0), np.append(units[outside], 0.0)
        moved = size_b[None, :] - size_a[:, None]
        fits = (units[inside].sum() + moved <= gpus) & (units[outside].sum() - moved <= gpus)
        fits[-1, -1] = False
        values = []
        for of in (nic_s, train_s):
            own, other = np.append(of[inside], 0.0), np.append(of[outside], 0.0)
            values.append(np.maximum(_without(own)[:, None], other[None, :]))
            values.append(np.maximum(_without(other)[None, :], own[:, None]))
        time = _bound(values[0], values[1], values[2], values[3], delta_s, reading)
        time = np.where(fits, time, np.inf)
        best = int(np.argmin(time))
        if not time.size or time.flat[best] >= least * (1 - 1e-9):
            return here
        least = float(time.flat[best])
        x, y = divmod(best, len(b))
        if a[x] >= 0:
            here[a[x]] = False
        if b[y] >= 0:
            here[b[y]] = True


def _without(values: Floats) -> Floats:
    """The largest value when each is taken away in turn (the last is nobody)."""
    if len(values) == 1:
        return values
    order = np.argsort(values)
    found = np.full(len(values), values[order[-1]])
    found[order[-1]] = values[order[-2]]
    found[-1] = values.max()
    return found


def _tops(here: Mask, nic_s: Floats, train_s: Floats) -> tuple[Floats, Floats, Floats, Floats]:
    return (
        np.array(nic_s[here].max(initial=0.0)),
        np.array(nic_s[~here].max(initial=0.0)),
        np.array(train_s[here].max(initial=0.0)),
        np.array(train_s[~here].max(initial=0.0)),
    )


def _bound(c1: Floats, c2: Floats, w1: Floats, w2: Floats, delta_s: float, reading: Reading) -> Floats:
    """`round_s` of arrays."""
    total: Floats = np.zeros(1)
    dark = np.where((c1 > 0) & (c2 > 0), delta_s, 0.0)
    for communicates, trains in ((c1, w2), (c2, w1)):
        if reading == "literal":
            total = total + np.maximum(communicates, trains)
        elif reading == "serial":
            total = total + dark + np.maximum(communicates, trains)
        else:
            total = total + np.maximum(dark + communicates, trains)
    return total
