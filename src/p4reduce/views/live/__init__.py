"""The live page: a run as it goes on, served on loopback."""
