"""Network-aware placement: when a cluster's jobs end under placement policies, in a model held to packets."""
