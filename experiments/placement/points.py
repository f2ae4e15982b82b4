"""The points of the calibration: small networks on which packets and the flow model carry the same jobs."""

from typing import Final

from p4reduce.control_plane.frames import frame_bytes
from p4reduce.experiments.placement.calibration import CalibrationPoint, Trainer
from p4reduce.experiments.placement.workload import AROUND, LANES


def _rack(number: int, first: int = 1, count: int = 4) -> tuple[str, ...]:
    """Some hosts of a rack of eight."""
    return tuple(f"h{8 * (number - 1) + at}" for at in range(first, first + count))


_ONE: Final = "leaf-spine:leaves=4,spines=1,hosts=8,rate=25G"
_TWO: Final = "leaf-spine:leaves=4,spines=2,hosts=8,rate=25G"
_HALF: Final = "leaf-spine:leaves=4,spines=1,hosts=8,rate=25G,capable=spine*"
_SLOW: Final = "leaf-spine:leaves=4,spines=1,hosts=8,rate=25G,uplink=10G"
_FAST: Final = "leaf-spine:leaves=4,spines=1,hosts=8,rate=100G"
_SIZE: Final = 61_706
_ALONE_S: Final = 8 * -(-_SIZE // LANES) * (frame_bytes(LANES) + AROUND) / 25e9
"""of a model of that size on a link"""
A: Final = (*_rack(1), *_rack(2))
A1: Final = (*_rack(1, 1, 2), *_rack(2, 1, 2))
A2: Final = (*_rack(1, 3, 2), *_rack(2, 3, 2))
B: Final = (*_rack(1, 5), *_rack(2, 5))
C: Final = (*_rack(1, 5, 2), *_rack(3, 1, 2))
D: Final = (*_rack(1, 7, 2), *_rack(4, 1, 2))


def _phi(phi: float, times: float = 1.0) -> float:
    """Seconds of computing beside a communication of ``times`` a model."""
    return _ALONE_S * times * (1 - phi) / phi


def trainer(
    hosts: tuple[str, ...], plan: str = "steiner", phi: float = 0.4, size: int = 1, begin: float = 0.0
) -> Trainer:
    """A job of `size` models, a share phi of whose iterations is communication when it is alone at 25 Gb/s."""
    return Trainer(hosts, plan, _SIZE * size, _phi(phi, size), begin * _ALONE_S)


POINTS: Final = (
    CalibrationPoint("tree, a rack", _TWO, (trainer(_rack(1, 1, 8)),)),
    CalibrationPoint("ring, a rack", _TWO, (trainer(_rack(1, 1, 8), "ring"),)),
    CalibrationPoint("two trees that share, in step", _ONE, (trainer(A), trainer(B))),
    CalibrationPoint("a tree and a ring that share", _ONE, (trainer(A), trainer(B, "ring")), rounds=24),
    CalibrationPoint("tree, two racks", _TWO, (trainer(A),)),
    CalibrationPoint("ring, two racks", _ONE, (trainer(A, "ring"),)),
    CalibrationPoint("tree, 32 hosts", _TWO, (trainer(sum((_rack(n, 1, 8) for n in (1, 2, 3, 4)), ())),)),
    CalibrationPoint("two trees that share, out of step", _ONE, (trainer(A), trainer(B, phi=0.25, begin=0.7))),
    CalibrationPoint("two trees, 1 : 3", _ONE, (trainer(A), trainer(B, phi=0.5, size=3))),
    CalibrationPoint(
        "three trees on an uplink", _ONE, (trainer(A), trainer(C, phi=0.5, begin=0.3), trainer(D, phi=0.3))
    ),
    CalibrationPoint("two rings that share", _ONE, (trainer(A, "ring"), trainer(B, "ring", begin=0.5))),
    CalibrationPoint("tree in part: leaves do not add up", _HALF, (trainer(A, phi=0.6),)),
    CalibrationPoint("trees in part that share", _HALF, (trainer(A, phi=0.6), trainer(C, phi=0.5))),
    CalibrationPoint("slow uplinks, tree", _SLOW, (trainer(A),)),
    CalibrationPoint("slow uplinks, two trees", _SLOW, (trainer(A), trainer(B, phi=0.3))),
    CalibrationPoint("a tree and a ring that share, 100G", _FAST, (trainer(A), trainer(B, "ring")), rounds=24),
    CalibrationPoint(
        "a tree and a ring, out of step", _ONE, (trainer(A, phi=0.3), trainer(B, "ring", begin=0.7)), rounds=24
    ),
    CalibrationPoint("two trees and a ring", _ONE, (trainer(A1), trainer(A2, phi=0.3), trainer(B, "ring")), rounds=24),
    CalibrationPoint(
        "a tree and two rings", _ONE, (trainer(A1), trainer(A2, "ring", phi=0.3), trainer(B, "ring")), rounds=24
    ),
    *(
        CalibrationPoint(f"background {100 * load:.0f} %, {name}", _ONE, jobs, rounds=16, background=load)
        for load in (0.3, 0.6, 0.9)
        for name, jobs in (
            ("tree", (trainer(A, size=4),)),
            ("ring", (trainer(A, "ring", size=4),)),
            ("two trees", (trainer(A1), trainer(A2, phi=0.25, size=2, begin=0.5))),
        )
    ),
)
"""the first four are those of the sample"""
