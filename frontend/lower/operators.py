"""Operators of expressions as BMv2 has them."""

from typing import Any

from p4reduce.frontend.diagnostics import SourceFault, Unexpected
from p4reduce.frontend.lower.assigning import Assigning
from p4reduce.frontend.lower.code import Branch, Code
from p4reduce.frontend.lower.places import (
    ChosenHeader,
    HeaderPlace,
    NoHeader,
    Place,
    StackPlace,
    StructPlace,
    UnionPlace,
    Value,
    data_of,
)
from p4reduce.frontend.lower.storage import bits_of, member_of_header
from p4reduce.frontend.lower.values import (
    FALSE,
    TRUE,
    Json,
    constant,
    operation,
    wrapped,
)
from p4reduce.frontend.syntax.tree import (
    Binary,
    Expression,
    Unary,
)
from p4reduce.frontend.types.kinds import BOOL, CompositeType, Type, plain

_PLAIN = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "&": "&", "|": "|", "^": "^", ">>": ">>"}


class OperatorLowering(Assigning):
    """Lowers operators."""

    def place(self, node: Expression) -> Place:
        """See ExpressionLowering."""
        raise NotImplementedError

    def scalar(self, node: Expression) -> Json:
        """See ExpressionLowering."""
        raise NotImplementedError

    def held(self, place: Place, at: Any) -> Place:
        """See ExpressionLowering."""
        raise NotImplementedError

    def chosen_member(self, header: ChosenHeader, entry: tuple[Type, Any]) -> Place:
        """See ExpressionLowering."""
        raise NotImplementedError

    def _unary(self, node: Unary, kind: Type) -> Place:
        operand = self.scalar(node.operand)
        if node.operator == "!":
            return Value(BOOL, operation("not", None, operand))
        number = self.as_bits(kind)
        if node.operator == "+":
            return Value(kind, operand)
        if node.operator == "~":
            return Value(kind, wrapped(operation("~", None, operand), number))
        return Value(kind, wrapped(operation("-", constant(0, number.width), operand), number))

    def _binary(self, node: Binary, kind: Type) -> Place:
        if node.operator in ("&&", "||"):
            return self._logic(node)
        left = self.place(node.left)
        if node.right.effects:
            left = self.held(left, node.left)
        right = self.place(node.right)
        if node.operator in ("==", "!="):
            same = self.equal(left, right, node)
            return Value(BOOL, same if node.operator == "==" else self.negated(same))
        one, other = data_of(left), data_of(right)
        if node.operator in _PLAIN:
            found = operation(_PLAIN[node.operator], one, other)
            number = bits_of(kind)
            if number is not None and number.signed and node.operator in ("&", "|", "^"):
                found = wrapped(found, number)
            return Value(kind, found)
        return self._arithmetic(node, kind, one, other)

    def _arithmetic(self, node: Binary, kind: Type, one: Json, other: Json) -> Place:
        number = self.as_bits(kind)
        match node.operator:
            case "++":
                right = self.as_bits(self.type_of(node.right))
                low = operation("&", other, constant((1 << right.width) - 1, right.width)) if right.signed else other
                joined = operation("|", operation("<<", one, constant(right.width, 32)), low)
                return Value(kind, wrapped(joined, number) if number.signed else joined)
            case "|+|" | "|-|":
                inner = operation(node.operator[1], one, other)
                cast = "sat_cast" if number.signed else "usat_cast"
                return Value(kind, operation(cast, inner, constant(number.width, 32)))
            case "/" | "%":
                if self.evaluate(node.left) == 0:
                    return self.known(0, kind)
                divisor = self.evaluate(node.right)
                if not isinstance(divisor, int) or divisor <= 0 or divisor & (divisor - 1):
                    hint = "Use a table, or divide by a power of two."
                    raise SourceFault(node.at, "the target divides by constants that are powers of two only", hint)
                if node.operator == "/":
                    return Value(kind, operation(">>", one, constant(divisor.bit_length() - 1, 32)))
                return Value(kind, operation("&", one, constant(divisor - 1, number.width)))
            case "+" | "-" | "*" | "<<":
                return Value(kind, wrapped(operation(node.operator, one, other), number))
        raise SourceFault(node.at, f"the operator {node.operator!r} is not taken here")

    def negated(self, json: Json) -> Json:
        """The opposite of a bool."""
        if json["type"] == "bool":
            return FALSE if json["value"] else TRUE
        if json["type"] == "expression" and json["value"].get("op") == "==":
            return operation("!=", json["value"]["left"], json["value"]["right"])
        return operation("not", None, json)

    def _logic(self, node: Binary) -> Place:
        left = self.place(node.left)
        if not node.right.effects:
            right = self.scalar(node.right)
            return Value(BOOL, operation("and" if node.operator == "&&" else "or", left.json(), right))
        result = self.temporary(BOOL)
        self.assign(result, left, node)
        steps = self.collected(lambda: self.assign(result, self.place(node.right), node.right))
        yes, no = (steps, []) if node.operator == "&&" else ([], steps)
        self.out.append(Branch(node.at, node.end, result.json(), yes, no))
        return result

    def collected(self, make: Any) -> list[Code]:
        """The steps that a function adds."""
        outer, self.out = self.out, []
        make()
        made, self.out = self.out, outer
        return made

    def equal(self, left: Place, right: Place, node: Expression) -> Json:
        """Whether two values are the same; of headers, stacks and unions member by member."""
        if isinstance(left, NoHeader) or isinstance(right, NoHeader):
            other = right if isinstance(left, NoHeader) else left
            return TRUE if isinstance(other, NoHeader) else self.negated(self.validity(other, node))
        if isinstance(left, StackPlace) and isinstance(right, StackPlace):
            pairs = zip(left.elements, right.elements, strict=True)
            return self._all([self.equal(a, b, node) for a, b in pairs])
        if isinstance(left, UnionPlace) and isinstance(right, UnionPlace):
            return self._all([self.equal(a, right.members[n], node) for n, a in left.members.items()])
        headers = HeaderPlace | ChosenHeader
        if isinstance(left, headers) or isinstance(right, headers):
            return self._equal_headers(left, right, node)
        if isinstance(left, StructPlace) and isinstance(right, StructPlace):
            theirs = list(right.members.values())
            pairs = zip(left.members.values(), theirs, strict=True)
            return self._all([self.equal(a, b, node) for a, b in pairs])
        if left.type is BOOL and right.type is BOOL:
            for one, other in ((left, right), (right, left)):
                if isinstance(one, Value) and one.constant is not None:
                    return other.json() if one.constant else self.negated(other.json())
            return operation("==", data_of(left), data_of(right))
        return operation("==", data_of(left), data_of(right))

    def _equal_headers(self, left: Place, right: Place, node: Expression) -> Json:
        kind = plain(left.type)
        if not isinstance(kind, CompositeType):
            raise Unexpected
        same = self._all(
            [self.equal(self.header_member(left, n), self.header_member(right, n), node) for n in kind.fields]
        )
        one = TRUE if isinstance(left, StructPlace) else self.validity(left, node)
        other = TRUE if isinstance(right, StructPlace) else self.validity(right, node)
        both = self._all([one, other, same])
        if TRUE in (one, other):
            return both
        return operation("or", both, operation("and", self.negated(one), self.negated(other)))

    def _all(self, conditions: list[Json]) -> Json:
        found: Json | None = None
        for condition in conditions:
            if condition["type"] == "bool" and condition["value"]:
                continue
            found = condition if found is None else operation("and", found, condition)
        return found if found is not None else TRUE

    def header_member(self, place: Place, name: str) -> Place:
        """A field of a header, of whatever kind."""
        if isinstance(place, HeaderPlace):
            return member_of_header(place, name)
        if isinstance(place, ChosenHeader):
            return self.chosen_member(place, place.like.layout[name])
        if not isinstance(place, StructPlace):
            raise Unexpected
        return place.members[name]

    def validity(self, place: Place, node: Expression) -> Json:
        """Whether a header or union is valid."""
        if isinstance(place, HeaderPlace | ChosenHeader):
            return place.valid()
        if isinstance(place, UnionPlace):
            if place.chosen is not None:
                raise SourceFault(node.at, "BMv2 cannot tell whether a union is valid that only the packet names")
            return operation("valid_union", None, place.json())
        raise SourceFault(node.at, "this has no validity")
