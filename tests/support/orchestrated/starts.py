"""Kills of the process that starts a network, at random moments: ``python -m tests.support.orchestrated.starts``.

After each kill, the next call must get a network and end it; then no process and no file may be left. Prints the
results; the exit code is 1 if a call was refused or something was left.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from p4reduce.group.errors import ClusterError
from p4reduce.play.tasks.service import await_end, join_network
from p4reduce.topologies import load, save
from tests.support.paths import ROOT

LEAVE_S = 20.0
"""seconds in which processes without their starter must end"""


def starter(socket: Path, topology: Path) -> "subprocess.Popen[str]":
    """Start a process that starts a network, prints "ready", and stays."""
    command = [sys.executable, "-m", "tests.support.orchestrated.starts", "--start", str(socket), str(topology)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def serving(socket: Path) -> list[int]:
    """Return processes that serve at a socket, or are about to."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(socket).encode() in words and b"--socket" in words:
                found.append(int(entry.name))
    return found


def killed_once(folder: Path, ready: Callable[["subprocess.Popen[str]", Path], None]) -> tuple[str, bool]:
    """Kill a starter when ``ready`` returns, and start a network again.

    Return what was refused or left ('' if nothing), and whether the kill left a serving process behind for a while.
    """
    socket = folder / "socket"
    with starter(socket, folder / "network.yaml") as process:
        ready(process, socket)
        process.kill()
        process.wait()
    orphaned = bool(serving(socket))
    try:
        executor = join_network(socket, str(folder / "network.yaml"), lanes=64)
        executor.now()
        executor.end()
        await_end(socket)
    except ClusterError as error:
        return str(error), orphaned
    deadline = time.monotonic() + LEAVE_S
    while serving(socket) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = sorted(path.name for path in folder.iterdir() if path.name != "network.yaml")
    left += [f"process {one}" for one in serving(socket)]
    left += [f"a log that says {path.read_text('utf-8', 'replace')!r}" for path in folder.glob("*.log")]
    return ", ".join(left) and f"left: {', '.join(left)}", orphaned


def main() -> int:
    """Run the soak; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.orchestrated.starts", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--start", nargs=2, metavar=("SOCKET", "TOPOLOGY"), help="only start a network and keep it up")
    given = parser.parse_args()
    if given.start:
        join_network(Path(given.start[0]), given.start[1], lanes=64)
        print("ready", flush=True)
        sys.stdin.read()
        return 0
    chance, seen, wrong = random.Random(given.seed), Counter[str](), list[str]()
    with tempfile.TemporaryDirectory(prefix="p4r-") as name:
        folder = Path(name)
        save(load("leaf-spine-8"), folder / "network.yaml")
        began = time.monotonic()
        with starter(folder / "socket", folder / "network.yaml") as process:
            assert process.stdout is not None
            process.stdout.readline()
            whole = time.monotonic() - began
            join_network(folder / "socket", str(folder / "network.yaml"), lanes=64).end()
            await_end(folder / "socket")
            process.kill()

        def wait(process: "subprocess.Popen[str]", socket: Path) -> None:
            time.sleep(chance.uniform(0, 1.3 * whole))

        for number in range(given.kills):
            fault, orphaned = killed_once(folder, wait)
            seen["kills"] += 1
            seen["of them while a process started, or served"] += orphaned
            if fault:
                wrong.append(fault)
                print(f"kill {number}: {fault}", flush=True)
            if (number + 1) % 20 == 0:
                print(f"{number + 1} of {given.kills} kills, {len(wrong)} wrong", file=sys.stderr, flush=True)
    for what, count in seen.items():
        print(f"{what:<45} {count:>6,}")
    print(f"{'refused, or left something':<45} {len(wrong):>6,}")
    print(f"{'a start takes, s':<45} {whole:>6.1f}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
