"""Choosing useful local models under a bandwidth budget, and what that does to accuracy (open challenge 1)."""
