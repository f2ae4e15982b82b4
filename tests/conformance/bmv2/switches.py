"""BMv2 processes: started, waited for by connecting, watched and stopped."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc

START_DEADLINE_S = 30.0
CPU_PORT = 510


def find_bmv2() -> str | None:
    """The simple_switch_grpc to use: $SIMPLE_SWITCH_GRPC or the one on PATH."""
    return os.environ.get("SIMPLE_SWITCH_GRPC") or shutil.which("simple_switch_grpc")


@dataclass
class Bmv2Switch:
    name: str
    device_id: int
    grpc_address: str
    process: subprocess.Popen[bytes]
    log: Path

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_DEADLINE_S
        with grpc.insecure_channel(self.grpc_address) as channel:
            ready = grpc.channel_ready_future(channel)
            while True:
                try:
                    ready.result(timeout=0.1)
                    return
                except grpc.FutureTimeoutError:
                    if self.process.poll() is not None or time.monotonic() > deadline:
                        ready.cancel()
                        raise RuntimeError(f"{self.name} did not start:\n{self.last_lines()}") from None

    def last_lines(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])


def add_veth(inside: str, outside: str) -> None:
    """A pair of interfaces without IPv6, so that nothing but our frames crosses it."""
    subprocess.run(["ip", "link", "add", inside, "type", "veth", "peer", "name", outside], check=True)
    for name in (inside, outside):
        Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
        subprocess.run(["ip", "link", "set", name, "mtu", "1600", "up"], check=True)


@contextlib.contextmanager
def running(ports: Mapping[str, Mapping[int, str]], folder: Path) -> Iterator[dict[str, Bmv2Switch]]:
    """Start a switch for each name with its interfaces by port. The network namespace is ours: ports are free."""
    binary = find_bmv2()
    if binary is None:
        raise RuntimeError("simple_switch_grpc not found")
    switches: dict[str, Bmv2Switch] = {}
    try:
        for index, (name, interfaces) in enumerate(ports.items()):
            log = folder / f"{name}.log"
            address = f"127.0.0.1:{50051 + index}"
            command = [binary, "--no-p4", "--device-id", str(index + 1), "--thrift-port", str(9090 + index)]
            command += [part for port, name_ in interfaces.items() for part in ("-i", f"{port}@{name_}")]
            command += ["--log-console", "-L", "warn", "--", "--grpc-server-addr", address]
            command += ["--cpu-port", str(CPU_PORT), "--priority-queues", "8"]
            with log.open("wb") as output:
                process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
            switches[name] = Bmv2Switch(name, index + 1, address, process, log)
        for switch in switches.values():
            switch.wait_ready()
        yield switches
    finally:
        for switch in switches.values():
            switch.process.send_signal(signal.SIGTERM)
        for switch in switches.values():
            try:
                switch.process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                switch.process.kill()
                switch.process.wait()
