"""Workers: the wire format, the numbers, and the sans-IO endpoints of a job."""
