"""Builders for small programs in p4c's BMv2 JSON, for tests of the executors.

``ProgramJson`` holds a parser that extracts headers in sequence, pipelines of tables and conditionals, and a deparser
that emits the same headers. Functions make the type-value objects of which expressions consist.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeAlias

Json: TypeAlias = dict[str, Any]

STANDARD_METADATA: Final = (
    ("ingress_port", 9),
    ("egress_spec", 9),
    ("egress_port", 9),
    ("instance_type", 32),
    ("packet_length", 32),
    ("enq_timestamp", 32),
    ("enq_qdepth", 19),
    ("deq_timedelta", 32),
    ("deq_qdepth", 19),
    ("ingress_global_timestamp", 48),
    ("egress_global_timestamp", 48),
    ("mcast_grp", 16),
    ("egress_rid", 16),
    ("checksum_error", 1),
    ("parser_error", 32),
    ("priority", 3),
    ("_padding", 3),
)
"""Fields of v1model's standard_metadata_t and their widths."""

_ALIASES: Final = {
    "queueing_metadata": ("enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth"),
    "intrinsic_metadata": (
        "ingress_global_timestamp",
        "egress_global_timestamp",
        "mcast_grp",
        "egress_rid",
        "priority",
    ),
}

FieldSpec: TypeAlias = tuple[str, int] | tuple[str, int, bool]
"""Name, width in bits, and whether it is signed."""


def field(header: str, name: str) -> Json:
    """Return a reference to a header field."""
    return {"type": "field", "value": [header, name]}


def const(value: int) -> Json:
    """Return an integer constant."""
    return {"type": "hexstr", "value": hex(value)}


def parameter(index: int) -> Json:
    """Return a reference to the action's parameter ``index``, as an argument of a primitive."""
    return {"type": "runtime_data", "value": index}


def boolean(value: bool) -> Json:
    """Return a Boolean constant."""
    return {"type": "bool", "value": value}


def named(kind: str, name: str) -> Json:
    """Return a reference to a header, register_array, counter_array or calculation."""
    return {"type": kind, "value": name}


def op(operator: str, left: Json | None, right: Json, condition: Json | None = None) -> Json:
    """Return an operation; ``left`` is None for unary operators, ``condition`` belongs to ``?``."""
    value = {"op": operator, "left": left, "right": right}
    if condition is not None:
        value["cond"] = condition
    return {"type": "expression", "value": value}


def primitive(name: str, *parameters: Json) -> Json:
    """Return a call of a primitive."""
    return {"op": name, "parameters": list(parameters)}


def assign(target: Json, value: Json) -> Json:
    """Return an assignment."""
    return primitive("assign", target, value)


class ProgramJson:
    """A program under construction; ``build`` returns the JSON that load_program takes.

    The parser extracts every header given to ``header`` in that order, in one state, unless ``states`` is set. ``call``
    and ``table`` append nodes to a pipeline; the nodes run in sequence.
    """

    def __init__(self) -> None:
        self._types: list[Json] = []
        self._headers: list[Json] = []
        self._actions: list[Json] = []
        self._pipelines: dict[str, list[Json]] = {"ingress": [], "egress": []}
        self._on_wire: list[str] = []
        self.sections: dict[str, Any] = {}
        self.states: list[Json] | None = None
        self.struct("standard_metadata", STANDARD_METADATA)
        self.struct("scalars", (("_unused", 8),))

    def struct(self, name: str, fields: Iterable[FieldSpec]) -> None:
        """Declare a metadata instance."""
        self._instance(name, fields, True)

    def header(self, name: str, fields: Iterable[FieldSpec], *, parsed: bool = True) -> None:
        """Declare a header; the deparser emits it where valid, the parser extracts it if ``parsed``."""
        self._instance(name, fields, False)
        if parsed:
            self._on_wire.append(name)

    def action(self, name: str, primitives: Sequence[Json], parameters: Sequence[tuple[str, int]] = ()) -> int:
        """Declare an action and return its id."""
        ident = len(self._actions)
        self._actions.append(
            {
                "name": name,
                "id": ident,
                "runtime_data": [{"name": n, "bitwidth": w} for n, w in parameters],
                "primitives": list(primitives),
            }
        )
        return ident

    def call(self, primitives: Sequence[Json], *, pipeline: str = "ingress") -> None:
        """Append primitives to a pipeline as its next node: as p4c does, in a table without a key."""
        name = f"call{len(self._actions)}"
        self.table(f"tbl_{name}", [], [self.action(name, primitives)], pipeline=pipeline, const_default=True)

    def table(
        self,
        name: str,
        keys: Sequence[tuple[str, Json]],
        actions: Sequence[int],
        *,
        pipeline: str = "ingress",
        default: int = 0,
        default_data: Sequence[int] = (),
        const_default: bool = False,
        **more: Any,
    ) -> Json:
        """Append a table to a pipeline; keys are (match kind, field). Return its JSON, which may be modified."""
        kinds = [kind for kind, _ in keys]
        match_type = next((kind for kind in ("range", "ternary", "lpm") if kind in kinds), "exact")
        node = {
            "name": name,
            "id": len(self._actions) * 1000 + len(self._pipelines[pipeline]),
            "key": [
                {"match_type": kind, "name": ".".join(f["value"]), "target": f["value"], "mask": None}
                for kind, f in keys
            ],
            "match_type": match_type,
            "type": "simple",
            "max_size": 1024,
            "with_counters": False,
            "support_timeout": False,
            "direct_meters": None,
            "action_ids": list(actions),
            "actions": [self._actions[i]["name"] for i in actions],
            "base_default_next": None,
            "next_tables": {self._actions[i]["name"]: None for i in actions},
            "default_entry": {
                "action_id": actions[default],
                "action_const": const_default,
                "action_data": [hex(v) for v in default_data],
                "action_entry_const": const_default,
            },
            **more,
        }
        self._append(pipeline, node)
        return node

    def build(self) -> Json:
        """Return the JSON of the whole program."""
        return {
            "program": "test.p4",
            "__meta__": {"version": [2, 23], "compiler": "by hand"},
            "header_types": self._types,
            "headers": self._headers,
            "errors": [["NoError", 0], ["PacketTooShort", 1], ["NoMatch", 2], ["ParserInvalidArgument", 6]],
            "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": self._parse_states()}],
            "deparsers": [{"name": "deparser", "id": 0, "order": self._emitted(), "primitives": []}],
            "actions": self._actions,
            "pipelines": [self._pipeline(name, nodes) for name, nodes in self._pipelines.items()],
            "field_aliases": [
                [f"{instance}.{name}", ["standard_metadata", name]]
                for instance, names in _ALIASES.items()
                for name in names
            ],
        } | self.sections

    def _instance(self, name: str, fields: Iterable[FieldSpec], metadata: bool) -> None:
        specs = [[f[0], f[1], f[2] if len(f) == 3 else False] for f in fields]
        self._types.append({"name": f"{name}_t", "id": len(self._types), "fields": specs})
        self._headers.append({"name": name, "id": len(self._headers), "header_type": f"{name}_t", "metadata": metadata})

    def _emitted(self) -> list[str]:
        return [header["name"] for header in self._headers if not header["metadata"]]

    def _parse_states(self) -> list[Json]:
        if self.states is not None:
            return self.states
        extracts = [{"op": "extract", "parameters": [{"type": "regular", "value": name}]} for name in self._on_wire]
        accept = {"type": "default", "value": None, "mask": None, "next_state": None}
        return [{"name": "start", "id": 0, "parser_ops": extracts, "transitions": [accept], "transition_key": []}]

    def _append(self, pipeline: str, node: Json) -> None:
        nodes = self._pipelines[pipeline]
        if nodes:
            last = nodes[-1]
            last["base_default_next"] = node["name"]
            last["next_tables"] = dict.fromkeys(last["next_tables"], node["name"])
        nodes.append(node)

    def _pipeline(self, name: str, tables: list[Json]) -> Json:
        start = tables[0]["name"] if tables else None
        return {
            "name": name,
            "id": 0 if name == "ingress" else 1,
            "init_table": start,
            "tables": tables,
            "action_profiles": [],
            "conditionals": self.sections.get(f"{name}_conditionals", []),
        }
