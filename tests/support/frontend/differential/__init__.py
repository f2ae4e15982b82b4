"""Differential test of two compilers on one switch: same packets out, and how much the test covers."""
