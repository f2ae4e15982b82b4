"""Simulated machines with their own names, files and sshd.

So a test sees what a run leaves on each machine, and the real ssh(1) notices a pulled cable.
"""

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from p4switch.compiler.jit import cache_directory
from tests.support.machines import SSH, Machine, machines

SSHD = os.environ.get("SSHD") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin")
"""Path of sshd(8), which needs root here. Without it `tests/support/ssh` starts the agents, whose cables cannot be
pulled."""
PLACES = ("home", "state", "tmp")
OWN = """
name=$1 folder=$2 && shift 2 && hostname "$name" || exit
for place in "$@" /dev/shm; do mkdir -p "$place" && mount -t tmpfs "$name" "$place" || exit; done
mount --bind "$folder/hosts-$name" /etc/hosts || exit
if [ -f "$folder/passwd-$name" ]; then
    mount --bind "$folder/passwd-$name" /etc/passwd && mount -t tmpfs "$name" /run && mkdir /run/sshd || exit
    mkdir -m 700 "$1/.ssh" && cp "$folder/ssh_config" "$1/.ssh/config" && cp "$folder/client" "$1/.ssh/client" || exit
fi
echo ready && exec cat
"""
SHELL = """#!/bin/sh
[ ! -f {folder}/plant-{name} ] || . {folder}/plant-{name}
exec /bin/sh "$@"
"""
"""Login shell of the machines' users; it sources the file ``plant-NAME`` first if there is one."""
SSHD_CONFIG = """
Port 22
ListenAddress {address}
HostKey {folder}/server
AuthorizedKeysFile {folder}/client.pub
StrictModes no
PidFile none
UsePAM no
PermitRootLogin yes
MaxStartups 100
SetEnv XDG_STATE_HOME={folder}/state TMPDIR={folder}/tmp P4REDUCE_CACHE={cache}
"""
SSH_CONFIG = """
Host *
    IdentityFile {folder}/home/.ssh/client
    StrictHostKeyChecking no
    UserKnownHostsFile /dev/null
    LogLevel ERROR
"""


def sshd_stands() -> bool:
    """Return whether there is an sshd that can be used here."""
    return SSHD is not None and os.geteuid() == 0


@dataclass(frozen=True)
class Computer:
    """A machine: ``name`` is its ssh host name, ``holder`` the PID of the process that keeps its namespaces alive."""

    name: str
    machine: Machine
    holder: int
    folder: Path

    @property
    def enter(self) -> list[str]:
        """Command prefix that runs a program on the machine."""
        spaces = [f"--{kind}=/proc/{self.holder}/ns/{kind[:3]}" for kind in ("net", "uts")]
        return ["nsenter", *spaces, f"--mount=/proc/{self.holder}/ns/mnt", f"--wd={Path.cwd()}"]

    @property
    def root(self) -> Path:
        """Path of the machine's root directory as seen from outside."""
        return Path(f"/proc/{self.holder}/root")

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables of a user on the machine."""
        own = {"HOME": "home", "XDG_STATE_HOME": "state", "TMPDIR": "tmp"}
        given = {name: str(self.folder / place) for name, place in own.items()}
        return {"PATH": os.environ["PATH"], "P4REDUCE_CACHE": str(cache_directory()), **given}

    def sh(self, *command: str) -> None:
        """Run a program on the machine; raise CalledProcessError if it fails."""
        subprocess.run([*self.enter, *command], check=True, capture_output=True)

    def is_there(self, pid: int) -> bool:
        """Return whether a process runs on this machine."""
        try:
            return Path(f"/proc/{pid}/ns/net").readlink() == Path(f"/proc/{self.holder}/ns/net").readlink()
        except OSError:
            return False

    def left(self) -> set[str]:
        """Return leftovers of runs: folders, sockets, interfaces and temporary files; empty on a clean machine."""
        found = set()
        for place in (*(str(self.folder / one) for one in PLACES), "/dev/shm"):  # noqa: S108
            for path in (self.root / place[1:]).rglob("*"):
                if path.name not in {".lock", ".ssh"} and ".ssh" not in path.parts and not _is_empty(path):
                    found.add(f"{self.name}: {path}")
        for kind in ("tcp", "udp"):
            rows = Path(f"/proc/{self.holder}/net/{kind}").read_text("utf-8").splitlines()[1:]
            for row in (line.split() for line in rows):
                if row[9] != "0" and not row[1].endswith(":0016"):  # neither sshd nor the kernel's TIME_WAIT
                    found.add(f"{self.name}: {kind} {row[1]} {row[2]} {row[3]}")
        links = Path(f"/proc/{self.holder}/net/dev").read_text("utf-8").splitlines()[2:]
        names = {line.partition(":")[0].strip() for line in links}
        known = {"lo", "eth0", "br0"}
        return found | {f"{self.name}: link {one}" for one in names - known if not one.startswith("m")}


def _is_empty(path: Path) -> bool:
    """Return whether a path is a folder that runs create once and keep."""
    return path.is_dir() and path.name in {"p4reduce", "runs"} and not path.name.startswith(".new-")


@contextlib.contextmanager
def computers(count: int, folder: Path) -> Iterator[list[Computer]]:
    """Yield ``count`` machines, pc1, pc2, …, below ``folder`` (keep its path short); the first is the launcher's.

    Needs root.
    """
    with contextlib.ExitStack() as stack:
        made = stack.enter_context(machines(count))
        _write(folder, made)
        there = [_one(stack, number, machine, folder) for number, machine in enumerate(made, 1)]
        if not sshd_stands():
            rows = [
                f"{one.name} /proc/{one.holder}/ns/net {one.machine.address} {made[0].address} {one.holder} "
                f"{folder}/shell-{one.name}\n"
                for one in there
            ]
            (folder / "machines").write_text("".join(rows))
        yield there


def ssh_words(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Return the p4reduce flags and environment variables needed to reach the machines."""
    return ([], {}) if sshd_stands() else (["--ssh", SSH], {"MACHINES": str(folder / "machines")})


def _write(folder: Path, made: list[Machine]) -> None:
    folder.mkdir(exist_ok=True)
    rows = [f"{machine.address} pc{number}\n" for number, machine in enumerate(made, 1)]
    for name in (f"pc{number}" for number in range(1, len(made) + 1)):
        (folder / f"hosts-{name}").write_text("127.0.0.1 localhost\n" + "".join(rows))
        shell = folder / f"shell-{name}"
        shell.write_text(SHELL.format(folder=folder, name=name))
        shell.chmod(0o755)
        if sshd_stands():
            (folder / f"passwd-{name}").write_text(
                f"root:x:0:0:root:{folder}/home:{shell}\nsshd:x:74:74::/run/sshd:/usr/sbin/nologin\n"
            )
    if sshd_stands():
        for name in ("server", "client"):
            command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)]
            subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
        (folder / "ssh_config").write_text(SSH_CONFIG.format(folder=folder))


def _one(stack: contextlib.ExitStack, number: int, machine: Machine, folder: Path) -> Computer:
    name = f"pc{number}"
    own = ["nsenter", f"--net={machine.path}", "unshare", "--mount", "--uts", "--propagation", "private"]
    holds = subprocess.Popen(
        [*own, "sh", "-c", OWN, "sh", name, str(folder), *(str(folder / place) for place in PLACES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    stack.callback(_ended, holds)
    assert holds.stdout is not None
    assert holds.stdout.readline() == "ready\n"
    made = Computer(name, machine, holds.pid, folder)
    if sshd_stands():
        assert SSHD is not None
        config = folder / f"sshd-{name}"
        config.write_text(
            SSHD_CONFIG.format(address=machine.address, folder=folder, cache=cache_directory()), encoding="utf-8"
        )
        log = stack.enter_context((folder / f"sshd-{name}.log").open("w"))
        serves = subprocess.Popen([*made.enter, SSHD, "-D", "-e", "-f", str(config)], stderr=log)
        stack.callback(_ended, serves)
        _wait_for_sshd(made, serves)
    return made


def _wait_for_sshd(made: Computer, serves: "subprocess.Popen[bytes]") -> None:
    sockets = Path(f"/proc/{made.holder}/net/tcp")
    while not any(" 0A " in line and ":0016 " in line for line in sockets.read_text("utf-8").splitlines()):
        assert serves.poll() is None, (made.folder / f"sshd-{made.name}.log").read_text()
        time.sleep(0.01)


def _ended(process: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
