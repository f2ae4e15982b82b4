"""Types as P4Info describes them (P4Runtime specification, section 6.5)."""

from typing import Any

from p4reduce.frontend.info.text import Message
from p4reduce.frontend.syntax.numbers import value_of
from p4reduce.frontend.syntax.tokens import NUMBER, STRING
from p4reduce.frontend.types.kinds import (
    BOOL,
    ERROR,
    Bits,
    CompositeType,
    EnumType,
    NewType,
    StackType,
    TupleType,
    Type,
    Varbits,
    plain,
    width_of,
)

_ORDER = ("structs", "headers", "header_unions", "enums", "error", "serializable_enums", "new_types")


class TypeSpecs:
    """Describes types, and gathers those that have names."""

    def __init__(self) -> None:
        self._named: dict[str, dict[str, Message]] = {section: {} for section in _ORDER}
        self._errors: list[str] | None = None
        self.errors: list[str] = []

    def spec(self, kind: Type) -> Message:
        """``P4DataTypeSpec`` of a type; named types are gathered."""
        match kind:
            case Bits(width, signed):
                return [("bitstring", [("int" if signed else "bit", [("bitwidth", width)])])]
            case Varbits(width):
                return [("bitstring", [("varbit", [("max_bitwidth", width)])])]
            case TupleType(elements):
                return [("tuple", [("members", self.spec(e)) for e in elements])]
            case CompositeType():
                self._composite(kind)
                word = {"struct": "struct", "header": "header", "header_union": "header_union"}[kind.kind]
                return [(word, [("name", shown_name(kind))])]
            case StackType(element, size):
                self._composite(element)
                word = element.kind
                return [(f"{word}_stack", [(word, [("name", shown_name(element))]), ("size", size)])]
            case EnumType():
                self._enum(kind)
                word = "serializable_enum" if kind.base is not None else "enum"
                return [(word, [("name", kind.name)])]
            case NewType():
                self._new_type(kind)
                return [("new_type", [("name", kind.name)])]
        if kind is BOOL:
            return [("bool", [])]
        if kind is ERROR:
            self._errors = self.errors
            return [("error", [])]
        return []

    def _composite(self, kind: CompositeType) -> None:
        section = {"struct": "structs", "header": "headers", "header_union": "header_unions"}[kind.kind]
        name = shown_name(kind)
        if name in self._named[section]:
            return
        members: Message = []
        self._named[section][name] = members
        for field, inner in kind.fields.items():
            spec = self.spec(_number(inner))[0][1] if kind.kind == "header" else self.spec(inner)
            what = "header" if kind.kind == "header_union" else "type_spec"
            members.append(("members", [("name", field), (what, spec[0][1] if what == "header" else spec)]))

    def _enum(self, kind: EnumType) -> None:
        if kind.base is None:
            self._named["enums"].setdefault(kind.name, [("members", [("name", m)]) for m in kind.members])
            return
        width = kind.base.width
        found: Message = [("underlying_type", [("bitwidth", width)])]
        for name, member in kind.members.items():
            value = member.initial.value & ((1 << width) - 1)
            shown = value.to_bytes(max(1, -(-width // 8)), "big")
            found.append(("members", [("name", name), ("value", shown)]))
        self._named["serializable_enums"].setdefault(kind.name, found)

    def _new_type(self, kind: NewType) -> None:
        translation = translation_of(kind)
        if translation is None:
            found: Message = [("original_type", self.spec(plain(kind)))]
        else:
            uri, width = translation
            sdn: Any = ("sdn_string", []) if width is None else ("sdn_bitwidth", width)
            found = [("translated_type", [("uri", uri), sdn])]
        self._named["new_types"].setdefault(kind.name, found)

    def message(self) -> Message:
        """``type_info``."""
        found: Message = []
        for section in _ORDER:
            if section == "error":
                if self._errors is not None:
                    found.append(("error", [("members", name) for name in self._errors]))
                continue
            for name in sorted(self._named[section]):
                found.append((section, [("key", name), ("value", self._named[section][name])]))
        return found


def _number(kind: Type) -> Type:
    bare = plain(kind)
    return bare.base if isinstance(bare, EnumType) and bare.base is not None else bare


def shown_name(kind: CompositeType) -> str:
    """The name of a type for the control plane."""
    note = kind.declaration.annotation("name")
    return str(note.string) if note is not None and note.string else kind.name


def translation_of(kind: Type) -> tuple[str, int | None] | None:
    """What ``@p4runtime_translation`` says of a type: a URI, and the width or None for a string."""
    if not isinstance(kind, NewType):
        return None
    note = kind.declaration.annotation("p4runtime_translation")
    if note is None or len(note.tokens) < 3 or note.tokens[0][0] != STRING:
        return None
    uri, last = note.tokens[0][1][1:-1], note.tokens[2]
    if last[0] == NUMBER:
        return uri, value_of(last)
    if last[1] == "bit" and len(note.tokens) > 4:
        return uri, value_of(note.tokens[4])
    return uri, None


def control_plane_width(kind: Type) -> int:
    """Bits of a value for the control plane; 0 for strings and errors."""
    translation = translation_of(kind)
    if translation is not None:
        return translation[1] or 0
    if kind is ERROR:
        return 0
    return width_of(kind) or (32 if isinstance(plain(kind), EnumType) else 0)
