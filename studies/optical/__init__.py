"""Grooming of AI tasks over lightpaths: policies beside each other, beside optima, over time, and on packets."""
