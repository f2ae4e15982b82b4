"""Standing networks: the process that holds one, and what the commands do to it."""
