"""Lowers statements, and tables with their keys, actions and entries."""

from typing import TYPE_CHECKING, Any

from p4switch.p4.diagnostics import SourceFault, expect
from p4switch.p4.lower import bmv2
from p4switch.p4.lower.bmv2 import Json
from p4switch.p4.lower.layout import Apply, Branch, Labelled, Leave, Loop, LoweredCode, StopCode
from p4switch.p4.lower.storage import (
    ActionInstance,
    Bindings,
    Callee,
    LoweredInstance,
    LoweringPart,
    TableInstance,
    storage_width,
)
from p4switch.p4.syntax import tree
from p4switch.p4.syntax.preprocessor import NUMBER, value_of
from p4switch.p4.types import kinds
from p4switch.p4.types.statements import MOST_PRIORITY

if TYPE_CHECKING:
    from p4switch.p4.lower.storage import Lowering


# Keys of tables and selects: their names, and their values in entries.


def key_name(key: tree.KeyElement) -> str:
    """Returns a key's name for the control plane: its @name, else the spelling of its expression."""
    for note in key.annotations:
        if note.name == "name" and note.string is not None:
            return note.string
    name = spelled(key.expression)
    if name is None:
        raise SourceFault(
            key.at, "this key needs a name for the control plane", 'Write @name("…") behind its match kind.'
        )
    return name


def spelled(node: tree.Expression) -> str | None:
    """Returns the spelling of an expression as a key's name; None if it has none."""
    match node:
        case tree.Name():
            return node.name
        case tree.Member():
            base = node.base
            kind = kinds.plain(base.type) if base.type is not None else None
            name = node.name
            if isinstance(kind, kinds.CompositeType):
                name = next((f.shown for f in kind.declaration.fields if f.name == name), name)
            if name.startswith("."):
                return name[1:]
            inner = spelled(base)
            return None if inner is None else f"{inner}.{name}"
        case tree.Index():
            base_name, index = spelled(node.base), spelled(node.index)
            return None if base_name is None or index is None else f"{base_name}[{index}]"
        case tree.Slice():
            parts = (spelled(node.base), spelled(node.high), spelled(node.low))
            return None if None in parts else f"{parts[0]}[{parts[1]}:{parts[2]}]"
        case tree.Number():
            letter = {16: "x", 2: "b", 8: "o"}.get(node.base)
            return f"0{letter}{node.number:{letter}}" if letter else str(node.number)
        case tree.Binary(operator="&"):
            left, right = spelled(node.left), spelled(node.right)
            return None if left is None or right is None else f"{left} & {right}"
        case tree.Call() if node.target == "isValid" and isinstance(node.callee, tree.Member):
            inner = spelled(node.callee.base)
            return None if inner is None else f"{inner}.$valid$"
    return None


def element_of_entry(lowering: "Lowering", value: tree.Expression, key: Json) -> Json:
    """Returns the JSON of an entry's value for a key."""
    width, match = key["$width"], key["match_type"]
    ones = (1 << width) - 1
    number: int | None = None
    mask = ones
    low = high = 0
    if isinstance(value, tree.Default):
        number, mask, low, high = 0, 0, 0, ones
    elif isinstance(value, tree.Binary) and value.operator == "&&&":
        number = key_value(lowering, value.left) & ones
        mask = key_value(lowering, value.right) & ones
        number &= mask
    elif isinstance(value, tree.Binary) and value.operator == "..":
        low, high = key_value(lowering, value.left) & ones, key_value(lowering, value.right) & ones
    else:
        number = low = high = key_value(lowering, value) & ones
    if match == "range":
        return {"match_type": match, "start": bmv2.hexadecimal(low, width), "end": bmv2.hexadecimal(high, width)}
    text = bmv2.hexadecimal(expect(number, int), width)
    if match == "exact":
        return {"match_type": match, "key": text}
    if match == "lpm":
        return {"match_type": match, "key": text, "prefix_length": mask.bit_count()}
    return {"match_type": match, "key": text, "mask": bmv2.hexadecimal(mask, width)}


def key_value(lowering: "Lowering", node: tree.Expression) -> int:
    """Returns the number of a key, or of a part of one. Raises SourceFault if it is not known at compile time."""
    value: Any = lowering.evaluate(node)
    if value is None:
        raise SourceFault(node.at, "this key must be known when the program is compiled")
    if isinstance(value, int):
        return int(value)
    return lowering.member_number(value, kinds.plain(expect(node.type, kinds.Type)))


def ranges_as_masks(low: int, high: int, width: int) -> list[tuple[int, int]]:
    """Returns a range as the smallest list of values with masks."""
    masked = []
    while low <= high:
        size = (low & -low) or (1 << width)
        while size > high - low + 1:
            size >>= 1
        masked.append((low, ((1 << width) - 1) & ~(size - 1)))
        low += size
    return masked


class StatementsLowering(LoweringPart):
    """Lowers statements."""

    def body_of(self, callee: tree.Action | tree.Function | tree.Program, at: Any) -> None:
        """Lowers the code of a callee, with its parameters bound."""
        if isinstance(callee, tree.Program):
            self.ctx.programs.program_body(callee, at)
        elif callee.body is not None:
            self.block_of(callee.body)

    def block_of(self, block: tree.Block) -> None:
        """Lowers the statements of a block in a new scope."""
        outer = self.ctx.environment
        self.ctx.environment = Bindings(outer)
        for item in block.items:
            self.statement(item)
        self.ctx.environment = outer

    def statement(self, item: Any) -> None:
        """Lowers a statement or declaration."""
        match item:
            case tree.Assign():
                self._assignment(item)
            case tree.CallStatement():
                self.ctx.calls.perform(item.call)
            case tree.If():
                self._if(item)
            case tree.For():
                self.ctx.loops.loop(item)
            case tree.LeaveLoop():
                self.ctx.out.append(Leave(item.at, item.end, self.ctx.open_loops[-1][item.word]))
            case tree.Block():
                self.block_of(item)
            case tree.Variable():
                self.variable(item)
            case tree.Constant():
                self.ctx.environment.bound[item] = self.ctx.expressions.place(item.initial)
            case tree.Return():
                self._return(item)
            case tree.Exit():
                self._exit(item)
            case tree.Switch():
                self._switch(item)
            case tree.Empty():
                pass
            case _:
                raise SourceFault(item.at, "this is not taken among statements")

    def variable(self, item: tree.Variable) -> None:
        """Lowers a variable with its initial value; headers without one begin invalid."""
        place = self.ctx.environment.bound.get(item)
        if place is None:
            place = self.ctx.inlining.fresh(item)
        if item.initial is not None:
            value = self.ctx.expressions.place(item.initial)
            self.ctx.environment.bound[item] = place
            self.ctx.expressions.assign(place, value, item)
        else:
            self.ctx.environment.bound[item] = place
            self.ctx.inlining.invalidate(place, item)

    def _assignment(self, item: tree.Assign) -> None:
        self.ctx.holds_index = item.right.effects
        target = self.ctx.expressions.target(item.left)
        self.ctx.holds_index = False
        outer = self.ctx.settled
        if item.left.effects:
            # In 'left op= value' the left side is also on the right, but is evaluated once.
            node, place = item.left, target
            while isinstance(node, tree.Slice) and isinstance(place, bmv2.SlicePlace):
                node, place = node.base, place.base
            self.ctx.settled = {**outer, node: place}
        value = self.ctx.expressions.place(item.right)
        self.ctx.settled = outer
        self.ctx.expressions.assign(target, value, item)

    def _return(self, item: tree.Return) -> None:
        if item.value is not None and self.ctx.callees and self.ctx.callees[-1].result is not None:
            self.ctx.expressions.assign(self.ctx.callees[-1].result, self.ctx.expressions.place(item.value), item)
        self.ctx.out.append(Leave(item.at, item.end, self.ctx.callees[-1].label if self.ctx.callees else None))

    def _exit(self, item: tree.Exit) -> None:
        """Lowers ``exit``: first copies the ``out`` parameters of all callees back (specification, section 12.5)."""
        for callee in reversed(self.ctx.callees):
            self.ctx.inlining.copy_out(callee, item)
        self.ctx.out.append(StopCode(item.at, item.end))

    # --- if and switch

    def _if(self, item: tree.If) -> None:
        node, negated = item.condition, False
        while isinstance(node, tree.Unary) and node.operator == "!":
            node, negated = node.operand, not negated
        if (
            isinstance(node, tree.Member)
            and node.name in ("hit", "miss")
            and isinstance(node.base, tree.Call)
            and self.ctx.where == "control"
        ):
            self._if_hit(item, node, negated)
            return
        known = self.ctx.evaluate(item.condition) if not item.condition.effects else None
        if known is not None:
            if known:
                self.statement(item.yes)
            elif item.no is not None:
                self.statement(item.no)
            return
        condition = self.ctx.expressions.condition(item.condition)
        yes = self.ctx.expressions.collected(lambda: self.statement(item.yes))
        no = self.ctx.expressions.collected(lambda: self.statement(item.no)) if item.no is not None else []
        self.ctx.out.append(Branch(item.condition.at, item.condition.end, condition, yes, no))

    def _if_hit(self, item: tree.If, node: tree.Member, negated: bool) -> None:
        apply = self.ctx.tables.apply_table(node.base)
        yes = self.ctx.expressions.collected(lambda: self.statement(item.yes))
        no = self.ctx.expressions.collected(lambda: self.statement(item.no)) if item.no is not None else []
        if (node.name == "miss") != negated:
            yes, no = no, yes
        apply.hit, apply.miss = yes, no

    def _switch(self, item: tree.Switch) -> None:
        if isinstance(item.subject.type, kinds.ActionRun):
            self._switch_on_action(item)
            return
        subject = self.ctx.expressions.place(item.subject)
        if item.subject.effects or not subject.fixed:
            subject = self.ctx.expressions.held(subject, item.subject)
        self._cases(item, subject, 0)

    def _cases(self, item: tree.Switch, subject: Any, first: int) -> None:
        """Lowers the cases from index ``first`` on as a chain of conditions."""
        labels: list[tree.Expression] = []
        for position in range(first, len(item.cases)):
            case = item.cases[position]
            labels.append(case.label)
            if case.body is None:
                continue
            body = case.body
            if any(isinstance(label, tree.Default) for label in labels):
                self.block_of(body)
                return
            condition = None
            for label in labels:
                value = self.ctx.known(self.ctx.evaluate(label), subject.type)
                same = bmv2.operation("==", bmv2.data_of(subject), bmv2.data_of(value))
                condition = same if condition is None else bmv2.operation("or", condition, same)
            condition = expect(condition, dict)
            yes = self.ctx.expressions.collected(lambda body=body: self.block_of(body))
            no = self.ctx.expressions.collected(lambda after=position + 1: self._cases(item, subject, after))
            self.ctx.out.append(Branch(case.at, case.label.end, condition, yes, no))
            return

    def _switch_on_action(self, item: tree.Switch) -> None:
        apply = self.ctx.tables.apply_table(expect(item.subject, tree.Member).base)
        table = apply.table.declaration
        numbers = {ref.name: i for i, ref in enumerate(table.actions)}
        pending: list[tree.Expression] = []
        for case in item.cases:
            pending.append(case.label)
            if case.body is None:
                continue
            body: list[LoweredCode] = self.ctx.expressions.collected(lambda body=case.body: self.block_of(body))
            for label in pending:
                if isinstance(label, tree.Default):
                    apply.otherwise = body
                else:
                    apply.actions[numbers[label.name]] = body  # type: ignore[attr-defined]
            pending = []


# Loops: jumps within an action (P4_16 specification, section 12.9).


class Loops(LoweringPart):
    """Lowers loops."""

    def loop(self, item: tree.For) -> None:
        """Lowers ``for``: as part of the surrounding action, or as a separate action in a pipeline."""
        outer, self.ctx.environment = self.ctx.environment, Bindings(self.ctx.environment)
        for statement in item.initial:
            self.ctx.statements.statement(statement)
        labels: dict[str, object] = {"break": object(), "continue": object()}
        self.ctx.open_loops.append(labels)
        steps = self.ctx.expressions.collected(lambda: self._round(item, labels))
        self.ctx.open_loops.pop()
        loop = Loop(item.at, item.end, steps, labels["break"])
        if self.ctx.where == "control" and not self.ctx.open_loops and not self.ctx.within:
            self._leave_by_flags(loop)
        else:
            self.ctx.out.append(loop)
        self.ctx.environment = outer

    def _round(self, item: tree.For, labels: dict[str, object]) -> None:
        """Lowers one iteration of a loop."""
        leave = [Leave(item.condition.at, item.condition.end, labels["break"])]
        known = self.ctx.evaluate(item.condition) if not item.condition.effects else None
        if known is None:
            condition = self.ctx.expressions.condition(item.condition)
            self.ctx.out.append(Branch(item.condition.at, item.condition.end, condition, [], [*leave]))
        elif not known:
            self.ctx.out += leave
            return
        body = self.ctx.expressions.collected(lambda: self.ctx.statements.statement(item.body))
        self.ctx.out.append(Labelled(item.body.at, item.body.end, body, labels["continue"]))
        for statement in item.updates:
            self.ctx.statements.statement(statement)

    def _leave_by_flags(self, loop: Loop) -> None:
        """Turns a loop of a pipeline into an action that ends with the loop.

        A statement that leaves more than the loop (``return``) sets a flag that the pipeline tests after the action.
        """
        flags: dict[object, bmv2.FieldPlace] = {}
        loop.body = self._with_flags(loop.body, {loop.label}, loop.label, flags)
        for flag in flags.values():
            self.ctx.expressions.assign(flag, bmv2.Value(kinds.BOOL, bmv2.FALSE, False), loop)
        self.ctx.out.append(loop)
        for label, flag in flags.items():
            self.ctx.out.append(Branch(loop.at, loop.end, flag.json(), [Leave(loop.at, loop.end, label)], []))

    def _with_flags(
        self, codes: list[LoweredCode], within: set[object], behind: object, flags: dict[object, bmv2.FieldPlace]
    ) -> list[LoweredCode]:
        lowered: list[LoweredCode] = []
        for code in codes:
            inner = within | {code.label} if isinstance(code, Labelled | Loop) else within
            for part in code.parts:
                part[:] = self._with_flags(part, inner, behind, flags)
            if isinstance(code, Leave) and code.label not in within:
                flag = flags.setdefault(code.label, self.ctx.temporary(kinds.BOOL))
                lowered += self.ctx.expressions.collected(
                    lambda flag=flag, at=code: self.ctx.expressions.assign(
                        flag, bmv2.Value(kinds.BOOL, bmv2.TRUE, True), at
                    )
                )
                code.label = behind
            lowered.append(code)
        return lowered


# Tables: their keys, actions, entries, and attached objects.


DEFAULT_SIZE = 1024
LARGEST_TABLE = (1 << 32) - 1


class TablesLowering(LoweringPart):
    """Lowers tables."""

    def apply_table(self, call: tree.Expression) -> Apply:
        """Lowers ``t.apply()``: computes the keys, then looks them up."""
        node = expect(call, tree.Call)
        table = self._table(node)
        if self.ctx.where != "control" or self.ctx.block not in ("ingress", "egress"):
            raise SourceFault(node.at, "tables are applied in the ingress and egress controls only")
        outer = (self.ctx.environment, self.ctx.path)
        self.ctx.environment, self.ctx.path = table.environment, table.path
        try:
            if table.json is None:
                self._lower(table, node)
            else:
                self._again(table, node)
        finally:
            self.ctx.environment, self.ctx.path = outer
        application = Apply(node.at, node.end, table)
        self.ctx.out.append(application)
        return application

    def _table(self, node: tree.Call) -> TableInstance:
        table = self.ctx.inlining.object(expect(node.callee, tree.Member).base)
        if not isinstance(table, TableInstance):
            raise SourceFault(node.at, "this is no table")
        return table

    def _lower(self, table: TableInstance, node: tree.Call) -> None:
        declaration = table.declaration
        keys = [self._key(key, table) for key in declaration.keys]
        matched = [key for key in keys if key["match_type"] != "selector"]
        properties = declaration.properties
        size = properties.get("size")
        most = self.ctx.number(size.value, "the size of a table", declaration.at) if size is not None else 0
        self._check_size(most, declaration)
        timeout = properties.get("support_timeout")
        item: Json = {
            "name": table.name,
            "id": 0,
            "source_info": declaration,
            "key": [{k: v for k, v in key.items() if not k.startswith("$")} for key in matched],
            "match_type": _match_type(matched),
            "type": "simple",
            "max_size": most or DEFAULT_SIZE,
            "with_counters": False,
            "support_timeout": bool(timeout is not None and self.ctx.evaluate(timeout.value)),
            "direct_meters": None,
        }
        table.json = item
        self._implementation(table, item, [key for key in keys if key["match_type"] == "selector"])
        self._attached(table, item)
        refs = self._actions(table)
        item["action_ids"] = [action["id"] for _, action in refs]
        item["actions"] = [action["name"] for _, action in refs]
        numbers = {ref.name: action for ref, action in refs}
        if item["type"] == "simple":
            self._default(table, item, numbers)
            if declaration.entries is not None:
                self._entries(table, item, keys, numbers)
        elif declaration.entries or (declaration.default is not None and declaration.default.name != "NoAction"):
            message = "entries and a default action of the program are left out: BMv2 has none beside an action profile"
            self.ctx.diagnostics.warning(declaration.at, message)
        self.ctx.applied_tables.append(table)

    def _again(self, table: TableInstance, node: tree.Call) -> None:
        """Lowers another application of a table: computes its keys there as well."""
        before = [key["target"] for key in expect(table.json, dict)["key"]]
        keys = [key for key in table.declaration.keys if key.match != "selector"]
        for key, target in zip(keys, before, strict=True):
            lowered = self._key(key, table)
            if lowered["target"] != target:
                if not lowered["$copied"]:
                    hint = "Declare a second table, or an instance of the control for each place."
                    raise SourceFault(
                        node.at, f"the table {table.name!r} is applied in two places with other keys", hint
                    )
                origin = bmv2.FieldPlace(lowered["$type"], *lowered["target"])
                self.ctx.expressions.assign(bmv2.FieldPlace(lowered["$type"], *target), origin, key)

    def _check_size(self, size: int, declaration: tree.Table) -> None:
        given = declaration.properties.get("size")
        at = given.value.at if given is not None else declaration.at
        entries = len(declaration.entries or ())
        if size > LARGEST_TABLE:
            raise SourceFault(at, f"a table has room for at most {LARGEST_TABLE} entries, not {size}")
        if entries > (size or DEFAULT_SIZE):
            message = f"the table has room for {size or DEFAULT_SIZE} entries, but the program gives it {entries}"
            raise SourceFault(at, message, f"Write size = {entries};")

    # --- keys

    def _key(self, key: tree.KeyElement, table: TableInstance) -> Json:
        place = self.ctx.expressions.place(key.expression)
        kind = self.ctx.type_of(key.expression)
        name = key_name(key)
        match = {"optional": "ternary"}.get(key.match, key.match)
        if match == "selector":
            return {"match_type": match, "$place": place, "$at": key}
        target = bmv2.data_of(place)
        validity = target["type"] == "field" and target["value"][1] == "$valid$"
        if target["type"] == "expression" and target["value"].get("op") == "d2b":
            target = target["value"]["right"]
            validity = True
        copied = not (target["type"] == "field" and (isinstance(place, bmv2.FieldPlace) or validity))
        if copied:
            copy = self.ctx.temporary(kind, "key")
            self.ctx.expressions.assign(copy, place, key)
            target = copy.target()
        return {
            "match_type": match,
            "name": name,
            "target": target["value"],
            "mask": None,
            "$width": storage_width(kind),
            "$type": kind,
            "$copied": copied,
        }

    # --- actions

    def _actions(self, table: TableInstance) -> list[tuple[tree.ActionRef, Json]]:
        """Returns the actions of a table with their JSON, including the default action."""
        refs = list(table.declaration.actions)
        names = {ref.name for ref in refs}
        if table.declaration.default is None and "NoAction" not in names and self.ctx.no_action is not None:
            at = table.declaration.at
            ref = tree.ActionRef(at, at, "NoAction", True, [], [])
            ref.target = self.ctx.no_action
            refs.append(ref)
        return [(ref, self.action_json(ref)) for ref in refs]

    def action_json(self, ref: tree.ActionRef) -> Json:
        """Returns the JSON of a listed action: binds parameters with a direction; entries supply the others."""
        action = expect(ref.target, tree.Action)
        instance = self.ctx.environment.find(action)
        if not isinstance(instance, ActionInstance):
            instance = ActionInstance(global_name(action), action, self.ctx.program_environment)
        self.ctx.action_uses[instance.name] = ("table", action, self.ctx.block)
        inner = Bindings(instance.environment)
        data: list[Json] = []
        body_path = f"{self.ctx.path}{action.name}_"
        outer = (self.ctx.environment, self.ctx.where, self.ctx.out, self.ctx.path)
        self.ctx.out = []
        callee = Callee(object(), within=instance.environment)
        self.ctx.where = "action"
        places: list[Any] = []
        for parameter, value in zip(action.parameters, ref.bound or [None] * len(action.parameters), strict=True):
            if parameter.direction:
                places.append(self.ctx.expressions.target(value) if value is not None else None)
        self.ctx.path = body_path
        directed = [p for p in action.parameters if p.direction]
        call = tree.Call(ref.at, ref.end, tree.Name(ref.at, ref.end, ref.name), [], [])
        self.ctx.inlining.bind(call, callee, directed, places, inner, action, closed=False)
        for parameter in action.parameters:
            if not parameter.direction:
                width = storage_width(parameter.type)
                inner.bound[parameter] = bmv2.RuntimeData(parameter.type, len(data))
                data.append({"name": parameter.name, "bitwidth": width})
        self.ctx.environment = inner
        self.ctx.callees.append(callee)
        try:
            self.ctx.statements.body_of(action, ref)
        finally:
            self.ctx.callees.pop()
            body = self.ctx.out
            self.ctx.environment, self.ctx.where, self.ctx.out, self.ctx.path = outer
        tail = self.ctx.expressions.collected(lambda: self.ctx.inlining.copy_out(callee, ref))
        return self.add_action(instance.name, data, body, tail, callee.label, action)

    def add_action(
        self, name: str, data: list[Json], body: list[LoweredCode], tail: list[LoweredCode], label: object, at: Any
    ) -> Json:
        """Adds an action to the program; returns its JSON."""
        action: Json = {
            "name": name,
            "id": len(self.ctx.actions),
            "runtime_data": data,
            "$code": (body, tail, label),
        }
        action["source_info"] = at
        self.ctx.actions.append(action)
        return action

    def _default(self, table: TableInstance, item: Json, numbers: dict[str, Json]) -> None:
        declaration = table.declaration
        ref = declaration.default
        name = ref.name if ref is not None else "NoAction"
        action = numbers.get(name)
        if action is None:
            return
        item["default_entry"] = {
            "action_id": action["id"],
            "action_const": declaration.default_constant,
            "action_data": self._action_data(ref, action) if ref is not None else [],
            "action_entry_const": declaration.default_constant,
        }

    def _action_data(self, ref: tree.ActionRef, action: Json) -> list[str]:
        parameters = [p for p in ref.target.parameters if not p.direction]
        values = ref.bound[len(ref.target.parameters) - len(parameters) :]
        action_data = []
        for parameter, value in zip(parameters, values, strict=True):
            number = self.ctx.evaluate(value)
            if number is None:
                raise SourceFault(value.at if value is not None else ref.at, "this must be known when it is compiled")
            place = self.ctx.known(number, parameter.type)
            plain_number = int(place.data["value"], 16) if place.data["type"] == "hexstr" else int(place.data["value"])
            width = storage_width(parameter.type)
            action_data.append(bmv2.hexadecimal(plain_number & ((1 << width) - 1), 4))
        return action_data

    def _entries(self, table: TableInstance, item: Json, keys: list[Json], numbers: dict[str, Json]) -> None:
        declaration = table.declaration
        entries = []
        lines: dict[str, int] = {}
        for position, entry in enumerate(declaration.entries or [], 1):
            values = getattr(entry.keyset, "items", [entry.keyset])
            match = [element_of_entry(self.ctx, value, key) for value, key in zip(values, keys, strict=True)]
            before = lines.setdefault(str(match), position)
            if before != position and item["match_type"] in ("exact", "lpm"):
                message = f"entry {position} matches what entry {before} does, and BMv2 takes only one of them"
                raise SourceFault(entry.at, message, "Take one away.")
            note = next((a for a in entry.annotations if a.name == "priority"), None)
            priority = entry.rank
            if note is not None and note.tokens and note.tokens[0][0] == NUMBER:
                priority = value_of(note.tokens[0])
            if not 0 <= priority <= MOST_PRIORITY:
                raise SourceFault(entry.at, f"a priority is at most {MOST_PRIORITY}, but this is {priority}")
            action = numbers[entry.action.name]
            data = self._action_data(entry.action, action)
            entries.append(
                {
                    "source_info": entry,
                    "match_key": match,
                    "action_entry": {"action_id": action["id"], "action_data": data},
                    "priority": priority,
                }
            )
        item["entries"] = sorted(entries, key=lambda entry: entry["priority"])

    # --- objects attached to a table

    def _implementation(self, table: TableInstance, item: Json, selectors: list[Json]) -> None:
        implementation = table.declaration.properties.get("implementation")
        if implementation is None:
            if selectors:
                hint = "Write implementation = action_selector(HashAlgorithm.crc16, 1024, 16);"
                message = "a 'selector' key is for tables with an action_selector; it is left out"
                self.ctx.diagnostics.warning(selectors[0]["$at"].at, message, hint)
            return
        instance = self._object_of(table, implementation.value, implementation)
        selector = instance.type.name == "action_selector"
        item["type"] = "indirect_ws" if selector else "indirect"
        item["action_profile"] = instance.name
        self.ctx.profile_objects[instance.name] = instance
        size = instance.arguments[1 if selector else 0]
        profile = next((p for p in self.ctx.profiles if p["name"] == instance.name), None)
        if profile is None:
            profile = {
                "name": instance.name,
                "id": len(self.ctx.profiles),
                "source_info": instance.declaration,
                "max_size": size if isinstance(size, int) else 0,
            }
            self.ctx.profiles.append(profile)
        if selector:
            inputs = [
                {"type": "field", "value": json["value"]}
                if json["type"] == "field"
                else self.ctx.externs.copied(json, kind, key["$at"])
                for key in selectors
                for json, _, kind in self.ctx.externs.leaf_values(key["$place"], key["$at"])
            ]
            algorithm = instance.arguments[0]
            made = {"algo": algorithm.name, "input": inputs}
            if "selector" in profile and profile["selector"] != made:
                raise SourceFault(
                    table.declaration.at,
                    f"the tables with {instance.name!r} have different selector keys",
                    "Make them alike.",
                )
            profile["selector"] = made

    def _object_of(self, table: TableInstance, value: tree.Expression, at: Any) -> LoweredInstance:
        """Returns the object that a property names or constructs."""
        if isinstance(value, tree.Call):
            key = (id(table), at.name)
            known: LoweredInstance | None = self.ctx.environment.bound.get(key)
            if known is None:
                kind = expect(value.type, kinds.DeclaredType)
                arguments = [self.ctx.evaluate(v) for v in value.bound]
                note = at.annotation("name")
                name = (note.string if note is not None else None) or f"{table.name}.{at.name}"
                known = LoweredInstance(name.removeprefix("."), kind, arguments, at, value.at)
                self.ctx.environment.bound[key] = known
            return known
        return expect(self.ctx.inlining.object(value), LoweredInstance)

    def _attached(self, table: TableInstance, item: Json) -> None:
        for name in ("counters", "meters"):
            table_property = table.declaration.properties.get(name)
            if table_property is not None:
                instance = self._object_of(table, table_property.value, table_property)
                self._bind_once(instance, table)
                item |= {"with_counters": True} if name == "counters" else {"direct_meters": instance.name}

    def _bind_once(self, instance: LoweredInstance, table: TableInstance) -> None:
        before = instance.extra.get("binding")
        if before not in (None, table.name):
            raise SourceFault(
                table.declaration.at, f"{instance.name!r} is attached to two tables: {before} and this one"
            )
        instance.extra["binding"] = table.name
        instance.extra["size"] = (table.json or {}).get("max_size")
        if instance not in self.ctx.direct:
            self.ctx.direct.append(instance)


def _match_type(keys: list[Json]) -> str:
    match_kinds = {key["match_type"] for key in keys}
    return next((kind for kind in ("range", "ternary", "lpm") if kind in match_kinds), "exact")


def global_name(action: tree.Action) -> str:
    """Returns the name of an action at the top level of a program."""
    return action.shown.removeprefix(".")
