"""Grooming of AI tasks over lightpaths: policies compared with each other and with optima, over time, on packets."""
