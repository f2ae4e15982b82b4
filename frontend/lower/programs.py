"""Instances of parsers and controls: what they declare, their states and apply blocks (specification, section 17)."""

from typing import Any

from p4reduce.frontend.diagnostics import SourceFault, Unexpected
from p4reduce.frontend.lower.code import Case, Graph, Step
from p4reduce.frontend.lower.keys import ranges_as_masks
from p4reduce.frontend.lower.objects import (
    ActionInstance,
    Environment,
    Instance,
    ProgramInstance,
    TableInstance,
    ValueSetInstance,
)
from p4reduce.frontend.lower.places import ChosenField, FieldPlace, Place, Value, data_of
from p4reduce.frontend.lower.storage import storage_width
from p4reduce.frontend.lower.tables import TableLowering
from p4reduce.frontend.lower.values import Json
from p4reduce.frontend.syntax.declarations import (
    Action,
    Constant,
    Declaration,
    Program,
    State,
    Table,
    ValueSet,
    Variable,
)
from p4reduce.frontend.syntax.declarations import Instance as InstanceDecl
from p4reduce.frontend.syntax.tree import Binary, Call, Default, Expression, ListOf, Name
from p4reduce.frontend.types.kinds import BOOL, CompositeType, DeclaredType, SetType, TupleType, plain

MOST_CASES = 4096
"""Cases that the ranges of one case of a select may become."""


class Programs(TableLowering):
    """Makes instances and puts their code in.

    Attributes:
        instances: of externs, in the order in which they are made.
        value_sets: of the JSON.
    """

    instances: list[Instance]
    value_sets: list[Json]
    _running: list[ProgramInstance]

    def call_program(self, node: Call, instance: ProgramInstance) -> None:
        """See Inlining."""
        self._running.append(instance)
        try:
            super().call_program(node, instance)
        finally:
            self._running.pop()

    def direct_instance(self, node: Call, program: Program) -> ProgramInstance:
        """``C.apply(…)`` of a type: an instance that has its name."""
        around = self._running[-1]
        found = around.directly.get(node)
        if found is None:
            kind = program.type
            name = f"{around.name}.{local_name(program)}"
            found = ProgramInstance(name, kind, [], program, node.at, f"{around.path}{program.name}_")
            around.directly[node] = found
        return found

    def instance_environment(self, instance: ProgramInstance) -> Environment:
        """What an instance declares; made once."""
        if instance.environment is not None:
            return instance.environment
        made = instance.environment = Environment(self.program_environment)
        outer, self.environment = self.environment, made
        program = instance.program
        for parameter, argument in zip(program.constructor, instance.arguments, strict=True):
            if isinstance(argument, Instance | Place):
                made.bound[parameter] = argument
            elif argument is None:
                raise SourceFault(instance.at, f"the constructor argument {parameter.name!r} must be known here")
            else:
                made.bound[parameter] = self.constant_place(argument, parameter.type)
        for local in program.locals:
            match local:
                case InstanceDecl():
                    made.bound[local] = self.make(local, instance)
                case Table():
                    name = full_name(local, instance)
                    made.bound[local] = TableInstance(name, local, made, instance.path)
                case ValueSet():
                    made.bound[local] = self._value_set(local, instance)
        self.environment = outer
        return made

    def make(self, declaration: InstanceDecl, around: ProgramInstance | None) -> Instance:
        """An instance of an extern, parser or control."""
        kind = declaration.type
        name = full_name(declaration, around)
        arguments = []
        for value in declaration.bound:
            if value is not None and isinstance(value.type, DeclaredType):
                arguments.append(self.constructed(value, around))
            else:
                arguments.append(self.evaluate(value))
        path = f"{around.path if around is not None else ''}{declaration.name}_"
        if isinstance(kind.declaration, Program):
            return ProgramInstance(name, kind, arguments, declaration, declaration.at, path)
        found = Instance(name, kind, arguments, declaration, declaration.at, path)
        self.instances.append(found)
        return found

    def constructed(self, value: Expression, around: ProgramInstance | None) -> Any:
        """An object that is an argument: one that has a name, or one that is made for it."""
        if isinstance(value, Name):
            return self.object(value)
        if not isinstance(value, Call) or not isinstance(value.type, DeclaredType):
            raise SourceFault(value.at, "this is no object")
        declaration = value.type.declaration
        arguments = [
            self.constructed(v, around) if v is not None and isinstance(v.type, DeclaredType) else self.evaluate(v)
            for v in value.bound
        ]
        prefix = f"{around.name}." if around is not None else ""
        name = prefix + local_name(declaration)
        if isinstance(declaration, Program):
            return ProgramInstance(name, value.type, arguments, declaration, value.at, around.path if around else "")
        found = Instance(name, value.type, arguments, declaration, value.at)
        self.instances.append(found)
        return found

    def _value_set(self, declaration: ValueSet, around: ProgramInstance) -> ValueSetInstance:
        kind = declaration.type
        if not isinstance(kind, SetType):
            raise Unexpected
        bare = plain(kind.element)
        parts = [kind.element]
        if isinstance(bare, CompositeType):
            parts = list(bare.fields.values())
        elif isinstance(bare, TupleType):
            parts = list(bare.elements)
        item: Json = {
            "name": full_name(declaration, around),
            "id": len(self.value_sets),
            "source_info": declaration,
            "compressed_bitwidth": sum(storage_width(part) for part in parts),
            "max_size": self.number(declaration.size, "the size of a value set", declaration.at),
        }
        self.value_sets.append(item)
        return ValueSetInstance(item["name"], declaration, item)

    # --- bodies

    def program_body(self, program: Program, at: Any) -> None:
        """The code of a parser or control, with its parameters bound in the present environment."""
        inner = self.environment
        around = self._running[-1]
        for local in program.locals:
            match local:
                case Action():
                    inner.bound[local] = ActionInstance(full_name(local, around), local, inner)
                case Table():
                    table = inner.find(local)
                    table.environment = inner
                case Constant():
                    inner.bound[local] = self.place(local.initial)
                case Variable():
                    self._local_variable(local, around)
        if program.kind == "parser":
            self._parser(program, around, at)
        elif program.body is not None:
            self.block_of(program.body)

    def _local_variable(self, local: Variable, around: ProgramInstance) -> None:
        if around.environment is None:
            raise Unexpected
        place = around.environment.bound.get(local)
        if place is None:
            outer, self.path = self.path, around.path
            place = self.fresh(local)
            self.path = outer
            around.environment.bound[local] = place
        self.environment.bound[local] = place
        self.variable(local)

    # --- parsers

    def _parser(self, program: Program, around: ProgramInstance, at: Any) -> None:
        steps = {state.name: self._state(state) for state in program.states}
        self.out.append(Graph(at.at, at.end, steps, around.path))

    def _state(self, state: State) -> Step:
        outer_environment, outer_out = self.environment, self.out
        self.environment, self.out = Environment(outer_environment), []
        try:
            for item in state.items:
                self.statement(item)
            keys: list[tuple[Json, int]] = []
            cases: list[Case] = []
            transition = state.transition
            if transition is None:
                cases.append(Case(None, None, "reject"))
            elif transition.target is not None:
                cases.append(Case(None, None, transition.target))
            else:
                later = [key.effects for key in transition.keys]
                places = []
                for position, key in enumerate(transition.keys):
                    place = self.place(key)
                    places.append(self.held(place, key) if any(later[position + 1 :]) else place)
                keys = [
                    (self._select_key(p, k), storage_width(p.type))
                    for p, k in zip(places, transition.keys, strict=True)
                ]
                for case in transition.cases:
                    cases += self._cases_of(case.keyset, case.state, keys)
            return Step(state.name, state.at, state.end, self.out, keys, cases)
        finally:
            self.environment, self.out = outer_environment, outer_out

    def _select_key(self, place: Place, node: Expression) -> Json:
        """A key of a select: a field, or a copy of what it is."""
        if isinstance(place, FieldPlace):
            return place.target()
        last = place.key() if isinstance(place, ChosenField) else None
        if last is not None:
            return last
        copy = self.temporary(place.type, "key")
        data = data_of(place)
        self.assign(copy, Value(BOOL if place.type is BOOL else place.type, place.json()), node)
        del data
        return copy.target()

    def _cases_of(self, keyset: Expression, state: str, keys: list[tuple[Json, int]]) -> list[Case]:
        """The cases that one of the program becomes: ranges are several masks."""
        values = keyset.items if isinstance(keyset, ListOf) else [keyset]
        if len(values) == 1 and isinstance(values[0], Default):
            return [Case(None, None, state)]
        if len(values) == 1 and isinstance(values[0].type, SetType) and isinstance(values[0], Name):
            found = self.environment.find(values[0].target)
            if isinstance(found, ValueSetInstance):
                return [Case(None, found.name, state)]
        alternatives: list[list[tuple[int, int]]] = [[]]
        for value, (_, width) in zip(values, keys, strict=True):
            options = self._masks(value, width)
            if len(alternatives) * len(options) > MOST_CASES:
                raise SourceFault(keyset.at, f"these ranges become more than {MOST_CASES} cases", "Use smaller ranges.")
            alternatives = [[*before, option] for before in alternatives for option in options]
        return [Case(alternative, None, state) for alternative in alternatives]

    def _masks(self, value: Expression, width: int) -> list[tuple[int, int]]:
        ones = (1 << width) - 1
        if isinstance(value, Default):
            return [(0, 0)]
        if isinstance(value, Binary) and value.operator == "&&&":
            return [(self._key_value(value.left) & ones, self._key_value(value.right) & ones)]
        if isinstance(value, Binary) and value.operator == "..":
            low, high = self._key_value(value.left), self._key_value(value.right)
            if low < 0:
                # Signed: the negative part and the other one.
                negative = ranges_as_masks(low & ones, min(high, -1) & ones, width)
                return negative + (ranges_as_masks(0, high, width) if high >= 0 else [])
            return ranges_as_masks(low, high, width)
        if isinstance(value.type, SetType):
            raise SourceFault(value.at, "a value set stands alone in a case")
        return [(self._key_value(value) & ones, ones)]

    def _key_value(self, node: Expression) -> int:
        found = self.evaluate(node)
        if found is None:
            raise SourceFault(node.at, "this key must be known when the program is compiled")
        if isinstance(found, bool | int):
            return int(found)
        if node.type is None:
            raise Unexpected
        return self.member_number(found, plain(node.type))


def local_name(declaration: Declaration) -> str:
    """What the control plane calls something within what is around it."""
    note = declaration.annotation("name")
    return note.string if note is not None and note.string else declaration.name


def full_name(declaration: Declaration, around: Instance | None) -> str:
    """What the control plane calls something; a name that begins with a dot is whole already."""
    name = local_name(declaration)
    if name.startswith("."):
        return name[1:]
    return f"{around.name}.{name}" if around is not None else name
