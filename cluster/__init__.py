"""A running group of workers: topology, switches, plans, endpoints, and the Communicator on top."""
