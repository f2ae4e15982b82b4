"""The Communicator of a process that ``p4reduce launch`` started, and the coordinator's end of its connection."""

import os
import socket
from collections.abc import Callable, Mapping
from typing import Any, Final

from p4reduce.comm import framing
from p4reduce.comm.communicator import Backend, Communicator, FloatArray
from p4reduce.comm.errors import ClusterError, CollectiveError

ADDRESS: Final = "P4REDUCE_ADDRESS"
"""Path of the coordinator's socket."""
RANK: Final = "P4REDUCE_RANK"
SIZE: Final = "P4REDUCE_SIZE"
CONNECT_TIMEOUT_S: Final = 30.0
ANSWER_TIMEOUT_S: Final = 3600.0
"""Longer than the coordinator's own patience, which names who is missing."""

_ERRORS: Final[Mapping[str, type[Exception]]] = {
    "ValueError": ValueError,
    "TypeError": TypeError,
    "CollectiveError": CollectiveError,
    "ClusterError": ClusterError,
}


def connect(environment: Mapping[str, str] = os.environ) -> Communicator:
    """The Communicator of this process, which ``p4reduce launch`` started.

    Raises ``ClusterError`` when it did not, or when the coordinator cannot be reached.
    """
    address = environment.get(ADDRESS)
    if address is None:
        raise ClusterError("this process belongs to no group: start the script with 'p4reduce launch -n 8 script.py'")
    rank = _number(environment, RANK)
    size = _number(environment, SIZE)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(CONNECT_TIMEOUT_S)
    try:
        connection.connect(address)
    except OSError as error:
        connection.close()
        raise ClusterError(f"rank {rank}: cannot reach the coordinator at {address}: {error}") from error
    backend = RemoteBackend(connection, rank, size)
    backend.ask({"do": "hello", "rank": rank})
    connection.settimeout(ANSWER_TIMEOUT_S)
    return Communicator(backend)


class RemoteBackend:
    """Carries a process's calls to the coordinator; implements ``communicator.Backend``."""

    def __init__(self, connection: socket.socket, rank: int, size: int) -> None:
        self._connection = connection
        self.rank = rank
        self.size = size
        self.is_server = rank == size

    def collective(self, operation: str, array: FloatArray, root: int, learning_rate: float) -> None:
        """Take part in one collective, in place."""
        request = {"do": "collective", "operation": operation, "root": root, "learning_rate": learning_rate}
        self.ask(request, array, into=array)

    def compute(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.ask({"do": "compute", "seconds": seconds})

    def now(self) -> float:
        """Virtual time, seconds."""
        return float(self.ask({"do": "now"})["now"])

    def record(self, name: str, value: float) -> None:
        """Keep a figure."""
        self.ask({"do": "record", "name": name, "value": value})

    def close(self) -> None:
        """Leave the group and close the connection; a second time does nothing."""
        if self._connection.fileno() >= 0:
            self.ask({"do": "close"})
            self._connection.close()

    def ask(
        self, request: dict[str, Any], array: FloatArray | None = None, into: FloatArray | None = None
    ) -> dict[str, Any]:
        """Send a request and wait for its answer; raises the error that the answer carries."""
        what = request.get("operation", request.get("do"))
        try:
            framing.send(self._connection, request, array)
            answer = framing.receive(self._connection, into)
        except TimeoutError as error:
            waited = self._connection.gettimeout()
            raise ClusterError(f"rank {self.rank} waited {waited:g} s for the answer to {what}") from error
        except (OSError, framing.FramingError) as error:
            raise ClusterError(f"rank {self.rank} lost the coordinator in {what}: {error}") from error
        if answer is None:
            raise ClusterError(f"rank {self.rank} lost the coordinator in {what}: it has ended")
        header, _ = answer
        if "error" in header:
            kind = _ERRORS.get(str(header["error"]), ClusterError)
            raise kind(str(header.get("message", "")))
        return header


def serve(connection: socket.socket, seats: Callable[[int], Backend]) -> None:
    """Answer one rank's requests until its connection ends; ``seats(rank)`` gives its place in the group.

    The rank's own mistakes are answered with an error. Raises ``ClusterError`` when it does not speak the protocol.
    """
    try:
        first = framing.receive(connection)
        if first is None:
            return
        rank = first[0].get("rank")
        if first[0].get("do") != "hello" or isinstance(rank, bool) or not isinstance(rank, int):
            raise framing.FramingError("the first message must be a hello with a rank")
        try:
            backend = seats(rank)
        except (ClusterError, ValueError) as error:
            framing.send(connection, _failure(error))
            return
        framing.send(connection, {})
        while (message := framing.receive(connection)) is not None:
            header, array = message
            try:
                answer = _perform(backend, header, array)
            except (ClusterError, ValueError, TypeError) as error:
                framing.send(connection, _failure(error))
            else:
                framing.send(connection, answer, array)
    except framing.FramingError as error:
        raise ClusterError(f"a process of the group sent something else than requests: {error}") from error
    except OSError:
        return  # the process has ended; its exit code says how
    finally:
        connection.close()


def _perform(backend: Backend, request: dict[str, Any], array: FloatArray | None) -> dict[str, Any]:
    """Carry a request out; the answer's header. A collective writes its result to ``array``."""
    what = request.get("do")
    try:
        if what == "collective" and array is not None:
            operation, root, rate = request["operation"], request["root"], request["learning_rate"]
            backend.collective(str(operation), array, int(root), float(rate))
        elif what == "compute":
            backend.compute(float(request["seconds"]))
        elif what == "now":
            return {"now": backend.now()}
        elif what == "record":
            backend.record(str(request["name"]), float(request["value"]))
        elif what == "close":
            backend.close()
        else:
            raise ValueError(f"unknown request {what!r}")
    except KeyError as error:
        raise ValueError(f"{what}: {error} is missing") from None
    return {}


def _failure(error: Exception) -> dict[str, str]:
    kind = next((name for name, known in _ERRORS.items() if type(error) is known), "ClusterError")
    return {"error": kind, "message": str(error)[: framing.MAX_HEADER // 16]}


def _number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "")
    if not text.isdecimal():
        raise ClusterError(f"{name}: expected a number, got {text!r}; start the script with 'p4reduce launch'")
    return int(text)
