"""Random histories of a group's coordinator: ``python -m tests.support.kills.histories --histories 1000``.

The coordinator and its message handling (``runs/real/coordinator.py``, ``presence.py``) are those of real time, on real
sockets; members, processes, switches and time are models (``peers.py``), so that a history takes milliseconds and can
be repeated from its seed. Each history has some of these events, at random moments:

- members are killed or stopped, for a while or for good; ranks join in any phase, and die during it;
- strangers connect: they send nothing, noise, forged messages of a member or of the coordinator, half a message or one
  of 4 GiB, and claim the ranks of others, before and after these connect;
- a malicious member repeats messages, changes or truncates them, sends arrays that were not requested, or answers
  twice;
- the clock jumps by up to an hour, for the coordinator alone or for all;
- switches restart, and reject a tree.

For all other members, the invariants of docs/faults.md must hold: no correct member is excluded, and all finish.
"""

import argparse
import contextlib
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from p4reduce.base.errors import ControllerError
from p4reduce.group.errors import ClusterError
from p4reduce.group.membership import Journal, Reach
from p4reduce.runs.real import coordinator as coordinating
from p4reduce.runs.real import presence as listening
from p4reduce.topologies import load
from tests.support.kills.invariants import check
from tests.support.kills.peers import Book, Line, Peer, packed

ELEMENTS = 2
MOST_STEPS = 60_000
TIMEOUT_S = 1e7
NETWORK = load("star:hosts=9")
HOSTS = tuple(f"h{number}" for number in range(1, 10))


class Clock:
    """Simulated time, read by the coordinator and by the members."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def monotonic_ns(self) -> int:
        return int(self.now * 1e9)


class Process:
    """Model of a process as the coordinator sees it; its end closes a pipe."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.ended: int | None = None
        self._writes: int | None = None

    def watched(self) -> int:
        """Return the pipe's end that stands in for a pidfd."""
        reads, self._writes = os.pipe()
        return reads

    def end(self, code: int) -> None:
        if self.ended is None:
            self.ended = code
            self.hang_up()

    def hang_up(self) -> None:
        if self._writes is not None:
            os.close(self._writes)
            self._writes = None

    def wait(self) -> int:
        assert self.ended is not None
        return self.ended

    def kill(self) -> None:
        """Do nothing: the process has ended or will end."""


@dataclass
class Tally:
    """Counts over all histories."""

    done: Counter[str] = field(default_factory=Counter)
    decisions: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)


class Beside:
    """Executor whose work appears done only after some polls, as in another thread."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def submit(self, work: Callable[[], Any]) -> Any:
        looks = self._rng.choice((0, 0, 1, 5))
        try:
            result, error = work(), None
        except Exception as raised:
            result, error = None, raised

        def done() -> bool:
            nonlocal looks
            looks -= 1
            return looks < 0

        def get() -> Any:
            if error is not None:
                raise error
            return result

        return SimpleNamespace(done=done, result=get, add_done_callback=lambda call: None)

    def __enter__(self) -> "Beside":
        return self

    def __exit__(self, *about: object) -> None:
        """Do nothing."""


class Trees:
    """Stand-in for the tree planner: plans are None, and installations fail at random if the world is flaky."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.hosts, self.plan, self.epoch = HOSTS, None, 0
        self.reach = Reach(NETWORK, HOSTS)
        self.damaged = self.may_return = False

    def next(self, members: Sequence[int], epoch: int) -> Callable[[], None]:
        self.epoch = epoch

        def install() -> None:
            if self._world.flaky and self._world.rng.random() < 0.3:
                self._world.flaky -= 1
                self._world.news.append("switch s1 began anew")
                self.damaged = True
                raise ControllerError("a switch did not answer")

        return install

    def no_room(self, members: Sequence[int]) -> str | None:
        return "there is no room" if self._world.rng.random() < 0.05 else None

    def drop(self, plan: None) -> None:
        """Do nothing: no plan is installed."""

    def swap(self, plan: None) -> Callable[[], None]:
        self.damaged = False
        return lambda: None

    def blamed(self, waiting: dict[int, Any], members: Collection[int]) -> Collection[int]:
        """Return the members whose contributions are missing where others wait in the same epoch."""
        world, names = self._world, set()
        for member, ((turn, _),) in waiting.items():  # there is one tree
            peer = world.peers.get(member)
            if peer is not None and peer.epoch in world.book.members:
                names |= world.book.missing(peer.epoch, turn)
        return [member for member in members if member in names]


class World:
    """One history."""

    def __init__(self, seed: int, folder: Path, tally: Tally) -> None:
        self.rng = rng = random.Random(seed)
        self.seed, self.tally, self.clock, self.book = seed, tally, Clock(), Book()
        self.news: list[str] = []
        self.flaky = rng.choice((0, 0, 0, 2))
        self.peers: dict[int, Peer] = {}
        self.struck: set[int] = set()
        """Ranks that do not reach the end, or need not."""
        self.wrong: list[str] = []
        self.steps = 0
        self._folder = folder
        self._ranks = rng.choice((2, 3, 4, 5))
        self._operations = rng.randrange(3, 16)
        self._on_failure = rng.choice(("shrink", "shrink", "raise"))
        self._anchor = rng.randrange(self._ranks)
        self._processes: list[Process] = []
        self._strangers: list[Line] = []
        self._connected: set[int] = set()
        self._traitor = rng.choice([None, *(rank for rank in range(self._ranks) if rank != self._anchor)])
        self._joining = rng.choice((0, 0, 1, 2, 3))
        self._resumes: list[tuple[float, int]] = []
        self._falls: list[tuple[float, int]] = []
        self._deaths = self._mute = 0
        self._calm = rng.random() < 0.2
        self.events: list[str] = []

    # --- the run

    def play(self) -> None:
        with self._seams():
            presence = self._presence = listening.Presence(self._folder)
            try:
                self._run(presence)
            finally:
                presence.close()
                for line in [*self._strangers, *(peer.line for peer in self.peers.values())]:
                    line.close()
                for process in self._processes:
                    process.hang_up()

    def _run(self, presence: Any) -> None:
        rng = self.rng
        self.book.members[0] = tuple(range(self._ranks))
        for _ in range(self._ranks):
            presence.add(self._process())
        self._selector(presence)
        self._late = {rank: rng.choice((0.0, 0.0, rng.random() * 2)) for rank in range(self._ranks)}
        self._began = self.clock.now
        trees = self._trees = Trees(self)
        journal = self._journal = Journal()
        arrivals = SimpleNamespace(start_due=self._start_due)
        made = self._coordinator = coordinating.Coordinator(
            presence,
            trees,
            journal,
            self._on_failure,
            watch=self._watch,
            deadline=self.clock.now + TIMEOUT_S,
            arrivals=arrivals,
        )
        made._beside = Beside(rng)
        try:
            made.wait()
        except ClusterError as error:
            self.wrong.append(f"it ended: {error}")
        except Exception as error:
            self.wrong.append(f"{type(error).__name__}: {error}")
        else:
            self._hold()
        self.tally.decisions += len(journal.decisions)
        self.tally.outcomes.update(one.outcome for one in journal.decisions)

    def _hold(self) -> None:
        """Check the conditions at the end."""
        decisions, dead = self._journal.decisions, self._presence.leases.dead
        innocent = {rank: why for rank, why in dead.items() if rank not in self.struck}
        if innocent:
            self.wrong.append(f"excluded, and did nothing: {innocent}")
        known = {rank for one in decisions for rank in one.joined} | set(range(self._ranks))
        survivors = {rank for rank in self.peers if rank in known and rank not in self.struck}
        for rank in survivors:
            if self.peers[rank].got.ended != "well":
                self.wrong.append(f"rank {rank} did not come to its end: {self.peers[rank].ended or 'waits'}")
        epochs = [one.epoch for one in decisions]
        if sorted(set(epochs)) != epochs:
            self.wrong.append(f"I4: epochs {epochs}")
        got = {rank: peer.got for rank, peer in self.peers.items() if rank in known and rank != self._lied}
        for rank in got.keys() & self.struck:
            del got[rank].results[-1:]  # its last result may be known to none of the survivors
        try:
            check(got, survivors, self.seed, self._operations, ELEMENTS)
        except AssertionError as error:
            self.wrong.append(str(error))

    @property
    def _lied(self) -> int | None:
        return self._traitor if self._traitor in self.struck else None

    # --- substitutes: time, processes, and events while the coordinator waits

    @contextlib.contextmanager
    def _seams(self) -> Iterator[None]:
        with (
            mock.patch.object(listening, "time", self.clock),
            mock.patch.object(coordinating, "time", self.clock),
            mock.patch.object(listening, "Signs", lambda pid: SimpleNamespace(seen=lambda: self._signs(pid))),
            mock.patch.object(listening.os, "pidfd_open", lambda pid: self._processes[pid].watched()),
            mock.patch.object(listening, "is_of", _is_of, create=True),
        ):
            yield

    def _selector(self, presence: Any) -> None:
        select = presence._selector.select

        def step(timeout: float) -> Any:
            self._step()
            return select(0)

        presence._selector = _Delegate(presence._selector, step)

    def _process(self) -> Any:
        self._processes.append(Process(len(self._processes)))
        return self._processes[-1]

    def _signs(self, pid: int) -> bool:
        peer = self.peers.get(pid)
        return self._processes[pid].ended is None and (peer is None or not peer.stopped)

    def _watch(self) -> list[str]:
        found, self.news = self.news, []
        return found

    # --- events

    def _start_due(self, members: Collection[int]) -> None:
        """Start joining ranks at random, while some member may still make calls."""
        seen = self._presence.seen
        calls = any(seen[member].left is None and seen[member].code is None for member in members)
        if self._joining and calls and self.rng.random() < 0.02 and len(seen) < len(HOSTS):
            self._joining -= 1
            self._late[len(seen)] = self.clock.now - self._began + self.rng.choice((0.0, 0.1, 1.0))
            self._presence.add(self._process(), member=False)
            self._happened("joins", len(seen) - 1)

    def _step(self) -> None:
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise TimeoutError(f"no end after {self.steps} steps: {self.events[-10:]}")
        rng, clock = self.rng, self.clock
        clock.now += rng.choice((0.001, 0.01, 0.05))
        for rank, process in enumerate(self._processes):
            if rank not in self.peers and process.ended is None and clock.now >= self._began + self._late[rank]:
                members = tuple(range(self._ranks)) if rank < self._ranks else ()
                peer = Peer(self._presence.address, rank, members, self.seed, self._operations, self.book)
                if not peer.line.ended:
                    self.peers[rank] = peer
        for at, rank in [one for one in self._resumes if one[0] <= clock.now]:
            self._resumes.remove((at, rank))
            self.peers[rank].stopped = False
        for at, rank in [one for one in self._falls if one[0] <= clock.now]:
            self._falls.remove((at, rank))
            self.peers[rank].line.close()
            self._processes[rank].end(-9)
        self._mute -= self._mute > 0
        for rank in [] if self._mute else rng.sample(sorted(self.peers), len(self.peers)):
            peer = self.peers[rank]
            if self._processes[rank].ended is None:
                peer.step(clock.now)
                if peer.done and not peer.stopped:
                    code = 0 if peer.ended == "well" else 1
                    peer.line.close()
                    self._processes[rank].end(code)
        if not self._calm and rng.random() < 0.05:
            self._strike()

    def _happened(self, what: str, *more: object) -> None:
        self.tally.done[what] += 1
        self.events.append(f"{self.clock.now:.3f} {what} {more}")

    def _strike(self) -> None:
        rng = self.rng
        what = rng.choice(
            (
                "kill",
                "stop",
                "pause",
                "stranger",
                "stranger",
                "stranger",
                "treason",
                "treason",
                "jump",
                "freeze",
                "anew",
            )
        )
        alive = [
            rank
            for rank, peer in self.peers.items()
            if self._processes[rank].ended is None and not peer.stopped and rank != self._anchor and not peer.left
        ]
        if what in {"kill", "stop", "pause"}:
            if not alive or (what != "pause" and (self._deaths >= 3 or rng.random() < 0.8)):
                return
            rank = rng.choice(alive)
            peer = self.peers[rank]
            if what == "pause":
                peer.stopped = True
                self._resumes.append((self.clock.now + rng.choice((0.1, 0.5)), rank))
            else:
                self._deaths += 1
                self.struck.add(rank)
                peer.stopped = True
                if what == "kill":
                    order = rng.random() < 0.5
                    if order:
                        peer.line.close()
                    self._falls.append((self.clock.now + rng.choice((0.0, 0.02, 0.3)), rank))
            self._happened(what, rank)
        elif what == "stranger":
            self._stranger()
        elif what == "treason" and self._traitor in alive:
            self._treason(self.peers[self._traitor])
        elif what == "jump":
            self.clock.now += rng.choice((0.6, 2.0, 30.0, 3600.0))
            self._happened("the coordinator's clock jumps")
        elif what == "freeze":
            self.clock.now += rng.choice((0.6, 2.0, 30.0, 3600.0))
            self._mute = 3
            self._happened("all stand still")
        elif what == "anew":
            self._trees.damaged = True
            self.news.append("switch s1 began anew")
            self._happened("a switch begins anew")

    # --- forged messages

    def _stranger(self) -> None:
        rng = self.rng
        if self._strangers and rng.random() < 0.3:
            self._strangers.pop(rng.randrange(len(self._strangers))).close()
            return
        kind = rng.choice(("idle", "noise", "half", "large", "forged", "claim", "claim", "flood"))
        for _ in range(100 if kind == "flood" else 1):
            line = Line(self._presence.address, "stranger")
            self._strangers.append(line)
        self._happened(f"a stranger: {kind}")
        if kind == "noise":
            line.write(rng.randbytes(rng.randrange(1, 200)))
        elif kind == "half":
            line.write(packed({"join": 0})[: rng.randrange(1, 10)])
        elif kind == "large":
            line.write(rng.choice((b"\xff\xff\xff\xff", packed({"join": 0, "floats": 1 << 28}), b"\x00\x01\x00\x01")))
        elif kind == "forged":
            line.write(packed(self._any_message()))
        elif kind == "claim":
            rank = rng.choice((0, 1, len(self._processes) - 1, len(self._processes), -1, 10**30, True, 1.0, "0", None))
            line.write(packed({"join": rank, "pid": 1}) + packed(self._any_message()))

    def _any_message(self) -> dict[str, Any]:
        rng = self.rng
        term = rng.choice((self._presence.term, self._presence.term - 1, 0, True, None, 10**20, "1", [1]))
        number = rng.choice((0, 1, -1, 3, 10**30, 1.5, float("nan"), None, "x", [], {}, True))
        other = rng.choice((0, 1, -1, 3, 10**30, 1.5, float("nan"), None, "x", [], {}, True))
        return rng.choice(
            (
                {"beat": number, "calls": other, "held": term, "rests": other},
                {"beat": 0, "calls": True, "held": None, "rests": False, "waits": [number], "told": [other]},
                {"beat": 0, "calls": True, "held": None, "rests": False, "waits": number, "told": other},
                {"beat": 0, "calls": True, "held": None, "rests": False, "waits": [0], "told": [{"seq": other}]},
                {"beat": number},
                {"stopped": term, "finished": number, "contributors": other, "operation": None, "root": -1},
                {"stopped": self._presence.term},
                {"array": term},
                {"array": term, "floats": other},
                {"left": number},
                {"join": number},
                {"prepare": term},
                {"commit": {}, "endpoints": []},
                {"excluded": "you"},
                {"released": True},
                {"hold": None},
                {},
                {"beat" * 10: number},
            )
        )

    def _treason(self, peer: Peer) -> None:
        rng = self.rng
        kind = rng.choice(("again", "again", "changed", "cut", "array", "any", "any"))
        self._happened(f"a traitor: {kind}", peer.rank)
        data = rng.choice(peer.sent)
        if kind == "changed":  # no digits: a plausible lie cannot be detected
            place = rng.choice([at for at in range(4, data.index(b"}")) if not data[at : at + 1].isdigit()])
            data = data[:place] + rng.choice((b"\0", b'"', b"}", b"x", b"\xff")) + data[place + 1 :]
        elif kind == "cut":
            data = data[: rng.randrange(1, len(data))]
        elif kind == "array":
            if self._coordinator.agreement.asked:
                return  # the coordinator may have asked it for the array
            data = packed({"array": self._presence.term}, [7, 7])
        elif kind == "any":
            message = self._any_message()
            numbers = [message.get(name) for name in ("left", "beat", "finished")]
            if any(type(number) is int and 0 <= number < 10**30 for number in numbers):
                return
            data = packed(message)
        self.struck.add(peer.rank)
        peer.line.write(data)


class _Delegate:
    """A selector with another ``select``."""

    def __init__(self, selector: Any, select: Callable[[float], Any]) -> None:
        self._selector = selector
        self.select = select

    def __getattr__(self, name: str) -> Any:
        return getattr(self._selector, name)


def _is_of(connection: Any, pid: int) -> bool:
    """Return whether a connection belongs to a process; here its socket's name tells, in reality the kernel."""
    return connection.getpeername().decode().rpartition("-")[2] == str(pid)


def play(seed: int, tally: Tally) -> list[str]:
    """Return the violations in one history."""
    with tempfile.TemporaryDirectory() as folder:
        world = World(seed, Path(folder), tally)
        world.play()
        return world.wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    tally, broken, began = Tally(), 0, time.monotonic()
    for seed in range(chosen.seed, chosen.seed + chosen.histories):
        wrong = play(seed, tally)
        broken += bool(wrong)
        if wrong:
            print(f"seed {seed}: {'; '.join(wrong)}", flush=True)
    print(f"{chosen.histories} histories in {time.monotonic() - began:.0f} s, {tally.decisions} decisions:")
    for what, count in [*sorted(tally.done.items()), *sorted(tally.outcomes.items())]:
        print(f"{count:8,d}  {what}")
    print(f"{broken} histories in which something did not hold")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
