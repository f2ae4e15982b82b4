"""The program model: p4c's output as frozen dataclasses, and its loader."""

from p4switch.program.errors import ProgramError, SourceInfo, UnsupportedConstruct
from p4switch.program.loader import load_program
from p4switch.program.program import Program

__all__ = ["Program", "ProgramError", "SourceInfo", "UnsupportedConstruct", "load_program"]
