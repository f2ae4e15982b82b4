"""The description of a network that is to stand, as it goes to the process that holds it."""

import json
from dataclasses import asdict, dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Wanted:
    """A network that is to stand."""

    topology: str
    """whatever ``topologies.load`` takes"""
    name: str | None
    target: Literal["embedded", "bmv2"]
    lanes: int | None
    """the program with so many lanes, and routes; None: switches without a program"""
    shape: bool
    trace: bool
    """BMv2 writes to its log what it does with every packet"""
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    """probabilities for each frame on a link"""
    seed: int = 0
    programs: dict[str, tuple[str, str, str | None]] = field(default_factory=dict)
    """P4Info, BMv2 JSON and runtime file of each switch; then there is no bundled program"""

    def line(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_line(cls, line: str) -> "Wanted":
        """What :meth:`line` wrote."""
        return cls(**json.loads(line))
