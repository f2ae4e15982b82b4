"""One run, from its description to its result: what is trained or moved, on which network, what came of it."""
