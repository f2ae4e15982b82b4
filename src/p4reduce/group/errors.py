"""Errors of collectives; their texts name the ranks that were missing.

Most errors end the group, because the ranks' calls do not match any more, or the network cannot carry them. `GOES_ON`
names the errors of one collective: every rank gets the same one, and the next collective works.
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
    """A sum of int32 exceeds int32. Every rank gets the error, arrays are unchanged, and the group goes on."""


class RefusedError(CollectiveError):
    """The network has no room or plan for a collective. All ranks get the error, none has sent; the group goes on."""


class GroupChanged(CollectiveError):
    """The group has changed since the caller last heard of it; the call was not carried out.

    Its arrays are unchanged. From now on the communicator's ``rank``, ``size`` and ``members`` are those of the new
    group: repeat the call for these.
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
        """Number of the change, from 1 on."""
        self.members = tuple(members)
        """Ranks of the start, in the order of the new ranks."""
        self.lost = dict(lost)
        """Members lost since the caller last heard of a change, by rank of the start, with the reason."""
        self.operation = operation
        """Number of the caller's collective that was not carried out, from 0 on."""
        self.joined = tuple(joined)
        """Ranks that have joined since the caller last heard of a change, and need the others' state."""


class ExcludedError(ClusterError):
    """A participant is no member any more: the others considered it dead and go on without it."""


GOES_ON: Final = (SaturatedError, RefusedError)
"""Errors of one collective, after which the group carries the next."""
