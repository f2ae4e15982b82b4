"""P4 programs that together use every primitive of v1model that keeps or copies something."""
