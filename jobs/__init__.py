"""A job in the network: its plan and endpoints, the P4 program, switches that run it, sums held against float64."""
