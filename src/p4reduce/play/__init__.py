"""What several jobs do in a network: rounds, turns, classes, tasks at their hosts."""
