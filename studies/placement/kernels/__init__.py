"""The flow model's inner loop, compiled."""
