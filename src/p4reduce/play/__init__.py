"""Behaviour of several jobs in a network: rounds, turns, classes, tasks at their hosts."""
