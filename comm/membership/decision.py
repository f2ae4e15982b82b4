"""What survivors say when they have stopped, and what follows from it.

The first phase (*prepare*) stops the survivors and asks how many operations each has finished. An operation needs all
members, so nobody is two ahead. If somebody has finished operation k, k stands as it is, with the members that it had,
and the others get its array; if nobody has, k is done again over the survivors, from the inputs that were kept. The
second phase (*commit*) tells all of them. When one more dies before that, both phases begin anew with the next term.

Who joins comes in between two operations: the members hear of it before they begin one, which is not done, and call
again in the group with the newcomer. Newcomers have ranks that nobody had, behind all others.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from p4reduce.comm.errors import ClusterError, GroupChanged

OnFailure = Literal["abort", "raise", "shrink"]
Outcome = Literal["kept", "redone", "raised"]


@dataclass(frozen=True)
class Answer:
    """What a survivor has done when it has stopped."""

    finished: int
    """Operations, of which it has the result."""
    contributors: tuple[int, ...] = ()
    """Whose contributions are in the last one."""


@dataclass(frozen=True)
class Decision:
    """What a group's coordinator decided; written down before anybody is told. Members are ranks of the start."""

    term: int
    """Counts attempts to decide: each has its own."""
    epoch: int
    """Of the group, from 1 on: each decision has its own, and its trees have generations of their own."""
    operation: int
    """The first that not all survivors had finished, from 0 on."""
    outcome: Outcome
    """``kept``: with the old members, the others got its array; ``redone`` over the new ones; ``raised``: not done."""
    before: tuple[int, ...]
    after: tuple[int, ...]
    contributors: tuple[int, ...]
    """Whose contributions the operation has; nobody's where it was raised."""
    holder: int | None
    """Who had the array that the others got."""
    lost: Mapping[int, str]
    """Who is dead, and why; empty where only the tree changed."""
    joined: tuple[int, ...] = ()
    """Who came in; they have none of the others' state."""
    cause: str = ""
    """Why, where nobody died: a link or a switch."""

    @property
    def heard_before(self) -> int:
        """The operation before which all members hear of it: the next one, or the one that was not done."""
        return self.operation + (self.outcome != "raised")

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        found = asdict(self)
        found["lost"] = {str(member): reason for member, reason in self.lost.items()}
        return found

    @staticmethod
    def from_plain(data: Mapping[str, Any]) -> "Decision":
        """From what :meth:`plain` gave, JSON's lists in the place of tuples or not."""
        members = {name: tuple(data[name]) for name in ("before", "after", "contributors", "joined")}
        lost = {int(member): str(reason) for member, reason in data["lost"].items()}
        return Decision(**{**data, **members, "lost": lost})

    def describe(self) -> str:
        """One line for people."""
        what = {
            "kept": "stands with all who were there",
            "redone": "was done again",
            "raised": "was not done",
        }[self.outcome]
        news = [f"rank {member} {reason}" for member, reason in self.lost.items()]
        news += [f"rank {member} joined" for member in self.joined]
        left = len(self.after) - len(self.joined)
        more = f", with {len(self.joined)} more" if self.joined else ""
        said = "; ".join(news) or self.cause
        return f"{said}: {left} of {len(self.before)} go on{more}; operation {self.operation} {what}"


def decide(
    answers: Mapping[int, Answer],
    *,
    before: tuple[int, ...],
    lost: Mapping[int, str],
    term: int,
    epoch: int,
    redo: bool = True,
    cause: str = "",
    joined: tuple[int, ...] = (),
) -> Decision:
    """The decision that follows from the answers of all survivors. ``redo``: False where callers want an error.

    joined: who comes in; the operation is then nobody's, and all call again. Raises ``ClusterError`` where nobody
    survives, where an answer is missing, or where answers contradict each other.
    """
    left = tuple(member for member in before if member not in lost)
    if not left:
        raise ClusterError("nobody survived: " + "; ".join(f"rank {one} {why}" for one, why in lost.items()))
    missing = [member for member in left if member not in answers]
    if missing:
        raise ClusterError(f"rank {missing[0]} has not said what it has finished")
    finished = {member: answers[member].finished for member in left}
    operation, most = min(finished.values()), max(finished.values())
    if most > operation + 1:
        ahead = max(left, key=finished.__getitem__)
        raise ClusterError(f"rank {ahead} has finished {most} operations, another one {operation}: nobody is two ahead")
    holder = next((member for member in left if finished[member] == operation + 1), None)
    if joined and holder is not None:
        raise ClusterError(f"rank {joined[0]} joins in operation {operation}, which rank {holder} has finished")
    outcome: Outcome = "kept" if holder is not None else "redone" if redo and not joined else "raised"
    contributors = {"redone": left, "raised": ()}.get(outcome, ())
    if holder is not None:
        contributors = answers[holder].contributors
        others = {answers[member].contributors for member in left if finished[member] == operation + 1}
        if len(others) > 1:
            raise ClusterError(f"operation {operation}: survivors have results of different members: {sorted(others)}")
    after = (*left, *joined)
    return Decision(
        term, epoch, operation, outcome, before, after, contributors, holder, dict(lost), joined=joined, cause=cause
    )


def cannot_redo(operation: str | None, root: int, lost: Collection[int]) -> bool:
    """Whether an operation has no meaning without ``lost`` members; ``root``: of a broadcast, a rank of the start."""
    return bool(lost) and (operation == "all_to_all" or (operation == "broadcast" and root in lost))


def group_changed(changes: Sequence[Decision], view: int, operation: int) -> GroupChanged:
    """What a caller hears who knows of the first ``view`` changes of its group, before its ``operation``-th call."""
    news = changes[view:]
    members = news[-1].after
    came = [member for decision in news for member in decision.joined]  # some of them are gone again
    lost = {member: reason for one in news for member, reason in one.lost.items() if member not in came}
    said = "; ".join(decision.describe() for decision in news)
    return GroupChanged(
        f"the group has changed before operation {operation}: {said}",
        view=len(changes),
        members=members,
        lost=lost,
        operation=operation,
        joined=[member for member in came if member in members],
    )
