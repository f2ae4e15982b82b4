"""Checks of declarations, parsers and controls (P4_16 specification, sections 7.2, 10, 13, 15 to 17)."""

from typing import Any

from p4switch.p4.diagnostics import (
    Diagnostics,
)
from p4switch.p4.syntax import tree
from p4switch.p4.types import kinds
from p4switch.p4.types.base import (
    CheckerPart,
    CheckerState,
    describes_instance,
    near,
)
from p4switch.p4.types.calls import CallCheck
from p4switch.p4.types.expressions import ExpressionCheck
from p4switch.p4.types.statements import Selects, StatementCheck, TableCheck

# Whether a parser can end, and whether a statement can end without ``return``.


def comes_to_an_end(states: dict[str, tree.State]) -> bool:
    """Returns whether some path from ``start`` leaves the parser's states."""
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
    """Returns whether every path through a statement reaches ``return`` or ``exit``."""
    match node:
        case tree.Return() | tree.Exit():
            return True
        case tree.Block():
            return any(always_returns(item) for item in node.items)
        case tree.If():
            return node.no is not None and always_returns(node.yes) and always_returns(node.no)
        case tree.Switch():
            bodies = [case.body for case in node.cases if case.body is not None]
            has_default = any(isinstance(case.label, tree.Default) for case in node.cases)
            falls_out = not node.cases or node.cases[-1].body is None  # the last label has no block: nothing runs
            return has_default and not falls_out and all(always_returns(body) for body in bodies)
    return False


# Declarations, parsers and controls.


class Checker(CheckerPart):
    """Checks a whole program."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        super().__init__(CheckerState(diagnostics))
        self._expressions = ExpressionCheck(self.env, lambda call: self._calls.check_call(call))  # noqa: PLW0108 (made below)
        self._calls = CallCheck(self.env, self._expressions)
        self._statements = StatementCheck(self.env, self._expressions, self._calls)
        self._tables = TableCheck(self.env, self._calls, self._expressions, self._statements)
        self._selects = Selects(self.env, self._expressions, self._tables)
        self._resolve = self._expressions.resolver.resolve
        self.check = self._expressions.check
        """Returns the type of an expression, and stores it in the node; UNKNOWN after an error."""

    def check_declaration(self, item: tree.Declaration) -> None:
        """Checks a declaration at the top level."""
        match item:
            case tree.Enumeration(kind="error"):
                self._members(item, self.env.errors, kinds.ERROR)
            case tree.Enumeration(kind="match_kind"):
                self._members(item, self.env.match_kinds, kinds.MATCH_KIND)
            case tree.Enumeration():
                self._enum(item)
                self.env.declare(item)
            case tree.Composite():
                self._composite(item)
                self.env.declare(item)
            case tree.Alias():
                self._alias(item)
                self.env.declare(item)
            case tree.Constant():
                self._statements.check_constant(item)
                self.env.declare(item)
            case tree.Extern():
                self._extern(item)
            case tree.Function():
                self._function(item)
            case tree.Action():
                self._tables.check_action(item)
                self.env.declare(item)
            case tree.Program():
                self._program(item)
            case tree.Package():
                self._package(item)
                self.env.declare(item)
            case tree.Instance():
                self._statements.check_instance(item)
                if isinstance(item.type, kinds.DeclaredType) and item.type.kind in ("parser", "control"):
                    hint = (
                        f"Write it in the control or parser that applies it, or give it to the package: {item.type}()."
                    )
                    self.error(item.at, f"a {item.type.kind} cannot be instantiated at the top level", hint)

    # --- types

    def _members(self, item: tree.Enumeration, known: dict[str, Any], kind: kinds.Type) -> None:
        item.type = kind
        for member in item.members:
            if member.name in known:
                self.error(member.at, f"{item.kind}.{member.name} is declared twice")
                continue
            member.number = len(known)
            known[member.name] = member

    def _enum(self, item: tree.Enumeration) -> None:
        base = self._resolve(item.ref) if item.ref is not None else None
        bare = kinds.plain(base) if base is not None else None
        if base is not None and not isinstance(bare, kinds.Bits):
            if base is not kinds.UNKNOWN:
                self.error(item.at, f"the enum {item.name!r} is represented by a number with a width, not by {base}")
            bare = None
        members: dict[str, Any] = {}
        for number, member in enumerate(item.members):
            member.number = number
            if member.name in members:
                self.error(member.at, f"{item.name}.{member.name} is declared twice")
            members[member.name] = member
            if isinstance(bare, kinds.Bits):
                if member.initial is None:
                    self.error(member.at, f"{item.name}.{member.name} needs a value", f"Write {member.name} = 0.")
                else:
                    member.initial = self._expressions.checked(member.initial, bare, f"{item.name}.{member.name} is")
            elif member.initial is not None:
                hint = f"Write enum bit<8> {item.name} {{ … }}."
                self.error(member.at, f"the enum {item.name!r} has values, but no width", hint)
        if not item.members:
            self.error(item.at, f"the enum {item.name!r} has no members")
        item.type = kinds.EnumType(item.name, item, bare if isinstance(bare, kinds.Bits) else None, members)

    def _composite(self, item: tree.Composite) -> None:
        variables = tuple(kinds.variables(item.parameters))
        fields: dict[str, kinds.Type] = {}
        with self.env.inner_scope(variables):
            for field in item.fields:
                kind = self._resolve(field.ref)
                if field.name in fields:
                    self.error(field.at, f"the {item.kind} {item.name!r} has two fields {field.name!r}")
                    continue
                fields[field.name] = kind
                self._field_kind(item, field, kind)
        item.type = self.env.types.composite(item, variables, fields)
        if item.kind == "header":
            self._whole_bytes(item, fields)

    def _field_kind(self, item: tree.Composite, field: Any, kind: kinds.Type) -> None:
        bare = kinds.plain(kind)
        if kind is kinds.UNKNOWN or isinstance(kind, kinds.TypeVariable):
            return
        name = f"the field {field.name!r} of the {item.kind.replace('_', ' ')} {item.name!r}"
        if item.kind == "header_union":
            if not kinds.is_header(bare):
                self.error(field.at, f"{name} is {kind}; a header union is made of headers")
            return
        if isinstance(bare, kinds.Bits | kinds.Varbits) and bare.width == 0:
            self.error(field.at, f"{name} has no bits: the target has no field of width 0", "Leave it out.")
        if describes_instance(kind) or kind in (kinds.VOID, kinds.STRING, kinds.MATCH_KIND, kinds.INTEGER):
            self.error(
                field.at, f"{name} cannot be {kind}", "Give it a width: bit<8>." if kind is kinds.INTEGER else ""
            )
        elif item.kind == "header":
            inner = isinstance(bare, kinds.CompositeType) and bare.kind == "struct"
            number = isinstance(bare, kinds.Bits | kinds.Varbits) or (
                isinstance(bare, kinds.EnumType) and bare.base is not None
            )
            if not number and bare is not kinds.BOOL and not inner:
                hint = "A header holds numbers, bools and structs of them."
                hint = "Give the enum a width: enum bit<8> …" if isinstance(bare, kinds.EnumType) else hint
                self.error(field.at, f"{name} cannot be {kind}", hint)

    def _whole_bytes(self, item: tree.Composite, fields: dict[str, kinds.Type]) -> None:
        varying = [name for name, kind in fields.items() if isinstance(kinds.plain(kind), kinds.Varbits)]
        if len(varying) > 1:
            self.error(
                item.at, f"the header {item.name!r} has {len(varying)} fields of variable length; it may have one"
            )
        widths = [kinds.width_of(kind) for kind in fields.values()]
        if any(w is None for w in widths):
            return
        total = sum(w for w in widths if w is not None)
        if total % 8:
            hint = f"Add a field of {8 - total % 8} bits, or make one of them wider."
            self.env.diagnostics.warning(
                item.at, f"the header {item.name!r} has {total} bits, which are no whole bytes", hint
            )

    def _alias(self, item: tree.Alias) -> None:
        if isinstance(item.ref, tree.Composite | tree.Enumeration):
            self.check_declaration(item.ref)
            kind: kinds.Type = item.ref.type
        else:
            kind = self._resolve(item.ref)
        note = item.annotation("p4runtime_translation")
        told = note.tokens[2] if note is not None and len(note.tokens) > 2 else ("", "", 0)
        if note is not None and told[1] not in ("string", "bit") and told[0] != "number":
            hint = 'Write @p4runtime_translation("URI", string), or bit<32>, or a number of bits.'
            self.error(note.at, "@p4runtime_translation takes a URI and what the control plane sends", hint)
        if item.new and kind is not kinds.UNKNOWN:
            bare = kinds.plain(kind)
            if not isinstance(bare, kinds.Bits) and bare is not kinds.BOOL:
                self.error(item.at, f"'type' gives a new name to a number or bool, not to {kind}", "Use 'typedef'.")
            item.type = kinds.NewType(item.name, item, kind)
        else:
            item.type = kind

    # --- functions and externs

    def _extern(self, item: tree.Extern) -> None:
        item.type_variables = kinds.variables(item.types)
        item.type = self.env.types.declared("extern", item, tuple(item.type_variables))
        self.env.declare(item)
        with self.env.inner_scope(item.type_variables):
            for method in item.methods:
                self._signature_of(method)
                if method.result is None and method.name != item.name:
                    self.error(method.at, f"the constructor of {item.name!r} has its name")

    def _signature_of(self, item: tree.Function) -> None:
        item.type_variables = kinds.variables(item.types)
        with self.env.inner_scope(item.type_variables):
            item.result_type = self._resolve(item.result) if item.result is not None else kinds.VOID
            self.parameters(item.parameters)

    def parameters(self, parameters: list[tree.Parameter]) -> None:
        """Resolves the types of parameters; reports duplicate names and wrong types."""
        seen: set[str] = set()
        for parameter in parameters:
            parameter.type = self._resolve(parameter.ref)
            if parameter.name in seen:
                self.error(parameter.at, f"two parameters are called {parameter.name!r}")
            seen.add(parameter.name)
            if parameter.default is not None:
                parameter.default = self._expressions.checked(parameter.default, parameter.type, f"{parameter.name} is")
            if parameter.direction and parameter.type is kinds.INTEGER:
                self.error(parameter.at, f"the parameter {parameter.name!r} has no width", "Write bit<32> or int<32>.")
            if parameter.direction and describes_instance(parameter.type):
                hint = "Leave the direction out."
                self.error(parameter.at, f"{parameter.type} is an object: the parameter has no direction", hint)

    def _function(self, item: tree.Function) -> None:
        self._signature_of(item)
        before = self.env.scope.names.get(item.name)
        if isinstance(before, list) and any(len(f.parameters) == len(item.parameters) for f in before):
            self.error(item.at, f"the function {item.name!r} is declared twice with {len(item.parameters)} parameters")
        if item.body is not None:
            outer, self.env.context, self.env.result = self.env.context, "function", item.result_type
            with self.env.inner_scope(item.type_variables):
                for parameter in item.parameters:
                    self.env.declare(parameter)
                self._statements.check_block(item.body)
            self.env.context, self.env.result = outer, None
            if item.result_type not in (kinds.VOID, kinds.UNKNOWN) and not always_returns(item.body):
                hint = "Add 'return value;' at its end."
                self.error(item.at, f"the function {item.name!r} may end without returning {item.result_type}", hint)
        self.env.declare(item)

    def _package(self, item: tree.Package) -> None:
        item.type_variables = kinds.variables(item.types)
        with self.env.inner_scope(item.type_variables):
            self.parameters(item.parameters)
        item.type = self.env.types.declared("package", item, tuple(item.type_variables))

    # --- parsers and controls

    def _program(self, item: tree.Program) -> None:
        item.type_variables = kinds.variables(item.types)
        item.type = self.env.types.declared(item.kind, item, tuple(item.type_variables))
        if item.types and item.body is not None:
            self.error(item.at, f"the {item.kind} {item.name!r} cannot be generic", "Only the type of one can.")
        outer_program, self.env.program = self.env.program, item
        with self.env.inner_scope(item.type_variables):
            self.parameters([*item.parameters, *item.constructor])
            if item.body is not None:
                for parameter in [*item.parameters, *item.constructor]:
                    self.env.declare(parameter)
                with self.env.inner_scope():
                    self._locals(item)
        self.env.program = outer_program
        self.env.declare(item)

    def _locals(self, item: tree.Program) -> None:
        for declaration in item.locals:
            match declaration:
                case tree.Action():
                    self._tables.check_action(declaration)
                    self.env.declare(declaration)
                case tree.Table():
                    self._tables.check_table(declaration)
                case tree.ValueSet():
                    self._value_set(declaration)
                    self.env.declare(declaration)
                case tree.Variable() | tree.Constant() | tree.Instance():
                    self._statements.check_local(declaration)
        if item.kind == "parser":
            self._states(item)
            return
        if item.body is not None and item.body.at == 0:
            self.error(item.at, f"the control {item.name!r} has no apply block", "Add 'apply { … }' at its end.")
        elif item.body is not None:
            self.env.context = "apply"
            self._statements.check_block(item.body)
            self.env.context = ""

    def _value_set(self, item: tree.ValueSet) -> None:
        element = self._resolve(item.ref)
        item.type = self.env.types.set(element)
        if self._expressions.constant(item.size, "the size of a value set") is not None and item.size.value < 1:
            self.error(item.size.at, "a value set has a size of at least 1")

    def _states(self, item: tree.Program) -> None:
        names: dict[str, tree.State] = {}
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
            self.env.context = "state"
            with self.env.inner_scope():
                for statement in state.items:
                    self._statements.check_item(statement)
                if state.transition is None:
                    hint = "Add 'transition accept;'. Without it the packet is rejected."
                    self.env.diagnostics.warning(state.at, f"the state {state.name!r} has no transition", hint)
                else:
                    self._selects.check_transition(state.transition, names)
            self.env.context = ""

        if "start" in names and not comes_to_an_end(names):
            self.error(
                item.at, f"the parser {item.name!r} never comes to 'accept' or 'reject'", "End a state with one."
            )
