"""A BMv2 process for each switch of a topology: started, waited for by connecting, watched, stopped."""

import os
import select
import socket
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final

from p4reduce.dataplane.abi import CPU_PORT
from p4reduce.fabric.real.bmv2.causes import likely_cause
from p4reduce.fabric.real.bmv2.find import Bmv2, need_bmv2
from p4reduce.fabric.real.bmv2.registers import read_registers
from p4reduce.fabric.real.errors import RealError
from p4reduce.fabric.real.net.children import last_lines, start, stop
from p4reduce.fabric.real.net.enter import here_command
from p4reduce.topologies import Topology

QUEUES: Final = 8
QUEUE_FRAMES: Final = 64
"""What an output queue holds for each priority, and no option changes: more are lost, and the P4 program, which counts
behind the queue, does not see them."""
GROWTH_BYTES: Final = 512
"""By how much the P4 program may lengthen a packet: one byte more, and an assertion of BMv2 ends the switch."""
START_DEADLINE_S: Final = 60.0
_GRPC_PORT: Final = 9559
"""Below those that the kernel gives to clients: asking whether a switch listens, or another switch's controller, would
now and then take the port itself (a connection to a free port may even meet itself), and the switch would end."""
_THRIFT_PORT: Final = 9090
_TRY_S: Final = 0.05


@dataclass
class _Running:
    name: str
    device_id: int
    address: str
    thrift_port: int
    log: Path
    process: "subprocess.Popen[bytes]"


class Bmv2Switches:
    """All switches of a topology on BMv2, empty, with their P4Runtime servers ready.

    To be used by ``with``, in the network namespace of a :class:`~p4reduce.fabric.real.net.RealNetwork`: P4Runtime is
    at 127.0.0.1 from port 9559 on (IANA's for it) and Thrift from 9090 on, and nobody else is there to have them.

    Parameters
    ----------
    topology : Topology
        Gives the switches; device id is index + 1.
    interfaces : mapping
        For each switch the interface of each port, as ``RealNetwork.switch_interfaces``.
    folder : Path
        Gets one log for each switch: 's1.log'.
    bmv2 : Bmv2
        Which BMv2; the one that ``find_bmv2`` finds when not given.
    log_level : str
        BMv2's: 'warn', or 'trace' to see what each packet does, at a hundredth of the speed.

    Raises
    ------
    RealError
        When there is no BMv2, or a switch does not start: with the last lines of its log and the likely cause.
    """

    def __init__(
        self,
        topology: Topology,
        interfaces: Mapping[str, Mapping[int, str]],
        folder: Path,
        *,
        bmv2: Bmv2 | None = None,
        log_level: str = "warn",
    ) -> None:
        self.bmv2 = bmv2 or need_bmv2()
        self._has_thrift = self.bmv2.has_thrift()
        self._topology = topology
        self._interfaces = interfaces
        self._folder = folder
        self._log_level = log_level
        self._running: dict[str, _Running] = {}

    @property
    def targets(self) -> list[tuple[str, str, int]]:
        """(switch, address of its P4Runtime server, device id) of each switch."""
        return [(one.name, one.address, one.device_id) for one in self._running.values()]

    @property
    def pids(self) -> dict[str, int]:
        """The process of each switch."""
        return {one.name: one.process.pid for one in self._running.values()}

    def log(self, switch: str) -> Path:
        """The log of a switch."""
        return self._one(switch).log

    def thrift_port(self, switch: str) -> int:
        """Where a switch answers Thrift, at 127.0.0.1."""
        return self._one(switch).thrift_port

    def read_registers(self, switch: str, register: str, index: int | None = None) -> list[int]:
        """See :func:`~p4reduce.fabric.real.bmv2.registers.read_registers`."""
        return read_registers(self.bmv2, self.thrift_port(switch), register, index)

    def check(self) -> None:
        """Raise :class:`RealError` when a switch has ended."""
        for one in self._running.values():
            if one.process.poll() is not None:
                raise RealError(f"switch {one.name} ended during the run{_last_words(one)}")

    def ended(self) -> list[str]:
        """Those that have ended, killed or by themselves."""
        return [one.name for one in self._running.values() if one.process.poll() is not None]

    def __enter__(self) -> "Bmv2Switches":
        try:
            for node in self._topology.switches:
                self._running[node.name] = self._start(node.name, node.index)
            deadline = time.monotonic() + START_DEADLINE_S
            for one in self._running.values():
                _wait_until_ready(one, deadline)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop all; may be called again. The logs stay."""
        stop(one.process for one in self._running.values())
        self._running.clear()

    def _one(self, switch: str) -> _Running:
        try:
            return self._running[switch]
        except KeyError:
            raise RealError(f"no switch {switch!r} runs: there are {', '.join(self._running)}") from None

    def _start(self, name: str, index: int) -> _Running:
        log = self._folder / f"{name.replace(os.sep, '_')}.log"
        address, thrift_port = f"127.0.0.1:{_GRPC_PORT + index}", _THRIFT_PORT + index
        if _THRIFT_PORT + len(self._topology.switches) > _GRPC_PORT:
            raise RealError("too many switches for the ports of one machine")
        options = ["--no-p4", "--device-id", str(index + 1)]
        if self._has_thrift:
            options += ["--thrift-port", str(thrift_port)]
        for port, interface in sorted(self._interfaces[name].items()):
            options += ["-i", f"{port}@{interface}"]
        options += ["--log-console", "-L", self._log_level, "--", "--grpc-server-addr", address]
        options += ["--cpu-port", str(CPU_PORT), "--priority-queues", str(QUEUES)]
        with log.open("wb") as output:
            process = start(
                here_command([*self.bmv2.command, *options]),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the run, which then stops its switches
            )
        return _Running(name, index + 1, address, thrift_port, log, process)


def _wait_until_ready(one: _Running, deadline: float) -> None:
    """Until its P4Runtime server takes connections; raises when the process ends before, or at ``deadline``."""
    host, port = one.address.split(":")
    ended = os.pidfd_open(one.process.pid)
    try:
        while True:
            try:
                socket.create_connection((host, int(port)), timeout=_TRY_S).close()
                return
            except OSError:  # not yet
                if select.select([ended], [], [], _TRY_S)[0]:
                    one.process.wait()
                    raise RealError(f"switch {one.name} did not start{_last_words(one)}") from None
                if time.monotonic() > deadline:
                    late = f"switch {one.name}: its P4Runtime server did not answer in {START_DEADLINE_S:g} s"
                    raise RealError(late + _last_words(one)) from None
    finally:
        os.close(ended)


def _last_words(one: _Running) -> str:
    code = one.process.poll()
    lines = last_lines(one.log)
    cause = likely_cause(code, lines)
    how = "" if code is None else f" (signal {-code})" if code < 0 else f" (exit code {code})"
    return f"{how}{'; likely cause: ' + cause if cause else ''}; its last lines:\n{lines}"
