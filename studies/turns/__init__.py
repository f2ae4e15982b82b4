"""Time-division multiplexing of training jobs over an optical cross-connect: on packets, and in a flow model."""
