"""A Slurm cluster on this machine: munged, slurmctld, and a slurmd for each host, ended with all that they started."""

import contextlib
import os
import pwd
import secrets
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from p4reduce.base.ports import free_ports
from p4reduce.comm.slurm_step import NETWORK
from p4reduce.fabric.real.net.processes import carrying, kill
from p4reduce.fabric.real.net.state import VARIABLE, RunFolder
from p4reduce.schedulers.slurm.client import Client
from p4reduce.schedulers.slurm.conf import Place, conf_files
from p4reduce.schedulers.slurm.errors import SlurmError
from p4reduce.schedulers.slurm.programs import ROOT, Programs, find_programs
from p4reduce.topologies import Topology

UP_S: Final = 60.0
"""for all nodes to be idle"""
GRACE_S: Final = 5.0
_LOOK_S: Final = 0.1
_KEPT: Final = ("HOME", "USER", "LOGNAME", "LANG", "TMPDIR", "XDG_STATE_HOME", "VIRTUAL_ENV", "PYTHONPATH", ROOT)
_SHOWN: Final = 300


class SlurmCluster:
    """Use as a context manager: up when it is entered; nothing is left of it afterwards, but what jobs wrote.

    Parameters
    ----------
    topology : Topology
        Its hosts for local models are the nodes.
    run : RunFolder
        Whose word all its processes carry.
    programs : Programs or None
        Slurm's; None: those that are found.
    """

    def __init__(self, topology: Topology, run: RunFolder, *, programs: Programs | None = None) -> None:
        self.topology = topology
        self._programs = find_programs() if programs is None else programs
        self._run = run
        self.folder = run.aside()
        self.network = self.folder / "net"
        """for the sockets of a :class:`~p4reduce.schedulers.network.SharedNetwork`"""
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {
            **{name: os.environ[name] for name in _KEPT if name in os.environ},
            **self._programs.environment,
            **run.environment,
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            NETWORK: str(self.network),
        }
        self.client = Client(self._programs, self.environment)

    @property
    def public_environment(self) -> dict[str, str]:
        """What others need to submit to it."""
        names = ("PATH", "LD_LIBRARY_PATH", "SLURM_CONF", NETWORK, VARIABLE, ROOT)
        return {name: self.environment[name] for name in names if name in self.environment}

    def start(self, said: Callable[[str, int, int], None] = lambda label, done, total: None) -> None:
        """Write the files, start all daemons and wait until every node is idle; `SlurmError` says who is not."""
        hosts = [host.name for host in self.topology.workers]
        ports = free_ports(len(hosts) + 1)
        place = Place(
            self.folder,
            socket.gethostname().split(".")[0],
            pwd.getpwuid(os.getuid()).pw_name,
            ports[0],
            dict(zip(hosts, ports[1:], strict=True)),
            self._programs.plugins,
        )
        for name in ("state", "spool", "net"):
            (self.folder / name).mkdir(mode=0o700)
        for name, text in conf_files(self.topology, place).items():
            (self.folder / name).write_text(text, "utf-8")
        key = self.folder / "munge.key"
        key.touch(0o600)
        key.write_bytes(secrets.token_bytes(1024))
        self._start_munged(place)
        self.start_controller()
        for host in hosts:
            self.start_node(host)
        self._await_nodes(hosts, said)

    def start_controller(self) -> None:
        """Slurmctld, with the state that it had."""
        self._start("slurmctld", "slurmctld", "-D", "-f", self.environment["SLURM_CONF"])

    def start_node(self, host: str) -> None:
        """The slurmd of a host."""
        step = ["-d", self._programs["slurmstepd"]] if "slurmstepd" in self._programs.paths else []
        self._start(f"slurmd.{host}", "slurmd", "-D", "-N", host, "-f", self.environment["SLURM_CONF"], *step)

    def end(self, name: str) -> None:
        """End a daemon, 'slurmctld' or 'slurmd.HOST', and wait for it; slurmctld writes down what it knows."""
        process = self._processes.pop(name)
        process.terminate()
        process.wait()

    def stop(self) -> None:
        """End the daemons and all that they started."""
        for process in self._processes.values():
            process.terminate()
        deadline = time.monotonic() + GRACE_S
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
        while left := carrying(VARIABLE, self._run.environment[VARIABLE]):
            for one in left:
                kill(one)
            for process in self._processes.values():
                process.poll()  # ours that were killed are waited for, or they stay
        for process in self._processes.values():
            process.wait()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start_munged(self, place: Place) -> None:
        folder = self.folder
        # Forced: it would have everybody enter the socket's folder, and only this user may.
        files = {
            "key-file": folder / "munge.key",
            "socket": place.munge_socket,
            "pid-file": folder / "munged.pid",
            "log-file": folder / "munged.log",
            "seed-file": folder / "munge.seed",
        }
        options = [f"--{name}={path}" for name, path in files.items()]
        self._start("munged", "munged", "--foreground", "--force", "--num-threads=2", *options)
        self._await(place.munge_socket.exists, "munged")

    def _start(self, name: str, program: str, *arguments: str) -> None:
        log = self._log(name)
        with log.open("ab") as output:
            try:
                self._processes[name] = subprocess.Popen(
                    [self._programs[program], *arguments],
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    cwd=self.folder,
                    start_new_session=True,
                )
            except OSError as error:
                raise SlurmError(f"{program}: {error.strerror}") from None

    def _await_nodes(self, hosts: list[str], said: Callable[[str, int, int], None]) -> None:
        idle: dict[str, bool] = {}

        def up() -> bool:
            nonlocal idle
            idle = self.client.nodes()
            said("nodes", sum(idle.values()), len(hosts))
            return all(idle.get(host) for host in hosts)

        try:
            self._await(up, "slurmctld")
        except SlurmError as error:
            down = ", ".join([host for host in hosts if not idle.get(host)][:8])
            raise SlurmError(f"{error}; not idle: {down}") from None

    def _await(self, there: Callable[[], bool], name: str) -> None:
        deadline = time.monotonic() + UP_S
        while not there():
            for one, process in self._processes.items():
                if process.poll() is not None:
                    raise SlurmError(f"{one} ended with exit code {process.returncode}: {self._last_words(one)}")
            if time.monotonic() > deadline:
                raise SlurmError(f"{name}: not ready after {UP_S:g} s: {self._last_words(name)}")
            time.sleep(_LOOK_S)

    def _log(self, name: str) -> Path:
        return self._run.logs / f"{name}.out"

    def _last_words(self, name: str) -> str:
        lines = self._log(name).read_text("utf-8", errors="replace").splitlines()
        return " ".join([line for line in lines if "error" in line or "fatal" in line][-2:])[-_SHOWN:]
