"""What can be wrong with a compiled P4 program."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceInfo:
    """Where something stands in the P4 source, as p4c wrote it into the JSON."""

    file: str
    line: int
    column: int
    fragment: str = ""

    def __str__(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}"


class ProgramError(ValueError):
    """The JSON is not what p4c writes for BMv2: a missing key, a dangling reference, a wrong type."""


class UnsupportedConstruct(ProgramError):
    """The program uses a construct that the embedded switch does not run (yet).

    Attributes:
        what: the construct, by its name in P4 or in the BMv2 JSON.
        where: the program element that uses it.
        source: the line of the P4 source, where p4c recorded it.
    """

    def __init__(self, what: str, where: str, source: SourceInfo | None = None) -> None:
        self.what = what
        self.where = where
        self.source = source
        at = f" ({source})" if source is not None else ""
        super().__init__(f"{what} is not supported by the embedded switch; used in {where}{at}")
