"""Source text, tokens, macros and syntax trees."""
