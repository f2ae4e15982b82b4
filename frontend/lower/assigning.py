"""Assignments of anything to anything of its type."""

from typing import Any

from p4reduce.frontend.diagnostics import SourceFault
from p4reduce.frontend.lower.base import LoweringBase
from p4reduce.frontend.lower.places import (
    ChosenField,
    ChosenHeader,
    FieldPlace,
    HeaderPlace,
    NoHeader,
    Place,
    SlicePlace,
    StackPlace,
    StructPlace,
    UnionPlace,
    Value,
    data_of,
)
from p4reduce.frontend.lower.storage import bits_of, is_scalar, storage_width
from p4reduce.frontend.lower.values import as_parameter, constant, fields_of, operation, wrapped
from p4reduce.frontend.types.kinds import Bits, Varbits, plain


class Assigning(LoweringBase):
    """Assigns."""

    def assign(self, target: Place, origin: Place, at: Any) -> None:
        """``target = origin``."""
        match target:
            case SlicePlace():
                self._assign_slice(target, origin, at)
            case FieldPlace() | ChosenField():
                self._assign_scalar(target, origin, at)
            case HeaderPlace() | ChosenHeader():
                self._assign_header(target, origin, at)
            case UnionPlace():
                self._assign_union(target, origin, at)
            case StackPlace():
                self._assign_stack(target, origin, at)
            case StructPlace():
                self._assign_struct(target, origin, at)
            case _:
                raise SourceFault(at.at, "this cannot be assigned to")

    def _assign_scalar(self, target: FieldPlace | ChosenField, origin: Place, at: Any) -> None:
        if same_field(target, origin):
            return
        varying = isinstance(plain(target.type), Varbits)
        self.do(at, "assign_VL" if varying else "assign", as_parameter(target.target()), as_parameter(data_of(origin)))

    def _assign_slice(self, target: SlicePlace, origin: Place, at: Any) -> None:
        """Bits of a number: the others stay."""
        base, low, high = target.base, target.low, target.high
        while isinstance(base, SlicePlace):
            low, high, base = low + base.low, high + base.low, base.base
        width = storage_width(base.type)
        mask = ((1 << (high - low + 1)) - 1) << low
        number = bits_of(base.type)
        rest = operation("&", data_of(base), constant(((1 << width) - 1) & ~mask, width))
        moved = operation("<<", data_of(origin), constant(low, 32)) if low else data_of(origin)
        placed = operation("&", moved, constant(mask, width))
        whole = operation("|", rest, placed)
        if number is not None and number.signed:
            whole = wrapped(whole, Bits(width, True))
        self.assign(base, Value(base.type, whole), at)

    def _assign_header(self, target: HeaderPlace | ChosenHeader, origin: Place, at: Any) -> None:
        match origin:
            case NoHeader():
                self.do(at, "remove_header", as_parameter(target.json()))
            case HeaderPlace() if isinstance(target, HeaderPlace) and origin.name == target.name:
                return
            case HeaderPlace() | ChosenHeader():
                self.do(at, "assign_header", as_parameter(target.json()), as_parameter(origin.json()))
            case StructPlace():
                members = self._kept_apart(target, origin, at)
                self.do(at, "add_header", as_parameter(target.json()))
                for name, member in members.items():
                    self.assign(self.header_member(target, name), member, at)
            case _:
                raise SourceFault(at.at, "this cannot be assigned to a header")

    def header_member(self, place: Place, name: str) -> Place:
        """See ExpressionLowering."""
        raise NotImplementedError

    def _assign_union(self, target: UnionPlace, origin: Place, at: Any) -> None:
        if isinstance(origin, NoHeader):
            for member in target.members.values():
                self.do(at, "remove_header", as_parameter(member.json()))
        elif isinstance(origin, UnionPlace):
            if origin.name != target.name or target.chosen is not None or origin.chosen is not None:
                self.do(at, "assign_union", as_parameter(target.json()), as_parameter(origin.json()))
        else:
            raise SourceFault(at.at, "this cannot be assigned to a header union")

    def _assign_stack(self, target: StackPlace, origin: Place, at: Any) -> None:
        if isinstance(origin, StackPlace):
            if origin.name != target.name:
                operator = "assign_union_stack" if target.of_unions else "assign_header_stack"
                self.do(at, operator, target.json(), origin.json())
        elif isinstance(origin, NoHeader):
            for element in target.elements:
                self.assign(element, NoHeader(element.type), at)
        elif isinstance(origin, StructPlace):
            for element, member in zip(target.elements, origin.members.values(), strict=True):
                self.assign(element, member, at)
        else:
            raise SourceFault(at.at, "this cannot be assigned to a stack")

    def _assign_struct(self, target: StructPlace, origin: Place, at: Any) -> None:
        if not isinstance(origin, StructPlace):
            raise SourceFault(at.at, "this cannot be assigned to a struct")
        members = list(self._kept_apart(target, origin, at).values())
        for place, member in zip(target.members.values(), members, strict=True):
            self.assign(place, member, at)

    def _kept_apart(self, target: Place, origin: StructPlace, at: Any) -> dict[str, Place]:
        """The members of a list; copied first where they read what the assignment changes."""
        written = set(target.leaves())
        headers = {header for header, name in written if name == "*"}
        members: dict[str, Place] = {}
        for position, (name, member) in enumerate(origin.members.items()):
            members[name] = member
            if (position == 0 and len(origin.members) == 1) or not is_scalar(member.type):
                if isinstance(member, StructPlace):
                    members[name] = StructPlace(member.type, self._kept_apart(target, member, at))
                continue
            read: set[tuple[str, str]] = set()
            fields_of(data_of(member), read)
            if isinstance(target, ChosenHeader) or any(f in written or f[0] in headers for f in read):
                own = target.members.get(name) if isinstance(target, StructPlace) else None
                if same_field(own, member):
                    continue
                copy = self.temporary(member.type)
                self.assign(copy, member, at)
                members[name] = copy
        return members


def same_field(one: Place | None, other: Place) -> bool:
    """Whether two places are one field."""
    fields = isinstance(one, FieldPlace) and isinstance(other, FieldPlace)
    return fields and set(one.leaves()) == set(other.leaves()) if one is not None else False
