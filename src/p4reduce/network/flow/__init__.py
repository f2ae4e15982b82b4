"""Collectives as flows: how long they take, from rates, delays, sizes of frames and windows, without any packets."""
