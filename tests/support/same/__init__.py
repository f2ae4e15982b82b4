"""Regression test of the product's output: digests of what it prints, writes and counts.

``python -m tests.support.same`` runs about a hundred commands and compares the results with ``tests/data/same/``;
``--write`` stores them. The product is driven by its command line; only `product.py` knows its entry points.
"""
