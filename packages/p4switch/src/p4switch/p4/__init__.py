"""A P4_16 front end for the v1model architecture: compiles source text to BMv2's JSON and to P4Info."""
