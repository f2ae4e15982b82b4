"""What can be wrong with jobs, networks and schedules."""

from p4reduce.control_plane.errors import PlanError


class TdmError(PlanError):
    """Jobs that do not fit a network, or a network that cannot be; the text names the field and the fix."""
