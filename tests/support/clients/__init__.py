"""Third-party P4Runtime clients, each in its own virtual environment.

``make clients`` (``python -m tests.support.clients.install``) makes the environments; without them the tests are
skipped. The sessions are scripts that run in these environments, so they import nothing of p4reduce.
"""
