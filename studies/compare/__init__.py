"""In-network aggregation on equal terms: published systems as separate P4 programs, beside p4reduce's plans."""
