"""Random deaths, and checks afterwards: the invariants I1 to I4, the time bounds, and that nothing is left behind."""
