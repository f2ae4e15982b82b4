"""Jobs in the network, for every kind of caller.

Owned here: the P4 programs that a network may run, the embedded switches behind P4Runtime and their controller, the
specifications of a plan's endpoints, ``JobNetwork`` (jobs on those switches in virtual time: endpoints, links, clock,
one run loop), what a job carried, and sums held against float64. Which jobs there are, and what they carry when, is
decided above: by a run, by an orchestrated task, by an experiment.
"""
