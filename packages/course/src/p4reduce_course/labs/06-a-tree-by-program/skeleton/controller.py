"""Lab 06: from a network to the entries of its switches.

README.md, steps 2 to 5.
"""

ELECTION = {{election}}  # of the older controller, which holds every switch
FIRST_GROUP = {{group}}  # the multicast groups below belong to others
FIRST_RID = {{rid}}  # so are the replication ids below
UDP = 9400  # the port of everybody


def entry(table, match, action, **params):
    """An entry of a table."""
    return {"table": table, "match": match, "action": action, "params": params}


def group(number, replicas):
    """A multicast group; replicas: (port, replication id) of each copy."""
    return {"group": number, "replicas": replicas}


def tree(network):
    """The parent of each worker, and of each switch that has a worker below it.

    The root has none.

    Returns a dict from names to names.
    """
    raise NotImplementedError


def install(network, p4rt):
    """Connect to the switches of the tree, and write all that they need."""
    raise NotImplementedError
