"""Compiled graph algorithms on arrays: nodes and arcs are numbers, weights integers; nothing knows of topologies."""
