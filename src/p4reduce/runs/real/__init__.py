"""A run in real time.

This package contains the session that builds links, switches, relays and worker processes, watches and ends them; the
messages to and from worker processes; and the evaluation of their counts.
"""
