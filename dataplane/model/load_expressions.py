"""Expressions from the JSON (behavioral-model, docs/JSON_format.md, "The type value object")."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from p4reduce.dataplane.model.errors import ProgramError, SourceInfo, UnsupportedConstruct
from p4reduce.dataplane.model.expressions import (
    Arith,
    ArithOp,
    BoolConst,
    BoolExpr,
    BoolSelect,
    Cast,
    CastOp,
    Compare,
    CompareOp,
    Const,
    DataExpr,
    Expr,
    FieldRef,
    Invert,
    Logic,
    LogicOp,
    Lookahead,
    Not,
    Parameter,
    Select,
    ToBool,
    ToData,
    is_bool,
)
from p4reduce.dataplane.model.groups import Stack
from p4reduce.dataplane.model.limits import MAX_SHIFT, SHIFT_MASK
from p4reduce.dataplane.model.load_headers import Scope
from p4reduce.dataplane.model.operands import (
    Choice,
    Named,
    StackName,
    either,
    element,
    equal,
    field_of,
    is_valid,
    last_element,
    last_index,
    named,
    unequal,
)
from p4reduce.dataplane.model.reading import Json, hexstr, number, pair

_ARITH: Final = ("+", "-", "*", "/", "%", "<<", ">>", "&", "|", "^")
_COMPARE: Final = ("==", "!=", "<", "<=", ">", ">=")
_CASTS: Final = ("two_comp_mod", "usat_cast", "sat_cast")


Operand = Expr | Named

UNSUPPORTED_VALUES: Final[Mapping[str, str]] = {
    "register": "register read inside an expression",
    "extern": "extern instance",
}
"""Value types that are refused, and what they are called in P4."""


@dataclass(frozen=True, slots=True)
class ExpressionLoader:
    """Loads the expressions of one program element.

    Attributes:
        where: the element, for messages.
        parameter_widths: of the enclosing action; empty elsewhere.
    """

    scope: Scope
    where: str
    source: SourceInfo | None = None
    parameter_widths: tuple[int, ...] = ()

    def data(self, value: object) -> DataExpr:
        """An expression that yields a number; a bool becomes 0 or 1."""
        expr = self._operand(value)
        if isinstance(expr, Named):
            raise self._error("a header, union or stack where a number is expected")
        return _as_data(expr)

    def bool(self, value: object) -> BoolExpr:
        """An expression that yields a bool; a number is compared with 0."""
        expr = self._operand(value)
        if isinstance(expr, Named):
            raise self._error("a header, union or stack where a bool is expected")
        return cast(BoolExpr, expr) if is_bool(expr) else ToBool(cast(DataExpr, expr))

    def header(self, value: object) -> Choice:
        """A header, perhaps chosen at run time."""
        operand = self._operand(value)
        if not isinstance(operand, Choice) or operand.kind != "header":
            raise self._error("something else where a header is expected")
        return operand

    def union(self, value: object) -> Choice:
        """A header union, perhaps chosen at run time."""
        operand = self._operand(value)
        if not isinstance(operand, Choice) or operand.kind != "union":
            raise self._error("something else where a header union is expected")
        return operand

    def stack(self, value: object) -> Stack:
        """A stack of headers or of unions."""
        operand = self._operand(value)
        if not isinstance(operand, StackName):
            raise self._error("something else where a stack is expected")
        return operand.stack

    def target(self, value: object) -> tuple[tuple[BoolExpr, FieldRef], ...]:
        """What may be assigned to: fields, each with the condition under which it is meant, the first that holds."""
        obj = value
        while isinstance(obj, dict) and obj.get("type") == "expression":
            obj = obj.get("value")
        if isinstance(obj, dict) and obj.get("type") == "field":
            return ((BoolConst(True), self.scope.target(obj.get("value"), self.where)),)
        if isinstance(obj, dict) and obj.get("op") == "access_field":
            choice = self.header(obj.get("left"))
            return tuple((c, self._field_at(name, obj.get("right"))) for c, name in choice.conditions)
        if isinstance(obj, dict) and obj.get("type") == "stack_field":
            choice, name = self._last(obj.get("value"))
            return tuple((c, self._field(header, name)) for c, header in choice.conditions)
        what = obj.get("type", obj.get("op")) if isinstance(obj, dict) else obj
        raise UnsupportedConstruct(f"assignment to a {what!r}", self.where, self.source)

    def _field(self, header: str, name: str) -> FieldRef:
        return self.scope.target([header, name], self.where)

    def _field_at(self, header: str, number: object) -> FieldRef:
        fields = self.scope.headers[header].type.wire_fields
        if not isinstance(number, int) or not 0 <= number < len(fields):
            raise self._error(f"header {header!r} has no field number {number!r}")
        return self._field(header, fields[number].name)

    def _last(self, value: object) -> tuple[Choice, str]:
        """The last header of a stack, and the field's name, from a stack_field."""
        name, field = pair(value, self.where)
        stack = self.scope.groups.find("header_stack", name, self.where)
        choice = last_element(stack)
        self._field(choice.names[0], field)
        return choice, field

    def _error(self, text: str) -> ProgramError:
        at = f" ({self.source})" if self.source is not None else ""
        return ProgramError(f"{self.where}: {text}{at}")

    def _operand(self, obj: object) -> Operand:
        operand = self._unshared(obj)
        if isinstance(operand, Named):
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
            # p4c wraps expressions in expressions.
            return self._operation(value) if "op" in value else self._operand(value)
        return self._leaf(kind, value)

    def _leaf(self, kind: object, value: Any) -> Operand:
        match kind:
            case "field":
                return self.scope.field(value, self.where)
            case "hexstr":
                return Const(hexstr(value, self.where))
            case "bool":
                return BoolConst(bool(value))
            case "local" | "runtime_data":
                return self._parameter(value)
            case "header":
                return named("header", self.scope.header(value, self.where, self.source).name)
            case "header_union":
                return named("union", self.scope.groups.find("header_union", value, self.where).name)
            case "header_stack" | "header_union_stack":
                return StackName(self.scope.groups.find(str(kind), value, self.where))
            case "stack_field":
                choice, name = self._last(value)
                return field_of(choice, self.scope.headers, name)
            case "lookahead":
                offset, width = pair(value, self.where)
                return Lookahead(number(offset, self.where), number(width, self.where))
            case str() if kind in UNSUPPORTED_VALUES:
                raise UnsupportedConstruct(UNSUPPORTED_VALUES[kind], self.where, self.source)
            case _:
                raise UnsupportedConstruct(f"value type {kind!r}", self.where, self.source)

    def _parameter(self, index: object) -> Parameter:
        if not isinstance(index, int) or not 0 <= index < len(self.parameter_widths):
            raise self._error(f"there is no action parameter number {index!r}")
        return Parameter(index, self.parameter_widths[index])

    def _operation(self, obj: Json) -> Operand:
        op = obj["op"]
        if op in _ON_GROUPS:
            return _ON_GROUPS[op](self, obj.get("left"), obj.get("right"))
        if op == "?":
            return self._ternary(obj)
        if op in _UNARY:
            return _UNARY[op](self, obj.get("right"))
        if op in _CASTS:
            return self._cast(cast(CastOp, op), obj)
        if op in ("and", "or"):
            return Logic(cast(LogicOp, op), self.bool(obj.get("left")), self.bool(obj.get("right")))
        if op in _ARITH:
            right = self.data(obj.get("right"))
            if op in ("<<", ">>") and isinstance(right, Const):
                right = Const(self._shift(right.value))
            return Arith(cast(ArithOp, op), self.data(obj.get("left")), right)
        if op in _COMPARE:
            return self._comparison(cast(CompareOp, op), obj)
        raise UnsupportedConstruct(f"expression operator {op!r}", self.where, self.source)

    def _shift(self, by: int) -> int:
        """What a shift by a constant amounts to: modulo 2**32, as in BMv2, and no more than changes anything."""
        if by < 0:
            raise self._error("a shift by a negative number")
        return min(by & SHIFT_MASK, MAX_SHIFT)

    def _ternary(self, obj: Json) -> Operand:
        condition = self.bool(obj.get("cond"))
        left, right = self._operand(obj.get("left")), self._operand(obj.get("right"))
        if isinstance(left, Named) or isinstance(right, Named):
            if isinstance(left, Choice) and isinstance(right, Choice) and left.kind == right.kind:
                return either(condition, left, right)
            raise UnsupportedConstruct("choice between stacks", self.where, self.source)
        if is_bool(left) and is_bool(right):
            return BoolSelect(condition, cast(BoolExpr, left), cast(BoolExpr, right))
        return Select(condition, _as_data(left), _as_data(right))

    def _cast(self, op: CastOp, obj: Json) -> Cast:
        width = self.data(obj.get("right"))
        if not isinstance(width, Const) or width.value < 1:
            raise UnsupportedConstruct(f"{op!r} to a width that is no positive constant", self.where, self.source)
        return Cast(op, self.data(obj.get("left")), width.value)

    def _comparison(self, op: CompareOp, obj: Json) -> BoolExpr:
        left, right = self._operand(obj.get("left")), self._operand(obj.get("right"))
        if isinstance(left, Choice) and isinstance(right, Choice) and left.kind == right.kind and op in ("==", "!="):
            return (equal if op == "==" else unequal)(left, right, self.scope.groups)
        if isinstance(left, Named) or isinstance(right, Named):
            raise self._error(f"{op!r} between a header, union or stack and something else")
        if is_bool(left) and is_bool(right):
            if op not in ("==", "!="):
                raise self._error(f"{op!r} between bools")
            return Logic(cast(LogicOp, op), cast(BoolExpr, left), cast(BoolExpr, right))
        return Compare(op, _as_data(left), _as_data(right))

    def _field_access(self, header: object, number: object) -> DataExpr:
        choice = self.header(header)
        return choice.data(lambda name: self._field_at(name, number))

    def _member_access(self, union: object, number: object) -> Choice:
        choice = self.union(union)

        def member(name: str) -> str:
            headers = self.scope.groups.unions[name].headers
            if not isinstance(number, int) or not 0 <= number < len(headers):
                raise self._error(f"header union {name!r} has no member number {number!r}")
            return headers[number]

        return choice.header_of(member)


def _as_data(expr: Expr) -> DataExpr:
    return ToData(cast(BoolExpr, expr)) if is_bool(expr) else cast(DataExpr, expr)


_UNARY: Final[Mapping[str, Callable[[ExpressionLoader, object], Expr]]] = {
    "~": lambda loader, obj: Invert(loader.data(obj)),
    "not": lambda loader, obj: Not(loader.bool(obj)),
    "d2b": lambda loader, obj: ToBool(loader.data(obj)),
    "b2d": lambda loader, obj: ToData(loader.bool(obj)),
    "valid": lambda loader, obj: is_valid(loader.header(obj), loader.scope.groups),
    "valid_union": lambda loader, obj: is_valid(loader.union(obj), loader.scope.groups),
}

_ON_GROUPS: Final[Mapping[str, Callable[[ExpressionLoader, object, object], Operand]]] = {
    "dereference_header_stack": lambda loader, left, right: element(loader.stack(left), loader.data(right)),
    "dereference_stack": lambda loader, left, right: element(loader.stack(left), loader.data(right)),
    "dereference_union_stack": lambda loader, left, right: element(loader.stack(left), loader.data(right)),
    "last_stack_index": lambda loader, left, right: last_index(loader.stack(right)),
    "size_stack": lambda loader, left, right: loader.stack(right).next,
    "access_field": lambda loader, left, right: loader._field_access(left, right),
    "access_union_header": lambda loader, left, right: loader._member_access(left, right),
}
"""Operators that take or give headers, unions and stacks."""
