"""The side of orchestrated tasks where hosts are: in this process, or in one of its own.

Owned here: ``World``, the executor that the orchestrator's protocol asks for
(control_plane/orchestrator/executor.py): which rounds a task does when, swaps of its trees, links that are cut; the
service that puts a world behind a socket, and the client of it. Jobs themselves are the network's (``jobs.network``).
"""
