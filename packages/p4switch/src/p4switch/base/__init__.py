"""Helpers that every part of the switch may import."""
