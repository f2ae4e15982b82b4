"""The readable executor of the program model: what a student looks at, and what the compiler is tested against."""

from p4reduce.dataplane.interpreter.interpreter import Interpreter
from p4reduce.dataplane.interpreter.trace import Event, Listener

__all__ = ["Event", "Interpreter", "Listener"]
