"""Source text, tokens, macros and syntax trees of P4."""
