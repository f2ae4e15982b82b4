"""Makes the P4Info of a compiled program: every object that the control plane may read or write."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final

from p4switch.p4.diagnostics import Diagnostics, SourceFault
from p4switch.p4.inventory import Inventory, UsedAction
from p4switch.p4.lower.programs import Emitter
from p4switch.p4.lower.statements import key_name
from p4switch.p4.lower.storage import LoweredInstance, TableInstance
from p4switch.p4.syntax.expressions import ExpressionParser
from p4switch.p4.syntax.preprocessor import NUMBER, STRING, Token, value_of
from p4switch.p4.syntax.tree import Annotation, Composite, Declaration
from p4switch.p4.types import kinds
from p4switch.p4.types.kinds import plain
from p4switch.p4.types.programs import Checker

# Numbers and aliases of P4Runtime's objects (P4Runtime specification, section 6.3).


ACTION: Final = 0x01
TABLE: Final = 0x02
VALUE_SET: Final = 0x03
CONTROLLER_HEADER: Final = 0x04
ACTION_PROFILE: Final = 0x11
COUNTER: Final = 0x12
DIRECT_COUNTER: Final = 0x13
METER: Final = 0x14
DIRECT_METER: Final = 0x15
REGISTER: Final = 0x16
DIGEST: Final = 0x17


def one_at_a_time(name: str) -> int:
    """Returns Bob Jenkins's one-at-a-time hash, 32 bits, with which p4c numbers objects."""
    value = 0
    for byte in name.encode():
        value = (value + byte) & 0xFFFFFFFF
        value = (value + (value << 10)) & 0xFFFFFFFF
        value ^= value >> 6
    value = (value + (value << 3)) & 0xFFFFFFFF
    value ^= value >> 11
    return (value + (value << 15)) & 0xFFFFFFFF


class Symbols:
    """Names of objects by kind, with their ids; all ids are assigned at the first call of ``id``."""

    def __init__(self) -> None:
        self._given: dict[int, dict[str, int | None]] = {}
        self._ids: dict[tuple[int, str], int] | None = None
        self._aliases: dict[str, str] = {}

    def add(self, kind: int, name: str, wanted: int | None = None) -> None:
        """Adds an object; ``wanted``: the number of its ``@id``."""
        known = self._given.setdefault(kind, {})
        if wanted is not None:
            wanted = wanted if wanted >> 24 else (kind << 24) | wanted
        if name not in known or known[name] is None:
            known[name] = wanted

    def id(self, kind: int, name: str) -> int:
        """Returns an object's id: its ``@id``, else its kind and 24 bits of its name's hash or the next free ones."""
        if self._ids is None:
            self._ids = self._number()
        return self._ids[kind, name]

    def _number(self) -> dict[tuple[int, str], int]:
        numbers: dict[tuple[int, str], int] = {}
        taken: set[int] = set()
        for kind, names in self._given.items():
            for name, wanted in names.items():
                if wanted is not None:
                    numbers[kind, name] = wanted
                    taken.add(wanted)
        for kind in sorted(self._given):
            for name in sorted(n for n, wanted in self._given[kind].items() if wanted is None):
                value = one_at_a_time(name)
                while (kind << 24) | (value & 0xFFFFFF) in taken:
                    value += 1
                numbers[kind, name] = (kind << 24) | (value & 0xFFFFFF)
                taken.add(numbers[kind, name])
        return numbers

    def alias(self, name: str) -> str:
        """Returns the shortest suffix of a name, cut at a dot, that is not a suffix of another object's name."""
        if not self._aliases:
            self._aliases = shortest_ends({n for names in self._given.values() for n in names})
        return self._aliases[name]


def shortest_ends(names: Iterable[str]) -> dict[str, str]:
    """Returns each name's shortest suffix, cut at a dot, that is not a suffix of another name."""
    parts = {name: name.split(".") for name in names}
    counts: Counter[str] = Counter()
    for split in parts.values():
        counts.update(".".join(split[i:]) for i in range(len(split)))
    shortest = {}
    for name, split in parts.items():
        ends = [".".join(split[i:]) for i in range(len(split) - 1, -1, -1)]
        shortest[name] = next((end for end in ends if counts[end] == 1), name)
    return shortest


# Protobuf's text format. A message is a list of (field, value); values are strings, numbers, words and messages.


Message = list[tuple[str, Any]]


class EnumWord(str):
    """A word that is written without quotes: a member of an enum, ``true`` or ``false``."""

    __slots__ = ()


def write(message: Message, indent: str = "") -> str:
    """Returns a message as text, with fields in the given order."""
    lines: list[str] = []
    for name, value in message:
        if isinstance(value, list):
            lines.append(f"{indent}{name} {{\n{write(value, indent + '  ')}{indent}}}\n")
        elif isinstance(value, EnumWord):
            lines.append(f"{indent}{name}: {value}\n")
        elif isinstance(value, bytes):
            lines.append(f'{indent}{name}: "{_escaped(value)}"\n')
        elif isinstance(value, str):
            lines.append(f'{indent}{name}: "{_escaped(value.encode())}"\n')
        else:
            lines.append(f"{indent}{name}: {value}\n")
    return "".join(lines)


def _escaped(value: bytes) -> str:
    plain = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
    return "".join(plain.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03o}") for b in value)


# Annotations in the form of P4Info.


LARGEST_ID = (1 << 32) - 1
_LEFT_OUT = frozenset({"name", "id", "brief", "description"})


def plain_annotations(notes: Iterable[Annotation], without: Sequence[str] = ()) -> Message:
    """Returns the ``annotations`` of a message: those in round brackets or without brackets, as text."""
    return [
        ("annotations", spelled(note))
        for note in notes
        if note.brackets != "[" and note.name not in _LEFT_OUT and note.name not in without
    ]


def structured_annotations(notes: Iterable[Annotation]) -> Message:
    """Returns the ``structured_annotations`` of a message: those in square brackets."""
    return [("structured_annotations", _structured(note)) for note in notes if note.brackets == "["]


def documentation(notes: Iterable[Annotation]) -> Message:
    """Returns the ``doc`` of a message, from ``@brief`` and ``@description``."""
    doc: Message = [
        (note.name, note.string or "") for name in ("brief", "description") for note in notes if note.name == name
    ]
    return [("doc", doc)] if doc else []


def id_of(notes: Iterable[Annotation]) -> int | None:
    """Returns the number of ``@id``; None if there is none."""
    for note in notes:
        if note.name == "id" and note.tokens and note.tokens[0][0] == NUMBER:
            number = value_of(note.tokens[0])
            if number > LARGEST_ID:
                raise SourceFault(note.at, f"an id has 32 bits, but this is {number}")
            return number
    return None


def spelled(note: Annotation) -> str:
    """Returns an annotation as p4c prints it."""
    if not note.brackets:
        return f"@{note.name}"
    shown = [token[1] for token in note.tokens]
    text = ""
    for index, word in enumerate(shown):
        if index and word != "," and not (text.endswith(("(", ".", "-")) or word in (")", ".", "(")):
            text += " "
        text += word
    return f"@{note.name}({text})"


def _structured(note: Annotation) -> Message:
    structured: Message = [("name", note.name)]
    groups: list[list[Token]] = [[]]
    for token in note.tokens:
        if token[1] == "," and token[0] != STRING:
            groups.append([])
        else:
            groups[-1].append(token)
    groups = [group for group in groups if group]
    if not groups:
        return structured
    if len(groups[0]) > 1 and groups[0][1][1] == "=":
        pairs: Message = [("kv_pairs", [("key", g[0][1]), ("value", [_value(g[2:])])]) for g in groups]
        structured.append(("kv_pair_list", pairs))
    else:
        structured.append(("expression_list", [("expressions", [_value(g)]) for g in groups]))
    return structured


def _value(tokens: Sequence[Token]) -> tuple[str, object]:
    """Returns the field and the value of an annotation's value, which may be a constant expression."""
    checker = Checker(Diagnostics())
    node = ExpressionParser(list(tokens), checker.env.diagnostics).expression()
    checker.check(node)
    if isinstance(node.value, bool):
        return "bool_value", EnumWord(str(node.value).lower())
    if isinstance(node.value, int):
        return "int64_value", node.value
    return "string_value", str(node.value)


# Types in the form of P4Info (P4Runtime specification, section 6.5).


_ORDER = ("structs", "headers", "header_unions", "enums", "error", "serializable_enums", "new_types")


class TypeSpecs:
    """Makes the P4Info of types, and collects named types for ``type_info``."""

    def __init__(self) -> None:
        self._named: dict[str, dict[str, Message]] = {section: {} for section in _ORDER}
        self._errors: list[str] | None = None
        self.errors: list[str] = []

    def spec(self, kind: kinds.Type) -> Message:
        """Returns the ``P4DataTypeSpec`` of a type; collects named types."""
        match kind:
            case kinds.Bits(width, signed):
                return [("bitstring", [("int" if signed else "bit", [("bitwidth", width)])])]
            case kinds.Varbits(width):
                return [("bitstring", [("varbit", [("max_bitwidth", width)])])]
            case kinds.TupleType(elements):
                return [("tuple", [("members", self.spec(e)) for e in elements])]
            case kinds.CompositeType():
                self._composite(kind)
                word = {"struct": "struct", "header": "header", "header_union": "header_union"}[kind.kind]
                return [(word, [("name", kind.declaration.shown)])]
            case kinds.StackType(element, size):
                self._composite(element)
                word = element.kind
                return [(f"{word}_stack", [(word, [("name", element.declaration.shown)]), ("size", size)])]
            case kinds.EnumType():
                self._enum(kind)
                word = "serializable_enum" if kind.base is not None else "enum"
                return [(word, [("name", kind.name)])]
            case kinds.NewType():
                self._new_type(kind)
                return [("new_type", [("name", kind.name)])]
        if kind is kinds.BOOL:
            return [("bool", [])]
        if kind is kinds.ERROR:
            self._errors = self.errors
            return [("error", [])]
        return []

    def _composite(self, kind: kinds.CompositeType) -> None:
        section = {"struct": "structs", "header": "headers", "header_union": "header_unions"}[kind.kind]
        name = kind.declaration.shown
        if name in self._named[section]:
            return
        members: Message = []
        self._named[section][name] = members
        for field, inner in kind.fields.items():
            spec = self.spec(_number(inner))[0][1] if kind.kind == "header" else self.spec(inner)
            what = "header" if kind.kind == "header_union" else "type_spec"
            members.append(("members", [("name", field), (what, spec[0][1] if what == "header" else spec)]))

    def _enum(self, kind: kinds.EnumType) -> None:
        if kind.base is None:
            self._named["enums"].setdefault(kind.name, [("members", [("name", m)]) for m in kind.members])
            return
        width = kind.base.width
        enum: Message = [("underlying_type", [("bitwidth", width)])]
        for name, member in kind.members.items():
            value = member.initial.value & ((1 << width) - 1)
            shown = value.to_bytes(max(1, -(-width // 8)), "big")
            enum.append(("members", [("name", name), ("value", shown)]))
        self._named["serializable_enums"].setdefault(kind.name, enum)

    def _new_type(self, kind: kinds.NewType) -> None:
        translation = translation_of(kind)
        if translation is None:
            new_type: Message = [("original_type", self.spec(plain(kind)))]
        else:
            uri, width = translation
            sdn: Any = ("sdn_string", []) if width is None else ("sdn_bitwidth", width)
            new_type = [("translated_type", [("uri", uri), sdn])]
        self._named["new_types"].setdefault(kind.name, new_type)

    def message(self) -> Message:
        """Returns ``type_info``."""
        type_info: Message = []
        for section in _ORDER:
            if section == "error":
                if self._errors is not None:
                    type_info.append(("error", [("members", name) for name in self._errors]))
                continue
            for name in sorted(self._named[section]):
                type_info.append((section, [("key", name), ("value", self._named[section][name])]))
        return type_info


def _number(kind: kinds.Type) -> kinds.Type:
    bare = plain(kind)
    return bare.base if isinstance(bare, kinds.EnumType) and bare.base is not None else bare


def translation_of(kind: kinds.Type) -> tuple[str, int | None] | None:
    """Returns the ``@p4runtime_translation`` of a type: a URI, and the width, or None for a string."""
    if not isinstance(kind, kinds.NewType):
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


def control_plane_width(kind: kinds.Type) -> int:
    """Returns the bits of a value for the control plane; 0 for strings and errors."""
    translation = translation_of(kind)
    if translation is not None:
        return translation[1] or 0
    if kind is kinds.ERROR:
        return 0
    return kinds.width_of(kind) or (32 if isinstance(plain(kind), kinds.EnumType) else 0)


_UNITS: Final = {"packets": "PACKETS", "bytes": "BYTES", "packets_and_bytes": "BOTH"}
_EXTERNS: Final = {
    "counter": COUNTER, "direct_counter": DIRECT_COUNTER, "meter": METER, "direct_meter": DIRECT_METER,
    "register": REGISTER,
}  # fmt: skip


class P4Info:
    """Builds the P4Info of a program."""

    def __init__(self, emitter: Emitter, declarations: list[Declaration]) -> None:
        self.emitter = emitter
        self.inventory = Inventory(emitter)
        self.declarations = declarations
        self.symbols = Symbols()
        self.types = TypeSpecs()
        self.types.errors = list(emitter.checker.env.errors)
        self._typed = False
        self._register_names()

    def text(self) -> str:
        """Returns the whole message as text."""
        inventory = self.inventory
        tables = [("tables", self._table(table)) for table in inventory.tables]
        actions = [("actions", self._action(action)) for action in inventory.actions]
        profiles = [("action_profiles", self._profile(i, tables)) for i, tables in inventory.profiles]
        externs = {kind: [i for i in inventory.externs if i.type.name == kind] for kind in _EXTERNS}
        parts: Message = [("pkg_info", self._package())]
        parts += tables + actions + profiles
        parts += [("counters", self._counter(i)) for i in externs["counter"]]
        parts += [("direct_counters", self._direct(i, DIRECT_COUNTER)) for i in externs["direct_counter"]]
        parts += [("meters", self._counter(i)) for i in externs["meter"]]
        parts += [("direct_meters", self._direct(i, DIRECT_METER)) for i in externs["direct_meter"]]
        parts += [("controller_packet_metadata", self._header(item)) for item in self._controller_headers()]
        parts += [("value_sets", self._value_set(v)) for v in inventory.value_sets]
        parts += [("registers", self._register(i)) for i in externs["register"]]
        parts += [("digests", self._digest(name, kind)) for name, kind in self.emitter.ctx.digests.items()]
        named = self.types.message()
        if tables or profiles or named or self._typed or self.emitter.ctx.extern_calls:
            parts.append(("type_info", named))
        return write(parts)

    # --- names

    def _register_names(self) -> None:
        inventory, add = self.inventory, self.symbols.add
        for action in inventory.actions:
            add(ACTION, action.name, id_of(action.declaration.annotations))
        for table in inventory.tables:
            add(TABLE, table.name, id_of(table.declaration.annotations))
        for value_set in inventory.value_sets:
            add(VALUE_SET, value_set.name, id_of(value_set.declaration.annotations))
        for profile, _ in inventory.profiles:
            add(ACTION_PROFILE, profile.name, id_of(profile.declaration.annotations))
        for instance in inventory.externs:
            add(_EXTERNS[instance.type.name], instance.name, id_of(instance.declaration.annotations))
        for item in self._controller_headers():
            add(CONTROLLER_HEADER, item.shown, id_of(item.annotations))
        for name in self.emitter.ctx.digests:
            add(DIGEST, name)

    def _preamble(
        self, kind: int, name: str, declaration: Declaration, without: tuple[str, ...] = ()
    ) -> tuple[str, Any]:
        notes = declaration.annotations
        preamble: Message = [("id", self.symbols.id(kind, name)), ("name", name), ("alias", self.symbols.alias(name))]
        preamble += plain_annotations(notes, without) + documentation(notes) + structured_annotations(notes)
        return "preamble", preamble

    def _package(self) -> Message:
        package: Message = []
        main = next((d for d in self.declarations if d.name == "main"), None)
        if main is not None:
            notes = main.annotations
            for note in notes:
                if note.name == "pkginfo":
                    package += _pairs(note.tokens)
            package += documentation(notes)
            package += plain_annotations(notes, ("pkginfo",))
        package.append(("arch", "v1model"))
        order = ("name", "version", "doc", "annotations", "arch", "organization", "contact", "url")
        return sorted(package, key=lambda item: order.index(item[0]) if item[0] in order else len(order))

    # --- tables and actions

    def _table(self, table: TableInstance) -> Message:
        declaration = table.declaration
        message: Message = [self._preamble(TABLE, table.name, declaration)]
        numbers = _numbers([key.annotations for key in declaration.keys])
        for key, number in zip(declaration.keys, numbers, strict=True):
            if key.match == "selector":
                continue
            kind = key.expression.type
            width = control_plane_width(kind) if kind is not None else 0
            field = [*_named(number, key_name(key), key.annotations), *_width(width)]
            field += [("match_type", EnumWord(key.match.upper())), *documentation(key.annotations)]
            field += self._type_name(kind) if kind is not None else []
            message.append(("match_fields", field + structured_annotations(key.annotations)))
        for name, ref in self.inventory.refs_of(table):
            item: Message = [("id", self.symbols.id(ACTION, name))]
            item += plain_annotations(ref.annotations)
            scopes = [word for word in ("TABLE_ONLY", "DEFAULT_ONLY") if ref.has(word.lower().replace("_", ""))]
            item += [("scope", EnumWord(word)) for word in scopes[:1]]
            item += structured_annotations(ref.annotations)
            message.append(("action_refs", item))
        if declaration.default is not None and declaration.default_constant:
            name = self.inventory.name_of(table, declaration.default)
            message.append(("const_default_action_id", self.symbols.id(ACTION, name)))
        for instance, tables in self.inventory.profiles:
            if table in tables:
                message.append(("implementation_id", self.symbols.id(ACTION_PROFILE, instance.name)))
        for instance in self.inventory.direct_of(table):
            message.append(("direct_resource_ids", self.symbols.id(_EXTERNS[instance.type.name], instance.name)))
        size = declaration.properties.get("size")
        value = self.emitter.ctx.evaluate(size.value) if size is not None else 0
        most = (table.json or {}).get("max_size", value)
        message.append(("size", most))
        if (table.json or {}).get("support_timeout"):
            message.append(("idle_timeout_behavior", EnumWord("NOTIFY_CONTROL")))
        if declaration.entries is not None:
            message.append(("is_const_table", EnumWord("true")))
        return message

    def _type_name(self, kind: kinds.Type) -> Message:
        """Returns the ``type_name`` of a new type, else nothing; collects named types."""
        self._typed = True
        self.types.spec(kind)
        return [("type_name", [("name", kind.name)])] if isinstance(kind, kinds.NewType) else []

    def _action(self, action: UsedAction) -> Message:
        message: Message = [self._preamble(ACTION, action.name, action.declaration)]
        numbers = _numbers([p.annotations for p in action.parameters])
        for parameter, number in zip(action.parameters, numbers, strict=True):
            kind = parameter.type
            item = _named(number, parameter.shown, parameter.annotations)
            plain_enum = isinstance(kind, kinds.EnumType) and kind.base is None
            item += [] if plain_enum else _width(control_plane_width(kind))
            item += documentation(parameter.annotations)
            name = self._type_name(kind)
            item += [("type_name", [("name", kind.name)])] if plain_enum else name
            item += structured_annotations(parameter.annotations)
            message.append(("params", item))
        return message

    # --- externs

    def _counter(self, instance: LoweredInstance) -> Message:
        self._typed = True
        kind = _EXTERNS[instance.type.name]
        unit = instance.arguments[1]
        message: Message = [self._preamble(kind, instance.name, instance.declaration)]
        message.append(("spec", [("unit", EnumWord(_UNITS[unit.name]))]))
        message += _size(instance.arguments[0])
        return message + self._index(instance, 0)

    def _index(self, instance: LoweredInstance, position: int) -> Message:
        arguments = instance.type.arguments
        kind = arguments[position] if position < len(arguments) else None
        if isinstance(kind, kinds.NewType):
            self.types.spec(kind)
            return [("index_type_name", [("name", kind.name)])]
        return []

    def _direct(self, instance: LoweredInstance, kind: int) -> Message:
        message: Message = [self._preamble(kind, instance.name, instance.declaration)]
        message.append(("spec", [("unit", EnumWord(_UNITS[instance.arguments[0].name]))]))
        message.append(("direct_table_id", self.symbols.id(TABLE, instance.extra["binding"])))
        return message

    def _register(self, instance: LoweredInstance) -> Message:
        self._typed = True
        message: Message = [self._preamble(REGISTER, instance.name, instance.declaration)]
        message.append(("type_spec", self.types.spec(instance.type.arguments[0])))
        message += _size(instance.arguments[0])
        return message + self._index(instance, 1)

    def _profile(self, instance: LoweredInstance, tables: list[TableInstance]) -> Message:
        selector = instance.type.name == "action_selector"
        notes = instance.declaration.annotations
        message: Message = [self._preamble(ACTION_PROFILE, instance.name, instance.declaration, ("max_group_size",))]
        message += [("table_ids", self.symbols.id(TABLE, name)) for name in sorted(t.name for t in tables)]
        if selector:
            message.append(("with_selector", EnumWord("true")))
        message += _size(instance.arguments[1 if selector else 0])
        most = next((n for n in notes if n.name == "max_group_size"), None)
        if selector and most is not None and most.tokens:
            message.append(("max_group_size", value_of(most.tokens[0])))
        return message

    def _value_set(self, item: Any) -> Message:
        message: Message = [self._preamble(VALUE_SET, item.name, item.declaration, ())]
        kind = item.declaration.type.element
        bare = plain(kind)
        if isinstance(bare, kinds.CompositeType):
            numbers = _numbers([f.annotations for f in bare.declaration.fields])
            for declared, number in zip(bare.declaration.fields, numbers, strict=True):
                match = declared.annotation("match")
                word = match.tokens[0][1].upper() if match is not None and match.tokens else "EXACT"
                inner = _named(number, declared.shown, declared.annotations, ("match",))
                inner += _width(control_plane_width(bare.fields[declared.name]))
                inner.append(("match_type", EnumWord(word)))
                message.append(("match", inner + documentation(declared.annotations)))
        elif isinstance(bare, kinds.EnumType) and bare.base is not None:
            for number, name in enumerate(bare.members, 1):
                match_of: Message = [("id", number), ("name", name), ("bitwidth", bare.base.width)]
                message.append(("match", [*match_of, ("match_type", EnumWord("EXACT"))]))
        else:
            message.append(
                ("match", [("id", 1), *_width(control_plane_width(kind)), ("match_type", EnumWord("EXACT"))])
            )
        return message + _size(item.json["max_size"])

    def _digest(self, name: str, kind: kinds.Type) -> Message:
        preamble: Message = [("id", self.symbols.id(DIGEST, name)), ("name", name), ("alias", self.symbols.alias(name))]
        return [("preamble", preamble), ("type_spec", self.types.spec(kind))]

    # --- controller headers

    def _controller_headers(self) -> list[Composite]:
        return [
            d
            for d in self.declarations
            if isinstance(d, Composite)
            and d.annotation("controller_header") is not None
            and d.annotation("hidden") is None
            and d.shown in {item["name"] for item in self.emitter.ctx.storage.header_types}
        ]

    def _header(self, item: Composite) -> Message:
        note = item.annotation("controller_header")
        name = note.string if note is not None and note.string else item.name
        preamble: Message = [("id", self.symbols.id(CONTROLLER_HEADER, item.shown))]
        preamble += [("name", name), ("alias", name)]
        preamble += plain_annotations(item.annotations) + documentation(item.annotations)
        preamble += structured_annotations(item.annotations)
        message: Message = [("preamble", preamble)]
        fields = flat_fields(item.type, "")
        numbers = _numbers([declared.annotations for _, declared, _ in fields])
        for (shown, declared, kind), number in zip(fields, numbers, strict=True):
            if declared.annotation("hidden") is not None:
                continue
            field = _named(number, shown, declared.annotations)
            message.append(("metadata", field + _width(control_plane_width(kind)) + self._type_name(kind)))
        return message


def flat_fields(kind: kinds.CompositeType, prefix: str) -> list[tuple[str, Any, kinds.Type]]:
    """Returns name, declaration and type of each field of a header, including fields of nested structs."""
    fields: list[tuple[str, Any, kinds.Type]] = []
    for declared in kind.declaration.fields:
        inner = kind.fields[declared.name]
        shown = prefix + declared.shown
        if isinstance(inner, kinds.CompositeType):
            fields += flat_fields(inner, f"{shown}.")
        else:
            fields.append((shown, declared, inner))
    return fields


def _named(number: int, name: str, notes: Iterable[Annotation], without: Sequence[str] = ()) -> Message:
    """Returns the first fields of the message about a field or a parameter."""
    return [("id", number), ("name", name), *plain_annotations(notes, without)]


def _width(bits: int) -> Message:
    return [("bitwidth", bits)] if bits else []


def _size(size: Any) -> Message:
    return [("size", size)] if isinstance(size, int) and size else []


def _numbers(notes: list[list[Any]]) -> list[int]:
    """Returns the number of each field: that of its ``@id``, else the next free number."""
    given = [id_of(note) for note in notes]
    taken = {number for number in given if number is not None}
    numbers, following = [], 1
    for number in given:
        if number is not None:
            numbers.append(number)
            following += 1
            continue
        while following in taken:
            following += 1
        taken.add(following)
        numbers.append(following)
    return numbers


def _pairs(tokens: list[Any]) -> Message:
    """Returns the ``name = "value"`` pairs of an annotation."""
    pairs: Message = []
    for at in range(len(tokens) - 2):
        if tokens[at + 1][1] == "=" and tokens[at + 2][0] == "string":
            pairs.append((tokens[at][1], tokens[at + 2][1][1:-1]))
    return pairs
