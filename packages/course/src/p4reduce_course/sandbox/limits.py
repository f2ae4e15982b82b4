"""How much a student's code may use."""

from dataclasses import dataclass
from typing import Final

MIB: Final = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Bounds of one process.

    Attributes:
        cpu_s: seconds of processor time in all; what a busy machine does to the wall clock does not count.
        wall_s: seconds without an answer, for code that sleeps.
        call_s: seconds for one call, whatever the machine does beside it.
        messages: questions to the grader in one call.
        memory: bytes of address space.
        output: bytes on standard output and error together.
        file: bytes of a file that it writes.
        files: open at once.
    """

    cpu_s: int = 10
    wall_s: float = 60.0
    call_s: float = 140.0
    messages: int = 20_000
    memory: int = 1536 * MIB
    output: int = MIB // 4
    file: int = 4 * MIB
    files: int = 64
