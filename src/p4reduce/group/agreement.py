"""The state machine (without I/O) that decides which members go on after a death, a join or a lost link or switch.

:class:`Agreement` has no clock, thread or connection. A driver reports events to ``on`` and carries out the actions
that it returns: ``runs/virtual/survival.py`` in virtual time, ``runs/real/coordinator.py`` in real time.

| phase | the group waits for | what ends it |
|---|---|---|
| ``rest`` | news | a member or its tree is lost; all members have stopped for a newcomer |
| ``asking`` | members to stop and to say what they have finished | all have answered |
| ``installing`` | the next tree, beside the old one | it is installed, or there is news of the switch that refused it |
| ``giving`` | the result that one member has and others lack | it is there |

Then the decision is made: it is written to the journal, and all members are told. Until then it does not count, so
after another loss all begins anew with ``asking``, in a new term. Such a decision also admits a member that joins.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol

from p4reduce.group.backend import FloatArray
from p4reduce.group.errors import ClusterError, CollectiveError, FallenApartError
from p4reduce.group.membership import Leases, MembershipDecision, OnFailure, Outcome, Reach, SurvivorAnswer, cannot_redo

PARTED: Final = "ended its connection"

GivenResult = tuple[FloatArray, str | None]
"""result of a member that others lack, and the error that it has, or None"""

# Events. Members are ranks of the start, or ranks that joined later; times are in the unit of the leases.


@dataclass(frozen=True)
class Joined:
    """A rank has connected and can receive messages: a member of the start, or a rank that wants to be a member."""

    member: int


@dataclass(frozen=True)
class Beat:
    """A member's heartbeat."""

    member: int
    finished: int
    """operations that it has finished"""
    calls: bool
    """whether it has called another operation"""
    held: int | None
    """term of the last ``hold`` that it has received, or None"""
    rests: bool
    """whether the operation that it has called has not begun yet"""


@dataclass(frozen=True)
class ProcessEnded:
    """A process or its connection has ended, or the member has violated the protocol.

    With the reason ``PARTED``, another event with a better reason may follow until ``known_by``.
    """

    member: int
    reason: str
    known_by: int | None = None


@dataclass(frozen=True)
class Left:
    """A member makes no more calls. finished: its operations; None if its process ended well and never connected."""

    member: int
    finished: int | None


@dataclass(frozen=True)
class Damaged:
    """A link or a switch is down, or a switch has restarted; ``Ground`` knows this already."""

    cause: str


@dataclass(frozen=True)
class Answered:
    """A member has stopped and reports what it has finished; if ``answer`` is None, it has sent its last result."""

    member: int
    term: int
    answer: SurvivorAnswer | None
    given: GivenResult | None = None


@dataclass(frozen=True)
class Built:
    """The tree of an epoch is installed, or could not be because of ``error``.

    With ``known_by``, a switch did not accept the tree: by that time there will be news of the switch.
    """

    epoch: int
    error: str = ""
    known_by: int | None = None


Event = Joined | Beat | ProcessEnded | Left | Damaged | Answered | Built

# Actions: what the driver has to do, in this order.


Kind = Literal["prepare", "hold", "give", "excluded", "refused", "released"]


@dataclass(frozen=True)
class Tell:
    """Tell ranks something.

    | kind | content | |
    |---|---|---|
    | ``prepare`` | term | stop, and answer what you have finished |
    | ``hold`` | term, or None | begin no other operation, as a rank joins; or go on |
    | ``give`` | term | hand on your last result, as others lack it |
    | ``excluded`` | why | you are no member any more |
    | ``refused`` | why | you cannot be a member |
    | ``released`` | True | no member needs you any more |
    """

    ranks: tuple[int, ...]
    kind: Kind
    content: int | str | None


@dataclass(frozen=True)
class Install:
    """Lay out and install the tree of the members ``decision.after`` beside the current one."""

    decision: MembershipDecision
    """The decision as it will be made if nothing else happens."""


@dataclass(frozen=True)
class Abandon:
    """Remove the tree of the last ``Install``, which no member was told of."""


@dataclass(frozen=True)
class Commit:
    """Write the decision to the journal, tell all members, and remove the old tree."""

    decision: MembershipDecision
    lacking: frozenset[int]
    """Members that need the result ``given``, that of ``decision.holder``."""
    given: GivenResult | None
    noticed: tuple[int, int]
    """When the first and the last event that led to the decision became known."""


Action = Tell | Install | Abandon | Commit


class Ground(Protocol):
    """The network under a group, as far as its driver knows it."""

    @property
    def reach(self) -> Reach:
        """Return the hosts that still reach each other."""

    @property
    def damaged(self) -> bool:
        """Return whether a tree in use, or one being installed, has lost a link or a switch."""

    @property
    def may_return(self) -> bool:
        """Return whether a switch ended just now and may restart before conclusions are drawn."""

    def no_room(self, members: tuple[int, ...]) -> str | None:
        """Return why no tree of these members fits beside the one in use, or None if one fits."""


AgreementPhase = Literal["rest", "asking", "installing", "giving"]
"""phases of the table in the module's docstring"""


class Agreement:
    """The agreement of one group over all its operations. ``epoch``: of the last tree; each attempt gets a new one."""

    def __init__(
        self, members: Collection[int], leases: Leases, ground: Ground, on_failure: OnFailure, epoch: int = 0
    ) -> None:
        self.members = tuple(members)
        self.leases = leases
        self.phase: AgreementPhase = "rest"
        self.term = 0
        """number of the latest question to members"""
        self.epoch = epoch
        self.asked: set[int] = set()
        """members that owe an answer in this term"""
        self.newcomers: tuple[int, ...] = ()
        """ranks that want to be members"""
        self.refused: dict[int, str] = {}
        """ranks that were not admitted, with the reason"""
        self.blamed: Callable[[Collection[int]], Collection[int]] = tuple
        """Function that returns the members that others wait for, given those that owe answers, once leases run out."""
        self._ground, self._on_failure = ground, on_failure
        self._actions: list[Action] = []
        self._news: list[tuple[int, str]] = []  # (time, cause) of events not acted on yet
        self._causes: list[tuple[int, str]] = []  # those of the change under way; "": time alone
        self._beats: dict[int, Beat] = {}
        self._left: dict[int, int | None] = {}
        self._ending: dict[int, int] = {}  # time until which a better reason may come, by member
        self._held: int | None = None
        self._lost: Mapping[int, str] = {}
        self._answers: dict[int, SurvivorAnswer] = {}
        self._decision: MembershipDecision | None = None
        self._given: GivenResult | None = None
        self._tree: Built | None = None  # result of the installation under way, or None
        self._explained = False  # whether there was news since the installation began
        self._released = False

    @property
    def survivors(self) -> tuple[int, ...]:
        """Return the members that are not dead."""
        return tuple(member for member in self.members if member not in self.leases.dead)

    @property
    def _have_left(self) -> bool:
        """Return whether all survivors have left."""
        return all(self._left.get(member) is not None for member in self.survivors)

    def on(self, now: int, *events: Event) -> list[Action]:
        """Take in the events that happened by ``now`` (none: only time has passed); return the resulting actions.

        Raises ``ClusterError`` if no group can go on, must not change, or if answers contradict each other.
        """
        self._actions = []
        for event in events:
            self._take(event, now)
        self._ending = {member: until for member, until in self._ending.items() if until > now}
        if self.leases.expired(now):
            for member in self.leases.accuse(self.blamed(self.asked), now):
                self._exclude(member, now)
        if self._have_left:
            self._abandon()
            self._news.clear()
            self._rest()
        if self._news:
            self._consider(now)
        if not self._news:
            self._go_on(now)
        return self._actions

    # --- what happened

    def _take(self, event: Event, now: int) -> None:
        if isinstance(event, Beat | Left | Answered):
            self.leases.heard(event.member, now)
        match event:
            case Joined(member):
                self._join(member, now)
            case Beat(member):
                self._beats[member] = event
            case ProcessEnded(member, reason, known_by):
                self._end(member, reason, known_by, now)
            case Left(member, finished):
                if member in self.survivors:
                    self._left.setdefault(member, finished)
            case Damaged(cause):
                self._news.append((now, cause))
            case Answered(member, term, answer, given):
                # The answer may be of an earlier term, or a duplicate.
                awaited = "giving" if answer is None else "asking"
                if self.phase == awaited and term == self.term and member in self.asked:
                    self.asked.remove(member)
                    self._answers |= {} if answer is None else {member: answer}
                    self._given = given
            case Built(epoch):
                if self.phase == "installing" and epoch == self.epoch:
                    self._tree = event

    def _join(self, member: int, now: int) -> None:
        if member in self.leases.dead:
            self._tell((member,), "excluded", self.leases.dead[member])
        elif member in self.members:
            self.leases.join(member, now)
            if member in self.asked:
                self._tell((member,), "prepare", self.term)
        elif member not in self.newcomers and member not in self.refused and not self.leases.knows(member):
            self.newcomers = tuple(sorted((*self.newcomers, member)))

    def _end(self, member: int, reason: str, known_by: int | None, now: int) -> None:
        """Note the end of a member, or of a newcomer, which the members are not told of."""
        if self.leases.dead.get(member) == PARTED:
            self.leases.dead[member] = reason
            self._ending.pop(member, None)
        elif member in self.members and member not in self._left:
            if self.leases.ended(member, reason):
                self._ending |= {} if known_by is None else {member: known_by}
                self._news.append((now, reason))
        elif not self.leases.knows(member):
            self._withdraw(member, reason)

    def _withdraw(self, member: int, reason: str) -> None:
        self.newcomers = tuple(newcomer for newcomer in self.newcomers if newcomer != member)
        if self.refused.get(member, PARTED) == PARTED:
            self.refused[member] = reason

    def _exclude(self, member: int, now: int) -> None:
        """Tell a member that is or may be alive that the others go on without it."""
        reason = self.leases.dead[member]
        self._tell((member,), "excluded", reason)
        self._news.append((now, reason))

    def _tell(self, ranks: tuple[int, ...], kind: Kind, content: int | str | None) -> None:
        self._actions.append(Tell(ranks, kind, content))

    # --- what follows

    def _consider(self, now: int) -> None:
        """Begin a change of the group if the news demands one; keep news that is not clear yet."""
        if self._on_failure == "abort" and self._ending:
            return
        lost, cut = self._ground.reach.lost(self.members, self.leases.dead)
        if cut and self._ground.may_return:
            return
        causes = "; ".join(cause for _, cause in self._news)
        if cut and len(lost) == len(self.members) - 1:
            raise FallenApartError(f"{causes}; the network has fallen apart: no two ranks reach each other any more")
        for member in cut:
            self.leases.ended(member, lost[member])
            self._tell((member,), "excluded", lost[member])
        stopped = self.phase in {"installing", "giving"}
        concerned = self._ground.damaged or (lost.keys() != self._lost.keys() if stopped else bool(lost))
        if concerned and self._on_failure == "abort":
            fates = [f"rank {member} {why}" for member, why in lost.items()]
            raise CollectiveError("; ".join(fates) or f"its tree is lost: {causes}")
        if concerned:
            self._causes += self._news
            self._ask(lost)
        self._explained = True
        self._news.clear()

    def _rest(self) -> None:
        self.phase, self.asked, self._causes, self._tree = "rest", set(), [], None

    def _abandon(self) -> None:
        """Give up a tree that no member was told of."""
        if self.phase in {"installing", "giving"}:
            self._actions.append(Abandon())

    def _ask(self, lost: Mapping[int, str]) -> None:
        self._lost = lost
        after = tuple(member for member in self.members if member not in lost)
        self.term += 1
        self.asked, self._answers = set(after), {}
        self._tell(after, "prepare", self.term)
        self._abandon()
        self.phase, self._tree = "asking", None

    def _go_on(self, now: int) -> None:
        """Go through as many phases as the answers so far allow."""
        if self.phase == "installing":
            self._look_at_tree(now)
        if self.phase == "asking" and not self.asked and not self._ending:
            self._install()
        if self.phase == "giving" and not self.asked:
            self._commit(now)
        if self.phase == "rest" and self.survivors:
            self._welcome(now)
        if self.phase == "rest" and self.survivors:
            self._look_for_left(now)
            if self._have_left and not self._released:  # they may exit
                self._released = True
                self._tell(self.survivors, "released", True)

    def _install(self) -> None:
        """Have the tree installed that follows from the answers of all survivors."""
        answers, lost = self._answers, self._lost
        left = tuple(member for member in self.members if member not in lost)
        joined = self._joining()
        finished = {member: answers[member].finished for member in left}
        operation, most = min(finished.values()), max(finished.values())
        if most > operation + 1:
            ahead = max(left, key=finished.__getitem__)
            raise ClusterError(
                f"rank {ahead} has finished {most} operations, another one {operation}: none is two ahead"
            )
        holders = [member for member in left if finished[member] == operation + 1]
        contributors = {answers[member].contributors for member in holders}
        if len(contributors) > 1:
            raise ClusterError(
                f"operation {operation}: survivors have results of different members: {sorted(contributors)}"
            )
        whole = not any(cannot_redo(answer.operation, answer.root, lost) for answer in answers.values())
        redo = not lost or (self._on_failure == "shrink" and whole)
        outcome: Outcome = "kept" if holders else "redone" if redo and not joined else "raised"
        self.epoch += 1
        self._decision = MembershipDecision(
            self.term,
            self.epoch,
            operation,
            outcome,
            self.members,
            (*left, *joined),
            contributors.pop() if holders else left if outcome == "redone" else (),
            holders[0] if holders else None,
            dict(lost),
            joined=joined,
            cause="; ".join(cause for _, cause in self._causes if cause),
        )
        self._tree, self._explained, self.phase = None, False, "installing"
        self._actions.append(Install(self._decision))

    def _joining(self) -> tuple[int, ...]:
        """Return the newcomers to admit now that members have stopped: none if a member is ahead or has not called."""
        answers = self._answers.values()
        same = len({answer.finished for answer in answers}) == 1
        return self.newcomers if same and all(answer.operation is not None for answer in answers) else ()

    def _look_at_tree(self, now: int) -> None:
        """If the next tree is installed, go on to ``giving``; otherwise wait, ask again, refuse newcomers, or fail."""
        decision, tree = self._decision, self._tree
        assert decision is not None  # noqa: S101
        stands = tree is not None and not tree.error
        gone = not {*decision.joined} <= {*self.newcomers}
        come = stands and decision.joined != self._joining()
        explained = tree is not None and tree.known_by is not None and self._explained
        if gone or come or explained:
            self._causes.append((now, ""))
            self._ask(self._lost)
        elif stands:
            lost = {member: self.leases.dead.get(member, why) for member, why in decision.lost.items()}
            self._decision, self.phase = replace(decision, lost=lost), "giving"
            if decision.holder is not None:
                self.asked = {decision.holder}
                self._tell((decision.holder,), "give", self.term)
        elif tree is None or (tree.known_by is not None and now <= tree.known_by):
            return
        elif decision.joined and tree.known_by is None:
            self._refuse(decision.joined, tree.error)
            self.phase = "asking"  # all have answered
        else:
            raise ClusterError(tree.error)

    def _commit(self, now: int) -> None:
        decision, answers = self._decision, self._answers
        assert decision is not None  # noqa: S101
        kept = decision.holder is not None
        lacking = {member for member, answer in answers.items() if kept and answer.finished == decision.operation}
        self._actions.append(
            Commit(decision, frozenset(lacking), self._given, (self._causes[0][0], self._causes[-1][0]))
        )
        self.members, self._held = decision.after, None
        for member in decision.joined:
            self.leases.join(member, now)
        self.newcomers = tuple(newcomer for newcomer in self.newcomers if newcomer not in decision.joined)
        self._beats = {}  # the beats describe waits on the old tree
        self._rest()

    # --- ranks that join, and members that have left

    def _welcome(self, now: int) -> None:
        """Admit newcomers between two operations: hold the members until all have called the next one."""
        members = self.survivors
        if any(self._left.get(member) is not None for member in members):
            self._refuse(self.newcomers, "the others ended before")
        if not self.newcomers:
            if self._held is not None:
                self._held = None
                self._tell(members, "hold", None)
        elif self._held is None:
            if all(map(self.leases.knows, members)) and self._with_room(members):
                self.term += 1
                self._held = self.term
                self._tell(members, "hold", self.term)
        elif self._is_between(members):
            self._causes = [(now, "")]
            self._ask({})

    def _with_room(self, members: tuple[int, ...]) -> bool:
        """Return whether there is a tree for at least one newcomer; refuse newcomers for which there is none."""
        taken: tuple[int, ...] = ()
        for newcomer in self.newcomers:
            why = self._ground.no_room((*members, *taken, newcomer))
            if why is None:
                taken = (*taken, newcomer)
            else:
                self._refuse((newcomer,), why)
        return bool(taken)

    def _refuse(self, newcomers: tuple[int, ...], reason: str) -> None:
        for newcomer in newcomers:
            self._withdraw(newcomer, reason)
            self._tell((newcomer,), "refused", reason)

    def _is_between(self, members: tuple[int, ...]) -> bool:
        """Return whether all members have called the same operation, and at least one of them has not begun it."""
        beats = [self._beats[member] for member in members if member in self._beats]
        calling = len(beats) == len(members) and all(beat.held == self._held and beat.calls for beat in beats)
        return calling and len({beat.finished for beat in beats}) == 1 and any(beat.rests for beat in beats)

    def _look_for_left(self, now: int) -> None:
        """Raise ``ClusterError`` if a member waits for a member that has left or never connected."""
        left = {member: self._left[member] for member in self.survivors if member in self._left}
        for member in self.survivors:
            beat = self._beats.get(member)
            if member in left or beat is None or not beat.calls:
                continue
            for other, finished in left.items():
                if finished is None:
                    raise ClusterError(f"rank {other} ended well, but did not join the group, and rank {member} waits")
                if finished < beat.finished:
                    claim = f"beat: {beat.finished} operations, of which rank {other}, which left, has {finished}"
                    self.leases.ended(member, f"said what no member says: {claim}")
                    self._exclude(member, now)
                    self._consider(now)
                    return
                if finished == beat.finished:
                    waits = f"operation {beat.finished}: rank {member} waits for rank {other}"
                    raise CollectiveError(f"{waits}, which left the group")
