"""Compiled packet input and output: packet rings and UDP sockets, and the loop that drives switches with them."""
