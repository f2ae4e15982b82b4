"""Types of expressions (P4_16 specification, section 8)."""

from collections.abc import Callable
from typing import Any

from p4switch.p4.syntax.tree import (
    Alias,
    Binary,
    Boolean,
    Call,
    Cast,
    Constant,
    Default,
    Enumeration,
    EnumMember,
    Expression,
    Index,
    Instance,
    InvalidHeader,
    ListOf,
    Member,
    Name,
    Number,
    Parameter,
    Record,
    Slice,
    Table,
    Ternary,
    Text,
    TypeName,
    Unary,
    ValueSet,
    Variable,
)
from p4switch.p4.types.base import Environment, Part, TypeResolver, near, what_is
from p4switch.p4.types.kinds import (
    ANYTHING,
    BOOL,
    ERROR,
    INTEGER,
    MATCH_KIND,
    NO_HEADER,
    STRING,
    UNKNOWN,
    ActionRun,
    ApplyResult,
    Bits,
    CompositeType,
    DeclaredType,
    EnumType,
    RecordType,
    StackType,
    TupleType,
    Type,
    bits,
    convert,
    plain,
    why_no_cast,
)
from p4switch.p4.types.operators import Coercion, Operators

_STACK_MEMBERS = ("next", "last", "lastIndex", "size")


class Expressions(Part):
    """Finds the type, and where it is known the value, of every expression; ``check_call`` does so for a call."""

    def __init__(self, env: Environment, check_call: Callable[[Call], Type]) -> None:
        super().__init__(env)
        self.coercion = Coercion(env)
        self.resolver = TypeResolver(env, self.constant)
        operators = Operators(env, self.coercion, self.check)
        self._methods: dict[type[Expression], Callable[[Any], Type]] = {
            Number: self._number,
            Boolean: self._boolean,
            Text: self._text,
            Name: self._name,
            Member: self._member,
            Index: self._index,
            Slice: self._slice,
            Ternary: self._ternary,
            Unary: operators.check_unary,
            Binary: operators.check_binary,
            ListOf: self._list_of,
            Record: self._record_of,
            Cast: self._cast_of,
            TypeName: self._type_name,
            Call: check_call,
            Default: self._default,
            InvalidHeader: self._invalid_header,
        }

    def check(self, node: Expression) -> Type:
        """The type of an expression, which is written into it; UNKNOWN after an error."""
        method = self._methods.get(type(node))
        kind = UNKNOWN if method is None else method(node)
        node.type = kind
        return kind

    def checked(self, node: Expression, expected: Type, what: str) -> Expression:
        """The expression, converted to what is expected of it; an error begins with ``what``."""
        self.check(node)
        return self.coercion.coerce(node, expected, what)

    def constant(self, expression: Expression, what: str) -> int | None:
        """The compile-time number of an expression; None, and an error that begins with ``what``, if it has none."""
        self.check(expression)
        if isinstance(expression.value, int) and not isinstance(expression.value, bool):
            return expression.value
        if expression.type is not UNKNOWN:
            self.error(expression.at, f"{what} must be known when the program is compiled", "Use a number or a const.")
        return None

    # --- leaves

    def _number(self, node: Number) -> Type:
        if node.width is None:
            node.value = node.number
            return INTEGER
        if node.width == 0 and node.signed:
            self.error(node.at, "int<0> does not exist")
            return UNKNOWN
        kind = bits(node.width, node.signed)
        node.value = node.number
        self.coercion.check_range(node, node.number, kind)
        node.value = kind.wrap(node.number)
        return kind

    def _boolean(self, node: Boolean) -> Type:
        node.value = node.truth
        return BOOL

    def _text(self, node: Text) -> Type:
        node.value = node.text
        return STRING

    def _default(self, node: Default) -> Type:
        return ANYTHING

    def _invalid_header(self, node: InvalidHeader) -> Type:
        return NO_HEADER

    def _name(self, node: Name) -> Type:
        target = self.target_of(node)
        if target is None:
            return UNKNOWN
        if isinstance(target, list):
            target = target[0]
        node.target = target
        match target:
            case Variable() | Parameter() | ValueSet() | Instance() | Table():
                return target.type or UNKNOWN
            case Constant():
                node.value = target.initial.value
                return target.type or UNKNOWN
            case EnumMember():
                node.value = target
                return MATCH_KIND
        self.error(node.at, f"{node.name!r} is {what_is(target)}, not a value")
        return UNKNOWN

    def target_of(self, node: Name) -> Any:
        """What a name names; None, and an error, if nothing."""
        if node.target is not None:
            return node.target
        target = (self.env.globals if node.rooted else self.env.scope).find(node.name)
        if target is None and node.name in self.env.match_kinds:
            return self.env.match_kinds[node.name]
        if target is None:
            hint = self.env.scope.near(node.name)
            if not hint and node.name in self.env.errors:
                hint = f"Write error.{node.name}."
            self.error(node.at, f"{node.name!r} is not declared", hint or "Declare it above its first use.")
        return target

    def type_named(self, node: Expression) -> Type | None:
        """The type that an expression names, as in ``Enum.member``; None if it names none."""
        if isinstance(node, TypeName):
            return self.resolver.resolve(node.ref)
        if not isinstance(node, Name):
            return None
        if node.name == "error":
            return ERROR
        target = (self.env.globals if node.rooted else self.env.scope).find(node.name)
        if isinstance(target, Alias | Enumeration):
            return target.type or UNKNOWN
        return None

    # --- members

    def _member(self, node: Member) -> Type:
        named = self.type_named(node.base)
        if named is not None:
            return self._member_of_type(node, named)
        base = plain(self.check(node.base))
        node.effects = node.base.effects
        if base is UNKNOWN:
            return UNKNOWN
        match base:
            case CompositeType():
                return self._field(node, base)
            case StackType() if node.name in _STACK_MEMBERS:
                return self._stack_member(node, base)
            case ApplyResult():
                if node.name in ("hit", "miss"):
                    return BOOL
                if node.name == "action_run":
                    return ActionRun(base.table)
            case DeclaredType(kind="table"):
                self.error(
                    node.at, f"a table has no {node.name!r}", f"Apply it first: {base.name}.apply().{node.name}."
                )
                return UNKNOWN
        hint = f"Take an element first: …[0].{node.name}, or .next, .last." if isinstance(base, StackType) else ""
        if node.name in ("isValid", "setValid", "setInvalid", "apply"):
            hint = f"Call it: …{node.name}()."
        self.error(node.at, f"{base} has no field {node.name!r}", hint)
        return UNKNOWN

    def _member_of_type(self, node: Member, kind: Type) -> Type:
        if kind is ERROR:
            member = self.env.errors.get(node.name)
            if member is None:
                self.error(node.at, f"there is no error {node.name!r}", near(node.name, self.env.errors))
                return UNKNOWN
            node.target = node.value = member
            return ERROR
        if isinstance(kind, EnumType):
            member = kind.members.get(node.name)
            if member is None:
                self.error(node.at, f"the enum {kind} has no member {node.name!r}", near(node.name, kind.members))
                return UNKNOWN
            node.target = member
            node.value = member if kind.base is None else member.initial.value
            return kind
        if kind is not UNKNOWN:
            self.error(node.at, f"the type {kind} has no member {node.name!r}")
        return UNKNOWN

    def _field(self, node: Member, base: CompositeType) -> Type:
        found = base.fields.get(node.name)
        if found is None:
            if node.name in ("isValid", "setValid", "setInvalid"):
                self.error(node.at, f"{node.name!r} is a method", f"Call it: …{node.name}().")
            else:
                self.error(node.at, f"{base} has no field {node.name!r}", near(node.name, base.fields))
            return UNKNOWN
        if isinstance(node.base.value, tuple):
            node.value = node.base.value[list(base.fields).index(node.name)]
        return found

    def _stack_member(self, node: Member, base: StackType) -> Type:
        if node.name == "size":
            node.value = base.size
            return bits(32)
        if self.env.context in ("apply", "action", "function") and node.name in ("next", "last"):
            where = {"apply": "a control", "action": "an action"}.get(self.env.context, "a function")
            self.error(node.at, f"{node.name!r} of a stack is for parsers, not for {where}", "Use an index: …[0].")
        return bits(32) if node.name == "lastIndex" else base.element

    def _index(self, node: Index) -> Type:
        base = plain(self.check(node.base))
        self.check(node.index)
        node.effects = node.base.effects or node.index.effects
        if base is UNKNOWN or node.index.type is UNKNOWN:
            return UNKNOWN
        if isinstance(base, TupleType):
            position = node.index.value
            if not isinstance(position, int) or not 0 <= position < len(base.elements):
                self.error(node.index.at, f"a tuple of {len(base.elements)} is indexed by a constant below that")
                return UNKNOWN
            if isinstance(node.base.value, tuple):
                node.value = node.base.value[position]
            return base.elements[position]
        if not isinstance(base, StackType):
            hint = "A single bit is a slice: x[3:3]." if isinstance(base, Bits) else ""
            if isinstance(base, DeclaredType) and base.name == "register":
                hint = "Use its methods: r.read(x, i); r.write(i, x);"
            self.error(node.at, f"{base} is not indexed", hint)
            return UNKNOWN
        value = node.index.value
        if isinstance(value, int) and not 0 <= value < base.size:
            self.error(
                node.index.at, f"there is no element {value} in a stack of {base.size}", "Elements count from 0."
            )
        if node.index.type is INTEGER:
            self.coercion.give(node.index, bits(32))
        elif not isinstance(plain(node.index.type or UNKNOWN), Bits) and not isinstance(node.index.type, EnumType):
            self.error(node.index.at, f"an index is a number, not {node.index.type}")
        return base.element

    def _slice(self, node: Slice) -> Type:
        base = plain(self.check(node.base))
        node.effects = node.base.effects
        low = self.constant(node.low, "the lower end of a slice")
        if node.width is None:
            high = self.constant(node.high, "the upper end of a slice")
        else:
            width = self.constant(node.width, "the width of a slice")
            if width is not None and width < 1:
                self.error(node.width.at, f"a slice has at least one bit, not {width}")
                return UNKNOWN
            high = node.high.value = low + width - 1 if low is not None and width is not None else None
        if isinstance(base, EnumType) and base.base:
            base = base.base
        if base is UNKNOWN or high is None or low is None:
            return UNKNOWN
        if base is INTEGER and isinstance(node.base.value, int):
            self.error(node.at, "a number of no width has no slices", "Give it a width: 16w0x1234[7:0].")
            return UNKNOWN
        if not isinstance(base, Bits):
            self.error(node.at, f"there is no slice of {base}")
            return UNKNOWN
        if low < 0 or high < low:
            self.error(node.at, f"[{high}:{low}]: the upper end comes first", f"Write [{low}:{high}].")
            return UNKNOWN
        if high >= base.width:
            hint = f"Bits count from 0 to {base.width - 1}."
            self.error(node.high.at, f"bit {high} is beyond {base}", hint)
            return UNKNOWN
        if isinstance(node.base.value, int):
            node.value = (node.base.value >> low) & ((1 << (high - low + 1)) - 1)
        return bits(high - low + 1)

    # --- what is made of parts

    def _ternary(self, node: Ternary) -> Type:
        node.condition = self.checked(node.condition, BOOL, "the condition of '?' is")
        yes, no = self.check(node.yes), self.check(node.no)
        node.effects = node.condition.effects or node.yes.effects or node.no.effects
        if yes is INTEGER and no is not INTEGER:
            node.yes = self.coercion.coerce(node.yes, no, "the results of '?' are of one type; the other is")
            yes = node.yes.type or UNKNOWN
        elif (no is INTEGER and yes is not INTEGER) or yes is not no:
            node.no = self.coercion.coerce(node.no, yes, "the results of '?' are of one type; the other is")
        if node.condition.value is not None:
            node.value = node.yes.value if node.condition.value else node.no.value
        return yes

    def _list_of(self, node: ListOf) -> Type:
        kinds = [self.check(item) for item in node.items]
        node.effects = any(item.effects for item in node.items)
        values = tuple(item.value for item in node.items)
        node.value = None if any(v is None for v in values) else values
        if UNKNOWN in kinds:
            return UNKNOWN
        return self.env.types.tuple_of(tuple(kinds))

    def _record_of(self, node: Record) -> Type:
        kinds = {name: self.check(value) for name, value in node.fields}
        node.effects = any(value.effects for _, value in node.fields)
        return UNKNOWN if UNKNOWN in kinds.values() else RecordType(kinds)

    def _cast_of(self, node: Cast) -> Type:
        source = self.check(node.operand)
        node.effects = node.operand.effects
        target = self.resolver.resolve(node.ref) if node.ref is not None else source
        if source is UNKNOWN or target is UNKNOWN:
            return UNKNOWN
        if isinstance(node.operand, ListOf | Record | InvalidHeader):
            node.operand = self.coercion.coerce(node.operand, target, "this is cast to")
            node.value = node.operand.value
            return target
        reason = why_no_cast(source, target)
        if reason is not None:
            self.error(node.at, f"{source} cannot be cast to {target}", reason)
            return UNKNOWN
        if node.operand.value is not None:
            node.value = convert(node.operand.value, source, plain(target))
        if source is INTEGER and isinstance(plain(target), Bits):
            self.coercion.give(node.operand, plain(target))
        return target

    def _type_name(self, node: TypeName) -> Type:
        self.error(node.at, "a type stands where a value is expected")
        return UNKNOWN

    # --- what may be assigned to (P4_16 specification, section 6.6)

    def check_place(self, node: Expression, what: str) -> Type:
        """The type of what is assigned to; UNKNOWN, and an error that begins with ``what``, if nothing can be."""
        kind = self.check(node)
        if kind is UNKNOWN:
            return UNKNOWN
        problem = self._problem(node)
        if problem is None:
            return kind
        self.error(node.at, f"{what} cannot be assigned to: {problem[0]}", problem[1])
        return UNKNOWN

    def _problem(self, node: Expression) -> tuple[str, str] | None:
        """Why not, and what to do; None if it can be assigned to."""
        match node:
            case Slice():
                return self._problem(node.base)
            case Index():
                return self._problem(node.base)
            case Member():
                if isinstance(plain(node.base.type or UNKNOWN), StackType):
                    if node.name in ("size", "lastIndex"):
                        return f"{node.name!r} follows from the stack", ""
                    if node.name == "last":
                        return None
                if node.target is not None:
                    return "it is a constant", ""
                return self._problem(node.base)
            case Name():
                return self._problem_of_name(node)
        return "it is no variable, parameter or field", "Only these hold something."

    def _problem_of_name(self, node: Name) -> tuple[str, str] | None:
        target = node.target
        match target:
            case Variable():
                return None
            case Parameter():
                if target.direction in ("out", "inout"):
                    return None
                if target.direction == "in":
                    return f"the parameter {node.name!r} is 'in'", "Declare it 'inout', or copy it into a variable."
                return f"the parameter {node.name!r} has no direction, so it is only read", "Copy it into a variable."
            case Constant():
                return f"{node.name!r} is a constant", ""
            case ValueSet():
                return f"{node.name!r} is a value set, which the control plane fills", ""
        return f"{node.name!r} is {what_is(target)}", ""
