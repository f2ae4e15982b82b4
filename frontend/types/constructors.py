"""Objects that are made: instances, and arguments of packages (specification, section 11.3)."""

from collections.abc import Sequence
from typing import Any

from p4reduce.frontend.syntax.declarations import Extern, Package, Parameter, Program
from p4reduce.frontend.syntax.tree import Argument, Expression
from p4reduce.frontend.types.arguments import ArgumentChecker, fits, pairs_of, signature
from p4reduce.frontend.types.kinds import (
    UNKNOWN,
    DeclaredType,
    Type,
)
from p4reduce.frontend.types.unify import Unifier

SIZES = {"minSizeInBits": (0, 1), "minSizeInBytes": (0, 8), "maxSizeInBits": (1, 1), "maxSizeInBytes": (1, 8)}
_ON_HEADERS = ("isValid", "setValid", "setInvalid", *SIZES)


class ConstructorChecker(ArgumentChecker):
    """Checks constructors."""

    def construct(self, node: Any, kind: Type, arguments: Sequence[Argument], at: int) -> Type:
        """The type of an object that is made; ``node.bound`` gets the arguments in order."""
        if not isinstance(kind, DeclaredType) or kind.kind not in ("extern", "parser", "control", "package"):
            if kind is not UNKNOWN:
                self.error(at, f"{kind} is no extern, parser, control or package, so there are no instances of it")
            return UNKNOWN
        node.effects = False
        declaration = kind.declaration
        what = f"the constructor of {declaration.name!r}"
        parameters = self._constructor(declaration, arguments, at)
        if parameters is None:
            return UNKNOWN
        variables = list(declaration.type_variables)
        unifier = Unifier(self.types, variables)
        for variable, given in zip(variables, kind.arguments, strict=False):
            if given is not variable:
                unifier.found[variable] = given
        if isinstance(declaration, Extern) and variables and not unifier.found:
            hint = f"Write {declaration.name}<bit<32>>(…)."
            self.error(at, f"{declaration.name!r} needs {len(variables)} type argument(s): of what?", hint)
            return UNKNOWN
        for parameter, argument in pairs_of(parameters, arguments):
            if argument.value is None or argument.value.type in (None, UNKNOWN):
                continue
            if not unifier.unify(parameter.type, argument.value.type or UNKNOWN) and isinstance(
                parameter.type, DeclaredType
            ):
                self._wrong_program(argument.value, parameter, unifier)
                return UNKNOWN
        node.bound = self.bind(at, what, parameters, arguments, unifier.found)
        node.target = declaration
        for value in node.bound:
            if value is not None and value.value is None and not isinstance(value.type, DeclaredType):
                self.not_constant(value, what)
        return unifier.apply(kind)

    def not_constant(self, value: Expression, what: str) -> None:
        """An error unless a value may be known at compile time."""
        from p4reduce.frontend.types.constness import may_be_constant  # noqa: PLC0415 -- it needs nothing but trees

        if value.type is not UNKNOWN and not may_be_constant(value, {}):
            self.error(value.at, f"an argument of {what} must be known when the program is compiled")

    def _constructor(self, declaration: Any, arguments: Sequence[Argument], at: int) -> list[Parameter] | None:
        if isinstance(declaration, Program):
            if declaration.body is None:
                self.error(at, f"{declaration.name!r} is only the type of a {declaration.kind}")
                return None
            return declaration.constructor
        if isinstance(declaration, Package):
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

    def _wrong_program(self, value: Expression, parameter: Parameter, unifier: Unifier) -> None:
        wanted: DeclaredType = parameter.type
        given = value.type
        hint = ""
        if isinstance(given, DeclaredType) and isinstance(given.declaration, Program):
            own = dict(zip(wanted.declaration.type_variables, wanted.arguments, strict=False))
            kinds = [unifier.apply(self.types.substitute(p.type, own)) for p in wanted.declaration.parameters]
            shown = ", ".join(
                f"{p.direction + ' ' if p.direction else ''}{k} {p.name}"
                for p, k in zip(wanted.declaration.parameters, kinds, strict=True)
            )
            hint = f"Its parameters must be ({shown})."
        self.error(value.at, f"{given} cannot be the {wanted.name} of this package", hint)
