"""Slurm: a cluster on one machine, and the planner that chooses the hosts of its jobs."""
