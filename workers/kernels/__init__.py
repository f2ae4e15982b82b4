"""Endpoints as compiled code: what happens to frames and lanes. Python that sets them up stands one folder above."""
