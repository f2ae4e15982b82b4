"""The program model: what p4c compiled, as frozen dataclasses, and its loader."""

from p4reduce.dataplane.model.errors import ProgramError, SourceInfo, UnsupportedConstruct
from p4reduce.dataplane.model.loader import load_program
from p4reduce.dataplane.model.program import Program

__all__ = ["Program", "ProgramError", "SourceInfo", "UnsupportedConstruct", "load_program"]
