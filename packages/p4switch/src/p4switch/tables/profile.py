"""Action profiles: the members and groups that entries of indirect tables name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from p4switch.program.actions import Action, ActionProfile
from p4switch.program.program import Program
from p4switch.tables.matching import EntryExists, EntryStore, InvalidEntry, NoSuchEntry, StillUsed, TableFull

# One two-rate three-color meter (behavioral-model, src/bm_sim/meters.cpp).


METER_WORDS: Final = 9
"""64-bit words of a meter: whether it is configured, then for the peak and the committed bucket: rate (float64, per
microsecond), burst, tokens, total tokens that the rate had granted by the last packet."""

PEAK: Final = 1
COMMITTED: Final = 5
"""First word of each bucket."""

RATE: Final = 0
BURST: Final = 1
TOKENS: Final = 2
LAST: Final = 3
"""Offsets of the words of a bucket."""

RED: Final = 2
YELLOW: Final = 1
GREEN: Final = 0

MOST_TOKENS: Final = 2.0**62
"""Limit on the tokens granted to a bucket, so that every sum fits 64 bits."""

MICROSECONDS: Final = 1_000_000.0


@dataclass(frozen=True, slots=True)
class MeterConfig:
    """Rates (per second) and bursts of a meter, in packets or bytes."""

    cir: int
    cburst: int
    pir: int
    pburst: int


class MeterError(ValueError):
    """Rates that a meter cannot have: the committed rate is above the peak rate."""


def configure(cell: NDArray[np.uint64], config: MeterConfig | None) -> None:
    """Set the rates of a meter and fill its buckets; None makes every packet green. Raises MeterError."""
    if config is not None and config.cir > config.pir:
        raise MeterError(f"the committed rate {config.cir} is above the peak rate {config.pir}")
    cell[:] = 0
    if config is None:
        return
    cell[0] = 1
    for at, rate, burst in ((PEAK, config.pir, config.pburst), (COMMITTED, config.cir, config.cburst)):
        cell.view(np.float64)[at + RATE] = float(rate) / MICROSECONDS
        cell[at + BURST] = cell[at + TOKENS] = burst


def execute(cell: NDArray[np.uint64], unit: Literal["packets", "bytes"], length: int, now: int) -> int:
    """Return the color of a packet and take its tokens. If the peak bucket is short, the other bucket keeps its tokens.

    Args:
        cell: METER_WORDS words.
        unit: the unit that the meter counts.
        length: bytes of the packet as it came in.
        now: microseconds; if it goes backwards no tokens are added (BMv2 aborts).
    """
    if cell[0] == 0:
        return GREEN
    need = 1 if unit == "packets" else length
    for at, color in ((PEAK, RED), (COMMITTED, YELLOW)):
        given = int(min(float(now) * float(cell.view(np.float64)[at + RATE]), MOST_TOKENS))
        tokens, last = int(cell[at + TOKENS]), int(cell[at + LAST])
        fresh = max(given - last, 0)
        tokens = min(tokens + fresh, int(cell[at + BURST]))
        cell[at + LAST] = last + fresh
        if tokens < need:
            cell[at + TOKENS] = tokens
            return color
        cell[at + TOKENS] = tokens - need
    return GREEN


PROFILE_CELLS: Final = 2
"""int64 cells in a device's state: address of the members' rows, address of the groups."""

NONE: Final = 0
MEMBER: Final = 1
GROUP: Final = 2
"""Kinds of reference in an entry of an indirect table: the first word of its row; the second word is the reference."""

INDIRECT_ROW_WORDS: Final = 2


@dataclass(slots=True)
class ProfileMember:
    """An action with arguments. ``refs``: its rows; more than one if a group gives it a weight above 1."""

    action: str
    arguments: tuple[int, ...]
    refs: list[int]


@dataclass(slots=True)
class ActionGroup:
    """A group. ``members``: (member, weight) pairs as given; ``rows``: references of its rows, ascending."""

    members: tuple[tuple[int, int], ...]
    ref: int
    rows: NDArray[np.uint64] = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))


class Profile:
    """The members and groups of one action profile or selector; the control plane chooses their ids.

    BMv2 chooses row ``hash % n`` of the n rows of a group. Rows are ordered by their handles; a new row gets the lowest
    free handle. A member of weight w has w rows, as in PI.
    """

    def __init__(self, program: Program, spec: ActionProfile, cells: NDArray[np.int64]) -> None:
        self.spec = spec
        self.actions: tuple[Action, ...] = tuple(program.actions[ident] for ident in spec.actions)
        self._index_of = {action.name: i for i, action in enumerate(self.actions)}
        self._cells = cells
        self.reset()

    @property
    def name(self) -> str:
        """Full name."""
        return self.spec.name

    def reset(self) -> None:
        """Removes all members and groups."""
        self.members: dict[int, ProfileMember] = {}
        self.groups: dict[int, ActionGroup] = {}
        self._uses: dict[tuple[int, int], int] = {}
        self._store = EntryStore(self.actions)
        self._images: NDArray[np.uint64] = np.zeros((8, 2), dtype=np.uint64)
        self._publish()

    # --- members

    def insert_member(self, ident: int, action: str, arguments: tuple[int, ...]) -> None:
        """Adds a member. Raises EntryExists, InvalidEntry, TableFull."""
        self.check_action(action, arguments)
        if ident in self.members:
            raise EntryExists(f"action profile {self.name}: there is a member {ident} already")
        if self.spec.max_size and len(self.members) >= self.spec.max_size:
            raise TableFull(f"action profile {self.name} is full: the program allows {self.spec.max_size} members")
        self.members[ident] = ProfileMember(action, arguments, [self._row(action, arguments)])
        self._publish()

    def modify_member(self, ident: int, action: str, arguments: tuple[int, ...]) -> None:
        """Changes a member in every place where it is used. Raises NoSuchEntry, InvalidEntry."""
        member = self.member(ident)
        self.check_action(action, arguments)
        member.action, member.arguments = action, arguments
        for ref in member.refs:
            self._store.write(ref, self._index_of[action], arguments)

    def delete_member(self, ident: int) -> None:
        """Removes a member. Raises NoSuchEntry, StillUsed."""
        member = self.member(ident)
        in_group = any(m == ident for group in self.groups.values() for m, _ in group.members)
        if in_group or self._uses.get((MEMBER, ident), 0):
            raise StillUsed(f"action profile {self.name}: member {ident} is still used by a group or a table entry")
        for ref in member.refs:
            self._store.free(ref)
        del self.members[ident]

    def member(self, ident: int) -> ProfileMember:
        """Returns a member by its id. Raises NoSuchEntry."""
        if ident not in self.members:
            raise NoSuchEntry(f"action profile {self.name}: there is no member {ident}")
        return self.members[ident]

    # --- groups

    def insert_group(self, ident: int, members: Iterable[tuple[int, int]]) -> None:
        """Adds a group of (member id, weight) pairs. Raises EntryExists, NoSuchEntry, InvalidEntry."""
        if ident in self.groups:
            raise EntryExists(f"action profile {self.name}: there is a group {ident} already")
        given = self._checked(ident, members)
        taken = {group.ref for group in self.groups.values()}
        ref = next(r for r in range(len(taken) + 1) if r not in taken)
        if ref == len(self._images):
            self._images = np.concatenate([self._images, np.zeros_like(self._images)])
        self.groups[ident] = ActionGroup(given, ref)
        self._arrange()

    def modify_group(self, ident: int, members: Iterable[tuple[int, int]]) -> None:
        """Replaces the members of a group. Raises NoSuchEntry, InvalidEntry."""
        group = self.group(ident)
        group.members = self._checked(ident, members)
        self._arrange()

    def delete_group(self, ident: int) -> None:
        """Removes a group. Raises NoSuchEntry, StillUsed."""
        group = self.group(ident)
        if self._uses.get((GROUP, ident), 0):
            raise StillUsed(f"action profile {self.name}: group {ident} is still used by a table entry")
        self._images[group.ref] = 0
        del self.groups[ident]
        self._arrange()

    def group(self, ident: int) -> ActionGroup:
        """Returns a group by its id. Raises NoSuchEntry."""
        if ident not in self.groups:
            raise NoSuchEntry(f"action profile {self.name}: there is no group {ident}")
        return self.groups[ident]

    def _checked(self, ident: int, members: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
        given = tuple(members)
        what = f"action profile {self.name}, group {ident}"
        if self.spec.selector is None:
            raise InvalidEntry(f"{what}: the profile has no selector, so it has no groups")
        for member, weight in given:
            if weight < 1:
                raise InvalidEntry(f"{what}: member {member} has weight {weight}")
        for member, _ in given:
            self.member(member)
        if len({member for member, _ in given}) != len(given):
            raise InvalidEntry(f"{what}: a member is given twice; use weights")
        return given

    def _arrange(self) -> None:
        """Gives each member as many rows as its largest weight, and each group its list of rows."""
        for ident, member in self.members.items():
            weights = [w for group in self.groups.values() for m, w in group.members if m == ident]
            wanted = max(weights, default=1)
            while len(member.refs) < wanted:
                member.refs.append(self._row(member.action, member.arguments))
            while len(member.refs) > wanted:
                self._store.free(member.refs.pop())
        for group in self.groups.values():
            refs = sorted(ref for m, weight in group.members for ref in self.members[m].refs[:weight])
            group.rows = np.array(refs, dtype=np.uint64)
            self._images[group.ref] = (group.rows.ctypes.data, len(refs))
        self._publish()

    # --- used by tables

    def check_action(self, action: str, arguments: tuple[int, ...]) -> None:
        """Raises InvalidEntry if the profile lacks the action or the arguments do not fit it."""
        if action not in self._index_of:
            raise InvalidEntry(
                f"action profile {self.name} has no action {action!r}; it has {', '.join(self._index_of)}"
            )
        parameters = self.actions[self._index_of[action]].parameters
        if len(arguments) != len(parameters):
            raise InvalidEntry(
                f"action profile {self.name}, action {action}: {len(arguments)} arguments for {len(parameters)}"
            )
        for value, parameter in zip(arguments, parameters, strict=True):
            if not 0 <= value < 1 << parameter.width:
                raise InvalidEntry(f"{self.name}, {action}: {parameter.name} = {value} exceeds {parameter.width} bits")

    def reference(self, kind: int, ident: int) -> int:
        """Returns the reference that a table entry holds for a member or group. Raises NoSuchEntry."""
        return self.group(ident).ref if kind == GROUP else self.member(ident).refs[0]

    def use(self, kind: int, ident: int, by: int) -> None:
        """Counts the entries that name a member or group; ``by`` is 1 or -1."""
        self._uses[kind, ident] = self._uses.get((kind, ident), 0) + by

    def choose(self, kind: int, ident: int, hashed: Callable[[], int]) -> ProfileMember | None:
        """Returns the member for a packet; None if the group is empty. ``hashed`` computes the selector's hash."""
        if kind == MEMBER:
            return self.members[ident]
        rows = self.groups[ident].rows
        if len(rows) == 0:
            return None
        ref = int(rows[hashed() % len(rows)])
        return next(member for member in self.members.values() if ref in member.refs)

    def _row(self, action: str, arguments: tuple[int, ...]) -> int:
        ref = self._store.allocate()
        self._store.write(ref, self._index_of[action], arguments)
        return ref

    def _publish(self) -> None:
        self._cells[:] = (self._store.rows.ctypes.data, self._images.ctypes.data)
