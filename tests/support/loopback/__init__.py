"""An in-memory network for tests of endpoints: hosts, lossy wires and an ideal aggregating switch."""
