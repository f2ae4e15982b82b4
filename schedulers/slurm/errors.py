"""What goes wrong with Slurm."""

from p4reduce.comm.errors import ClusterError


class SlurmError(ClusterError):
    """A program of Slurm is missing, does not answer, or refuses."""
