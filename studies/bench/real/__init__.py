"""How fast the embedded switch carries frames of this machine's kernel."""
