"""Lab 07: two jobs in one network, and a change of one of them.

README.md, steps 1 to 5.
"""

ELECTION = {{election}}  # of the older controller, which holds every switch
FIRST_GROUP = {{group}}  # the multicast groups below belong to others
FIRST_RID = {{rid}}  # so are the replication ids below
FIRST_EPOCH = {{epoch}}  # the epochs below have been used, by every job
UDP = 9400  # the port of everybody


def entry(table, match, action, **params):
    """An entry of a table."""
    return {"table": table, "match": match, "action": action, "params": params}


def group(number, replicas):
    """A multicast group; replicas: (port, replication id) of each copy."""
    return {"group": number, "replicas": replicas}


def install(network, p4rt):
    """Connect to every switch, bind hosts to their ports, and install all jobs.

    Returns the epoch of each job: a dict from numbers to numbers.
    """
    raise NotImplementedError


def change(network, old, new, p4rt):
    """A job has other workers, and another root: old entries out, new ones in.

    old: the job as it was, with its epoch; new: the job as it is to be.
    Returns the epoch that its workers send from now on.
    """
    raise NotImplementedError
