"""A simple_switch_grpc without interfaces and without root: frames are exchanged over gRPC."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Final

import grpc

from p4reduce.group.remote import free_ports
from p4reduce.network.real.net import here_command
from p4reduce.network.real.net.namespaces import last_lines, start, stop
from tests.support.conformance.targets.command_line import CommandFailed, CommandLine

DEVICE_ID: Final = 1
START_DEADLINE_S: Final = 60.0
ATTEMPTS: Final = 5
"""Starts that are tried: another process may take a port between its choice and BMv2's bind."""


@dataclass(frozen=True)
class Bmv2Binaries:
    """Paths of simple_switch_grpc and of simple_switch_CLI (only needed for Thrift)."""

    switch: str
    command_line: str | None = None


def find_switch() -> str | None:
    """Returns $SIMPLE_SWITCH_GRPC or the simple_switch_grpc on PATH; None if it is missing."""
    switch = os.environ.get("SIMPLE_SWITCH_GRPC") or shutil.which("simple_switch_grpc")
    return switch if switch is not None and Path(switch).is_file() else None


def find_binaries() -> Bmv2Binaries | None:
    """Returns the switch and the simple_switch_CLI beside it or on PATH; None if one is missing."""
    switch = find_switch()
    if switch is None:
        return None
    beside = Path(switch).with_name("simple_switch_CLI")
    command_line = str(beside) if beside.is_file() else shutil.which("simple_switch_CLI")
    return Bmv2Binaries(switch, command_line) if command_line is not None else None


def version_of(switch: str) -> str:
    """Returns the last line that BMv2 prints with --version."""
    done = subprocess.run([switch, "--version"], capture_output=True, text=True, timeout=60, check=False)
    return (done.stdout + done.stderr).strip().splitlines()[-1]


@dataclass
class Bmv2Process:
    """A running BMv2, with its gRPC channel for frames, its Thrift command line and its P4Runtime address."""

    process: subprocess.Popen[bytes]
    channel: grpc.Channel
    thrift: CommandLine | None
    p4runtime: str
    """address of BMv2's P4Runtime server"""

    @property
    def command_line(self) -> CommandLine:
        """The Thrift command line. Raises RuntimeError if it was not asked for."""
        if self.thrift is None:
            raise RuntimeError("BMv2 runs without simple_switch_CLI")
        return self.thrift


@contextlib.contextmanager
def running(binaries: Bmv2Binaries, program_json: Path, *, queues: int = 8) -> Iterator[Bmv2Process]:
    """Runs BMv2 with a program; with eight priority queues no priority drops frames.

    Raises:
        RuntimeError: BMv2 does not start; the message has the end of its log.
    """
    with tempfile.TemporaryFile() as output:  # unnamed, so that no file is left even after a crash
        log = Path(f"/proc/self/fd/{output.fileno()}")
        for attempt in range(ATTEMPTS):
            try:
                started = _start(binaries, program_json, output, log, queues)
                break
            except RuntimeError:
                if attempt == ATTEMPTS - 1:
                    raise
        try:
            yield started
        finally:
            if started.thrift is not None:
                with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                    started.thrift.close()
            started.channel.close()
            stop([started.process])


@cache
def _has_thrift(switch: str) -> bool:
    """Returns whether BMv2 was built with Thrift; otherwise it rejects --thrift-port."""
    done = subprocess.run([switch, "--help"], capture_output=True, text=True, timeout=60, check=False)
    return "--thrift-port" in done.stdout + done.stderr


def _start(binaries: Bmv2Binaries, program_json: Path, output: IO[bytes], log: Path, queues: int) -> Bmv2Process:
    thrift, runtime, frames = free_ports(3)
    command = [binaries.switch, "--device-id", str(DEVICE_ID)]
    if _has_thrift(binaries.switch):
        command += ["--thrift-port", str(thrift)]
    command += ["--log-console", "-L", "error", str(program_json), "--", "--grpc-server-addr", f"127.0.0.1:{runtime}"]
    command += ["--dp-grpc-server-addr", f"127.0.0.1:{frames}", "--priority-queues", str(queues)]
    process = start(here_command(command), stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    channel = grpc.insecure_channel(f"127.0.0.1:{frames}")
    try:
        _wait_ready(process, channel, log)
        with grpc.insecure_channel(f"127.0.0.1:{runtime}") as later:  # the P4Runtime server starts a little later
            _wait_ready(process, later, log)
        line = None if binaries.command_line is None else _connect(binaries.command_line, thrift, process, log)
        return Bmv2Process(process, channel, line, f"127.0.0.1:{runtime}")
    except BaseException:
        channel.close()
        stop([process])
        raise


def _wait_ready(process: subprocess.Popen[bytes], channel: grpc.Channel, log: Path) -> None:
    ready = grpc.channel_ready_future(channel)
    deadline = time.monotonic() + START_DEADLINE_S
    while True:
        try:
            ready.result(timeout=0.2)
            return
        except grpc.FutureTimeoutError:
            if process.poll() is not None or time.monotonic() > deadline:
                ready.cancel()
                raise RuntimeError(f"BMv2 did not start:\n{last_lines(log)}") from None


def _connect(command_line: str, thrift: int, process: subprocess.Popen[bytes], log: Path) -> CommandLine:
    """Connects to Thrift, which starts after the gRPC server: retries until it answers."""
    deadline = time.monotonic() + START_DEADLINE_S
    while True:
        try:
            return CommandLine(command_line, thrift)
        except CommandFailed as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"BMv2 does not answer on Thrift: {error}\n{last_lines(log)}") from None
