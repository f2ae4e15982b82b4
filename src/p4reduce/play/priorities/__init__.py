"""Jobs that share links under a priority policy, on packets."""
