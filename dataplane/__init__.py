"""The embedded switch: runs P4 programs that p4c compiled for BMv2."""
