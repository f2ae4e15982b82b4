"""P4Runtime clients that others wrote, each in a virtual environment of its own.

``make clients`` (``python -m tests.support.clients.install``) makes the environments; the tests are skipped without
them. The sessions are scripts that run there, so they import nothing of p4reduce.
"""
