"""Checks of statements (P4_16 specification, section 12)."""

from collections.abc import Sequence
from typing import Any

from p4switch.p4.syntax.tree import (
    Action,
    Argument,
    Assign,
    Block,
    Call,
    CallStatement,
    Constant,
    Declaration,
    Default,
    Empty,
    Exit,
    Expression,
    Extern,
    For,
    ForIn,
    Function,
    If,
    Instance,
    LeaveLoop,
    Member,
    Name,
    Package,
    Program,
    Return,
    Slice,
    Statement,
    Switch,
    Table,
    TypeName,
    Variable,
)
from p4switch.p4.types.base import near, what_is
from p4switch.p4.types.expressions import ConstructorChecker, fits, pairs_of, signature
from p4switch.p4.types.kinds import (
    BOOL,
    ERROR,
    INTEGER,
    UNKNOWN,
    VOID,
    ActionRun,
    ApplyResult,
    Basic,
    Bits,
    CompositeType,
    DeclaredType,
    EnumType,
    StackType,
    TupleType,
    Type,
    Unifier,
    Varbits,
    bits,
    plain,
    width_of,
)

# Types of calls (P4_16 specification, sections 6.8, 8.19 to 8.22, 12.6).


SIZES = {"minSizeInBits": (0, 1), "minSizeInBytes": (0, 8), "maxSizeInBits": (1, 1), "maxSizeInBytes": (1, 8)}
_ON_HEADERS = ("isValid", "setValid", "setInvalid", *SIZES)


class CallChecker(ConstructorChecker):
    """Checks calls."""

    def check_call(self, node: Call) -> Type:
        """See ExpressionChecker."""
        callee = node.callee
        for argument in node.arguments:
            if argument.value is not None:
                self.check(argument.value)
        node.effects = True
        if isinstance(callee, TypeName):
            kind = self.resolve(callee.ref)
            return UNKNOWN if kind is UNKNOWN else self.construct(node, kind, node.arguments, callee.at)
        if isinstance(callee, Name):
            return self._call_name(node, callee)
        if isinstance(callee, Member):
            return self._call_member(node, callee)
        self.error(callee.at, "this cannot be called")
        return UNKNOWN

    # --- by name

    def _call_name(self, node: Call, callee: Name) -> Type:
        target = self._target_of(callee)
        match target:
            case None:
                return UNKNOWN
            case list():
                return self._call_function(node, target, callee.name)
            case Action():
                return self._call_action(node, target)
            case Extern() | Program() | Package():
                arguments = tuple(self.resolve(t) for t in node.types)
                kind = self.type_of_target(target, arguments, callee)  # type: ignore[arg-type]
                return self.construct(node, kind or UNKNOWN, node.arguments, callee.at)
            case Table():
                self.error(callee.at, f"{callee.name!r} is a table", f"Apply it: {callee.name}.apply().")
                return UNKNOWN
        hint = ""
        if isinstance(getattr(target, "type", None), DeclaredType) and target.type.kind in ("control", "parser"):
            hint = f"Apply it: {callee.name}.apply(…)."
        self.error(callee.at, f"{callee.name!r} is {what_is(target)} and cannot be called", hint)
        return UNKNOWN

    def _call_action(self, node: Call, action: Action) -> Type:
        node.target = action
        if self.context == "state":
            self.error(node.at, f"the action {action.name!r} is called in a parser", "Write its statements here.")
        elif self.context == "function":
            self.error(node.at, f"the action {action.name!r} is called in a function")
        node.bound = self.bind(node.at, f"the action {action.name!r}", action.parameters, node.arguments, {})
        return VOID

    def _call_function(self, node: Call, overloads: Sequence[Function], name: str) -> Type:
        function = self._overload(overloads, node.arguments)
        if function is None:
            counts = " or ".join(str(len(f.parameters)) for f in overloads)
            self.error(
                node.at, f"{name!r} takes {counts} arguments, not {len(node.arguments)}", signature(overloads[0])
            )
            return UNKNOWN
        node.target = function
        found = self.call_with_types(node, f"{name!r}", function, {})
        if name == "static_assert" and node.bound and node.bound[0] is not None:
            self._static_assert(node, node.bound[0])
        return found

    def _static_assert(self, node: Call, condition: Expression) -> None:
        node.effects = False
        node.value = True
        if condition.value is None:
            self.error(condition.at, "the condition of static_assert must be known when the program is compiled")
        elif not condition.value:
            text = node.bound[1].value if len(node.bound) > 1 and node.bound[1] is not None else ""
            self.error(node.at, f"static_assert failed{': ' + text if text else ''}")

    def _overload(self, overloads: Sequence[Function], arguments: Sequence[Argument]) -> Function | None:
        """The function that the arguments fit by number and names; of several that with the fewest parameters."""
        able = [f for f in overloads if fits(f.parameters, arguments)]
        return min(able, key=lambda f: len(f.parameters)) if able else None

    def call_with_types(self, node: Call, what: str, function: Function, known: dict[Any, Any]) -> Type:
        """Finds the type arguments of a call and binds its arguments."""
        unifier = Unifier(self.types, function.type_variables)
        if node.types:
            given = [self.resolve(t) for t in node.types]
            if len(given) != len(function.type_variables):
                self.error(node.at, f"{what} takes {len(function.type_variables)} type arguments, not {len(given)}")
                return UNKNOWN
            pairs = zip(function.type_variables, given, strict=True)
            unifier.found = {variable: kind for variable, kind in pairs if kind is not UNKNOWN}
        for parameter, argument in pairs_of(function.parameters, node.arguments):
            if argument.value is not None and argument.value.type is not None:
                unifier.unify(self.types.substitute(parameter.type, known), argument.value.type)
        self._width_of_numbers(node, unifier, function)
        unknown = [v for v in function.type_variables if unifier.found.get(v) is None]
        result = function.result_type
        if unknown and any(v is result for v in unknown):
            self.error(node.at, f"{what}: its type does not follow from its arguments", "Give it: f<bit<8>>(…).")
            return UNKNOWN
        found = known | unifier.found
        node.type_arguments = found
        node.bound = self.bind(node.at, what, function.parameters, node.arguments, found)
        return self.types.substitute(result, found)

    def _width_of_numbers(self, node: Call, unifier: Unifier, function: Function) -> None:
        """A type that only follows from numbers of no width stays ``int``, which no field can hold."""
        for variable, kind in unifier.found.items():
            if kind is not INTEGER:
                continue
            for parameter in function.parameters:
                if parameter.type is variable and parameter.direction != "":
                    for other in unifier.found.values():
                        if isinstance(other, type(bits(1))) and function.name in ("hash", "random"):
                            unifier.found[variable] = other
                            return
                    self.error(
                        node.at, f"{function.name!r} needs numbers with a width here", "Write 16w5 instead of 5."
                    )
                    unifier.found[variable] = UNKNOWN
                    return

    # --- of something

    def _call_member(self, node: Call, callee: Member) -> Type:
        if isinstance(callee.base, Name) and callee.name == "apply":
            target = (self.globals if callee.base.rooted else self.scope).find(callee.base.name)
            if isinstance(target, Program):
                callee.base.target = target
                callee.base.type = target.type
                if target.constructor:
                    self.error(node.at, f"{target.name!r} has constructor parameters; declare an instance of it first")
                    return UNKNOWN
                return self._apply_program(node, target)
        base = plain(self.check(callee.base))
        name = callee.name
        match base:
            case DeclaredType(kind="extern"):
                return self._call_method(node, base, name)
            case DeclaredType(kind="table") if name == "apply":
                return self._apply_table(node, base.declaration)
            case DeclaredType(kind="control" | "parser") if name == "apply":
                return self._apply_program(node, base.declaration)
            case CompositeType(kind="header" | "header_union") if name in _ON_HEADERS:
                return self._call_on_header(node, callee, base)
            case StackType() if name in ("push_front", "pop_front"):
                return self._shift_stack(node, callee)
        if name in SIZES and not isinstance(base, DeclaredType):
            return self._size(node, base, name)
        if base is UNKNOWN:
            return UNKNOWN
        hint = ""
        if isinstance(base, DeclaredType):
            hint = near(name, ["apply"]) if base.kind != "extern" else ""
        elif isinstance(base, CompositeType):
            hint = near(name, _ON_HEADERS) if base.kind != "struct" else "Only its headers have methods."
        self.error(node.at, f"{base} has no method {name!r}", hint)
        return UNKNOWN

    def _size(self, node: Call, base: Type, name: str) -> Type:
        node.effects = False
        node.target = name
        width = width_of(base)
        if width is None:
            self.error(node.at, f"{base} has no size")
            return UNKNOWN
        greatest, unit = SIZES[name]
        least = width if greatest else width - _varying(base)
        node.value = -(-least // unit)
        return INTEGER

    def _call_on_header(self, node: Call, callee: Member, base: CompositeType) -> Type:
        node.target = callee.name
        if node.arguments:
            self.error(node.at, f"{callee.name!r} takes no arguments")
        if callee.name in SIZES:
            return self._size(node, base, callee.name)
        if callee.name == "isValid":
            node.effects = callee.base.effects
            return BOOL
        if base.kind == "header_union":
            self.error(node.at, f"a header union has no {callee.name!r}", "Call it on one of its headers.")
            return UNKNOWN
        self.check_place(callee.base, "this header")
        return VOID

    def _shift_stack(self, node: Call, callee: Member) -> Type:
        node.target = callee.name
        self.check_place(callee.base, "this stack")
        if len(node.arguments) != 1 or node.arguments[0].value is None:
            self.error(node.at, f"{callee.name!r} takes one argument: by how many elements")
        elif self.constant(node.arguments[0].value, f"the count of {callee.name!r}") is not None:
            node.bound = [node.arguments[0].value]
            if node.arguments[0].value.value < 0:
                self.error(node.at, f"{callee.name!r} by a negative number")
        return VOID

    def _call_method(self, node: Call, base: DeclaredType, name: str) -> Type:
        extern: Extern = base.declaration
        overloads = [m for m in extern.methods if m.name == name and m.result is not None]
        if not overloads:
            methods = sorted({m.name for m in extern.methods if m.result is not None})
            self.error(node.at, f"{extern.name!r} has no method {name!r}", near(name, methods))
            return UNKNOWN
        function = self._overload(overloads, node.arguments)
        if function is None:
            counts = " or ".join(str(len(f.parameters)) for f in overloads)
            what = f"{extern.name}.{name}"
            self.error(
                node.at, f"{what!r} takes {counts} arguments, not {len(node.arguments)}", signature(overloads[0])
            )
            return UNKNOWN
        node.target = function
        known = dict(zip(extern.type_variables, base.arguments, strict=False))
        known = {variable: kind for variable, kind in known.items() if kind is not variable}
        return self.call_with_types(node, f"{extern.name}.{name}", function, known)

    def _apply_table(self, node: Call, table: Table) -> Type:
        node.target = table
        if node.arguments:
            self.error(node.at, "a table is applied without arguments")
        if self.context != "apply":
            where = {"action": "an action", "state": "a parser", "function": "a function"}.get(self.context, "here")
            self.error(
                node.at, f"the table {table.name!r} is applied in {where}", "Tables are applied in 'apply' blocks."
            )
        return ApplyResult(table)

    def _apply_program(self, node: Call, program: Program) -> Type:
        node.target = program
        wanted = {"apply": "control", "state": "parser"}.get(self.context)
        if wanted is None or (wanted != program.kind):
            where = {"action": "an action", "state": "a parser's state", "function": "a function"}
            place = where.get(self.context, "a control")
            self.error(node.at, f"the {program.kind} {program.name!r} is applied in {place}")
            return UNKNOWN
        node.bound = self.bind(node.at, f"the {program.kind} {program.name!r}", program.parameters, node.arguments, {})
        return VOID

    # --- constructors

    # --- arguments


def _varying(kind: Type) -> int:
    """Bits of a type that may be missing: those of its fields of variable length."""
    match kind:
        case Varbits(width):
            return width
        case CompositeType(kind="header_union"):
            return (width_of(kind) or 0) - min((width_of(f) or 0) - _varying(f) for f in kind.fields.values())
        case CompositeType():
            return sum(_varying(f) for f in kind.fields.values())
        case StackType(element, size):
            return size * _varying(element)
        case TupleType(elements):
            return sum(_varying(e) for e in elements)
    return 0


class StatementChecker(CallChecker):
    """Checks statements."""

    def check_block(self, block: Block) -> None:
        """A block with a scope of its own."""
        with self.inner_scope():
            for item in block.items:
                self.check_item(item)

    def check_item(self, item: Any) -> None:
        """A statement or a declaration among statements."""
        match item:
            case Assign():
                self._assign(item)
            case CallStatement():
                self._call_statement(item)
            case For():
                self._loop(item)
            case ForIn():
                hint = "Write for (T i = …; …; …) { … }: as with p4c, those are made of jumps."
                self.error(item.at, "'for … in' is not taken: the target has no such loops", hint)
            case LeaveLoop():
                if not self.loops:
                    self.error(item.at, f"{item.word!r} stands outside of a loop", "Use 'return', or if … else.")
            case If():
                item.condition = self._condition(item)
                self.check_item(item.yes)
                if item.no is not None:
                    self.check_item(item.no)
            case Block():
                self.check_block(item)
            case Return():
                self._return(item)
            case Exit():
                if self.context in ("state", "function"):
                    where = "a parser" if self.context == "state" else "a function"
                    hint = "Use 'transition reject', or verify(…)." if self.context == "state" else "Use 'return'."
                    self.error(item.at, f"'exit' cannot stand in {where}", hint)
            case Switch():
                self._switch(item)
            case Empty():
                pass
            case Declaration():
                self.check_local(item)
            case Statement():
                pass

    def _loop(self, item: For) -> None:
        if self.context == "state":
            self.error(item.at, "a loop cannot stand in a parser's state", "A state may go back to itself.")
            return
        with self.inner_scope():
            for statement in item.initial:
                self.check_item(statement)
            item.condition = self._condition(item)
            for statement in item.updates:
                self.check_item(statement)
            self.loops += 1
            self.check_item(item.body)
            self.loops -= 1

    def _condition(self, item: If | For) -> Any:
        kind = self.check(item.condition)
        if isinstance(kind, ApplyResult):
            self.error(item.condition.at, "the result of apply() is no bool", "Write .apply().hit or .apply().miss.")
            return item.condition
        return self.coerce(item.condition, BOOL, "a condition is")

    def _assign(self, item: Assign) -> None:
        place = self.check_place(item.left, "the left side")
        if isinstance(place, DeclaredType):
            self.error(item.at, f"{place} is an object, which cannot be assigned to")
            place = UNKNOWN
        kind = self.check(item.right)
        if kind is VOID:
            self.error(item.right.at, "this call gives nothing that could be assigned")
            return
        if isinstance(kind, ApplyResult):
            self.error(item.right.at, "the result of apply() cannot be kept", "Keep .apply().hit, a bool.")
            return
        what = f"{_shown(item.left)} is"
        item.right = self.coerce(item.right, place, what)

    def _call_statement(self, item: CallStatement) -> None:
        call = item.call
        kind = self.check(call)
        if (
            isinstance(kind, DeclaredType)
            and not isinstance(kind.declaration, type(None))
            and call.target is kind.declaration
        ):
            self.error(item.at, f"an instance of {kind} needs a name", f"Write {kind}(…) name;")

    def _return(self, item: Return) -> None:
        if self.context == "state":
            self.error(item.at, "'return' cannot stand in a parser's state", "Use 'transition accept'.")
            return
        if item.value is None:
            if self.result is not None and self.result is not VOID:
                self.error(item.at, f"this function returns {self.result}", "Write 'return value;'.")
            return
        self.check(item.value)
        if self.context != "function" or self.result is None or self.result is VOID:
            self.error(item.at, "nothing is returned here", "Write 'return;', and assign to an 'out' parameter before.")
            return
        item.value = self.coerce(item.value, self.result, "this function returns")

    def _switch(self, item: Switch) -> None:
        if self.context == "action":
            hint = "Write if … else if, or move the switch to the apply block."
            self.error(item.at, "a switch stands in controls, not in actions", hint)
        subject = self.check(item.subject)
        if isinstance(subject, ApplyResult):
            self.error(item.subject.at, "what is switched on is .action_run", "Write t.apply().action_run.")
            subject = UNKNOWN
        seen: set[object] = set()
        for position, case in enumerate(item.cases):
            if isinstance(case.label, Default):
                if position != len(item.cases) - 1:
                    self.error(case.at, "'default' must be the last case")
                case.label.type = subject
            elif isinstance(subject, ActionRun):
                self._action_label(case.label, subject, seen)
            elif subject is not UNKNOWN:
                self._value_label(case, subject, seen)
            if case.body is not None:
                self.check_block(case.body)

    def _action_label(self, label: Any, subject: ActionRun, seen: set[object]) -> None:
        names = {ref.name: ref for ref in subject.table.actions}
        if not isinstance(label, Name) or label.name not in names:
            shown = label.name if isinstance(label, Name) else "this"
            self.error(label.at, f"{shown!r} is no action of the table {subject.table.name!r}", near(shown, names))
            return
        if label.name in seen:
            self.error(label.at, f"the action {label.name!r} has two cases")
        seen.add(label.name)
        label.target, label.type = names[label.name], subject

    def _value_label(self, case: Any, subject: Type, seen: set[object]) -> None:
        kind = plain(subject)
        if not isinstance(kind, Bits | EnumType) and kind not in (ERROR, INTEGER):
            self.error(case.label.at, f"'switch' goes by numbers, enums or a table's action_run, not by {subject}")
            return
        case.label = self.checked(case.label, subject, "the labels of this switch are")
        if case.label.value is None:
            if case.label.type is not UNKNOWN:
                self.error(case.label.at, "the label of a case must be known when the program is compiled")
            return
        if case.label.value in seen:
            self.error(case.label.at, "two cases of this switch have this label")
        seen.add(case.label.value)

    # --- declarations among statements

    def check_local(self, declaration: Declaration) -> None:
        """A variable, a constant or an instance."""
        match declaration:
            case Variable():
                self._variable(declaration)
            case Constant():
                self.check_constant(declaration)
            case Instance():
                if self.context:
                    hint = "Put it into the control or parser, before 'apply' or the states."
                    self.error(declaration.at, f"the instance {declaration.name!r} is declared among statements", hint)
                self.check_instance(declaration)
                return
        self.declare(declaration)

    def _variable(self, declaration: Variable) -> None:
        kind = self.resolve(declaration.ref)
        if self.describes_instance(kind):
            hint = f"Write {kind}(…) {declaration.name};"
            self.error(declaration.at, f"{kind} is not the type of a variable, but of an instance", hint)
            kind = UNKNOWN
        elif isinstance(kind, Basic) and kind.name in ("void", "match_kind", "string", "int"):
            hint = "Give it a width: bit<32> or int<32>." if kind is INTEGER else ""
            self.error(declaration.at, f"there are no variables of the type {kind}", hint)
            kind = UNKNOWN
        declaration.type = kind
        if declaration.initial is not None:
            self.check(declaration.initial)
            if declaration.initial.type is VOID:
                self.error(declaration.initial.at, "this call gives nothing that could be assigned")
            else:
                declaration.initial = self.coerce(declaration.initial, kind, f"{declaration.name} is")

    def check_constant(self, declaration: Constant) -> None:
        """A constant: its type and its value."""
        kind = declaration.type = self.resolve(declaration.ref)
        declaration.initial = self.checked(declaration.initial, kind, f"{declaration.name} is")
        if declaration.initial.value is None and declaration.initial.type is not UNKNOWN:
            from p4switch.p4.types.base import may_be_constant  # noqa: PLC0415

            if self.program is None or not may_be_constant(declaration.initial, {}):
                self.error(
                    declaration.initial.at,
                    f"the value of the constant {declaration.name!r} is not known when the program is compiled",
                    "Leave out 'const'.",
                )

    def check_instance(self, declaration: Instance) -> None:
        """An instance of an extern, parser, control or package."""
        kind = self.resolve(declaration.ref)
        for argument in declaration.arguments:
            if argument.value is not None:
                self.check(argument.value)
        made = Call(declaration.at, declaration.end, Name(declaration.ref.at, declaration.ref.end, str(kind)), [], [])
        declaration.type = self.construct(made, kind, declaration.arguments, declaration.ref.at)
        declaration.bound = made.bound
        for member in declaration.members or ():
            self.error(member.at, "abstract methods are not taken: BMv2 has no extern that has them")
        self.declare(declaration)


def _shown(node: Any) -> str:
    """A left side in words."""
    match node:
        case Name():
            return str(node.name)
        case Member():
            return f"{_shown(node.base)}.{node.name}"
        case Slice():
            return f"{_shown(node.base)}[…]"
    return "the left side"
