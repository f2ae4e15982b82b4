"""Runs in virtual time: a group of workers in this process, and collectives that its network carries."""
