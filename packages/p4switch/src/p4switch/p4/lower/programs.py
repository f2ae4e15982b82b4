"""Lowers instances of parsers and controls: declarations, states and apply blocks (specification, section 17)."""

from typing import Any, Final

from p4switch.p4.diagnostics import Diagnostics, SourceFault, SourceFiles, expect
from p4switch.p4.lower import bmv2
from p4switch.p4.lower.bmv2 import Json
from p4switch.p4.lower.expressions import ExpressionLowering
from p4switch.p4.lower.externs import CallLowering, ExternLowering
from p4switch.p4.lower.inlining import Inlining, Packets
from p4switch.p4.lower.layout import (
    ActionLayout,
    Do,
    Invoke,
    Labelled,
    LoweredCase,
    LoweredCode,
    ParserGraph,
    ParserLayout,
    ParserStep,
    PipelineLayout,
    SourceInfoMaker,
)
from p4switch.p4.lower.statements import Loops, StatementsLowering, TablesLowering, key_value, ranges_as_masks
from p4switch.p4.lower.storage import (
    ActionInstance,
    Bindings,
    LoweredInstance,
    Lowering,
    LoweringPart,
    ProgramInstance,
    TableInstance,
    ValueSetInstance,
    bits_of,
    is_scalar,
    storage_width,
)
from p4switch.p4.syntax import tree
from p4switch.p4.syntax.preprocessor import NUMBER, value_of
from p4switch.p4.types import kinds
from p4switch.p4.types.programs import Checker

MOST_CASES = 4096
"""Largest number of cases into which the ranges of one case of a select may be split."""


class ProgramLowering(LoweringPart):
    """Makes instances and inlines their code."""

    def call_program(self, node: tree.Call, instance: ProgramInstance) -> None:
        """Inlines a parser or control."""
        self.ctx.running.append(instance)
        try:
            self.ctx.inlining.call_program(node, instance)
        finally:
            self.ctx.running.pop()

    def direct_instance(self, node: tree.Call, program: tree.Program) -> ProgramInstance:
        """Returns the instance for a call ``C.apply(…)`` on a type, named after the type and made once per call."""
        around = self.ctx.running[-1]
        instance = around.directly.get(node)
        if instance is None:
            kind = program.type
            name = f"{around.name}.{program.name}"
            instance = ProgramInstance(name, kind, [], program, node.at, f"{around.path}{program.name}_")
            around.directly[node] = instance
        return instance

    def instance_environment(self, instance: ProgramInstance) -> Bindings:
        """Returns the bindings of an instance's declarations; makes them at the first call."""
        if instance.environment is not None:
            return instance.environment
        made = instance.environment = Bindings(self.ctx.program_environment)
        outer, self.ctx.environment = self.ctx.environment, made
        program = instance.program
        for parameter, argument in zip(program.constructor, instance.arguments, strict=True):
            if isinstance(argument, LoweredInstance | bmv2.StoragePlace):
                made.bound[parameter] = argument
            elif argument is None:
                raise SourceFault(instance.at, f"the constructor argument {parameter.name!r} must be known here")
            else:
                made.bound[parameter] = self.ctx.expressions.constant_place(argument, parameter.type)
        for local in program.locals:
            match local:
                case tree.Instance():
                    made.bound[local] = self.make(local, instance)
                case tree.Table():
                    name = full_name(local, instance)
                    made.bound[local] = TableInstance(name, local, made, instance.path)
                case tree.ValueSet():
                    made.bound[local] = self._value_set(local, instance)
        self.ctx.environment = outer
        return made

    def make(self, declaration: tree.Instance, around: ProgramInstance | None) -> LoweredInstance:
        """Makes an instance of an extern, parser or control."""
        kind = declaration.type
        name = full_name(declaration, around)
        arguments = []
        for value in declaration.bound:
            if value is not None and isinstance(value.type, kinds.DeclaredType):
                arguments.append(self.constructed(value, around))
            else:
                arguments.append(self.ctx.evaluate(value))
        path = f"{around.path if around is not None else ''}{declaration.name}_"
        if isinstance(kind.declaration, tree.Program):
            return ProgramInstance(name, kind, arguments, declaration, declaration.at, path)
        instance = LoweredInstance(name, kind, arguments, declaration, declaration.at, path)
        self.ctx.instances.append(instance)
        return instance

    def constructed(self, value: tree.Expression, around: ProgramInstance | None) -> Any:
        """Returns the object that an argument names or constructs."""
        if isinstance(value, tree.Name):
            return self.ctx.inlining.object(value)
        if not isinstance(value, tree.Call) or not isinstance(value.type, kinds.DeclaredType):
            raise SourceFault(value.at, "this is no object")
        declaration = value.type.declaration
        arguments = [
            self.constructed(v, around)
            if v is not None and isinstance(v.type, kinds.DeclaredType)
            else self.ctx.evaluate(v)
            for v in value.bound
        ]
        prefix = f"{around.name}." if around is not None else ""
        if isinstance(declaration, tree.Program):
            name = prefix + declaration.name  # an annotation of a type does not rename its instances
            return ProgramInstance(name, value.type, arguments, declaration, value.at, around.path if around else "")
        instance = LoweredInstance(prefix + declaration.shown, value.type, arguments, declaration, value.at)
        self.ctx.instances.append(instance)
        return instance

    def _value_set(self, declaration: tree.ValueSet, around: ProgramInstance) -> ValueSetInstance:
        kind = expect(declaration.type, kinds.SetType)
        bare = kinds.plain(kind.element)
        parts = [kind.element]
        if isinstance(bare, kinds.CompositeType):
            parts = list(bare.fields.values())
        elif isinstance(bare, kinds.TupleType):
            parts = list(bare.elements)
        item: Json = {
            "name": full_name(declaration, around),
            "id": len(self.ctx.value_sets),
            "source_info": declaration,
            "compressed_bitwidth": sum(storage_width(part) for part in parts),
            "max_size": self.ctx.number(declaration.size, "the size of a value set", declaration.at),
        }
        self.ctx.value_sets.append(item)
        return ValueSetInstance(item["name"], declaration, item)

    # --- bodies

    def program_body(self, program: tree.Program, at: Any) -> None:
        """Lowers the code of a parser or control, with its parameters bound in the current environment."""
        inner = self.ctx.environment
        around = self.ctx.running[-1]
        for local in program.locals:
            match local:
                case tree.Action():
                    inner.bound[local] = ActionInstance(full_name(local, around), local, inner)
                case tree.Table():
                    table = inner.find(local)
                    table.environment = inner
                case tree.Constant():
                    inner.bound[local] = self.ctx.expressions.place(local.initial)
                case tree.Variable():
                    self._local_variable(local, around)
        if program.kind == "parser":
            self._parser(program, around, at)
        elif program.body is not None:
            self.ctx.statements.block_of(program.body)

    def _local_variable(self, local: tree.Variable, around: ProgramInstance) -> None:
        bound = expect(around.environment, Bindings).bound
        place = bound.get(local)
        if place is None:
            outer, self.ctx.path = self.ctx.path, around.path
            place = self.ctx.inlining.fresh(local)
            self.ctx.path = outer
            bound[local] = place
        self.ctx.environment.bound[local] = place
        self.ctx.statements.variable(local)

    # --- parsers

    def _parser(self, program: tree.Program, around: ProgramInstance, at: Any) -> None:
        steps = {state.name: self._state(state) for state in program.states}
        self.ctx.out.append(ParserGraph(at.at, at.end, steps, around.path))

    def _state(self, state: tree.State) -> ParserStep:
        outer_environment, outer_out = self.ctx.environment, self.ctx.out
        self.ctx.environment, self.ctx.out = Bindings(outer_environment), []
        try:
            for item in state.items:
                self.ctx.statements.statement(item)
            keys: list[tuple[Json, int]] = []
            cases: list[LoweredCase] = []
            transition = state.transition
            if transition is None:
                cases.append(LoweredCase(None, None, "reject"))
            elif transition.target is not None:
                cases.append(LoweredCase(None, None, transition.target))
            else:
                later = [key.effects for key in transition.keys]
                places = []
                for position, key in enumerate(transition.keys):
                    place = self.ctx.expressions.place(key)
                    places.append(self.ctx.expressions.held(place, key) if any(later[position + 1 :]) else place)
                keys = [
                    (self._select_key(p, k), storage_width(p.type))
                    for p, k in zip(places, transition.keys, strict=True)
                ]
                for case in transition.cases:
                    cases += self._cases_of(case.keyset, case.state, keys)
            return ParserStep(state.name, state.at, state.end, self.ctx.out, keys, cases)
        finally:
            self.ctx.environment, self.ctx.out = outer_environment, outer_out

    def _select_key(self, place: bmv2.StoragePlace, node: tree.Expression) -> Json:
        """Returns a key of a select: a field, or a copy of the value."""
        if isinstance(place, bmv2.FieldPlace):
            return place.target()
        last = place.key() if isinstance(place, bmv2.ChosenField) else None
        if last is not None:
            return last
        copy = self.ctx.temporary(place.type, "key")
        self.ctx.expressions.assign(
            copy, bmv2.Value(kinds.BOOL if place.type is kinds.BOOL else place.type, place.json()), node
        )
        return copy.target()

    def _cases_of(self, keyset: tree.Expression, state: str, keys: list[tuple[Json, int]]) -> list[LoweredCase]:
        """Returns the cases for one case of the program; a range becomes several masks."""
        values = keyset.items if isinstance(keyset, tree.ListOf) else [keyset]
        if len(values) == 1 and isinstance(values[0], tree.Default):
            return [LoweredCase(None, None, state)]
        if len(values) == 1 and isinstance(values[0].type, kinds.SetType) and isinstance(values[0], tree.Name):
            bound = self.ctx.environment.find(values[0].target)
            if isinstance(bound, ValueSetInstance):
                return [LoweredCase(None, bound.name, state)]
        alternatives: list[list[tuple[int, int]]] = [[]]
        for value, (_, width) in zip(values, keys, strict=True):
            options = self._masks(value, width)
            if len(alternatives) * len(options) > MOST_CASES:
                raise SourceFault(keyset.at, f"these ranges become more than {MOST_CASES} cases", "Use smaller ranges.")
            alternatives = [[*before, option] for before in alternatives for option in options]
        return [LoweredCase(alternative, None, state) for alternative in alternatives]

    def _masks(self, value: tree.Expression, width: int) -> list[tuple[int, int]]:
        ones = (1 << width) - 1
        if isinstance(value, tree.Default):
            return [(0, 0)]
        if isinstance(value, tree.Binary) and value.operator == "&&&":
            return [(key_value(self.ctx, value.left) & ones, key_value(self.ctx, value.right) & ones)]
        if isinstance(value, tree.Binary) and value.operator == "..":
            low, high = key_value(self.ctx, value.left), key_value(self.ctx, value.right)
            if low < 0:
                # A signed range has a negative and a non-negative part.
                negative = ranges_as_masks(low & ones, min(high, -1) & ones, width)
                return negative + (ranges_as_masks(0, high, width) if high >= 0 else [])
            return ranges_as_masks(low, high, width)
        if isinstance(value.type, kinds.SetType):
            raise SourceFault(value.at, "a value set stands alone in a case")
        return [(key_value(self.ctx, value) & ones, ones)]


def full_name(declaration: tree.Declaration, around: LoweredInstance | None) -> str:
    """Returns a declaration's name for the control plane; a name that begins with a dot gets no prefix."""
    name = declaration.shown
    if name.startswith("."):
        return name[1:]
    return f"{around.name}.{name}" if around is not None else name


# The controls that verify and update checksums; BMv2 takes a list of checksums in place of code.


WIDEST: Final = 64


class Checksums(LoweringPart):
    """Lowers checksums."""

    def checksum(self, node: tree.Call) -> None:
        """Lowers verify_checksum, update_checksum, and their forms with the payload."""
        name = node.target.name
        if self.ctx.where != "checksum":
            raise SourceFault(node.at, f"{name!r} is for the checksum controls only", "Move it there.")
        verify = name.startswith("verify")
        if verify != (self.ctx.block == "verify"):
            other = "ComputeChecksum" if not verify else "VerifyChecksum"
            raise SourceFault(node.at, f"{name!r} belongs into the control for {other}")
        condition = self.ctx.expressions.scalar(self.ctx.externs.argument(node, 0))
        data = self.ctx.expressions.place(self.ctx.externs.argument(node, 1))
        if not isinstance(data, bmv2.StructPlace | bmv2.HeaderPlace | bmv2.FieldPlace):
            raise SourceFault(node.at, "a checksum is over a list of fields", "Write { hdr.a, hdr.b }.")
        target = self.ctx.expressions.target(self.ctx.externs.argument(node, 2))
        if not isinstance(target, bmv2.FieldPlace):
            raise SourceFault(node.at, "a checksum is a field of a header")
        if storage_width(target.type) > WIDEST:
            message = f"a checksum has at most {WIDEST} bits on this target, but this is {target.type}"
            raise SourceFault(self.ctx.externs.argument(node, 2).at, message, "A checksum of csum16 has 16.")
        algorithm = self.ctx.externs.algorithm(self.ctx.externs.argument(node, 3))
        payload = name.endswith("_with_payload")
        calculation = self.ctx.externs.calculation(algorithm, data, node, payload, copy=False)
        count = len(self.ctx.checksum_list)
        item: Json = {
            "name": "cksum" if count == 0 else f"cksum_{count - 1}",
            "id": count,
            "source_info": node,
            "target": target.target()["value"],
            "type": "generic",
            "calculation": calculation,
            "verify": verify,
            "update": not verify,
        }
        if bmv2.is_constant(condition) and not condition["value"]:
            return
        item["if_cond"] = condition
        self.ctx.checksum_list.append(item)


# The whole JSON of a program.


VERSION = [2, 23]
COMPILER = "https://github.com/p4reduce/p4reduce"
BLOCKS = ("parser", "verify", "ingress", "egress", "compute", "deparser")
PARAMETERS = (4, 2, 3, 3, 2, 2)
"""Number of parameters of each of BLOCKS."""
_WHERE = {"parser": "parser", "verify": "checksum", "compute": "checksum", "deparser": "deparser"}


class Emitter:
    """Lowers a whole program."""

    def __init__(self, diagnostics: Diagnostics, checker: Checker, sources: SourceFiles) -> None:
        no_action = checker.env.globals.find("NoAction")
        self.ctx = ctx = Lowering(
            diagnostics, checker.env.types, no_action if isinstance(no_action, tree.Action) else None
        )
        ctx.expressions = ExpressionLowering(ctx)
        ctx.inlining = Inlining(ctx)
        ctx.packets = Packets(ctx)
        ctx.externs = ExternLowering(ctx)
        ctx.calls = CallLowering(ctx)
        ctx.loops = Loops(ctx)
        ctx.statements = StatementsLowering(ctx)
        ctx.tables = TablesLowering(ctx)
        ctx.programs = ProgramLowering(ctx)
        ctx.checksums = Checksums(ctx)
        self.checker = checker
        self.info = SourceInfoMaker(sources)
        self.names: set[str] = set()
        self.blocks: dict[str, ProgramInstance] = {}

    def program(self, declarations: list[tree.Declaration], name: str) -> Json:
        """Returns the JSON of a program."""
        main = self._main(declarations)
        for declaration in declarations:
            if isinstance(declaration, tree.Instance) and declaration is not main:
                self.ctx.environment = self.ctx.program_environment
                self.ctx.program_environment.bound[declaration] = self.ctx.programs.make(declaration, None)
        self.ctx.environment = self.ctx.program_environment
        # The program may declare the package itself, as the output of another preprocessor does.
        given = list(main.bound) if len(main.bound) == len(BLOCKS) else [None] * len(BLOCKS)
        for block, value, count in zip(BLOCKS, given, PARAMETERS, strict=True):
            if value is not None:
                self.blocks[block] = self._block(value)
            if value is None or len(self.blocks[block].program.parameters) != count:
                raise SourceFault(main.at, "this V1Switch is not that of v1model", "Write #include <v1model.p4>.")
        parameters = self._parameters()
        parser = self._parser_of(parameters)
        pipelines = [self._pipeline(block, i, parameters) for i, block in enumerate(("ingress", "egress"))]
        for block in ("compute", "verify"):
            self._checksums_of(block, parameters)
        deparser = self._deparser_of(parameters)
        return self._whole(name, parser, pipelines, deparser)

    def _main(self, declarations: list[tree.Declaration]) -> tree.Instance:
        mains = [d for d in declarations if isinstance(d, tree.Instance) and d.name == "main"]
        at = declarations[-1].at if declarations else 0
        if not mains:
            raise SourceFault(at, "the program has no 'main'", "End it with V1Switch(…) main;")
        kind = mains[0].type
        if not isinstance(kind, kinds.DeclaredType) or kind.name != "V1Switch":
            raise SourceFault(mains[0].at, f"'main' is {kind}, not V1Switch")
        return mains[0]

    def _block(self, value: tree.Expression) -> ProgramInstance:
        instance = self.ctx.programs.constructed(value, None)
        if not isinstance(instance, ProgramInstance):
            raise SourceFault(value.at, "this is no parser or control")
        return instance

    def _parameters(self) -> tuple[bmv2.StoragePlace, bmv2.StoragePlace, bmv2.StoragePlace]:
        """Returns the places of headers, metadata and standard metadata, which all blocks share."""
        parser = self.blocks["parser"].program
        standard = self.ctx.storage.standard_metadata(parser.parameters[3].type)
        headers = self.ctx.storage.allocate("", parser.parameters[1].type, parser.parameters[1].at)
        if not isinstance(headers, bmv2.StructPlace):
            hint = "Put the header into a struct."
            raise SourceFault(parser.parameters[1].at, "the headers of a program are a struct", hint)
        metadata = self.ctx.storage.allocate("meta", parser.parameters[2].type, parser.parameters[2].at)
        self._shared = {parser.parameters[2]: metadata}
        return headers, metadata, standard

    def _run(self, block: str, places: list[Any]) -> list[LoweredCode]:
        """Returns the steps of a block of the package."""
        instance = self.blocks[block]
        self.ctx.where, self.ctx.block = _WHERE.get(block, "control"), block
        self.ctx.path = ""
        outer = self.ctx.environment
        inner = self.ctx.environment = Bindings(self.ctx.programs.instance_environment(instance))
        for parameter, place in zip(instance.program.parameters, places, strict=True):
            inner.bound[parameter] = place
        self.ctx.running.append(instance)
        self.ctx.out = []
        self.ctx.programs.program_body(instance.program, instance.program)
        self.ctx.running.pop()
        self.ctx.environment = outer
        return self.ctx.out

    def _parser_of(self, places: tuple[bmv2.StoragePlace, bmv2.StoragePlace, bmv2.StoragePlace]) -> Json:
        packet = bmv2.NoHeader(kinds.BOOL)
        codes = self._run("parser", [packet, *places])
        layout = ParserLayout(self.info, lambda: self.ctx.temporary(kinds.BOOL))
        start, states = layout.run(codes)
        return {"name": "parser", "id": 0, "init_state": start, "parse_states": states}

    def _pipeline(
        self, block: str, number: int, places: tuple[bmv2.StoragePlace, bmv2.StoragePlace, bmv2.StoragePlace]
    ) -> Json:
        self.ctx.applied_tables, self.ctx.profiles = [], []
        codes = self._run(block, list(places))
        layout = PipelineLayout(self.info, self.ctx.tables.add_action, self.names)
        for table in self.ctx.applied_tables:
            if table.name in self.names:
                hint = "Give egress a control and tables of its own."
                raise SourceFault(table.declaration.at, f"the table {table.name!r} is in ingress and in egress", hint)
        self.names |= {table.name for table in self.ctx.applied_tables}
        made = [table.json for table in self.ctx.applied_tables if table.json is not None]
        first, tables, conditionals = layout.run(codes, made)
        return {
            "name": block,
            "id": number,
            "source_info": self.blocks[block].program,
            "init_table": first,
            "tables": tables,
            "action_profiles": self.info.finish(self.ctx.profiles),
            "conditionals": conditionals,
        }

    def _checksums_of(self, block: str, places: tuple[bmv2.StoragePlace, bmv2.StoragePlace, bmv2.StoragePlace]) -> None:
        steps = self._run(block, list(places[:2]))
        if not all(isinstance(code, Do) and code.operation == "log_msg" for code in _flat(steps)):
            code = _flat(steps)[0]
            hint = "Only calls of verify_checksum and update_checksum stand there; conditions are their first argument."
            raise SourceFault(code.at, "the target runs no statements in a checksum control", hint)

    def _deparser_of(self, places: tuple[bmv2.StoragePlace, bmv2.StoragePlace, bmv2.StoragePlace]) -> Json:
        steps = _flat(self._run("deparser", [bmv2.NoHeader(kinds.BOOL), places[0]]))
        for code in steps:
            if isinstance(code, ParserGraph) or not (isinstance(code, Do) and code.operation == "log_msg"):
                hint = "emit(…) leaves invalid headers out by itself; do the rest in egress."
                raise SourceFault(code.at, "the target's deparser only emits headers", hint)
        program = self.blocks["deparser"].program
        return {"name": "deparser", "id": 0, "source_info": program, "order": self.ctx.emitted, "primitives": []}

    # --- collected objects

    def _whole(self, name: str, parser: Json, pipelines: list[Json], deparser: Json) -> Json:
        self._fill_field_lists()
        number = [0, 0]
        for pipeline in pipelines:
            for kind, section in enumerate(("tables", "conditionals")):
                for item in pipeline[section]:
                    item["id"] = number[kind]
                    number[kind] += 1
        for action in self.ctx.actions:
            self._finish_action(action)
        sections = self._extern_sections()
        storage = self.ctx.storage
        storage.finish()
        finish = self.info.finish
        for pipeline in pipelines:
            finish(pipeline["tables"])
            for table in pipeline["tables"]:
                finish(table.get("entries", []))
        for item in self.ctx.field_lists:
            item.pop("number", None)
        return {
            "program": name,
            "__meta__": {"version": VERSION, "compiler": COMPILER},
            "header_types": storage.header_types,
            "headers": storage.headers,
            "header_stacks": storage.stacks,
            "header_union_types": storage.union_types,
            "header_unions": storage.unions,
            "header_union_stacks": storage.union_stacks,
            "field_lists": finish(self.ctx.field_lists),
            "errors": [[member.name, member.number] for member in self.checker.env.errors.values()],
            "enums": [{"name": n, "entries": [list(e) for e in entries]} for n, entries in self.ctx.enums.items()],
            "parsers": finish([parser]),
            "parse_vsets": finish(self.ctx.value_sets),
            "deparsers": finish([deparser]),
            **sections,
            "calculations": finish(self.ctx.calculations),
            "learn_lists": finish(self.ctx.learn_lists),
            "actions": self.ctx.actions,
            "pipelines": finish(pipelines),
            "checksums": finish(self.ctx.checksum_list),
            "force_arith": [],
            "extern_instances": [],
            "field_aliases": storage.aliases,
        }

    def _finish_action(self, action: Json) -> None:
        body, tail, label = action.pop("$code")
        action["primitives"] = ActionLayout(self.info).run(body, tail, label)
        for item in action["primitives"]:
            item.pop("$to", None)
        if "source_info" in action:
            action.pop("source_info")

    def _fill_field_lists(self) -> None:
        """Fills field lists with the metadata fields that are annotated with the list's number."""
        members = self.blocks["parser"].program.parameters[2].type
        place = self._shared[self.blocks["parser"].program.parameters[2]]
        for item in self.ctx.field_lists:
            number = item["number"]
            item["name"] = f"field_list{number}" if number >= 0 else "empty"
            item["elements"] = []
            if number >= 0:
                self._annotated(members, place, number, item["elements"])
                if not item["elements"]:
                    node = self.ctx.lists_used[number]
                    hint = f"Write @field_list({number}) in front of fields of the metadata."
                    self.ctx.diagnostics.warning(node.at, f"no field is in the field list {number}", hint)

    def _annotated(self, kind: Any, place: bmv2.StoragePlace, number: int, values: list[Json]) -> None:
        bare = kinds.plain(kind)
        if not isinstance(bare, kinds.CompositeType) or not isinstance(place, bmv2.StructPlace):
            return
        for declared in bare.declaration.fields:
            member = place.members[declared.name]
            numbers = {
                value_of(t) for a in declared.annotations if a.name == "field_list" for t in a.tokens if t[0] == NUMBER
            }
            if number in numbers:
                for json, _, _ in self.ctx.externs.leaf_values(member, declared):
                    values.append(json)
            else:
                self._annotated(bare.fields[declared.name], member, number, values)

    def _extern_sections(self) -> Json:
        counters: list[Json] = []
        meters: list[Json] = []
        registers: list[Json] = []
        known = self.ctx.instances + [i for i in self.ctx.direct if i not in self.ctx.instances]
        for instance in known:
            match instance.type.name:
                case "counter" | "direct_counter":
                    self._counter(instance, counters)
                case "meter" | "direct_meter":
                    self._meter(instance, meters)
                case "register":
                    registers.append(self._register(instance, len(registers)))
        return {
            "meter_arrays": self.info.finish(meters),
            "counter_arrays": self.info.finish(counters),
            "register_arrays": self.info.finish(registers),
        }

    def _size(self, instance: LoweredInstance, index: int = 0) -> int:
        size = instance.arguments[index]
        if not isinstance(size, int):
            raise SourceFault(instance.at, f"the size of {instance.name!r} must be known when the program is compiled")
        return int(size)

    def _counter(self, instance: LoweredInstance, counters: list[Json]) -> None:
        item: Json = {"name": instance.name, "id": len(counters), "source_info": instance.declaration}
        if instance.type.name == "counter":
            counters.append({**item, "size": self._size(instance), "is_direct": False})
        elif "binding" in instance.extra:
            counters.append({**item, "is_direct": True, "binding": instance.extra["binding"]})

    def _meter(self, instance: LoweredInstance, meters: list[Json]) -> None:
        item: Json = {"name": instance.name, "id": len(meters), "source_info": instance.declaration}
        direct = instance.type.name == "direct_meter"
        if direct and "binding" not in instance.extra:
            return
        kind = instance.arguments[0 if direct else 1]
        item |= {"is_direct": direct, "rate_count": 2, "type": kind.name}
        if not direct:
            meters.append({**item, "size": self._size(instance)})
            return
        target = instance.extra.get("target")
        if target is None:
            width = instance.type.arguments[0]
            target = self.ctx.temporary(width).target()
        size, table = instance.extra["size"], instance.extra["binding"]
        meters.append({**item, "size": size, "binding": table, "result_target": target["value"]})

    def _register(self, instance: LoweredInstance, number: int) -> Json:
        element = instance.type.arguments[0]
        if not is_scalar(element) or (bits_of(element) is None and kinds.plain(element) is not kinds.BOOL):
            hint = "Use bit<…> of the width of all fields, and a ++ b and slices."
            raise SourceFault(instance.at, f"a register holds numbers, not {element}", hint)
        return {
            "name": instance.name,
            "id": number,
            "source_info": instance.declaration,
            "size": self._size(instance),
            "bitwidth": storage_width(element),
        }


def _flat(codes: list[LoweredCode]) -> list[LoweredCode]:
    flat: list[LoweredCode] = []
    for code in codes:
        flat += _flat(code.body) if isinstance(code, Labelled | Invoke) else [code]
    return flat
