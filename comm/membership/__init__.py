"""Who is in a group: leases, and the two phases by which survivors agree on what was done and who goes on.

No sockets, threads or clocks: whoever coordinates a group, in virtual or in real time, tells these what it heard and
when.
"""

from p4reduce.comm.membership.decision import Answer, Decision, OnFailure, Outcome, cannot_redo, decide, group_changed
from p4reduce.comm.membership.journal import Journal
from p4reduce.comm.membership.leases import REAL_LEASE, VIRTUAL_LEASE, Lease, Leases
from p4reduce.comm.membership.reach import Reach

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
    "Reach",
    "cannot_redo",
    "decide",
    "group_changed",
]
