"""Places of variables: BMv2's header types, headers, stacks and unions; the header ``scalars`` has all other values."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from p4switch.p4.diagnostics import Diagnostics, SourceFault, Unexpected, expect
from p4switch.p4.lower import bmv2
from p4switch.p4.lower.bmv2 import Json
from p4switch.p4.lower.layout import Do, LoweredCode
from p4switch.p4.syntax import tree
from p4switch.p4.types import kinds

if TYPE_CHECKING:
    from p4switch.p4.lower.expressions import ExpressionLowering
    from p4switch.p4.lower.externs import CallLowering, ExternLowering
    from p4switch.p4.lower.inlining import Inlining, Packets
    from p4switch.p4.lower.programs import Checksums, ProgramLowering
    from p4switch.p4.lower.statements import Loops, StatementsLowering, TablesLowering


# Objects that exist before any packet: instances of externs, parsers and controls, tables and actions.


class Bindings:
    """A scope of inlined code: the places and objects of declarations; ``types``: the types of type parameters."""

    def __init__(self, parent: "Bindings | None" = None, types: dict[kinds.Type, kinds.Type] | None = None) -> None:
        self.parent = parent
        self.bound: dict[Any, Any] = {}
        self.types: dict[kinds.Type, kinds.Type] = (
            types if types is not None else (parent.types if parent is not None else {})
        )

    def find(self, declaration: Any) -> Any:
        """Returns the place or object bound to a declaration; None if there is none."""
        scope: Bindings | None = self
        while scope is not None:
            bound = scope.bound.get(declaration)
            if bound is not None:
                return bound
            scope = scope.parent
        return None


@dataclass(eq=False)
class LoweredInstance:
    """An instance of an extern, parser or control.

    Attributes:
        name: the name for the control plane.
        arguments: arguments of the constructor.
        path: prefix for names of variables.
        extra: for direct counters and meters: table (``binding``), ``size``, and field (``target``) of a meter.
    """

    name: str
    type: kinds.DeclaredType
    arguments: list[Any]
    declaration: tree.Declaration
    at: int
    path: str = ""
    used: bool = False
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class ProgramInstance(LoweredInstance):
    """An instance of a parser or control. ``environment``: bindings of its declarations, None until they are needed;
    ``directly``: by call, the instances that it applies through the name of their type.
    """

    environment: Bindings | None = None
    directly: dict[Any, "ProgramInstance"] = field(default_factory=dict)

    @property
    def program(self) -> tree.Program:
        """The declaration of the parser or control."""
        return expect(self.type.declaration, tree.Program)


@dataclass(eq=False)
class ActionInstance:
    """An action of a control instance, or at the top level of the program."""

    name: str
    declaration: tree.Action
    environment: Bindings


@dataclass(eq=False)
class TableInstance:
    """A table of a control instance; ``json``: None until the table is first applied."""

    name: str
    declaration: tree.Table
    environment: Bindings
    path: str
    json: dict[str, Any] | None = None


@dataclass(eq=False)
class ValueSetInstance:
    """A value set of a parser instance."""

    name: str
    declaration: Any
    json: dict[str, Any] | None = None


@dataclass(eq=False)
class Callee:
    """Code that is being inlined.

    Attributes:
        label: target of its ``return``.
        result: place of a function's result; None without a result.
        copies: (outer place, inner place) of each ``out`` argument that is copied back at the end.
        within: for an action, the bindings of the instance that declares it; else None.
    """

    label: object
    result: bmv2.StoragePlace | None = None
    within: Bindings | None = None
    copies: list[tuple[bmv2.StoragePlace, bmv2.StoragePlace]] = field(default_factory=list)


SCALARS: Final = "scalars"
STANDARD: Final = "standard_metadata"
MOST_PLACES: Final = 100_000
"""Limit on fields and headers: a few structs, each with two members of the previous type, would make billions."""
NAMED: Final = 32
"""Bits of an error, and of an enum without a representation."""


def storage_width(kind: kinds.Type) -> int:
    """Returns the width in bits of the field that holds a scalar."""
    match kind:
        case kinds.Bits(width) | kinds.Varbits(width):
            return width
        case kinds.EnumType(base=base):
            return base.width if base is not None else NAMED
        case kinds.NewType(base=inner):
            return storage_width(inner)
    return 1 if kind is kinds.BOOL else NAMED


def bits_of(kind: kinds.Type) -> kinds.Bits | None:
    """Returns the number type that represents a type; None if there is none."""
    bare = kinds.plain(kind)
    if isinstance(bare, kinds.EnumType):
        bare = bare.base or bare
    return bare if isinstance(bare, kinds.Bits) else None


def is_scalar(kind: kinds.Type) -> bool:
    """Returns whether one field can hold a value of a type."""
    bare = kinds.plain(kind)
    return isinstance(bare, kinds.Bits | kinds.EnumType) or bare in (kinds.BOOL, kinds.ERROR)


class Storage:
    """Makes the header types and header instances of a program."""

    def __init__(self) -> None:
        self.header_types: list[Json] = []
        self.headers: list[Json] = []
        self.stacks: list[Json] = []
        self.union_types: list[Json] = []
        self.unions: list[Json] = []
        self.union_stacks: list[Json] = []
        self.aliases: list[Any] = []
        self._taken: dict[str, int] = {}
        self._fields: dict[str, int] = {}
        self._types: dict[object, tuple[str, dict[str, Any]]] = {}
        self._type_names: dict[str, int] = {"scalars_0": 0}
        self.scalars: list[list[Any]] = []
        self._header_type("scalars_0", self.scalars)
        self.add_header(SCALARS, "scalars_0", True)

    # --- scalars

    def scalar(self, name: str, kind: kinds.Type) -> bmv2.FieldPlace:
        """Makes a field for a scalar."""
        number = bits_of(kind)
        unique = self.unique(name, self._fields)
        self.scalars.append([unique, storage_width(kind), number is not None and number.signed])
        return bmv2.FieldPlace(kind, SCALARS, unique)

    def finish(self) -> None:
        """Pads ``scalars`` to whole bytes."""
        total = sum(width for _, width, _ in self.scalars)
        if total % 8:
            self.scalars.append([self.unique("_padding", self._fields), 8 - total % 8, False])

    @staticmethod
    def unique(name: str, taken: dict[str, int]) -> str:
        """Returns a free name and marks it as taken. ``taken``: names, each with the first suffix that may be free."""
        free, count = name, taken.get(name, 0)
        while free in taken:
            free = f"{name}_{count}"
            count += 1
        taken[name] = count
        taken.setdefault(free, 0)
        return free

    # --- values of any type

    def allocate(self, name: str, kind: kinds.Type, at: int) -> bmv2.StoragePlace:
        """Makes a place for a value of any type."""
        if len(self.scalars) + len(self.headers) > MOST_PLACES:
            raise SourceFault(at, f"the program has more than {MOST_PLACES:,} variables, counted as fields and headers")
        bare = kinds.plain(kind)
        match bare:
            case kinds.CompositeType(kind="struct", fields=fields):
                return bmv2.StructPlace(
                    kind, {n: self.allocate(f"{name}.{n}" if name else n, t, at) for n, t in fields.items()}
                )
            case kinds.TupleType(elements):
                members = {str(i): self.allocate(f"{name}.{i}", t, at) for i, t in enumerate(elements)}
                return bmv2.StructPlace(kind, members)
            case kinds.CompositeType(kind="header"):
                return self.header(name, bare, at)
            case kinds.CompositeType(kind="header_union"):
                return self.union(name, bare, at)
            case kinds.StackType():
                return self.stack(name, bare, at)
            case kinds.Varbits():
                return self._varbit(name, bare)
        if not is_scalar(kind):
            raise SourceFault(at, f"{kind} cannot be held in a variable")
        if not storage_width(kind):
            raise SourceFault(at, f"a variable of the type {kind} has no bits: the target has none", "Leave it out.")
        return self.scalar(name, kind)

    def header(self, name: str, kind: kinds.CompositeType, at: int) -> bmv2.HeaderPlace:
        """Makes a header instance."""
        type_name, layout = self.header_type(kind, at)
        unique = self.unique(name, self._taken)
        self.add_header(unique, type_name, False)
        return bmv2.HeaderPlace(kind, unique, layout)

    def add_header(self, name: str, type_name: str, metadata: bool) -> int:
        """Adds a header instance; returns its id."""
        self._taken.setdefault(name, 0)
        item = {"name": name, "id": len(self.headers), "header_type": type_name, "metadata": metadata, "pi_omit": True}
        self.headers.append(item)
        return len(self.headers) - 1

    @staticmethod
    def in_header(field: Json) -> bool:
        """Returns whether a field belongs to a header of packets, which may be invalid."""
        return field["value"][0] not in (SCALARS, STANDARD)

    def union(self, name: str, kind: kinds.CompositeType, at: int) -> bmv2.UnionPlace:
        """Makes a header union and its headers."""
        unique = self.unique(name, self._taken)
        members: dict[str, bmv2.StoragePlace] = {}
        numbers = []
        for member, member_kind in kind.fields.items():
            inner = expect(kinds.plain(member_kind), kinds.CompositeType)
            members[member] = self.header(f"{unique}.{member}", inner, at)
            numbers.append(len(self.headers) - 1)
        type_name = self._union_type(kind, at)
        item = {"name": unique, "id": len(self.unions), "union_type": type_name, "header_ids": numbers, "pi_omit": True}
        self.unions.append(item)
        return bmv2.UnionPlace(kind, unique, members)

    def _union_type(self, kind: kinds.CompositeType, at: int) -> str:
        if kind not in self._types:
            shown = self._type_name(kind)
            members = {name: expect(kinds.plain(inner), kinds.CompositeType) for name, inner in kind.fields.items()}
            headers = [[name, self.header_type(inner, at)[0]] for name, inner in members.items()]
            self.union_types.append({"name": shown, "id": len(self.union_types), "headers": headers})
            self._types[kind] = (shown, {})
        return self._types[kind][0]

    def stack(self, name: str, kind: kinds.StackType, at: int) -> bmv2.StackPlace:
        """Makes a stack and its elements."""
        unique = self.unique(name, self._taken)
        union = kind.element.kind == "header_union"
        elements: list[bmv2.StoragePlace] = []
        numbers = []
        for number in range(kind.size):
            if union:
                elements.append(self.union(f"{unique}[{number}]", kind.element, at))
                numbers.append(len(self.unions) - 1)
            else:
                elements.append(self.header(f"{unique}[{number}]", kind.element, at))
                numbers.append(len(self.headers) - 1)
        stacks = self.union_stacks if union else self.stacks
        word = "union" if union else "header"
        type_name = self._union_type(kind.element, at) if union else self.header_type(kind.element, at)[0]
        item: Json = {"name": unique, "id": len(stacks), f"{word}_type": type_name, "size": kind.size}
        stacks.append({**item, f"{'header_union' if union else word}_ids": numbers})
        return bmv2.StackPlace(kind, unique, elements)

    def _varbit(self, name: str, kind: kinds.Varbits) -> bmv2.StoragePlace:
        """Makes a metadata header for one variable of variable length."""
        type_name = f"varbit_{kind.width}"
        if type_name not in self._type_names:
            self._header_type(type_name, [["field", "*"]], kind.width)
        unique = self.unique(name, self._taken)
        self.add_header(unique, type_name, True)
        return bmv2.FieldPlace(kind, unique, "field")

    # --- types of headers

    def _type_name(self, kind: kinds.CompositeType) -> str:
        return self.unique(kind.declaration.shown, self._type_names)

    def header_type(self, kind: kinds.CompositeType, at: int) -> tuple[str, dict[str, Any]]:
        """Returns the name of a header's type and its layout; see HeaderPlace."""
        named_layout = self._types.get(kind)
        if named_layout is None:
            fields: list[list[Any]] = []
            layout = self._layout(kind, "", fields, at)
            layout["$order$"] = [item[0] for item in fields]
            total = sum(storage_width(inner) for inner in _leaves(kind))
            if total % 8:
                raise SourceFault(
                    at,
                    f"the header {kind.name!r} has {total} bits, which are no whole bytes",
                    f"Add a field of {8 - total % 8} bits to it, or make one of its fields wider.",
                )
            name = self._type_name(kind)
            varying = any(item[1] == "*" for item in fields)
            self._header_type(name, fields, total if varying else None)
            named_layout = self._types[kind] = (name, layout)
        return named_layout

    def _layout(self, kind: kinds.CompositeType, prefix: str, fields: list[list[Any]], at: int) -> dict[str, Any]:
        layout: dict[str, Any] = {}
        names = {f.name: f.shown for f in kind.declaration.fields}
        for name, inner in kind.fields.items():
            bare = kinds.plain(inner)
            shown = prefix + names[name]
            if isinstance(bare, kinds.CompositeType):
                layout[name] = (inner, self._layout(bare, f"{shown}.", fields, at))
            else:
                number = bits_of(inner)
                width: Any = "*" if isinstance(bare, kinds.Varbits) else storage_width(inner)
                fields.append([shown, width] if width == "*" else [shown, width, number is not None and number.signed])
                layout[name] = (inner, shown)
        return layout

    def _header_type(self, name: str, fields: list[list[Any]], varying: int | None = None) -> None:
        self._type_names.setdefault(name, 0)
        item: Json = {"name": name, "id": len(self.header_types), "fields": fields}
        if varying is not None:
            item["max_length"] = -(-varying // 8)
        self.header_types.append(item)

    def standard_metadata(self, kind: kinds.CompositeType) -> bmv2.StructPlace:
        """Makes the header ``standard_metadata``, whose fields the target reads and writes."""
        fields: list[list[Any]] = []
        members: dict[str, bmv2.StoragePlace] = {}
        for declared in kind.declaration.fields:
            inner = kind.fields[declared.name]
            fields.append([declared.name, storage_width(inner), False])
            members[declared.name] = bmv2.FieldPlace(inner, STANDARD, declared.name)
            alias = declared.annotation("alias")
            if alias is not None and alias.string:
                self.aliases.append([alias.string, [STANDARD, declared.name]])
        total = sum(item[1] for item in fields)
        if total % 8:
            fields.append(["_padding", 8 - total % 8, False])
        self._header_type(STANDARD, fields)
        self.add_header(STANDARD, STANDARD, True)
        return bmv2.StructPlace(kind, members)


def _leaves(kind: kinds.CompositeType) -> list[kinds.Type]:
    leaves: list[kinds.Type] = []
    for inner in kind.fields.values():
        bare = kinds.plain(inner)
        leaves += _leaves(bare) if isinstance(bare, kinds.CompositeType) else [inner]
    return leaves


def member_of_header(place: bmv2.HeaderPlace, name: str) -> bmv2.StoragePlace:
    """Returns a field of a header, or a struct within it, by its name in P4."""
    return _member(place.name, place.layout[name])


def _member(header: str, entry: tuple[kinds.Type, Any]) -> bmv2.StoragePlace:
    kind, inner = entry
    if isinstance(inner, dict):
        return bmv2.StructPlace(kind, {n: _member(header, e) for n, e in inner.items() if n != "$order$"})
    return bmv2.FieldPlace(kind, header, inner)


# The state that all parts of the lowering share.


class Lowering:
    """The state of the lowering, and its parts.

    Attributes:
        out: the list to which steps are added.
        environment: the current bindings of names.
        where: ``parser``, ``control``, ``action``, ``checksum`` or ``deparser``.
        path: the prefix of names of variables.
        callees: code that is being inlined, from the outermost.
        block: the block of the package that is being lowered; see programs.BLOCKS.
        settled: places of expressions that have been evaluated and must not be evaluated again.
        program_environment: bindings of the program's top-level declarations.
        holds_index: whether a stack's index is copied, because later statements may change it.
        within: number of actions that are being inlined.
        running: parsers and controls whose code is being lowered, from the outermost.
        open_loops: labels of ``break`` and ``continue`` of each loop that is being lowered, from the outermost.
        instances: instances of externs, in the order in which they are made.
        direct: direct counters and meters of tables.
        applied_tables: applied tables, in the order of the pipeline that is being lowered.
        actions: actions of the whole program, by id.
        profiles: action profiles of the current pipeline; ``profile_objects``: profiles of the whole program, by name.
        action_uses: by action name: ``table`` or (without a table) ``called``, its declaration, and the block.
        action_locals: places of the local variables of actions, by the instance that declares the action.
        calculations: hashes so far, as JSON.
        field_lists: field lists, each with its number in P4; ``learn_lists``: lists of digests.
        checksum_list, value_sets, emitted: sections of the JSON.
    """

    expressions: "ExpressionLowering"
    inlining: "Inlining"
    packets: "Packets"
    externs: "ExternLowering"
    calls: "CallLowering"
    loops: "Loops"
    statements: "StatementsLowering"
    tables: "TablesLowering"
    programs: "ProgramLowering"
    checksums: "Checksums"

    def __init__(self, diagnostics: Diagnostics, types: kinds.TypeTable, no_action: tree.Action | None) -> None:
        self.diagnostics = diagnostics
        self.types = types
        self.no_action = no_action
        self.storage = Storage()
        self.out: list[LoweredCode] = []
        self.environment = Bindings()
        self.program_environment = Bindings()
        self.where = ""
        self.block = ""
        self.path = ""
        self.callees: list[Callee] = []
        self.settled: dict[tree.Expression, bmv2.StoragePlace] = {}
        self.holds_index = False
        self.within = 0
        self.running: list[ProgramInstance] = []
        self.open_loops: list[dict[str, object]] = []
        self.instances: list[LoweredInstance] = []
        self.direct: list[LoweredInstance] = []
        self.applied_tables: list[TableInstance] = []
        self.actions: list[Json] = []
        self.profiles: list[Json] = []
        self.profile_objects: dict[str, LoweredInstance] = {}
        self.action_uses: dict[str, tuple[str, tree.Action, str]] = {}
        self.action_locals: dict[tuple[Bindings, tree.Variable], bmv2.StoragePlace] = {}
        self.calculations: list[Json] = []
        self.checksum_list: list[Json] = []
        self.value_sets: list[Json] = []
        self.emitted: list[str] = []
        self.field_lists: list[Json] = []
        self.learn_lists: list[Json] = []
        self.lists_used: dict[int, Any] = {}
        self.digests: dict[str, kinds.Type] = {}
        self.extern_calls = 0
        self.enums: dict[str, list[tuple[str, int]]] = {}
        self.foldable: dict[tree.Expression, bool] = {}

    def type_of(self, node: tree.Expression) -> kinds.Type:
        """Returns the type of an expression, with type parameters replaced."""
        kind = node.type
        if kind is None:
            raise Unexpected
        return self.types.substitute(kind, self.environment.types) if self.environment.types else kind

    def do(self, at: tree.Expression | LoweredCode | Any, operation: str, *parameters: Json) -> None:
        """Adds a primitive to the steps."""
        self.out.append(Do(at.at, at.end, operation, list(parameters)))

    def temporary(self, kind: kinds.Type, name: str = "tmp") -> bmv2.FieldPlace:
        """Makes a field for a temporary scalar."""
        return self.storage.scalar(name, kind)

    # --- constants

    def known(self, value: Any, kind: kinds.Type) -> bmv2.Value:
        """Returns a compile-time value as a place."""
        bare = kinds.plain(kind)
        if isinstance(value, bool) and bare is kinds.BOOL:
            return bmv2.Value(kind, bmv2.TRUE if value else bmv2.FALSE, value)
        if isinstance(value, tree.EnumMember):
            return bmv2.Value(kind, bmv2.constant(self.member_number(value, bare), 32), value)
        number = bits_of(bare)
        width = number.width if number is not None else max(int(value).bit_length(), 1)
        return bmv2.Value(kind, bmv2.constant(int(value), width), value)

    def member_number(self, member: tree.EnumMember, kind: kinds.Type) -> int:
        """Returns the number of an error or of an enum's member; records an enum for the JSON."""
        if isinstance(kind, kinds.EnumType) and kind.base is not None and member.initial is not None:
            return int(member.initial.value)
        if isinstance(kind, kinds.EnumType):
            self.enums.setdefault(kind.name, [(m.name, m.number) for m in kind.members.values()])
        return member.number

    def evaluate(self, node: tree.Expression | None) -> Any:
        """Returns an expression's compile-time value, with constructor parameters replaced; None if it has none."""
        if node is None:
            return None
        if node.value is not None:
            return node.value
        kind = kinds.plain(node.type) if node.type is not None else None
        match node:
            case tree.Name():
                bound = self.environment.find(node.target)
                return bound.constant if isinstance(bound, bmv2.Value) else None
            case tree.Cast(operand=operand):
                value = self.evaluate(operand)
                return None if value is None or kind is None else kinds.convert(value, operand.type or kind, kind)
            case tree.Unary(operator=operator, operand=operand):
                value = self.evaluate(operand)
                return None if value is None or kind is None else kinds.unary(operator, value, kind)
            case tree.Binary(operator=operator, left=left, right=right):
                first, second = self.evaluate(left), self.evaluate(right)
                if first is None or second is None or kind is None or left.type is None or operator in ("&&&", ".."):
                    return None
                return kinds.binary(operator, first, second, left.type, kind)
            case tree.Ternary(condition=condition, yes=yes, no=no):
                truth = self.evaluate(condition)
                return None if truth is None else self.evaluate(yes if truth else no)
            case tree.ListOf(items=items):
                values = tuple(self.evaluate(item) for item in items)
                return None if any(v is None for v in values) else values
            case tree.Member(base=base, name=name):
                value = self.evaluate(base)
                bare = kinds.plain(base.type) if base.type is not None else None
                if isinstance(value, tuple) and isinstance(bare, kinds.CompositeType):
                    return value[list(bare.fields).index(name)]
            case tree.Index(base=base, index=index):
                value, position = self.evaluate(base), self.evaluate(index)
                if isinstance(value, tuple) and isinstance(position, int):
                    return value[position]
            case tree.Slice(base=base, high=high, low=low):
                value = self.evaluate(base)
                if isinstance(value, int):
                    return (value >> low.value) & ((1 << (high.value - low.value + 1)) - 1)
        return None

    def number(self, node: tree.Expression | None, what: str, at: int) -> int:
        """Returns an expression's compile-time number. Raises SourceFault, which names ``what``, if it has none."""
        value = self.evaluate(node)
        if not isinstance(value, int):
            raise SourceFault(node.at if node is not None else at, f"{what} must be known when the program is compiled")
        return int(value)

    def as_bits(self, kind: kinds.Type) -> kinds.Bits:
        """Returns the number type that represents a type. Raises Unexpected if there is none."""
        return expect(bits_of(kind), kinds.Bits)


class LoweringPart:
    """Base of the parts of the lowering, which share ``ctx``."""

    def __init__(self, ctx: Lowering) -> None:
        self.ctx = ctx
