"""Simulated machines: network namespaces on a bridge, or loopback addresses if this user may not make namespaces."""

import contextlib
import functools
import os
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pyroute2 import IPRoute

from p4reduce.network.real.net.namespaces import inside, new_namespace
from p4reduce.network.real.net.state import VARIABLE, all_runs, carrying

T = TypeVar("T")
SSH = str(Path(__file__).with_name("ssh"))
"""path of the stand-in for ssh(1)"""


@functools.cache
def why_not() -> str | None:
    """Return why this process cannot make network namespaces; None if it can."""
    try:
        os.close(new_namespace())
    except OSError as error:
        return f"machines are network namespaces, which this user may not make here: {error.strerror}"
    return None


@dataclass(frozen=True)
class Machine:
    """A machine: its ``address`` for others, and the descriptor of its network namespace (None: this one)."""

    address: str
    namespace: int | None

    @property
    def path(self) -> str | None:
        """Path of its namespace for nsenter(1); None if it has none."""
        return None if self.namespace is None else f"/proc/{os.getpid()}/fd/{self.namespace}"

    def run(self, work: Callable[[], T]) -> T:
        """Run ``work`` on the machine: sockets that it opens are in the machine's namespace."""
        return work() if self.namespace is None else inside(self.namespace, work)

    def cut(self, first: "Machine") -> None:
        """Pull the machine's cable at the ``first`` machine's side; no socket gets an error."""

        def down() -> None:
            with IPRoute() as route:
                index = route.link_lookup(ifname=f"m{self.address.rpartition('.')[2]}")[0]
                route.link("set", index=index, state="down")

        first.run(down)


OWN_FILES = """
mkdir -p "$@" && for place in "$@" /dev/shm; do mount -t tmpfs tmpfs "$place" || exit; done && echo ready && exec cat
"""


@contextlib.contextmanager
def with_files(machine: Machine, *places: Path) -> Iterator[list[str]]:
    """Give commands on a machine their own files: ``places`` and /dev/shm are empty there. Yield the command prefix.

    Needs root, or a user namespace; check ``why_not`` first.
    """
    own = ["nsenter", f"--net={machine.path}", "unshare", "--mount", "--propagation", "private"]
    holds = subprocess.Popen(
        [*own, "sh", "-c", OWN_FILES, "sh", *map(str, places)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert holds.stdin is not None
    assert holds.stdout is not None
    try:
        assert holds.stdout.readline() == "ready\n"
        yield ["nsenter", f"--net={machine.path}", f"--mount=/proc/{holds.pid}/ns/mnt", f"--wd={Path.cwd()}"]
    finally:
        holds.stdin.close()
        holds.wait(10)
        holds.stdout.close()


def known_to_ssh(folder: Path, made: Sequence[Machine]) -> dict[str, str]:
    """Return environment variables with which `SSH` reaches machines pc1, pc2, …; the first is the launcher's."""
    rows = [f"pc{number} {one.path or '-'} {one.address} {made[0].address}\n" for number, one in enumerate(made, 1)]
    (folder / "machines").write_text("".join(rows))
    return {"MACHINES": str(folder / "machines"), "XDG_STATE_HOME": str(folder / "state")}


@contextlib.contextmanager
def machines(count: int) -> Iterator[list[Machine]]:
    """Yield ``count`` machines; their namespaces end with the context."""
    if why_not() is not None:
        yield [Machine(f"127.0.0.{number + 1}", None) for number in range(count)]
        return
    made = [Machine(f"10.77.0.{number + 1}", new_namespace()) for number in range(count)]
    try:
        made[0].run(functools.partial(_bridge, made))
        for one in made[1:]:
            one.run(functools.partial(_interface, one.address))
        yield made
    finally:
        for one in made:
            os.close(one.namespace)


def _bridge(made: list[Machine]) -> None:
    with IPRoute() as route:  # its socket belongs to the namespace of the calling thread
        _up(route, "lo")
        route.link("add", ifname="br0", kind="bridge")
        bridge = _up(route, "br0")
        route.addr("add", index=bridge, address=made[0].address, prefixlen=24)
        for number, one in enumerate(made[1:], 2):
            route.link("add", ifname=f"m{number}", kind="veth", peer={"ifname": "eth0", "net_ns_fd": one.namespace})
            route.link("set", index=_up(route, f"m{number}"), master=bridge)


def _interface(address: str) -> None:
    with IPRoute() as route:
        _up(route, "lo")
        route.addr("add", index=_up(route, "eth0"), address=address, prefixlen=24)


def _up(route: IPRoute, name: str) -> int:
    index = route.link_lookup(ifname=name)[0]
    route.link("set", index=index, state="up")
    return index


def gone_in(seconds: float = 40.0) -> bool:
    """Return whether all runs and their processes end within ``seconds``, or longer on a loaded machine.

    A rank that waits for a dead launcher gives up after 30 s. `make soak-hosts` measures how soon all have ended.
    """
    return eventually(lambda: not all_runs() and not left(), seconds)


def eventually(is_so: Callable[[], bool], seconds: float = 10.0) -> bool:
    """Return whether a condition becomes true within ``seconds``, or longer on a loaded machine."""
    deadline = time.monotonic() + seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    while time.monotonic() < deadline:
        if is_so():
            return True
        time.sleep(0.02)
    return False


def left() -> list[int]:
    """Return the processes of all runs in our state folder."""
    return [one for run in all_runs() for one in carrying(VARIABLE, run.word)]
