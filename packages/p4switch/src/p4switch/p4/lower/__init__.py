"""Lowers checked trees to BMv2's JSON: all calls are inlined, and every value gets a place."""
