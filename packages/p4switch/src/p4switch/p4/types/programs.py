"""Checks of declarations, parsers and controls (P4_16 specification, sections 7.2, 10, 13 to 17)."""

from typing import Any, Final

from p4switch.p4.syntax.tree import (
    Action,
    ActionRef,
    Alias,
    Binary,
    Block,
    Call,
    Composite,
    Constant,
    Declaration,
    Default,
    Entry,
    Enumeration,
    Exit,
    Expression,
    Extern,
    Function,
    If,
    Instance,
    KeyElement,
    ListOf,
    Member,
    Name,
    Package,
    Parameter,
    Program,
    Return,
    State,
    Switch,
    Table,
    Transition,
    ValueSet,
    Variable,
)
from p4switch.p4.types.base import near, what_is
from p4switch.p4.types.kinds import (
    BOOL,
    ERROR,
    INTEGER,
    MATCH_KIND,
    STRING,
    UNKNOWN,
    VOID,
    Bits,
    CompositeType,
    DeclaredType,
    EnumType,
    NewType,
    SetType,
    StackType,
    TupleType,
    Type,
    TypeVariable,
    Varbits,
    bits,
    is_header,
    plain,
    width_of,
)
from p4switch.p4.types.statements import StatementChecker

# Whether a parser comes to an end, and a statement without a ``return``.


def comes_to_an_end(states: dict[str, State]) -> bool:
    """Whether some way from ``start`` comes to an end."""
    seen: set[str] = set()
    stack = ["start"]
    while stack:
        name = stack.pop()
        state = states.get(name)
        if state is None or state.transition is None:
            return True
        if name not in seen:
            seen.add(name)
            stack += [case.state for case in state.transition.cases]
            stack += [state.transition.target] if state.transition.target is not None else []
    return False


def always_returns(node: Any) -> bool:
    """Whether a statement never ends without ``return`` or ``exit``."""
    match node:
        case Return() | Exit():
            return True
        case Block():
            return any(always_returns(item) for item in node.items)
        case If():
            return node.no is not None and always_returns(node.yes) and always_returns(node.no)
        case Switch():
            bodies = [case.body for case in node.cases if case.body is not None]
            has_default = any(isinstance(case.label, Default) for case in node.cases)
            return has_default and bool(bodies) and all(always_returns(body) for body in bodies)
    return False


# Checks of actions, tables and their entries (P4_16 specification, sections 14.1 and 14.2).


PROPERTIES: Final = (
    "size", "implementation", "counters", "meters", "support_timeout", "largest_priority_wins", "priority_delta"
)  # fmt: skip
MOST_PRIORITY: Final = (1 << 31) - 1
_MATCHES: Final = ("exact", "lpm", "ternary", "range", "optional", "selector")


class TableChecker(StatementChecker):
    """Checks actions and tables."""

    def check_action(self, action: Action) -> None:
        """An action; the parameters with a direction come first."""
        outer, self.context = self.context, "action"
        with self.inner_scope():
            free = ""
            for parameter in action.parameters:
                parameter.type = self.resolve(parameter.ref)
                if self.describes_instance(parameter.type):
                    self.error(parameter.at, f"{parameter.type} cannot be the parameter of an action")
                if parameter.default is not None:
                    parameter.default = self.checked(parameter.default, parameter.type, f"{parameter.name} is")
                if parameter.direction and parameter.type is INTEGER:
                    hint = "Write bit<32> or int<32>."
                    self.error(parameter.at, f"the parameter {parameter.name!r} has no width", hint)
                if not parameter.direction:
                    free = parameter.name
                elif free:
                    hint = "Parameters of the control plane, which have no direction, come last."
                    self.error(
                        parameter.at, f"{parameter.name!r} has a direction, but {free!r} before it has none", hint
                    )
                self.declare(parameter)
            with self.inner_scope():
                for item in action.body.items:
                    self.check_item(item)
        self.context = outer

    def check_table(self, table: Table) -> None:
        """A table with its keys, actions and entries."""
        table.type = self.types.declared("table", table)
        for key in table.keys:
            self._key(key, table)
        lpm = [key for key in table.keys if key.match == "lpm"]
        if len(lpm) > 1:
            hint = "Make all but one 'ternary' or 'exact'."
            self.error(lpm[1].at, f"the table {table.name!r} has {len(lpm)} lpm keys; it may have one", hint)
        if not table.actions:
            hint = "Write actions = { NoAction; }."
            self.diagnostics.warning(table.at, f"the table {table.name!r} has no actions", hint)
        seen: dict[str, ActionRef] = {}
        for ref in table.actions:
            self._action_ref(ref, table, None)
            if ref.name in seen:
                self.error(ref.at, f"the action {ref.name!r} is listed twice")
            seen[ref.name] = ref
        if table.default is not None:
            self._action_ref(table.default, table, seen)
            listed = seen.get(table.default.name)
            if listed is not None and listed.has("tableonly"):
                self.error(table.default.at, f"{listed.name!r} is @tableonly, so it cannot be the default action")
        self._properties(table)
        for entry in table.entries or ():
            self._entry(entry, table, seen)
        self._count_entries(table)
        self._rank_entries(table)
        self.declare(table)

    def _count_entries(self, table: Table) -> None:
        size = table.properties.get("size")
        if table.entries and not table.keys:
            self.error(table.entries[0].at, f"the table {table.name!r} has entries, but no keys")
        most = size.value.value if size is not None else None
        if table.entries and size is not None and isinstance(most, int) and len(table.entries) > most:
            message = f"the table {table.name!r} has {len(table.entries)} entries, but a size of {most}"
            self.diagnostics.warning(size.at, message)

    def _key(self, key: KeyElement, table: Table) -> None:
        outer, self.context = self.context, "apply"
        kind = self.check(key.expression)
        self.context = outer
        match = self.match_kinds.get(key.match)
        if match is None or key.match not in _MATCHES:
            self.error(key.at, f"there is no kind of match {key.match!r}", near(key.match, _MATCHES))
        if kind is UNKNOWN:
            return
        bare = plain(kind)
        if kind is INTEGER:
            self.error(key.at, "a number of no width is no key")
        elif not isinstance(bare, Bits | EnumType) and bare not in (BOOL, ERROR):
            hint = "Use its fields." if is_header(bare) else ""
            self.error(key.at, f"{kind} is no key: a key is a number, bool, enum or error", hint)
        elif key.match in ("lpm", "range") and bare in (BOOL, ERROR):
            self.error(key.at, f"{kind} cannot be matched by {key.match!r}", "Use 'exact' or 'ternary'.")

    def _action_ref(self, ref: ActionRef, table: Table, listed: dict[str, ActionRef] | None) -> None:
        """An action of the list (``listed`` is None), or the default action or that of an entry."""
        target = (self.globals if ref.rooted else self.scope).find(ref.name)
        if not isinstance(target, Action):
            if target is None:
                hint = self.scope.near(ref.name) or "Declare the action above the table."
                self.error(ref.at, f"there is no action {ref.name!r}", hint)
            else:
                self.error(ref.at, f"{ref.name!r} is {what_is(target)}, not an action")
            return
        ref.target = target
        for argument in ref.arguments:
            if argument.value is not None:
                self.check(argument.value)
        bound_before = sum(bool(p.direction) for p in target.parameters)
        what = f"the action {ref.name!r}"
        if listed is None:
            wanted = target.parameters[:bound_before]
            if len(ref.arguments) > bound_before:
                hint = "The others come from the control plane, with each entry."
                self.error(ref.at, f"{what} takes {bound_before} arguments here: those with a direction", hint)
                return
            free: list[Expression | None] = [None] * (len(target.parameters) - bound_before)
            ref.bound = self.bind(ref.at, what, wanted, ref.arguments, {}) + free
            return
        if ref.name not in listed:
            message = f"{what} is not in the list of actions of the table {table.name!r}"
            self.error(ref.at, message, f"Add '{ref.name};' to its actions.")
            return
        others = target.parameters[bound_before:]
        arguments = ref.arguments
        if bound_before and len(arguments) == len(target.parameters):
            arguments = arguments[bound_before:]  # those with a direction are repeated
        values = self.bind(ref.at, what, others, arguments, {})
        for value in values:
            if value is not None and value.value is None and value.type is not UNKNOWN:
                self.not_constant(value, what)
        before: list[Expression | None] = [None] * bound_before
        ref.bound = before + values

    def _properties(self, table: Table) -> None:
        for name, item in table.properties.items():
            kind = self.check(item.value)
            if name == "size":
                if self.constant(item.value, "the size of a table") is not None and item.value.value < 0:
                    self.error(item.at, "the size of a table is negative")
            elif name in ("support_timeout", "largest_priority_wins"):
                if kind is not UNKNOWN and kind is not BOOL:
                    self.error(item.at, f"{name!r} is a bool, not {kind}")
            elif name == "priority_delta":
                delta = self.constant(item.value, "the distance of priorities")
                if delta is not None and delta < 1:
                    self.error(item.at, f"'priority_delta' is at least 1, not {delta}")
            elif name in ("implementation", "counters", "meters"):
                self._object(table, name, item.value, kind)
            elif name not in PROPERTIES:
                if name == "default" or near(
                    name, (*PROPERTIES, "key", "actions", "default_action", "entries")
                ).startswith("Did"):
                    hint = near(name, (*PROPERTIES, "key", "actions", "default_action", "entries"))
                    self.diagnostics.warning(item.at, f"a table has no property {name!r}; it is left out", hint)
                else:
                    self.diagnostics.warning(item.at, f"the property {name!r} of a table means nothing here")

    def _object(self, table: Table, name: str, value: Expression, kind: Type) -> None:
        wanted = {
            "implementation": ("action_profile", "action_selector"),
            "counters": ("direct_counter", "counter"),
            "meters": ("direct_meter", "meter"),
        }[name]
        if kind is UNKNOWN:
            return
        if not isinstance(kind, DeclaredType) or kind.name not in wanted:
            hint = f"Write {name} = {wanted[0]}(…), or the name of one."
            self.error(value.at, f"{name!r} of the table {table.name!r} is {wanted[0]}, not {kind}", hint)
        elif kind.name in ("counter", "meter"):
            hint = f"Declare {wanted[0]}(…), without a size: it has one cell for each entry."
            self.error(value.at, f"{name!r} of a table is a {wanted[0]}", hint)
        elif isinstance(value, Call | Name | Member):
            return

    # --- entries

    def _entry(self, entry: Entry, table: Table, seen: dict[str, ActionRef]) -> None:
        keys = entry.keyset.items if isinstance(entry.keyset, ListOf) else [entry.keyset]
        if len(keys) == 1 and isinstance(keys[0], Default) and len(table.keys) != 1:
            keys = keys * len(table.keys)
        if len(keys) != len(table.keys):
            self.error(entry.at, f"this entry has {len(keys)} keys; the table {table.name!r} has {len(table.keys)}")
        else:
            for position, (value, key) in enumerate(zip(keys, table.keys, strict=True)):
                keys[position] = self._entry_key(value, key)
            entry.keyset = ListOf(entry.keyset.at, entry.keyset.end, keys)
        if entry.priority is not None:
            entry.priority = self.checked(entry.priority, INTEGER, "a priority is")
        self._action_ref(entry.action, table, seen)
        listed = seen.get(entry.action.name)
        if listed is not None and listed.has("defaultonly"):
            self.error(entry.action.at, f"{listed.name!r} is @defaultonly, so no entry can have it")

    def _rank_entries(self, table: Table) -> None:
        """Which entry is tried before which (specification, section 14.2.1.4)."""
        entries = table.entries or []
        for rank, entry in enumerate(entries, 1):
            entry.rank = rank
        first = next((entry for entry in entries if entry.priority is not None), None)
        if first is None:
            return
        if table.entries_constant:
            hint = "Their order decides: leave out 'priority', or 'const'."
            self.error(first.at, "'const entries' have no priorities", hint)
        elif all(key.match in ("exact", "lpm") for key in table.keys):
            hint = "Leave them out: at most one entry matches, or that of the longest prefix is taken."
            self.error(first.at, f"the keys of the table {table.name!r} need no priorities", hint)
        elif first is not entries[0]:
            hint = "Write priority=…: in front of its keys; those behind it then count on from it."
            self.error(entries[0].at, "the first entry has no priority, though a later one has", hint)
        else:
            self._rank_by_priority(table, entries)

    def _rank_by_priority(self, table: Table, entries: list[Entry]) -> None:
        largest, delta = (table.properties.get(name) for name in ("largest_priority_wins", "priority_delta"))
        down = largest is None or largest.value.value is not False
        step = delta.value.value if delta is not None and isinstance(delta.value.value, int) else 1
        priorities: list[int] = []
        for entry in entries:
            if entry.priority is None:
                priority = priorities[-1] - step if down else priorities[-1] + step
            else:
                found = self.constant(entry.priority, "a priority")
                if found is None:
                    return
                priority = found
            if not 0 <= priority <= MOST_PRIORITY:
                message = f"this entry has the priority {priority}; there are 0 to {MOST_PRIORITY}"
                hint = "It counts on from the entry before it: begin with a larger one." if priority < 0 else ""
                self.error(entry.at, message, hint)
                return
            if priority in priorities:
                before = f"entry {priorities.index(priority) + 1}"
                self.diagnostics.warning(entry.at, f"this entry has the priority {priority}, which {before} has, too")
            priorities.append(priority)
        order = sorted(range(len(entries)), key=lambda i: -priorities[i] if down else priorities[i])
        if order != list(range(len(entries))):
            message = f"the entries of the table {table.name!r} do not stand in the order of their priorities"
            self.diagnostics.warning(entries[0].at, message)
        for rank, position in enumerate(order, 1):
            entries[position].rank = rank

    def _entry_key(self, value: Expression, key: KeyElement) -> Expression:
        kind = key.expression.type or UNKNOWN
        checked = self.check_keyset(value, kind)
        if isinstance(checked, Default) or kind is UNKNOWN:
            if key.match == "exact" and isinstance(checked, Default):
                self.error(value.at, "an exact key has one value; '_' stands for any", "Use 'ternary' for this key.")
            return checked
        what = checked.operator if isinstance(checked, Binary) else ""
        if what == ".." and key.match != "range":
            self.error(value.at, f"a range is no value of a key that is {key.match!r}")
        elif what == "&&&" and key.match in ("exact", "range", "optional"):
            self.error(value.at, f"a mask is no value of a key that is {key.match!r}", "Use 'ternary' for this key.")
        elif what == "&&&" and key.match == "lpm" and isinstance(checked, Binary):
            mask = checked.right.value
            width = getattr(plain(kind), "width", 0)
            if isinstance(mask, int) and (~mask & ((1 << width) - 1)) & ((~mask & ((1 << width) - 1)) + 1):
                self.error(value.at, "the mask of an lpm key is ones and then zeros", "Use 'ternary' for this key.")
        return checked

    def check_keyset(self, value: Expression, kind: Type) -> Expression:
        """One key of an entry or a select: a value, a mask, a range or anything."""
        if isinstance(value, Default):
            value.type = kind
            return value
        if isinstance(value, Binary) and value.operator in ("&&&", ".."):
            value.left = self.checked(value.left, self._masked(kind, value), "this key is")
            value.right = self.checked(value.right, self._masked(kind, value), "this key is")
            value.type = self.types.set(kind)
            for side in (value.left, value.right):
                self._known(side)
            low, high = value.left.value, value.right.value
            if value.operator == ".." and isinstance(low, int) and isinstance(high, int) and low > high:
                self.error(value.at, f"the range {low} .. {high} is empty", "The lower end comes first.")
            return value
        self.check(value)
        if isinstance(value.type, SetType):
            element = value.type.element
            if isinstance(element, CompositeType) and len(element.fields) == 1:
                element = next(iter(element.fields.values()))
            if element is not kind and kind is not UNKNOWN:
                self.error(value.at, f"this key is {kind}, but these are sets of {value.type.element}")
            return value
        value = self.coerce(value, kind, "this key is")
        self._known(value)
        return value

    def _masked(self, kind: Type, value: Binary) -> Type:
        bare = plain(kind)
        if isinstance(bare, EnumType) and bare.base and value.operator == "&&&":
            return bare.base
        return kind

    def _known(self, value: Any) -> None:
        if value.value is None and value.type is not UNKNOWN:
            self.not_constant(value, "a key")


# Checks of transitions: what a parser's ``select`` goes by (P4_16 specification, section 13.6).


class SelectChecker(TableChecker):
    """Checks transitions."""

    def check_transition(self, item: Transition, names: dict[str, State]) -> None:
        """``transition s;``, ``transition select(…) { … }``; ``names``: the parser's states."""
        if item.target is not None:
            self._state_name(item.target, item.at, names)
            return
        kinds = [self._select_key(key) for key in item.keys]
        for case in item.cases:
            self._state_name(case.state, case.at, names)
            keyset = case.keyset
            keys = keyset.items if isinstance(keyset, ListOf) else [keyset]
            single = len(keys) == 1 and len(kinds) != 1
            if single and self._any_key(keys[0], kinds):
                continue
            if len(keys) != len(kinds):
                self.error(case.at, f"this case has {len(keys)} keys, but 'select' has {len(kinds)}")
                continue
            checked = [self.check_keyset(key, kind) for key, kind in zip(keys, kinds, strict=True)]
            case.keyset = ListOf(keyset.at, keyset.end, checked)

    def _any_key(self, key: Any, kinds: list[Type]) -> bool:
        """``default`` or a value set, which stand for all keys at once."""
        if isinstance(key, Default):
            return True
        self.check(key)
        if not isinstance(key.type, SetType) or not isinstance(key.type.element, TupleType | CompositeType):
            return False
        element = key.type.element
        parts = element.elements if isinstance(element, TupleType) else tuple(element.fields.values())
        widths, wanted = [width_of(part) for part in parts], [width_of(kind) for kind in kinds]
        if widths != wanted and UNKNOWN not in kinds:
            message = f"this value set has keys of {_listed(widths)} bits, but 'select' has keys of {_listed(wanted)}"
            self.error(key.at, message, "Give its type the same fields in the same order.")
        return True

    def _select_key(self, key: Any) -> Type:
        kind = self.check(key)
        bare = plain(kind)
        if kind is INTEGER:
            self.give(key, bits(32))
            self.error(key.at, "a number of no width is no key of 'select'")
            return UNKNOWN
        if kind is not UNKNOWN and not isinstance(bare, Bits | EnumType) and bare is not BOOL and bare is not ERROR:
            hint = "Use its fields." if isinstance(bare, CompositeType | StackType) else ""
            self.error(key.at, f"'select' cannot go by {kind}", hint)
            return UNKNOWN
        return kind

    def _state_name(self, name: str, at: int, names: dict[str, State]) -> None:
        if name not in names and name not in ("accept", "reject"):
            self.error(at, f"there is no state {name!r}", near(name, [*names, "accept", "reject"]))


def _listed(widths: list[int | None]) -> str:
    return ", ".join(str(width) for width in widths)


class Checker(SelectChecker):
    """Checks whole programs."""

    def check_program(self, declarations: list[Declaration]) -> None:
        """All declarations, in their order."""
        for declaration in declarations:
            self.check_declaration(declaration)

    def check_declaration(self, item: Declaration) -> None:
        """One declaration at the top level."""
        match item:
            case Enumeration(kind="error"):
                self._members(item, self.errors, ERROR)
            case Enumeration(kind="match_kind"):
                self._members(item, self.match_kinds, MATCH_KIND)
            case Enumeration():
                self._enum(item)
                self.declare(item)
            case Composite():
                self._composite(item)
                self.declare(item)
            case Alias():
                self._alias(item)
                self.declare(item)
            case Constant():
                self.check_constant(item)
                self.declare(item)
            case Extern():
                self._extern(item)
            case Function():
                self._function(item)
            case Action():
                self.check_action(item)
                self.declare(item)
            case Program():
                self._program(item)
            case Package():
                self._package(item)
                self.declare(item)
            case Instance():
                self.check_instance(item)
                if isinstance(item.type, DeclaredType) and item.type.kind in ("parser", "control"):
                    hint = (
                        f"Write it in the control or parser that applies it, or give it to the package: {item.type}()."
                    )
                    self.error(item.at, f"a {item.type.kind} cannot be instantiated at the top level", hint)

    # --- types

    def _members(self, item: Enumeration, known: dict[str, Any], kind: Type) -> None:
        item.type = kind
        for member in item.members:
            if member.name in known:
                self.error(member.at, f"{item.kind}.{member.name} is declared twice")
                continue
            member.number = len(known)
            known[member.name] = member

    def _enum(self, item: Enumeration) -> None:
        base = self.resolve(item.ref) if item.ref is not None else None
        bare = plain(base) if base is not None else None
        if base is not None and not isinstance(bare, Bits):
            if base is not UNKNOWN:
                self.error(item.at, f"the enum {item.name!r} is represented by a number with a width, not by {base}")
            bare = None
        members: dict[str, Any] = {}
        for number, member in enumerate(item.members):
            member.number = number
            if member.name in members:
                self.error(member.at, f"{item.name}.{member.name} is declared twice")
            members[member.name] = member
            if isinstance(bare, Bits):
                if member.initial is None:
                    self.error(member.at, f"{item.name}.{member.name} needs a value", f"Write {member.name} = 0.")
                else:
                    member.initial = self.checked(member.initial, bare, f"{item.name}.{member.name} is")
            elif member.initial is not None:
                hint = f"Write enum bit<8> {item.name} {{ … }}."
                self.error(member.at, f"the enum {item.name!r} has values, but no width", hint)
        if not item.members:
            self.error(item.at, f"the enum {item.name!r} has no members")
        item.type = EnumType(item.name, item, bare if isinstance(bare, Bits) else None, members)

    def _composite(self, item: Composite) -> None:
        variables = tuple(TypeVariable(name) for name in item.parameters)
        fields: dict[str, Type] = {}
        with self.inner_scope() as scope:
            for variable in variables:
                scope.names[variable.name] = variable
            for field in item.fields:
                kind = self.resolve(field.ref)
                if field.name in fields:
                    self.error(field.at, f"the {item.kind} {item.name!r} has two fields {field.name!r}")
                    continue
                fields[field.name] = kind
                self._field_kind(item, field, kind)
        item.type = self.types.composite(item, variables, fields)
        if item.kind == "header":
            self._whole_bytes(item, fields)

    def _field_kind(self, item: Composite, field: Any, kind: Type) -> None:
        bare = plain(kind)
        if kind is UNKNOWN or isinstance(kind, TypeVariable):
            return
        name = f"the field {field.name!r} of the {item.kind.replace('_', ' ')} {item.name!r}"
        if item.kind == "header_union":
            if not is_header(bare):
                self.error(field.at, f"{name} is {kind}; a header union is made of headers")
            return
        if isinstance(bare, Bits | Varbits) and bare.width == 0:
            self.error(field.at, f"{name} has no bits: the target has no field of width 0", "Leave it out.")
        if self.describes_instance(kind) or kind in (VOID, STRING, MATCH_KIND, INTEGER):
            self.error(field.at, f"{name} cannot be {kind}", "Give it a width: bit<8>." if kind is INTEGER else "")
        elif item.kind == "header":
            inner = isinstance(bare, CompositeType) and bare.kind == "struct"
            number = isinstance(bare, Bits | Varbits) or (isinstance(bare, EnumType) and bare.base is not None)
            if not number and bare is not BOOL and not inner:
                hint = "A header holds numbers, bools and structs of them."
                hint = "Give the enum a width: enum bit<8> …" if isinstance(bare, EnumType) else hint
                self.error(field.at, f"{name} cannot be {kind}", hint)

    def _whole_bytes(self, item: Composite, fields: dict[str, Type]) -> None:
        from p4switch.p4.types.kinds import width_of  # noqa: PLC0415

        varying = [name for name, kind in fields.items() if isinstance(plain(kind), Varbits)]
        if len(varying) > 1:
            self.error(
                item.at, f"the header {item.name!r} has {len(varying)} fields of variable length; it may have one"
            )
        widths = [width_of(kind) for kind in fields.values()]
        if any(w is None for w in widths):
            return
        total = sum(w for w in widths if w is not None)
        if total % 8:
            hint = f"Add a field of {8 - total % 8} bits, or make one of them wider."
            self.diagnostics.warning(
                item.at, f"the header {item.name!r} has {total} bits, which are no whole bytes", hint
            )

    def _alias(self, item: Alias) -> None:
        if isinstance(item.ref, Composite | Enumeration):
            self.check_declaration(item.ref)
            kind: Type = item.ref.type
        else:
            kind = self.resolve(item.ref)
        note = item.annotation("p4runtime_translation")
        told = note.tokens[2] if note is not None and len(note.tokens) > 2 else ("", "", 0)
        if note is not None and told[1] not in ("string", "bit") and told[0] != "number":
            hint = 'Write @p4runtime_translation("URI", string), or bit<32>, or a number of bits.'
            self.error(note.at, "@p4runtime_translation takes a URI and what the control plane sends", hint)
        if item.new and kind is not UNKNOWN:
            bare = plain(kind)
            if not isinstance(bare, Bits) and bare is not BOOL:
                self.error(item.at, f"'type' gives a new name to a number or bool, not to {kind}", "Use 'typedef'.")
            item.type = NewType(item.name, item, kind)
        else:
            item.type = kind

    # --- functions and externs

    def _extern(self, item: Extern) -> None:
        item.type_variables = [TypeVariable(name) for name in item.types]
        item.type = self.types.declared("extern", item, tuple(item.type_variables))
        self.declare(item)
        with self.inner_scope() as scope:
            for variable in item.type_variables:
                scope.names[variable.name] = variable
            for method in item.methods:
                self._signature_of(method)
                if method.result is None and method.name != item.name:
                    self.error(method.at, f"the constructor of {item.name!r} has its name")

    def _signature_of(self, item: Function) -> None:
        item.type_variables = [TypeVariable(name) for name in item.types]
        with self.inner_scope() as scope:
            for variable in item.type_variables:
                scope.names[variable.name] = variable
            item.result_type = self.resolve(item.result) if item.result is not None else VOID
            self.parameters(item.parameters)

    def parameters(self, parameters: list[Parameter]) -> None:
        """Types of parameters; two have different names."""
        seen: set[str] = set()
        for parameter in parameters:
            parameter.type = self.resolve(parameter.ref)
            if parameter.name in seen:
                self.error(parameter.at, f"two parameters are called {parameter.name!r}")
            seen.add(parameter.name)
            if parameter.default is not None:
                parameter.default = self.checked(parameter.default, parameter.type, f"{parameter.name} is")
            if parameter.direction and parameter.type is INTEGER:
                self.error(parameter.at, f"the parameter {parameter.name!r} has no width", "Write bit<32> or int<32>.")
            if parameter.direction and self.describes_instance(parameter.type):
                hint = "Leave the direction out."
                self.error(parameter.at, f"{parameter.type} is an object: the parameter has no direction", hint)

    def _function(self, item: Function) -> None:
        self._signature_of(item)
        before = self.scope.names.get(item.name)
        if isinstance(before, list) and any(len(f.parameters) == len(item.parameters) for f in before):
            self.error(item.at, f"the function {item.name!r} is declared twice with {len(item.parameters)} parameters")
        if item.body is not None:
            outer, self.context, self.result = self.context, "function", item.result_type
            with self.inner_scope() as scope:
                for variable in item.type_variables:
                    scope.names[variable.name] = variable
                for parameter in item.parameters:
                    self.declare(parameter)
                self.check_block(item.body)
            self.context, self.result = outer, None
            if item.result_type not in (VOID, UNKNOWN) and not always_returns(item.body):
                hint = "Add 'return value;' at its end."
                self.error(item.at, f"the function {item.name!r} may end without returning {item.result_type}", hint)
        self.declare(item)

    def _package(self, item: Package) -> None:
        item.type_variables = [TypeVariable(name) for name in item.types]
        with self.inner_scope() as scope:
            for variable in item.type_variables:
                scope.names[variable.name] = variable
            self.parameters(item.parameters)
        item.type = self.types.declared("package", item, tuple(item.type_variables))

    # --- parsers and controls

    def _program(self, item: Program) -> None:
        item.type_variables = [TypeVariable(name) for name in item.types]
        item.type = self.types.declared(item.kind, item, tuple(item.type_variables))
        if item.types and item.body is not None:
            self.error(item.at, f"the {item.kind} {item.name!r} cannot be generic", "Only the type of one can.")
        outer_program, self.program = self.program, item
        with self.inner_scope() as scope:
            for variable in item.type_variables:
                scope.names[variable.name] = variable
            self.parameters([*item.parameters, *item.constructor])
            if item.body is not None:
                for parameter in [*item.parameters, *item.constructor]:
                    self.declare(parameter)
                with self.inner_scope():
                    self._locals(item)
        self.program = outer_program
        self.declare(item)

    def _locals(self, item: Program) -> None:
        for declaration in item.locals:
            match declaration:
                case Action():
                    self.check_action(declaration)
                    self.declare(declaration)
                case Table():
                    self.check_table(declaration)
                case ValueSet():
                    self._value_set(declaration)
                    self.declare(declaration)
                case Variable() | Constant() | Instance():
                    self.check_local(declaration)
        if item.kind == "parser":
            self._states(item)
            return
        if item.body is not None and item.body.at == 0:
            self.error(item.at, f"the control {item.name!r} has no apply block", "Add 'apply { … }' at its end.")
        elif item.body is not None:
            self.context = "apply"
            self.check_block(item.body)
            self.context = ""

    def _value_set(self, item: ValueSet) -> None:
        element = self.resolve(item.ref)
        item.type = self.types.set(element)
        if self.constant(item.size, "the size of a value set") is not None and item.size.value < 1:
            self.error(item.size.at, "a value set has a size of at least 1")

    def _states(self, item: Program) -> None:
        names: dict[str, State] = {}
        for state in item.states:
            if state.name in ("accept", "reject"):
                self.error(state.at, f"the state {state.name!r} is there already, and cannot be declared")
            if state.name in names:
                self.error(state.at, f"there are two states {state.name!r}")
            names[state.name] = state
        if "start" not in names:
            hint = near("start", names) if names else "A parser begins in the state 'start'."
            self.error(item.at, f"the parser {item.name!r} has no state 'start'", hint)
        for state in item.states:
            self.context = "state"
            with self.inner_scope():
                for statement in state.items:
                    self.check_item(statement)
                if state.transition is None:
                    hint = "Add 'transition accept;'. Without it the packet is rejected."
                    self.diagnostics.warning(state.at, f"the state {state.name!r} has no transition", hint)
                else:
                    self.check_transition(state.transition, names)
            self.context = ""

        if "start" in names and not comes_to_an_end(names):
            self.error(
                item.at, f"the parser {item.name!r} never comes to 'accept' or 'reject'", "End a state with one."
            )
