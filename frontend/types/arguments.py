"""Arguments of calls: which parameter each is for, and whether it fits (specification, section 6.8)."""

from collections.abc import Sequence
from typing import Any

from p4reduce.frontend.syntax.declarations import Function, Parameter
from p4reduce.frontend.syntax.tree import Argument, Expression
from p4reduce.frontend.types.kinds import (
    STRING,
    UNKNOWN,
    ApplyResult,
    DeclaredType,
    TypeVariable,
)
from p4reduce.frontend.types.places import PlaceChecker
from p4reduce.frontend.types.scope import near
from p4reduce.frontend.types.unify import Unifier

SIZES = {"minSizeInBits": (0, 1), "minSizeInBytes": (0, 8), "maxSizeInBits": (1, 1), "maxSizeInBytes": (1, 8)}
_ON_HEADERS = ("isValid", "setValid", "setInvalid", *SIZES)


class ArgumentChecker(PlaceChecker):
    """Binds arguments to parameters."""

    def bind(
        self,
        at: int,
        what: str,
        parameters: Sequence[Parameter],
        arguments: Sequence[Argument],
        types: dict[Any, Any],
    ) -> list[Expression | None]:
        """The arguments in the order of the parameters, converted; errors if they do not fit."""
        bound: list[Expression | None] = [None] * len(parameters)
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
        self, what: str, parameter: Parameter, argument: Argument, types: dict[Any, Any]
    ) -> Expression | None:
        kind = self.types.substitute(parameter.type or UNKNOWN, types)
        value = argument.value
        if value is None:
            if parameter.direction != "out":
                self.error(argument.at, f"{what}: '_' stands for what comes out, but {parameter.name!r} goes in")
            return None
        if value.type is UNKNOWN:
            return value
        if parameter.direction in ("out", "inout"):
            place = self.check_place(value, f"the {parameter.direction!r} argument {parameter.name!r} of {what}")
            if (
                place is not UNKNOWN
                and place is not kind
                and not isinstance(kind, TypeVariable)
                and kind is not UNKNOWN
            ):
                hint = f"Use a variable of the type {kind}, and cast it afterwards."
                self.error(value.at, f"the argument {parameter.name!r} of {what} is {kind}, but this is {place}", hint)
            return value
        if kind is STRING and value.type is not STRING:
            self.error(value.at, f"the argument {parameter.name!r} of {what} is a string", 'Write "…".')
            return value
        if isinstance(value.type, ApplyResult):
            self.error(value.at, "the result of apply() is no argument", "Use .hit or .miss.")
            return value
        if isinstance(kind, DeclaredType):
            if value.type is not kind and not Unifier(self.types, ()).unify(kind, value.type or UNKNOWN):
                self.error(value.at, f"the argument {parameter.name!r} of {what} is {kind}, but this is {value.type}")
            return value
        return self.coerce(value, kind, f"the argument {parameter.name!r} of {what} is")


def fits(parameters: Sequence[Parameter], arguments: Sequence[Argument]) -> bool:
    """Whether the arguments fit by their number and names."""
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


def pairs_of(parameters: Sequence[Parameter], arguments: Sequence[Argument]) -> list[tuple[Parameter, Argument]]:
    """Parameters with the arguments that are for them."""
    by_name = {p.name: p for p in parameters}
    found = []
    for index, argument in enumerate(arguments):
        parameter = by_name.get(argument.name) if argument.name is not None else None
        if parameter is None and argument.name is None and index < len(parameters):
            parameter = parameters[index]
        if parameter is not None:
            found.append((parameter, argument))
    return found


def listed(parameters: Sequence[Parameter]) -> str:
    """Parameters in words, for hints."""
    if not parameters:
        return ""
    return "Its parameters: " + ", ".join(f"{p.direction} {p.name}".strip() for p in parameters) + "."


def signature(function: Function) -> str:
    """The parameters of a function in words."""
    return listed(function.parameters)
