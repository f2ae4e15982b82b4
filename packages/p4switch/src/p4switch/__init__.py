"""The embedded switch: runs P4 programs that p4c, or the front end of this package, compiled for BMv2.

:class:`Switch` is the entry point: ``Switch("my.p4")``; see :mod:`p4switch.switch`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from p4switch.program.program import Program
    from p4switch.switch import Switch

__all__ = ["Switch", "compile_p4"]

__version__: Final = "0.1.0"


def compile_p4(path: str | Path, defines: Mapping[str, str] | None = None) -> "Program":
    """Compiles and loads a P4_16 program for v1model: ``Device(compile_p4("my.p4"))``.

    Args:
        path: the source.
        defines: macros that are defined before the first line.

    Raises:
        P4Error: the program has errors; the message lists each with its line and how to fix it.
        UnsupportedConstruct: the program uses a construct that the embedded switch does not run.
    """
    # imported here: loading a compiled program needs no compiler
    from p4switch.p4.compile import compile_file  # noqa: PLC0415
    from p4switch.program.loader import load_program  # noqa: PLC0415

    return load_program(compile_file(path, defines).require().json or {})


def __getattr__(name: str) -> Any:
    if name == "Switch":
        from p4switch.switch import Switch  # noqa: PLC0415  (compiling alone needs no switch)

        return Switch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
