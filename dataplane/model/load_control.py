"""Pipelines from the JSON."""

from dataclasses import replace
from typing import Any, Final, cast

from p4reduce.dataplane.model.actions import Action
from p4reduce.dataplane.model.control import Conditional, ConstEntry, MatchKey, MatchKind, MatchTable, Node, Pipeline
from p4reduce.dataplane.model.errors import ProgramError, SourceInfo, UnsupportedConstruct
from p4reduce.dataplane.model.expressions import Valid
from p4reduce.dataplane.model.externs import CounterArray
from p4reduce.dataplane.model.load_expressions import ExpressionLoader
from p4reduce.dataplane.model.load_headers import Scope
from p4reduce.dataplane.model.load_packet_path import PathSections, load_profiles
from p4reduce.dataplane.model.loops import cyclic
from p4reduce.dataplane.model.packet_path import ActionProfile
from p4reduce.dataplane.model.reading import Json, get, hexstr, objects, optional, source_of

DEFAULT_MAX_SIZE: Final = 16384
"""Table size where the JSON gives none (P4Objects.cpp, get_table_size)."""


class ControlLoader:
    """Loads the tables and conditionals of pipelines."""

    def __init__(
        self, scope: Scope, actions: dict[int, Action], counters: dict[str, CounterArray], paths: PathSections
    ) -> None:
        self._scope = scope
        self._meters = paths.meters
        self.profiles: dict[str, ActionProfile] = {}
        self._actions = actions
        self._direct = {c.table: c.name for c in counters.values() if c.table is not None}

    def pipeline(self, obj: Json) -> Pipeline:
        """One pipeline."""
        name = get(obj, "name", str, "pipelines")
        if objects(obj, "action_calls", f"pipeline {name!r}"):
            raise UnsupportedConstruct("'action_calls' (p4c writes tables)", f"pipeline {name!r}")
        nodes: dict[str, Node] = {}
        for table in objects(obj, "tables", f"pipeline {name!r}"):
            node = self._table(table)
            nodes[node.name] = node
        self._load_profiles(obj, nodes)
        for item in objects(obj, "conditionals", f"pipeline {name!r}"):
            conditional = self._conditional(item)
            nodes[conditional.name] = conditional
        pipeline = Pipeline(name, optional(obj, "init_table", str, f"pipeline {name!r}"), nodes)
        _check_targets(pipeline)
        return replace(pipeline, watched=cyclic({name: node.following for name, node in nodes.items()}))

    def _load_profiles(self, obj: Json, nodes: dict[str, Node]) -> None:
        used: dict[str, tuple[int, ...]] = {}
        for node in nodes.values():
            if isinstance(node, MatchTable) and node.profile is not None:
                actions = used.setdefault(node.profile, node.actions)
                if {self._actions[i].name for i in actions} != {self._actions[i].name for i in node.actions}:
                    raise ProgramError(f"table {node.name!r}: shares {node.profile!r} with a table of other actions")
        self.profiles |= load_profiles(obj, self._scope, used)
        for name in used:
            if name not in self.profiles:
                raise ProgramError(f"action profile {name!r} is not declared")

    def _conditional(self, obj: Json) -> Conditional:
        name = get(obj, "name", str, "conditionals")
        source = source_of(obj)
        condition = ExpressionLoader(self._scope, f"condition {name!r}", source).bool(obj.get("expression"))
        return Conditional(
            name, condition, optional(obj, "true_next", str, name), optional(obj, "false_next", str, name), source
        )

    def _table(self, obj: Json) -> MatchTable:
        name = get(obj, "name", str, "tables")
        where, source = f"table {name!r}", source_of(obj)
        _refuse(obj, where, source)
        keys = tuple(self._key(key, where, source) for key in objects(obj, "key", where))
        if sum(key.kind == "lpm" for key in keys) > 1:
            raise ProgramError(f"{where}: more than one lpm key")
        action_ids = self._action_ids(obj, where)
        default, arguments, const = self._default(obj, action_ids, where)
        following = get(obj, "next_tables", dict, where)
        splits = "__HIT__" in following or "__MISS__" in following
        return MatchTable(
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

    def _key(self, obj: Json, where: str, source: SourceInfo | None) -> MatchKey:
        kind = get(obj, "match_type", str, where)
        if kind not in ("exact", "lpm", "ternary", "range"):
            raise UnsupportedConstruct(f"match kind {kind!r}", where, source)
        target = self._scope.field(obj.get("target"), where)
        width = 1 if isinstance(target, Valid) else target.width
        ones = (1 << width) - 1
        mask = ones if obj.get("mask") is None else hexstr(obj["mask"], where) & ones
        name = optional(obj, "name", str, where) or (
            f"{target.header}.$valid$" if isinstance(target, Valid) else str(target)
        )
        return MatchKey(name, cast(MatchKind, kind), target, width, mask)

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
        self, obj: Json, keys: tuple[MatchKey, ...], action_ids: tuple[int, ...], where: str
    ) -> tuple[ConstEntry, ...] | None:
        if obj.get("entries") is None:
            return None
        entries = []
        for number, item in enumerate(objects(obj, "entries", where)):
            here = f"{where}, constant entry {number}"
            fields = objects(item, "match_key", here)
            if len(fields) != len(keys):
                raise ProgramError(f"{here}: {len(fields)} match fields for {len(keys)} keys")
            match = tuple(_match_field(f, k, here) for f, k in zip(fields, keys, strict=True))
            action, arguments = self._action_entry(get(item, "action_entry", dict, here), action_ids, here)
            entries.append(ConstEntry(match, action, arguments, optional(item, "priority", int, here) or 0))
        return tuple(entries)


def _match_field(obj: Json, key: MatchKey, where: str) -> tuple[int, int]:
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


def _kind(obj: Json, keys: tuple[MatchKey, ...], where: str) -> MatchKind:
    kind: Any = get(obj, "match_type", str, where)
    kinds = {key.kind for key in keys}
    for widest in ("range", "ternary", "lpm"):
        if widest in kinds:
            # A table may be ternary though its only inexact key is lpm; never the other way round.
            allowed = {"range": ("range",), "ternary": ("ternary", "range"), "lpm": ("lpm", "ternary", "range")}
            if kind not in allowed[widest]:
                raise ProgramError(f"{where}: match type {kind!r} with a {widest} key")
            return cast(MatchKind, kind)
    if kind not in ("exact", "lpm", "ternary", "range"):
        raise UnsupportedConstruct(f"match type {kind!r}", where)
    return cast(MatchKind, kind)


def _refuse(obj: Json, where: str, source: SourceInfo | None) -> None:
    kind = get(obj, "type", str, where)
    if kind not in ("simple", "indirect", "indirect_ws"):
        raise UnsupportedConstruct(f"table of type {kind!r}", where, source)
    if kind != "simple" and (obj.get("default_entry") is not None or obj.get("entries") is not None):
        raise UnsupportedConstruct("entries written in the program, with an action profile", where, source)


def _check_targets(pipeline: Pipeline) -> None:
    named = [pipeline.start, *(name for node in pipeline.nodes.values() for name in node.following)]
    for name in named:
        if name is not None and (not isinstance(name, str) or name not in pipeline.nodes):
            raise ProgramError(f"pipeline {pipeline.name!r}: unknown node {name!r}")
