"""Primitives that send packets off the straight way, and meters (behavioral-model, simple_switch, primitives.cpp)."""

from collections.abc import Callable
from dataclasses import dataclass

from p4reduce.dataplane import abi
from p4reduce.dataplane.model.expressions import DataExpr
from p4reduce.dataplane.model.packet_path import (
    Clone,
    GenerateDigest,
    PathPrimitive,
    Recirculate,
    Resubmit,
    Truncate,
)

_LENGTH_MASK = (1 << 64) - 1
"""BMv2 takes a length as a size_t."""

_SESSION_MASK = abi.CLONE_VALID - 1


@dataclass(slots=True)
class PathNotes:
    """What the primitives of a packet have left for the time after the pipeline; the latest counts.

    Attributes:
        clone: 0, or the session's number + CLONE_VALID; field lists and the digest: 0 for none.
        truncate: bytes.
    """

    clone: int = 0
    clone_list: int = 0
    resubmit: int = 0
    recirculate: int = 0
    digest: int = 0
    truncate: int = abi.NO_TRUNCATION


def note(primitive: PathPrimitive, notes: PathNotes, data: Callable[[DataExpr], int]) -> str:
    """Carries out a primitive; returns a text for people."""
    match primitive:
        case Clone(session, field_list):
            number = data(session) & 0xFFFF
            notes.clone, notes.clone_list = number | abi.CLONE_VALID, field_list
            return f"will be cloned to session {number & _SESSION_MASK}"
        case Resubmit(field_list):
            notes.resubmit = field_list
            return "will be resubmitted"
        case Recirculate(field_list):
            notes.recirculate = field_list
            return "will be recirculated"
        case Truncate(length):
            notes.truncate = min(notes.truncate, data(length) & _LENGTH_MASK)
            return f"will be cut to {notes.truncate} bytes"
        case GenerateDigest(learn_list):
            notes.digest = learn_list
            return "a digest will be sent"
