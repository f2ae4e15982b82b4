"""Type arguments that follow from arguments (P4_16 specification, section 6.7 and appendix on type inference)."""

from collections.abc import Sequence

from p4reduce.frontend.syntax.declarations import Program
from p4reduce.frontend.types.kinds import (
    INTEGER,
    UNKNOWN,
    CompositeType,
    DeclaredType,
    EnumType,
    RecordType,
    SetType,
    StackType,
    TupleType,
    Type,
    TypeTable,
    TypeVariable,
)


class Unifier:
    """Finds what type variables stand for.

    Attributes:
        found: what is known so far.
    """

    def __init__(self, types: TypeTable, variables: Sequence[TypeVariable]) -> None:
        self.types = types
        self.variables = frozenset(variables)
        self.found: dict[Type, Type] = {}

    def unify(self, wanted: Type, given: Type) -> bool:
        """Makes ``wanted`` be ``given``; whether that can be."""
        if wanted is given or UNKNOWN in (wanted, given):
            return True
        if isinstance(wanted, TypeVariable) and wanted in self.variables:
            return self._bind(wanted, given)
        if given is INTEGER:
            return True  # a number fits or not when it is converted
        match wanted, given:
            case TupleType(), TupleType():
                return self._all(wanted.elements, given.elements)
            case CompositeType(), TupleType() if wanted.kind in ("struct", "header"):
                return self._all(tuple(wanted.fields.values()), given.elements)
            case CompositeType(), RecordType():
                return all(self.unify(t, given.fields[n]) for n, t in wanted.fields.items() if n in given.fields)
            case CompositeType(), CompositeType() if wanted.declaration is given.declaration:
                return self._all(wanted.arguments, given.arguments)
            case StackType(), StackType():
                return wanted.size == given.size and self.unify(wanted.element, given.element)
            case SetType(), SetType():
                return self.unify(wanted.element, given.element)
            case DeclaredType(), DeclaredType() if wanted.declaration is given.declaration:
                return self._all(wanted.arguments, given.arguments)
            case DeclaredType(), DeclaredType() if isinstance(wanted.declaration, Program):
                return self._program(wanted, given)
            case _, EnumType(base=base) if base is wanted:
                return True
        return False

    def _bind(self, variable: TypeVariable, given: Type) -> bool:
        known = self.found.get(variable)
        if known is None or (known is INTEGER and given is not INTEGER):
            self.found[variable] = given
            return True
        if known is given or given is INTEGER:
            return True
        if isinstance(known, TupleType | CompositeType | RecordType) and isinstance(given, TupleType | CompositeType):
            if isinstance(known, TupleType) and isinstance(given, CompositeType):
                self.found[variable] = given
            return True
        return isinstance(given, EnumType) and given.base is known

    def _all(self, wanted: Sequence[Type], given: Sequence[Type]) -> bool:
        return len(wanted) == len(given) and all(self.unify(w, g) for w, g in zip(wanted, given, strict=True))

    def _program(self, wanted: DeclaredType, given: DeclaredType) -> bool:
        """A parser or control for a type of one: parameter by parameter."""
        if wanted.kind != given.kind or not isinstance(given.declaration, Program):
            return False
        of_type, of_program = wanted.declaration.parameters, given.declaration.parameters
        if len(of_type) != len(of_program):
            return False
        own = dict(zip(wanted.declaration.type_variables, wanted.arguments, strict=False))
        for left, right in zip(of_type, of_program, strict=True):
            kind = self.types.substitute(left.type, own)
            if left.direction != right.direction or not self.unify(kind, right.type):
                return False
        return True

    def apply(self, kind: Type) -> Type:
        """A type with what was found put in."""
        return self.types.substitute(kind, self.found)
