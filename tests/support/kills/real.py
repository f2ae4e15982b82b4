"""Kills of workers, switches and controllers: ``python -m tests.support.kills.real --kills 100``.

Each run is a script on several hosts, whose processes are struck at random moments:

- *worker*: one or two are killed or stopped for good; another one is stopped for half a second. The others continue
  (``--on-failure shrink`` or ``raise``), with the invariants of ``invariants.py`` and within the limits below.
- *switch* (``--target bmv2``): one of two spines is killed. All continue, on another tree.
- *frozen* (``--target bmv2``): a spine is stopped, for less than a lease or longer, and resumes. All continue.
- *stop* (``--target bmv2``): a switch is stopped, for a while or for good: when its process has started, during the
  installation of entries, in between, or when members have all results. All continue, or end within ``STOPPED_S`` with
  one clear error that names it; after a stop that is shorter than a lease they continue.
- *link* (``--links veth``): a link to a spine or to a host loses its carrier. All continue, or all but that host.
- *restart*: a switch restarts (``--target bmv2``: it is killed, and another process starts it again a little later);
  sometimes a worker is killed, too. All others continue, or end with an error if the switch was away for too long.
- *join*: one or two ranks join; they and other ranks may be killed at any step. All others continue.
- *forged*: another process floods the coordinator with noise, silence and messages in the names of ranks. All continue.
- *standstill*: all processes of the run are stopped for a while and resume, as when a machine sleeps. All continue.
- *controller*: the session is killed, with its embedded switches: one error within ``RESUMED_S``.
- *abort*: a worker is killed, and all end with one error within ``RESUMED_S``; or they restart (``--max-restarts 1``)
  and end with the weights of an undisturbed training.

No run may leave processes, namespaces or folders.
"""

import argparse
import contextlib
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from p4reduce.network.real.net.network import HOST_INTERFACE
from p4reduce.topologies import load
from tests.support.kills import played, session, strikes
from tests.support.kills.invariants import check
from tests.support.real import leftovers

PROCESS_S, HOST_S, SWITCH_S, RESUMED_S = 0.1, 1.5, 1.0, 2.5
AWAY_S = SWITCH_S - 0.3
"""time for which a switch may be away; the rest is for loading the program"""
BARS = {"killed": PROCESS_S, "stopped": HOST_S, "switch": SWITCH_S, "restarted": SWITCH_S, "link": HOST_S}
STOPPED_S = 75.0
"""Bar for the end of a run with a stopped switch: 60 s for its start, 30 s for a P4Runtime answer, plus the program's
loading."""
MOMENTARY_S = 0.2
MOMENTS = ("start", "installing", "running", "end")
KINDS = ("worker", "switch", "link", "frozen", "stop", "restart", "join", "forged", "standstill", "controller", "abort")
OPERATIONS, PAUSE_S, RANKS = 40, 0.02, 5
NETWORK = "leaf-spine:leaves=2,spines=2,hosts=4"
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
    """Measured times in seconds, by kind of strike."""

    detected: dict[str, list[float]] = field(default_factory=dict)
    resumed: dict[str, list[float]] = field(default_factory=dict)
    joined: dict[str, list[float]] = field(default_factory=dict)
    """from a rank's request to join until it may call"""
    ended: list[float] = field(default_factory=list)

    def show(self) -> None:
        rows = [("detected", kind, values, BARS[kind]) for kind, values in self.detected.items()]
        rows += [("taken in", kind, values, RESUMED_S) for kind, values in self.joined.items()]
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
    parser.add_argument("--only", choices=KINDS)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = os.environ["TMPDIR"] = tempfile.tempdir = folder
        return soak(chosen, Path(folder))


def soak(chosen: argparse.Namespace, folder: Path) -> int:
    before = leftovers.namespaces()
    kinds = ["worker"] * 6 + ["controller"] * 2 + ["abort"] * 2
    kinds += ["restart"] * 3 + ["join"] * 4
    kinds += ["forged"] * 2 + ["standstill"] * 2
    kinds += (["switch"] * 3 + ["frozen"] * 2 + ["stop"] * 3) * (chosen.target == "bmv2") + ["link"] * 3 * (
        chosen.links == "veth"
    )
    times, counts, kills, broken, seed = Times(), Counter(), 0, 0, chosen.seed
    while kills < chosen.kills:
        rng = random.Random(seed)
        kind = chosen.only or rng.choice(kinds)
        run = Run(chosen, folder / f"run-{seed}", rng, seed, times)
        try:
            run.play(kind)
        except Exception as error:  # the soak continues with the next run
            run.wrong.append(f"{type(error).__name__}: {error}")
        left = leftovers.wait_until_gone(os.environ["XDG_STATE_HOME"])
        run.wrong += [f"left {left}"] if left else []
        kills += max(1, run.kills)
        counts[kind] += max(1, run.kills)
        broken += bool(run.wrong)
        print(f"seed {seed}, {run.what}: {'; '.join(run.wrong) or 'ok'}", flush=True)
        seed += 1
    from p4reduce.network.real.net.state import remove_stale

    remove_stale()
    more = leftovers.namespaces() - before
    runs = sorted(path.name for path in (folder / "p4reduce").glob("runs/[!.]*"))
    print(f"{kills} kills in {seed - chosen.seed} runs: {', '.join(f'{n} {kind}' for kind, n in counts.items())}")
    times.show()
    print(f"left: namespaces {sorted(more)}, runs {runs}; {broken} runs in which something did not hold")
    return int(bool(more or runs or broken))


class Run:
    """One run; ``wrong`` lists its violations."""

    _weights: ClassVar[set[str]] = set()
    """Hash of the weights of an undisturbed training."""

    def __init__(self, chosen: argparse.Namespace, folder: Path, rng: random.Random, seed: int, times: Times) -> None:
        folder.mkdir()
        self._chosen, self._folder, self._rng, self._seed, self._times = chosen, folder, rng, seed, times
        self.wrong: list[str] = []
        self.what, self.kills = "", 0
        self._again: list[subprocess.Popen] = []
        self._forged: list[socket.socket] = []
        self._away_s = 0.0
        """longest time for which a switch could not be reached, in seconds"""
        self._joiners: dict[int, str | None] = {}
        """Joining ranks, and the moment at which each is killed (None: never)."""

    def play(self, kind: str) -> None:
        try:
            if kind == "abort":
                self._training(self._rng.random() < 0.5)
            elif kind == "stop":
                self._stop_switch()
            else:
                self._group(kind)
        finally:
            for connection in self._forged:
                connection.close()
            for process in self._again:
                process.kill()
                process.wait()

    # --- a group that may go on

    def _group(self, kind: str) -> None:
        rng = self._rng
        topology = NETWORK if kind in {"switch", "frozen", "link"} or rng.random() < 0.5 else "star:hosts=7"
        plan = "steiner" if kind in {"switch", "frozen", "link"} else rng.choice(("steiner", "steiner", "ring"))
        elements = rng.choice((1, 50, 500))
        on_failure = rng.choice(("shrink", "shrink", "raise"))
        victims = self._draw(kind, topology)
        more, environment = self._draw_joins() if kind == "join" else ([], {})
        self.what = f"{kind} of {plan} on {topology}, {elements} elements, {on_failure}: {victims} {more} {environment}"
        command = ["-n", str(RANKS), "-t", topology, "--plan", plan, "--on-failure", on_failure]
        command += ["--json", "--timeout", "60", *more]
        command += [sys.executable, "-m", "tests.support.kills.played", str(self._folder), str(self._seed)]
        struck: list[tuple[str, str, int]] = []
        with self._launch([*command, str(OPERATIONS), str(elements)], PAUSE_S=str(PAUSE_S), **environment) as process:
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

    def _draw_joins(self) -> tuple[list[str], dict[str, str]]:
        """Return flags for joining ranks, and environment variables: when they are killed, and who waits for them."""
        rng, awaits = self._rng, {}
        count = rng.choice((1, 1, 2))
        for rank in range(RANKS, RANKS + count):
            moment = rng.choice((None, None, None, "begun", "knocked", "admitted", "-1", str(rng.randrange(20, 30))))
            self._joiners[rank] = moment
            if moment != "begun":
                awaits[str(rank)] = "knocked" if moment == "knocked" else "held"
            self.kills += 1
        faults = {str(rank): {moment: "kill"} for rank, moment in self._joiners.items() if moment}
        flags = [part for _ in self._joiners for part in ("--join", f"{rng.randrange(1500)}ms")]
        return flags, {"FAULTS": json.dumps(faults), "AWAIT": json.dumps({str(rng.randrange(3, 20)): awaits})}

    def _draw(self, kind: str, topology: str) -> list[tuple[str, str, int, int]]:
        """Return strikes: (kind, victim, rank, results), each due once ``rank`` has that many results."""
        rng = self._rng
        if kind in {"restart", "join"}:
            found = [("killed", str(rng.randrange(1, RANKS)), 0, rng.randrange(1, 30))] if rng.random() < 0.4 else []
            if kind == "restart":
                switch = "s1" if topology != NETWORK else rng.choice(("leaf1", "leaf2", "spine1"))
                found.append(("restarted", switch, 0, rng.randrange(2, OPERATIONS // 2)))
            return sorted(found, key=lambda one: one[3])
        if kind == "link":
            victim = rng.choice(("spine1-leaf1", "spine1-leaf2", "leaf1-h2"))
            return [(kind, victim, 0, rng.randrange(2, OPERATIONS // 2))]
        if kind in {"forged", "standstill"}:
            return [(kind, "1", 0, rng.randrange(1, OPERATIONS // 2)) for _ in range(rng.choice((1, 2)))]
        if kind != "worker":
            return [(kind, rng.choice(("spine1", "spine1", "spine2")), 0, rng.randrange(2, OPERATIONS // 2))]
        ranks = rng.sample(range(RANKS), 3)
        found = [("paused", str(ranks[0]), ranks[0], rng.randrange(1, OPERATIONS // 2))] if rng.random() < 0.3 else []
        for rank in ranks[1 : rng.choice((2, 2, 3))]:
            after = rng.randrange(1, OPERATIONS - 10)
            found.append((rng.choice(("killed", "killed", "stopped")), str(rank), ranks[0], after))
        return sorted(found, key=lambda one: one[3])

    def _reach(self, process: subprocess.Popen, rank: int, results: int) -> bool:
        """Wait until a rank has ``results`` results, and a little; return False if the run ended before."""
        while process.poll() is None:
            had = [played.results(self._folder, one) for one in range(RANKS)]
            if min(had) >= 0 and had[rank] >= results:
                time.sleep(self._rng.uniform(0, 0.03))
                return True
            time.sleep(0.005)
        self.wrong.append("the run ended before it was struck")
        return False

    def _strike(self, what: str, victim: str) -> int:
        """Strike; return the time in nanoseconds, 0 if the victim had all results and so left the group already."""
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
        if what in {"frozen", "forged", "standstill"}:
            {"frozen": self._freeze, "forged": self._forge, "standstill": self._stand_still}[what](victim)
            return 0
        if what == "link":
            return self._cut(*victim.split("-"))
        if what == "restarted":
            return self._begin_anew(victim)
        at = time.monotonic_ns()
        pid = strikes.switch_process(victim) if what == "switch" else strikes.process(strikes.is_session)
        if pid is None:
            self.wrong.append(f"no {what} to strike")
            return 0
        os.kill(pid, signal.SIGKILL)
        return at

    def _freeze(self, switch: str) -> None:
        """Stop a switch's process for a while."""
        pid, took = strikes.switch_process(switch), self._rng.choice((0.2, 0.7, 1.5, 3.0, 6.0))
        if pid is None:
            self.wrong.append(f"no {switch} to stop")
            return
        self.what += f", for {took} s"
        os.kill(pid, signal.SIGSTOP)
        time.sleep(took)
        os.kill(pid, signal.SIGCONT)

    def _forge(self, victim: str) -> None:
        (_, pid, _), *_ = played.lines(self._folder, int(victim))
        self._forged += strikes.forge(strikes.coordinator_of(pid), self._rng, RANKS)

    def _stand_still(self, victim: str) -> None:
        pids = leftovers.processes(os.environ["XDG_STATE_HOME"])
        for what, pause_s in ((signal.SIGSTOP, self._rng.choice((0.7, 1.5, 4.0))), (signal.SIGCONT, 0.0)):
            for pid in pids:
                os.kill(pid, what)
            time.sleep(pause_s)

    def _stop_switch(self) -> None:
        """Stop a switch at a random moment of a run, and check the outcome."""
        rng = self._rng
        topology, switches = rng.choice(((NETWORK, ("leaf1", "leaf2", "spine1", "spine2")), ("star:hosts=7", ("s1",))))
        moment, switch, took = (
            rng.choice(MOMENTS),
            rng.choice(switches),
            rng.choice((MOMENTARY_S, 0.7, 3.0, None, None)),
        )
        on_failure = rng.choice(("abort", "raise", "shrink"))
        how = "for good" if took is None else f"for {took} s"
        self.what, self.kills = f"stop of {switch} on {topology}, {on_failure}, at {moment} {how}", 1
        command = ["-n", str(RANKS), "-t", topology, "--on-failure", on_failure, "--json", "--timeout", "60"]
        command += [sys.executable, "-m", "tests.support.kills.played", str(self._folder), str(self._seed)]
        with self._launch([*command, str(OPERATIONS), "50"], PAUSE_S=str(PAUSE_S)) as process:
            pid = self._await(process, moment, switch)
            struck = time.monotonic()
            if pid is None:
                self.wrong.append("the run ended before it was struck")
            else:
                os.kill(pid, signal.SIGSTOP)
                if took is not None:
                    time.sleep(took)
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
            try:
                out, err = process.communicate(timeout=120)
            except subprocess.TimeoutExpired:
                self.wrong.append("it hangs")
                process.kill()
                return
            spent = time.monotonic() - struck
        self.what += f"; code {process.returncode} after {spent:.1f} s"
        if spent > STOPPED_S:
            self.wrong.append(f"took {spent:.2f} s, bar {STOPPED_S} s")
        if process.returncode == 0:
            decisions = json.loads(out)["network"].get("membership", [])
            if decisions and took == MOMENTARY_S:
                self.wrong.append("the group changed")
            lost = {int(rank): why for decision in decisions for rank, why in decision["lost"].items()}
            if any("reached" not in why for why in lost.values()):  # members behind the stopped leaf switch
                self.wrong.append(f"lost {lost}")
            check(played.read(self._folder, RANKS), set(range(RANKS)) - set(lost), self._seed, OPERATIONS, 50)
            return
        said = [line for line in err.splitlines() if line and not line.startswith("[")]
        errors = [line for line in said if line.startswith("error: ")]
        self.what += f": {errors}"
        if took == MOMENTARY_S:
            self.wrong.append("it did not go on")
        if len(errors) != 1 or f"switch {switch}" not in errors[0] or any("Traceback" in line for line in said):
            self.wrong.append(f"no clear error: {said}")

    def _await(self, process: subprocess.Popen, moment: str, switch: str) -> int | None:
        """Wait until a run has reached a moment, and a little more; return the switch's process."""
        late_s = self._rng.uniform(0, 0.3)
        while process.poll() is None:
            pid = strikes.switch_process(switch)
            had = [played.results(self._folder, rank) for rank in range(RANKS)]
            if pid is not None and (
                moment == "start"
                or (moment == "installing" and strikes.listens(pid))
                or (moment == "running" and min(had) >= OPERATIONS // 4)
                or (moment == "end" and max(had) == OPERATIONS)
            ):
                time.sleep(late_s)
                return pid if process.poll() is None else None
            time.sleep(0.005)
        return None

    def _begin_anew(self, switch: str) -> int:
        """Restart a switch; return the time at which it went away, in nanoseconds."""
        at = time.monotonic_ns()
        if self._chosen.target == "embedded":
            session.begin_anew(self._folder / "restarts", switch)
        elif (
            again := strikes.restart_bmv2(switch, self._folder / f"{switch}.again", self._rng.uniform(0, 0.3))
        ) is None:
            self.wrong.append(f"no {switch} to strike")
        else:
            self._again.append(again[0])
            self._away_s = max(self._away_s, again[1])
        return at

    def _cut(self, switch: str, other: str) -> int:
        """Switch off an interface at one end: a spine's, or a host's (BMv2 gets no frames if its own is off)."""
        at = time.monotonic_ns()
        if switch.startswith("spine"):
            strikes.cut(strikes.process(strikes.is_session) or 0, f"{switch}-{load(NETWORK).port(switch, other)}")
        else:
            (_, pid, _), *_ = played.lines(self._folder, 1)
            strikes.cut(pid, HOST_INTERFACE)
        return at

    def _survived(self, code: int, out: str, err: str, struck: list[tuple[str, str, int]], elements: int) -> None:
        gone = {int(victim) for what, victim, _ in struck if what in {"killed", "stopped"}}
        gone |= {1 for _, victim, _ in struck if victim == "leaf1-h2"}
        if code != 0 and self._away_s > AWAY_S and any(f"switch {switch} has ended" in err for _, switch, _ in struck):
            self.what += f", which was away for {self._away_s:.2f} s"
            return
        if code != 0:
            self.wrong.append(f"ended with code {code}: {err.splitlines()[-3:]}")
            return
        result = json.loads(out)
        decisions = result["network"].get("membership", [])
        lost = {int(rank): reason for decision in decisions for rank, reason in decision["lost"].items()}
        got = played.read(self._folder, RANKS + len(self._joiners))
        if self._chosen.target == "bmv2":  # hosts behind a switch that was away for too long
            gone |= {
                rank for rank, why in lost.items() if "reached" in why and any(w == "restarted" for w, *_ in struck)
            }
        survivors = set(range(RANKS)) - gone
        joined = {rank for rank, moment in self._joiners.items() if moment is None}
        known = {rank for decision in decisions for rank in decision["joined"]}
        doomed = {rank for rank, moment in self._joiners.items() if moment and rank in known}
        if set(lost) != gone | doomed or not joined <= known:
            self.wrong.append(f"lost {lost}, joined {known}, struck {struck}")
            return
        check(got, survivors | joined, self._seed, OPERATIONS, elements, relays=" of ring on " in self.what)
        for rank in joined:
            when = {kind: at for kind, _, at in played.lines(self._folder, rank)}
            self._note(self._times.joined, "joined", (when["begun"] - when["knocked"]) / 1e9)
        for what, victim, at in struck:
            if what == "paused":
                continue
            of = [
                times
                for times, decision in zip(result["real"]["changes"], decisions, strict=True)
                if (
                    victim in decision["lost"]
                    if what not in {"switch", "link", "restarted"}
                    else times["noticed_ns"] > at and (what != "restarted" or victim in decision["cause"])
                )
            ]
            if what in {"switch", "link", "restarted"} and not of:
                continue  # the tree does not use it
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
        bar = BARS[what] if times is self._times.detected else RESUMED_S
        if seconds > bar:
            self.wrong.append(f"{what}: {seconds:.3f} s, bar {bar} s")

    # --- a training that ends, or starts anew

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
            ranks = [pid for pid in leftovers.processes(os.environ["XDG_STATE_HOME"]) if strikes.is_rank(pid)]
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
        command = [sys.executable, "-m", session.MODULE, "launch", *real, *arguments]
        restarts = self._folder / "restarts"
        if not restarts.exists():
            os.mkfifo(restarts)
        environment["RESTARTS"] = str(restarts)
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env={**os.environ, **environment})


if __name__ == "__main__":
    sys.exit(main())
