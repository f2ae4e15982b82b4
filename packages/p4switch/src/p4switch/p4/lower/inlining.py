"""Inlines calls of functions, actions, parsers and controls (specification, sections 6.7 and 8.20)."""

from collections.abc import Iterator, Sequence
from typing import Any

from p4switch.p4.diagnostics import SourceFault, expect
from p4switch.p4.lower import bmv2
from p4switch.p4.lower.bmv2 import Json
from p4switch.p4.lower.layout import Invoke, Labelled
from p4switch.p4.lower.storage import (
    ActionInstance,
    Bindings,
    Callee,
    LoweredInstance,
    Lowering,
    LoweringPart,
    ProgramInstance,
    is_scalar,
    storage_width,
)
from p4switch.p4.syntax import tree
from p4switch.p4.types import kinds
from p4switch.p4.types.warnings import nodes

# Fields that code writes; they decide whether an argument must be copied in (specification, section 6.7).


Callable = tree.Action | tree.Function | tree.Program


class Writes:
    """Finds the targets that code writes, as expressions in the names of that code."""

    def __init__(self) -> None:
        self._known: dict[Any, list[tree.Expression]] = {}
        self._named: dict[Any, set[tree.Parameter]] = {}

    def of(self, callee: Callable) -> list[tree.Expression]:
        """Returns the assignment targets and ``out`` arguments of a callee and of the actions that it may run."""
        targets = self._known.get(callee)
        if targets is None:
            self._known[callee] = []
            targets = self._known[callee] = list(self._of_callee(callee))
        return targets

    def names(self, callee: Callable) -> set[tree.Parameter]:
        """Returns the parameters to which names in a callee refer."""
        parameters = self._named.get(callee)
        if parameters is None:
            parameters = self._named[callee] = {
                node.target
                for node in nodes(callee)
                if isinstance(node, tree.Name) and isinstance(node.target, tree.Parameter)
            }
        return parameters

    def _of_callee(self, callee: Callable) -> Iterator[tree.Expression]:
        for node in nodes(callee):
            if isinstance(node, tree.Assign):
                yield node.left
            elif isinstance(node, tree.Call):
                yield from self._of_call(node)

    def _of_call(self, node: tree.Call) -> Iterator[tree.Expression]:
        target = node.target
        yield from _outs(getattr(target, "parameters", []), node.bound)
        if isinstance(node.callee, tree.Member) and isinstance(target, str):
            yield node.callee.base
        refs = target.actions if isinstance(target, tree.Table) else []
        for action in [target, *(ref.target for ref in refs)]:
            if isinstance(action, tree.Action):
                # An action may write everything in the scope of its control.
                own = set(action.parameters)
                yield from (e for e in self.of(action) if root(e) not in own)
        for ref in refs:
            yield from _outs(getattr(ref.target, "parameters", []), ref.bound)


def _outs(parameters: Sequence[tree.Parameter], values: Sequence[tree.Expression | None]) -> Iterator[tree.Expression]:
    for parameter, value in zip(parameters, values, strict=False):
        if parameter.direction in ("out", "inout") and value is not None:
            yield value


def root(node: tree.Expression) -> Any:
    """Returns the variable or parameter of which a target is a part."""
    while isinstance(node, tree.Member | tree.Index | tree.Slice):
        node = node.base
    return node.target if isinstance(node, tree.Name) else None


MOST_CALLS = 20_000
"""Limit on inlined calls: a few functions, each of which calls the previous one twice, would make billions."""
Leaves = set[tuple[str, str]]


class Inlining(LoweringPart):
    """Inlines calls."""

    def __init__(self, ctx: Lowering) -> None:
        super().__init__(ctx)
        self.writes = Writes()
        self._put = 0

    def call_function(self, node: tree.Call, function: tree.Function) -> bmv2.StoragePlace | None:
        """Inlines a function of the program; returns the place of its result."""
        types = {v: self.ctx.types.substitute(t, self.ctx.environment.types) for v, t in node.type_arguments.items()}
        inner = Bindings(self.ctx.program_environment, types)
        callee = Callee(object())
        result_type = self.ctx.types.substitute(function.result_type, types)
        if result_type is not kinds.VOID:
            callee.result = self.ctx.storage.allocate("tmp", result_type, node.at)
        path = f"{self.ctx.path}{function.name}_"
        self._put_in(node, callee, function.parameters, node.bound, inner, function, path, closed=True)
        return callee.result

    def call_action(self, node: tree.Call, action: ActionInstance) -> None:
        """Inlines an action that is called by name."""
        if self.ctx.where == "control" and not self.ctx.within:
            self.ctx.action_uses.setdefault(action.name, ("called", action.declaration, self.ctx.block))
        inner = Bindings(action.environment)
        callee = Callee(object(), within=action.environment)
        code = action.declaration
        path = f"{self.ctx.path}{code.name}_"
        self.ctx.within += 1
        made = self.ctx.expressions.collected(
            lambda: self._put_in(node, callee, code.parameters, node.bound, inner, code, path, closed=False)
        )
        self.ctx.within -= 1
        if self.ctx.where == "control":
            self.ctx.out.append(Invoke(node.at, node.end, made, action.name))
        else:
            self.ctx.out += made

    def call_program(self, node: tree.Call, instance: ProgramInstance) -> None:
        """Inlines a parser or control."""
        program = instance.program
        inner = Bindings(self.ctx.programs.instance_environment(instance))
        callee = Callee(object())
        self._put_in(node, callee, program.parameters, node.bound, inner, program, instance.path, closed=True)

    def _put_in(
        self,
        node: tree.Call,
        callee: Callee,
        parameters: Sequence[tree.Parameter],
        arguments: Sequence[tree.Expression | None],
        inner: Bindings,
        code: Callable,
        path: str,
        closed: bool,
    ) -> None:
        if len(self.ctx.callees) > 100:
            raise SourceFault(node.at, "calls are nested more than 100 deep")
        self._put += 1
        if self._put > MOST_CALLS:
            hint = "The code is put in wherever it is called: let fewer calls stand in what is called often itself."
            raise SourceFault(node.at, f"the program makes more than {MOST_CALLS:,} calls, each in its own place", hint)
        places = self._arguments(parameters, arguments, node)
        self.bind(node, callee, parameters, places, inner, code, closed)
        outer = (self.ctx.environment, self.ctx.path, self.ctx.out)
        self.ctx.environment, self.ctx.path, self.ctx.out = inner, path, []
        self.ctx.callees.append(callee)
        try:
            self._reset_outs(parameters, inner, node)
            self.ctx.statements.body_of(code, node)
        finally:
            self.ctx.callees.pop()
            body = self.ctx.out
            self.ctx.environment, self.ctx.path, self.ctx.out = outer
        self.ctx.out.append(Labelled(node.at, node.end, body, callee.label))
        self.copy_out(callee, node)

    def copy_out(self, callee: Callee, at: Any) -> None:
        """Copies the ``out`` parameters of a callee to the places of the caller."""
        for place, copy in callee.copies:
            self.ctx.expressions.assign(place, copy, at)

    def _arguments(
        self, parameters: Sequence[tree.Parameter], arguments: Sequence[tree.Expression | None], node: tree.Call
    ) -> list[Any]:
        """Returns the place of each argument, in order; None for an omitted argument."""
        places: list[Any] = []
        later = [value is not None and value.effects for value in arguments]
        for position, (parameter, value) in enumerate(zip(parameters, arguments, strict=True)):
            if value is None:
                places.append(None)
            elif isinstance(parameter.type, kinds.DeclaredType):
                places.append(self.object(value))
            elif parameter.direction in ("out", "inout"):
                self.ctx.holds_index = True
                places.append(self.ctx.expressions.target(value))
                self.ctx.holds_index = False
            else:
                place = self.ctx.expressions.place(value)
                places.append(self.ctx.expressions.held(place, value) if any(later[position + 1 :]) else place)
        return places

    def object(self, node: tree.Expression) -> LoweredInstance | Any:
        """Returns the object that an expression names."""
        if isinstance(node, tree.Name):
            bound = self.ctx.environment.find(node.target)
            if bound is not None:
                return bound
        raise SourceFault(node.at, "this names no object")

    def bind(
        self,
        node: tree.Call,
        callee: Callee,
        parameters: Sequence[tree.Parameter],
        places: Sequence[Any],
        inner: Bindings,
        code: Callable,
        closed: bool,
    ) -> None:
        """Binds parameters to their arguments where that is equivalent to copying, else to copies."""
        outs: list[Leaves] = []
        for index, (parameter, place) in enumerate(zip(parameters, places, strict=True)):
            if parameter.direction not in ("out", "inout"):
                continue
            kind = self.ctx.types.substitute(parameter.type, inner.types)
            mine: Leaves = set(place.leaves()) if isinstance(place, bmv2.StoragePlace) else set()
            others = [set(p.leaves()) for i, p in enumerate(places) if i != index and isinstance(p, bmv2.StoragePlace)]
            apart = (
                closed
                and isinstance(place, bmv2.StoragePlace)
                and place.fixed
                and not any(overlap(mine, o) for o in others)
            )
            if apart and place.type is kind:
                inner.bound[parameter] = place
                outs.append(mine)
                continue
            wanders = parameter.direction == "inout" and isinstance(place, bmv2.StoragePlace) and not place.fixed
            if wanders and parameter not in self.writes.names(code):
                inner.bound[parameter] = place  # copying in may read an element beyond the stack's end
                continue
            copy = self.ctx.storage.allocate(f"{self.ctx.path}{parameter.name}", kind, node.at)
            if parameter.direction == "inout" and place is not None:
                self.ctx.expressions.assign(copy, place, node)
            inner.bound[parameter] = copy
            if place is not None:
                callee.copies.append((place, copy))
        written: Leaves | None = None
        for parameter, place in zip(parameters, places, strict=True):
            if parameter.direction in ("out", "inout"):
                continue
            if place is None:
                raise SourceFault(node.at, f"the argument {parameter.name!r} is missing")
            if not isinstance(place, bmv2.StoragePlace) or isinstance(place, bmv2.NoHeader):
                inner.bound[parameter] = place
                continue
            if isinstance(place, bmv2.Value) and bmv2.is_constant(place.data):
                inner.bound[parameter] = place
                continue
            if written is None:
                written = self._written(code, inner)
            if place.fixed and not overlap(set(place.leaves()), written):
                inner.bound[parameter] = place
                continue
            kind = self.ctx.types.substitute(parameter.type, inner.types)
            copy = self.ctx.storage.allocate(f"{self.ctx.path}{parameter.name}", kind, node.at)
            self.ctx.expressions.assign(copy, place, node)
            inner.bound[parameter] = copy

    def _written(self, code: Callable, inner: Bindings) -> Leaves:
        """Returns the fields that code may write, given the parameters bound so far."""
        leaves: Leaves = set()
        for expression in self.writes.of(code):
            declaration = root(expression)
            bound = inner.find(declaration) if declaration is not None else None
            if isinstance(bound, bmv2.StoragePlace):
                leaves |= set(_narrowed(expression, bound).leaves())
        return leaves

    def _reset_outs(self, parameters: Sequence[tree.Parameter], inner: Bindings, node: tree.Call) -> None:
        """Makes headers in ``out`` parameters invalid (specification, section 6.7)."""
        for parameter in parameters:
            if parameter.direction == "out":
                place = inner.bound.get(parameter)
                if isinstance(place, bmv2.StoragePlace):
                    self.invalidate(place, node)

    def invalidate(self, place: bmv2.StoragePlace, at: Any) -> None:
        """Makes every header in a place invalid."""
        match place:
            case bmv2.StructPlace():
                for member in place.members.values():
                    self.invalidate(member, at)
            case bmv2.StackPlace():
                for element in place.elements:
                    self.invalidate(element, at)
            case bmv2.UnionPlace():
                self.ctx.expressions.assign(place, bmv2.NoHeader(place.type), at)
            case _ if not is_scalar(place.type) and kinds.is_header(kinds.plain(place.type)):
                self.ctx.expressions.assign(place, bmv2.NoHeader(place.type), at)

    def fresh(self, item: tree.Variable) -> bmv2.StoragePlace:
        """Returns a place for a local variable; a variable of an action has the same place in every call.

        A variable without a value then reads what the action's previous call left in it, as in p4c's programs.
        """
        kind = self.ctx.types.substitute(item.type, self.ctx.environment.types)
        owner = self.ctx.callees[-1].within if self.ctx.callees else None
        known = self.ctx.action_locals.get((owner, item)) if owner is not None else None
        if known is not None:
            return known
        place = self.ctx.storage.allocate(f"{self.ctx.path}{item.name}", kind, item.at)
        if owner is not None:
            self.ctx.action_locals[owner, item] = place
        return place


def overlap(leaves: Leaves, other: Leaves) -> bool:
    """Returns whether two sets of fields overlap; ``*`` stands for a whole header."""
    if leaves & other:
        return True
    whole = {header for header, name in leaves if name == "*"}
    if whole and any(header in whole for header, _ in other):
        return True
    whole = {header for header, name in other if name == "*"}
    return bool(whole) and any(header in whole for header, _ in leaves)


def _narrowed(expression: tree.Expression, place: bmv2.StoragePlace) -> bmv2.StoragePlace:
    """Returns the part of a place that a target names, down to the last member of a struct."""
    names: list[str] = []
    node = expression
    while isinstance(node, tree.Member | tree.Index | tree.Slice):
        if isinstance(node, tree.Member):
            names.append(node.name)
        else:
            names.clear()
        node = node.base
    for name in reversed(names):
        if isinstance(place, bmv2.StructPlace) and name in place.members:
            place = place.members[name]
        else:
            break
    return place


# ``packet_in`` and ``packet_out``: extract, lookahead, advance, verify, emit.


class Packets(LoweringPart):
    """Lowers the operations of parsers and deparsers on packets."""

    def on_packet(self, node: tree.Call, extern: str, method: str) -> bmv2.StoragePlace | None:
        """Lowers a method of the packet."""
        if extern == "packet_out":
            if self.ctx.where != "deparser":
                raise SourceFault(node.at, "emit(…) is for the deparser")
            self._emit(self.ctx.expressions.place(self._first(node)), node)
            return None
        if self.ctx.where != "parser":
            raise SourceFault(node.at, f"{method}(…) is for parsers")
        match method:
            case "extract":
                self._extract(node)
            case "advance":
                self.ctx.do(node, "advance", self._wrapped(self.ctx.expressions.data(self._first(node))))
            case "lookahead":
                kind = self.ctx.types.substitute(
                    node.type_arguments[node.target.type_variables[0]], self.ctx.environment.types
                )
                return self._lookahead(node, kind)
            case "length":
                hint = "Use standard_metadata.packet_length."
                raise SourceFault(node.at, "BMv2's parser does not know the packet's length by itself", hint)
        return None

    def _first(self, node: tree.Call) -> tree.Expression:
        value = node.bound[0]
        if value is None:
            raise SourceFault(node.at, "'_' cannot stand here", "Extract into a header, or use advance(…).")
        return value

    @staticmethod
    def _wrapped(json: Json) -> Json:
        return {"type": "expression", "value": json} if json["type"] == "expression" else json

    # --- extract

    def _extract(self, node: tree.Call) -> None:
        if node.bound[0] is None and len(node.bound) == 1:
            # Extracts to an unused header.
            given = node.type_arguments.get(node.target.type_variables[0])
            if given is not None and kinds.is_header(kinds.plain(given)):
                unused = expect(self.ctx.storage.allocate("unused", given, node.at), bmv2.HeaderPlace)
                self.ctx.do(node, "extract", {"type": "regular", "value": unused.name})
                return
        value = self._first(node)
        kind = kinds.plain(self.ctx.type_of(value))
        if not kinds.is_header(kind):
            hint = (
                "Name a header of it."
                if isinstance(kind, kinds.CompositeType | kinds.StackType)
                else "Only headers are extracted."
            )
            raise SourceFault(value.at, f"extract(…) takes a header, not {kind}", hint)
        varying = any(isinstance(kinds.plain(t), kinds.Varbits) for t in kind.fields.values())  # type: ignore[attr-defined]
        length: Json | None = None
        if len(node.bound) > 1 and node.bound[1] is not None:
            length = {"type": "expression", "value": self.ctx.expressions.data(node.bound[1])}
            if not varying:
                raise SourceFault(node.at, f"{kind} has no field of variable length", "Leave the length out.")
        elif varying:
            hint = "Give its length in bits: extract(h, n)."
            raise SourceFault(node.at, f"{kind} has a field of variable length", hint)
        header = self._extracted(value)
        if length is None:
            self.ctx.do(node, "extract", header)
        else:
            self.ctx.do(node, "extract_VL", header, length)

    def _extracted(self, value: tree.Expression) -> Json:
        if (
            isinstance(value, tree.Member)
            and value.name == "next"
            and isinstance(self._stack_type(value.base), kinds.StackType)
        ):
            return {"type": "stack", "value": expect(self.ctx.expressions.place(value.base), bmv2.StackPlace).name}
        inner = value.base if isinstance(value, tree.Member) else None
        if isinstance(value, tree.Member) and isinstance(inner, tree.Member) and inner.name == "next":
            stack = self.ctx.expressions.place(inner.base)
            if isinstance(stack, bmv2.StackPlace):
                return {"type": "union_stack", "value": [stack.name, value.name]}
        place = self.ctx.expressions.place(value)
        if not isinstance(place, bmv2.HeaderPlace):
            hint = "Use .next, or an index that is a number."
            raise SourceFault(value.at, "BMv2 extracts headers that the program names", hint)
        return {"type": "regular", "value": place.name}

    def _stack_type(self, node: tree.Expression) -> kinds.Type | None:
        return kinds.plain(self.ctx.type_of(node)) if node.type is not None else None

    # --- lookahead

    def _lookahead(self, node: tree.Call, kind: kinds.Type) -> bmv2.StoragePlace:
        place = self.ctx.storage.allocate("tmp", kind, node.at)
        self._look(place, kind, 0, node)
        return place

    def _look(self, place: bmv2.StoragePlace, kind: kinds.Type, offset: int, node: tree.Call) -> int:
        """Fills a place from the bits at an offset (in bits); returns the next offset."""
        bare = kinds.plain(kind)
        match place:
            case bmv2.HeaderPlace():
                self.ctx.do(node, "add_header", place.json())
                for name, inner in expect(bare, kinds.CompositeType).fields.items():
                    offset = self._look(self.ctx.expressions.header_member(place, name), inner, offset, node)
                return offset
            case bmv2.StructPlace():
                inner_kinds = list(bare.fields.values()) if isinstance(bare, kinds.CompositeType) else []
                inner_kinds = list(bare.elements) if isinstance(bare, kinds.TupleType) else inner_kinds
                for member, inner in zip(place.members.values(), inner_kinds, strict=True):
                    offset = self._look(member, inner, offset, node)
                return offset
            case bmv2.StackPlace() if isinstance(bare, kinds.StackType):
                for element in place.elements:
                    offset = self._look(element, bare.element, offset, node)
                return offset
            case bmv2.FieldPlace() if is_scalar(kind):
                width = storage_width(kind)
                self.ctx.do(node, "assign", place.target(), {"type": "lookahead", "value": [offset, width]})
                return offset + width
        raise SourceFault(node.at, f"lookahead gives numbers, structs and headers of them, not {kind}")

    # --- verify

    def verify(self, node: tree.Call) -> None:
        """Lowers ``verify(condition, error)``."""
        condition, error = (expect(value, tree.Expression) for value in node.bound)
        self.ctx.do(node, "verify", self.ctx.expressions.scalar(condition), self.ctx.expressions.data(error))

    # --- emit

    def _emit(self, place: bmv2.StoragePlace, node: tree.Call) -> None:
        match place:
            case bmv2.HeaderPlace():
                self.ctx.emitted.append(place.name)
            case bmv2.StructPlace():
                for member in place.members.values():
                    self._emit(member, node)
            case bmv2.StackPlace():
                for element in place.elements:
                    self._emit(element, node)
            case bmv2.UnionPlace() if place.chosen is None:
                for member in place.members.values():
                    self._emit(member, node)
            case _:
                raise SourceFault(node.at, f"emit(…) takes headers, stacks and structs of them, not {place.type}")
