"""Students' P4: compiled by this package's own front end, and run, traced, on the embedded switch."""
