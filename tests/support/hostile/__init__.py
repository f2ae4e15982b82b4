"""Many hostile frames and requests; they must cause no crash, no hang and no half-applied write."""
