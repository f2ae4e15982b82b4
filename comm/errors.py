"""What can go wrong with a collective, said so that the caller knows who was missing."""


class ClusterError(RuntimeError):
    """The run cannot go on."""


class CollectiveError(ClusterError):
    """A collective failed: participants disagree, one left, or the network gave up."""
