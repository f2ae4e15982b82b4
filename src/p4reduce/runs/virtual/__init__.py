"""A run in virtual time.

Owned here: ``Cluster``, a group of workers as threads or processes see it, and the carrier, which makes jobs for what
they call, has a ``JobNetwork`` carry them, and checks every sum.
"""
