"""What can go wrong with a collective, said so that the caller knows who was missing.

Most errors end the group: who made which call is not known any more, or the network does not carry. `GOES_ON` names
those that are a property of one collective, which every rank is told alike: the next collective works.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from p4reduce.base.errors import P4ReduceError


class ClusterError(P4ReduceError, RuntimeError):
    """The run cannot go on."""


class FallenApartError(ClusterError):
    """No two members of a group reach each other any more."""


class CollectiveError(ClusterError):
    """A collective failed: participants disagree, one left, or the network gave up."""


class SaturatedError(CollectiveError):
    """A sum of int32 lies beyond int32. Every rank is told, its array is as it was, and the group goes on."""


class RefusedError(CollectiveError):
    """The network has no room or no plan for a collective. Every rank is told, nothing was sent; the group goes on."""


class GroupChanged(CollectiveError):
    """The group has other members than when the caller last heard of it; the call was not carried out.

    Its arrays are as they were. From now on the communicator's ``rank``, ``size`` and ``members`` are those of the new
    group: call again, with what it needs of them.
    """

    def __init__(
        self,
        message: str,
        *,
        view: int,
        members: Iterable[int],
        lost: Mapping[int, str],
        operation: int,
        joined: Iterable[int] = (),
    ) -> None:
        super().__init__(message)
        self.view = view
        """Which of the group's changes it is, from 1 on."""
        self.members = tuple(members)
        """Ranks of the start, in the new order of ranks."""
        self.lost = dict(lost)
        """Who is gone since the caller last heard, with the reason; by ranks of the start."""
        self.operation = operation
        """The caller's collective that was not carried out, from 0 on."""
        self.joined = tuple(joined)
        """Who has come in since the caller last heard, and needs the state of the others; ranks of the start go on."""


class ExcludedError(ClusterError):
    """A participant is no member any more: the others took it for dead and go on without it."""


GOES_ON: Final = (SaturatedError, RefusedError)
"""Errors of one collective, after which the group carries the next."""
