"""Differential fuzzing of the embedded switch against BMv2."""
