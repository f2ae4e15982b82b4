"""P4Info: what the control plane may do with a program (P4Runtime specification, section 6)."""
