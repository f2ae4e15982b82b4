"""What can go wrong between a plan and a programmed network."""

from p4reduce.base.errors import BadInput, P4ReduceError


class PlanError(BadInput, ValueError):
    """A plan that cannot be made; the text names the cause and the fix."""


class ControllerError(P4ReduceError, RuntimeError):
    """A switch that could not be reached, programmed or read; names the switch, the table and the entry."""
