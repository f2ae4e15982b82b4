"""Field lists, digests, value sets, meters and action profiles from the JSON."""

from dataclasses import dataclass
from typing import Any, cast

from p4reduce.dataplane.model.errors import ProgramError, UnsupportedConstruct
from p4reduce.dataplane.model.expressions import FieldRef
from p4reduce.dataplane.model.externs import Calculation
from p4reduce.dataplane.model.load_externs import load_calculation
from p4reduce.dataplane.model.load_headers import Scope
from p4reduce.dataplane.model.packet_path import (
    ActionProfile,
    FieldList,
    LearnConstant,
    LearnList,
    MeterArray,
    ValueSet,
)
from p4reduce.dataplane.model.reading import Json, get, hexstr, objects, optional, source_of

RATES = 2
"""Rates of v1model's meters."""


@dataclass(frozen=True, slots=True)
class PathSections:
    """What primitives, tables and parser states refer to, by name or id."""

    field_lists: dict[int, FieldList]
    learn_lists: dict[int, LearnList]
    meters: dict[str, MeterArray]
    value_sets: dict[str, ValueSet]

    @classmethod
    def load(cls, root: Json, scope: Scope) -> "PathSections":
        """From the top level of the JSON."""
        return cls(_field_lists(root, scope), _learn_lists(root, scope), _meters(root, scope), _value_sets(root))


def _field_lists(root: Json, scope: Scope) -> dict[int, FieldList]:
    lists = {}
    for obj in objects(root, "field_lists", "program"):
        ident = get(obj, "id", int, "field_lists")
        where = f"field list {obj.get('name')!r}"
        # BMv2 copies nothing for constants.
        fields = tuple(f for f in _elements(obj, scope, where) if isinstance(f, FieldRef))
        lists[ident] = FieldList(ident, fields)
    return lists


def _learn_lists(root: Json, scope: Scope) -> dict[int, LearnList]:
    lists = {}
    for obj in objects(root, "learn_lists", "program"):
        ident, name = get(obj, "id", int, "learn_lists"), get(obj, "name", str, "learn_lists")
        lists[ident] = LearnList(ident, name, _elements(obj, scope, f"digest {name!r}"))
    return lists


def _elements(obj: Json, scope: Scope, where: str) -> tuple[FieldRef | LearnConstant, ...]:
    found: list[FieldRef | LearnConstant] = []
    for element in objects(obj, "elements", where):
        kind, value = element.get("type"), element.get("value")
        if kind == "field":
            found.append(scope.target(value, where))
        elif kind == "hexstr":
            digits = str(value).lower().removeprefix("0x")
            found.append(LearnConstant(hexstr(value, where), 8 * -(-len(digits) // 2)))
        else:
            raise UnsupportedConstruct(f"element of type {kind!r}", where, source_of(obj))
    return tuple(found)


def _meters(root: Json, scope: Scope) -> dict[str, MeterArray]:
    meters = {}
    for obj in objects(root, "meter_arrays", "program"):
        name = get(obj, "name", str, "meter_arrays")
        where, unit = f"meter {name!r}", get(obj, "type", str, f"meter {name!r}")
        if unit not in ("packets", "bytes"):
            raise ProgramError(f"{where}: type {unit!r} is neither 'packets' nor 'bytes'")
        if get(obj, "rate_count", int, where) != RATES:
            raise UnsupportedConstruct(f"meter with {obj['rate_count']} rates", where, source_of(obj))
        table, target, size = None, None, optional(obj, "size", int, where) or 0
        if obj.get("is_direct", False):
            table, target = get(obj, "binding", str, where), scope.target(obj.get("result_target"), where)
            size = 0
        meters[name] = MeterArray(name, size, cast(Any, unit), table, target, source_of(obj))
    return meters


def _value_sets(root: Json) -> dict[str, ValueSet]:
    sets = {}
    for obj in objects(root, "parse_vsets", "program"):
        name = get(obj, "name", str, "parse_vsets")
        where = f"value set {name!r}"
        size = optional(obj, "max_size", int, where)
        sets[name] = ValueSet(name, get(obj, "compressed_bitwidth", int, where), 1024 if size is None else size)
    return sets


def load_profiles(pipeline: Json, scope: Scope, actions: dict[str, tuple[int, ...]]) -> dict[str, ActionProfile]:
    """The action profiles of a pipeline; ``actions``: ids of the actions of the first table that uses each."""
    profiles = {}
    for obj in objects(pipeline, "action_profiles", "pipeline"):
        name = get(obj, "name", str, "action_profiles")
        where = f"action profile {name!r}"
        selector = optional(obj, "selector", dict, where)
        calculation: Calculation | None = None
        if selector is not None:
            calculation = load_calculation({**selector, "name": f"selector of {name}"}, scope)
        size = optional(obj, "max_size", int, where) or 0
        profiles[name] = ActionProfile(name, size, calculation, actions.get(name, ()))
    return profiles
