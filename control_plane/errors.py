"""What can go wrong between a plan and a programmed network."""


class PlanError(ValueError):
    """A plan that cannot be made; the text names the cause and the fix."""


class ControllerError(RuntimeError):
    """A switch that could not be reached, programmed or read; names the switch, the table and the entry."""
