"""Students' Python in a process of its own: what it may use is bounded, what it says is data."""
