"""The readable executor of the program model: what a student looks at, and what the compiler is tested against."""

from p4switch.interpreter.interpreter import Interpreter
from p4switch.interpreter.trace import Event, Listener

__all__ = ["Event", "Interpreter", "Listener"]
