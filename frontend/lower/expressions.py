"""Expressions: from trees to places and BMv2's operators."""

from typing import Any

from p4reduce.frontend.diagnostics import SourceFault, Unexpected
from p4reduce.frontend.lower.code import Branch
from p4reduce.frontend.lower.operators import OperatorLowering
from p4reduce.frontend.lower.places import (
    ChosenField,
    ChosenHeader,
    FieldPlace,
    HeaderPlace,
    NoHeader,
    Place,
    RuntimeData,
    SlicePlace,
    StackPlace,
    StructPlace,
    UnionPlace,
    Value,
    data_of,
)
from p4reduce.frontend.lower.storage import bits_of, is_scalar, member_of_header, storage_width
from p4reduce.frontend.lower.values import (
    FALSE,
    Json,
    as_data,
    choice,
    constant,
    is_constant,
    operation,
    wrapped,
)
from p4reduce.frontend.syntax.tree import (
    Binary,
    Call,
    Cast,
    Default,
    Expression,
    Index,
    InvalidHeader,
    ListOf,
    Member,
    Name,
    Record,
    Slice,
    Ternary,
    Unary,
)
from p4reduce.frontend.types.kinds import (
    BOOL,
    ApplyResult,
    Bits,
    CompositeType,
    StackType,
    TupleType,
    Type,
    bits,
    plain,
)

_PLAIN = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "&": "&", "|": "|", "^": "^", ">>": ">>"}


class ExpressionLowering(OperatorLowering):
    """Lowers expressions."""

    def place(self, node: Expression) -> Place:
        """Where an expression's value is, or what it is; steps that it needs go before."""
        kind = self.type_of(node)
        value = node.value
        if value is None:
            if isinstance(node, Name):  # its place knows what is constant
                return self._name(node)
            if isinstance(node, Member):
                return self._member(node, kind)
            if not node.effects and self.may_be_known(node):
                value = self.evaluate(node)
        if value is not None:
            return self.constant_place(value, kind)
        match node:
            case Binary():
                return self._binary(node, kind)
            case Cast():
                return self._cast(node, kind)
            case Index():
                return self._index(node)
            case Slice():
                return self._slice(node)
            case Unary():
                return self._unary(node, kind)
            case Ternary():
                return self._ternary(node, kind)
            case ListOf() | Record():
                return self._list(node, kind)
            case InvalidHeader():
                return NoHeader(kind)
            case Call():
                return self.call(node)
            case Default():
                return self.zeros(kind)
        raise SourceFault(node.at, "this is not taken here")

    def scalar(self, node: Expression) -> Json:
        """The value of a number or bool."""
        return self._single(node).json()

    def data(self, node: Expression) -> Json:
        """The value of a number; a bool is one of one bit."""
        return data_of(self._single(node))

    def _single(self, node: Expression) -> Place:
        """The place of something that is one value; generic externs take anything as far as the types go."""
        place = self.place(node)
        if isinstance(plain(place.type), CompositeType | StackType | TupleType):
            raise SourceFault(node.at, f"a single value must stand here, but this is {place.type}")
        return place

    def call(self, node: Call) -> Place:
        """See CallLowering."""
        raise NotImplementedError

    def held(self, place: Place, at: Any) -> Place:
        """A scalar that later steps do not change: a copy, unless it is constant."""
        if (isinstance(place, Value) and is_constant(place.data)) or isinstance(place, RuntimeData):
            return place
        if not is_scalar(place.type):
            return place
        copy = self.temporary(place.type)
        self.assign(copy, place, at)
        return copy

    def constant_place(self, value: Any, kind: Type) -> Place:
        """A compile-time value as a place; one of several values as one of places."""
        bare = plain(kind)
        if isinstance(value, tuple):
            if isinstance(bare, CompositeType):
                fields = bare.fields.items()
                members = {n: self.constant_place(v, t) for (n, t), v in zip(fields, value, strict=True)}
                return StructPlace(kind, members)
            if not isinstance(bare, TupleType):
                raise Unexpected
            pairs = enumerate(zip(bare.elements, value, strict=True))
            return StructPlace(kind, {str(i): self.constant_place(v, t) for i, (t, v) in pairs})
        return self.known(value, kind)

    # --- names and members

    def _name(self, node: Name) -> Place:
        found = self.environment.find(node.target)
        if found is None:
            raise SourceFault(node.at, f"{node.name!r} cannot be used here")
        if not isinstance(found, Place):
            raise SourceFault(node.at, f"{node.name!r} is no value")
        return found

    def _member(self, node: Member, kind: Type) -> Place:
        if isinstance(node.base.type, ApplyResult):
            return self.apply_result(node)
        base = self.place(node.base)
        match base:
            case HeaderPlace():
                return member_of_header(base, node.name)
            case ChosenHeader():
                return self.chosen_member(base, base.like.layout[node.name])
            case StructPlace():
                return base.members[node.name]
            case UnionPlace():
                return base.members[node.name]
            case StackPlace():
                return self._stack_member(node, base, kind)
        raise SourceFault(node.at, f"the member {node.name!r} cannot be used here")

    def chosen_member(self, header: ChosenHeader, entry: tuple[Type, Any]) -> Place:
        """A field of a header that only the packet names."""
        kind, inner = entry
        if isinstance(inner, dict):
            members = {n: self.chosen_member(header, e) for n, e in inner.items() if n != "$order$"}
            return StructPlace(kind, members)
        return ChosenField(kind, header, inner)

    def apply_result(self, node: Member) -> Place:
        """See CallLowering."""
        raise NotImplementedError

    def _stack_member(self, node: Member, base: StackPlace, kind: Type) -> Place:
        last = operation("last_stack_index", None, base.json())
        if node.name == "lastIndex":
            return Value(bits(32), operation("&", last, constant((1 << 32) - 1, 32)))
        if node.name == "last":
            return self.element(base, last, (base.name, None))
        return self.element(base, operation("size_stack", None, base.json()), None)

    def element(self, stack: StackPlace, index: Json, last: tuple[str, str | None] | None) -> Place:
        """The element of a stack that only the packet names."""
        like = stack.elements[0]
        if not isinstance(stack.type, StackType):
            raise Unexpected
        if isinstance(like, UnionPlace):
            data = operation("dereference_union_stack", stack.json(), index)
            members: dict[str, Place] = {}
            for number, (name, header) in enumerate(like.members.items()):
                if not isinstance(header, HeaderPlace):
                    raise Unexpected
                chosen = operation("access_union_header", data, number)  # type: ignore[arg-type]
                tail = (last[0], name) if last is not None else None
                members[name] = ChosenHeader(header.type, chosen, header, tail)
            return UnionPlace(stack.type.element, stack.name, members, data)
        if not isinstance(like, HeaderPlace):
            raise Unexpected
        data = operation("dereference_header_stack", stack.json(), index)
        return ChosenHeader(stack.type.element, data, like, last)

    def _index(self, node: Index) -> Place:
        base = self.place(node.base)
        position = self.evaluate(node.index)
        if isinstance(base, StructPlace):
            return base.members[str(position)]
        if not isinstance(base, StackPlace):
            raise SourceFault(node.at, "this cannot be indexed here")
        if isinstance(position, int):
            if not 0 <= position < len(base.elements):
                raise SourceFault(node.index.at, f"there is no element {position} in a stack of {len(base.elements)}")
            return base.elements[position]
        index = self.place(node.index)
        # What it is now counts, though steps in between may change it.
        copied = self.held(index, node.index) if self.holds_index else index
        return self.element(base, data_of(copied), None)

    holds_index = False
    """Whether steps follow before an index is used."""

    def _slice(self, node: Slice) -> Place:
        base = self.place(node.base)
        high, low = node.high.value, node.low.value
        return Value(bits(high - low + 1), self.slice_of(data_of(base), base.type, high, low))

    def slice_of(self, data: Json, kind: Type, high: int, low: int) -> Json:
        """Bits ``high`` to ``low`` of a number."""
        shifted = operation(">>", data, constant(low, 32)) if low else data
        number = bits_of(kind)
        if number is not None and high == number.width - 1 and not number.signed:
            return shifted
        return operation("&", shifted, constant((1 << (high - low + 1)) - 1, high - low + 1))

    def target(self, node: Expression) -> Place:
        """What is assigned to; slices stay slices."""
        if isinstance(node, Slice):
            return SlicePlace(self.type_of(node), self.target(node.base), node.high.value, node.low.value)
        return self.place(node)

    # --- operators

    def _ternary(self, node: Ternary, kind: Type) -> Place:
        truth = self.evaluate(node.condition) if not node.condition.effects else None
        if truth is not None:
            return self.place(node.yes if truth else node.no)
        condition = self.scalar(node.condition)
        if is_scalar(kind) and not node.yes.effects and not node.no.effects:
            yes, no = self.data(node.yes), self.data(node.no)
            found = choice(condition, yes, no)
            return Value(kind, operation("d2b", None, found) if kind is BOOL else found)
        result = self.storage.allocate("tmp", kind, node.at)
        yes_steps = self.collected(lambda: self.assign(result, self.place(node.yes), node.yes))
        no_steps = self.collected(lambda: self.assign(result, self.place(node.no), node.no))
        self.out.append(Branch(node.at, node.end, condition, yes_steps, no_steps))
        return result

    def _cast(self, node: Cast, kind: Type) -> Place:
        operand = self.place(node.operand)
        source, target = plain(operand.type), plain(kind)
        if not is_scalar(kind):
            return self._recast(operand, kind)
        if target is BOOL:
            return operand if source is BOOL else Value(BOOL, operation("d2b", None, data_of(operand)))
        number = bits_of(kind)
        if number is None:
            return self._recast(operand, kind)
        if source is BOOL:
            if isinstance(operand, FieldPlace | ChosenField | RuntimeData):
                return Value(kind, data_of(operand))
            return Value(kind, choice(operand.json(), constant(1, number.width), constant(0, number.width)))
        given = bits_of(operand.type)
        data = data_of(operand)
        if given is None or (given.signed == number.signed and given.width <= number.width):
            return self._recast(operand, kind) if given is not None else Value(kind, data)
        return Value(kind, wrapped(data, Bits(number.width, number.signed)))

    def _recast(self, place: Place, kind: Type) -> Place:
        """The same value by another name of its type."""
        match place:
            case FieldPlace():
                return (
                    FieldPlace(kind, place.header, place.name)
                    if self._same_width(place, kind)
                    else Value(kind, data_of(place))
                )
            case Value():
                return Value(kind, place.data, place.constant)
            case StructPlace():
                bare = plain(kind)
                if isinstance(bare, CompositeType) and list(bare.fields) != list(place.members):
                    return StructPlace(kind, dict(zip(bare.fields, place.members.values(), strict=True)))
                return StructPlace(kind, place.members)
        return place if not is_scalar(kind) else Value(kind, data_of(place))

    def _same_width(self, place: FieldPlace, kind: Type) -> bool:
        return storage_width(place.type) == storage_width(kind)

    def _list(self, node: ListOf | Record, kind: Type) -> Place:
        bare = plain(kind)
        if isinstance(bare, CompositeType):
            names = list(bare.fields)
        else:
            names = [str(i) for i in range(len(bare.elements))] if isinstance(bare, TupleType) else []
        given: dict[str, Expression] = {}
        if isinstance(node, Record):
            given = {name: value for name, value in node.fields if name != "..."}
        else:
            items = [item for item in node.items if not (isinstance(item, Default) and item.text == "...")]
            given = dict(zip(names, items, strict=False))
        later = [value.effects for value in given.values()]
        members: dict[str, Place] = {}
        for position, (name, value) in enumerate(given.items()):
            members[name] = self.place(value)
            if any(later[position + 1 :]):
                members[name] = self.held(members[name], value)
        for name in names:
            if name not in members:
                inner = bare.fields[name] if isinstance(bare, CompositeType) else bare
                members[name] = self.zeros(inner)
        return StructPlace(kind, {name: members[name] for name in names})

    def zeros(self, kind: Type) -> Place:
        """The default value of a type: zeros, invalid headers (specification, section 7.3)."""
        bare = plain(kind)
        if isinstance(bare, CompositeType) and bare.kind == "struct":
            return StructPlace(kind, {name: self.zeros(inner) for name, inner in bare.fields.items()})
        if isinstance(bare, TupleType):
            return StructPlace(kind, {str(i): self.zeros(inner) for i, inner in enumerate(bare.elements)})
        if is_scalar(kind):
            width = storage_width(kind)
            return Value(kind, FALSE, False) if bare is BOOL else Value(kind, constant(0, width), 0)
        return NoHeader(kind)

    def condition(self, node: Expression) -> Json:
        """A condition."""
        found = self.scalar(node)
        return found if found["type"] != "hexstr" else as_data(found, False)
