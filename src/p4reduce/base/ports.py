"""Ports for servers that are told which one to take."""

import contextlib
import random
import socket
from pathlib import Path
from typing import Final

_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LEAST: Final = 10_000
_TRIES: Final = 1000


def free_ports(count: int) -> list[int]:
    """TCP ports of the loopback interface that nobody uses now, and that no client gets meanwhile.

    They lie below those that the kernel gives to whoever connects, or binds port 0: between looking and use only a
    server that was told the same number could take one. ``OSError`` where there are not so many.
    """
    clients = int(_RANGE.read_text("ascii").split()[0])
    with contextlib.ExitStack() as stack:
        found: list[int] = []
        for _ in range(_TRIES):
            if len(found) == count:
                return found
            one = stack.enter_context(socket.socket())
            # Where an administrator has left no room below them, the kernel chooses.
            port = random.randrange(_LEAST, clients) if clients > 2 * _LEAST else 0  # noqa: S311  (no secret)
            with contextlib.suppress(OSError):
                one.bind(("127.0.0.1", port))
                found.append(int(one.getsockname()[1]))
    raise OSError(f"no {count} free TCP ports from {_LEAST} to {clients - 1}")
