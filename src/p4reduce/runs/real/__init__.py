"""A run in real time.

Owned here: the session that builds links, switches, relays and worker processes, watches them and ends them; what a
worker process is told and how it answers; and what their counts come to.
"""
