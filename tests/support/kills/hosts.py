"""Kills on several machines: ``python -m tests.support.kills.hosts --kills 100``.

Each run is a script whose ranks are on two to four machines (``tests.support.computers``: separate network, files, name
and sshd), in virtual or in real time (``launch --hosts``), or started separately with a ticket (``join``). It is struck
at a random moment between the start of the first process and the end of the last one:

- *launcher*, *agent*, *rank*, *session* (real time), *ssh* (either end of an agent's connection): SIGKILL;
- *both*: SIGKILL to the launcher and an agent at the same time;
- *asked*: the launcher gets Ctrl-C or SIGTERM;
- *cable*: a machine's cable is pulled, without a notification or at the machine's end (needs sshd).

The launcher must end within ``KILLED_S`` (``CUT_S`` for a cable), with an error that names what was struck. ``GONE_S``
after the strike (plus ``CUT_S`` for a cable), nothing may be left on any machine: no process, socket, interface,
folder, temporary file or key; ranks with a ticket that have not joined may wait for ``CONNECT_TIMEOUT_S`` more, because
the network may still be under construction. If the load exceeds the number of processors, limits are longer by the same
factor; the number of runs within the unscaled limits is printed at the end.
"""

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from p4reduce.base.signals import handling, raise_exit
from p4reduce.group.transport import CONNECT_TIMEOUT_S
from tests.support.computers import Computer, computers, ssh_words, sshd_stands
from tests.support.kills.strikes import arguments
from tests.support.machines import why_not
from tests.support.real import leftovers

KILLED_S, CUT_S, GONE_S = 5.0, 35.0, 5.0
LATE_S = 60.0
"""seconds after the bar at which leftovers count as permanent"""
JOIN_S = 60
"""seconds for which a launcher waits for ranks with a ticket, in vain for one that was struck before it joined"""
END_S = 120.0
MODES = ("virtual", "real", "ticket")
MOMENTS = ("before", "connecting", "starting", "running", "end")
STEPS = 30
NETWORK = "leaf-spine:leaves=2,spines=2,hosts=4"
SCRIPT = """import os, subprocess, sys, time
import numpy as np
from p4reduce import connect
if "CHILD" in os.environ:
    subprocess.Popen(["sleep", "1000"], start_new_session=os.environ["CHILD"] == "away")
comm = connect()
for step in range({steps}):
    array = np.full(5000, comm.rank + 1, np.float32)
    comm.all_reduce(array)
    assert (array == sum(range(1, comm.size + 1))).all()
    print("step", step, flush=True)
    time.sleep({pause})
comm.close()
print("over", flush=True)
"""
KEY = b"PRIVATE " + b"KEY"


@dataclass(frozen=True)
class Struck:
    """A strike: description, time (monotonic seconds), and names of which the launcher's error must have one."""

    what: str
    at_s: float
    named: tuple[str, ...] = ()


class Run:
    """One run, and its violations."""

    def __init__(self, there: list[Computer], rng: random.Random, seed: int, mode: str, kind: str) -> None:
        self.wrong: list[str] = []
        self.what = ""
        self.gone_s = self.named_s = 0.0
        self._there, self._rng, self._mode, self._kind = there, rng, mode, kind
        self._folder = there[0].folder
        self._out = self._folder / f"run-{seed}"
        self._out.mkdir()
        self._script = self._out / "script.py"
        self._started: list[subprocess.Popen[bytes]] = []
        self._texts: list[Path] = []
        self._joined = 0
        """number of ranks started with a ticket"""
        self._ranks_of: dict[str, list[str]] = {}
        """ranks started with a ticket, by machine"""

    # --- processes and output

    def _processes(self) -> dict[int, str]:
        """Return the run's processes on its machines, with their commands."""
        return {pid: arguments(pid) for pid in leftovers.processes(str(self._folder / "state"))}

    def _some(self, fits: Callable[[int, str], bool]) -> int | None:
        every = sorted(pid for pid, words in self._processes().items() if fits(pid, words))
        return self._rng.choice(every) if every else None

    def _where(self, pid: int) -> str:
        return next((one.name for one in self._there if one.is_there(pid)), "?")

    def _said(self) -> str:
        return "".join(path.read_text("utf-8", errors="replace") for path in self._texts)

    # --- a run

    def play(self) -> None:
        rng = self._rng
        self._script.write_text(SCRIPT.format(steps=STEPS, pause=rng.choice((0.0, 0.02, 0.05))))
        moment = rng.choice(MOMENTS)
        ranks = rng.choice((len(self._there), len(self._there) + 1, 2))
        self.what = f"{self._mode}, {ranks} ranks on {len(self._there)} machines, {self._kind} at {moment}"
        launcher = self._launch(ranks)
        try:
            self._reach(launcher, moment)
            struck = self._strike(launcher)
            if struck is None:
                self.what += ": nothing to strike"
                if launcher.wait(END_S * _busy()):
                    self.wrong.append(f"it failed without a strike; it said {self._said()[-300:]!r}")
                self._nothing_is_left(time.monotonic(), GONE_S)
                return
            self.what += f" ({struck.what})"
            self._ended(launcher, struck)
        except subprocess.TimeoutExpired:
            self.wrong.append(f"it hangs; it said {self._said()[-300:]!r}")
        finally:
            for one in self._started:
                one.kill()
                one.wait()
            for one in self._there:  # for the next run
                with contextlib.suppress(subprocess.CalledProcessError):
                    _mend(self._there[0], one)

    def _launch(self, ranks: int) -> "subprocess.Popen[bytes]":
        first = self._there[0]
        words = ["launch", "-t", NETWORK, "--plan", self._rng.choice(("steiner", "ring"))]
        flags, more = ssh_words(self._folder)
        if self._mode == "ticket":
            ticket = self._out / "job.json"
            words += ["-n", str(ranks), "--ticket", str(ticket), "--listen", first.machine.address]
            words += ["--timeout", str(JOIN_S)]
            launcher = self._start(first, words)
            self._joined = ranks
            for rank in range(ranks):
                self._ranks_of.setdefault(self._there[rank % len(self._there)].name, []).append(f"rank {rank}")
                join = ["join", "--ticket", str(ticket), "--rank", str(rank), str(self._script)]
                self._start(self._there[rank % len(self._there)], join)
            return launcher
        hosts = self._there if self._rng.random() < 0.7 or len(self._there) == 2 else self._there[1:]
        words += [*flags, "--hosts", ",".join(one.name for one in hosts), "-n", str(max(ranks, len(hosts)))]
        words += ["--time", "real", "--rate", "1G"] * (self._mode == "real")
        child = self._rng.choice((None, None, "beside", "away"))
        if child:
            self.what += f", with a child {child}"
            more["CHILD"] = child
            words += ["--env", "CHILD"]
        return self._start(first, [*words, str(self._script)], **more)

    def _start(self, there: Computer, words: list[str], **more: str) -> "subprocess.Popen[bytes]":
        self._texts.append(self._out / f"said-{len(self._texts)}")
        with self._texts[-1].open("wb") as said:
            command = [*there.enter, sys.executable, "-m", "p4reduce.cli.entry", *words]
            process = subprocess.Popen(
                command, env={**there.environment, **more}, stdin=subprocess.DEVNULL, stdout=said, stderr=said
            )
        self._started.append(process)
        return process

    def _reach(self, launcher: "subprocess.Popen[bytes]", moment: str) -> None:
        """Wait until the run has reached a moment, and a random time more."""
        rng = self._rng
        step = rng.randrange(STEPS)
        until: dict[str, tuple[Callable[[], bool], float]] = {
            "before": (lambda: True, 1.0),
            "connecting": (lambda: self._some(_is_agent) is not None or self._mode == "ticket", 2.0),
            "starting": (lambda: self._some(self._is_rank) is not None, 1.5),
            "running": (lambda: f"step {step}\n" in self._said(), 0.05),
            "end": (lambda: "over\n" in self._said() or f"step {STEPS - 1}\n" in self._said(), 0.3),
        }
        come, late_s = until[moment]
        while launcher.poll() is None and not come():
            time.sleep(0.01)
        time.sleep(rng.uniform(0, late_s))

    # --- a strike

    def _strike(self, launcher: "subprocess.Popen[bytes]") -> Struck | None:
        if launcher.poll() is not None:
            return None
        return getattr(self, f"_strike_{self._kind}")(launcher)

    def _strike_launcher(self, launcher: "subprocess.Popen[bytes]") -> Struck:
        launcher.kill()
        return Struck("killed", time.monotonic())

    def _strike_asked(self, launcher: "subprocess.Popen[bytes]") -> Struck:
        number = self._rng.choice((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        launcher.send_signal(number)
        return Struck(number.name, time.monotonic())

    def _strike_agent(self, _: object) -> Struck | None:
        return self._kill(_is_agent)

    def _strike_rank(self, _: object) -> Struck | None:
        return self._kill(self._is_rank)

    def _strike_session(self, _: object) -> Struck | None:
        return self._kill(lambda _, words: words.split()[-2:] == ["-m", "p4reduce.runs.real.session"])

    def _strike_ssh(self, _: object) -> Struck | None:
        return self._kill(lambda _, words: words.startswith(("ssh ", "sshd: ")))

    def _strike_both(self, launcher: "subprocess.Popen[bytes]") -> Struck | None:
        struck = self._kill(_is_agent)
        launcher.kill()
        return struck and Struck(f"launcher and {struck.what}", struck.at_s)

    def _strike_cable(self, _: object) -> Struck | None:
        victim = self._rng.choice(self._there[1:])
        named = (victim.name, *self._ranks_of.get(victim.name, ()))
        if self._rng.random() < 0.5:
            victim.machine.cut(self._there[0].machine)
            return Struck(f"of {victim.name}, silently", time.monotonic(), named)
        victim.sh("ip", "link", "set", "eth0", "down")
        return Struck(f"of {victim.name}, at its own end", time.monotonic(), named)

    def _is_rank(self, _: int, words: str) -> bool:
        return str(self._script) in words and "p4reduce.cli.entry" not in words and "nsenter" not in words

    def _kill(self, fits: Callable[[int, str], bool]) -> Struck | None:
        pid = self._some(fits)
        if pid is None:
            return None
        words = arguments(pid).split()
        name = self._where(pid)
        if words[0] == "ssh":  # the machine at the other end of the connection
            name = next(one.name for one in self._there if one.name in words)
        rank = _variable(pid, "P4REDUCE_RANK")
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            named = (name, f"rank {rank}") if rank else (name, "the session ended")
            return Struck(f"{' '.join(words[-2:])[-40:]} on {name}", time.monotonic(), named)
        return None

    # --- checks

    def _ended(self, launcher: "subprocess.Popen[bytes]", struck: Struck) -> None:
        cable, dead = self._kind == "cable", self._kind in {"launcher", "both"}
        bar_s = CUT_S + KILLED_S * (_busy() - 1) if cable else KILLED_S * _busy()
        launcher.wait(END_S * _busy())
        ended_s = time.monotonic()
        self.named_s = ended_s - struck.at_s
        whole = launcher.returncode == 0
        if not dead and not whole:
            errors = [
                line
                for line in self._texts[0].read_text("utf-8", errors="replace").splitlines()
                if line and not line.startswith("[")
            ]
            if any("Traceback" in line for line in errors):
                self.wrong.append(f"a traceback: {errors[-3:]}")
            if struck.named and not any(name in line for name in struck.named for line in errors):
                self.wrong.append(f"{struck.named} not named: {errors}")
            self.what += f"; {errors[-1][:160] if errors else 'said nothing'}"
            if self.named_s > bar_s and not any("the run took longer" in line for line in errors):
                self.wrong.append(f"ended {self.named_s:.1f} s after the strike, bar {bar_s:.1f} s")
        if whole and not dead:
            self.what += "; it ended well"
        late = whole or "the run took longer" in self._said()
        waits_s = CONNECT_TIMEOUT_S * (self._mode == "ticket" and self._said().count("step 0") < self._joined)
        bar_s = max(CUT_S * cable, self.named_s * late, waits_s)
        self._nothing_is_left(struck.at_s, bar_s + GONE_S * _busy())

    def _nothing_is_left(self, since_s: float, bar_s: float) -> None:
        """Check that nothing is left ``bar_s`` after ``since_s``; wait a minute more to tell late from never."""
        while (left := self._left()) and time.monotonic() < since_s + bar_s + LATE_S:
            if time.monotonic() > since_s + bar_s and not self.gone_s:
                self.gone_s = bar_s
                self.wrong.append(f"{bar_s:.1f} s later there is {sorted(left)[:6]}")
            time.sleep(0.05)
        self.gone_s = time.monotonic() - since_s
        if left:
            self.wrong.append(f"for good: {sorted(left)[:6]}")

    def _left(self) -> set[str]:
        left = {
            f"process {pid} {words[-120:]} on {self._where(pid)}"
            for pid, words in self._processes().items()
            if not words.startswith("nsenter")
        }
        for one in self._there:
            left |= one.left()
        for path in self._out.rglob("*"):
            with contextlib.suppress(OSError):
                if KEY in path.read_bytes():
                    left.add(f"a key in {path}")
        return left | {f"namespace {one}" for one in leftovers.namespaces()}


def _busy() -> float:
    """Return the factor by which the machine's load slows everything, at least 1."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _is_agent(_: int, words: str) -> bool:
    return words.split()[-2:] == ["-m", "p4reduce.runs.agent"] and not words.startswith(("ssh", "sh ", "/bin/sh"))


def _variable(pid: int, name: str) -> str:
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    except OSError:
        return ""
    return next((entry.partition("=")[2] for entry in entries if entry.startswith(f"{name}=")), "")


def _mend(first: Computer, one: Computer) -> None:
    if one is not first:
        first.sh("ip", "link", "set", f"m{one.machine.address.rpartition('.')[2]}", "up")
        one.sh("ip", "link", "set", "eth0", "up")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="only strikes of this kind")
    parser.add_argument("--mode", choices=MODES)
    chosen = parser.parse_args()
    if (why := why_not()) is not None or os.geteuid() != 0:
        print(f"needs root: {why or 'machines have files of their own'}", file=sys.stderr)
        return 2
    kinds = {
        "virtual": ["launcher"] * 4 + ["agent"] * 4 + ["rank"] * 3 + ["both", "asked"],
        "real": ["launcher"] * 3 + ["agent"] * 4 + ["rank"] * 3 + ["session"] * 2 + ["both", "asked"],
        "ticket": ["launcher"] * 2 + ["rank"] * 2 + ["asked"],
    }
    if sshd_stands():
        kinds = {mode: [*every, "cable", "cable", *["ssh"] * (mode != "ticket")] for mode, every in kinds.items()}
    else:
        print("no sshd: its connections are not struck, and no cable is pulled")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs may inherit it ignored
    with handling(raise_exit, signal.SIGTERM):
        return soak(chosen, kinds)


def soak(chosen: argparse.Namespace, kinds: dict[str, list[str]]) -> int:
    counts: Counter[str] = Counter()
    kills, broken, seed = 0, 0, chosen.seed
    named: list[float] = []
    gone: list[float] = []
    while kills < chosen.kills:
        rng = random.Random(seed)
        mode = chosen.mode or rng.choice(("virtual", "virtual", "real", "real", "ticket"))
        kind = chosen.only or rng.choice(kinds[mode])
        with (
            tempfile.TemporaryDirectory(prefix="kh", dir="/tmp") as folder,  # socket paths must be short
            computers(rng.choice((2, 2, 3, 4)), Path(folder)) as there,
        ):
            run = Run(there, rng, seed, mode, kind)
            try:
                run.play()
            except Exception as error:  # the soak continues with the next run
                run.wrong.append(f"{type(error).__name__}: {error}")
            for pid in leftovers.processes(str(Path(folder) / "state")):  # none may harm the next run
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        struck = "nothing to strike" not in run.what
        kills += struck
        counts[f"{mode} {kind}"] += struck
        broken += bool(run.wrong)
        if struck and kind != "cable":
            named.append(run.named_s)
            gone.append(run.gone_s)
        state = "WRONG" if run.wrong else "good"
        print(f"{seed} {state}: {run.what}; ended {run.named_s:.1f} s, gone {run.gone_s:.1f} s", *run.wrong, sep="\n  ")
        sys.stdout.flush()
        seed += 1
    print(f"{kills} strikes ({dict(sorted(counts.items()))}), {broken} runs with something wrong")
    for what, seconds, bar_s in (("launcher ended", named, KILLED_S), ("nothing left", gone, GONE_S)):
        if seconds:
            within = sum(one <= bar_s for one in seconds)
            print(f"{what}, without cables: {within} of {len(seconds)} within {bar_s} s, at worst {max(seconds):.1f} s")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
