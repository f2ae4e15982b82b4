"""Comparison of status codes of updates and reads: the embedded switch's P4Runtime server and BMv2's."""
