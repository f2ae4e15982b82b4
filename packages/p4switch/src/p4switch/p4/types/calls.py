"""Types of calls (P4_16 specification, sections 6.8, 8.19 to 8.22, 12.6)."""

from collections.abc import Sequence
from typing import Any

from p4switch.p4.syntax import tree
from p4switch.p4.types import kinds
from p4switch.p4.types.base import (
    CheckerPart,
    CheckerState,
    may_be_constant,
    near,
    what_is,
)
from p4switch.p4.types.expressions import ExpressionCheck

SIZES = {"minSizeInBits": (0, 1), "minSizeInBytes": (0, 8), "maxSizeInBits": (1, 1), "maxSizeInBytes": (1, 8)}
_ON_HEADERS = ("isValid", "setValid", "setInvalid", *SIZES)


class CallCheck(CheckerPart):
    """Checks calls with their arguments: of functions, methods, actions, tables, programs and constructors."""

    def __init__(self, env: CheckerState, expressions: ExpressionCheck) -> None:
        super().__init__(env)
        self._expressions = expressions
        self._coercion = expressions.coercion
        self._resolver = expressions.resolver

    def check_call(self, node: tree.Call) -> kinds.Type:
        """Checks a call; returns the type of its value."""
        callee = node.callee
        for argument in node.arguments:
            if argument.value is not None:
                self._expressions.check(argument.value)
        node.effects = True
        if isinstance(callee, tree.TypeName):
            kind = self._resolver.resolve(callee.ref)
            return kinds.UNKNOWN if kind is kinds.UNKNOWN else self.construct(node, kind, node.arguments, callee.at)
        if isinstance(callee, tree.Name):
            return self._call_name(node, callee)
        if isinstance(callee, tree.Member):
            return self._call_member(node, callee)
        return self.wrong(callee.at, "this cannot be called")

    # --- by name

    def _call_name(self, node: tree.Call, callee: tree.Name) -> kinds.Type:
        target = self._expressions.target_of(callee)
        match target:
            case None:
                return kinds.UNKNOWN
            case list():
                return self._call_function(node, target, callee.name)
            case tree.Action():
                return self._call_action(node, target)
            case tree.Extern() | tree.Program() | tree.Package():
                arguments = tuple(self._resolver.resolve(t) for t in node.types)
                kind = self._resolver.type_of_target(target, arguments, callee)  # type: ignore[arg-type]
                return self.construct(node, kind or kinds.UNKNOWN, node.arguments, callee.at)
            case tree.Table():
                return self.wrong(callee.at, f"{callee.name!r} is a table", f"Apply it: {callee.name}.apply().")
        hint = ""
        if isinstance(getattr(target, "type", None), kinds.DeclaredType) and target.type.kind in ("control", "parser"):
            hint = f"Apply it: {callee.name}.apply(…)."
        return self.wrong(callee.at, f"{callee.name!r} is {what_is(target)} and cannot be called", hint)

    def _call_action(self, node: tree.Call, action: tree.Action) -> kinds.Type:
        node.target = action
        if self.env.context == "state":
            self.error(node.at, f"the action {action.name!r} is called in a parser", "Write its statements here.")
        elif self.env.context == "function":
            self.error(node.at, f"the action {action.name!r} is called in a function")
        node.bound = self.bind(node.at, f"the action {action.name!r}", action.parameters, node.arguments, {})
        return kinds.VOID

    def _call_function(self, node: tree.Call, overloads: Sequence[tree.Function], name: str) -> kinds.Type:
        function = self._overload(overloads, node.arguments)
        if function is None:
            counts = " or ".join(str(len(f.parameters)) for f in overloads)
            return self.wrong(
                node.at, f"{name!r} takes {counts} arguments, not {len(node.arguments)}", signature(overloads[0])
            )
        node.target = function
        result_type = self.call_with_types(node, f"{name!r}", function, {})
        if name == "static_assert" and node.bound and node.bound[0] is not None:
            self._static_assert(node, node.bound[0])
        return result_type

    def _static_assert(self, node: tree.Call, condition: tree.Expression) -> None:
        node.effects = False
        node.value = True
        if condition.value is None:
            self.error(condition.at, "the condition of static_assert must be known when the program is compiled")
        elif not condition.value:
            text = node.bound[1].value if len(node.bound) > 1 and node.bound[1] is not None else ""
            self.error(node.at, f"static_assert failed{': ' + text if text else ''}")

    def _overload(self, overloads: Sequence[tree.Function], arguments: Sequence[tree.Argument]) -> tree.Function | None:
        """Returns the shortest overload that fits the number and names of the arguments; None if none fits."""
        able = [f for f in overloads if fits(f.parameters, arguments)]
        return min(able, key=lambda f: len(f.parameters)) if able else None

    def call_with_types(self, node: tree.Call, what: str, function: tree.Function, known: dict[Any, Any]) -> kinds.Type:
        """Infers the type arguments of a call and binds its arguments; returns the type of its value."""
        unifier = kinds.Unifier(self.env.types, function.type_variables)
        if node.types:
            given = [self._resolver.resolve(t) for t in node.types]
            if len(given) != len(function.type_variables):
                return self.wrong(
                    node.at, f"{what} takes {len(function.type_variables)} type arguments, not {len(given)}"
                )
            pairs = zip(function.type_variables, given, strict=True)
            unifier.found = {variable: kind for variable, kind in pairs if kind is not kinds.UNKNOWN}
        for parameter, argument in pairs_of(function.parameters, node.arguments):
            if argument.value is not None and argument.value.type is not None:
                unifier.unify(self.env.types.substitute(parameter.type, known), argument.value.type)
        self._width_of_numbers(node, unifier, function)
        unknown = [v for v in function.type_variables if unifier.found.get(v) is None]
        result = function.result_type
        if unknown and any(v is result for v in unknown):
            return self.wrong(node.at, f"{what}: its type does not follow from its arguments", "Give it: f<bit<8>>(…).")
        type_arguments = known | unifier.found
        node.type_arguments = type_arguments
        node.bound = self.bind(node.at, what, function.parameters, node.arguments, type_arguments)
        return self.env.types.substitute(result, type_arguments)

    def _width_of_numbers(self, node: tree.Call, unifier: kinds.Unifier, function: tree.Function) -> None:
        """Reports types inferred only from numbers without a width; ``hash`` and ``random`` take another's type."""
        for variable, kind in unifier.found.items():
            if kind is not kinds.INTEGER:
                continue
            for parameter in function.parameters:
                if parameter.type is variable and parameter.direction != "":
                    for other in unifier.found.values():
                        if isinstance(other, type(kinds.bits(1))) and function.name in ("hash", "random"):
                            unifier.found[variable] = other
                            return
                    self.error(
                        node.at, f"{function.name!r} needs numbers with a width here", "Write 16w5 instead of 5."
                    )
                    unifier.found[variable] = kinds.UNKNOWN
                    return

    # --- methods

    def _call_member(self, node: tree.Call, callee: tree.Member) -> kinds.Type:
        if isinstance(callee.base, tree.Name) and callee.name == "apply":
            target = self.env.named(callee.base)
            if isinstance(target, tree.Program):
                callee.base.target = target
                callee.base.type = target.type
                if target.constructor:
                    return self.wrong(
                        node.at, f"{target.name!r} has constructor parameters; declare an instance of it first"
                    )
                return self._apply_program(node, target)
        base = kinds.plain(self._expressions.check(callee.base))
        name = callee.name
        match base:
            case kinds.DeclaredType(kind="extern"):
                return self._call_method(node, base, name)
            case kinds.DeclaredType(kind="table") if name == "apply":
                return self._apply_table(node, base.declaration)
            case kinds.DeclaredType(kind="control" | "parser") if name == "apply":
                return self._apply_program(node, base.declaration)
            case kinds.CompositeType(kind="header" | "header_union") if name in _ON_HEADERS:
                return self._call_on_header(node, callee, base)
            case kinds.StackType() if name in ("push_front", "pop_front"):
                return self._shift_stack(node, callee)
        if name in SIZES and not isinstance(base, kinds.DeclaredType):
            return self._size(node, base, name)
        if base is kinds.UNKNOWN:
            return kinds.UNKNOWN
        hint = ""
        if isinstance(base, kinds.DeclaredType):
            hint = near(name, ["apply"]) if base.kind != "extern" else ""
        elif isinstance(base, kinds.CompositeType):
            hint = near(name, _ON_HEADERS) if base.kind != "struct" else "Only its headers have methods."
        return self.wrong(node.at, f"{base} has no method {name!r}", hint)

    def _size(self, node: tree.Call, base: kinds.Type, name: str) -> kinds.Type:
        node.effects = False
        node.target = name
        width = kinds.width_of(base)
        if width is None:
            return self.wrong(node.at, f"{base} has no size")
        greatest, unit = SIZES[name]
        least = width if greatest else width - _varying(base)
        node.value = -(-least // unit)
        return kinds.INTEGER

    def _call_on_header(self, node: tree.Call, callee: tree.Member, base: kinds.CompositeType) -> kinds.Type:
        node.target = callee.name
        if node.arguments:
            self.error(node.at, f"{callee.name!r} takes no arguments")
        if callee.name in SIZES:
            return self._size(node, base, callee.name)
        if callee.name == "isValid":
            node.effects = callee.base.effects
            return kinds.BOOL
        if base.kind == "header_union":
            return self.wrong(node.at, f"a header union has no {callee.name!r}", "Call it on one of its headers.")
        self._expressions.check_place(callee.base, "this header")
        return kinds.VOID

    def _shift_stack(self, node: tree.Call, callee: tree.Member) -> kinds.Type:
        node.target = callee.name
        self._expressions.check_place(callee.base, "this stack")
        if len(node.arguments) != 1 or node.arguments[0].value is None:
            self.error(node.at, f"{callee.name!r} takes one argument: by how many elements")
        elif self._expressions.constant(node.arguments[0].value, f"the count of {callee.name!r}") is not None:
            node.bound = [node.arguments[0].value]
            if node.arguments[0].value.value < 0:
                self.error(node.at, f"{callee.name!r} by a negative number")
        return kinds.VOID

    def _call_method(self, node: tree.Call, base: kinds.DeclaredType, name: str) -> kinds.Type:
        extern: tree.Extern = base.declaration
        overloads = [m for m in extern.methods if m.name == name and m.result is not None]
        if not overloads:
            methods = sorted({m.name for m in extern.methods if m.result is not None})
            return self.wrong(node.at, f"{extern.name!r} has no method {name!r}", near(name, methods))
        function = self._overload(overloads, node.arguments)
        if function is None:
            counts = " or ".join(str(len(f.parameters)) for f in overloads)
            what = f"{extern.name}.{name}"
            return self.wrong(
                node.at, f"{what!r} takes {counts} arguments, not {len(node.arguments)}", signature(overloads[0])
            )
        node.target = function
        known = dict(zip(extern.type_variables, base.arguments, strict=False))
        known = {variable: kind for variable, kind in known.items() if kind is not variable}
        return self.call_with_types(node, f"{extern.name}.{name}", function, known)

    def _apply_table(self, node: tree.Call, table: tree.Table) -> kinds.Type:
        node.target = table
        if node.arguments:
            self.error(node.at, "a table is applied without arguments")
        if self.env.context != "apply":
            where = {"action": "an action", "state": "a parser", "function": "a function"}.get(self.env.context, "here")
            self.error(
                node.at, f"the table {table.name!r} is applied in {where}", "Tables are applied in 'apply' blocks."
            )
        return kinds.ApplyResult(table)

    def _apply_program(self, node: tree.Call, program: tree.Program) -> kinds.Type:
        node.target = program
        wanted = {"apply": "control", "state": "parser"}.get(self.env.context)
        if wanted is None or (wanted != program.kind):
            where = {"action": "an action", "state": "a parser's state", "function": "a function"}
            place = where.get(self.env.context, "a control")
            return self.wrong(node.at, f"the {program.kind} {program.name!r} is applied in {place}")
        node.bound = self.bind(node.at, f"the {program.kind} {program.name!r}", program.parameters, node.arguments, {})
        return kinds.VOID

    # --- constructors

    def construct(self, node: Any, kind: kinds.Type, arguments: Sequence[tree.Argument], at: int) -> kinds.Type:
        """Returns the type of a constructed object; ``node.bound`` gets the arguments in order."""
        if not isinstance(kind, kinds.DeclaredType) or kind.kind not in ("extern", "parser", "control", "package"):
            if kind is not kinds.UNKNOWN:
                self.error(at, f"{kind} is no extern, parser, control or package, so there are no instances of it")
            return kinds.UNKNOWN
        node.effects = False
        declaration = kind.declaration
        what = f"the constructor of {declaration.name!r}"
        parameters = self._constructor(declaration, arguments, at)
        if parameters is None:
            return kinds.UNKNOWN
        variables = list(declaration.type_variables)
        unifier = kinds.Unifier(self.env.types, variables)
        for variable, given in zip(variables, kind.arguments, strict=False):
            if given is not variable:
                unifier.found[variable] = given
        if isinstance(declaration, tree.Extern) and variables and not unifier.found:
            hint = f"Write {declaration.name}<bit<32>>(…)."
            return self.wrong(at, f"{declaration.name!r} needs {len(variables)} type argument(s): of what?", hint)
        for parameter, argument in pairs_of(parameters, arguments):
            if argument.value is None or argument.value.type in (None, kinds.UNKNOWN):
                continue
            if not unifier.unify(parameter.type, argument.value.type or kinds.UNKNOWN) and isinstance(
                parameter.type, kinds.DeclaredType
            ):
                self._wrong_program(argument.value, parameter, unifier)
                return kinds.UNKNOWN
        node.bound = self.bind(at, what, parameters, arguments, unifier.found)
        node.target = declaration
        for value in node.bound:
            if value is not None and value.value is None and not isinstance(value.type, kinds.DeclaredType):
                self.not_constant(value, what)
        return unifier.apply(kind)

    def not_constant(self, value: tree.Expression, what: str) -> None:
        """Reports an error unless a value may be known at compile time."""
        if value.type is not kinds.UNKNOWN and not may_be_constant(value, {}):
            self.error(value.at, f"an argument of {what} must be known when the program is compiled")

    def _constructor(
        self, declaration: Any, arguments: Sequence[tree.Argument], at: int
    ) -> list[tree.Parameter] | None:
        if isinstance(declaration, tree.Program):
            if declaration.body is None:
                self.error(at, f"{declaration.name!r} is only the type of a {declaration.kind}")
                return None
            return declaration.constructor
        if isinstance(declaration, tree.Package):
            return declaration.parameters
        constructors = [m for m in declaration.methods if m.result is None]
        for constructor in constructors:
            if fits(constructor.parameters, arguments):
                return list(constructor.parameters)
        if not constructors:
            return []
        wanted = signature(constructors[0])
        self.error(at, f"{declaration.name!r} is made with other arguments than these {len(arguments)}", wanted)
        return None

    def _wrong_program(self, value: tree.Expression, parameter: tree.Parameter, unifier: kinds.Unifier) -> None:
        wanted: kinds.DeclaredType = parameter.type
        given = value.type
        hint = ""
        if isinstance(given, kinds.DeclaredType) and isinstance(given.declaration, tree.Program):
            own = dict(zip(wanted.declaration.type_variables, wanted.arguments, strict=False))
            wanted_kinds = [
                unifier.apply(self.env.types.substitute(p.type, own)) for p in wanted.declaration.parameters
            ]
            shown = ", ".join(
                f"{p.direction + ' ' if p.direction else ''}{k} {p.name}"
                for p, k in zip(wanted.declaration.parameters, wanted_kinds, strict=True)
            )
            hint = f"Its parameters must be ({shown})."
        self.error(value.at, f"{given} cannot be the {wanted.name} of this package", hint)

    # --- arguments: assigned to parameters, and checked (section 6.8)

    def bind(
        self,
        at: int,
        what: str,
        parameters: Sequence[tree.Parameter],
        arguments: Sequence[tree.Argument],
        types: dict[Any, Any],
    ) -> list[tree.Expression | None]:
        """Returns the arguments in the order of the parameters, converted; reports errors if they do not fit."""
        bound: list[tree.Expression | None] = [None] * len(parameters)
        given = [False] * len(parameters)
        if len(arguments) > len(parameters):
            self.error(at, f"{what} takes {len(parameters)} arguments, not {len(arguments)}", listed(parameters))
            return bound
        names = {p.name: i for i, p in enumerate(parameters)}
        for position, argument in enumerate(arguments):
            index = names.get(argument.name) if argument.name is not None else position
            if index is None:
                self.error(argument.at, f"{what} has no parameter {argument.name!r}", near(str(argument.name), names))
                continue
            if given[index]:
                self.error(argument.at, f"{what}: the parameter {parameters[index].name!r} is given twice")
                continue
            given[index] = True
            bound[index] = self._argument(what, parameters[index], argument, types)
        for index, parameter in enumerate(parameters):
            if not given[index]:
                if parameter.default is not None:
                    bound[index] = parameter.default
                elif parameter.annotation("optional") is None:
                    message = f"{what} takes {len(parameters)} arguments, not {len(arguments)}: "
                    self.error(at, f"{message}{parameter.name!r} is missing", listed(parameters))
                    return bound
        return bound

    def _argument(
        self, what: str, parameter: tree.Parameter, argument: tree.Argument, types: dict[Any, Any]
    ) -> tree.Expression | None:
        kind = self.env.types.substitute(parameter.type or kinds.UNKNOWN, types)
        value = argument.value
        if value is None:
            if parameter.direction != "out":
                self.error(argument.at, f"{what}: '_' stands for what comes out, but {parameter.name!r} goes in")
            return None
        if value.type is kinds.UNKNOWN:
            return value
        if parameter.direction in ("out", "inout"):
            subject = f"the {parameter.direction!r} argument {parameter.name!r} of {what}"
            place = self._expressions.check_place(value, subject)
            if (
                place is not kinds.UNKNOWN
                and place is not kind
                and not isinstance(kind, kinds.TypeVariable)
                and kind is not kinds.UNKNOWN
            ):
                hint = f"Use a variable of the type {kind}, and cast it afterwards."
                self.error(value.at, f"the argument {parameter.name!r} of {what} is {kind}, but this is {place}", hint)
            return value
        if kind is kinds.STRING and value.type is not kinds.STRING:
            self.error(value.at, f"the argument {parameter.name!r} of {what} is a string", 'Write "…".')
            return value
        if isinstance(value.type, kinds.ApplyResult):
            self.error(value.at, "the result of apply() is no argument", "Use .hit or .miss.")
            return value
        if isinstance(kind, kinds.DeclaredType):
            if value.type is not kind and not kinds.Unifier(self.env.types, ()).unify(
                kind, value.type or kinds.UNKNOWN
            ):
                self.error(value.at, f"the argument {parameter.name!r} of {what} is {kind}, but this is {value.type}")
            return value
        return self._coercion.coerce(value, kind, f"the argument {parameter.name!r} of {what} is")


def _varying(kind: kinds.Type) -> int:
    """Returns by how many bits a value may be shorter than the width of its type, due to varbits or unions."""
    match kind:
        case kinds.Varbits(width):
            return width
        case kinds.CompositeType(kind="header_union"):
            return (kinds.width_of(kind) or 0) - min(
                (kinds.width_of(f) or 0) - _varying(f) for f in kind.fields.values()
            )
        case kinds.CompositeType():
            return sum(_varying(f) for f in kind.fields.values())
        case kinds.StackType(element, size):
            return size * _varying(element)
        case kinds.TupleType(elements):
            return sum(_varying(e) for e in elements)
    return 0


def fits(parameters: Sequence[tree.Parameter], arguments: Sequence[tree.Argument]) -> bool:
    """Returns whether arguments fit parameters by their number and names."""
    if len(arguments) > len(parameters):
        return False
    names = {p.name for p in parameters}
    if any(a.name is not None and a.name not in names for a in arguments):
        return False
    named = {a.name for a in arguments if a.name is not None}
    positional = sum(a.name is None for a in arguments)
    for index, parameter in enumerate(parameters):
        optional = parameter.default is not None or parameter.annotation("optional") is not None
        if index >= positional and parameter.name not in named and not optional:
            return False
    return True


def pairs_of(
    parameters: Sequence[tree.Parameter], arguments: Sequence[tree.Argument]
) -> list[tuple[tree.Parameter, tree.Argument]]:
    """Returns (parameter, argument) pairs; omits arguments without a parameter."""
    by_name = {p.name: p for p in parameters}
    pairs = []
    for index, argument in enumerate(arguments):
        parameter = by_name.get(argument.name) if argument.name is not None else None
        if parameter is None and argument.name is None and index < len(parameters):
            parameter = parameters[index]
        if parameter is not None:
            pairs.append((parameter, argument))
    return pairs


def listed(parameters: Sequence[tree.Parameter]) -> str:
    """Returns parameters as text, for hints."""
    if not parameters:
        return ""
    return "Its parameters: " + ", ".join(f"{p.direction} {p.name}".strip() for p in parameters) + "."


def signature(function: tree.Function) -> str:
    """Returns a function's parameters as text, for hints."""
    return listed(function.parameters)
