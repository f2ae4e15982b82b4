"""The P4 program of a network's switches, and what plans have to know of it."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Self

from finsy.proto import p4i
from google.protobuf import text_format

from p4reduce.control_plane.errors import ControllerError
from p4switch.base.files import read_bytes

LANES_HEADER: Final = "lanes"
"""the header instance that holds the lanes (p4src/headers.p4)"""
LANE_BITS: Final = 32
CELLS_PER_JOB: Final = 8
"""of each counter that has cells of its own for every job (p4src/sizes.p4)"""


@dataclass(frozen=True)
class P4Program:
    """p4c's two outputs and where they came from. What is wrong with them is a `ControllerError` when it is needed."""

    json: bytes
    """BMv2 JSON."""
    p4info: bytes
    """P4Info, protobuf text format."""
    name: str

    @classmethod
    def read(cls, p4_json: Path, p4_info: Path) -> Self:
        """From files. `ControllerError` when one cannot be read."""
        try:
            return cls(read_bytes(p4_json), read_bytes(p4_info), str(p4_json))
        except OSError as error:
            raise ControllerError(f"{error.filename}: {error.strerror}") from None

    @property
    def sha256(self) -> str:
        """Of the JSON, hexadecimal."""
        return hashlib.sha256(self.json).hexdigest()

    @cached_property
    def info(self) -> p4i.P4Info:
        """The P4Info as a message; leave it as it is."""
        try:
            return text_format.Parse(self.p4info.decode(), p4i.P4Info())
        except (text_format.ParseError, UnicodeDecodeError) as error:
            raise ControllerError(f"the P4Info is not P4Info in text format: {error}") from None

    @cached_property
    def lanes(self) -> int:
        """How many 32-bit lanes of a packet it adds up."""
        try:
            loaded: dict[str, Any] = json.loads(self.json)
            types = {kind["name"]: kind for kind in loaded["header_types"]}
            (header,) = (header for header in loaded["headers"] if header["name"] == LANES_HEADER)
            return sum(int(field[1]) for field in types[header["header_type"]]["fields"]) // LANE_BITS
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ControllerError(
                f"{self.name}: has no header {LANES_HEADER!r}: it is not a program like p4src/p4reduce.p4"
            ) from None

    @cached_property
    def slots(self) -> int:
        """Slots of a switch: the size of the register ``slots``."""
        for register in self.info.registers:
            if register.preamble.alias == "slots":
                return int(register.size)
        raise ControllerError("the P4Info has no register 'slots': it is not that of p4src/p4reduce.p4")

    @cached_property
    def counted_jobs(self) -> int:
        """Jobs with counter cells of their own, at one time."""
        for counter in self.info.counters:
            if counter.preamble.alias == "job_received":
                return int(counter.size) // CELLS_PER_JOB
        raise ControllerError("the P4Info has no counter 'job_received': it is not that of p4src/p4reduce.p4")
