"""Checks of statements (P4_16 specification, section 12)."""

from typing import Any

from p4switch.p4.syntax.tree import (
    Assign,
    Block,
    Call,
    CallStatement,
    Constant,
    Declaration,
    Default,
    Empty,
    Exit,
    For,
    ForIn,
    If,
    Instance,
    LeaveLoop,
    Member,
    Name,
    Return,
    Slice,
    Statement,
    Switch,
    Variable,
)
from p4switch.p4.types.base import (
    Environment,
    Part,
    describes_instance,
    may_be_constant,
    near,
)
from p4switch.p4.types.calls import Calls
from p4switch.p4.types.expressions import Expressions
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
    DeclaredType,
    EnumType,
    Type,
    plain,
)


class Statements(Part):
    """Checks statements."""

    def __init__(self, env: Environment, expressions: Expressions, calls: Calls) -> None:
        super().__init__(env)
        self._expressions = expressions
        self._coerce = expressions.coercion.coerce
        self._resolve = expressions.resolver.resolve
        self._construct = calls.construct

    def check_block(self, block: Block) -> None:
        """A block with a scope of its own."""
        with self.env.inner_scope():
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
                if not self.env.loops:
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
                if self.env.context in ("state", "function"):
                    where = "a parser" if self.env.context == "state" else "a function"
                    hint = "Use 'transition reject', or verify(…)." if self.env.context == "state" else "Use 'return'."
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

    def _condition(self, item: If | For) -> Any:
        kind = self._expressions.check(item.condition)
        if isinstance(kind, ApplyResult):
            self.error(item.condition.at, "the result of apply() is no bool", "Write .apply().hit or .apply().miss.")
            return item.condition
        return self._coerce(item.condition, BOOL, "a condition is")

    def _assign(self, item: Assign) -> None:
        place = self._expressions.check_place(item.left, "the left side")
        if isinstance(place, DeclaredType):
            self.error(item.at, f"{place} is an object, which cannot be assigned to")
            place = UNKNOWN
        kind = self._expressions.check(item.right)
        if kind is VOID:
            self.error(item.right.at, "this call gives nothing that could be assigned")
            return
        if isinstance(kind, ApplyResult):
            self.error(item.right.at, "the result of apply() cannot be kept", "Keep .apply().hit, a bool.")
            return
        what = f"{_shown(item.left)} is"
        item.right = self._coerce(item.right, place, what)

    def _call_statement(self, item: CallStatement) -> None:
        call = item.call
        kind = self._expressions.check(call)
        if (
            isinstance(kind, DeclaredType)
            and not isinstance(kind.declaration, type(None))
            and call.target is kind.declaration
        ):
            self.error(item.at, f"an instance of {kind} needs a name", f"Write {kind}(…) name;")

    def _return(self, item: Return) -> None:
        if self.env.context == "state":
            self.error(item.at, "'return' cannot stand in a parser's state", "Use 'transition accept'.")
            return
        if item.value is None:
            if self.env.result is not None and self.env.result is not VOID:
                self.error(item.at, f"this function returns {self.env.result}", "Write 'return value;'.")
            return
        self._expressions.check(item.value)
        if self.env.context != "function" or self.env.result is None or self.env.result is VOID:
            self.error(item.at, "nothing is returned here", "Write 'return;', and assign to an 'out' parameter before.")
            return
        item.value = self._coerce(item.value, self.env.result, "this function returns")

    def _switch(self, item: Switch) -> None:
        if self.env.context == "action":
            hint = "Write if … else if, or move the switch to the apply block."
            self.error(item.at, "a switch stands in controls, not in actions", hint)
        subject = self._expressions.check(item.subject)
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
        case.label = self._expressions.checked(case.label, subject, "the labels of this switch are")
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
                if self.env.context:
                    hint = "Put it into the control or parser, before 'apply' or the states."
                    self.error(declaration.at, f"the instance {declaration.name!r} is declared among statements", hint)
                self.check_instance(declaration)
                return
        self.env.declare(declaration)

    def _variable(self, declaration: Variable) -> None:
        kind = self._resolve(declaration.ref)
        if describes_instance(kind):
            hint = f"Write {kind}(…) {declaration.name};"
            self.error(declaration.at, f"{kind} is not the type of a variable, but of an instance", hint)
            kind = UNKNOWN
        elif isinstance(kind, Basic) and kind.name in ("void", "match_kind", "string", "int"):
            hint = "Give it a width: bit<32> or int<32>." if kind is INTEGER else ""
            self.error(declaration.at, f"there are no variables of the type {kind}", hint)
            kind = UNKNOWN
        declaration.type = kind
        if declaration.initial is not None:
            self._expressions.check(declaration.initial)
            if declaration.initial.type is VOID:
                self.error(declaration.initial.at, "this call gives nothing that could be assigned")
            else:
                declaration.initial = self._coerce(declaration.initial, kind, f"{declaration.name} is")

    def check_constant(self, declaration: Constant) -> None:
        """A constant: its type and its value."""
        kind = declaration.type = self._resolve(declaration.ref)
        declaration.initial = self._expressions.checked(declaration.initial, kind, f"{declaration.name} is")
        if declaration.initial.value is not None or declaration.initial.type is UNKNOWN:
            return
        if self.env.program is None or not may_be_constant(declaration.initial, {}):
            message = f"the value of the constant {declaration.name!r} is not known when the program is compiled"
            self.error(declaration.initial.at, message, "Leave out 'const'.")

    def check_instance(self, declaration: Instance) -> None:
        """An instance of an extern, parser, control or package."""
        kind = self._resolve(declaration.ref)
        for argument in declaration.arguments:
            if argument.value is not None:
                self._expressions.check(argument.value)
        made = Call(declaration.at, declaration.end, Name(declaration.ref.at, declaration.ref.end, str(kind)), [], [])
        declaration.type = self._construct(made, kind, declaration.arguments, declaration.ref.at)
        declaration.bound = made.bound
        for member in declaration.members or ():
            self.error(member.at, "abstract methods are not taken: BMv2 has no extern that has them")
        self.env.declare(declaration)


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
