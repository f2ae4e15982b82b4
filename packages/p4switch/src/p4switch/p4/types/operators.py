"""Types of operators (P4_16 specification, sections 8.4 to 8.10)."""

from collections.abc import Callable
from typing import Any

from p4switch.p4.diagnostics import expect
from p4switch.p4.syntax import tree
from p4switch.p4.types import kinds
from p4switch.p4.types.base import Environment, Part

# What may stand where a type is expected (P4_16 specification, sections 8.11 and 8.12).


class Coercion(Part):
    """Implicit conversions."""

    def coerce(self, node: tree.Expression, target: kinds.Type, what: str) -> tree.Expression:
        """The expression as one of the type ``target``, or an error that begins with ``what``."""
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
        """A number of no width becomes one of the type that is expected."""
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
        """A warning if a number does not fit into its width."""
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
        """Gives a type to numbers of no width within an expression."""
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
    """How an expression of one type is made to be of another."""
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


class Operators(Part):
    """Checks operators; ``check`` finds the type of an operand."""

    def __init__(self, env: Environment, coercion: Coercion, check: Callable[[tree.Expression], kinds.Type]) -> None:
        super().__init__(env)
        self._coerce = coercion.coerce
        self._give = coercion.give
        self._check = check

    def check_unary(self, node: tree.Unary) -> kinds.Type:
        """``!``, ``~``, ``-``, ``+``."""
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
        """All operators with two operands."""
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
        """Works out the value of an operator of known operands; its type, UNKNOWN where there is no value."""
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
        """The one type of both operands."""
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
