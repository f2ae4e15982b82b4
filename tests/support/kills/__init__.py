"""Random deaths, and what must hold afterwards: I1 to I4, the bounds, and that nothing is left behind."""
