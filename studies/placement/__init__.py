"""Network-aware placement: completion times of a cluster's jobs under placement policies, in a calibrated model."""
