"""Who of a group goes on after a death, a join, or the loss of a link or a switch: a state machine without I/O.

:class:`Agreement` has no clock, thread or connection. Its driver tells it what happened by when (``on``), and does what
it answers. Virtual time (``runs/virtual/survival.py``) and real time (``runs/real/coordinator.py``) drive the same one.

| phase | the group waits for | what ends it |
|---|---|---|
| ``REST`` | news | a member or its tree is lost; all members have stopped for one that joins |
| ``ASKING`` | members to stop and to say what they have finished | all have answered |
| ``INSTALLING`` | the next tree, beside the old one | it stands |
| ``STUCK`` | the reason why a switch did not take a tree | news |
| ``GIVING`` | the result that one member has and others lack | it is there |

Then the decision is made: it is written down, and all members are told. Until then it is nobody's, so another loss
begins anew with ``ASKING``, in a new term. A member that joins is taken in by such a decision, too.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, Protocol

from p4reduce.group.errors import ClusterError, CollectiveError, FallenApartError
from p4reduce.group.membership import Answer, Decision, Leases, OnFailure, Reach, cannot_redo, decide

PARTED: Final = "ended its connection"

# What happens. Members are ranks of the start, or of who came later; times are of the unit of the leases.


@dataclass(frozen=True)
class Joined:
    """A rank can be told something from now on: a member of the start, or one that wants to be a member."""

    member: int


@dataclass(frozen=True)
class Alive:
    """Signs of life."""

    members: Collection[int]


@dataclass(frozen=True)
class Beat:
    """What a member says while it lives."""

    member: int
    finished: int
    """Operations."""
    calls: bool
    """Whether another one is called …"""
    held: int | None
    """… the last ``Hold`` …"""
    rests: bool
    """… and whether the operation that is called has not begun."""


@dataclass(frozen=True)
class Unheard:
    """For so long nobody could be heard, whatever was said."""

    time: int


@dataclass(frozen=True)
class Ended:
    """A process or its connection has ended, or it has no say any more. ``known_by``: when a better reason is known."""

    member: int
    reason: str
    known_by: int | None = None


@dataclass(frozen=True)
class Explained:
    """The better reason."""

    member: int
    reason: str


@dataclass(frozen=True)
class Left:
    """A member calls no more; it has finished so many operations. None: it ended well and was never there."""

    member: int
    finished: int | None


@dataclass(frozen=True)
class Named:
    """The answer to ``Blame``: whom the others wait for. ``again``: when to ask again if that was not enough."""

    members: Collection[int]
    again: int | None = None


@dataclass(frozen=True)
class Damaged:
    """A link or a switch is down or began anew; the ground knows it already."""

    cause: str


@dataclass(frozen=True)
class Answered:
    """A member has stopped."""

    member: int
    term: int
    answer: Answer


@dataclass(frozen=True)
class Installed:
    """The tree of an epoch stands."""

    epoch: int


@dataclass(frozen=True)
class NotInstalled:
    """It cannot be laid out; or, with ``known_by``, a switch did not take it: by then there is news of that switch."""

    epoch: int
    error: str
    known_by: int | None = None


@dataclass(frozen=True)
class Given:
    """A member has handed on its last result."""

    member: int
    term: int


Event = (
    Joined
    | Alive
    | Beat
    | Unheard
    | Ended
    | Explained
    | Left
    | Named
    | Damaged
    | Answered
    | Installed
    | NotInstalled
    | Given
)

# What is to be done, in this order.


@dataclass(frozen=True)
class Blame:
    """Leases have run out: answer by ``Named``, before anything else, whom the others wait for.

    ``asked``: whose answers are waited for.
    """

    asked: frozenset[int]


@dataclass(frozen=True)
class Ask:
    """Tell members to stop, and to answer in this term."""

    term: int
    members: tuple[int, ...]


@dataclass(frozen=True)
class Hold:
    """Tell members to begin no other operation, as another one joins; None: to go on."""

    term: int | None
    members: tuple[int, ...]


@dataclass(frozen=True)
class Install:
    """Lay out and install the tree of the members ``decision.after`` beside the one that is there."""

    epoch: int
    decision: Decision
    """As it will be made, if nothing else happens."""


@dataclass(frozen=True)
class Abandon:
    """Take away the tree of this epoch, of which no member was told."""

    epoch: int


@dataclass(frozen=True)
class Give:
    """Have a member that has stopped hand on its last result."""

    term: int
    holder: int


@dataclass(frozen=True)
class Commit:
    """Write the decision down, tell all members of it, and take the old tree away."""

    decision: Decision
    lacking: frozenset[int]
    """Who has to get the result that ``decision.holder`` gave."""
    noticed: tuple[int, int]
    """When the first and when the last of what it is about was known."""


@dataclass(frozen=True)
class Exclude:
    """Tell a member that it is none any more."""

    member: int
    reason: str


@dataclass(frozen=True)
class Refuse:
    """Tell a rank that it cannot be a member."""

    member: int
    reason: str


@dataclass(frozen=True)
class Abort:
    """End the run: the group must not change."""

    lost: Mapping[int, str]
    cause: str


@dataclass(frozen=True)
class Release:
    """Tell members that nobody needs them any more."""

    members: tuple[int, ...]


Action = Blame | Ask | Hold | Install | Abandon | Give | Commit | Exclude | Refuse | Abort | Release


class Ground(Protocol):
    """What a group stands on, as far as its driver knows."""

    @property
    def reach(self) -> Reach:
        """Which hosts still reach each other."""

    @property
    def damaged(self) -> bool:
        """Whether a tree that is used, or is being installed, cannot go on."""

    @property
    def may_return(self) -> bool:
        """Whether a switch ended just now, and may begin anew before conclusions are drawn."""

    def no_room(self, members: tuple[int, ...]) -> str | None:
        """Why no tree of these members can stand beside the one that is used; None: one can."""


class Phase(Enum):
    """See the module."""

    REST = auto()
    ASKING = auto()
    INSTALLING = auto()
    STUCK = auto()
    GIVING = auto()


class Agreement:
    """Of one group, over all its operations. ``epoch``: of the tree that is used; each attempt has one of its own."""

    def __init__(
        self, members: Collection[int], leases: Leases, ground: Ground, on_failure: OnFailure, epoch: int = 0
    ) -> None:
        self.members = tuple(members)
        self.leases = leases
        self.phase = Phase.REST
        self.term = 0
        """Counts questions to members."""
        self.epoch = epoch
        self.asked: set[int] = set()
        """Who owes an answer in this term."""
        self.newcomers: tuple[int, ...] = ()
        """Who wants to be a member."""
        self.refused: dict[int, str] = {}
        """Who wanted, and why it is none."""
        self.causes: list[str] = []
        """Of the change that is under way."""
        self._ground, self._on_failure = ground, on_failure
        self._actions: list[Action] = []
        self._news: list[tuple[int, str]] = []  # when and what, that nothing has followed from yet
        self._noticed: list[int] = []  # when the causes were
        self._there = {member for member in self.members if leases.knows(member)}
        self._beats: dict[int, Beat] = {}
        self._left: dict[int, int | None] = {}
        self._ending: dict[int, int] = {}  # until when a better reason may come
        self._held: int | None = None
        self._lost: Mapping[int, str] = {}
        self._answers: dict[int, Answer] = {}
        self._decision: Decision | None = None
        self._tree: Installed | NotInstalled | None = None  # what became of it
        self._explained = False  # whether there was news since it was begun
        self._look_at: int | None = None
        self._released = False

    @property
    def survivors(self) -> tuple[int, ...]:
        """Members that are not dead."""
        dead = self.leases.dead
        return tuple(member for member in self.members if member not in dead)

    @property
    def _have_left(self) -> bool:
        """Whether no survivor calls any more."""
        return all(self._left.get(member) is not None for member in self.survivors)

    @property
    def wakes(self) -> int | None:
        """When it has to be told the time, at the latest; None: not before something happens, or a lease runs out."""
        stuck = self._tree.known_by if isinstance(self._tree, NotInstalled) else None
        return min((at for at in (*self._ending.values(), stuck, self._look_at) if at is not None), default=None)

    def on(self, now: int, *events: Event) -> list[Action]:
        """What follows from all that happened by ``now``; from time alone where there are no events.

        Raises ``ClusterError`` where no group can go on, or where answers contradict each other.
        """
        self._actions = []
        for event in events:
            self._take(event, now)
        self._ending = {member: until for member, until in self._ending.items() if until > now}
        named = [event for event in events if isinstance(event, Named)]
        self._look_at = None
        if self.leases.expired(now):
            if not named:
                return [*self._actions, Blame(frozenset(self.asked))]
            self._look_at = named[-1].again
        if self._have_left:  # nobody calls any more
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
        if isinstance(event, Beat | Left | Answered | Given):
            self.leases.heard(event.member, now)
        match event:
            case Joined(member):
                self._join(member, now)
            case Alive(members):
                for member in members:
                    self.leases.heard(member, now)
            case Beat(member):
                self._beats[member] = event
            case Unheard(time):
                self.leases.postpone(time)
            case Ended(member, reason, known_by):
                self._end(member, reason, known_by, now)
            case Explained(member, reason):
                self.leases.explain(member, reason)
                self._ending.pop(member, None)
                if self.refused.get(member) == PARTED:
                    self.refused[member] = reason
            case Left(member, finished):
                if member in self.survivors:
                    self._left.setdefault(member, finished)
            case Named(members):
                for member in self.leases.accuse(members, now):
                    self._exclude(member, now)
            case Damaged(cause):
                self._hear(cause, now)
            case Answered(member, term, answer):
                if self._owes(member, term, Phase.ASKING):
                    self._answers[member] = answer
            case Given(member, term):
                self._owes(member, term, Phase.GIVING)
            case Installed(epoch) | NotInstalled(epoch):
                if self.phase is Phase.INSTALLING and epoch == self.epoch:
                    self._tree = event

    def _owes(self, member: int, term: int, phase: Phase) -> bool:
        """Whether an answer is one that is waited for: not an older one, nor the same again."""
        owes = self.phase is phase and term == self.term and member in self.asked
        self.asked -= {member} if owes else set()
        return owes

    def _hear(self, cause: str, now: int) -> None:
        self._news.append((now, cause))

    def _join(self, member: int, now: int) -> None:
        if member in self.leases.dead:
            self._actions.append(Exclude(member, self.leases.dead[member]))
        elif member in self.members:
            self._there.add(member)
            if not self.leases.knows(member):
                self.leases.join(member, now)
            if member in self.asked:
                self._actions.append(Ask(self.term, (member,)))
        elif member not in self.newcomers and member not in self.refused and not self.leases.knows(member):
            self.newcomers = tuple(sorted((*self.newcomers, member)))

    def _end(self, member: int, reason: str, known_by: int | None, now: int) -> None:
        """A member has ended; or one that wanted to be a member, of which nobody is told."""
        if member not in self.members:
            if not self.leases.knows(member):
                self._withdraw(member, reason)
            return
        if member in self._left:
            return
        if self._bury(member, reason, now):
            if known_by is not None:
                self._ending[member] = known_by
            self._hear(reason, now)

    def _bury(self, member: int, reason: str, now: int) -> bool:
        """A member is dead, even if it was never there; whether that is news."""
        if not self.leases.knows(member):
            self.leases.join(member, now)
        return self.leases.ended(member, reason)

    def _withdraw(self, member: int, reason: str) -> None:
        self.newcomers = tuple(one for one in self.newcomers if one != member)
        self.refused.setdefault(member, reason)

    def _exclude(self, member: int, now: int) -> None:
        """A member that lives, or may live, is dead for the others."""
        reason = self.leases.dead[member]
        self._actions.append(Exclude(member, reason))
        self._hear(reason, now)

    # --- what follows

    def _consider(self, now: int) -> None:
        """Whether the group has to change for what is new; where that is not clear yet, it stays new."""
        if self._on_failure == "abort" and self._ending:
            return
        try:
            lost, cut = self._ground.reach.lost(self.members, self.leases.dead)
        except FallenApartError:
            if self._ground.may_return:
                return
            raise
        if cut and self._ground.may_return:
            return
        for member in cut:
            self._bury(member, lost[member], now)
            self._actions.append(Exclude(member, lost[member]))
        stopped = self.phase in {Phase.INSTALLING, Phase.GIVING}
        concerned = self._ground.damaged or (lost.keys() != self._lost.keys() if stopped else bool(lost))
        causes = [cause for _, cause in self._news]
        if concerned and self._on_failure == "abort":
            self._actions.append(Abort(lost, "; ".join(causes)))
        elif concerned or self.phase is Phase.STUCK:
            self.causes += causes
            self._noticed += [at for at, _ in self._news]
            self._ask(lost)
        self._explained = True
        self._news.clear()

    def _rest(self) -> None:
        self.phase, self.asked, self.causes, self._noticed, self._tree = Phase.REST, set(), [], [], None

    def _abandon(self) -> None:
        """Of a tree that no member was told of, nothing stays."""
        if self.phase in {Phase.INSTALLING, Phase.GIVING}:
            self._actions.append(Abandon(self.epoch))

    def _ask(self, lost: Mapping[int, str]) -> None:
        self._lost = lost
        after = tuple(member for member in self.members if member not in lost)
        self.term += 1
        self.asked, self._answers = set(after), {}
        self._actions.append(Ask(self.term, after))
        self._abandon()
        self.phase, self._tree = Phase.ASKING, None

    def _go_on(self, now: int) -> None:
        """Go as far as what is there allows."""
        if self.phase is Phase.STUCK and isinstance(self._tree, NotInstalled) and now > (self._tree.known_by or now):
            raise ClusterError(self._tree.error)
        if self.phase is Phase.INSTALLING:
            self._look_at_tree(now)
        if self.phase is Phase.ASKING and not self.asked and not self._ending:
            self._install()
        if self.phase is Phase.GIVING and not self.asked:
            self._commit(now)
        if self.phase is Phase.REST and self.survivors:
            self._welcome(now)
        if self.phase is Phase.REST and self.survivors:
            self._look_for_left(now)
            self._release()

    def _install(self) -> None:
        whole = not any(cannot_redo(one.operation, one.root, self._lost) for one in self._answers.values())
        self.epoch += 1
        decision = decide(
            self._answers,
            before=self.members,
            lost=self._lost,
            term=self.term,
            epoch=self.epoch,
            redo=not self._lost or (self._on_failure == "shrink" and whole),
            cause="; ".join(self.causes),
            joined=self._joining(),
        )
        self._decision, self._tree, self._explained, self.phase = decision, None, False, Phase.INSTALLING
        self._actions.append(Install(self.epoch, decision))

    def _joining(self) -> tuple[int, ...]:
        """Who comes in now that members have stopped: nobody, if one of them is ahead, or has not called."""
        answers = self._answers.values()
        same = len({answer.finished for answer in answers}) == 1
        return self.newcomers if same and all(answer.operation is not None for answer in answers) else ()

    def _look_at_tree(self, now: int) -> None:
        """Where the next tree stands, the decision is made once its holder has given its result."""
        decision, tree = self._decision, self._tree
        assert decision is not None  # noqa: S101
        gone = not {*decision.joined} <= {*self.newcomers}
        come = isinstance(tree, Installed) and decision.joined != self._joining()
        explained = isinstance(tree, NotInstalled) and tree.known_by is not None and self._explained
        if gone or come or explained:
            self._noticed.append(now)
            self._ask(self._lost)
        elif isinstance(tree, Installed):
            lost = {member: self.leases.dead.get(member, why) for member, why in decision.lost.items()}
            self._decision, self.phase = replace(decision, lost=lost), Phase.GIVING
            if decision.holder is not None:
                self.asked = {decision.holder}
                self._actions.append(Give(self.term, decision.holder))
        elif tree is not None and tree.known_by is not None:
            self.phase = Phase.STUCK
        elif tree is not None and decision.joined:
            self._refuse(decision.joined, tree.error)
            self.phase = Phase.ASKING  # all have answered
        elif tree is not None:
            raise ClusterError(tree.error)

    def _commit(self, now: int) -> None:
        decision, answers = self._decision, self._answers
        assert decision is not None  # noqa: S101
        kept = decision.holder is not None
        lacking = {member for member, answer in answers.items() if kept and answer.finished == decision.operation}
        self._actions.append(Commit(decision, frozenset(lacking), (self._noticed[0], self._noticed[-1])))
        self.members, self._held = decision.after, None
        for member in decision.joined:
            self.leases.join(member, now)
            self._there.add(member)
        self.newcomers = tuple(one for one in self.newcomers if one not in decision.joined)
        self._beats = {}  # what they waited for was the old tree's
        self._rest()

    # --- who joins, and who has left

    def _welcome(self, now: int) -> None:
        """Who wants to join comes in between two operations: when all have called one that cannot be carried."""
        members = self.survivors
        if any(member in self._left for member in members):
            self._refuse(self.newcomers, "the others ended before")
        if not self.newcomers:
            if self._held is not None:
                self._held = None
                self._actions.append(Hold(None, members))
        elif self._held is None:
            if self._there.issuperset(members) and self._with_room(members):
                self.term += 1
                self._held = self.term
                self._actions.append(Hold(self.term, members))
        elif self._is_between(members):
            self._noticed = [now]
            self._ask({})

    def _with_room(self, members: tuple[int, ...]) -> bool:
        """Whether there is a tree for one who wants to join; those for whom there is none are refused."""
        taken: tuple[int, ...] = ()
        for one in self.newcomers:
            why = self._ground.no_room((*members, *taken, one))
            if why is None:
                taken = (*taken, one)
            else:
                self._refuse((one,), why)
        return bool(taken)

    def _refuse(self, newcomers: tuple[int, ...], reason: str) -> None:
        for one in newcomers:
            self._withdraw(one, reason)
            self._actions.append(Refuse(one, reason))

    def _is_between(self, members: tuple[int, ...]) -> bool:
        """Whether all members have called the same operation, and one that was held has not begun it."""
        beats = [self._beats[member] for member in members if member in self._beats]
        calling = len(beats) == len(members) and all(beat.held == self._held and beat.calls for beat in beats)
        return calling and len({beat.finished for beat in beats}) == 1 and any(beat.rests for beat in beats)

    def _look_for_left(self, now: int) -> None:
        """``ClusterError`` where a member waits for one that has left, or never came."""
        left = {member: self._left[member] for member in self.survivors if member in self._left}
        for member in self.survivors:
            beat = self._beats.get(member)
            if member in left or beat is None or not beat.calls:
                continue
            for other, finished in left.items():
                if finished is None:
                    raise ClusterError(f"rank {other} ended well, but did not join the group, and rank {member} waits")
                if finished < beat.finished:
                    said = f"beat: {beat.finished} operations, of which rank {other}, which left, has {finished}"
                    self.leases.ended(member, f"said what no member says: {said}")
                    self._exclude(member, now)
                    self._consider(now)
                    return
                if finished == beat.finished:
                    waits = f"operation {beat.finished}: rank {member} waits for rank {other}"
                    raise CollectiveError(f"{waits}, which left the group")

    def _release(self) -> None:
        """Once all have left, nobody needs anybody any more."""
        if self._have_left and not self._released:
            self._released = True
            self._actions.append(Release(self.survivors))
