"""Students' Python in a separate process with bounded resources; its answers are treated as data."""
