"""Checks of statements, actions, tables, entries and parsers' transitions (P4_16 specification, sections 12 to 14)."""

from typing import Any, Final

from p4switch.p4.syntax import tree
from p4switch.p4.types import kinds
from p4switch.p4.types.base import (
    CheckerPart,
    CheckerState,
    describes_instance,
    may_be_constant,
    near,
    what_is,
)
from p4switch.p4.types.calls import CallCheck
from p4switch.p4.types.expressions import ExpressionCheck


class StatementCheck(CheckerPart):
    """Checks statements."""

    def __init__(self, env: CheckerState, expressions: ExpressionCheck, calls: CallCheck) -> None:
        super().__init__(env)
        self._expressions = expressions
        self._coerce = expressions.coercion.coerce
        self._resolve = expressions.resolver.resolve
        self._construct = calls.construct

    def check_block(self, block: tree.Block) -> None:
        """Checks the statements of a block in a new scope."""
        with self.env.inner_scope():
            for item in block.items:
                self.check_item(item)

    def check_item(self, item: Any) -> None:
        """Checks a statement, or a declaration among statements."""
        match item:
            case tree.Assign():
                self._assign(item)
            case tree.CallStatement():
                self._call_statement(item)
            case tree.For():
                self._loop(item)
            case tree.ForIn():
                hint = "Write for (T i = …; …; …) { … }: as with p4c, those are made of jumps."
                self.error(item.at, "'for … in' is not taken: the target has no such loops", hint)
            case tree.LeaveLoop():
                if not self.env.loops:
                    self.error(item.at, f"{item.word!r} stands outside of a loop", "Use 'return', or if … else.")
            case tree.If():
                item.condition = self._condition(item)
                self.check_item(item.yes)
                if item.no is not None:
                    self.check_item(item.no)
            case tree.Block():
                self.check_block(item)
            case tree.Return():
                self._return(item)
            case tree.Exit():
                if self.env.context in ("state", "function"):
                    where = "a parser" if self.env.context == "state" else "a function"
                    hint = "Use 'transition reject', or verify(…)." if self.env.context == "state" else "Use 'return'."
                    self.error(item.at, f"'exit' cannot stand in {where}", hint)
            case tree.Switch():
                self._switch(item)
            case tree.Empty():
                pass
            case tree.Declaration():
                self.check_local(item)
            case tree.Statement():
                pass

    def _loop(self, item: tree.For) -> None:
        if self.env.context == "state":
            self.error(item.at, "a loop cannot stand in a parser's state", "A state may go back to itself.")
            return
        with self.env.inner_scope():
            for statement in item.initial:
                self.check_item(statement)
            item.condition = self._condition(item)
            for statement in item.updates:
                self.check_item(statement)
            self.env.loops += 1
            self.check_item(item.body)
            self.env.loops -= 1

    def _condition(self, item: tree.If | tree.For) -> Any:
        kind = self._expressions.check(item.condition)
        if isinstance(kind, kinds.ApplyResult):
            self.error(item.condition.at, "the result of apply() is no bool", "Write .apply().hit or .apply().miss.")
            return item.condition
        return self._coerce(item.condition, kinds.BOOL, "a condition is")

    def _assign(self, item: tree.Assign) -> None:
        place = self._expressions.check_place(item.left, "the left side")
        if isinstance(place, kinds.DeclaredType):
            self.error(item.at, f"{place} is an object, which cannot be assigned to")
            place = kinds.UNKNOWN
        kind = self._expressions.check(item.right)
        if kind is kinds.VOID:
            self.error(item.right.at, "this call gives nothing that could be assigned")
            return
        if isinstance(kind, kinds.ApplyResult):
            self.error(item.right.at, "the result of apply() cannot be kept", "Keep .apply().hit, a bool.")
            return
        what = f"{_shown(item.left)} is"
        item.right = self._coerce(item.right, place, what)

    def _call_statement(self, item: tree.CallStatement) -> None:
        call = item.call
        kind = self._expressions.check(call)
        if (
            isinstance(kind, kinds.DeclaredType)
            and not isinstance(kind.declaration, type(None))
            and call.target is kind.declaration
        ):
            self.error(item.at, f"an instance of {kind} needs a name", f"Write {kind}(…) name;")

    def _return(self, item: tree.Return) -> None:
        if self.env.context == "state":
            self.error(item.at, "'return' cannot stand in a parser's state", "Use 'transition accept'.")
            return
        if item.value is None:
            if self.env.result is not None and self.env.result is not kinds.VOID:
                self.error(item.at, f"this function returns {self.env.result}", "Write 'return value;'.")
            return
        self._expressions.check(item.value)
        if self.env.context != "function" or self.env.result is None or self.env.result is kinds.VOID:
            self.error(item.at, "nothing is returned here", "Write 'return;', and assign to an 'out' parameter before.")
            return
        item.value = self._coerce(item.value, self.env.result, "this function returns")

    def _switch(self, item: tree.Switch) -> None:
        if self.env.context == "action":
            hint = "Write if … else if, or move the switch to the apply block."
            self.error(item.at, "a switch stands in controls, not in actions", hint)
        subject = self._expressions.check(item.subject)
        if isinstance(subject, kinds.ApplyResult):
            self.error(item.subject.at, "what is switched on is .action_run", "Write t.apply().action_run.")
            subject = kinds.UNKNOWN
        seen: set[object] = set()
        for position, case in enumerate(item.cases):
            if isinstance(case.label, tree.Default):
                if position != len(item.cases) - 1:
                    self.error(case.at, "'default' must be the last case")
                case.label.type = subject
            elif isinstance(subject, kinds.ActionRun):
                self._action_label(case.label, subject, seen)
            elif subject is not kinds.UNKNOWN:
                self._value_label(case, subject, seen)
            if case.body is not None:
                self.check_block(case.body)

    def _action_label(self, label: Any, subject: kinds.ActionRun, seen: set[object]) -> None:
        names = {ref.name: ref for ref in subject.table.actions}
        if not isinstance(label, tree.Name) or label.name not in names:
            shown = label.name if isinstance(label, tree.Name) else "this"
            self.error(label.at, f"{shown!r} is no action of the table {subject.table.name!r}", near(shown, names))
            return
        if label.name in seen:
            self.error(label.at, f"the action {label.name!r} has two cases")
        seen.add(label.name)
        label.target, label.type = names[label.name], subject

    def _value_label(self, case: Any, subject: kinds.Type, seen: set[object]) -> None:
        kind = kinds.plain(subject)
        if not isinstance(kind, kinds.Bits | kinds.EnumType) and kind not in (kinds.ERROR, kinds.INTEGER):
            self.error(case.label.at, f"'switch' goes by numbers, enums or a table's action_run, not by {subject}")
            return
        case.label = self._expressions.checked(case.label, subject, "the labels of this switch are")
        if case.label.value is None:
            if case.label.type is not kinds.UNKNOWN:
                self.error(case.label.at, "the label of a case must be known when the program is compiled")
            return
        if case.label.value in seen:
            self.error(case.label.at, "two cases of this switch have this label")
        seen.add(case.label.value)

    # --- declarations among statements

    def check_local(self, declaration: tree.Declaration) -> None:
        """Checks a variable, a constant or an instance."""
        match declaration:
            case tree.Variable():
                self._variable(declaration)
            case tree.Constant():
                self.check_constant(declaration)
            case tree.Instance():
                if self.env.context:
                    hint = "Put it into the control or parser, before 'apply' or the states."
                    self.error(declaration.at, f"the instance {declaration.name!r} is declared among statements", hint)
                self.check_instance(declaration)
                return
        self.env.declare(declaration)

    def _variable(self, declaration: tree.Variable) -> None:
        kind = self._resolve(declaration.ref)
        if describes_instance(kind):
            hint = f"Write {kind}(…) {declaration.name};"
            self.error(declaration.at, f"{kind} is not the type of a variable, but of an instance", hint)
            kind = kinds.UNKNOWN
        elif isinstance(kind, kinds.Basic) and kind.name in ("void", "match_kind", "string", "int"):
            hint = "Give it a width: bit<32> or int<32>." if kind is kinds.INTEGER else ""
            self.error(declaration.at, f"there are no variables of the type {kind}", hint)
            kind = kinds.UNKNOWN
        declaration.type = kind
        if declaration.initial is not None:
            self._expressions.check(declaration.initial)
            if declaration.initial.type is kinds.VOID:
                self.error(declaration.initial.at, "this call gives nothing that could be assigned")
            else:
                declaration.initial = self._coerce(declaration.initial, kind, f"{declaration.name} is")

    def check_constant(self, declaration: tree.Constant) -> None:
        """Checks a constant: its type and its value."""
        kind = declaration.type = self._resolve(declaration.ref)
        declaration.initial = self._expressions.checked(declaration.initial, kind, f"{declaration.name} is")
        if declaration.initial.value is not None or declaration.initial.type is kinds.UNKNOWN:
            return
        if self.env.program is None or not may_be_constant(declaration.initial, {}):
            message = f"the value of the constant {declaration.name!r} is not known when the program is compiled"
            self.error(declaration.initial.at, message, "Leave out 'const'.")

    def check_instance(self, declaration: tree.Instance) -> None:
        """Checks an instance of an extern, parser, control or package."""
        kind = self._resolve(declaration.ref)
        for argument in declaration.arguments:
            if argument.value is not None:
                self._expressions.check(argument.value)
        made = tree.Call(
            declaration.at, declaration.end, tree.Name(declaration.ref.at, declaration.ref.end, str(kind)), [], []
        )
        declaration.type = self._construct(made, kind, declaration.arguments, declaration.ref.at)
        declaration.bound = made.bound
        for member in declaration.members or ():
            self.error(member.at, "abstract methods are not taken: BMv2 has no extern that has them")
        self.env.declare(declaration)


def _shown(node: Any) -> str:
    """Returns the target of an assignment as text."""
    match node:
        case tree.Name():
            return str(node.name)
        case tree.Member():
            return f"{_shown(node.base)}.{node.name}"
        case tree.Slice():
            return f"{_shown(node.base)}[…]"
    return "the left side"


# Actions, tables and their entries, and keys of a parser's ``select`` (sections 13.6, 14.1 and 14.2).


PROPERTIES: Final = (
    "size", "implementation", "counters", "meters", "support_timeout", "largest_priority_wins", "priority_delta"
)  # fmt: skip
MOST_PRIORITY: Final = (1 << 31) - 1
_MATCHES: Final = ("exact", "lpm", "ternary", "range", "optional", "selector")


class TableCheck(CheckerPart):
    """Checks actions and tables."""

    def __init__(
        self, env: CheckerState, calls: CallCheck, expressions: ExpressionCheck, statements: StatementCheck
    ) -> None:
        super().__init__(env)
        self._calls = calls
        self._expressions = expressions
        self._statements = statements
        self._coerce = expressions.coercion.coerce
        self._resolve = expressions.resolver.resolve

    def check_action(self, action: tree.Action) -> None:
        """Checks an action; parameters with a direction must come first."""
        outer, self.env.context = self.env.context, "action"
        with self.env.inner_scope():
            free = ""
            for parameter in action.parameters:
                parameter.type = self._resolve(parameter.ref)
                if describes_instance(parameter.type):
                    self.error(parameter.at, f"{parameter.type} cannot be the parameter of an action")
                if parameter.default is not None:
                    what = f"{parameter.name} is"
                    parameter.default = self._expressions.checked(parameter.default, parameter.type, what)
                if parameter.direction and parameter.type is kinds.INTEGER:
                    hint = "Write bit<32> or int<32>."
                    self.error(parameter.at, f"the parameter {parameter.name!r} has no width", hint)
                if not parameter.direction:
                    free = parameter.name
                elif free:
                    hint = "Parameters of the control plane, which have no direction, come last."
                    self.error(
                        parameter.at, f"{parameter.name!r} has a direction, but {free!r} before it has none", hint
                    )
                self.env.declare(parameter)
            with self.env.inner_scope():
                for item in action.body.items:
                    self._statements.check_item(item)
        self.env.context = outer

    def check_table(self, table: tree.Table) -> None:
        """Checks a table with its keys, actions and entries."""
        table.type = self.env.types.declared("table", table)
        for key in table.keys:
            self._key(key, table)
        lpm = [key for key in table.keys if key.match == "lpm"]
        if len(lpm) > 1:
            hint = "Make all but one 'ternary' or 'exact'."
            self.error(lpm[1].at, f"the table {table.name!r} has {len(lpm)} lpm keys; it may have one", hint)
        if not table.actions:
            hint = "Write actions = { NoAction; }."
            self.env.diagnostics.warning(table.at, f"the table {table.name!r} has no actions", hint)
        seen: dict[str, tree.ActionRef] = {}
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
        self.env.declare(table)

    def _count_entries(self, table: tree.Table) -> None:
        size = table.properties.get("size")
        if table.entries and not table.keys:
            self.error(table.entries[0].at, f"the table {table.name!r} has entries, but no keys")
        most = size.value.value if size is not None else None
        if table.entries and size is not None and isinstance(most, int) and len(table.entries) > most:
            message = f"the table {table.name!r} has {len(table.entries)} entries, but a size of {most}"
            self.env.diagnostics.warning(size.at, message)

    def _key(self, key: tree.KeyElement, table: tree.Table) -> None:
        outer, self.env.context = self.env.context, "apply"
        kind = self._expressions.check(key.expression)
        self.env.context = outer
        match = self.env.match_kinds.get(key.match)
        if match is None or key.match not in _MATCHES:
            self.error(key.at, f"there is no kind of match {key.match!r}", near(key.match, _MATCHES))
        if kind is kinds.UNKNOWN:
            return
        bare = kinds.plain(kind)
        if kind is kinds.INTEGER:
            self.error(key.at, "a number of no width is no key")
        elif not isinstance(bare, kinds.Bits | kinds.EnumType) and bare not in (kinds.BOOL, kinds.ERROR):
            hint = "Use its fields." if kinds.is_header(bare) else ""
            self.error(key.at, f"{kind} is no key: a key is a number, bool, enum or error", hint)
        elif key.match in ("lpm", "range") and bare in (kinds.BOOL, kinds.ERROR):
            self.error(key.at, f"{kind} cannot be matched by {key.match!r}", "Use 'exact' or 'ternary'.")

    def _action_ref(self, ref: tree.ActionRef, table: tree.Table, listed: dict[str, tree.ActionRef] | None) -> None:
        """Checks an action in a table's list (``listed`` is None), of the default, or of an entry."""
        target = self.env.named(ref)
        if not isinstance(target, tree.Action):
            if target is None:
                hint = self.env.scope.near(ref.name) or "Declare the action above the table."
                self.error(ref.at, f"there is no action {ref.name!r}", hint)
            else:
                self.error(ref.at, f"{ref.name!r} is {what_is(target)}, not an action")
            return
        ref.target = target
        for argument in ref.arguments:
            if argument.value is not None:
                self._expressions.check(argument.value)
        bound_before = sum(bool(p.direction) for p in target.parameters)
        what = f"the action {ref.name!r}"
        if listed is None:
            wanted = target.parameters[:bound_before]
            if len(ref.arguments) > bound_before:
                hint = "The others come from the control plane, with each entry."
                self.error(ref.at, f"{what} takes {bound_before} arguments here: those with a direction", hint)
                return
            free: list[tree.Expression | None] = [None] * (len(target.parameters) - bound_before)
            ref.bound = self._calls.bind(ref.at, what, wanted, ref.arguments, {}) + free
            return
        if ref.name not in listed:
            message = f"{what} is not in the list of actions of the table {table.name!r}"
            self.error(ref.at, message, f"Add '{ref.name};' to its actions.")
            return
        others = target.parameters[bound_before:]
        arguments = ref.arguments
        if bound_before and len(arguments) == len(target.parameters):
            arguments = arguments[bound_before:]  # arguments for parameters with a direction are repeated
        values = self._calls.bind(ref.at, what, others, arguments, {})
        for value in values:
            if value is not None and value.value is None and value.type is not kinds.UNKNOWN:
                self._calls.not_constant(value, what)
        before: list[tree.Expression | None] = [None] * bound_before
        ref.bound = before + values

    def _properties(self, table: tree.Table) -> None:
        for name, item in table.properties.items():
            kind = self._expressions.check(item.value)
            if name == "size":
                if self._expressions.constant(item.value, "the size of a table") is not None and item.value.value < 0:
                    self.error(item.at, "the size of a table is negative")
            elif name in ("support_timeout", "largest_priority_wins"):
                if kind is not kinds.UNKNOWN and kind is not kinds.BOOL:
                    self.error(item.at, f"{name!r} is a bool, not {kind}")
            elif name == "priority_delta":
                delta = self._expressions.constant(item.value, "the distance of priorities")
                if delta is not None and delta < 1:
                    self.error(item.at, f"'priority_delta' is at least 1, not {delta}")
            elif name in ("implementation", "counters", "meters"):
                self._object(table, name, item.value, kind)
            elif name not in PROPERTIES:
                if name == "default" or near(
                    name, (*PROPERTIES, "key", "actions", "default_action", "entries")
                ).startswith("Did"):
                    hint = near(name, (*PROPERTIES, "key", "actions", "default_action", "entries"))
                    self.env.diagnostics.warning(item.at, f"a table has no property {name!r}; it is left out", hint)
                else:
                    self.env.diagnostics.warning(item.at, f"the property {name!r} of a table means nothing here")

    def _object(self, table: tree.Table, name: str, value: tree.Expression, kind: kinds.Type) -> None:
        wanted = {
            "implementation": ("action_profile", "action_selector"),
            "counters": ("direct_counter", "counter"),
            "meters": ("direct_meter", "meter"),
        }[name]
        if kind is kinds.UNKNOWN:
            return
        if not isinstance(kind, kinds.DeclaredType) or kind.name not in wanted:
            hint = f"Write {name} = {wanted[0]}(…), or the name of one."
            self.error(value.at, f"{name!r} of the table {table.name!r} is {wanted[0]}, not {kind}", hint)
        elif kind.name in ("counter", "meter"):
            hint = f"Declare {wanted[0]}(…), without a size: it has one cell for each entry."
            self.error(value.at, f"{name!r} of a table is a {wanted[0]}", hint)
        elif isinstance(value, tree.Call | tree.Name | tree.Member):
            return

    # --- entries

    def _entry(self, entry: tree.Entry, table: tree.Table, seen: dict[str, tree.ActionRef]) -> None:
        keys = entry.keyset.items if isinstance(entry.keyset, tree.ListOf) else [entry.keyset]
        if len(keys) == 1 and isinstance(keys[0], tree.Default) and len(table.keys) != 1:
            keys = keys * len(table.keys)
        if len(keys) != len(table.keys):
            self.error(entry.at, f"this entry has {len(keys)} keys; the table {table.name!r} has {len(table.keys)}")
        else:
            for position, (value, key) in enumerate(zip(keys, table.keys, strict=True)):
                keys[position] = self._entry_key(value, key)
            entry.keyset = tree.ListOf(entry.keyset.at, entry.keyset.end, keys)
        if entry.priority is not None:
            entry.priority = self._expressions.checked(entry.priority, kinds.INTEGER, "a priority is")
        self._action_ref(entry.action, table, seen)
        listed = seen.get(entry.action.name)
        if listed is not None and listed.has("defaultonly"):
            self.error(entry.action.at, f"{listed.name!r} is @defaultonly, so no entry can have it")

    def _rank_entries(self, table: tree.Table) -> None:
        """Ranks the entries by the order in which they are tried (specification, section 14.2.1.4)."""
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

    def _rank_by_priority(self, table: tree.Table, entries: list[tree.Entry]) -> None:
        largest, delta = (table.properties.get(name) for name in ("largest_priority_wins", "priority_delta"))
        down = largest is None or largest.value.value is not False
        step = delta.value.value if delta is not None and isinstance(delta.value.value, int) else 1
        priorities: list[int] = []
        for entry in entries:
            if entry.priority is None:
                priority = priorities[-1] - step if down else priorities[-1] + step
            else:
                constant = self._expressions.constant(entry.priority, "a priority")
                if constant is None:
                    return
                priority = constant
            if not 0 <= priority <= MOST_PRIORITY:
                message = f"this entry has the priority {priority}; there are 0 to {MOST_PRIORITY}"
                hint = "It counts on from the entry before it: begin with a larger one." if priority < 0 else ""
                self.error(entry.at, message, hint)
                return
            if priority in priorities:
                before = f"entry {priorities.index(priority) + 1}"
                message = f"this entry has the priority {priority}, which {before} has, too"
                self.env.diagnostics.warning(entry.at, message)
            priorities.append(priority)
        order = sorted(range(len(entries)), key=lambda i: -priorities[i] if down else priorities[i])
        if order != list(range(len(entries))):
            message = f"the entries of the table {table.name!r} do not stand in the order of their priorities"
            self.env.diagnostics.warning(entries[0].at, message)
        for rank, position in enumerate(order, 1):
            entries[position].rank = rank

    def _entry_key(self, value: tree.Expression, key: tree.KeyElement) -> tree.Expression:
        kind = key.expression.type or kinds.UNKNOWN
        checked = self.check_keyset(value, kind)
        if isinstance(checked, tree.Default) or kind is kinds.UNKNOWN:
            if key.match == "exact" and isinstance(checked, tree.Default):
                self.error(value.at, "an exact key has one value; '_' stands for any", "Use 'ternary' for this key.")
            return checked
        what = checked.operator if isinstance(checked, tree.Binary) else ""
        if what == ".." and key.match != "range":
            self.error(value.at, f"a range is no value of a key that is {key.match!r}")
        elif what == "&&&" and key.match in ("exact", "range", "optional"):
            self.error(value.at, f"a mask is no value of a key that is {key.match!r}", "Use 'ternary' for this key.")
        elif what == "&&&" and key.match == "lpm" and isinstance(checked, tree.Binary):
            mask = checked.right.value
            width = getattr(kinds.plain(kind), "width", 0)
            if isinstance(mask, int) and (~mask & ((1 << width) - 1)) & ((~mask & ((1 << width) - 1)) + 1):
                self.error(value.at, "the mask of an lpm key is ones and then zeros", "Use 'ternary' for this key.")
        return checked

    def check_keyset(self, value: tree.Expression, kind: kinds.Type) -> tree.Expression:
        """Checks a key of an entry or a select: a value, mask, range, value set or ``default``."""
        if isinstance(value, tree.Default):
            value.type = kind
            return value
        if isinstance(value, tree.Binary) and value.operator in ("&&&", ".."):
            value.left = self._expressions.checked(value.left, self._masked(kind, value), "this key is")
            value.right = self._expressions.checked(value.right, self._masked(kind, value), "this key is")
            value.type = self.env.types.set(kind)
            for side in (value.left, value.right):
                self._known(side)
            low, high = value.left.value, value.right.value
            if value.operator == ".." and isinstance(low, int) and isinstance(high, int) and low > high:
                self.error(value.at, f"the range {low} .. {high} is empty", "The lower end comes first.")
            return value
        self._expressions.check(value)
        if isinstance(value.type, kinds.SetType):
            element = value.type.element
            if isinstance(element, kinds.CompositeType) and len(element.fields) == 1:
                element = next(iter(element.fields.values()))
            if element is not kind and kind is not kinds.UNKNOWN:
                self.error(value.at, f"this key is {kind}, but these are sets of {value.type.element}")
            return value
        value = self._coerce(value, kind, "this key is")
        self._known(value)
        return value

    def _masked(self, kind: kinds.Type, value: tree.Binary) -> kinds.Type:
        bare = kinds.plain(kind)
        if isinstance(bare, kinds.EnumType) and bare.base and value.operator == "&&&":
            return bare.base
        return kind

    def _known(self, value: Any) -> None:
        if value.value is None and value.type is not kinds.UNKNOWN:
            self._calls.not_constant(value, "a key")


# Checks of transitions with the keys of ``select`` (P4_16 specification, section 13.6).


class Selects(CheckerPart):
    """Checks transitions."""

    def __init__(self, env: CheckerState, expressions: ExpressionCheck, tables: TableCheck) -> None:
        super().__init__(env)
        self._expressions = expressions
        self._give = expressions.coercion.give
        self._check_keyset = tables.check_keyset

    def check_transition(self, item: tree.Transition, names: dict[str, tree.State]) -> None:
        """Checks ``transition s;`` or ``transition select(…) { … }``; ``names``: the parser's states."""
        if item.target is not None:
            self._state_name(item.target, item.at, names)
            return
        key_kinds = [self._select_key(key) for key in item.keys]
        for case in item.cases:
            self._state_name(case.state, case.at, names)
            keyset = case.keyset
            keys = keyset.items if isinstance(keyset, tree.ListOf) else [keyset]
            single = len(keys) == 1 and len(key_kinds) != 1
            if single and self._any_key(keys[0], key_kinds):
                continue
            if len(keys) != len(key_kinds):
                self.error(case.at, f"this case has {len(keys)} keys, but 'select' has {len(key_kinds)}")
                continue
            checked = [self._check_keyset(key, kind) for key, kind in zip(keys, key_kinds, strict=True)]
            case.keyset = tree.ListOf(keyset.at, keyset.end, checked)

    def _any_key(self, key: Any, key_kinds: list[kinds.Type]) -> bool:
        """Returns whether a key is ``default`` or a value set that covers all keys at once."""
        if isinstance(key, tree.Default):
            return True
        self._expressions.check(key)
        if not isinstance(key.type, kinds.SetType) or not isinstance(
            key.type.element, kinds.TupleType | kinds.CompositeType
        ):
            return False
        element = key.type.element
        parts = element.elements if isinstance(element, kinds.TupleType) else tuple(element.fields.values())
        widths, wanted = [kinds.width_of(part) for part in parts], [kinds.width_of(kind) for kind in key_kinds]
        if widths != wanted and kinds.UNKNOWN not in key_kinds:
            message = f"this value set has keys of {_listed(widths)} bits, but 'select' has keys of {_listed(wanted)}"
            self.error(key.at, message, "Give its type the same fields in the same order.")
        return True

    def _select_key(self, key: Any) -> kinds.Type:
        kind = self._expressions.check(key)
        bare = kinds.plain(kind)
        if kind is kinds.INTEGER:
            self._give(key, kinds.bits(32))
            return self.wrong(key.at, "a number of no width is no key of 'select'")
        if (
            kind is not kinds.UNKNOWN
            and not isinstance(bare, kinds.Bits | kinds.EnumType)
            and bare is not kinds.BOOL
            and bare is not kinds.ERROR
        ):
            hint = "Use its fields." if isinstance(bare, kinds.CompositeType | kinds.StackType) else ""
            return self.wrong(key.at, f"'select' cannot go by {kind}", hint)
        return kind

    def _state_name(self, name: str, at: int, names: dict[str, tree.State]) -> None:
        if name not in names and name not in ("accept", "reject"):
            self.error(at, f"there is no state {name!r}", near(name, [*names, "accept", "reject"]))


def _listed(widths: list[int | None]) -> str:
    return ", ".join(str(width) for width in widths)
