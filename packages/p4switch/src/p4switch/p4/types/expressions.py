"""Types of expressions (P4_16 specification, section 8)."""

from collections.abc import Callable
from typing import Any

from p4switch.p4.syntax import tree
from p4switch.p4.types import kinds
from p4switch.p4.types.base import Environment, Part, TypeResolver, near, what_is
from p4switch.p4.types.operators import Coercion, Operators

_STACK_MEMBERS = ("next", "last", "lastIndex", "size")


class Expressions(Part):
    """Finds the type, and where it is known the value, of every expression; ``check_call`` does so for a call."""

    def __init__(self, env: Environment, check_call: Callable[[tree.Call], kinds.Type]) -> None:
        super().__init__(env)
        self.coercion = Coercion(env)
        self.resolver = TypeResolver(env, self.constant)
        operators = Operators(env, self.coercion, self.check)
        self._methods: dict[type[tree.Expression], Callable[[Any], kinds.Type]] ={
            tree.Number: self._number, tree.Boolean: self._boolean, tree.Text: self._text, tree.Name: self._name,
            tree.Member: self._member, tree.Index: self._index, tree.Slice: self._slice, tree.Ternary: self._ternary,
            tree.Unary: operators.check_unary, tree.Binary: operators.check_binary, tree.ListOf: self._list_of,
            tree.Record: self._record_of, tree.Cast: self._cast_of, tree.TypeName: self._type_name,
            tree.Call: check_call, tree.Default: self._default, tree.InvalidHeader: self._invalid_header,
        }  # fmt: skip

    def check(self, node: tree.Expression) -> kinds.Type:
        """The type of an expression, which is written into it; UNKNOWN after an error."""
        method = self._methods.get(type(node))
        kind = kinds.UNKNOWN if method is None else method(node)
        node.type = kind
        return kind

    def checked(self, node: tree.Expression, expected: kinds.Type, what: str) -> tree.Expression:
        """The expression, converted to what is expected of it; an error begins with ``what``."""
        self.check(node)
        return self.coercion.coerce(node, expected, what)

    def constant(self, expression: tree.Expression, what: str) -> int | None:
        """The compile-time number of an expression; None, and an error that begins with ``what``, if it has none."""
        self.check(expression)
        if isinstance(expression.value, int) and not isinstance(expression.value, bool):
            return expression.value
        if expression.type is not kinds.UNKNOWN:
            self.error(expression.at, f"{what} must be known when the program is compiled", "Use a number or a const.")
        return None

    # --- leaves

    def _number(self, node: tree.Number) -> kinds.Type:
        if node.width is None:
            node.value = node.number
            return kinds.INTEGER
        if node.width == 0 and node.signed:
            return self.wrong(node.at, "int<0> does not exist")
        kind = kinds.bits(node.width, node.signed)
        node.value = node.number
        self.coercion.check_range(node, node.number, kind)
        node.value = kind.wrap(node.number)
        return kind

    def _boolean(self, node: tree.Boolean) -> kinds.Type:
        node.value = node.truth
        return kinds.BOOL

    def _text(self, node: tree.Text) -> kinds.Type:
        node.value = node.text
        return kinds.STRING

    def _default(self, node: tree.Default) -> kinds.Type:
        return kinds.ANYTHING

    def _invalid_header(self, node: tree.InvalidHeader) -> kinds.Type:
        return kinds.NO_HEADER

    def _name(self, node: tree.Name) -> kinds.Type:
        target = self.target_of(node)
        if target is None:
            return kinds.UNKNOWN
        if isinstance(target, list):
            target = target[0]
        node.target = target
        match target:
            case tree.Variable() | tree.Parameter() | tree.ValueSet() | tree.Instance() | tree.Table():
                return target.type or kinds.UNKNOWN
            case tree.Constant():
                node.value = target.initial.value
                return target.type or kinds.UNKNOWN
            case tree.EnumMember():
                node.value = target
                return kinds.MATCH_KIND
        return self.wrong(node.at, f"{node.name!r} is {what_is(target)}, not a value")

    def target_of(self, node: tree.Name) -> Any:
        """What a name names; None, and an error, if nothing."""
        if node.target is not None:
            return node.target
        target = self.env.named(node)
        if target is None and node.name in self.env.match_kinds:
            return self.env.match_kinds[node.name]
        if target is None:
            hint = self.env.scope.near(node.name)
            if not hint and node.name in self.env.errors:
                hint = f"Write error.{node.name}."
            self.error(node.at, f"{node.name!r} is not declared", hint or "Declare it above its first use.")
        return target

    def type_named(self, node: tree.Expression) -> kinds.Type | None:
        """The type that an expression names, as in ``Enum.member``; None if it names none."""
        if isinstance(node, tree.TypeName):
            return self.resolver.resolve(node.ref)
        if not isinstance(node, tree.Name):
            return None
        if node.name == "error":
            return kinds.ERROR
        target = self.env.named(node)
        if isinstance(target, tree.Alias | tree.Enumeration):
            return target.type or kinds.UNKNOWN
        return None

    # --- members

    def _member(self, node: tree.Member) -> kinds.Type:
        named = self.type_named(node.base)
        if named is not None:
            return self._member_of_type(node, named)
        base = kinds.plain(self.check(node.base))
        node.effects = node.base.effects
        if base is kinds.UNKNOWN:
            return kinds.UNKNOWN
        match base:
            case kinds.CompositeType():
                return self._field(node, base)
            case kinds.StackType() if node.name in _STACK_MEMBERS:
                return self._stack_member(node, base)
            case kinds.ApplyResult():
                if node.name in ("hit", "miss"):
                    return kinds.BOOL
                if node.name == "action_run":
                    return kinds.ActionRun(base.table)
            case kinds.DeclaredType(kind="table"):
                return self.wrong(
                    node.at, f"a table has no {node.name!r}", f"Apply it first: {base.name}.apply().{node.name}."
                )
        hint = f"Take an element first: …[0].{node.name}, or .next, .last." if isinstance(base, kinds.StackType) else ""
        if node.name in ("isValid", "setValid", "setInvalid", "apply"):
            hint = f"Call it: …{node.name}()."
        return self.wrong(node.at, f"{base} has no field {node.name!r}", hint)

    def _member_of_type(self, node: tree.Member, kind: kinds.Type) -> kinds.Type:
        if kind is kinds.ERROR:
            member = self.env.errors.get(node.name)
            if member is None:
                return self.wrong(node.at, f"there is no error {node.name!r}", near(node.name, self.env.errors))
            node.target = node.value = member
            return kinds.ERROR
        if isinstance(kind, kinds.EnumType):
            member = kind.members.get(node.name)
            if member is None:
                return self.wrong(
                    node.at, f"the enum {kind} has no member {node.name!r}", near(node.name, kind.members)
                )
            node.target = member
            node.value = member if kind.base is None else member.initial.value
            return kind
        if kind is not kinds.UNKNOWN:
            self.error(node.at, f"the type {kind} has no member {node.name!r}")
        return kinds.UNKNOWN

    def _field(self, node: tree.Member, base: kinds.CompositeType) -> kinds.Type:
        found = base.fields.get(node.name)
        if found is None:
            if node.name in ("isValid", "setValid", "setInvalid"):
                self.error(node.at, f"{node.name!r} is a method", f"Call it: …{node.name}().")
            else:
                self.error(node.at, f"{base} has no field {node.name!r}", near(node.name, base.fields))
            return kinds.UNKNOWN
        if isinstance(node.base.value, tuple):
            node.value = node.base.value[list(base.fields).index(node.name)]
        return found

    def _stack_member(self, node: tree.Member, base: kinds.StackType) -> kinds.Type:
        if node.name == "size":
            node.value = base.size
            return kinds.bits(32)
        if self.env.context in ("apply", "action", "function") and node.name in ("next", "last"):
            where = {"apply": "a control", "action": "an action"}.get(self.env.context, "a function")
            self.error(node.at, f"{node.name!r} of a stack is for parsers, not for {where}", "Use an index: …[0].")
        return kinds.bits(32) if node.name == "lastIndex" else base.element

    def _index(self, node: tree.Index) -> kinds.Type:
        base = kinds.plain(self.check(node.base))
        self.check(node.index)
        node.effects = node.base.effects or node.index.effects
        if base is kinds.UNKNOWN or node.index.type is kinds.UNKNOWN:
            return kinds.UNKNOWN
        if isinstance(base, kinds.TupleType):
            position = node.index.value
            if not isinstance(position, int) or not 0 <= position < len(base.elements):
                return self.wrong(node.index.at, f"a tuple of {len(base.elements)} is indexed by a constant below that")
            if isinstance(node.base.value, tuple):
                node.value = node.base.value[position]
            return base.elements[position]
        if not isinstance(base, kinds.StackType):
            hint = "A single bit is a slice: x[3:3]." if isinstance(base, kinds.Bits) else ""
            if isinstance(base, kinds.DeclaredType) and base.name == "register":
                hint = "Use its methods: r.read(x, i); r.write(i, x);"
            return self.wrong(node.at, f"{base} is not indexed", hint)
        value = node.index.value
        if isinstance(value, int) and not 0 <= value < base.size:
            self.error(
                node.index.at, f"there is no element {value} in a stack of {base.size}", "Elements count from 0."
            )
        if node.index.type is kinds.INTEGER:
            self.coercion.give(node.index, kinds.bits(32))
        elif not isinstance(kinds.plain(node.index.type or kinds.UNKNOWN), kinds.Bits) and not isinstance(
            node.index.type, kinds.EnumType
        ):
            self.error(node.index.at, f"an index is a number, not {node.index.type}")
        return base.element

    def _slice(self, node: tree.Slice) -> kinds.Type:
        base = kinds.plain(self.check(node.base))
        node.effects = node.base.effects
        low = self.constant(node.low, "the lower end of a slice")
        if node.width is None:
            high = self.constant(node.high, "the upper end of a slice")
        else:
            width = self.constant(node.width, "the width of a slice")
            if width is not None and width < 1:
                return self.wrong(node.width.at, f"a slice has at least one bit, not {width}")
            high = node.high.value = low + width - 1 if low is not None and width is not None else None
        if isinstance(base, kinds.EnumType) and base.base:
            base = base.base
        if base is kinds.UNKNOWN or high is None or low is None:
            return kinds.UNKNOWN
        if base is kinds.INTEGER and isinstance(node.base.value, int):
            return self.wrong(node.at, "a number of no width has no slices", "Give it a width: 16w0x1234[7:0].")
        if not isinstance(base, kinds.Bits):
            return self.wrong(node.at, f"there is no slice of {base}")
        if low < 0 or high < low:
            return self.wrong(node.at, f"[{high}:{low}]: the upper end comes first", f"Write [{low}:{high}].")
        if high >= base.width:
            hint = f"Bits count from 0 to {base.width - 1}."
            return self.wrong(node.high.at, f"bit {high} is beyond {base}", hint)
        if isinstance(node.base.value, int):
            node.value = (node.base.value >> low) & ((1 << (high - low + 1)) - 1)
        return kinds.bits(high - low + 1)

    # --- what is made of parts

    def _ternary(self, node: tree.Ternary) -> kinds.Type:
        node.condition = self.checked(node.condition, kinds.BOOL, "the condition of '?' is")
        yes, no = self.check(node.yes), self.check(node.no)
        node.effects = node.condition.effects or node.yes.effects or node.no.effects
        if yes is kinds.INTEGER and no is not kinds.INTEGER:
            node.yes = self.coercion.coerce(node.yes, no, "the results of '?' are of one type; the other is")
            yes = node.yes.type or kinds.UNKNOWN
        elif (no is kinds.INTEGER and yes is not kinds.INTEGER) or yes is not no:
            node.no = self.coercion.coerce(node.no, yes, "the results of '?' are of one type; the other is")
        if node.condition.value is not None:
            node.value = node.yes.value if node.condition.value else node.no.value
        return yes

    def _list_of(self, node: tree.ListOf) -> kinds.Type:
        item_kinds = [self.check(item) for item in node.items]
        node.effects = any(item.effects for item in node.items)
        values = tuple(item.value for item in node.items)
        node.value = None if any(v is None for v in values) else values
        if kinds.UNKNOWN in item_kinds:
            return kinds.UNKNOWN
        return self.env.types.tuple_of(tuple(item_kinds))

    def _record_of(self, node: tree.Record) -> kinds.Type:
        field_kinds = {name: self.check(value) for name, value in node.fields}
        node.effects = any(value.effects for _, value in node.fields)
        return kinds.UNKNOWN if kinds.UNKNOWN in field_kinds.values() else kinds.RecordType(field_kinds)

    def _cast_of(self, node: tree.Cast) -> kinds.Type:
        source = self.check(node.operand)
        node.effects = node.operand.effects
        target = self.resolver.resolve(node.ref) if node.ref is not None else source
        if source is kinds.UNKNOWN or target is kinds.UNKNOWN:
            return kinds.UNKNOWN
        if isinstance(node.operand, tree.ListOf | tree.Record | tree.InvalidHeader):
            node.operand = self.coercion.coerce(node.operand, target, "this is cast to")
            node.value = node.operand.value
            return target
        reason = kinds.why_no_cast(source, target)
        if reason is not None:
            return self.wrong(node.at, f"{source} cannot be cast to {target}", reason)
        if node.operand.value is not None:
            node.value = kinds.convert(node.operand.value, source, kinds.plain(target))
        if source is kinds.INTEGER and isinstance(kinds.plain(target), kinds.Bits):
            self.coercion.give(node.operand, kinds.plain(target))
        return target

    def _type_name(self, node: tree.TypeName) -> kinds.Type:
        return self.wrong(node.at, "a type stands where a value is expected")

    # --- what may be assigned to (P4_16 specification, section 6.6)

    def check_place(self, node: tree.Expression, what: str) -> kinds.Type:
        """The type of what is assigned to; UNKNOWN, and an error that begins with ``what``, if nothing can be."""
        kind = self.check(node)
        if kind is kinds.UNKNOWN:
            return kinds.UNKNOWN
        problem = self._problem(node)
        if problem is None:
            return kind
        return self.wrong(node.at, f"{what} cannot be assigned to: {problem[0]}", problem[1])

    def _problem(self, node: tree.Expression) -> tuple[str, str] | None:
        """Why not, and what to do; None if it can be assigned to."""
        match node:
            case tree.Slice():
                return self._problem(node.base)
            case tree.Index():
                return self._problem(node.base)
            case tree.Member():
                if isinstance(kinds.plain(node.base.type or kinds.UNKNOWN), kinds.StackType):
                    if node.name in ("size", "lastIndex"):
                        return f"{node.name!r} follows from the stack", ""
                    if node.name == "last":
                        return None
                if node.target is not None:
                    return "it is a constant", ""
                return self._problem(node.base)
            case tree.Name():
                return self._problem_of_name(node)
        return "it is no variable, parameter or field", "Only these hold something."

    def _problem_of_name(self, node: tree.Name) -> tuple[str, str] | None:
        target = node.target
        match target:
            case tree.Variable():
                return None
            case tree.Parameter():
                if target.direction in ("out", "inout"):
                    return None
                if target.direction == "in":
                    return f"the parameter {node.name!r} is 'in'", "Declare it 'inout', or copy it into a variable."
                return f"the parameter {node.name!r} has no direction, so it is only read", "Copy it into a variable."
            case tree.Constant():
                return f"{node.name!r} is a constant", ""
            case tree.ValueSet():
                return f"{node.name!r} is a value set, which the control plane fills", ""
        return f"{node.name!r} is {what_is(target)}", ""
