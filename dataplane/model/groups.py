"""Header stacks, header unions and stacks of unions: what P4 calls by one name, and the headers that it stands for.

They have no storage of their own. A stack is its element headers and a hidden metadata field, the number of the next
free element; the header that is valid in a union is found by asking its members. So executors see headers only.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from p4reduce.dataplane.model.errors import ProgramError, UnsupportedConstruct
from p4reduce.dataplane.model.expressions import FieldRef
from p4reduce.dataplane.model.headers import Field, Header, HeaderType
from p4reduce.dataplane.model.reading import Json, get, objects, pair, source_of

NEXT_HEADER: Final = "$next$"
"""Hidden metadata with a field for each stack: the index of its first free element; the size where it is full."""

NEXT_WIDTH: Final = 32


@dataclass(frozen=True, slots=True)
class Union:
    """A header union: member name -> header instance."""

    name: str
    members: Mapping[str, str]

    @property
    def headers(self) -> tuple[str, ...]:
        """The instances in the order of declaration."""
        return tuple(self.members.values())


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack of headers, or of unions.

    Attributes:
        elements: for each element its headers: one in a header stack, all members in a stack of unions.
        unions: names of the unions, empty in a header stack.
        next: the index of the first free element.
    """

    name: str
    elements: tuple[tuple[str, ...], ...]
    unions: tuple[str, ...] = ()

    @property
    def next(self) -> FieldRef:
        """The index of the first free element."""
        return FieldRef(NEXT_HEADER, ("union " if self.unions else "") + self.name, NEXT_WIDTH)

    @property
    def size(self) -> int:
        """Number of elements."""
        return len(self.elements)


@dataclass(frozen=True, slots=True)
class HeaderGroups:
    """All of a program, by name."""

    stacks: dict[str, Stack] = field(default_factory=dict)
    unions: dict[str, Union] = field(default_factory=dict)
    union_stacks: dict[str, Stack] = field(default_factory=dict)

    def find(self, kind: str, name: object, where: str) -> Any:
        """A stack, union or union stack by its JSON type and name. Raises ProgramError."""
        tables: dict[str, Mapping[str, Stack | Union]] = {
            "header_stack": self.stacks,
            "stack": self.stacks,
            "header_union": self.unions,
            "header_union_stack": self.union_stacks,
            "union_stack": self.union_stacks,
        }
        known = tables[kind]
        if not isinstance(name, str) or name not in known:
            raise ProgramError(f"{where}: unknown {kind} {name!r}")
        return known[name]


def load_groups(root: Json, names: Mapping[int, str]) -> HeaderGroups:
    """The groups of a program; ``names`` are the header instances by id."""
    types = {get(t, "name", str, "header_union_types"): t for t in objects(root, "header_union_types", "program")}
    groups = HeaderGroups()
    unions_by_id: dict[int, Union] = {}
    for obj in objects(root, "header_unions", "program"):
        name = get(obj, "name", str, "header_unions")
        where = f"header union {name!r}"
        kind = get(obj, "union_type", str, where)
        if kind not in types:
            raise ProgramError(f"{where}: unknown union type {kind!r}")
        labels = [str(pair(item, where)[0]) for item in get(types[kind], "headers", list, where)]
        union = Union(name, dict(zip(labels, _named(obj, "header_ids", names, where), strict=True)))
        groups.unions[name] = unions_by_id[get(obj, "id", int, where)] = union
    for obj in objects(root, "header_stacks", "program"):
        name = get(obj, "name", str, "header_stacks")
        headers = tuple((header,) for header in _named(obj, "header_ids", names, f"header stack {name!r}"))
        groups.stacks[name] = _checked(Stack(name, headers), obj)
    for obj in objects(root, "header_union_stacks", "program"):
        name = get(obj, "name", str, "header_union_stacks")
        where = f"header union stack {name!r}"
        members = _named(obj, "header_union_ids", {ident: u.name for ident, u in unions_by_id.items()}, where)
        elements = tuple(groups.unions[member].headers for member in members)
        groups.union_stacks[name] = _checked(Stack(name, elements, tuple(members)), obj)
    return groups


def next_header(groups: HeaderGroups) -> Header:
    """The hidden metadata with the ``next`` of each stack."""
    stacks = [*groups.stacks.values(), *groups.union_stacks.values()]
    fields = tuple(Field(s.next.name, NEXT_WIDTH, False, NEXT_WIDTH * i) for i, s in enumerate(stacks))
    return Header(NEXT_HEADER, HeaderType(NEXT_HEADER, fields), metadata=True)


def _named(obj: Json, key: str, names: Mapping[int, str], where: str) -> list[str]:
    ids = get(obj, key, list, where)
    for ident in ids:
        if ident not in names:
            raise ProgramError(f"{where}: {key} names {ident!r}, which is not declared")
    return [names[ident] for ident in ids]


def _checked(stack: Stack, obj: Json) -> Stack:
    if not stack.elements:
        raise UnsupportedConstruct("header stack without elements", f"{stack.name!r}", source_of(obj))
    return stack
