"""An in-memory network for tests of endpoints: hosts, lossy wires, one switch that sums perfectly."""
