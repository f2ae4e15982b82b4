"""Fault injection: ends an orchestrator, or makes an operation fail, at any point; each transaction has some points."""

import sqlite3
from contextlib import contextmanager

from p4reduce.control_plane.orchestrator import Store


class Killed(BaseException):
    """Ends the orchestrator as abruptly as kill -9."""


class Fuse:
    """Counter of the points that an orchestrator passes; it kills it, or injects a failure, at one of them."""

    def __init__(self) -> None:
        self.left = 0
        self.how = "kill"
        self.passed = 0
        self.blown = ""

    def set(self, left: int, how: str) -> None:
        """Blow at the ``left``-th point from now on; 0 means never."""
        self.left, self.how, self.blown = left, how, ""

    def __call__(self, name: str, failure: type[BaseException] | None = None) -> None:
        """Pass a point; ``failure`` is the exception that can occur there naturally, if any."""
        self.passed += 1
        if self.left == 0 or (self.how == "fail" and failure is None):
            return
        self.left -= 1
        if self.left == 0:
            self.blown = name
            raise (Killed if self.how == "kill" or failure is None else failure)(f"injected at {name}")


class FusedStore(Store):
    """A database whose transactions have fuse points."""

    def __init__(self, path, fuse: Fuse) -> None:
        self._fuse = fuse
        super().__init__(path, synchronous=False)

    @contextmanager
    def transaction(self):
        outer = not self._connection.in_transaction
        if outer:
            self._fuse("begin")
        with super().transaction():
            yield
            if outer:
                self._fuse("commit", sqlite3.OperationalError)
        if outer:
            self._fuse("committed")
