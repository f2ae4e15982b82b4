"""Kills of workers, switches and controllers: ``python -m tests.support.kills.real --kills 100``.

Each run is a script at several hosts, whose processes are struck at random moments:

- *worker*: one or two are killed, or stopped for good, by the side of one that is stopped for half a second. The others
  go on (``--on-failure shrink``, or ``raise``), with the invariants of ``invariants.py`` and within the bars below.
- *switch* (``--target bmv2``): one of two spines is killed. All go on, on another tree.
- *link* (``--links veth``): one to a spine, or to a host, loses its carrier. All go on, or all but that host.
- *controller*: the session is killed, with its embedded switches: one error within ``RESUMED_S``.
- *abort*: a worker is killed, and all end with one error within ``RESUMED_S``; or start anew (``--max-restarts 1``) and
  end with the weights of a training that nothing ended.

Nothing may be left of any: processes, namespaces, folders.
"""

import argparse
import fcntl
import json
import os
import random
import re
import signal
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from tests.support.kills import played
from tests.support.kills.invariants import check
from tests.support.real import leftovers

from p4reduce.fabric.real.net.namespaces import inside
from p4reduce.fabric.real.net.network import HOST_INTERFACE
from p4reduce.topologies import load

PROCESS_S, HOST_S, SWITCH_S, RESUMED_S = 0.1, 1.5, 1.0, 2.5
OPERATIONS, PAUSE_S, RANKS = 40, 0.02, 5
SESSION = "p4reduce.runs.real.session"
NETWORK = "leaf-spine:leaves=2,spines=2,hosts=3"
SCRIPT = """import hashlib, sys, time
import numpy as np
from p4reduce import Checkpoint, connect
checkpoint, comm = Checkpoint(sys.argv[1]), connect()
state = checkpoint.load()
weights, begin = np.zeros(5000, np.float32), 0
if state is not None:
    weights, begin = state.arrays["w"], state.iteration
print("begins at", begin)
for iteration in range(begin, 60):
    gradient = (weights * 0.5 + iteration + comm.rank).astype(np.float32)
    comm.all_reduce(gradient)
    weights -= np.float32(0.01) * gradient
    if comm.rank == 0 and iteration % 5 == 4:
        checkpoint.save(iteration + 1, {"w": weights})
    time.sleep(0.02)
print("ended with", hashlib.sha256(weights.tobytes()).hexdigest())
comm.close()
"""


@dataclass
class Times:
    """Seconds, by what was struck."""

    detected: dict[str, list[float]] = field(default_factory=dict)
    resumed: dict[str, list[float]] = field(default_factory=dict)
    ended: list[float] = field(default_factory=list)

    def show(self) -> None:
        bars = {"killed": PROCESS_S, "stopped": HOST_S, "switch": SWITCH_S, "link": HOST_S}
        rows = [("detected", kind, values, bars[kind]) for kind, values in self.detected.items()]
        rows += [("resumed", kind, values, RESUMED_S) for kind, values in self.resumed.items()]
        rows += [("all ended", "controller, abort", self.ended, RESUMED_S)] if self.ended else []
        for what, kind, values, bar in rows:
            middle = statistics.median(values)
            print(f"{what} ({kind}): median {middle:.3f} s, worst {max(values):.3f} s of {len(values)} (bar {bar} s)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--target", choices=("embedded", "bmv2"), default="embedded")
    parser.add_argument("--links", choices=("veth", "udp"), default="udp")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=("worker", "switch", "link", "controller", "abort"))
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = os.environ["TMPDIR"] = tempfile.tempdir = folder
        return soak(chosen, Path(folder))


def soak(chosen: argparse.Namespace, folder: Path) -> int:
    before = leftovers.namespaces()
    kinds = ["worker"] * 6 + ["controller"] * 2 + ["abort"] * 2
    kinds += ["switch"] * 3 * (chosen.target == "bmv2") + ["link"] * 3 * (chosen.links == "veth")
    times, counts, kills, broken, seed = Times(), Counter(), 0, 0, chosen.seed
    while kills < chosen.kills:
        rng = random.Random(seed)
        kind = chosen.only or rng.choice(kinds)
        run = Run(chosen, folder / f"run-{seed}", rng, seed, times)
        try:
            run.play(kind)
        except Exception as error:  # whatever it is, the next one is drawn
            run.wrong.append(f"{type(error).__name__}: {error}")
        left = leftovers.wait_until_gone(os.environ["XDG_STATE_HOME"])
        run.wrong += [f"left {left}"] if left else []
        kills += max(1, run.kills)
        counts[kind] += max(1, run.kills)
        broken += bool(run.wrong)
        print(f"seed {seed}, {run.what}: {'; '.join(run.wrong) or 'ok'}", flush=True)
        seed += 1
    from p4reduce.fabric.real.net.state import remove_stale

    remove_stale()
    more = leftovers.namespaces() - before
    runs = sorted(path.name for path in (folder / "p4reduce").glob("runs/[!.]*"))
    print(f"{kills} kills in {seed - chosen.seed} runs: {', '.join(f'{n} {kind}' for kind, n in counts.items())}")
    times.show()
    print(f"left: namespaces {sorted(more)}, runs {runs}; {broken} runs in which something did not hold")
    return int(bool(more or runs or broken))


class Run:
    """One run; ``wrong`` is what did not hold."""

    _weights: ClassVar[set[str]] = set()
    """Of a training that nothing ends."""

    def __init__(self, chosen: argparse.Namespace, folder: Path, rng: random.Random, seed: int, times: Times) -> None:
        folder.mkdir()
        self._chosen, self._folder, self._rng, self._seed, self._times = chosen, folder, rng, seed, times
        self.wrong: list[str] = []
        self.what, self.kills = "", 0

    def play(self, kind: str) -> None:
        if kind == "abort":
            self._training(self._rng.random() < 0.5)
        else:
            self._group(kind)

    # --- a group that may go on

    def _group(self, kind: str) -> None:
        rng = self._rng
        topology = NETWORK if kind in {"switch", "link"} or rng.random() < 0.5 else "star:hosts=5"
        plan = "steiner" if kind in {"switch", "link"} else rng.choice(("steiner", "steiner", "ring"))
        elements = rng.choice((1, 50, 500))
        on_failure = rng.choice(("shrink", "shrink", "raise"))
        victims = self._draw(kind)
        self.what = f"{kind} of {plan} on {topology}, {elements} elements, {on_failure}: {victims}"
        command = [
            "-n",
            str(RANKS),
            "-t",
            topology,
            "--plan",
            plan,
            "--on-failure",
            on_failure,
            "--json",
            "--timeout",
            "60",
        ]
        command += ["python", "-m", "tests.support.kills.played", str(self._folder), str(self._seed)]
        struck: list[tuple[str, str, int]] = []
        with self._launch([*command, str(OPERATIONS), str(elements)], PAUSE_S=str(PAUSE_S)) as process:
            for what, victim, rank, after in victims:
                if not self._reach(process, rank, after):
                    break
                if at := self._strike(what, victim):
                    struck.append((what, victim, at))
                    self.kills += what != "paused"
            out, err = process.communicate(timeout=120)
        took = (time.monotonic_ns() - struck[-1][2]) / 1e9 if struck else 0.0
        if kind == "controller":
            self._one_error(process.returncode, err, took)
            return
        self._survived(process.returncode, out, err, struck, elements)

    def _draw(self, kind: str) -> list[tuple[str, str, int, int]]:
        """What is done to whom once which rank has how many results."""
        rng = self._rng
        if kind == "link":
            victim = rng.choice(("spine1-leaf1", "spine1-leaf2", "leaf1-h2"))
            return [(kind, victim, 0, rng.randrange(2, OPERATIONS // 2))]
        if kind != "worker":
            return [(kind, rng.choice(("spine1", "spine1", "spine2")), 0, rng.randrange(2, OPERATIONS // 2))]
        ranks = rng.sample(range(RANKS), 3)
        found = [("paused", str(ranks[0]), ranks[0], rng.randrange(1, OPERATIONS // 2))] if rng.random() < 0.3 else []
        for rank in ranks[1 : rng.choice((2, 2, 3))]:
            after = rng.randrange(1, OPERATIONS - 10)
            found.append((rng.choice(("killed", "killed", "stopped")), str(rank), ranks[0], after))
        return sorted(found, key=lambda one: one[3])

    def _reach(self, process: subprocess.Popen, rank: int, results: int) -> bool:
        """Wait until a rank has so many results, and a little; False when the run ended before."""
        while process.poll() is None:
            had = [played.results(self._folder, one) for one in range(RANKS)]
            if min(had) >= 0 and had[rank] >= results:
                time.sleep(self._rng.uniform(0, 0.03))
                return True
            time.sleep(0.005)
        self.wrong.append("the run ended before it was struck")
        return False

    def _strike(self, what: str, victim: str) -> int:
        """When it was done; 0 for one that was late: who has all results has no part in the group any more."""
        if what in {"killed", "stopped", "paused"}:
            (_, pid, _), *_ = played.lines(self._folder, int(victim))
            at = time.monotonic_ns()
            os.kill(pid, signal.SIGSTOP)
            late = played.results(self._folder, int(victim)) == OPERATIONS
            if what == "killed" and not late:
                at = time.monotonic_ns()
                os.kill(pid, signal.SIGKILL)
            elif what == "paused":
                time.sleep(0.5)
            if what == "paused" or late:
                os.kill(pid, signal.SIGCONT)
            return 0 if late else at
        if what == "link":
            return self._cut(*victim.split("-"))
        mark = SESSION if what == "controller" else f"/{victim}.log"
        for pid in sorted(leftovers.processes(os.environ["XDG_STATE_HOME"])):
            if (what == "controller" and mark in _arguments(pid)) or (what == "switch" and _writes_to(pid, mark)):
                at = time.monotonic_ns()
                os.kill(pid, signal.SIGKILL)
                return at
        self.wrong.append(f"no {what} to strike")
        return 0

    def _cut(self, switch: str, other: str) -> int:
        """Switch an interface off at one end: a spine's, or a host's (BMv2 hears of nothing more where its own is)."""
        if switch.startswith("spine"):
            every = leftovers.processes(os.environ["XDG_STATE_HOME"])
            (pid,) = [pid for pid in every if SESSION in _arguments(pid)]
            interface = f"{switch}-{load(NETWORK).port(switch, other)}"
        else:
            (_, pid, _), *_ = played.lines(self._folder, 1)
            interface = HOST_INTERFACE
        namespace = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
        try:
            at = time.monotonic_ns()
            inside(namespace, lambda: _switch_off(interface))
        finally:
            os.close(namespace)
        return at

    def _survived(self, code: int, out: str, err: str, struck: list[tuple[str, str, int]], elements: int) -> None:
        gone = {int(victim) for what, victim, _ in struck if what in {"killed", "stopped"}}
        gone |= {1 for _, victim, _ in struck if victim == "leaf1-h2"}
        if code != 0:
            self.wrong.append(f"ended with code {code}: {err.splitlines()[-3:]}")
            return
        result = json.loads(out)
        decisions = result["network"].get("membership", [])
        lost = {int(rank): reason for decision in decisions for rank, reason in decision["lost"].items()}
        survivors = set(range(RANKS)) - gone
        if set(lost) != gone:
            self.wrong.append(f"lost {lost}, struck {struck}")
            return
        check(played.read(self._folder, RANKS), survivors, self._seed, OPERATIONS, elements)
        for what, victim, at in struck:
            if what == "paused":
                continue
            of = [
                times
                for times, decision in zip(result["real"]["changes"], decisions, strict=True)
                if (victim in decision["lost"] if what not in {"switch", "link"} else times["noticed_ns"] > at)
            ]
            if what in {"switch", "link"} and not of:
                continue  # the tree has no need of it
            self._note(self._times.detected, what, (of[0]["noticed_ns"] - at) / 1e9)
            begun = of[0]["resumed_ns"]
            firsts = [
                min(
                    (when for kind, _, when in played.lines(self._folder, rank) if kind == "results" and when > begun),
                    default=at,
                )
                for rank in survivors
            ]
            self._note(self._times.resumed, what, (max(firsts) - at) / 1e9)

    def _note(self, times: dict[str, list[float]], what: str, seconds: float) -> None:
        times.setdefault(what, []).append(seconds)
        bars = {"killed": PROCESS_S, "stopped": HOST_S, "switch": SWITCH_S, "link": HOST_S}
        bar = bars[what] if times is self._times.detected else RESUMED_S
        if seconds > bar:
            self.wrong.append(f"{what}: {seconds:.3f} s, bar {bar} s")

    # --- one that ends, or starts anew

    def _training(self, restarted: bool) -> None:
        script = self._folder / "script.py"
        script.write_text(SCRIPT)
        self.what, self.kills = f"abort, {'started anew' if restarted else 'for good'}", 1
        more = ["-n", "3", "-t", "star:hosts=3", "--max-restarts", str(int(restarted)), str(script)]
        if restarted and not Run._weights:
            with self._launch([*more, str(self._folder / "whole")]) as process:
                Run._weights = set(re.findall(r"ended with (\w{64})", process.communicate(timeout=120)[0]))
        with self._launch([*more, str(self._folder / "state")]) as process:
            first = process.stdout.readline()
            while first and "begins at" not in first:
                first = process.stdout.readline()
            time.sleep(self._rng.uniform(0, 1.0))
            ranks = [pid for pid in leftovers.processes(os.environ["XDG_STATE_HOME"]) if _is_rank(pid)]
            struck = time.monotonic()
            os.kill(self._rng.choice(sorted(ranks)), signal.SIGKILL)
            out, err = process.communicate(timeout=120)
            took = time.monotonic() - struck
        ends = set(re.findall(r"ended with (\w{64})", out))
        if not restarted:
            self._one_error(process.returncode, err, took)
        elif process.returncode or ends != Run._weights:
            self.wrong.append(f"code {process.returncode}, weights {ends}")

    def _one_error(self, code: int, err: str, took: float) -> None:
        said = [line for line in err.splitlines() if line and not line.startswith("[")]
        self.wrong += [] if code else ["it ended well"]
        self.wrong += [] if said and "Traceback" not in err else [f"no clear error: {said}"]
        self.wrong += [f"took {took:.2f} s"] if took > RESUMED_S else []
        self._times.ended.append(took)

    def _launch(self, arguments: list[str], **environment: str) -> subprocess.Popen:
        real = ["--time", "real", "--links", self._chosen.links, "--target", self._chosen.target, "--lanes", "64"]
        command = [sys.executable, "-m", "p4reduce.cli.entry", "launch", *real, *arguments]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env={**os.environ, **environment})


def _switch_off(interface: str) -> None:
    """As root: SIOCGIFFLAGS and SIOCSIFFLAGS of netdevice(7), without IFF_UP."""
    request = struct.Struct("16sH22x")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        _, flags = request.unpack(fcntl.ioctl(any_socket, 0x8913, request.pack(interface.encode(), 0)))
        fcntl.ioctl(any_socket, 0x8914, request.pack(interface.encode(), flags & ~1))


def _arguments(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ")
    except OSError:
        return ""


def _is_rank(pid: int) -> bool:
    return "script.py" in (said := _arguments(pid)) and "launch" not in said


def _writes_to(pid: int, log: str) -> bool:
    try:
        return str(Path(f"/proc/{pid}/fd/1").readlink()).endswith(log)
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
