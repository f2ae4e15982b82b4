"""What runs a program, compiled or interpreted, and what it tells."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from p4switch.program.actions import LearnList

ExecutorName: TypeAlias = Literal["compiled", "interpreted"]
Io: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Digest:
    """A digest: the elements of a learn list, unsigned."""

    learn_list: LearnList
    values: tuple[int, ...]


DigestListener: TypeAlias = Callable[[Digest], object]


class Executor(Protocol):
    """What runs the program. ``io`` is the int64 array of abi.py; the object between the two is the executor's own.

    ``kept`` and ``cloned`` are for programs that leave the straight path (``Program.leaves_path``).
    """

    def ingress(self, frame: bytes, io: Io, kept: object = None) -> object:
        """Parser, checksum verification and ingress. Reads IN_*, writes OUT_* cells; returns what egress needs.

        ``kept``: what the method of that name gave for the packet that this one is a copy of.
        """

    def egress(self, phv: object, io: Io) -> bytes | None:
        """Egress, checksum update and deparser for one copy. Reads IN_* and EG_* cells; None: dropped.

        May be called several times with one ``phv``, which it leaves as it is.
        """

    def kept(self) -> object:
        """The fields that the latest ingress or egress kept for a clone, a resubmission or a recirculation."""

    def cloned(self) -> object:
        """The packet that the latest egress cloned, for another egress."""

    def digest(self, learn_list: LearnList) -> tuple[int, ...]:
        """The elements of the digest that the latest ingress generated, unsigned."""
