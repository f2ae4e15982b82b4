"""Switches behind UDP sockets: each datagram is a frame that arrives at a host's port. No queues, no time."""

import random
import selectors
import socket
import threading
from collections import deque

from p4reduce.topologies import Topology
from p4switch.device import Device

CPU_PORT = 510
"""port to the controller, which gets refused packets"""


class Reflector:
    """A thread that carries frames between hosts' sockets through the switches."""

    def __init__(self, topology: Topology, devices: dict[str, Device], loss: float = 0.0) -> None:
        self._topology = topology
        self._devices = devices
        self._loss = loss
        self._random = random.Random(1)
        self._sockets: dict[str, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._end, self._ended = socket.socketpair()
        self._selector.register(self._ended, selectors.EVENT_READ, None)
        for host in topology.hosts:
            made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            made.bind(("127.0.0.1", 0))
            self._sockets[host.name] = made
            self._selector.register(made, selectors.EVENT_READ, host.name)
        self._where: dict[str, tuple[str, int]] = {}
        self._thread = threading.Thread(target=self._run)

    def address(self, host: str) -> tuple[str, int]:
        """Return the address to which a host sends its frames."""
        found: tuple[str, int] = self._sockets[host].getsockname()
        return found

    def attach(self, host: str, where: tuple[str, int]) -> None:
        """Set the address of a host's socket."""
        self._where[host] = where

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.data is None:
                    return
                self._carry(key.data, 1, self._sockets[key.data].recv(65535))

    def _carry(self, node: str, port: int, frame: bytes) -> None:
        """Carry a frame from a node's port, and all resulting frames, until they reach hosts."""
        waiting = deque([(node, port, frame)])
        while waiting:
            node, port, frame = waiting.popleft()
            if self._loss and self._random.random() < self._loss:
                continue
            peer = self._topology.neighbour(node, port)
            if peer in self._sockets:
                if peer in self._where:
                    self._sockets[peer].sendto(frame, self._where[peer])
                continue
            for out_port, made in self._devices[peer].inject(self._topology.port(peer, node), frame):
                if out_port != CPU_PORT:
                    waiting.append((peer, out_port, made))

    def start(self) -> None:
        """Begin to carry frames."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread."""
        self._end.send(b"x")
        self._thread.join()

    def close(self) -> None:
        """Close the sockets; call it after the thread has ended, or without it."""
        for made in (*self._sockets.values(), self._end, self._ended):
            made.close()
        self._selector.close()
