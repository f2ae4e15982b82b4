"""P4 programs that together use every v1model primitive that stores or copies data."""
