"""The whole JSON of a program."""

from typing import Any

from p4reduce.frontend.diagnostics import Diagnostics, SourceFault
from p4reduce.frontend.lower.checksums import ChecksumLowering
from p4reduce.frontend.lower.code import Code, Do, Graph
from p4reduce.frontend.lower.layout_actions import ActionLayout
from p4reduce.frontend.lower.layout_parsers import ParserLayout
from p4reduce.frontend.lower.layout_pipelines import PipelineLayout
from p4reduce.frontend.lower.objects import Environment, Instance, ProgramInstance
from p4reduce.frontend.lower.places import NoHeader, Place, StructPlace
from p4reduce.frontend.lower.sourceinfo import SourceInfo
from p4reduce.frontend.lower.storage import Storage, bits_of, is_scalar, storage_width
from p4reduce.frontend.lower.values import Json
from p4reduce.frontend.lower.writes import Writes
from p4reduce.frontend.source import Sources
from p4reduce.frontend.syntax.declarations import Action, Declaration
from p4reduce.frontend.syntax.declarations import Instance as InstanceDecl
from p4reduce.frontend.syntax.numbers import value_of
from p4reduce.frontend.syntax.tokens import NUMBER
from p4reduce.frontend.syntax.tree import Expression
from p4reduce.frontend.types.kinds import BOOL, CompositeType, DeclaredType, plain
from p4reduce.frontend.types.programs import Checker

VERSION = [2, 23]
COMPILER = "https://github.com/p4reduce/p4reduce"
BLOCKS = ("parser", "verify", "ingress", "egress", "compute", "deparser")
PARAMETERS = (4, 2, 3, 3, 2, 2)
"""How many each block has."""
_WHERE = {"parser": "parser", "verify": "checksum", "compute": "checksum", "deparser": "deparser"}


class Emitter(ChecksumLowering):
    """Lowers a program."""

    def __init__(self, diagnostics: Diagnostics, checker: Checker, sources: Sources) -> None:
        super().__init__(diagnostics, checker.types, Storage())
        self.checker = checker
        self.info = SourceInfo(sources)
        self.writes = Writes()
        self.program_environment = Environment()
        self.calculations, self.checksums = [], []
        self.field_lists, self.learn_lists = [], []
        self.lists_used = {}
        self.tables, self.actions, self.profiles = [], [], []
        self.instances, self.value_sets, self._running = [], [], []
        self.emitted = []
        self.direct: list[Instance] = []
        found = checker.globals.find("NoAction")
        self.no_action = found if isinstance(found, Action) else None
        self.names: set[str] = set()
        self.blocks: dict[str, ProgramInstance] = {}
        self.profile_objects, self.digests, self.action_uses, self.action_locals = {}, {}, {}, {}
        self.extern_calls = 0

    def note_direct(self, instance: Instance) -> None:
        """See TableLowering."""
        if instance not in self.direct:
            self.direct.append(instance)

    def program(self, declarations: list[Declaration], name: str) -> Json:
        """The JSON of a program."""
        main = self._main(declarations)
        for declaration in declarations:
            if isinstance(declaration, InstanceDecl) and declaration is not main:
                self.environment = self.program_environment
                self.program_environment.bound[declaration] = self.make(declaration, None)
        self.environment = self.program_environment
        # A program may declare the package itself, as what another preprocessor has written does.
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

    def _main(self, declarations: list[Declaration]) -> InstanceDecl:
        found = [d for d in declarations if isinstance(d, InstanceDecl) and d.name == "main"]
        at = declarations[-1].at if declarations else 0
        if not found:
            raise SourceFault(at, "the program has no 'main'", "End it with V1Switch(…) main;")
        kind = found[0].type
        if not isinstance(kind, DeclaredType) or kind.name != "V1Switch":
            raise SourceFault(found[0].at, f"'main' is {kind}, not V1Switch")
        return found[0]

    def _block(self, value: Expression) -> ProgramInstance:
        found = self.constructed(value, None)
        if not isinstance(found, ProgramInstance):
            raise SourceFault(value.at, "this is no parser or control")
        return found

    def _parameters(self) -> tuple[Place, Place, Place]:
        """The places of headers, metadata and standard metadata, which all blocks share."""
        parser = self.blocks["parser"].program
        standard = self.storage.standard_metadata(parser.parameters[3].type)
        headers = self.storage.allocate("", parser.parameters[1].type, parser.parameters[1].at)
        if not isinstance(headers, StructPlace):
            hint = "Put the header into a struct."
            raise SourceFault(parser.parameters[1].at, "the headers of a program are a struct", hint)
        metadata = self.storage.allocate("meta", parser.parameters[2].type, parser.parameters[2].at)
        self._shared = {parser.parameters[2]: metadata}
        return headers, metadata, standard

    def _run(self, block: str, places: list[Any]) -> list[Code]:
        """The steps of a block of the package."""
        instance = self.blocks[block]
        self.where, self.block = _WHERE.get(block, "control"), block
        self.path = ""
        outer = self.environment
        inner = self.environment = Environment(self.instance_environment(instance))
        for parameter, place in zip(instance.program.parameters, places, strict=True):
            inner.bound[parameter] = place
        self._running.append(instance)
        self.out = []
        self.program_body(instance.program, instance.program)
        self._running.pop()
        self.environment = outer
        return self.out

    def _parser_of(self, places: tuple[Place, Place, Place]) -> Json:
        packet = NoHeader(BOOL)
        codes = self._run("parser", [packet, *places])
        layout = ParserLayout(self.info, lambda: self.temporary(BOOL))
        start, states = layout.run(codes)
        return {"name": "parser", "id": 0, "init_state": start, "parse_states": states}

    def _pipeline(self, block: str, number: int, places: tuple[Place, Place, Place]) -> Json:
        self.tables, self.profiles = [], []
        codes = self._run(block, list(places))
        layout = PipelineLayout(self.info, self.add_action, self.names)
        for table in self.tables:
            if table.name in self.names:
                hint = "Give egress a control and tables of its own."
                raise SourceFault(table.declaration.at, f"the table {table.name!r} is in ingress and in egress", hint)
        self.names |= {table.name for table in self.tables}
        made = [table.json for table in self.tables if table.json is not None]
        first, tables, conditionals = layout.run(codes, made)
        return {
            "name": block,
            "id": number,
            "source_info": self.blocks[block].program,
            "init_table": first,
            "tables": tables,
            "action_profiles": self.info.finish(self.profiles),
            "conditionals": conditionals,
        }

    def _checksums_of(self, block: str, places: tuple[Place, Place, Place]) -> None:
        steps = self._run(block, list(places[:2]))
        if not all(isinstance(code, Do) and code.operation == "log_msg" for code in _flat(steps)):
            code = _flat(steps)[0]
            hint = "Only calls of verify_checksum and update_checksum stand there; conditions are their first argument."
            raise SourceFault(code.at, "the target runs no statements in a checksum control", hint)

    def _deparser_of(self, places: tuple[Place, Place, Place]) -> Json:
        steps = _flat(self._run("deparser", [NoHeader(BOOL), places[0]]))
        for code in steps:
            if isinstance(code, Graph) or not (isinstance(code, Do) and code.operation == "log_msg"):
                hint = "emit(…) leaves invalid headers out by itself; do the rest in egress."
                raise SourceFault(code.at, "the target's deparser only emits headers", hint)
        program = self.blocks["deparser"].program
        return {"name": "deparser", "id": 0, "source_info": program, "order": self.emitted, "primitives": []}

    # --- what is collected

    def _whole(self, name: str, parser: Json, pipelines: list[Json], deparser: Json) -> Json:
        self._fill_field_lists()
        number = [0, 0]
        for pipeline in pipelines:
            for kind, section in enumerate(("tables", "conditionals")):
                for item in pipeline[section]:
                    item["id"] = number[kind]
                    number[kind] += 1
        for action in self.actions:
            self._finish_action(action)
        sections = self._extern_sections()
        storage = self.storage
        storage.finish()
        finish = self.info.finish
        for pipeline in pipelines:
            finish(pipeline["tables"])
            for table in pipeline["tables"]:
                finish(table.get("entries", []))
        for item in self.field_lists:
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
            "field_lists": finish(self.field_lists),
            "errors": [[member.name, member.number] for member in self.checker.errors.values()],
            "enums": [{"name": n, "entries": [list(e) for e in entries]} for n, entries in self.enums.items()],
            "parsers": finish([parser]),
            "parse_vsets": finish(self.value_sets),
            "deparsers": finish([deparser]),
            **sections,
            "calculations": finish(self.calculations),
            "learn_lists": finish(self.learn_lists),
            "actions": self.actions,
            "pipelines": finish(pipelines),
            "checksums": finish(self.checksums),
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
        """Gathers the fields of the metadata that are annotated with each list's number."""
        members = self.blocks["parser"].program.parameters[2].type
        place = self._metadata_place()
        for item in self.field_lists:
            number = item["number"]
            item["name"] = f"field_list{number}" if number >= 0 else "empty"
            item["elements"] = []
            if number >= 0:
                self._annotated(members, place, number, item["elements"])
                if not item["elements"]:
                    node = self.lists_used[number]
                    hint = f"Write @field_list({number}) in front of fields of the metadata."
                    self.diagnostics.warning(node.at, f"no field is in the field list {number}", hint)

    def _metadata_place(self) -> Place:
        parameter = self.blocks["parser"].program.parameters[2]
        return self._shared[parameter]

    _shared: dict[Any, Place]

    def _annotated(self, kind: Any, place: Place, number: int, found: list[Json]) -> None:
        bare = plain(kind)
        if not isinstance(bare, CompositeType) or not isinstance(place, StructPlace):
            return
        for declared in bare.declaration.fields:
            member = place.members[declared.name]
            numbers = {
                value_of(t) for a in declared.annotations if a.name == "field_list" for t in a.tokens if t[0] == NUMBER
            }
            if number in numbers:
                for json, _, _ in self.leaf_values(member, declared):
                    found.append(json)
            else:
                self._annotated(bare.fields[declared.name], member, number, found)

    def _extern_sections(self) -> Json:
        counters: list[Json] = []
        meters: list[Json] = []
        registers: list[Json] = []
        known = self.instances + [i for i in self.direct if i not in self.instances]
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

    def _size(self, instance: Instance, index: int = 0) -> int:
        size = instance.arguments[index]
        if not isinstance(size, int):
            raise SourceFault(instance.at, f"the size of {instance.name!r} must be known when the program is compiled")
        return int(size)

    def _counter(self, instance: Instance, counters: list[Json]) -> None:
        item: Json = {"name": instance.name, "id": len(counters), "source_info": instance.declaration}
        if instance.type.name == "counter":
            counters.append({**item, "size": self._size(instance), "is_direct": False})
        elif "binding" in instance.extra:
            counters.append({**item, "is_direct": True, "binding": instance.extra["binding"]})

    def _meter(self, instance: Instance, meters: list[Json]) -> None:
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
            target = self.temporary(width).target()
        size, table = instance.extra["size"], instance.extra["binding"]
        meters.append({**item, "size": size, "binding": table, "result_target": target["value"]})

    def _register(self, instance: Instance, number: int) -> Json:
        element = instance.type.arguments[0]
        if not is_scalar(element) or (bits_of(element) is None and plain(element) is not BOOL):
            hint = "Use bit<…> of the width of all fields, and a ++ b and slices."
            raise SourceFault(instance.at, f"a register holds numbers, not {element}", hint)
        return {
            "name": instance.name,
            "id": number,
            "source_info": instance.declaration,
            "size": self._size(instance),
            "bitwidth": storage_width(element),
        }


def _flat(codes: list[Code]) -> list[Code]:
    found: list[Code] = []
    for code in codes:
        inner = getattr(code, "body", None)
        found += _flat(inner) if isinstance(inner, list) else [code]
    return found
