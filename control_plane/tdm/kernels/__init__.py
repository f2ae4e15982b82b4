"""Compiled parts of planning: local search on placements."""
