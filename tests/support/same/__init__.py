"""What the product says, writes and counts, as digests: does a change that should change nothing change anything?

``python -m tests.support.same`` runs some hundred commands and compares what came with ``tests/data/same/``; with
``--write`` it writes that anew. The product is driven by its command line: `product.py` alone knows where it begins.
"""
