"""How fast plans are made, beside networkx."""
