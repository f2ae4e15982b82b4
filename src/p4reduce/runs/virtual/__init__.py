"""A run in virtual time.

This package contains ``Cluster``, a group of workers as threads or processes use it, and the carrier, which makes jobs
for their calls, has a ``JobNetwork`` carry them, and checks every sum.
"""
