"""The network under torchrun: a process of its own, which rank 0 starts and which ends when all ranks have left.

The process is ``python -m p4reduce.cli.torch_network``: it reads one line of JSON (``config``, ``settings``,
``workers``, ``out``, ``word``: what ranks of this start say first) from its input and answers with one: ``address`` of
its socket, or ``error``.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final

from p4reduce.base.safe_yaml import YamlError, read_yaml
from p4reduce.comm.errors import ClusterError

PREFIX: Final = "P4REDUCE_SET_"
CONFIG: Final = "P4REDUCE_CONFIG"
OUT: Final = "P4REDUCE_OUT"
CLOSE_S: Final = 20.0
"""for a network to write its result and end"""


class NetworkProcess:
    """The process, as rank 0 sees it."""

    def __init__(self, process: "subprocess.Popen[bytes]", address: str) -> None:
        self.address = address
        self._process = process

    def close(self) -> None:
        """Rank 0 has left. The process goes on until all ranks have, and is waited for as long as that takes little."""
        assert self._process.stdin is not None  # noqa: S101  (it is a pipe)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_S)


def start(size: int, settings: Any, word: str, environment: Mapping[str, str] = os.environ) -> NetworkProcess:
    """Start the network for ``size`` workers; ``ClusterError`` where it cannot be built."""
    request = {
        "config": environment.get(CONFIG),
        "settings": settings_of(settings, environment),
        "workers": size,
        "out": environment.get(OUT),
        "word": word,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "p4reduce.cli.torch_network"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C reaches the ranks, and the network ends when they have
    )
    assert process.stdin is not None  # noqa: S101  (both are pipes)
    assert process.stdout is not None  # noqa: S101
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(request).encode() + b"\n")
        process.stdin.flush()
    line = process.stdout.readline()
    answer = json.loads(line) if line.strip() else {"error": "its process ended; its last lines stand above"}
    if "address" not in answer:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.wait()
        raise ClusterError(f"the network of p4reduce cannot be built: {answer['error']}")
    return NetworkProcess(process, answer["address"])


def settings_of(given: Any, environment: Mapping[str, str]) -> dict[str, Any]:
    """Settings of a run, as in a file: ``P4REDUCE_SET_PLAN`` and so on ("__" for "."), then those ``given``.

    Raises ``ClusterError`` where ``given`` is no mapping or a variable no YAML.
    """
    found: dict[str, Any] = {}
    for name, text in environment.items():
        if name.startswith(PREFIX):
            try:
                found[name.removeprefix(PREFIX).lower().replace("__", ".")] = read_yaml(text)
            except YamlError as error:
                raise ClusterError(f"{name}: {error}") from None
    if given is not None:
        if not isinstance(given, Mapping):
            raise ClusterError(f"pg_options: expected a mapping of settings, e.g. {{'plan': 'ring'}}, got {given!r}")
        found |= given
    return found
