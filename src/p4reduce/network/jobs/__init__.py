"""Jobs in the network, for every kind of caller.

This package owns the P4 programs that a network may run, the embedded switches behind P4Runtime and their controller,
the specifications of a plan's endpoints, ``JobNetwork`` (jobs on those switches in virtual time: endpoints, links,
clock, one run loop), the record of what a job carried, and the check of sums against float64. The caller (a run, an
orchestrated task or an experiment) decides which jobs exist and what they carry at which time.
"""
