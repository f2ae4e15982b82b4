"""Jobs of other schedulers: Slurm and Ray do not choose hosts; ranks run on the hosts of p4reduce's placement.

``Planner`` chooses hosts; ``SharedNetwork`` carries the traffic of all jobs' ranks, in virtual time.
"""
