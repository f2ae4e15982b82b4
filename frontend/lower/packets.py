"""``packet_in`` and ``packet_out``: extract, lookahead, advance, verify, emit."""

from p4reduce.frontend.diagnostics import SourceFault, Unexpected
from p4reduce.frontend.lower.expressions import ExpressionLowering
from p4reduce.frontend.lower.places import (
    FieldPlace,
    HeaderPlace,
    Place,
    StackPlace,
    StructPlace,
    UnionPlace,
)
from p4reduce.frontend.lower.storage import is_scalar, storage_width
from p4reduce.frontend.lower.values import Json
from p4reduce.frontend.syntax.tree import Call, Expression, Member
from p4reduce.frontend.types.kinds import CompositeType, StackType, TupleType, Type, Varbits, is_header, plain


class PacketLowering(ExpressionLowering):
    """Lowers what parsers and deparsers do with packets."""

    emitted: list[str]

    def on_packet(self, node: Call, extern: str, method: str) -> Place | None:
        """A method of the packet."""
        if extern == "packet_out":
            if self.where != "deparser":
                raise SourceFault(node.at, "emit(…) is for the deparser")
            self._emit(self.place(self._first(node)), node)
            return None
        if self.where != "parser":
            raise SourceFault(node.at, f"{method}(…) is for parsers")
        match method:
            case "extract":
                self._extract(node)
            case "advance":
                self.do(node, "advance", self._wrapped(self.data(self._first(node))))
            case "lookahead":
                kind = self.types.substitute(node.type_arguments[node.target.type_variables[0]], self.environment.types)
                return self._lookahead(node, kind)
            case "length":
                hint = "Use standard_metadata.packet_length."
                raise SourceFault(node.at, "BMv2's parser does not know the packet's length by itself", hint)
        return None

    def _first(self, node: Call) -> Expression:
        value = node.bound[0]
        if value is None:
            raise SourceFault(node.at, "'_' cannot stand here", "Extract into a header, or use advance(…).")
        return value

    @staticmethod
    def _wrapped(json: Json) -> Json:
        return {"type": "expression", "value": json} if json["type"] == "expression" else json

    # --- extract

    def _extract(self, node: Call) -> None:
        if node.bound[0] is None and len(node.bound) == 1:
            # Over what nobody looks at.
            given = node.type_arguments.get(node.target.type_variables[0])
            if given is not None and is_header(plain(given)):
                unused = self.storage.allocate("unused", given, node.at)
                if not isinstance(unused, HeaderPlace):
                    raise Unexpected
                self.do(node, "extract", {"type": "regular", "value": unused.name})
                return
        value = self._first(node)
        kind = plain(self.type_of(value))
        if not is_header(kind):
            hint = (
                "Name a header of it." if isinstance(kind, CompositeType | StackType) else "Only headers are extracted."
            )
            raise SourceFault(value.at, f"extract(…) takes a header, not {kind}", hint)
        varying = any(isinstance(plain(t), Varbits) for t in kind.fields.values())  # type: ignore[attr-defined]
        length: Json | None = None
        if len(node.bound) > 1 and node.bound[1] is not None:
            length = {"type": "expression", "value": self.data(node.bound[1])}
            if not varying:
                raise SourceFault(node.at, f"{kind} has no field of variable length", "Leave the length out.")
        elif varying:
            hint = "Give its length in bits: extract(h, n)."
            raise SourceFault(node.at, f"{kind} has a field of variable length", hint)
        header = self._extracted(value)
        if length is None:
            self.do(node, "extract", header)
        else:
            self.do(node, "extract_VL", header, length)

    def _extracted(self, value: Expression) -> Json:
        if isinstance(value, Member) and value.name == "next" and isinstance(self._stack_type(value.base), StackType):
            stack = self.place(value.base)
            if not isinstance(stack, StackPlace):
                raise Unexpected
            return {"type": "stack", "value": stack.name}
        inner = value.base if isinstance(value, Member) else None
        if isinstance(value, Member) and isinstance(inner, Member) and inner.name == "next":
            stack = self.place(inner.base)
            if isinstance(stack, StackPlace):
                return {"type": "union_stack", "value": [stack.name, value.name]}
        place = self.place(value)
        if not isinstance(place, HeaderPlace):
            hint = "Use .next, or an index that is a number."
            raise SourceFault(value.at, "BMv2 extracts headers that the program names", hint)
        return {"type": "regular", "value": place.name}

    def _stack_type(self, node: Expression) -> Type | None:
        return plain(self.type_of(node)) if node.type is not None else None

    # --- lookahead

    def _lookahead(self, node: Call, kind: Type) -> Place:
        place = self.storage.allocate("tmp", kind, node.at)
        self._look(place, kind, 0, node)
        return place

    def _look(self, place: Place, kind: Type, offset: int, node: Call) -> int:
        """Fills a place from the bits at an offset; the offset behind them."""
        bare = plain(kind)
        match place:
            case HeaderPlace():
                self.do(node, "add_header", place.json())
                if not isinstance(bare, CompositeType):
                    raise Unexpected
                for name, inner in bare.fields.items():
                    offset = self._look(self.header_member(place, name), inner, offset, node)
                return offset
            case StructPlace():
                kinds = list(bare.fields.values()) if isinstance(bare, CompositeType) else []
                kinds = list(bare.elements) if isinstance(bare, TupleType) else kinds
                for member, inner in zip(place.members.values(), kinds, strict=True):
                    offset = self._look(member, inner, offset, node)
                return offset
            case StackPlace() if isinstance(bare, StackType):
                for element in place.elements:
                    offset = self._look(element, bare.element, offset, node)
                return offset
            case FieldPlace() if is_scalar(kind):
                width = storage_width(kind)
                self.do(node, "assign", place.target(), {"type": "lookahead", "value": [offset, width]})
                return offset + width
        raise SourceFault(node.at, f"lookahead gives numbers, structs and headers of them, not {kind}")

    # --- verify

    def verify(self, node: Call) -> None:
        """``verify(condition, error)``."""
        condition, error = node.bound[0], node.bound[1]
        if condition is None:
            raise Unexpected
        if error is None:
            raise Unexpected
        self.do(node, "verify", self.scalar(condition), self.data(error))

    # --- emit

    def _emit(self, place: Place, node: Call) -> None:
        match place:
            case HeaderPlace():
                self.emitted.append(place.name)
            case StructPlace():
                for member in place.members.values():
                    self._emit(member, node)
            case StackPlace():
                for element in place.elements:
                    self._emit(element, node)
            case UnionPlace() if place.chosen is None:
                for member in place.members.values():
                    self._emit(member, node)
            case _:
                raise SourceFault(node.at, f"emit(…) takes headers, stacks and structs of them, not {place.type}")
