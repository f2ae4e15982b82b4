"""The host side of orchestrated tasks, in this process or in a separate one.

This package owns ``World``, the implementation of the orchestrator's executor protocol
(control_plane/orchestrator/executor.py): when a task does which rounds, swaps of its trees, links that are cut; the
service that offers a world over a socket, and its client. The jobs belong to the network (``jobs.network``).
"""
