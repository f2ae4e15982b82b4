"""The P4Info of a compiled program: every object that the control plane may read or write."""

from typing import Any, Final

from p4reduce.frontend.info import ids
from p4reduce.frontend.info.annotations import documentation, id_of, plain_annotations, structured_annotations
from p4reduce.frontend.info.inventory import Inventory, UsedAction
from p4reduce.frontend.info.text import Message, Word, write
from p4reduce.frontend.info.typespecs import TypeSpecs, control_plane_width, shown_name
from p4reduce.frontend.lower.emit import Emitter
from p4reduce.frontend.lower.keys import key_name
from p4reduce.frontend.lower.objects import Instance, TableInstance
from p4reduce.frontend.lower.programs import local_name
from p4reduce.frontend.syntax.declarations import Composite, Declaration
from p4reduce.frontend.syntax.numbers import value_of
from p4reduce.frontend.types.kinds import CompositeType, EnumType, NewType, Type, plain

_UNITS: Final = {"packets": "PACKETS", "bytes": "BYTES", "packets_and_bytes": "BOTH"}
_EXTERNS: Final = {
    "counter": ids.COUNTER,
    "direct_counter": ids.DIRECT_COUNTER,
    "meter": ids.METER,
    "direct_meter": ids.DIRECT_METER,
    "register": ids.REGISTER,
}


class P4Info:
    """Builds P4Info."""

    def __init__(self, emitter: Emitter, declarations: list[Declaration]) -> None:
        self.emitter = emitter
        self.inventory = Inventory(emitter)
        self.declarations = declarations
        self.symbols = ids.Symbols()
        self.types = TypeSpecs()
        self.types.errors = list(emitter.checker.errors)
        self._typed = False
        self._register_names()

    def text(self) -> str:
        """The whole message as text."""
        inventory = self.inventory
        tables = [("tables", self._table(table)) for table in inventory.tables]
        actions = [("actions", self._action(action)) for action in inventory.actions]
        profiles = [("action_profiles", self._profile(i, tables)) for i, tables in inventory.profiles]
        externs = {kind: [i for i in inventory.externs if i.type.name == kind] for kind in _EXTERNS}
        parts: Message = [("pkg_info", self._package())]
        parts += tables + actions + profiles
        parts += [("counters", self._counter(i)) for i in externs["counter"]]
        parts += [("direct_counters", self._direct(i, ids.DIRECT_COUNTER)) for i in externs["direct_counter"]]
        parts += [("meters", self._counter(i)) for i in externs["meter"]]
        parts += [("direct_meters", self._direct(i, ids.DIRECT_METER)) for i in externs["direct_meter"]]
        parts += [("controller_packet_metadata", self._header(item)) for item in self._controller_headers()]
        parts += [("value_sets", self._value_set(v)) for v in inventory.value_sets]
        parts += [("registers", self._register(i)) for i in externs["register"]]
        parts += [("digests", self._digest(name, kind)) for name, kind in inventory.digests]
        named = self.types.message()
        if tables or profiles or named or self._typed or inventory.calls_externs:
            parts.append(("type_info", named))
        return write(parts)

    # --- names

    def _register_names(self) -> None:
        inventory, add = self.inventory, self.symbols.add
        for action in inventory.actions:
            add(ids.ACTION, action.name, id_of(action.declaration.annotations))
        for table in inventory.tables:
            add(ids.TABLE, table.name, id_of(table.declaration.annotations))
        for value_set in inventory.value_sets:
            add(ids.VALUE_SET, value_set.name, id_of(value_set.declaration.annotations))
        for profile, _ in inventory.profiles:
            add(ids.ACTION_PROFILE, profile.name, id_of(profile.declaration.annotations))
        for instance in inventory.externs:
            add(_EXTERNS[instance.type.name], instance.name, id_of(instance.declaration.annotations))
        for item in self._controller_headers():
            add(ids.CONTROLLER_HEADER, local_name(item), id_of(item.annotations))
        for name, _ in inventory.digests:
            add(ids.DIGEST, name)

    def _preamble(
        self, kind: int, name: str, declaration: Declaration, without: tuple[str, ...] = ()
    ) -> tuple[str, Any]:
        notes = declaration.annotations
        found: Message = [("id", self.symbols.id(kind, name)), ("name", name), ("alias", self.symbols.alias(name))]
        found += plain_annotations(notes, without) + documentation(notes) + structured_annotations(notes)
        return "preamble", found

    def _package(self) -> Message:
        found: Message = []
        main = next((d for d in self.declarations if d.name == "main"), None)
        if main is not None:
            notes = main.annotations
            for note in notes:
                if note.name == "pkginfo":
                    found += _pairs(note.tokens)
            found += documentation(notes)
            found += plain_annotations(notes, ("pkginfo",))
        found.append(("arch", "v1model"))
        order = ("name", "version", "doc", "annotations", "arch", "organization", "contact", "url")
        return sorted(found, key=lambda item: order.index(item[0]) if item[0] in order else len(order))

    # --- tables and actions

    def _table(self, table: TableInstance) -> Message:
        declaration = table.declaration
        found: Message = [self._preamble(ids.TABLE, table.name, declaration)]
        numbers = _numbers([key.annotations for key in declaration.keys])
        for key, number in zip(declaration.keys, numbers, strict=True):
            if key.match == "selector":
                continue
            kind = key.expression.type
            field: Message = [("id", number), ("name", key_name(key))]
            field += plain_annotations(key.annotations)
            field += _width(control_plane_width(kind) if kind is not None else 0)
            field.append(("match_type", Word(key.match.upper())))
            field += documentation(key.annotations)
            if kind is not None:
                field += self._type_name(kind)
            field += structured_annotations(key.annotations)
            found.append(("match_fields", field))
        for name, ref in self.inventory.refs_of(table):
            item: Message = [("id", self.symbols.id(ids.ACTION, name))]
            item += plain_annotations(ref.annotations)
            if ref.has("tableonly"):
                item.append(("scope", Word("TABLE_ONLY")))
            elif ref.has("defaultonly"):
                item.append(("scope", Word("DEFAULT_ONLY")))
            item += structured_annotations(ref.annotations)
            found.append(("action_refs", item))
        if declaration.default is not None and declaration.default_constant:
            name = self.inventory.name_of(table, declaration.default)
            found.append(("const_default_action_id", self.symbols.id(ids.ACTION, name)))
        for instance, tables in self.inventory.profiles:
            if table in tables:
                found.append(("implementation_id", self.symbols.id(ids.ACTION_PROFILE, instance.name)))
        for instance in self.inventory.direct_of(table):
            found.append(("direct_resource_ids", self.symbols.id(_EXTERNS[instance.type.name], instance.name)))
        size = declaration.properties.get("size")
        value = self.emitter.evaluate(size.value) if size is not None else 0
        most = (table.json or {}).get("max_size", value)
        found.append(("size", most))
        if (table.json or {}).get("support_timeout"):
            found.append(("idle_timeout_behavior", Word("NOTIFY_CONTROL")))
        if declaration.entries is not None:
            found.append(("is_const_table", Word("true")))
        return found

    def _type_name(self, kind: Type) -> Message:
        """``type_name``, and the type among those that have names."""
        self._typed = True
        self.types.spec(kind)
        return [("type_name", [("name", kind.name)])] if isinstance(kind, NewType) else []

    def _action(self, action: UsedAction) -> Message:
        found: Message = [self._preamble(ids.ACTION, action.name, action.declaration)]
        numbers = _numbers([p.annotations for p in action.parameters])
        for parameter, number in zip(action.parameters, numbers, strict=True):
            kind = parameter.type
            item: Message = [("id", number), ("name", local_name(parameter))]
            item += plain_annotations(parameter.annotations)
            plain_enum = isinstance(kind, EnumType) and kind.base is None
            item += [] if plain_enum else _width(control_plane_width(kind))
            item += documentation(parameter.annotations)
            name = self._type_name(kind)
            item += [("type_name", [("name", kind.name)])] if plain_enum else name
            item += structured_annotations(parameter.annotations)
            found.append(("params", item))
        return found

    # --- externs

    def _counter(self, instance: Instance) -> Message:
        self._typed = True
        kind = _EXTERNS[instance.type.name]
        unit = instance.arguments[1]
        found: Message = [self._preamble(kind, instance.name, instance.declaration)]
        found.append(("spec", [("unit", Word(_UNITS[unit.name]))]))
        found += _size(instance.arguments[0])
        return found + self._index(instance, 0)

    def _index(self, instance: Instance, position: int) -> Message:
        arguments = instance.type.arguments
        kind = arguments[position] if position < len(arguments) else None
        if isinstance(kind, NewType):
            self.types.spec(kind)
            return [("index_type_name", [("name", kind.name)])]
        return []

    def _direct(self, instance: Instance, kind: int) -> Message:
        found: Message = [self._preamble(kind, instance.name, instance.declaration)]
        found.append(("spec", [("unit", Word(_UNITS[instance.arguments[0].name]))]))
        found.append(("direct_table_id", self.symbols.id(ids.TABLE, instance.extra["binding"])))
        return found

    def _register(self, instance: Instance) -> Message:
        self._typed = True
        found: Message = [self._preamble(ids.REGISTER, instance.name, instance.declaration)]
        found.append(("type_spec", self.types.spec(instance.type.arguments[0])))
        found += _size(instance.arguments[0])
        return found + self._index(instance, 1)

    def _profile(self, instance: Instance, tables: list[TableInstance]) -> Message:
        selector = instance.type.name == "action_selector"
        notes = instance.declaration.annotations
        found: Message = [self._preamble(ids.ACTION_PROFILE, instance.name, instance.declaration, ("max_group_size",))]
        found += [("table_ids", self.symbols.id(ids.TABLE, name)) for name in sorted(t.name for t in tables)]
        if selector:
            found.append(("with_selector", Word("true")))
        found += _size(instance.arguments[1 if selector else 0])
        most = next((n for n in notes if n.name == "max_group_size"), None)
        if selector and most is not None and most.tokens:
            found.append(("max_group_size", value_of(most.tokens[0])))
        return found

    def _value_set(self, item: Any) -> Message:
        found: Message = [self._preamble(ids.VALUE_SET, item.name, item.declaration, ())]
        kind = item.declaration.type.element
        bare = plain(kind)
        if isinstance(bare, CompositeType):
            numbers = _numbers([f.annotations for f in bare.declaration.fields])
            for declared, number in zip(bare.declaration.fields, numbers, strict=True):
                match = declared.annotation("match")
                word = match.tokens[0][1].upper() if match is not None and match.tokens else "EXACT"
                inner: Message = [("id", number), ("name", local_name(declared))]
                inner += plain_annotations(declared.annotations, ("match",))
                inner += _width(control_plane_width(bare.fields[declared.name]))
                inner.append(("match_type", Word(word)))
                found.append(("match", inner + documentation(declared.annotations)))
        elif isinstance(bare, EnumType) and bare.base is not None:
            for number, name in enumerate(bare.members, 1):
                match_of: Message = [("id", number), ("name", name), ("bitwidth", bare.base.width)]
                found.append(("match", [*match_of, ("match_type", Word("EXACT"))]))
        else:
            found.append(("match", [("id", 1), *_width(control_plane_width(kind)), ("match_type", Word("EXACT"))]))
        return found + _size(item.json["max_size"])

    def _digest(self, name: str, kind: Type) -> Message:
        preamble: Message = [("id", self.symbols.id(ids.DIGEST, name)), ("name", name)]
        preamble.append(("alias", self.symbols.alias(name)))
        return [("preamble", preamble), ("type_spec", self.types.spec(kind))]

    # --- headers of packets for the controller

    def _controller_headers(self) -> list[Composite]:
        return [
            d
            for d in self.declarations
            if isinstance(d, Composite)
            and d.annotation("controller_header") is not None
            and d.annotation("hidden") is None
            and shown_name(d.type) in self.inventory.header_types
        ]

    def _header(self, item: Composite) -> Message:
        note = item.annotation("controller_header")
        name = note.string if note is not None and note.string else item.name
        preamble: Message = [("id", self.symbols.id(ids.CONTROLLER_HEADER, local_name(item)))]
        preamble += [("name", name), ("alias", name)]
        preamble += plain_annotations(item.annotations) + documentation(item.annotations)
        preamble += structured_annotations(item.annotations)
        found: Message = [("preamble", preamble)]
        fields = flat_fields(item.type, "")
        numbers = _numbers([declared.annotations for _, declared, _ in fields])
        for (shown, declared, kind), number in zip(fields, numbers, strict=True):
            if declared.annotation("hidden") is not None:
                continue
            field: Message = [("id", number), ("name", shown)]
            field += plain_annotations(declared.annotations)
            field += _width(control_plane_width(kind)) + self._type_name(kind)
            found.append(("metadata", field))
        return found


def flat_fields(kind: CompositeType, prefix: str) -> list[tuple[str, Any, Type]]:
    """Fields of a header with those of structs within it: name, declaration, type."""
    found: list[tuple[str, Any, Type]] = []
    for declared in kind.declaration.fields:
        inner = kind.fields[declared.name]
        shown = prefix + local_name(declared)
        if isinstance(inner, CompositeType):
            found += flat_fields(inner, f"{shown}.")
        else:
            found.append((shown, declared, inner))
    return found


def _width(bits: int) -> Message:
    return [("bitwidth", bits)] if bits else []


def _size(size: Any) -> Message:
    return [("size", size)] if isinstance(size, int) and size else []


def _numbers(notes: list[list[Any]]) -> list[int]:
    """Numbers of fields: those of their ``@id``, for the others the first free ones in order."""
    given = [id_of(note) for note in notes]
    taken = {number for number in given if number is not None}
    found, following = [], 1
    for number in given:
        if number is not None:
            found.append(number)
            following += 1
            continue
        while following in taken:
            following += 1
        taken.add(following)
        found.append(following)
    return found


def _pairs(tokens: list[Any]) -> Message:
    """``name = "value"`` pairs of an annotation."""
    found: Message = []
    for at in range(len(tokens) - 2):
        if tokens[at + 1][1] == "=" and tokens[at + 2][0] == "string":
            found.append((tokens[at][1], tokens[at + 2][1][1:-1]))
    return found
