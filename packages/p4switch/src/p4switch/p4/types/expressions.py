"""Types of operators (P4_16 specification, sections 8.4 to 8.10) and of all other expressions."""

from collections.abc import Callable
from typing import Any

from p4switch.p4.diagnostics import expect
from p4switch.p4.syntax import tree
from p4switch.p4.types import kinds
from p4switch.p4.types.base import CheckerPart, CheckerState, TypeResolver, near, what_is

# Implicit conversions (P4_16 specification, sections 8.11 and 8.12).


class Coercion(CheckerPart):
    """Makes implicit conversions."""

    def coerce(self, node: tree.Expression, target: kinds.Type, what: str) -> tree.Expression:
        """Returns an expression converted to ``target``; if that fails, reports an error that begins with ``what``."""
        source = node.type or kinds.UNKNOWN
        if (
            source is target
            or source is kinds.UNKNOWN
            or target is kinds.UNKNOWN
            or isinstance(target, kinds.TypeVariable)
        ):
            return node
        if source is kinds.INTEGER:
            return self._coerce_number(node, target, what)
        if isinstance(node, tree.ListOf) and isinstance(source, kinds.TupleType):
            return self._coerce_list(node, target, what)
        if isinstance(node, tree.Record):
            return self._coerce_record(node, target, what)
        if isinstance(node, tree.Ternary) and isinstance(source, kinds.TupleType | kinds.RecordType):
            node.yes, node.no = self.coerce(node.yes, target, what), self.coerce(node.no, target, what)
            node.type = target
            return node
        if source is kinds.NO_HEADER and isinstance(target, kinds.CompositeType) and target.kind != "struct":
            node.type = target
            return node
        if source is kinds.ANYTHING and isinstance(node, tree.Default):
            node.type = target
            return node
        if isinstance(source, kinds.EnumType) and source.base is target:
            return self._insert_cast(node, target)
        if isinstance(source, kinds.TupleType) and isinstance(target, kinds.TupleType) and self._alike(source, target):
            node.type = target
            return node
        if isinstance(source, kinds.SetType) or isinstance(target, kinds.SetType):
            self.error(node.at, f"{what}: a set of keys is no value")
            return node
        return self._refused(node, f"{what} {target}, but this is {source}", mend(source, target, node))

    def _refused(self, node: tree.Expression, message: str, hint: str = "") -> tree.Expression:
        node.type = self.wrong(node.at, message, hint)
        return node

    def _alike(self, source: kinds.TupleType, target: kinds.TupleType) -> bool:
        if len(source.elements) != len(target.elements):
            return False
        return all(
            a is b or isinstance(b, kinds.TypeVariable) for a, b in zip(source.elements, target.elements, strict=True)
        )

    def _insert_cast(self, node: tree.Expression, target: kinds.Type) -> tree.Cast:
        made = tree.Cast(node.at, node.end, None, node)
        made.type, made.effects = target, node.effects
        made.value = None if node.value is None else kinds.convert(node.value, node.type or kinds.UNKNOWN, target)
        return made

    def _coerce_number(self, node: tree.Expression, target: kinds.Type, what: str) -> tree.Expression:
        """Gives a number without a width the expected type."""
        base = target
        if isinstance(target, kinds.EnumType) or not isinstance(kinds.plain(base), kinds.Bits):
            if target is kinds.INTEGER:
                return node
            hint = mend(kinds.INTEGER, target, node)
            return self._refused(node, f"{what} {target}, but this is a number", hint)
        kind = kinds.plain(base)
        if isinstance(target, kinds.NewType):
            return self._refused(node, f"{what} {target}, but this is a number", f"Cast it: ({target}) …")
        if isinstance(node.value, int):
            self.check_range(node, node.value, expect(kind, kinds.Bits))
        self.give(node, target)
        return node

    def check_range(self, node: tree.Expression, value: int, kind: kinds.Bits) -> None:
        """Warns if a number does not fit its width."""
        low = -(1 << (kind.width - 1)) if kind.signed else 0
        high = (1 << (kind.width - kind.signed)) - 1
        if not low <= value <= high:
            need = max(value.bit_length(), 1) + (1 if kind.signed else 0)
            if value < 0 and not kind.signed:
                message = f"{value} is negative, but {kind} is unsigned; {kind.wrap(value)} is taken"
            else:
                message = f"{value} needs {need} bits, but {kind} has {kind.width}; {kind.wrap(value)} is taken"
            self.env.diagnostics.warning(node.at, message)

    def give(self, node: tree.Expression, kind: kinds.Type) -> None:
        """Sets the type of an expression of numbers without a width, and of its operands."""
        if node.type is not kinds.INTEGER:
            return
        node.type = kind
        base = kinds.plain(kind)
        if isinstance(node.value, int) and isinstance(base, kinds.Bits):
            node.value = base.wrap(node.value)
        match node:
            case tree.Ternary():
                self.give(node.yes, kind)
                self.give(node.no, kind)
            case tree.Unary():
                self.give(node.operand, kind)
            case tree.Binary() if node.operator in ("<<", ">>"):
                self.give(node.left, kind)
            case tree.Binary():
                self.give(node.left, kind)
                self.give(node.right, kind)

    # --- lists and records

    def _coerce_list(self, node: tree.ListOf, target: kinds.Type, what: str) -> tree.Expression:
        fields: list[tuple[str, kinds.Type]]
        if isinstance(target, kinds.CompositeType) and target.kind in ("struct", "header"):
            fields = list(target.fields.items())
        elif isinstance(target, kinds.TupleType):
            fields = [(str(i), t) for i, t in enumerate(target.elements)]
        else:
            hint = mend(node.type or kinds.UNKNOWN, target, node)
            return self._refused(node, f"{what} {target}, but this is a list", hint)
        rest = bool(node.items) and isinstance(node.items[-1], tree.Default)
        given = len(node.items) - rest
        if given > len(fields) or (given < len(fields) and not rest):
            names = ", ".join(name for name, _ in fields[:12])
            hint = f"Its fields: {names}." if isinstance(target, kinds.CompositeType) else ""
            return self._refused(node, f"{what} {target} with {len(fields)} fields, but this list has {given}", hint)
        for number, (name, kind) in enumerate(fields[:given]):
            node.items[number] = self.coerce(node.items[number], kind, f"the field {name!r} is")
        node.type = target
        if rest:
            node.value = None
        else:
            self._value_of_parts(node, node.items)
        return node

    def _coerce_record(self, node: tree.Record, target: kinds.Type, what: str) -> tree.Expression:
        if not (isinstance(target, kinds.CompositeType) and target.kind in ("struct", "header")):
            return self._refused(node, f"{what} {target}, but this is a list of fields")
        given: dict[str, tree.Expression] = {}
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

    def _value_of_parts(self, node: tree.Expression, parts: list[tree.Expression]) -> None:
        values = tuple(part.value for part in parts)
        node.value = None if any(v is None for v in values) else values


def mend(source: kinds.Type, target: kinds.Type, node: Any) -> str:
    """Returns a hint on how to convert an expression of one type to another."""
    shown = "x"
    if isinstance(node, tree.Name):
        shown = node.name
    elif isinstance(node, tree.Member):
        shown = _spelled(node)
    bare, wanted = kinds.plain(source), kinds.plain(target)
    if isinstance(source, kinds.NewType) or isinstance(target, kinds.NewType):
        return f"Cast it: ({target}) {shown}."
    if isinstance(bare, kinds.Bits) and isinstance(wanted, kinds.Bits):
        if bare.signed != wanted.signed and bare.width != wanted.width:
            return f"Cast in two steps: ({target})(bit<{wanted.width}>)… changes sign and width one after the other."
        if bare.width > wanted.width and not bare.signed:
            return f"Cast it, which cuts its upper bits: ({target}) {shown}, or {shown}[{wanted.width - 1}:0]."
        return f"Cast it: ({target}) {shown}."
    if wanted is kinds.BOOL and isinstance(bare, kinds.Bits):
        return f"Compare it: {shown} == 1." if bare.width == 1 else f"Compare it: {shown} != 0."
    if wanted is kinds.BOOL and source is kinds.INTEGER:
        return "Write true or false."
    if bare is kinds.BOOL and isinstance(wanted, kinds.Bits):
        return f"Cast it: (bit<1>) {shown}, or {shown} ? 1 : 0."
    if kinds.is_header(bare) or kinds.is_struct(bare) or kinds.is_union(bare):
        return (
            "Name one of its fields." if not isinstance(wanted, kinds.CompositeType) else "The two are different types."
        )
    if isinstance(wanted, kinds.EnumType) and isinstance(node, tree.Number):
        return f"Name a member: {wanted}.{next(iter(wanted.members), '…')}."
    return ""


def _spelled(node: tree.Member) -> str:
    parts = [node.name]
    base = node.base
    while isinstance(base, tree.Member):
        parts.append(base.name)
        base = base.base
    return ".".join([base.name if isinstance(base, tree.Name) else "…", *reversed(parts)])


SHIFT_BITS = 8
"""Bits of the widest shift amount that the target takes."""


class Operators(CheckerPart):
    """Checks operators; ``check`` returns the type of an operand."""

    def __init__(self, env: CheckerState, coercion: Coercion, check: Callable[[tree.Expression], kinds.Type]) -> None:
        super().__init__(env)
        self._coerce = coercion.coerce
        self._give = coercion.give
        self._check = check

    def check_unary(self, node: tree.Unary) -> kinds.Type:
        """Checks ``!``, ``~``, ``-``, ``+``."""
        kind = self._check(node.operand)
        node.effects = node.operand.effects
        if kind is kinds.UNKNOWN:
            return kinds.UNKNOWN
        if node.operator == "!":
            if kind is not kinds.BOOL:
                hint = "Turn bits over with '~', or compare: x == 0." if isinstance(kind, kinds.Bits) else ""
                return self.wrong(node.at, f"'!' is for bool, not for {kind}", hint)
        elif isinstance(kind, kinds.EnumType) and kind.base:
            node.operand = self._coerce(node.operand, kind.base, "an operand is")
            kind = kind.base
        elif not isinstance(kind, kinds.Bits) and (kind is not kinds.INTEGER or node.operator == "~"):
            hint = "Use '!' for bool." if kind is kinds.BOOL else ""
            hint = "Give the number a width: ~8w5." if kind is kinds.INTEGER else hint
            return self.wrong(node.at, f"{node.operator!r} is for numbers with a width, not for {kind}", hint)
        if node.operand.value is not None:
            node.value = kinds.unary(node.operator, node.operand.value, kind)
        return kind

    def check_binary(self, node: tree.Binary) -> kinds.Type:
        """Checks all operators with two operands."""
        self._check(node.left)
        self._check(node.right)
        node.effects = node.left.effects or node.right.effects
        for side in ("left", "right"):
            operand: tree.Expression = getattr(node, side)
            if isinstance(operand.type, kinds.EnumType) and operand.type.base and node.operator not in ("==", "!="):
                setattr(node, side, self._coerce(operand, operand.type.base, "an operand is"))
        left, right = node.left.type or kinds.UNKNOWN, node.right.type or kinds.UNKNOWN
        if kinds.UNKNOWN in (left, right):
            return kinds.BOOL if node.operator in _GIVES_BOOL else kinds.UNKNOWN
        kind = self._binary_type(node, left, right)
        if (
            kind is not kinds.UNKNOWN
            and node.left.value is not None
            and node.right.value is not None
            and kind is not kinds.VOID
        ):
            return self._fold(node, kind)
        return kind

    def _fold(self, node: tree.Binary, kind: kinds.Type) -> kinds.Type:
        """Computes the value of an operator with known operands; returns its type, UNKNOWN if there is no value."""
        operator, left, right = node.operator, node.left.value, node.right.value
        if operator in ("&&&", ".."):
            return kind
        if operator not in _OF_ANYTHING:
            if not (isinstance(left, int) and isinstance(right, int)):
                return kind
            if operator in ("/", "%") and right == 0:
                return self.wrong(node.at, "a division by zero")
            if operator in ("/", "%") and kind is kinds.INTEGER and (left < 0 or right < 0):
                hint = "Work with the numbers without their signs, and put the sign in front of the result."
                return self.wrong(node.at, f"{operator!r} is not defined for negative numbers", hint)
            if kind is kinds.INTEGER and kinds.too_large(operator, left, right):
                return self.wrong(node.at, f"a number may have {kinds.MOST_BITS:,} bits, and this has more")
        node.value = kinds.binary(operator, left, right, node.left.type or kinds.UNKNOWN, kind)
        return kind

    def _binary_type(self, node: tree.Binary, left: kinds.Type, right: kinds.Type) -> kinds.Type:
        operator = node.operator
        if operator in ("&&", "||"):
            for operand in (left, right):
                if operand is not kinds.BOOL:
                    at = node.left if operand is left else node.right
                    hint = mend(operand, kinds.BOOL, at)
                    if isinstance(operand, kinds.Bits):
                        hint += f" Of bits it is {operator[0]!r}."
                    self.error(at.at, f"{operator!r} is for bool, not for {operand}", hint)
                    return kinds.BOOL
            return kinds.BOOL
        if operator in ("==", "!="):
            return self._equality(node, left, right)
        if operator in ("<<", ">>"):
            return self._shift(node, left, right)
        if operator == "++":
            return self._concatenation(node, left, right)
        if operator in ("&&&", ".."):
            kind = self._same(node, left, right)
            return kinds.UNKNOWN if kind is kinds.UNKNOWN else self.env.types.set(kind)
        kind = self._same(node, left, right)
        if kind is kinds.UNKNOWN:
            return kinds.BOOL if operator in _GIVES_BOOL else kinds.UNKNOWN
        if not isinstance(kind, kinds.Bits) and kind is not kinds.INTEGER:
            hint = f"Cast to {kind.base} first." if isinstance(kind, kinds.NewType) else ""
            self.error(node.at, f"{operator!r} is for numbers, not for {kind}", hint)
            return kinds.BOOL if operator in _GIVES_BOOL else kinds.UNKNOWN
        if operator in ("/", "%") and isinstance(kind, kinds.Bits):
            self._division(node, kind)
        if operator in ("|+|", "|-|") and kind is kinds.INTEGER:
            return self.wrong(node.at, f"{operator!r} needs numbers with a width", "Write 8w5.")
        if operator in ("&", "|", "^") and kind is kinds.INTEGER and node.left.value is None:
            return kinds.UNKNOWN
        return kinds.BOOL if operator in _GIVES_BOOL else kind

    def _division(self, node: tree.Binary, kind: kinds.Bits) -> None:
        divisor = node.right.value
        if kind.signed and node.left.value is None:
            self.error(node.at, f"{node.operator!r} is not for signed numbers", "Cast to bit<…>, or shift.")
        elif divisor == 0:
            self.error(node.at, "a division by zero")
        elif node.left.value is None and not (isinstance(divisor, int) and divisor & (divisor - 1) == 0):
            hint = "Divide by a power of two, or use x & (n - 1), or a table."
            self.error(node.at, f"the target divides by constants that are powers of two only: {node.operator!r}", hint)

    def _same(self, node: tree.Binary, left: kinds.Type, right: kinds.Type) -> kinds.Type:
        """Returns the common type of both operands."""
        if left is right:
            return left
        if left is kinds.INTEGER and isinstance(right, kinds.Bits):
            node.left = self._coerce(node.left, right, "an operand is")
            return node.left.type or kinds.UNKNOWN
        if right is kinds.INTEGER and isinstance(left, kinds.Bits):
            node.right = self._coerce(node.right, left, "an operand is")
            return node.right.type or kinds.UNKNOWN
        wider = (
            right
            if isinstance(left, kinds.Bits) and isinstance(right, kinds.Bits) and right.width > left.width
            else left
        )
        smaller, at = (left, node.left) if wider is right else (right, node.right)
        hint = mend(smaller, wider, at)
        return self.wrong(node.at, f"{node.operator!r} needs operands of one type: here are {left} and {right}", hint)

    def _equality(self, node: tree.Binary, left: kinds.Type, right: kinds.Type) -> kinds.Type:
        if left is not right:
            node.left, node.right = self._alike_sides(node, left, right)
            left, right = node.left.type or kinds.UNKNOWN, node.right.type or kinds.UNKNOWN
        if kinds.UNKNOWN in (left, right):
            return kinds.BOOL
        kind = kinds.plain(left)
        simple = isinstance(
            kind,
            kinds.Bits
            | kinds.EnumType
            | kinds.Varbits
            | kinds.CompositeType
            | kinds.StackType
            | kinds.TupleType
            | kinds.TypeVariable,
        )
        if not simple and kind not in (kinds.BOOL, kinds.ERROR, kinds.INTEGER, kinds.STRING):
            what = "tables, externs and functions" if isinstance(kind, kinds.DeclaredType) else str(left)
            self.error(node.at, f"{what} cannot be compared")
        return kinds.BOOL

    def _alike_sides(
        self, node: tree.Binary, left: kinds.Type, right: kinds.Type
    ) -> tuple[tree.Expression, tree.Expression]:
        if left is kinds.INTEGER or isinstance(left, kinds.TupleType) or isinstance(node.left.value, tuple):
            return self._coerce(
                node.left, right, f"{node.operator!r} compares values of one type; the other is"
            ), node.right
        if isinstance(left, kinds.EnumType) and left.base is right:
            return self._coerce(node.left, right, ""), node.right
        what = f"{node.operator!r} compares values of one type; the other is"
        return node.left, self._coerce(node.right, left, what)

    def _shift(self, node: tree.Binary, left: kinds.Type, right: kinds.Type) -> kinds.Type:
        amount = node.right.value
        if isinstance(amount, int) and amount < 0:
            return self.wrong(node.right.at, "a shift by a negative number", "Shift the other way.")
        if not isinstance(left, kinds.Bits) and left is not kinds.INTEGER:
            return self.wrong(node.at, f"{node.operator!r} is for numbers, not for {left}")
        if isinstance(right, kinds.Bits) and right.signed:
            return self.wrong(
                node.right.at, f"a shift amount is unsigned, not {right}", f"Cast it: (bit<{right.width}>) …"
            )
        if not isinstance(right, kinds.Bits) and right is not kinds.INTEGER:
            return self.wrong(node.right.at, f"a shift amount is a number, not {right}")
        if amount is None:
            if left is kinds.INTEGER:
                return self.wrong(node.left.at, "what is shifted by a variable needs a width", "Write 16w1 << x.")
            if isinstance(right, kinds.Bits) and right.width > SHIFT_BITS and node.left.value != 0:
                hint = f"Cast it: (bit<{SHIFT_BITS}>) …"
                self.error(
                    node.right.at, f"the target takes shift amounts of at most {SHIFT_BITS} bits, not {right}", hint
                )
        elif right is kinds.INTEGER:
            self._give(node.right, kinds.bits(max(amount.bit_length(), 1)))
        return left

    def _concatenation(self, node: tree.Binary, left: kinds.Type, right: kinds.Type) -> kinds.Type:
        for operand, kind in ((node.left, left), (node.right, right)):
            if not isinstance(kind, kinds.Bits):
                hint = "Give the number a width: 8w5 ++ x." if kind is kinds.INTEGER else ""
                return self.wrong(operand.at, f"'++' joins numbers with a width, not {kind}", hint)
        number = expect(left, kinds.Bits)
        return kinds.bits(number.width + expect(right, kinds.Bits).width, number.signed)


_OF_ANYTHING = frozenset({"==", "!=", "&&", "||"})
_GIVES_BOOL = frozenset({"==", "!=", "<", "<=", ">", ">=", "&&", "||"})


# Types of expressions (P4_16 specification, section 8).


_STACK_MEMBERS = ("next", "last", "lastIndex", "size")


class ExpressionCheck(CheckerPart):
    """Finds the type, and if possible the value, of every expression; ``check_call`` does so for calls."""

    def __init__(self, env: CheckerState, check_call: Callable[[tree.Call], kinds.Type]) -> None:
        super().__init__(env)
        self.coercion = Coercion(env)
        self.resolver = TypeResolver(env, self.constant)
        operators = Operators(env, self.coercion, self.check)
        self._methods: dict[type[tree.Expression], Callable[[Any], kinds.Type]] = {
            tree.Number: self._number, tree.Boolean: self._boolean, tree.Text: self._text, tree.Name: self._name,
            tree.Member: self._member, tree.Index: self._index, tree.Slice: self._slice, tree.Ternary: self._ternary,
            tree.Unary: operators.check_unary, tree.Binary: operators.check_binary, tree.ListOf: self._list_of,
            tree.Record: self._record_of, tree.Cast: self._cast_of, tree.TypeName: self._type_name,
            tree.Call: check_call, tree.Default: lambda node: kinds.ANYTHING,
            tree.InvalidHeader: lambda node: kinds.NO_HEADER,
        }  # fmt: skip

    def check(self, node: tree.Expression) -> kinds.Type:
        """Returns the type of an expression, and stores it in the node; UNKNOWN after an error."""
        method = self._methods.get(type(node))
        kind = kinds.UNKNOWN if method is None else method(node)
        node.type = kind
        return kind

    def checked(self, node: tree.Expression, expected: kinds.Type, what: str) -> tree.Expression:
        """Checks an expression; returns it converted to ``expected``. An error begins with ``what``."""
        self.check(node)
        return self.coercion.coerce(node, expected, what)

    def constant(self, expression: tree.Expression, what: str) -> int | None:
        """Returns an expression's compile-time number; reports an error that begins with ``what`` if there is none."""
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
        """Returns what a name denotes; reports an error and returns None if it is not declared."""
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
        """Returns the type that an expression names, as in ``Enum.member``; None if it names no type."""
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
        field_type = base.fields.get(node.name)
        if field_type is None:
            if node.name in ("isValid", "setValid", "setInvalid"):
                self.error(node.at, f"{node.name!r} is a method", f"Call it: …{node.name}().")
            else:
                self.error(node.at, f"{base} has no field {node.name!r}", near(node.name, base.fields))
            return kinds.UNKNOWN
        if isinstance(node.base.value, tuple):
            node.value = node.base.value[list(base.fields).index(node.name)]
        return field_type

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

    # --- composed values and casts

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

    # --- targets of assignments (P4_16 specification, section 6.6)

    def check_place(self, node: tree.Expression, what: str) -> kinds.Type:
        """Returns the type of an assignable expression; for others UNKNOWN, with an error that begins with ``what``."""
        kind = self.check(node)
        if kind is kinds.UNKNOWN:
            return kinds.UNKNOWN
        problem = self._problem(node)
        if problem is None:
            return kind
        return self.wrong(node.at, f"{what} cannot be assigned to: {problem[0]}", problem[1])

    def _problem(self, node: tree.Expression) -> tuple[str, str] | None:
        """Returns why an expression cannot be assigned to, and what to do; None if it can."""
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
