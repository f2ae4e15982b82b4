"""The event loop and all that it calls, compiled: queues, links, replication, faults.

Python around it stands one folder above; ``real/io/`` drives the same kernels by sockets.
"""
