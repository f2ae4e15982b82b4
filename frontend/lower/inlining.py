"""Calls of functions, actions, parsers and controls: their code is put in (specification, sections 6.7 and 8.20)."""

from collections.abc import Sequence
from typing import Any

from p4reduce.frontend.diagnostics import SourceFault
from p4reduce.frontend.lower.code import Invoke, Labelled
from p4reduce.frontend.lower.expressions import ExpressionLowering
from p4reduce.frontend.lower.objects import ActionInstance, Callee, Environment, Instance, ProgramInstance
from p4reduce.frontend.lower.places import NoHeader, Place, StackPlace, StructPlace, UnionPlace, Value
from p4reduce.frontend.lower.storage import is_scalar
from p4reduce.frontend.lower.values import is_constant
from p4reduce.frontend.lower.writes import Writes, root
from p4reduce.frontend.syntax.declarations import Action, Function, Parameter, Program, Variable
from p4reduce.frontend.syntax.tree import Call, Expression, Index, Member, Name, Slice
from p4reduce.frontend.types.kinds import VOID, DeclaredType, is_header, plain

MOST_CALLS = 20_000
"""A few lines, each of which calls what the line before declares twice, make billions."""
Leaves = set[tuple[str, str]]


class Inlining(ExpressionLowering):
    """Puts code in."""

    writes: Writes
    action_uses: dict[str, tuple[str, Action, str]]
    """How actions are used, by name: by a ``table`` or only ``called``; their declarations, and by which block."""
    action_locals: dict[tuple[Environment, Variable], Place]
    """Places of the local variables of actions, by where the action is declared."""
    _within = 0
    _put = 0

    def call_function(self, node: Call, function: Function) -> Place | None:
        """A function of the program; where its result is."""
        types = {v: self.types.substitute(t, self.environment.types) for v, t in node.type_arguments.items()}
        inner = Environment(self.program_environment, types)
        callee = Callee(object())
        result_type = self.types.substitute(function.result_type, types)
        if result_type is not VOID:
            callee.result = self.storage.allocate("tmp", result_type, node.at)
        path = f"{self.path}{function.name}_"
        self._put_in(node, callee, function.parameters, node.bound, inner, function, path, closed=True)
        return callee.result

    def call_action(self, node: Call, action: ActionInstance) -> None:
        """An action that is called by name."""
        if self.where == "control" and not self._within:
            self.action_uses.setdefault(action.name, ("called", action.declaration, self.block))
        inner = Environment(action.environment)
        callee = Callee(object(), within=action.environment)
        outer = self.out
        self.out = []
        declaration = action.declaration
        path = f"{self.path}{declaration.name}_"
        self._within += 1
        self._put_in(node, callee, declaration.parameters, node.bound, inner, declaration, path, closed=False)
        self._within -= 1
        made, self.out = self.out, outer
        if self.where == "control":
            self.out.append(Invoke(node.at, node.end, action.name, made))
        else:
            self.out += made

    def call_program(self, node: Call, instance: ProgramInstance) -> None:
        """A parser or control."""
        program = instance.program
        inner = Environment(self.instance_environment(instance))
        callee = Callee(object())
        self._put_in(node, callee, program.parameters, node.bound, inner, program, instance.path, closed=True)

    program_environment: Environment

    def instance_environment(self, instance: ProgramInstance) -> Environment:
        """See Programs."""
        raise NotImplementedError

    def body_of(self, callee: Action | Function | Program, at: Any) -> None:
        """See StatementLowering."""
        raise NotImplementedError

    def _put_in(
        self,
        node: Call,
        callee: Callee,
        parameters: Sequence[Parameter],
        arguments: Sequence[Expression | None],
        inner: Environment,
        code: Action | Function | Program,
        path: str,
        closed: bool,
    ) -> None:
        if len(self.callees) > 100:
            raise SourceFault(node.at, "calls are nested more than 100 deep")
        self._put += 1
        if self._put > MOST_CALLS:
            hint = "The code is put in wherever it is called: let fewer calls stand in what is called often itself."
            raise SourceFault(node.at, f"the program makes more than {MOST_CALLS:,} calls, each in its own place", hint)
        places = self._arguments(parameters, arguments, node)
        self._bind(node, callee, parameters, places, inner, code, closed)
        outer = (self.environment, self.path, self.out)
        self.environment, self.path, self.out = inner, path, []
        self.callees.append(callee)
        try:
            self._reset_outs(parameters, inner, node)
            self.body_of(code, node)
        finally:
            self.callees.pop()
            body = self.out
            self.environment, self.path, self.out = outer
        self.out.append(Labelled(node.at, node.end, body, callee.label))
        for place, copy in callee.copies:
            self.assign(place, copy, node)

    def _arguments(
        self, parameters: Sequence[Parameter], arguments: Sequence[Expression | None], node: Call
    ) -> list[Any]:
        """Where each argument is, from the first to the last; None for one that is left out."""
        places: list[Any] = []
        later = [value is not None and value.effects for value in arguments]
        for position, (parameter, value) in enumerate(zip(parameters, arguments, strict=True)):
            if value is None:
                places.append(None)
            elif isinstance(parameter.type, DeclaredType):
                places.append(self.object(value))
            elif parameter.direction in ("out", "inout"):
                self.holds_index = True
                places.append(self.target(value))
                self.holds_index = False
            else:
                place = self.place(value)
                places.append(self.held(place, value) if any(later[position + 1 :]) else place)
        return places

    def object(self, node: Expression) -> Instance | Any:
        """The object that an expression names."""
        if isinstance(node, Name):
            found = self.environment.find(node.target)
            if found is not None:
                return found
        raise SourceFault(node.at, "this names no object")

    def _bind(
        self,
        node: Call,
        callee: Callee,
        parameters: Sequence[Parameter],
        places: Sequence[Any],
        inner: Environment,
        code: Action | Function | Program,
        closed: bool,
    ) -> None:
        """Binds parameters: to their arguments where nobody can tell, else to copies."""
        outs: list[Leaves] = []
        for index, (parameter, place) in enumerate(zip(parameters, places, strict=True)):
            if parameter.direction not in ("out", "inout"):
                continue
            kind = self.types.substitute(parameter.type, inner.types)
            mine: Leaves = set(place.leaves()) if isinstance(place, Place) else set()
            others = [set(p.leaves()) for i, p in enumerate(places) if i != index and isinstance(p, Place)]
            apart = closed and isinstance(place, Place) and place.fixed and not any(overlap(mine, o) for o in others)
            if apart and place.type is kind:
                inner.bound[parameter] = place
                outs.append(mine)
                continue
            wanders = parameter.direction == "inout" and isinstance(place, Place) and not place.fixed
            if wanders and parameter not in self.writes.names(code):
                inner.bound[parameter] = place  # a copy would read what may lie beyond its stack
                continue
            copy = self.storage.allocate(f"{self.path}{parameter.name}", kind, node.at)
            if parameter.direction == "inout" and place is not None:
                self.assign(copy, place, node)
            inner.bound[parameter] = copy
            if place is not None:
                callee.copies.append((place, copy))
        written: Leaves | None = None
        for parameter, place in zip(parameters, places, strict=True):
            if parameter.direction in ("out", "inout"):
                continue
            if place is None:
                raise SourceFault(node.at, f"the argument {parameter.name!r} is missing")
            if not isinstance(place, Place) or isinstance(place, NoHeader):
                inner.bound[parameter] = place
                continue
            if isinstance(place, Value) and is_constant(place.data):
                inner.bound[parameter] = place
                continue
            if written is None:
                written = self._written(code, inner)
            if place.fixed and not overlap(set(place.leaves()), written):
                inner.bound[parameter] = place
                continue
            kind = self.types.substitute(parameter.type, inner.types)
            copy = self.storage.allocate(f"{self.path}{parameter.name}", kind, node.at)
            self.assign(copy, place, node)
            inner.bound[parameter] = copy

    def _written(self, code: Action | Function | Program, inner: Environment) -> Leaves:
        """The fields that code may write, with parameters bound so far."""
        found: Leaves = set()
        for expression in self.writes.of(code):
            declaration = root(expression)
            bound = inner.find(declaration) if declaration is not None else None
            if isinstance(bound, Place):
                found |= set(_narrowed(expression, bound).leaves())
        return found

    def _reset_outs(self, parameters: Sequence[Parameter], inner: Environment, node: Call) -> None:
        """Headers that come out are invalid at first (specification, section 6.7)."""
        for parameter in parameters:
            if parameter.direction == "out":
                place = inner.bound.get(parameter)
                if isinstance(place, Place):
                    self.invalidate(place, node)

    def invalidate(self, place: Place, at: Any) -> None:
        """Makes every header in a place invalid."""
        match place:
            case StructPlace():
                for member in place.members.values():
                    self.invalidate(member, at)
            case StackPlace():
                for element in place.elements:
                    self.invalidate(element, at)
            case UnionPlace():
                self.assign(place, NoHeader(place.type), at)
            case _ if not is_scalar(place.type) and is_header(plain(place.type)):
                self.assign(place, NoHeader(place.type), at)

    def fresh(self, item: Variable) -> Place:
        """A place for a local variable; an action has the same one wherever it is put in.

        Whoever reads a variable that was never set then sees what p4c's program sees: what the action left there.
        """
        kind = self.types.substitute(item.type, self.environment.types)
        owner = self.callees[-1].within if self.callees else None
        known = self.action_locals.get((owner, item)) if owner is not None else None
        if known is not None:
            return known
        place = self.storage.allocate(f"{self.path}{item.name}", kind, item.at)
        if owner is not None:
            self.action_locals[owner, item] = place
        return place


def overlap(one: Leaves, other: Leaves) -> bool:
    """Whether two sets of fields share some; ``*`` stands for all of a header."""
    if one & other:
        return True
    whole = {header for header, name in one if name == "*"}
    if whole and any(header in whole for header, _ in other):
        return True
    whole = {header for header, name in other if name == "*"}
    return bool(whole) and any(header in whole for header, _ in one)


def _narrowed(expression: Expression, place: Place) -> Place:
    """The part of a place that a left side names, as far as its members are structs."""
    names: list[str] = []
    node = expression
    while isinstance(node, Member | Index | Slice):
        if isinstance(node, Member):
            names.append(node.name)
        else:
            names.clear()
        node = node.base
    for name in reversed(names):
        if isinstance(place, StructPlace) and name in place.members:
            place = place.members[name]
        else:
            break
    return place
