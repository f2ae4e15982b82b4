"""The P4 programs on real BMv2 switches, between veth interfaces in a network namespace of their own."""
