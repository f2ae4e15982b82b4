"""Who is in the loop: a caller that waits for a collective, or else a thread that serves the peers meanwhile."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from typing import Final

import numpy as np

from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.kernels import endpoint
from p4reduce.workers.operation import Post, exponents_of
from p4reduce.workers.records import State
from p4reduce.workers.settings import HostAddress
from p4reduce.workers.specs import EndpointSpec
from p4reduce.workers.udp.loop import run
from p4reduce.workers.udp.port import Port
from p4reduce.workers.udp.records import Reason

_SLICE_NS: Final = 100_000_000
"""The loop comes back this often, so that signals and other threads of Python are seen."""
_NOBODY: Final = -1


class SilenceError(TimeoutError):
    """Nothing has come in for as long as one is willing to wait."""


class StoppedError(RuntimeError):
    """An operation was given up on the way, because somebody said so; its endpoint is gone."""


class Driver:
    """Drives the endpoints of one process over its port. Not thread-safe: one caller at a time.

    Between two operations a thread goes on serving: a peer may still miss an answer of the last one. All endpoints
    must be there when the driver is made, and have the host address that the port was made for. ``close`` it.
    """

    def __init__(self, endpoints: Endpoints, port: Port) -> None:
        self._endpoints = endpoints
        self._port = port
        port.record["endpoints"] = len(endpoints)
        self._in_loop = threading.Lock()
        self._serve = threading.Event()
        self._stop = threading.Event()
        self._closed = False
        self._error: OSError | None = None
        # Machine code is compiled, or loaded, now and not while peers wait.
        exponents_of(np.zeros(1, np.float32), 1)
        endpoint.posted(endpoints.records, 0)
        run(endpoints.records, port.record, _NOBODY, 0)
        self._serve.set()
        self._thread = threading.Thread(target=self._serve_peers, name="serve", daemon=True)
        self._thread.start()

    def carry_out(self, operation: Post, index: int, *, patience_s: float) -> None:
        """Post ``operation`` to endpoint ``index`` and drive all endpoints until that one is done or has failed.

        Raises what ``Endpoints.post`` raises, ``SilenceError`` when nothing comes in for ``patience_s`` seconds,
        ``StoppedError`` after :meth:`stop` (then nothing writes to the operation's array any more), and ``OSError``
        when the socket fails.
        """
        with self._alone():
            self._endpoints.post(index, operation)
            heard = time.monotonic()
            seen = self._frames()
            while self._turn(index, _SLICE_NS) is not Reason.DONE:
                if self._stop.is_set():
                    self._retire(index)
                    raise StoppedError(f"endpoint {index}: the operation was stopped")
                now = self._frames()
                if now != seen:
                    seen, heard = now, time.monotonic()
                elif time.monotonic() - heard > patience_s:
                    missing = self._endpoints.oldest_missing(index) & 0xFFFFFFFF
                    raise SilenceError(
                        f"nothing came in for {patience_s:g} s; the oldest seq that is missing: {missing}"
                    )

    def stop(self) -> None:
        """Have the operation that is under way, and each one to come, end with ``StoppedError``; from any thread."""
        self._stop.set()
        self._port.wake()

    def go_on(self) -> None:
        """Take back :meth:`stop`."""
        self._stop.clear()

    def replace(self, index: int, spec: EndpointSpec | None) -> None:
        """In the place of an endpoint there is another one of the same address from now on, or none."""
        with self._alone():
            self._retire(index)
            if spec is not None and self._endpoints.add(spec) != index:
                raise ValueError(f"endpoint {index}: {spec.link} is not its address")

    def _retire(self, index: int) -> None:
        record = self._endpoints.records[index]
        if record["mac"]:  # it is there
            self._endpoints.give_up(index)
            link = HostAddress(int(record["mac"]), int(record["ip"]), int(record["udp"]))
            self._endpoints.retire(index, link)

    @property
    def lingering(self) -> bool:
        """Whether an endpoint still has to serve its peers."""
        records = self._endpoints.records
        return bool(((records["lingering"] != 0) | (records["status"] == State.ACTIVE)).any())

    def close(self) -> None:
        """End the thread; the port stays open."""
        self._closed = True
        self._serve.set()
        self._port.wake()
        self._thread.join()

    def _frames(self) -> int:
        record = self._port.record[0]
        return int(record["first_frames"] + record["resend_frames"])

    def _turn(self, index: int, wait_ns: int) -> Reason:
        result = int(run(self._endpoints.records, self._port.record, index, wait_ns))
        if result < 0:
            raise OSError(-result, f"UDP socket {self._port.local}: {os.strerror(-result)}")
        return Reason(result)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """The loop for the caller; the thread stands aside."""
        self._serve.clear()
        self._port.wake()
        try:
            with self._in_loop:
                self._port.settle()
                if self._error is not None:
                    raise self._error
                yield
        finally:
            self._serve.set()

    def _serve_peers(self) -> None:
        while True:
            self._serve.wait()
            with self._in_loop:
                if self._closed:
                    return
                if not self._serve.is_set():
                    continue
                try:
                    self._turn(_NOBODY, _SLICE_NS)
                except OSError as error:
                    self._error = error
                    return
