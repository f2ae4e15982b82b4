"""Who is in a group: leases, and the two phases by which survivors agree on what was done and who goes on.

No sockets, threads or clocks: whoever coordinates a group, in virtual or in real time, tells these what it heard and
when.
"""

from p4reduce.comm.membership.decision import Answer, Decision, OnFailure, Outcome, decide, group_changed
from p4reduce.comm.membership.journal import Journal
from p4reduce.comm.membership.leases import REAL_LEASE, VIRTUAL_LEASE, Lease, Leases

__all__ = [
    "REAL_LEASE",
    "VIRTUAL_LEASE",
    "Answer",
    "Decision",
    "Journal",
    "Lease",
    "Leases",
    "OnFailure",
    "Outcome",
    "decide",
    "group_changed",
]
