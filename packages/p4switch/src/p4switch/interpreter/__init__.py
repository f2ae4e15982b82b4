"""The readable executor of the program model, for students and as the reference for tests of the compiler."""

from p4switch.interpreter.interpreter import Interpreter
from p4switch.interpreter.trace import Event, Listener

__all__ = ["Event", "Interpreter", "Listener"]
