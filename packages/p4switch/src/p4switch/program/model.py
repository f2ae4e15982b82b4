"""The names of the program model: headers, expressions, actions with their primitives, parser, pipelines."""

from p4switch.program.actions import *  # noqa: F403
from p4switch.program.expressions import *  # noqa: F403
from p4switch.program.program import *  # noqa: F403
