"""Loads a Program from p4c's BMv2 JSON."""

import hashlib
import json
import sys
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, cast

from p4switch.base.files import read_text
from p4switch.program import program as model
from p4switch.program.errors import (
    FRAMES,
    MAX_DEPTH,
    Json,
    ProgramError,
    SourceInfo,
    UnsupportedConstruct,
    cyclic,
    each,
    get,
    hexstr,
    number,
    objects,
    optional,
    pair,
    source_of,
)
from p4switch.program.load_actions import (
    Externs,
    PrimitiveLoader,
    load_actions,
    load_checksums,
    load_profiles,
)
from p4switch.program.load_expressions import (
    UNSUPPORTED_VALUES,
    ExpressionLoader,
    HeaderScope,
    assign_varbit,
    load_aliases,
    load_scope,
)
from p4switch.program.validate import validate

# Pipelines from the JSON.


DEFAULT_MAX_SIZE: Final = 16384
"""Table size if the JSON gives none (P4Objects.cpp, get_table_size)."""


class ControlLoader:
    """Loads the tables and conditionals of pipelines."""

    def __init__(self, scope: HeaderScope, actions: dict[int, model.Action], externs: Externs) -> None:
        self._scope = scope
        self._meters = externs.meters
        self.profiles: dict[str, model.ActionProfile] = {}
        self._actions = actions
        self._direct = {c.table: c.name for c in externs.counters.values() if c.table is not None}

    def pipeline(self, name: str, where: str, obj: Json) -> model.Pipeline:
        """Loads one pipeline."""
        if objects(obj, "action_calls", where):
            raise UnsupportedConstruct("'action_calls' (p4c writes tables)", where)
        nodes: dict[str, model.Node] = {
            name: self._table(name, of, table) for name, of, table in each(obj, "tables", "table", where)
        }
        self._load_profiles(obj, nodes)
        for node, of, item in each(obj, "conditionals", "condition", where):
            nodes[node] = self._conditional(node, of, item)
        pipeline = model.Pipeline(name, optional(obj, "init_table", str, where), nodes)
        _check_pipeline_targets(pipeline)
        return replace(pipeline, watched=cyclic({name: node.following for name, node in nodes.items()}))

    def _load_profiles(self, obj: Json, nodes: dict[str, model.Node]) -> None:
        used: dict[str, tuple[int, ...]] = {}
        for node in nodes.values():
            if isinstance(node, model.MatchTable) and node.profile is not None:
                actions = used.setdefault(node.profile, node.actions)
                if {self._actions[i].name for i in actions} != {self._actions[i].name for i in node.actions}:
                    raise ProgramError(f"table {node.name!r}: shares {node.profile!r} with a table of other actions")
        self.profiles |= load_profiles(obj, self._scope, used)
        for name in used:
            if name not in self.profiles:
                raise ProgramError(f"action profile {name!r} is not declared")

    def _conditional(self, name: str, where: str, obj: Json) -> model.Conditional:
        source = source_of(obj)
        condition = ExpressionLoader(self._scope, where, source).bool(obj.get("expression"))
        yes, no = (optional(obj, key, str, name) for key in ("true_next", "false_next"))
        return model.Conditional(name, condition, yes, no, source=source)

    def _table(self, name: str, where: str, obj: Json) -> model.MatchTable:
        source = source_of(obj)
        _refuse(obj, where, source)
        keys = tuple(self._key(key, where, source) for key in objects(obj, "key", where))
        if sum(key.kind == "lpm" for key in keys) > 1:
            raise ProgramError(f"{where}: more than one lpm key")
        action_ids = self._action_ids(obj, where)
        default, arguments, const = self._default(obj, action_ids, where)
        following = get(obj, "next_tables", dict, where)
        splits = "__HIT__" in following or "__MISS__" in following
        return model.MatchTable(
            name=name,
            keys=keys,
            kind=_kind(obj, keys, where),
            max_size=optional(obj, "max_size", int, where) or DEFAULT_MAX_SIZE,
            actions=action_ids,
            default_action=default,
            default_arguments=arguments,
            const_default=const,
            entries=self._const_entries(obj, keys, action_ids, where),
            next_by_action=tuple(following.get(self._actions[i].name) for i in action_ids),
            splits_on_hit=splits,
            next_hit=following.get("__HIT__"),
            next_miss=following.get("__MISS__") if splits else optional(obj, "base_default_next", str, where),
            direct_counter=self._direct.get(name) if obj.get("with_counters", False) else None,
            source=source,
            direct_meter=self._direct_meter(obj, where),
            profile=None if obj["type"] == "simple" else get(obj, "action_profile", str, where),
            idle_timeout=bool(obj.get("support_timeout", False)),
        )

    def _direct_meter(self, obj: Json, where: str) -> str | None:
        name = optional(obj, "direct_meters", str, where)
        if name is not None and name not in self._meters:
            raise ProgramError(f"{where}: direct meter {name!r} is not declared")
        return name

    def _key(self, obj: Json, where: str, source: SourceInfo | None) -> model.MatchKey:
        kind = get(obj, "match_type", str, where)
        if kind not in ("exact", "lpm", "ternary", "range"):
            raise UnsupportedConstruct(f"match kind {kind!r}", where, source)
        target = self._scope.field(obj.get("target"), where)
        width = 1 if isinstance(target, model.Valid) else target.width
        ones = (1 << width) - 1
        mask = ones if obj.get("mask") is None else hexstr(obj["mask"], where) & ones
        name = optional(obj, "name", str, where) or (
            f"{target.header}.$valid$" if isinstance(target, model.Valid) else str(target)
        )
        return model.MatchKey(name, cast(model.MatchKind, kind), target, width, mask)

    def _action_ids(self, obj: Json, where: str) -> tuple[int, ...]:
        ids = tuple(get(obj, "action_ids", list, where))
        for ident in ids:
            if ident not in self._actions:
                raise ProgramError(f"{where}: unknown action id {ident!r}")
        return ids

    def _default(self, obj: Json, action_ids: tuple[int, ...], where: str) -> tuple[int | None, tuple[int, ...], bool]:
        entry = optional(obj, "default_entry", dict, where)
        if entry is None:
            return None, (), False
        action, arguments = self._action_entry(entry, action_ids, f"{where}, default entry")
        return action, arguments, bool(entry.get("action_const", False))

    def _action_entry(self, obj: Json, action_ids: tuple[int, ...], where: str) -> tuple[int, tuple[int, ...]]:
        ident = get(obj, "action_id", int, where)
        if ident not in action_ids:
            raise ProgramError(f"{where}: action id {ident} is not among the table's actions")
        parameters = self._actions[ident].parameters
        values = get(obj, "action_data", list, where)
        if len(values) != len(parameters):
            raise ProgramError(f"{where}: {len(values)} arguments for {len(parameters)} parameters")
        arguments = tuple(hexstr(v, where) & ((1 << p.width) - 1) for v, p in zip(values, parameters, strict=True))
        return action_ids.index(ident), arguments

    def _const_entries(
        self, obj: Json, keys: tuple[model.MatchKey, ...], action_ids: tuple[int, ...], where: str
    ) -> tuple[model.ConstEntry, ...] | None:
        if obj.get("entries") is None:
            return None
        entries = []
        for place, item in enumerate(objects(obj, "entries", where)):
            here = f"{where}, constant entry {place}"
            fields = objects(item, "match_key", here)
            if len(fields) != len(keys):
                raise ProgramError(f"{here}: {len(fields)} match fields for {len(keys)} keys")
            match = tuple(_match_field(f, k, here) for f, k in zip(fields, keys, strict=True))
            action, arguments = self._action_entry(get(item, "action_entry", dict, here), action_ids, here)
            entries.append(model.ConstEntry(match, action, arguments, optional(item, "priority", int, here) or 0))
        return tuple(entries)


def _match_field(obj: Json, key: model.MatchKey, where: str) -> tuple[int, int]:
    kind = get(obj, "match_type", str, where)
    if kind != key.kind:
        raise ProgramError(f"{where}: match field {key.name!r} is {kind!r}, the table says {key.kind!r}")
    ones = (1 << key.width) - 1
    match kind:
        case "exact":
            return hexstr(obj.get("key"), where) & ones, ones
        case "lpm":
            return hexstr(obj.get("key"), where) & ones, get(obj, "prefix_length", int, where)
        case "ternary":
            return hexstr(obj.get("key"), where) & ones, hexstr(obj.get("mask"), where) & ones
        case _:
            return hexstr(obj.get("start"), where), hexstr(obj.get("end"), where)


def _kind(obj: Json, keys: tuple[model.MatchKey, ...], where: str) -> model.MatchKind:
    kind: Any = get(obj, "match_type", str, where)
    kinds = {key.kind for key in keys}
    for widest in ("range", "ternary", "lpm"):
        if widest in kinds:
            # A table may be ternary though its only inexact key is lpm; the reverse is not allowed.
            allowed = {"range": ("range",), "ternary": ("ternary", "range"), "lpm": ("lpm", "ternary", "range")}
            if kind not in allowed[widest]:
                raise ProgramError(f"{where}: match type {kind!r} with a {widest} key")
            return cast(model.MatchKind, kind)
    if kind not in ("exact", "lpm", "ternary", "range"):
        raise UnsupportedConstruct(f"match type {kind!r}", where)
    return cast(model.MatchKind, kind)


def _refuse(obj: Json, where: str, source: SourceInfo | None) -> None:
    kind = get(obj, "type", str, where)
    if kind not in ("simple", "indirect", "indirect_ws"):
        raise UnsupportedConstruct(f"table of type {kind!r}", where, source)
    if kind != "simple" and (obj.get("default_entry") is not None or obj.get("entries") is not None):
        raise UnsupportedConstruct("entries written in the program, with an action profile", where, source)


def _check_pipeline_targets(pipeline: model.Pipeline) -> None:
    named = [pipeline.start, *(name for node in pipeline.nodes.values() for name in node.following)]
    for name in named:
        if name is not None and (not isinstance(name, str) or name not in pipeline.nodes):
            raise ProgramError(f"pipeline {pipeline.name!r}: unknown node {name!r}")


# The parser from the JSON.


def load_parser(root: Json, scope: HeaderScope, externs: Externs) -> model.Parser:
    """Loads the parser that simple_switch runs, which is called ``parser``."""
    parsers = {name: obj for name, _, obj in each(root, "parsers", "parser")}
    if "parser" not in parsers:
        raise ProgramError(f"parsers: no parser is called 'parser' (found: {sorted(parsers)})")
    obj = parsers["parser"]
    state_objects = each(obj, "parse_states", "parser state", "parser")
    states = {name: _state(name, where, state, scope, externs) for name, where, state in state_objects}
    start = optional(obj, "init_state", str, "parser")
    parser = model.Parser(start, states)
    _check_parser_targets(parser)
    return model.Parser(start, states, _idle_loops(parser, scope))


def _state(name: str, where: str, obj: Json, scope: HeaderScope, externs: Externs) -> model.ParserState:
    operations = tuple(_operation(op, scope, externs, where) for op in objects(obj, "parser_ops", where))
    keys = tuple(_key(key, scope, where) for key in objects(obj, "transition_key", where))
    transitions = tuple(_transition(t, keys, externs, where) for t in objects(obj, "transitions", where))
    # A default is tried last, wherever it stands (ParseState::set_default_switch_case).
    ordered = [t for t in transitions if t.masks] + [t for t in transitions if not t.masks]
    return model.ParserState(name, operations, keys, tuple(ordered))


def _operation(obj: Json, scope: HeaderScope, externs: Externs, where: str) -> model.ParserOp:
    op = get(obj, "op", str, where)
    parameters = objects(obj, "parameters", where)
    expressions = ExpressionLoader(scope, f"{where}, {op}")
    match op, len(parameters):
        case "extract", 1:
            return _extract(parameters[0], None, scope, where)
        case "extract_VL", 2:
            return _extract(parameters[0], expressions.data(parameters[1]), scope, where)
        case "set", 2 if _is_varbit(parameters[0], scope, where):
            return model.Run(assign_varbit(expressions, parameters[0], parameters[1]))
        case "set", 2:
            if parameters[0].get("type") != "field":
                raise UnsupportedConstruct(f"'set' of a {parameters[0].get('type')!r}", where)
            return model.Set(scope.target(parameters[0].get("value"), where), expressions.data(parameters[1]))
        case "verify", 2:
            return model.Verify(expressions.bool(parameters[0]), expressions.data(parameters[1]))
        case "advance", 1:
            return model.Advance(expressions.data(parameters[0]))
        case "shift", 1:
            raise UnsupportedConstruct("'shift' (p4c writes 'advance')", where)
        case "primitive", 1:
            return model.Run(PrimitiveLoader(scope, externs, where).load(parameters[0]))
        case _:
            raise UnsupportedConstruct(f"parser operation {op!r} with {len(parameters)} parameters", where)


def _extract(obj: Json, length: model.DataExpr | None, scope: HeaderScope, where: str) -> model.ParserOp:
    kind, value = obj.get("type"), obj.get("value")
    operation: model.Extract | model.ExtractNext
    match kind:
        case "regular":
            operation = model.Extract(scope.header(value, where).name, length)
            headers = [operation.header]
        case "stack" | "union_stack":
            member = 0
            if kind == "union_stack":
                value, label = pair(value, where)
                member = _member(scope, value, label, where)
            stack = scope.groups.find(kind, value, where)
            headers = [element[member] for element in stack.elements]
            operation = model.ExtractNext(stack.name, tuple(headers), stack.next, length)
        case _:
            raise UnsupportedConstruct(f"extract of a {kind!r}", where)
    if (scope.headers[headers[0]].type.varbit is None) != (length is None):
        raise ProgramError(f"{where}: 'extract_VL' is for headers with a variable-length field, 'extract' for others")
    return operation


def _member(scope: HeaderScope, stack: object, label: object, where: str) -> int:
    """Returns the number of a union's member in a stack of unions."""
    union = scope.groups.unions[scope.groups.find("union_stack", stack, where).unions[0]]
    if label not in union.members:
        raise ProgramError(f"{where}: header union {union.name!r} has no member {label!r}")
    return list(union.members).index(str(label))


def _is_varbit(obj: Json, scope: HeaderScope, where: str) -> bool:
    if obj.get("type") != "field":
        return False
    field = scope.field(obj.get("value"), where)
    varbit = scope.headers[field.header].type.varbit
    return varbit is not None and isinstance(field, model.FieldRef) and field.name == varbit.name


def _last_field(obj: Json, scope: HeaderScope, where: str) -> model.ChosenKey:
    """Returns a field of the last element of a stack, as a key."""
    kind, value = str(obj.get("type")), obj.get("value")
    member = 0
    if kind == "union_stack_field":
        if not isinstance(value, list) or len(value) != 3:
            raise ProgramError(f"{where}: {value!r} is not [stack, member, field]")
        name, label, field = value
        member = _member(scope, name, label, where)
        choice = model.last_element(scope.groups.find("union_stack", name, where), member)
    else:
        name, field = pair(value, where)
        choice = model.last_element(scope.groups.find("stack", name, where))
    target = scope.target([choice.names[0], field], where)
    return model.ChosenKey(model.field_of(choice, scope.headers, target.name), target.width)


def _key(obj: Json, scope: HeaderScope, where: str) -> model.SelectKey:
    kind, value = obj.get("type"), obj.get("value")
    if kind == "field":
        return scope.field(value, where)
    if kind == "lookahead":
        offset, width = pair(value, where)
        return model.Lookahead(number(offset, where), number(width, where))
    if kind in ("stack_field", "union_stack_field"):
        return _last_field(obj, scope, where)
    raise UnsupportedConstruct(UNSUPPORTED_VALUES.get(str(kind), f"select on a {kind!r}"), where)


def key_width(key: model.SelectKey) -> int:
    """Returns the bits of a select key."""
    return 1 if isinstance(key, model.Valid) else key.width


def _value_set_transition(
    obj: Json, keys: tuple[model.SelectKey, ...], externs: Externs, next_state: str | None, where: str
) -> model.Transition:
    name = get(obj, "value", str, where)
    if name not in externs.value_sets:
        raise ProgramError(f"{where}: value set {name!r} is not declared")
    widths = tuple(key_width(key) for key in keys)
    if externs.value_sets[name].width != sum(widths):
        raise ProgramError(f"{where}: value set {name!r} is not as wide as the keys of the select")
    bits = 8 * sum((w + 7) // 8 for w in widths)
    mask = hexstr(obj["mask"], where) if obj.get("mask") is not None else (1 << bits) - 1
    masks = _split(mask, widths)
    return model.Transition(tuple(0 for _ in masks), masks, next_state, name)


def _transition(obj: Json, keys: tuple[model.SelectKey, ...], externs: Externs, where: str) -> model.Transition:
    kind = obj.get("type", "hexstr" if obj.get("value") != "default" else "default")
    next_state = optional(obj, "next_state", str, where)
    if kind == "default":
        return model.Transition((), (), next_state)
    if kind == "parse_vset":
        return _value_set_transition(obj, keys, externs, next_state, where)
    if kind != "hexstr":
        raise UnsupportedConstruct(f"transition of type {kind!r}", where)
    widths = tuple(key_width(key) for key in keys)
    bits = 8 * sum((w + 7) // 8 for w in widths)
    value = hexstr(obj.get("value"), where)
    mask = hexstr(obj["mask"], where) if obj.get("mask") is not None else (1 << bits) - 1
    masks = _split(mask, widths)
    values = tuple(v & m for v, m in zip(_split(value, widths), masks, strict=True))
    return model.Transition(values, masks, next_state)


def _split(number: int, widths: tuple[int, ...]) -> tuple[int, ...]:
    """Splits a concatenation of fields, each padded to whole bytes."""
    parts = []
    for width in reversed(widths):
        padded = 8 * ((width + 7) // 8)
        parts.append(number & ((1 << padded) - 1))
        number >>= padded
    return tuple(reversed(parts))


def _check_parser_targets(parser: model.Parser) -> None:
    known = set(parser.states)
    named = [parser.start] + [t.next_state for s in parser.states.values() for t in s.transitions]
    for name in named:
        if name is not None and name not in known:
            raise ProgramError(f"parser: unknown state {name!r}")


def _idle_loops(parser: model.Parser, scope: HeaderScope) -> frozenset[str]:
    """Returns the states on loops that may repeat without consuming a byte."""
    watched = set()
    idle = {name for name, state in parser.states.items() if not _consumes(state, scope)}
    for name in idle:
        stack, seen = [name], set[str]()
        while stack:
            for transition in parser.states[stack.pop()].transitions:
                following = transition.next_state
                if following == name:
                    watched.add(name)
                if following is not None and following in idle and following not in seen:
                    seen.add(following)
                    stack.append(following)
    return frozenset(watched)


def _consumes(state: model.ParserState, scope: HeaderScope) -> bool:
    for op in state.operations:
        match op:
            case model.Extract(header) if scope.headers[header].bytes > 0:
                return True
            case model.ExtractNext(headers=headers) if scope.headers[headers[0]].bytes > 0:
                return True  # a header of no bytes only fills the stack, which pop_front may empty again
            case model.Advance(model.Const(bits)) if bits > 0:
                return True
    return False


def load_program(program: str | Path | Mapping[str, Any]) -> model.Program:
    """Loads a P4 program compiled by ``p4c-bm2-ss``.

    Args:
        program: the path of the JSON file, or its contents.

    Raises:
        UnsupportedConstruct: the program uses a construct that the embedded switch does not run; the message names it
            and its place.
        ProgramError: the JSON is malformed, or exceeds a limit of errors.py; the message says where.
        OSError: the file cannot be read.
    """
    if isinstance(program, str | Path):
        root, name = _read(Path(program)), Path(program).stem
    else:
        root, name = program, str(program.get("program", "program"))
    # Other threads may compile or interpret the program later, and walk over its expressions.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), 1000 + FRAMES))
    try:
        loaded = _load(root, name)
        validate(loaded)
    except ProgramError:
        raise
    except RecursionError:
        raise ProgramError(f"an expression is nested too deep; the limit is {MAX_DEPTH} operators") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # An unexpected type or range of a value, which p4c never writes and no check has found.
        raise ProgramError(f"not what p4c-bm2-ss writes: {type(error).__name__}: {error}") from error
    return loaded


def _read(path: Path) -> Json:
    try:
        root = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:  # no JSON, no UTF-8, a number of thousands of digits, too deep
        raise ProgramError(f"{path} is not JSON: {error}") from None
    if not isinstance(root, dict):
        raise ProgramError(f"{path} holds a {type(root).__name__}, expected an object")
    return root


def _load(root: Json, name: str) -> model.Program:
    for obj in objects(root, "extern_instances", "program"):
        where = f"extern_instances: {obj.get('name')!r}"
        raise UnsupportedConstruct("extern instance", where, source_of(obj))
    scope = load_scope(root)
    aliases = load_aliases(root, scope)
    externs = Externs.load(root, scope)
    actions = load_actions(root, scope, externs)
    control = ControlLoader(scope, actions, externs)
    pipelines = {name: control.pipeline(name, where, obj) for name, where, obj in each(root, "pipelines", "pipeline")}
    for wanted in ("ingress", "egress"):
        if wanted not in pipelines:
            raise ProgramError(f"pipelines: no pipeline is called {wanted!r} (found: {sorted(pipelines)})")
    canonical = json.dumps(root, sort_keys=True, separators=(",", ":"))
    loaded = model.Program(
        name=name,
        headers=scope.headers,
        errors=_errors(root),
        actions=actions,
        parser=load_parser(root, scope, externs),
        ingress=pipelines["ingress"],
        egress=pipelines["egress"],
        deparser=_deparser(root, scope),
        checksums=load_checksums(root, scope, externs.calculations),
        aliases=aliases,
        **{field.name: getattr(externs, field.name) for field in fields(externs)},
        profiles=control.profiles,
        fingerprint=hashlib.sha256(canonical.encode()).hexdigest(),
    )
    _check_intrinsics(loaded)
    return loaded


def _errors(root: Json) -> dict[str, int]:
    errors = {}
    for item in root.get("errors") or []:
        name, code = pair(item, "errors")
        if not isinstance(code, int):
            raise ProgramError(f"error {name!r}: its code is {code!r}")
        errors[str(name)] = code
    return errors


def _deparser(root: Json, scope: HeaderScope) -> tuple[str, ...]:
    deparsers = {name: obj for name, _, obj in each(root, "deparsers", "deparser")}
    if "deparser" not in deparsers:
        raise ProgramError(f"deparsers: no deparser is called 'deparser' (found: {sorted(deparsers)})")
    obj = deparsers["deparser"]
    for primitive in objects(obj, "primitives", "deparser"):
        raise UnsupportedConstruct(
            f"primitive {primitive.get('op')!r} in the deparser", "deparser", source_of(primitive)
        )
    return tuple(scope.header(name, "deparser").name for name in get(obj, "order", list, "deparser"))


def _check_intrinsics(program: model.Program) -> None:
    for name in ("ingress_port", "packet_length", "instance_type", "egress_spec", "egress_port"):
        if program.intrinsic(name) is None:
            raise ProgramError(
                f"standard_metadata has no field {name!r}; was the program compiled with --arch v1model?"
            )
