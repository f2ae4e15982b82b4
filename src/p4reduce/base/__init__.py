"""What every layer may import, and what imports nothing of this project.

Units, YAML that is safe to read, files that are written whole, coroutines for threads, signals that end a run.
"""
