"""In-network aggregation on equal terms: the field's systems as P4 programs of their own, beside p4reduce's plans."""
