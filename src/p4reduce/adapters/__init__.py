"""Jobs that others start: Slurm and Ray choose nothing themselves, ranks run where p4reduce's placement says.

``Planner`` chooses hosts, ``SharedNetwork`` carries what the ranks of all jobs send, in virtual time.
"""
