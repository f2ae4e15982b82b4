"""Random histories of an agreement alone: ``python -m tests.support.kills.agreed --histories 10000``.

``group/agreement.py`` receives the events of models of members, switches and time. The models share no code with the
product: a member adds its part of an operation to a book, and has the result as soon as all members of its epoch have
added theirs. Delays of messages follow from the seed; messages of one member stay in order. At random moments

- members die, one or two at once: in any phase, with their connection or silently; dead members send no heartbeats;
- ranks join, some of which die before or after they are admitted; trees have no room, or a switch refuses them;
- a link or a switch fails or restarts; a host is cut off; members stop for less than a lease;
- answers are repeated, late, or forged: of older or invented terms; trees of older epochs remain; dead members send;
  the data path names live members;
- the clock stops while everything else continues, or jumps while no messages arrive.

The invariants of docs/faults.md must hold, and all live members must finish. Then the decisions are checked.
"""

import argparse
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from p4reduce.group import agreement as made
from p4reduce.group.errors import ClusterError, FallenApartError
from p4reduce.group.membership import Lease, Leases, SurvivorAnswer

BEAT, LEASE = 10, 100
MOST_STEPS = 20_000
OPERATIONS = 6
STARTS, MOST_RANKS = (2, 3, 4, 5), 9


@dataclass
class Model:
    """A member, or a rank that asks to join."""

    rank: int
    rng: random.Random
    members: tuple[int, ...]
    epoch: int = 0
    finished: int = 0
    results: list[tuple[int, Any]] = field(default_factory=list)
    """operations, each with the epoch and the members that gave their parts"""
    calls: bool = False
    tries: bool = False
    term: int | None = None
    held: int | None = None
    member: bool = True
    alive: bool = True
    speaks: bool = True
    left: bool = False
    ended: str = ""
    asleep_until: int = 0
    beat_at: int = 0
    inbox: list[tuple[int, str, Any]] = field(default_factory=list)

    @property
    def last(self) -> Any:
        return self.results[-1][1] if self.results else (0, ())


class World:
    """One random history."""

    def __init__(self, seed: int, tally: Counter) -> None:
        self.rng = rng = random.Random(seed)
        self.tally, self.now, self.steps = tally, 1000, 0
        start = rng.choice(STARTS)
        self.on_failure = rng.choice(("shrink", "shrink", "raise"))
        self.kinds = [rng.choice(("all_reduce", "all_reduce", "barrier", "broadcast")) for _ in range(OPERATIONS)]
        self.models = {rank: Model(rank, rng, tuple(range(start))) for rank in range(start)}
        self.safe = rng.randrange(start)
        """rank that is never struck, so that at least one reaches the end"""
        self.book: dict[tuple[int, int], set[int]] = {}
        self.of_epoch = {0: tuple(range(start))}
        self.events: list[tuple[int, Any]] = []
        self.trees: dict[int, str] = {0: "used"}
        self.installed: list[Any] = []
        """events about trees that the agreement has not received yet"""
        self.decisions: list[Any] = []
        self.told: dict[int, set[int]] = {}
        self.array: Any = None
        self.struck: set[int] = set()
        self.cut: set[int] = set()
        self.wrong: list[str] = []
        self.log: list[str] = []
        self.trouble = 0 if rng.random() < 0.1 else rng.randrange(1, 9)
        self.joins = rng.choice((0, 0, 1, 2))
        self.often = rng.choice((0.02, 0.05, 0.2))
        self.returns_at = 0
        self.damaged = False
        self.still_until = 0
        leases = Leases(Lease(BEAT, LEASE), (), self.now)
        self.agreement = made.Agreement(range(start), leases, self, self.on_failure)
        self.agreement.blamed = self.blamed
        for rank in range(start):
            self.say(rank, made.Joined(rank))

    # --- interface of the agreement to the network

    @property
    def reach(self) -> "World":
        return self

    @property
    def may_return(self) -> bool:
        return self.now < self.returns_at

    def lost(self, members: Any, dead: Any) -> Any:
        cut = tuple(rank for rank in members if rank in self.cut and rank not in dead)
        return {rank: dead[rank] for rank in members if rank in dead} | dict.fromkeys(cut, "cut off"), cut

    def no_room(self, members: Any) -> str | None:
        return "there is no room" if self.rng.random() < 0.1 else None

    # --- messages, each member's in order

    def say(self, rank: int, event: Any) -> None:
        last = max((at for at, one in self.events if getattr(one, "member", None) == rank), default=0)
        self.events.append((max(last, self.now + self.rng.choice((0, 1, 5, 20))), event))

    def tell(self, ranks: Any, kind: str, content: Any) -> None:
        for rank in ranks:
            model = self.models[rank]
            last = max((at for at, _, _ in model.inbox), default=0)
            model.inbox.append((max(last, self.now + self.rng.choice((0, 1, 5))), kind, content))

    # --- actions of the agreement

    def do(self, action: Any) -> None:
        kind, rng = type(action).__name__, self.rng
        self.tally[f"action {kind}"] += 1
        if kind == "Tell":
            self.told_of(action)
        elif kind == "Install":
            self.check_install(action.decision)
            epoch, lot = action.decision.epoch, rng.random()
            if lot < 0.06:
                event = made.Built(epoch, "a switch did not answer", self.now + 10**6)
                self.events.append((self.now + rng.randrange(60), made.Damaged("switch s1 began anew")))
            elif lot < 0.12 and action.decision.joined:
                event = made.Built(epoch, "there is no way")
            else:
                event = made.Built(epoch)
            self.trees[epoch] = "refused" if event.error else "begun"
            self.installed.append(event)
            self.events.append((self.now + rng.choice((0, 3, 30)), event))
        elif kind == "Abandon":
            last = max(self.trees)
            self.expect(self.trees[last] in {"begun", "refused"}, f"tree {last} was not beside the old one")
            self.trees[last] = "gone"
        elif kind == "Commit":
            self.commit(action)
        else:
            self.wrong.append(f"{action}")

    def blamed(self, asked: Any) -> Any:
        """Return the members that owe answers or are waited for; at random nobody, or members that are not to blame."""
        self.tally["blame"] += 1
        waiting = {(one.epoch, one.finished) for one in self.models.values() if one.tries and one.alive}
        named = {rank for epoch, turn in waiting for rank in self.of_epoch[epoch]} - {
            rank for key in waiting for rank in self.book.get(key, ())
        }
        expired = self.agreement.leases.expired(self.now)
        innocent = {rank for rank in self.models if rank not in expired and rank != self.safe}
        return {*(asked or (named if self.rng.random() < 0.8 else ()))} | (
            innocent if self.rng.random() < 0.2 else set()
        )

    def told_of(self, action: Any) -> None:
        self.tally[f"told {action.kind}"] += 1
        if action.kind == "prepare":
            self.told.setdefault(action.content, set()).update(action.ranks)
            self.tell(action.ranks, "ask", action.content)
        elif action.kind == "give":
            self.array = None
            self.tell(action.ranks, "give", action.content)
        elif action.kind == "hold":
            self.tell(action.ranks, "hold", action.content)
        else:
            innocent = {*action.ranks} - self.struck - self.cut if action.kind == "excluded" else set()
            self.expect(not innocent, f"{innocent} are excluded, and did nothing: {action.content}")
            self.tell(action.ranks, "ended", "well" if action.kind == "released" else action.kind)

    def check_install(self, decision: Any) -> None:
        term = self.agreement.term
        self.expect(decision.epoch > max(self.trees), f"I4: epoch {decision.epoch} after {max(self.trees)}")
        self.expect(decision.term == term, "a decision of another term")
        others = {*decision.after} - {*decision.joined}
        self.expect(others == self.told[term], f"decided for {others}, asked {self.told[term]}")
        for rank in others - self.struck:
            self.expect(self.models[rank].term == term, f"rank {rank} has not stopped in term {term}")

    def commit(self, action: Any) -> None:
        decision = action.decision
        before = self.decisions[-1].after if self.decisions else self.of_epoch[0]
        self.decisions.append(decision)
        self.log.append(decision.describe())
        gone = {*decision.before} - {*decision.after}
        self.expect(decision.before == before, f"{decision.before} before, and {before} were left")
        self.expect({*decision.after} == {*before} - {*decision.lost} | {*decision.joined}, "members that nobody knows")
        self.expect(gone == {*decision.lost} and not {*decision.joined} & {*before}, "who is lost was not there")
        self.expect(self.trees.get(decision.epoch) == "begun", "no tree stands")
        self.expect(made.Built(decision.epoch) not in self.installed, "its tree does not stand yet")
        self.expect(action.noticed[0] <= action.noticed[1] <= self.now, "it was known before it happened")
        self.trees = {epoch: "used" if epoch == decision.epoch else "gone" for epoch in self.trees}
        self.of_epoch[decision.epoch] = decision.after
        self.damaged = False
        self.expect((decision.holder is None) == (not action.lacking), f"{action.lacking} lack what nobody has")
        for rank in decision.after:
            value = self.array if rank in action.lacking else None
            self.expect(rank not in action.lacking or value is not None, "a result that was not given")
            self.tell([rank], "commit", (decision, value))

    def expect(self, holds: bool, what: str) -> None:
        if not holds:
            self.wrong.append(f"{what} ({self.log[-6:]})")

    def feed(self, *events: Any) -> None:
        for action in self.agreement.on(self.now, *events):
            self.do(action)

    # --- members

    def step(self, model: Model) -> None:
        if not model.alive or model.ended or self.now < model.asleep_until:
            return
        while model.inbox and model.inbox[0][0] <= self.now:
            _, kind, content = model.inbox.pop(0)
            self.hear(model, kind, content)
        if model.ended or not model.member:
            return
        if self.now >= model.beat_at:
            self.beat(model)
        if model.finished >= OPERATIONS:
            if not model.left and model.term is None:
                model.left = True
                self.say(model.rank, made.Left(model.rank, model.finished))
            return
        if not model.calls and self.rng.random() < 0.5:
            model.calls = True
            if model.held is not None:
                self.beat(model)
        if model.calls and not model.tries and model.term is None and model.held is None:
            model.tries = True
            self.book.setdefault((model.epoch, model.finished), set()).add(model.rank)
        if model.tries and self.rng.random() < 0.5:
            self.pick_up(model)

    def beat(self, model: Model) -> None:
        model.beat_at = self.now + BEAT
        if model.speaks:
            rests = model.calls and not model.tries
            self.say(model.rank, made.Beat(model.rank, model.finished, model.calls, model.held, rests))

    def pick_up(self, model: Model) -> None:
        key = model.epoch, model.finished
        if self.book.get(key, set()) >= {*model.members}:
            self.finish(model, (model.epoch, model.members))

    def finish(self, model: Model, value: Any) -> None:
        model.results.append((model.finished, value))
        model.finished += 1
        model.calls = model.tries = False

    def hear(self, model: Model, kind: str, content: Any) -> None:
        if kind == "ask":
            if model.tries and self.rng.random() < 0.5:
                self.pick_up(model)
            model.tries, model.term = False, content
            # A member that has left makes no further calls.
            operation = self.kinds[model.finished] if model.calls else None
            root = model.members[0] if operation == "broadcast" else -1
            answer = SurvivorAnswer(model.finished, tuple(model.last[1]), operation, root)
            if model.speaks:
                self.say(model.rank, made.Answered(model.rank, content, answer))
        elif kind == "give":
            self.array = model.last
            if model.speaks:
                self.say(model.rank, made.Answered(model.rank, content, None))
        elif kind == "hold":
            model.held = content
            self.beat(model)
        elif kind == "commit":
            decision, value = content
            if not model.member:
                model.member, model.finished = True, decision.operation
            model.epoch, model.members = decision.epoch, decision.after
            model.term = model.held = None
            if value is not None:
                self.expect(model.finished == decision.operation, f"rank {model.rank} has it already")
                self.expect({*value[1]} == {*decision.contributors}, f"{decision.contributors} are not in {value}")
                self.finish(model, value)
        else:
            model.ended = content

    # --- trouble

    def strike(self) -> None:
        rng, agreement = self.rng, self.agreement
        what = rng.choice(("die", "die", "two", "late", "damage", "cut", "forge", "forge", "still", "jump"))
        living = [one for one in self.models.values() if one.alive and not one.ended and one.rank != self.safe]
        self.tally[what] += 1
        if what in {"die", "two"}:
            for model in rng.sample(living, min(len(living), 1 + (what == "two"))):
                self.kill(model)
        elif what == "late" and living:
            rng.choice(living).asleep_until = self.now + rng.randrange(1, LEASE // 3)
        elif what == "damage":
            self.damaged = rng.random() < 0.8
            self.returns_at = self.now + rng.choice((0, 0, 50))
            self.events.append((self.now + 1, made.Damaged(rng.choice(("link a-b is down", "switch s1 began anew")))))
        elif what == "cut" and living and len(agreement.survivors) > 2:
            model = rng.choice(living)
            self.cut.add(model.rank)
            self.struck.add(model.rank)
            self.events.append((self.now, made.Damaged(f"link to rank {model.rank} is down")))
        elif what == "forge":
            rank = rng.choice([*self.models, 77])
            term = rng.choice((agreement.term - 1, agreement.term + 1, 0, -1))
            answer = SurvivorAnswer(rng.randrange(9), (5,), None, 0)
            forged = [
                made.Answered(rank, term, answer),
                made.Answered(rank, term, None),
                made.Built(agreement.epoch - rng.randrange(1, 3)),
                made.Built(agreement.epoch + 9),  # of an epoch that is not reached before this arrives
                made.Built(agreement.epoch - 1, "an older tree"),
                made.ProcessEnded(77, "a rank that there never was"),
            ]
            if agreement.phase != "giving":
                forged.append(made.Answered(rank, agreement.term, None))
            dead = [one.rank for one in self.models.values() if not one.alive and one.rank in agreement.leases.dead]
            for one in dead:
                forged += [made.Beat(one, 0, True, None, True), made.Answered(one, agreement.term, answer)]
                forged += [made.Joined(one), made.ProcessEnded(one, "again"), made.Left(one, 3)]
            self.events.append((self.now, rng.choice(forged)))
        elif what == "still":
            self.still_until = self.steps + rng.randrange(1, 30)
        elif what == "jump":
            gap = rng.choice((LEASE, 10 * LEASE))
            self.now += gap
            self.agreement.leases.postpone(gap)

    def kill(self, model: Model) -> None:
        rng = self.rng
        self.struck.add(model.rank)
        model.speaks = False
        model.alive = rng.random() < 0.2  # or it goes on, but its messages are lost
        if model.left:
            return
        if rng.random() < 0.4:  # silently: a waiting member reports it, or else the end of its process is noticed late
            self.events.append((self.now + 20 * LEASE, made.ProcessEnded(model.rank, "was killed")))
        else:
            known_by = rng.choice((None, self.now + 15))
            self.say(model.rank, made.ProcessEnded(model.rank, made.PARTED if known_by else "was killed", known_by))
            if known_by is not None:
                self.say(model.rank, made.ProcessEnded(model.rank, "was killed"))

    def join(self) -> None:
        rank = len(self.models)
        self.joins -= 1
        self.models[rank] = Model(rank, self.rng, (), member=False)
        self.say(rank, made.Joined(rank))
        if self.rng.random() < 0.3:
            self.struck.add(rank)
            self.models[rank].alive = False
            self.events.append((self.now + self.rng.randrange(1, 200), made.ProcessEnded(rank, "was killed")))
        self.tally["join"] += 1

    # --- the run

    def play(self) -> list[str]:
        try:
            while not self.wrong and any(one.alive and not one.ended and one.speaks for one in self.models.values()):
                self.steps += 1
                if self.steps > MOST_STEPS:
                    self.wrong.append(f"no end: {self.agreement.phase}, asked {self.agreement.asked}, {self.log[-6:]}")
                    break
                self.turn()
        except FallenApartError as error:
            if self.cut and len(self.agreement.survivors) - len(self.cut - {*self.agreement.leases.dead}) == 1:
                self.tally["fallen apart"] += 1  # one member alone is left, and others are out of its reach
                return self.wrong
            self.wrong.append(f"{error} {self.log[-6:]}")
        except (ClusterError, AssertionError, KeyError, ValueError) as error:
            self.wrong.append(f"{type(error).__name__}: {error} {self.log[-6:]}")
        return self.wrong or self.hold()

    def turn(self) -> None:
        rng = self.rng
        if self.steps >= self.still_until:
            self.now += rng.choice((0, 1, 1, 3))
        for model in rng.sample(list(self.models.values()), len(self.models)):
            self.step(model)
        due = [one for one in self.events if one[0] <= self.now]
        self.events = [one for one in self.events if one[0] > self.now]
        events = [event for _, event in due]
        self.installed = [event for event in self.installed if event not in events]
        if len(events) > 1 and rng.random() < 0.5:  # one at a time
            for event in events:
                self.feed(event)
        else:
            self.feed(*events)
        over = all(one.left for one in self.models.values() if one.member and one.rank not in self.struck)
        if self.trouble and rng.random() < self.often and not over:
            self.trouble -= 1
            self.strike()
        if self.joins and rng.random() < 0.02 and not over and len(self.models) < MOST_RANKS:
            self.join()

    def hold(self) -> list[str]:
        """Return violations of the conditions at the end."""
        known = {*self.of_epoch[0]} | {rank for one in self.decisions for rank in one.joined}
        survivors = [self.models[rank] for rank in sorted(known - self.struck)]
        first = next((one for one in survivors if one.rank in self.of_epoch[0]), survivors[0])
        values = dict(first.results)
        for model in survivors:
            self.expect(model.ended == "well", f"rank {model.rank} ended with {model.ended!r}")
            turns = [turn for turn, _ in model.results]
            begin = turns[0] if turns and model.rank not in self.of_epoch[0] else 0
            end = OPERATIONS if turns or model.rank in self.of_epoch[0] else begin
            self.expect(turns == list(range(begin, end)), f"I3: rank {model.rank} has {turns}")
        for rank in sorted(known):
            model = self.models[rank]
            for turn, value in model.results[:-1] if rank in self.struck else model.results:
                self.expect(values.get(turn, value) == value, f"I1, I2: operation {turn}: {value} is not {values}")
        terms, epochs = [one.term for one in self.decisions], [one.epoch for one in self.decisions]
        self.expect(terms == sorted(set(terms)), f"terms {terms}")
        self.expect(epochs == sorted(set(epochs)), f"I4: epochs {epochs}")
        left = [epoch for epoch, state in self.trees.items() if state == "begun"]
        self.expect(not left, f"trees {left} stay")
        self.tally.update(f"outcome {one.outcome}" for one in self.decisions)
        self.tally["taken in"] += sum(len(one.joined) for one in self.decisions)
        return self.wrong


def play(seed: int, tally: Counter) -> list[str]:
    """Return the violations in one history."""
    return World(seed, tally).play()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    tally, broken, began = Counter(), 0, time.monotonic()
    for seed in range(chosen.seed, chosen.seed + chosen.histories):
        if wrong := play(seed, tally):
            broken += 1
            print(f"seed {seed}: {wrong[0]}", flush=True)
    print(f"{chosen.histories} histories in {time.monotonic() - began:.0f} s:")
    for what, count in sorted(tally.items()):
        print(f"{count:8,d}  {what}")
    print(f"{broken} histories in which something did not hold")
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
