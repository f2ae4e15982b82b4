"""Helpers for tests of real-time runs."""
