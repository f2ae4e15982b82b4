"""Loads expressions from the JSON (behavioral-model, docs/JSON_format.md, "The type value object")."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any, Final, cast

from p4switch.program import program as model
from p4switch.program.errors import (
    MAX_BITS,
    MAX_DEPTH,
    MAX_LOOKAHEAD_OFFSET,
    MAX_SHIFT,
    MAX_WEIGHT,
    MAX_WEIGHTS,
    SHIFT_MASK,
    Json,
    ProgramError,
    SourceInfo,
    UnsupportedConstruct,
    each,
    get,
    hexstr,
    number,
    objects,
    pair,
    source_of,
)
from p4switch.program.expressions import element

# Limits of expressions: depth, size and constants.


class ExpressionBudget:
    """Counts the expressions of a program against its limits.

    Attributes:
        in_parser: whether an expression may look ahead in the packet.
    """

    def __init__(self) -> None:
        self.in_parser = False
        self._spent = 0
        self._known: dict[int, tuple[model.Expr, int, int, bool]] = {}

    def check(self, expr: model.Expr | None, where: str) -> None:
        """Counts an expression. Raises ProgramError."""
        if expr is None:
            return
        weight, looks = self.measure(expr, where)
        if looks and not self.in_parser:
            raise ProgramError(f"{where}: lookahead outside the parser")
        self._spent += weight
        if self._spent > MAX_WEIGHTS:
            raise ProgramError(f"{where}: the expressions of the program have more than {MAX_WEIGHTS} operands")

    def measure(self, expr: model.Expr, where: str) -> tuple[int, bool]:
        """Returns an expression's operands, counted at every use, and whether it looks ahead. Raises ProgramError.

        Does not recurse, because it must find expressions that are too deep.
        """
        stack = [expr]
        while stack:
            node = stack[-1]
            below = model.children(node)
            missing = [child for child in below if id(child) not in self._known]
            if missing:
                stack += missing
                continue
            stack.pop()
            _check_numbers(node, where)
            parts = [self._known[id(child)] for child in below]
            # The expression is kept beside its measures, so that its id is not reused.
            self._known[id(node)] = (
                node,
                1 + sum(weight for _, weight, _, _ in parts),
                1 + max((depth for _, _, depth, _ in parts), default=0),
                isinstance(node, model.Lookahead) or any(looks for _, _, _, looks in parts),
            )
        _, weight, depth, looks = self._known[id(expr)]
        if depth > MAX_DEPTH:
            raise ProgramError(f"{where}: an expression {depth} operators deep; the limit is {MAX_DEPTH}")
        if weight > MAX_WEIGHT:
            raise ProgramError(f"{where}: an expression of {weight} operands; the limit is {MAX_WEIGHT}")
        return weight, looks


def _check_numbers(expr: model.Expr, where: str) -> None:
    match expr:
        case model.Const(value) if value.bit_length() > MAX_BITS:
            raise ProgramError(f"{where}: a constant of {value.bit_length()} bits; the limit is {MAX_BITS}")
        case model.Cast(width=width) if not 1 <= width <= MAX_BITS:
            raise ProgramError(f"{where}: a cast to {width} bits, not 1 to {MAX_BITS}")
        case model.Lookahead(offset, width) if not (0 <= offset <= MAX_LOOKAHEAD_OFFSET and 1 <= width <= MAX_BITS):
            raise ProgramError(f"{where}: lookahead of {width} bits at {offset}")


# Header types, instances and field aliases from the JSON.


@dataclass(frozen=True, slots=True)
class HeaderScope:
    """The header instances that expressions and primitives refer to.

    Attributes:
        groups: stacks and unions of the headers.
        measures: sizes of the expressions loaded so far; one that is too large is refused before it is hashed.
        shared: one object for all equal expressions, so that executors may cache by identity.
    """

    headers: dict[str, model.Header]
    groups: model.HeaderGroups = field(default_factory=model.HeaderGroups)
    shared: dict[model.Expr, model.Expr] = field(default_factory=dict)
    measures: ExpressionBudget = field(default_factory=ExpressionBudget)

    def header(self, name: object, where: str, source: SourceInfo | None = None) -> model.Header:
        """Returns an instance by name. Raises ProgramError."""
        if not isinstance(name, str) or name not in self.headers:
            at = f" ({source})" if source is not None else ""
            raise ProgramError(f"{where}: unknown header {name!r}{at}")
        return self.headers[name]

    def field(self, value: object, where: str) -> model.FieldRef | model.Valid:
        """Returns a field reference ``[header, field]``; ``$valid$`` names the header's validity."""
        header_name, field_name = pair(value, where)
        header = self.header(header_name, where)
        if field_name == "$valid$":
            return model.Valid(header.name)
        member = header.type.by_name.get(field_name)
        if member is None:
            raise ProgramError(f"{where}: header {header.name!r} has no field {field_name!r}")
        return header.ref(member)

    def target(self, value: object, where: str) -> model.FieldRef:
        """Returns a field that may be assigned to."""
        ref = self.field(value, where)
        if isinstance(ref, model.Valid):
            raise ProgramError(f"{where}: the validity of {ref.header!r} cannot be assigned to")
        return ref


def load_scope(root: Json) -> HeaderScope:
    """Loads instances, stacks and unions by name."""
    names = {obj["id"]: str(obj.get("name")) for obj in objects(root, "headers", "program") if "id" in obj}
    groups = model.load_groups(root, names)
    headers = load_headers(root, groups)
    if groups.stacks or groups.union_stacks:
        headers[model.NEXT_HEADER] = model.next_header(groups)
    return HeaderScope(headers, groups)


def load_headers(root: Json, groups: model.HeaderGroups) -> dict[str, model.Header]:
    """Loads instances by name."""
    siblings = {
        header: tuple(other for other in union.headers if other != header)
        for union in groups.unions.values()
        for header in union.headers
    }
    types = {name: _header_type(name, where, obj) for name, where, obj in each(root, "header_types", "header type")}
    headers: dict[str, model.Header] = {}
    for name, where, obj in each(root, "headers", "header"):
        type_name = get(obj, "header_type", str, where)
        if type_name not in types:
            raise ProgramError(f"{where}: unknown header type {type_name!r}")
        header = model.Header(name, types[type_name], bool(obj.get("metadata", False)), siblings.get(name, ()))
        if not header.metadata and header.type.bits % 8 != 0:
            raise ProgramError(f"{where}: {header.type.bits} bits are no whole number of bytes")
        headers[name] = header
    return headers


def load_aliases(root: Json, scope: HeaderScope) -> dict[str, model.FieldRef]:
    """Loads field aliases: the field by the target's name for it."""
    aliases = {}
    for item in root.get("field_aliases", []):
        name, target = pair(item, "field_aliases")
        aliases[str(name)] = scope.target(target, f"field alias {name!r}")
    return aliases


def _header_type(name: str, where: str, obj: Json) -> model.HeaderType:
    fields: list[model.Field] = []
    offset = 0
    for item in get(obj, "fields", list, where):
        if not isinstance(item, list) or len(item) not in (2, 3):
            raise ProgramError(f"{where}: field {item!r} is not [name, width] or [name, width, signed]")
        field_name, width = item[0], item[1]
        if width == "*":
            fields.append(_varbit(obj, str(field_name), offset, where))
            continue
        if not isinstance(width, int) or width <= 0:
            raise ProgramError(f"{where}: field {field_name!r} has width {width!r}")
        fields.append(model.Field(str(field_name), width, bool(item[2]) if len(item) == 3 else False, offset))
        offset += width
    if any(f.kind == "varbit" for f in fields):
        fields.append(model.Field(model.LENGTH_FIELD, model.LENGTH_WIDTH, False, offset, "length"))
    return model.HeaderType(name, tuple(fields))


def _varbit(obj: Json, name: str, offset: int, where: str) -> model.Field:
    """Returns the field of variable length; its maximum length follows from the header's."""
    where = f"{where}, field {name!r}"
    if obj.get("length_exp") is not None:
        what = "length expression of a header type (p4c writes 'extract_VL')"
        raise UnsupportedConstruct(what, where, source_of(obj))
    fields = get(obj, "fields", list, where)
    if sum(item[1] == "*" for item in fields) > 1:
        raise UnsupportedConstruct("second variable-length field in a header", where, source_of(obj))
    rest = sum(item[1] for item in fields if isinstance(item[1], int))
    if rest % 8:
        raise UnsupportedConstruct("variable-length field in a header of no whole bytes", where, source_of(obj))
    width = 8 * get(obj, "max_length", int, where) - rest
    if width <= 0:
        raise ProgramError(f"{where}: 'max_length' leaves {width} bits for it")
    return model.Field(name, width, False, offset, "varbit")


_ARITH: Final = ("+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^")
_COMPARE: Final = ("==", "!=", "<", "<=", ">", ">=")
_CASTS: Final = ("two_comp_mod", "usat_cast", "sat_cast")


Operand = model.Expr | model.Named

UNSUPPORTED_VALUES: Final[Mapping[str, str]] = {
    "register": "register read inside an expression",
    "extern": "extern instance",
}
"""Value types that are refused, with their names in P4."""


@dataclass(frozen=True, slots=True)
class ExpressionLoader:
    """Loads the expressions of one program element.

    Attributes:
        where: the element's name, for messages.
        parameter_widths: bits of the enclosing action's parameters; empty elsewhere.
    """

    scope: HeaderScope
    where: str
    source: SourceInfo | None = None
    parameter_widths: tuple[int, ...] = ()

    def data(self, value: object) -> model.DataExpr:
        """Loads an expression that yields a number; a bool becomes 0 or 1."""
        expr = self._operand(value)
        if isinstance(expr, model.Named):
            raise self._error("a header, union or stack where a number is expected")
        return _as_data(expr)

    def bool(self, value: object) -> model.BoolExpr:
        """Loads an expression that yields a bool; a number is compared with 0."""
        expr = self._operand(value)
        if isinstance(expr, model.Named):
            raise self._error("a header, union or stack where a bool is expected")
        return cast(model.BoolExpr, expr) if model.is_bool(expr) else model.ToBool(cast(model.DataExpr, expr))

    def header(self, value: object) -> model.Choice:
        """Loads a header, possibly chosen at run time."""
        operand = self._operand(value)
        if not isinstance(operand, model.Choice) or operand.kind != "header":
            raise self._error("something else where a header is expected")
        return operand

    def union(self, value: object) -> model.Choice:
        """Loads a header union, possibly chosen at run time."""
        operand = self._operand(value)
        if not isinstance(operand, model.Choice) or operand.kind != "union":
            raise self._error("something else where a header union is expected")
        return operand

    def stack(self, value: object) -> model.Stack:
        """Loads a stack of headers or of unions."""
        operand = self._operand(value)
        if not isinstance(operand, model.StackName):
            raise self._error("something else where a stack is expected")
        return operand.stack

    def target(self, value: object) -> tuple[tuple[model.BoolExpr, model.FieldRef], ...]:
        """Loads an assignment target as (condition, field) pairs; the first condition that holds chooses the field."""
        obj = value
        while isinstance(obj, dict) and obj.get("type") == "expression":
            obj = obj.get("value")
        if isinstance(obj, dict) and obj.get("type") == "field":
            return ((model.BoolConst(True), self.scope.target(obj.get("value"), self.where)),)
        if isinstance(obj, dict) and obj.get("op") == "access_field":
            choice = self.header(obj.get("left"))
            return tuple((c, self._field_at(name, obj.get("right"))) for c, name in choice.conditions)
        if isinstance(obj, dict) and obj.get("type") == "stack_field":
            choice, name = self._last(obj.get("value"))
            return tuple((c, self._field(header, name)) for c, header in choice.conditions)
        what = obj.get("type", obj.get("op")) if isinstance(obj, dict) else obj
        raise UnsupportedConstruct(f"assignment to a {what!r}", self.where, self.source)

    def _field(self, header: str, name: str) -> model.FieldRef:
        return self.scope.target([header, name], self.where)

    def _field_at(self, header: str, number: object) -> model.FieldRef:
        fields = self.scope.headers[header].type.wire_fields
        if not isinstance(number, int) or not 0 <= number < len(fields):
            raise self._error(f"header {header!r} has no field number {number!r}")
        return self._field(header, fields[number].name)

    def _last(self, value: object) -> tuple[model.Choice, str]:
        """Returns the last header of a stack, and the field's name, from a stack_field."""
        name, field = pair(value, self.where)
        stack = self.scope.groups.find("header_stack", name, self.where)
        choice = model.last_element(stack)
        self._field(choice.names[0], field)
        return choice, field

    def _error(self, text: str) -> ProgramError:
        at = f" ({self.source})" if self.source is not None else ""
        return ProgramError(f"{self.where}: {text}{at}")

    def _operand(self, obj: object) -> Operand:
        operand = self._unshared(obj)
        if isinstance(operand, model.Named):
            return operand
        self.scope.measures.measure(operand, self.where)
        return self.scope.shared.setdefault(operand, operand)

    def _unshared(self, obj: object) -> Operand:
        if not isinstance(obj, dict):
            raise self._error(f"{obj!r} is not a type-value object")
        kind, value = obj.get("type"), obj.get("value")
        if kind == "expression":
            if not isinstance(value, dict):
                raise self._error(f"{value!r} is not an expression")
            # p4c nests objects of type expression.
            return self._operation(value) if "op" in value else self._operand(value)
        return self._leaf(kind, value)

    def _leaf(self, kind: object, value: Any) -> Operand:
        match kind:
            case "field":
                return self.scope.field(value, self.where)
            case "hexstr":
                return model.Const(hexstr(value, self.where))
            case "bool":
                return model.BoolConst(bool(value))
            case "local" | "runtime_data":
                return self._parameter(value)
            case "header":
                return model.named("header", self.scope.header(value, self.where, self.source).name)
            case "header_union":
                return model.named("union", self.scope.groups.find("header_union", value, self.where).name)
            case "header_stack" | "header_union_stack":
                return model.StackName(self.scope.groups.find(str(kind), value, self.where))
            case "stack_field":
                choice, name = self._last(value)
                return model.field_of(choice, self.scope.headers, name)
            case "lookahead":
                offset, width = pair(value, self.where)
                return model.Lookahead(number(offset, self.where), number(width, self.where))
            case str() if kind in UNSUPPORTED_VALUES:
                raise UnsupportedConstruct(UNSUPPORTED_VALUES[kind], self.where, self.source)
            case _:
                raise UnsupportedConstruct(f"value type {kind!r}", self.where, self.source)

    def _parameter(self, index: object) -> model.Parameter:
        if not isinstance(index, int) or not 0 <= index < len(self.parameter_widths):
            raise self._error(f"there is no action parameter number {index!r}")
        return model.Parameter(index, self.parameter_widths[index])

    def _operation(self, obj: Json) -> Operand:
        op = obj["op"]
        if op in _ON_GROUPS:
            return _ON_GROUPS[op](self, obj.get("left"), obj.get("right"))
        if op == "?":
            return self._ternary(obj)
        if op in _UNARY:
            return _UNARY[op](self, obj.get("right"))
        if op in _CASTS:
            return self._cast(cast(model.CastOp, op), obj)
        if op in ("and", "or"):
            return model.Logic(cast(model.LogicOp, op), self.bool(obj.get("left")), self.bool(obj.get("right")))
        if op in _ARITH:
            right = self.data(obj.get("right"))
            if op in ("<<", ">>") and isinstance(right, model.Const):
                right = model.Const(self._shift(right.value))
            return model.Arith(cast(model.ArithOp, op), self.data(obj.get("left")), right)
        if op in _COMPARE:
            return self._comparison(cast(model.CompareOp, op), obj)
        raise UnsupportedConstruct(f"expression operator {op!r}", self.where, self.source)

    def _shift(self, by: int) -> int:
        """Returns a constant shift amount modulo 2**32, as in BMv2, limited to MAX_SHIFT."""
        if by < 0:
            raise self._error("a shift by a negative number")
        return min(by & SHIFT_MASK, MAX_SHIFT)

    def _ternary(self, obj: Json) -> Operand:
        condition = self.bool(obj.get("cond"))
        left, right = self._operand(obj.get("left")), self._operand(obj.get("right"))
        if isinstance(left, model.Named) or isinstance(right, model.Named):
            if isinstance(left, model.Choice) and isinstance(right, model.Choice) and left.kind == right.kind:
                return model.either(condition, left, right)
            raise UnsupportedConstruct("choice between stacks", self.where, self.source)
        if model.is_bool(left) and model.is_bool(right):
            return model.BoolSelect(condition, cast(model.BoolExpr, left), cast(model.BoolExpr, right))
        return model.Select(condition, _as_data(left), _as_data(right))

    def _cast(self, op: model.CastOp, obj: Json) -> model.Cast:
        width = self.data(obj.get("right"))
        if not isinstance(width, model.Const) or width.value < 1:
            raise UnsupportedConstruct(f"{op!r} to a width that is no positive constant", self.where, self.source)
        return model.Cast(op, self.data(obj.get("left")), width.value)

    def _comparison(self, op: model.CompareOp, obj: Json) -> model.BoolExpr:
        left, right = self._operand(obj.get("left")), self._operand(obj.get("right"))
        if (
            isinstance(left, model.Choice)
            and isinstance(right, model.Choice)
            and left.kind == right.kind
            and op in ("==", "!=")
        ):
            return (model.equal if op == "==" else model.unequal)(left, right, self.scope.groups)
        if isinstance(left, model.Named) or isinstance(right, model.Named):
            raise self._error(f"{op!r} between a header, union or stack and something else")
        if model.is_bool(left) and model.is_bool(right):
            if op not in ("==", "!="):
                raise self._error(f"{op!r} between bools")
            return model.Logic(cast(model.LogicOp, op), cast(model.BoolExpr, left), cast(model.BoolExpr, right))
        return model.Compare(op, _as_data(left), _as_data(right))

    def _field_access(self, header: object, number: object) -> model.DataExpr:
        choice = self.header(header)
        return choice.data(lambda name: self._field_at(name, number))

    def _member_access(self, union: object, number: object) -> model.Choice:
        choice = self.union(union)

        def member(name: str) -> str:
            headers = self.scope.groups.unions[name].headers
            if not isinstance(number, int) or not 0 <= number < len(headers):
                raise self._error(f"header union {name!r} has no member number {number!r}")
            return headers[number]

        return choice.header_of(member)


def _as_data(expr: model.Expr) -> model.DataExpr:
    return model.ToData(cast(model.BoolExpr, expr)) if model.is_bool(expr) else cast(model.DataExpr, expr)


_UNARY: Final[Mapping[str, Callable[[ExpressionLoader, object], model.Expr]]] = {
    "~": lambda loader, obj: model.Invert(loader.data(obj)),
    "not": lambda loader, obj: model.Not(loader.bool(obj)),
    "d2b": lambda loader, obj: model.ToBool(loader.data(obj)),
    "b2d": lambda loader, obj: model.ToData(loader.bool(obj)),
    "valid": lambda loader, obj: model.is_valid(loader.header(obj), loader.scope.groups),
    "valid_union": lambda loader, obj: model.is_valid(loader.union(obj), loader.scope.groups),
}

_ON_GROUPS: Final[Mapping[str, Callable[[ExpressionLoader, object, object], Operand]]] = {
    "dereference_header_stack": lambda loader, left, right: element(loader.stack(left), loader.data(right)),
    "dereference_stack": lambda loader, left, right: element(loader.stack(left), loader.data(right)),
    "dereference_union_stack": lambda loader, left, right: element(loader.stack(left), loader.data(right)),
    "last_stack_index": lambda loader, left, right: model.last_index(loader.stack(right)),
    "size_stack": lambda loader, left, right: loader.stack(right).next,
    "access_field": lambda loader, left, right: loader._field_access(left, right),
    "access_union_header": lambda loader, left, right: loader._member_access(left, right),
}
"""Operators that take or give headers, unions and stacks."""


# Translates primitives on stacks and unions, or on a header or field chosen at run time, to primitives on headers.


def one_of(cases: list[tuple[model.BoolExpr, model.Primitive]], source: SourceInfo | None) -> model.Primitive:
    """Returns a primitive that runs the first case whose condition holds."""
    if len(cases) == 1 and cases[0][0] == model.BoolConst(True):
        return cases[0][1]
    return model.OneOf(tuple(cases), source=source)


def assign_header(expressions: ExpressionLoader, target: object, origin: object) -> model.Primitive:
    """Loads ``assign_header``."""
    scope, source = expressions.scope, expressions.source
    pairs = product(expressions.header(target).conditions, expressions.header(origin).conditions)
    return one_of(
        [(_both(p, q), _copy(scope, to, of, expressions.where, source)) for (p, to), (q, of) in pairs], source
    )


def assign_union(expressions: ExpressionLoader, target: object, origin: object) -> model.Primitive:
    """Loads ``assign_union``: the members in sequence."""
    source = expressions.source
    pairs = product(expressions.union(target).conditions, expressions.union(origin).conditions)
    cases = [(_both(p, q), _copy_union(expressions, to, of)) for (p, to), (q, of) in pairs]
    return one_of(cases, source)


def assign_stack(name: str, expressions: ExpressionLoader, target: object, origin: object) -> model.Primitive:
    """Loads ``assign_header_stack`` and ``assign_union_stack``: ``next`` and all elements."""
    to, of = expressions.stack(target), expressions.stack(origin)
    if to.size != of.size or bool(to.unions) != bool(of.unions):
        raise ProgramError(f"{expressions.where}: {to.name!r} and {of.name!r} are of different types")
    steps: list[model.Primitive] = [model.Assign(to.next, of.next, source=expressions.source)]
    for ours, theirs in zip(to.elements, of.elements, strict=True):
        for header, other in zip(ours, theirs, strict=True):
            steps.append(_copy(expressions.scope, header, other, expressions.where, expressions.source))
    return model.Several(name, tuple(steps), source=expressions.source)


def assign_varbit(expressions: ExpressionLoader, target: object, origin: object) -> model.Primitive:
    """Loads ``assign_VL``: copies the bits and the length of a varbit field."""
    pairs = product(expressions.target(target), expressions.target(origin))
    return one_of([(_both(p, q), _copy_varbit(expressions, to, of)) for (p, to), (q, of) in pairs], expressions.source)


def _copy_varbit(expressions: ExpressionLoader, to: model.FieldRef, of: model.FieldRef) -> model.Primitive:
    length = model.Assign(_length(expressions, to), _length(expressions, of), source=expressions.source)
    return model.Several(
        "assign_VL", (model.Assign(to, of, source=expressions.source), length), source=expressions.source
    )


def push(expressions: ExpressionLoader, stack_value: object, count_value: object) -> model.Primitive:
    """Loads ``push_front``: elements move towards the end, and new ones at the front are invalid."""
    stack, count = expressions.stack(stack_value), _count(expressions, count_value)
    origins = list(range(stack.size))
    for i in range(stack.size - 1, count - 1, -1):
        origins[i], origins[i - count] = origins[i - count], origins[i]
    further: model.Arith = model.Arith("+", stack.next, model.Const(count))
    full = model.Select(model.Compare(">", further, model.Const(stack.size)), model.Const(stack.size), further)
    return _shift(expressions, "push", stack, origins, range(min(count, stack.size)), model.Assign(stack.next, full))


def pop(expressions: ExpressionLoader, stack_value: object, count_value: object) -> model.Primitive:
    """Loads ``pop_front``: elements move towards the front, and the last ones become invalid."""
    stack, count = expressions.stack(stack_value), _count(expressions, count_value)
    origins = list(range(stack.size))
    kept = max(stack.size - count, 0)
    for i in range(kept):
        origins[i], origins[i + count] = origins[i + count], origins[i]
    less = model.Select(
        model.Compare("<", stack.next, model.Const(count)),
        model.Const(0),
        model.Arith("-", stack.next, model.Const(count)),
    )
    return _shift(expressions, "pop", stack, origins, range(kept, stack.size), model.Assign(stack.next, less))


def _shift(
    expressions: ExpressionLoader, name: str, stack: model.Stack, origins: list[int], cleared: range, step: model.Assign
) -> model.Primitive:
    if origins == list(range(stack.size)) and not cleared:
        return model.Several(name, (step,), source=expressions.source)
    headers = [header for element in stack.elements for header in element]
    moved = [header for i in origins for header in stack.elements[i]]
    # BMv2 does not invalidate the unions that it should (HeaderUnion::mark_invalid does nothing).
    invalid = () if stack.unions else tuple(stack.elements[i][0] for i in cleared)
    return model.Several(
        name, (model.MoveHeaders(tuple(headers), tuple(moved), invalid), step), source=expressions.source
    )


def _count(expressions: ExpressionLoader, value: object) -> int:
    count = expressions.data(value)
    if not isinstance(count, model.Const) or count.value < 0:
        raise UnsupportedConstruct(
            "shift of a stack by a number that is no constant", expressions.where, expressions.source
        )
    return count.value


def _both(left: model.BoolExpr, right: model.BoolExpr) -> model.BoolExpr:
    if left == model.BoolConst(True):
        return right
    return left if right == model.BoolConst(True) else model.Logic("and", left, right)


def _copy(scope: HeaderScope, target: str, origin: str, where: str, source: SourceInfo | None) -> model.Primitive:
    if scope.headers[target].type.name != scope.headers[origin].type.name:
        raise ProgramError(f"{where}: {target!r} and {origin!r} are of different types")
    return model.AssignHeader(target, origin, source=source)


def _copy_union(expressions: ExpressionLoader, target: str, origin: str) -> model.Primitive:
    unions = expressions.scope.groups.unions
    pairs = zip(unions[target].headers, unions[origin].headers, strict=True)
    steps = tuple(_copy(expressions.scope, to, of, expressions.where, expressions.source) for to, of in pairs)
    return model.Several("assign_union", steps, source=expressions.source)


def _length(expressions: ExpressionLoader, field: model.FieldRef) -> model.FieldRef:
    kind = expressions.scope.headers[field.header].type
    if kind.varbit is None or kind.varbit.name != field.name:
        raise ProgramError(f"{expressions.where}: {field} is no variable-length field")
    return model.FieldRef(field.header, model.LENGTH_FIELD, model.LENGTH_WIDTH)
