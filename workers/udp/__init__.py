"""Endpoints in real time: a compiled loop between their cores and a UDP socket of this machine (Linux, 64 bit)."""
