"""The live page of a run in progress, served on loopback."""
