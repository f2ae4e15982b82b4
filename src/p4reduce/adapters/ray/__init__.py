"""Ray: jobs whose ranks run on the nodes that p4reduce chose."""
