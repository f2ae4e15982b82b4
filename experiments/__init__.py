"""Experiments: many tasks under several policies, on packets, with tables and figures."""
