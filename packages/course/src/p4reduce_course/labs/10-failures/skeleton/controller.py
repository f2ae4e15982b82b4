"""Lab 10: a controller that puts another tree in the place of a dead one.

README.md, steps 1 to 6.
"""

ELECTION = {{election}}  # of the older controller, which holds every switch
FIRST_GROUP = {{group}}  # the multicast groups below belong to others
FIRST_RID = {{rid}}  # so are the replication ids below
FIRST_EPOCH = {{epoch}}  # the epochs below have been used
UDP = 9400  # the port of everybody


def entry(table, match, action, **params):
    """An entry of a table."""
    return {"table": table, "match": match, "action": action, "params": params}


def group(number, replicas):
    """A multicast group; replicas: (port, replication id) of each copy."""
    return {"group": number, "replicas": replicas}


def start(network, p4rt):
    """Connect to every switch, choose a root, install the tree.

    Returns {"epoch": number, "root": name}.
    """
    raise NotImplementedError


def tick(network, now, p4rt):
    """Called every 200 microseconds while workers wait for a sum.

    now: in microseconds.

    Returns None, or {"epoch": number, "root": name} when there is another tree:
    workers then go on in it.
    """
    raise NotImplementedError
