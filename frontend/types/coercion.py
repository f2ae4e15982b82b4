"""What may stand where a type is expected (P4_16 specification, sections 8.11 and 8.12)."""

from typing import Any

from p4reduce.frontend.diagnostics import Unexpected
from p4reduce.frontend.syntax.tree import (
    Binary,
    Cast,
    Default,
    Expression,
    ListOf,
    Member,
    Name,
    Number,
    Record,
    Ternary,
    Unary,
)
from p4reduce.frontend.types.folding import convert
from p4reduce.frontend.types.kinds import (
    ANYTHING,
    BOOL,
    INTEGER,
    NO_HEADER,
    UNKNOWN,
    Bits,
    CompositeType,
    EnumType,
    NewType,
    RecordType,
    SetType,
    TupleType,
    Type,
    TypeVariable,
    is_header,
    is_struct,
    is_union,
    plain,
)
from p4reduce.frontend.types.references import TypeResolver


class Coercion(TypeResolver):
    """Implicit conversions."""

    def coerce(self, node: Expression, target: Type, what: str) -> Expression:
        """The expression as one of the type ``target``, or an error that begins with ``what``."""
        source = node.type or UNKNOWN
        if source is target or source is UNKNOWN or target is UNKNOWN or isinstance(target, TypeVariable):
            return node
        if source is INTEGER:
            return self._coerce_number(node, target, what)
        if isinstance(node, ListOf) and isinstance(source, TupleType):
            return self._coerce_list(node, target, what)
        if isinstance(node, Record):
            return self._coerce_record(node, target, what)
        if isinstance(node, Ternary) and isinstance(source, TupleType | RecordType):
            node.yes, node.no = self.coerce(node.yes, target, what), self.coerce(node.no, target, what)
            node.type = target
            return node
        if source is NO_HEADER and isinstance(target, CompositeType) and target.kind != "struct":
            node.type = target
            return node
        if source is ANYTHING and isinstance(node, Default):
            node.type = target
            return node
        if isinstance(source, EnumType) and source.base is target:
            return self._insert_cast(node, target)
        if isinstance(source, TupleType) and isinstance(target, TupleType) and self._alike(source, target):
            node.type = target
            return node
        if isinstance(source, SetType) or isinstance(target, SetType):
            self.error(node.at, f"{what}: a set of keys is no value")
            return node
        self.error(node.at, f"{what} {target}, but this is {source}", mend(source, target, node))
        node.type = UNKNOWN
        return node

    def _alike(self, source: TupleType, target: TupleType) -> bool:
        if len(source.elements) != len(target.elements):
            return False
        return all(a is b or isinstance(b, TypeVariable) for a, b in zip(source.elements, target.elements, strict=True))

    def _insert_cast(self, node: Expression, target: Type) -> Cast:
        made = Cast(node.at, node.end, None, node)
        made.type, made.effects = target, node.effects
        made.value = None if node.value is None else convert(node.value, node.type or UNKNOWN, target)
        return made

    def _coerce_number(self, node: Expression, target: Type, what: str) -> Expression:
        """A number of no width becomes one of the type that is expected."""
        base = target
        if isinstance(target, EnumType) or not isinstance(plain(base), Bits):
            if target is INTEGER:
                return node
            self.error(node.at, f"{what} {target}, but this is a number", mend(INTEGER, target, node))
            node.type = UNKNOWN
            return node
        kind = plain(base)
        if isinstance(target, NewType):
            self.error(node.at, f"{what} {target}, but this is a number", f"Cast it: ({target}) …")
            node.type = UNKNOWN
            return node
        if not isinstance(kind, Bits):
            raise Unexpected
        value = node.value
        if isinstance(value, int):
            self._check_range(node, value, kind)
        self.give(node, target)
        return node

    def _check_range(self, node: Expression, value: int, kind: Bits) -> None:
        low = -(1 << (kind.width - 1)) if kind.signed else 0
        high = (1 << (kind.width - kind.signed)) - 1
        if not low <= value <= high:
            need = max(value.bit_length(), 1) + (1 if kind.signed else 0)
            if value < 0 and not kind.signed:
                message = f"{value} is negative, but {kind} is unsigned; {kind.wrap(value)} is taken"
            else:
                message = f"{value} needs {need} bits, but {kind} has {kind.width}; {kind.wrap(value)} is taken"
            self.diagnostics.warning(node.at, message)

    def give(self, node: Expression, kind: Type) -> None:
        """Gives a type to numbers of no width within an expression."""
        if node.type is not INTEGER:
            return
        node.type = kind
        base = plain(kind)
        if isinstance(node.value, int) and isinstance(base, Bits):
            node.value = base.wrap(node.value)
        match node:
            case Ternary():
                self.give(node.yes, kind)
                self.give(node.no, kind)
            case Unary():
                self.give(node.operand, kind)
            case Binary() if node.operator in ("<<", ">>"):
                self.give(node.left, kind)
            case Binary():
                self.give(node.left, kind)
                self.give(node.right, kind)

    # --- lists and records

    def _coerce_list(self, node: ListOf, target: Type, what: str) -> Expression:
        fields: list[tuple[str, Type]]
        if isinstance(target, CompositeType) and target.kind in ("struct", "header"):
            fields = list(target.fields.items())
        elif isinstance(target, TupleType):
            fields = [(str(i), t) for i, t in enumerate(target.elements)]
        else:
            self.error(node.at, f"{what} {target}, but this is a list", mend(node.type or UNKNOWN, target, node))
            node.type = UNKNOWN
            return node
        rest = bool(node.items) and isinstance(node.items[-1], Default)
        given = len(node.items) - rest
        if given > len(fields) or (given < len(fields) and not rest):
            names = ", ".join(name for name, _ in fields[:12])
            hint = f"Its fields: {names}." if isinstance(target, CompositeType) else ""
            self.error(node.at, f"{what} {target} with {len(fields)} fields, but this list has {given}", hint)
            node.type = UNKNOWN
            return node
        for number, (name, kind) in enumerate(fields[:given]):
            node.items[number] = self.coerce(node.items[number], kind, f"the field {name!r} is")
        node.type = target
        if rest:
            node.value = None
        else:
            self._value_of_parts(node, node.items)
        return node

    def _coerce_record(self, node: Record, target: Type, what: str) -> Expression:
        if not (isinstance(target, CompositeType) and target.kind in ("struct", "header")):
            self.error(node.at, f"{what} {target}, but this is a list of fields")
            node.type = UNKNOWN
            return node
        given: dict[str, Expression] = {}
        wrong = False
        for position, (name, value) in enumerate(node.fields):
            if name == "...":
                continue
            kind = target.fields.get(name)
            if kind is None:
                hint = f"Its fields: {', '.join(list(target.fields)[:12])}."
                self.error(value.at, f"{target} has no field {name!r}", hint)
                wrong = True
            elif name in given:
                self.error(value.at, f"the field {name!r} is given twice")
                wrong = True
            else:
                given[name] = self.coerce(value, kind, f"the field {name!r} is")
                node.fields[position] = (name, given[name])
        rest = any(name == "..." for name, _ in node.fields)
        missing = [name for name in target.fields if name not in given]
        if missing and not rest and not wrong:
            self.error(
                node.at, f"the fields {', '.join(missing)} of {target} are missing", "Give them, or end with ', ...'."
            )
        node.type = target
        if not missing and not wrong:
            self._value_of_parts(node, [given[name] for name in target.fields])
        return node

    def _value_of_parts(self, node: Expression, parts: list[Expression]) -> None:
        values = tuple(part.value for part in parts)
        node.value = None if any(v is None for v in values) else values


def mend(source: Type, target: Type, node: Any) -> str:
    """How an expression of one type is made to be of another."""
    shown = "x"
    if isinstance(node, Name):
        shown = node.name
    elif isinstance(node, Member):
        shown = _spelled(node)
    bare, wanted = plain(source), plain(target)
    if isinstance(source, NewType) or isinstance(target, NewType):
        return f"Cast it: ({target}) {shown}."
    if isinstance(bare, Bits) and isinstance(wanted, Bits):
        if bare.signed != wanted.signed and bare.width != wanted.width:
            return f"Cast in two steps: ({target})(bit<{wanted.width}>)… changes sign and width one after the other."
        if bare.width > wanted.width and not bare.signed:
            return f"Cast it, which cuts its upper bits: ({target}) {shown}, or {shown}[{wanted.width - 1}:0]."
        return f"Cast it: ({target}) {shown}."
    if wanted is BOOL and isinstance(bare, Bits):
        return f"Compare it: {shown} == 1." if bare.width == 1 else f"Compare it: {shown} != 0."
    if wanted is BOOL and source is INTEGER:
        return "Write true or false."
    if bare is BOOL and isinstance(wanted, Bits):
        return f"Cast it: (bit<1>) {shown}, or {shown} ? 1 : 0."
    if is_header(bare) or is_struct(bare) or is_union(bare):
        return "Name one of its fields." if not isinstance(wanted, CompositeType) else "The two are different types."
    if isinstance(wanted, EnumType) and isinstance(node, Number):
        return f"Name a member: {wanted}.{next(iter(wanted.members), '…')}."
    return ""


def _spelled(node: Member) -> str:
    parts = [node.name]
    base = node.base
    while isinstance(base, Member):
        parts.append(base.name)
        base = base.base
    return ".".join([base.name if isinstance(base, Name) else "…", *reversed(parts)])
