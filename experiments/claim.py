"""What an experiment must show, checked against its own figures."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Claim:
    """Something that must hold."""

    text: str
    measured: str
    holds: bool
