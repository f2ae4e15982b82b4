"""Lowers expressions from syntax trees to places and BMv2's operators."""

from typing import Any

from p4switch.p4.diagnostics import SourceFault, expect
from p4switch.p4.lower import bmv2
from p4switch.p4.lower.bmv2 import Json
from p4switch.p4.lower.layout import Branch, LoweredCode
from p4switch.p4.lower.storage import LoweringPart, bits_of, is_scalar, member_of_header, storage_width
from p4switch.p4.syntax import tree
from p4switch.p4.types import kinds
from p4switch.p4.types.base import may_be_constant


def same_field(place: bmv2.StoragePlace | None, other: bmv2.StoragePlace) -> bool:
    """Returns whether two places are the same field."""
    fields = isinstance(place, bmv2.FieldPlace) and isinstance(other, bmv2.FieldPlace)
    return fields and set(place.leaves()) == set(other.leaves()) if place is not None else False


_PLAIN = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "&": "&", "|": "|", "^": "^", ">>": ">>"}


class ExpressionLowering(LoweringPart):
    """Lowers expressions, and assignments between values of the same type."""

    def assign(self, target: bmv2.StoragePlace, origin: bmv2.StoragePlace, at: Any) -> None:
        """Lowers ``target = origin``."""
        match target:
            case bmv2.SlicePlace():
                self._assign_slice(target, origin, at)
            case bmv2.FieldPlace() | bmv2.ChosenField():
                self._assign_scalar(target, origin, at)
            case bmv2.HeaderPlace() | bmv2.ChosenHeader():
                self._assign_header(target, origin, at)
            case bmv2.UnionPlace():
                self._assign_union(target, origin, at)
            case bmv2.StackPlace():
                self._assign_stack(target, origin, at)
            case bmv2.StructPlace():
                self._assign_struct(target, origin, at)
            case _:
                raise SourceFault(at.at, "this cannot be assigned to")

    def _assign_scalar(self, target: bmv2.FieldPlace | bmv2.ChosenField, origin: bmv2.StoragePlace, at: Any) -> None:
        if same_field(target, origin):
            return
        varying = isinstance(kinds.plain(target.type), kinds.Varbits)
        self.ctx.do(
            at,
            "assign_VL" if varying else "assign",
            bmv2.as_parameter(target.target()),
            bmv2.as_parameter(bmv2.data_of(origin)),
        )

    def _assign_slice(self, target: bmv2.SlicePlace, origin: bmv2.StoragePlace, at: Any) -> None:
        """Assigns some bits of a number; the other bits keep their values."""
        base, low, high = target.base, target.low, target.high
        while isinstance(base, bmv2.SlicePlace):
            low, high, base = low + base.low, high + base.low, base.base
        width = storage_width(base.type)
        mask = ((1 << (high - low + 1)) - 1) << low
        number = bits_of(base.type)
        rest = bmv2.operation("&", bmv2.data_of(base), bmv2.constant(((1 << width) - 1) & ~mask, width))
        moved = bmv2.operation("<<", bmv2.data_of(origin), bmv2.constant(low, 32)) if low else bmv2.data_of(origin)
        placed = bmv2.operation("&", moved, bmv2.constant(mask, width))
        whole = bmv2.operation("|", rest, placed)
        if number is not None and number.signed:
            whole = bmv2.wrapped(whole, kinds.Bits(width, True))
        self.assign(base, bmv2.Value(base.type, whole), at)

    def _assign_header(self, target: bmv2.HeaderPlace | bmv2.ChosenHeader, origin: bmv2.StoragePlace, at: Any) -> None:
        match origin:
            case bmv2.NoHeader():
                self.ctx.do(at, "remove_header", bmv2.as_parameter(target.json()))
            case bmv2.HeaderPlace() if isinstance(target, bmv2.HeaderPlace) and origin.name == target.name:
                return
            case bmv2.HeaderPlace() | bmv2.ChosenHeader():
                self.ctx.do(at, "assign_header", bmv2.as_parameter(target.json()), bmv2.as_parameter(origin.json()))
            case bmv2.StructPlace():
                members = self._kept_apart(target, origin, at)
                self.ctx.do(at, "add_header", bmv2.as_parameter(target.json()))
                for name, member in members.items():
                    self.assign(self.header_member(target, name), member, at)
            case _:
                raise SourceFault(at.at, "this cannot be assigned to a header")

    def _assign_union(self, target: bmv2.UnionPlace, origin: bmv2.StoragePlace, at: Any) -> None:
        if isinstance(origin, bmv2.NoHeader):
            for member in target.members.values():
                self.ctx.do(at, "remove_header", bmv2.as_parameter(member.json()))
        elif isinstance(origin, bmv2.UnionPlace):
            if origin.name != target.name or target.chosen is not None or origin.chosen is not None:
                self.ctx.do(at, "assign_union", bmv2.as_parameter(target.json()), bmv2.as_parameter(origin.json()))
        else:
            raise SourceFault(at.at, "this cannot be assigned to a header union")

    def _assign_stack(self, target: bmv2.StackPlace, origin: bmv2.StoragePlace, at: Any) -> None:
        if isinstance(origin, bmv2.StackPlace):
            if origin.name != target.name:
                operator = "assign_union_stack" if target.of_unions else "assign_header_stack"
                self.ctx.do(at, operator, target.json(), origin.json())
        elif isinstance(origin, bmv2.NoHeader):
            for element in target.elements:
                self.assign(element, bmv2.NoHeader(element.type), at)
        elif isinstance(origin, bmv2.StructPlace):
            for element, member in zip(target.elements, origin.members.values(), strict=True):
                self.assign(element, member, at)
        else:
            raise SourceFault(at.at, "this cannot be assigned to a stack")

    def _assign_struct(self, target: bmv2.StructPlace, origin: bmv2.StoragePlace, at: Any) -> None:
        if not isinstance(origin, bmv2.StructPlace):
            raise SourceFault(at.at, "this cannot be assigned to a struct")
        members = list(self._kept_apart(target, origin, at).values())
        for place, member in zip(target.members.values(), members, strict=True):
            self.assign(place, member, at)

    def _kept_apart(self, target: bmv2.StoragePlace, origin: bmv2.StructPlace, at: Any) -> dict[str, bmv2.StoragePlace]:
        """Returns the members of a list; first copies scalars that read a field which the assignment changes."""
        written = set(target.leaves())
        headers = {header for header, name in written if name == "*"}
        members: dict[str, bmv2.StoragePlace] = {}
        for position, (name, member) in enumerate(origin.members.items()):
            members[name] = member
            if (position == 0 and len(origin.members) == 1) or not is_scalar(member.type):
                if isinstance(member, bmv2.StructPlace):
                    members[name] = bmv2.StructPlace(member.type, self._kept_apart(target, member, at))
                continue
            read: set[tuple[str, str]] = set()
            bmv2.fields_of(bmv2.data_of(member), read)
            if isinstance(target, bmv2.ChosenHeader) or any(f in written or f[0] in headers for f in read):
                own = target.members.get(name) if isinstance(target, bmv2.StructPlace) else None
                if same_field(own, member):
                    continue
                copy = self.ctx.temporary(member.type)
                self.assign(copy, member, at)
                members[name] = copy
        return members

    # --- operators

    def _unary(self, node: tree.Unary, kind: kinds.Type) -> bmv2.StoragePlace:
        operand = self.scalar(node.operand)
        if node.operator == "!":
            return bmv2.Value(kinds.BOOL, bmv2.operation("not", None, operand))
        number = self.ctx.as_bits(kind)
        if node.operator == "+":
            return bmv2.Value(kind, operand)
        if node.operator == "~":
            return bmv2.Value(kind, bmv2.wrapped(bmv2.operation("~", None, operand), number))
        return bmv2.Value(kind, bmv2.wrapped(bmv2.operation("-", bmv2.constant(0, number.width), operand), number))

    def _binary(self, node: tree.Binary, kind: kinds.Type) -> bmv2.StoragePlace:
        if node.operator in ("&&", "||"):
            return self._logic(node)
        left = self.place(node.left)
        if node.right.effects:
            left = self.held(left, node.left)
        right = self.place(node.right)
        if node.operator in ("==", "!="):
            same = self.equal(left, right, node)
            return bmv2.Value(kinds.BOOL, same if node.operator == "==" else self.negated(same))
        first, second = bmv2.data_of(left), bmv2.data_of(right)
        if node.operator in _PLAIN:
            computed = bmv2.operation(_PLAIN[node.operator], first, second)
            number = bits_of(kind)
            if number is not None and number.signed and node.operator in ("&", "|", "^"):
                computed = bmv2.wrapped(computed, number)
            return bmv2.Value(kind, computed)
        return self._arithmetic(node, kind, first, second)

    def _arithmetic(self, node: tree.Binary, kind: kinds.Type, first: Json, second: Json) -> bmv2.StoragePlace:
        number = self.ctx.as_bits(kind)
        match node.operator:
            case "++":
                right = self.ctx.as_bits(self.ctx.type_of(node.right))
                low = (
                    bmv2.operation("&", second, bmv2.constant((1 << right.width) - 1, right.width))
                    if right.signed
                    else second
                )
                joined = bmv2.operation("|", bmv2.operation("<<", first, bmv2.constant(right.width, 32)), low)
                return bmv2.Value(kind, bmv2.wrapped(joined, number) if number.signed else joined)
            case "|+|" | "|-|":
                inner = bmv2.operation(node.operator[1], first, second)
                cast = "sat_cast" if number.signed else "usat_cast"
                return bmv2.Value(kind, bmv2.operation(cast, inner, bmv2.constant(number.width, 32)))
            case "/" | "%":
                if self.ctx.evaluate(node.left) == 0:
                    return self.ctx.known(0, kind)
                divisor = self.ctx.evaluate(node.right)
                if not isinstance(divisor, int) or divisor <= 0 or divisor & (divisor - 1):
                    hint = "Use a table, or divide by a power of two."
                    raise SourceFault(node.at, "the target divides by constants that are powers of two only", hint)
                if node.operator == "/":
                    return bmv2.Value(kind, bmv2.operation(">>", first, bmv2.constant(divisor.bit_length() - 1, 32)))
                return bmv2.Value(kind, bmv2.operation("&", first, bmv2.constant(divisor - 1, number.width)))
            case "+" | "-" | "*" | "<<":
                return bmv2.Value(kind, bmv2.wrapped(bmv2.operation(node.operator, first, second), number))
        raise SourceFault(node.at, f"the operator {node.operator!r} is not taken here")

    def negated(self, json: Json) -> Json:
        """Returns the negation of a bool."""
        if json["type"] == "bool":
            return bmv2.FALSE if json["value"] else bmv2.TRUE
        if json["type"] == "expression" and json["value"].get("op") == "==":
            return bmv2.operation("!=", json["value"]["left"], json["value"]["right"])
        return bmv2.operation("not", None, json)

    def _logic(self, node: tree.Binary) -> bmv2.StoragePlace:
        left = self.place(node.left)
        if not node.right.effects:
            right = self.scalar(node.right)
            return bmv2.Value(kinds.BOOL, bmv2.operation("and" if node.operator == "&&" else "or", left.json(), right))
        result = self.ctx.temporary(kinds.BOOL)
        self.assign(result, left, node)
        steps = self.collected(lambda: self.assign(result, self.place(node.right), node.right))
        yes, no = (steps, []) if node.operator == "&&" else ([], steps)
        self.ctx.out.append(Branch(node.at, node.end, result.json(), yes, no))
        return result

    def collected(self, make: Any) -> list[LoweredCode]:
        """Returns the steps that calling ``make`` adds."""
        outer, self.ctx.out = self.ctx.out, []
        make()
        made, self.ctx.out = self.ctx.out, outer
        return made

    def equal(self, left: bmv2.StoragePlace, right: bmv2.StoragePlace, node: tree.Expression) -> Json:
        """Returns whether two values are equal; headers, stacks and unions are compared member by member."""
        if isinstance(left, bmv2.NoHeader) or isinstance(right, bmv2.NoHeader):
            other = right if isinstance(left, bmv2.NoHeader) else left
            return bmv2.TRUE if isinstance(other, bmv2.NoHeader) else self.negated(self.validity(other, node))
        if isinstance(left, bmv2.StackPlace) and isinstance(right, bmv2.StackPlace):
            pairs = zip(left.elements, right.elements, strict=True)
            return self._all([self.equal(a, b, node) for a, b in pairs])
        if isinstance(left, bmv2.UnionPlace) and isinstance(right, bmv2.UnionPlace):
            return self._all([self.equal(a, right.members[n], node) for n, a in left.members.items()])
        headers = bmv2.HeaderPlace | bmv2.ChosenHeader
        if isinstance(left, headers) or isinstance(right, headers):
            return self._equal_headers(left, right, node)
        if isinstance(left, bmv2.StructPlace) and isinstance(right, bmv2.StructPlace):
            theirs = list(right.members.values())
            pairs = zip(left.members.values(), theirs, strict=True)
            return self._all([self.equal(a, b, node) for a, b in pairs])
        if left.type is kinds.BOOL and right.type is kinds.BOOL:
            for side, other in ((left, right), (right, left)):
                if isinstance(side, bmv2.Value) and side.constant is not None:
                    return other.json() if side.constant else self.negated(other.json())
            return bmv2.operation("==", bmv2.data_of(left), bmv2.data_of(right))
        return bmv2.operation("==", bmv2.data_of(left), bmv2.data_of(right))

    def _equal_headers(self, left: bmv2.StoragePlace, right: bmv2.StoragePlace, node: tree.Expression) -> Json:
        kind = expect(kinds.plain(left.type), kinds.CompositeType)
        same = self._all(
            [self.equal(self.header_member(left, n), self.header_member(right, n), node) for n in kind.fields]
        )
        left_valid = bmv2.TRUE if isinstance(left, bmv2.StructPlace) else self.validity(left, node)
        right_valid = bmv2.TRUE if isinstance(right, bmv2.StructPlace) else self.validity(right, node)
        both = self._all([left_valid, right_valid, same])
        if bmv2.TRUE in (left_valid, right_valid):
            return both
        return bmv2.operation("or", both, bmv2.operation("and", self.negated(left_valid), self.negated(right_valid)))

    def _all(self, conditions: list[Json]) -> Json:
        conjunction: Json | None = None
        for condition in conditions:
            if condition["type"] == "bool" and condition["value"]:
                continue
            conjunction = condition if conjunction is None else bmv2.operation("and", conjunction, condition)
        return conjunction if conjunction is not None else bmv2.TRUE

    def header_member(self, place: bmv2.StoragePlace, name: str) -> bmv2.StoragePlace:
        """Returns a field of a header that is named, chosen at run time, or given as a list."""
        if isinstance(place, bmv2.HeaderPlace):
            return member_of_header(place, name)
        if isinstance(place, bmv2.ChosenHeader):
            return self.chosen_member(place, place.like.layout[name])
        return expect(place, bmv2.StructPlace).members[name]

    def validity(self, place: bmv2.StoragePlace, node: tree.Expression) -> Json:
        """Returns whether a header or union is valid."""
        if isinstance(place, bmv2.HeaderPlace | bmv2.ChosenHeader):
            return place.valid()
        if isinstance(place, bmv2.UnionPlace):
            if place.chosen is not None:
                raise SourceFault(node.at, "BMv2 cannot tell whether a union is valid that only the packet names")
            return bmv2.operation("valid_union", None, place.json())
        raise SourceFault(node.at, "this has no validity")

    # --- expressions

    def place(self, node: tree.Expression) -> bmv2.StoragePlace:
        """Returns the place or value of an expression, and adds the steps that it needs."""
        if node in self.ctx.settled:
            return self.ctx.settled[node]
        kind = self.ctx.type_of(node)
        value = node.value
        if value is None:
            if isinstance(node, tree.Name):  # the place that a name is bound to may be a constant
                return self._name(node)
            if isinstance(node, tree.Member):
                return self._member(node, kind)
            if not node.effects and may_be_constant(node, self.ctx.foldable):
                value = self.ctx.evaluate(node)
        if value is not None:
            return self.constant_place(value, kind)
        match node:
            case tree.Binary():
                return self._binary(node, kind)
            case tree.Cast():
                return self._cast(node, kind)
            case tree.Index():
                return self._index(node)
            case tree.Slice():
                return self._slice(node)
            case tree.Unary():
                return self._unary(node, kind)
            case tree.Ternary():
                return self._ternary(node, kind)
            case tree.ListOf() | tree.Record():
                return self._list(node, kind)
            case tree.InvalidHeader():
                return bmv2.NoHeader(kind)
            case tree.Call():
                return self.ctx.calls.call(node)
            case tree.Default():
                return self.zeros(kind)
        raise SourceFault(node.at, "this is not taken here")

    def scalar(self, node: tree.Expression) -> Json:
        """Returns the JSON of a number or bool."""
        return self._single(node).json()

    def data(self, node: tree.Expression) -> Json:
        """Returns the JSON of a number; a bool becomes a number of one bit."""
        return bmv2.data_of(self._single(node))

    def _single(self, node: tree.Expression) -> bmv2.StoragePlace:
        """Returns the place of a single value. Raises SourceFault for others, which generic externs accept."""
        place = self.place(node)
        if isinstance(kinds.plain(place.type), kinds.CompositeType | kinds.StackType | kinds.TupleType):
            raise SourceFault(node.at, f"a single value must stand here, but this is {place.type}")
        return place

    def held(self, place: bmv2.StoragePlace, at: Any) -> bmv2.StoragePlace:
        """Returns a copy of a scalar, which later steps do not change; constants and other values are not copied."""
        if (isinstance(place, bmv2.Value) and bmv2.is_constant(place.data)) or isinstance(place, bmv2.RuntimeData):
            return place
        if not is_scalar(place.type):
            return place
        copy = self.ctx.temporary(place.type)
        self.assign(copy, place, at)
        return copy

    def constant_place(self, value: Any, kind: kinds.Type) -> bmv2.StoragePlace:
        """Returns a compile-time value as a place; a tuple becomes a struct of places."""
        bare = kinds.plain(kind)
        if isinstance(value, tuple):
            if isinstance(bare, kinds.CompositeType):
                fields = bare.fields.items()
                members = {n: self.constant_place(v, t) for (n, t), v in zip(fields, value, strict=True)}
                return bmv2.StructPlace(kind, members)
            pairs = enumerate(zip(expect(bare, kinds.TupleType).elements, value, strict=True))
            return bmv2.StructPlace(kind, {str(i): self.constant_place(v, t) for i, (t, v) in pairs})
        return self.ctx.known(value, kind)

    # --- names and members

    def _name(self, node: tree.Name) -> bmv2.StoragePlace:
        bound = self.ctx.environment.find(node.target)
        if bound is None:
            raise SourceFault(node.at, f"{node.name!r} cannot be used here")
        if not isinstance(bound, bmv2.StoragePlace):
            raise SourceFault(node.at, f"{node.name!r} is no value")
        return bound

    def _member(self, node: tree.Member, kind: kinds.Type) -> bmv2.StoragePlace:
        if isinstance(node.base.type, kinds.ApplyResult):
            return self.ctx.calls.apply_result(node)
        base = self.place(node.base)
        match base:
            case bmv2.HeaderPlace():
                return member_of_header(base, node.name)
            case bmv2.ChosenHeader():
                return self.chosen_member(base, base.like.layout[node.name])
            case bmv2.StructPlace():
                return base.members[node.name]
            case bmv2.UnionPlace():
                return base.members[node.name]
            case bmv2.StackPlace():
                return self._stack_member(node, base, kind)
        raise SourceFault(node.at, f"the member {node.name!r} cannot be used here")

    def chosen_member(self, header: bmv2.ChosenHeader, entry: tuple[kinds.Type, Any]) -> bmv2.StoragePlace:
        """Returns a field of a header that is chosen at run time."""
        kind, inner = entry
        if isinstance(inner, dict):
            members = {n: self.chosen_member(header, e) for n, e in inner.items() if n != "$order$"}
            return bmv2.StructPlace(kind, members)
        return bmv2.ChosenField(kind, header, inner)

    def _stack_member(self, node: tree.Member, base: bmv2.StackPlace, kind: kinds.Type) -> bmv2.StoragePlace:
        last = bmv2.operation("last_stack_index", None, base.json())
        if node.name == "lastIndex":
            return bmv2.Value(kinds.bits(32), bmv2.operation("&", last, bmv2.constant((1 << 32) - 1, 32)))
        if node.name == "last":
            return self.element(base, last, (base.name, None))
        return self.element(base, bmv2.operation("size_stack", None, base.json()), None)

    def element(self, stack: bmv2.StackPlace, index: Json, last: tuple[str, str | None] | None) -> bmv2.StoragePlace:
        """Returns the element of a stack at an index that is known only at run time."""
        like, kind = stack.elements[0], expect(stack.type, kinds.StackType).element
        if isinstance(like, bmv2.UnionPlace):
            data = bmv2.operation("dereference_union_stack", stack.json(), index)
            members: dict[str, bmv2.StoragePlace] = {}
            for number, (name, header) in enumerate(like.members.items()):
                chosen = bmv2.operation("access_union_header", data, number)  # type: ignore[arg-type]
                tail = (last[0], name) if last is not None else None
                members[name] = bmv2.ChosenHeader(header.type, chosen, expect(header, bmv2.HeaderPlace), tail)
            return bmv2.UnionPlace(kind, stack.name, members, data)
        data = bmv2.operation("dereference_header_stack", stack.json(), index)
        return bmv2.ChosenHeader(kind, data, expect(like, bmv2.HeaderPlace), last)

    def _index(self, node: tree.Index) -> bmv2.StoragePlace:
        base = self.place(node.base)
        position = self.ctx.evaluate(node.index)
        if isinstance(base, bmv2.StructPlace):
            return base.members[str(position)]
        if not isinstance(base, bmv2.StackPlace):
            raise SourceFault(node.at, "this cannot be indexed here")
        if isinstance(position, int):
            if not 0 <= position < len(base.elements):
                raise SourceFault(node.index.at, f"there is no element {position} in a stack of {len(base.elements)}")
            return base.elements[position]
        index = self.place(node.index)
        # The index is evaluated now, although later steps may change its operands.
        copied = self.held(index, node.index) if self.ctx.holds_index else index
        return self.element(base, bmv2.data_of(copied), None)

    def _slice(self, node: tree.Slice) -> bmv2.StoragePlace:
        base = self.place(node.base)
        high, low = node.high.value, node.low.value
        return bmv2.Value(kinds.bits(high - low + 1), self.slice_of(bmv2.data_of(base), base.type, high, low))

    def slice_of(self, data: Json, kind: kinds.Type, high: int, low: int) -> Json:
        """Returns bits ``high`` to ``low`` of a number."""
        shifted = bmv2.operation(">>", data, bmv2.constant(low, 32)) if low else data
        number = bits_of(kind)
        if number is not None and high == number.width - 1 and not number.signed:
            return shifted
        return bmv2.operation("&", shifted, bmv2.constant((1 << (high - low + 1)) - 1, high - low + 1))

    def target(self, node: tree.Expression) -> bmv2.StoragePlace:
        """Returns the place of an assignment's target; a slice becomes a SlicePlace."""
        if isinstance(node, tree.Slice):
            return bmv2.SlicePlace(self.ctx.type_of(node), self.target(node.base), node.high.value, node.low.value)
        return self.place(node)

    def _ternary(self, node: tree.Ternary, kind: kinds.Type) -> bmv2.StoragePlace:
        truth = self.ctx.evaluate(node.condition) if not node.condition.effects else None
        if truth is not None:
            return self.place(node.yes if truth else node.no)
        condition = self.scalar(node.condition)
        if is_scalar(kind) and not node.yes.effects and not node.no.effects:
            yes, no = self.data(node.yes), self.data(node.no)
            chosen = bmv2.choice(condition, yes, no)
            return bmv2.Value(kind, bmv2.operation("d2b", None, chosen) if kind is kinds.BOOL else chosen)
        result = self.ctx.storage.allocate("tmp", kind, node.at)
        yes_steps = self.collected(lambda: self.assign(result, self.place(node.yes), node.yes))
        no_steps = self.collected(lambda: self.assign(result, self.place(node.no), node.no))
        self.ctx.out.append(Branch(node.at, node.end, condition, yes_steps, no_steps))
        return result

    def _cast(self, node: tree.Cast, kind: kinds.Type) -> bmv2.StoragePlace:
        operand = self.place(node.operand)
        source, target = kinds.plain(operand.type), kinds.plain(kind)
        if not is_scalar(kind):
            return self._recast(operand, kind)
        if target is kinds.BOOL:
            return (
                operand
                if source is kinds.BOOL
                else bmv2.Value(kinds.BOOL, bmv2.operation("d2b", None, bmv2.data_of(operand)))
            )
        number = bits_of(kind)
        if number is None:
            return self._recast(operand, kind)
        if source is kinds.BOOL:
            if isinstance(operand, bmv2.FieldPlace | bmv2.ChosenField | bmv2.RuntimeData):
                return bmv2.Value(kind, bmv2.data_of(operand))
            return bmv2.Value(
                kind, bmv2.choice(operand.json(), bmv2.constant(1, number.width), bmv2.constant(0, number.width))
            )
        given = bits_of(operand.type)
        data = bmv2.data_of(operand)
        if given is None or (given.signed == number.signed and given.width <= number.width):
            return self._recast(operand, kind) if given is not None else bmv2.Value(kind, data)
        return bmv2.Value(kind, bmv2.wrapped(data, kinds.Bits(number.width, number.signed)))

    def _recast(self, place: bmv2.StoragePlace, kind: kinds.Type) -> bmv2.StoragePlace:
        """Returns the same value with another type of the same representation."""
        match place:
            case bmv2.FieldPlace():
                if storage_width(place.type) == storage_width(kind):
                    return bmv2.FieldPlace(kind, place.header, place.name)
                return bmv2.Value(kind, bmv2.data_of(place))
            case bmv2.Value():
                return bmv2.Value(kind, place.data, place.constant)
            case bmv2.StructPlace():
                bare = kinds.plain(kind)
                if isinstance(bare, kinds.CompositeType) and list(bare.fields) != list(place.members):
                    return bmv2.StructPlace(kind, dict(zip(bare.fields, place.members.values(), strict=True)))
                return bmv2.StructPlace(kind, place.members)
        return place if not is_scalar(kind) else bmv2.Value(kind, bmv2.data_of(place))

    def _list(self, node: tree.ListOf | tree.Record, kind: kinds.Type) -> bmv2.StoragePlace:
        bare = kinds.plain(kind)
        if isinstance(bare, kinds.CompositeType):
            names = list(bare.fields)
        else:
            names = [str(i) for i in range(len(bare.elements))] if isinstance(bare, kinds.TupleType) else []
        given: dict[str, tree.Expression] = {}
        if isinstance(node, tree.Record):
            given = {name: value for name, value in node.fields if name != "..."}
        else:
            items = [item for item in node.items if not (isinstance(item, tree.Default) and item.text == "...")]
            given = dict(zip(names, items, strict=False))
        later = [value.effects for value in given.values()]
        members: dict[str, bmv2.StoragePlace] = {}
        for position, (name, value) in enumerate(given.items()):
            members[name] = self.place(value)
            if any(later[position + 1 :]):
                members[name] = self.held(members[name], value)
        for name in names:
            if name not in members:
                inner = bare.fields[name] if isinstance(bare, kinds.CompositeType) else bare
                members[name] = self.zeros(inner)
        return bmv2.StructPlace(kind, {name: members[name] for name in names})

    def zeros(self, kind: kinds.Type) -> bmv2.StoragePlace:
        """Returns the default value of a type: zeros and invalid headers (specification, section 7.3)."""
        bare = kinds.plain(kind)
        if isinstance(bare, kinds.CompositeType) and bare.kind == "struct":
            return bmv2.StructPlace(kind, {name: self.zeros(inner) for name, inner in bare.fields.items()})
        if isinstance(bare, kinds.TupleType):
            return bmv2.StructPlace(kind, {str(i): self.zeros(inner) for i, inner in enumerate(bare.elements)})
        if is_scalar(kind):
            width = storage_width(kind)
            return (
                bmv2.Value(kind, bmv2.FALSE, False)
                if bare is kinds.BOOL
                else bmv2.Value(kind, bmv2.constant(0, width), 0)
            )
        return bmv2.NoHeader(kind)

    def condition(self, node: tree.Expression) -> Json:
        """Returns the JSON of a condition."""
        condition = self.scalar(node)
        return condition if condition["type"] != "hexstr" else bmv2.as_data(condition, False)
