"""Pipelines: from node to node (behavioral-model, src/bm_sim/pipeline.cpp and match_tables.cpp)."""

from functools import partial

from p4reduce.dataplane.interpreter.evaluate import Scope
from p4reduce.dataplane.interpreter.hashing import calculate
from p4reduce.dataplane.interpreter.phv import Phv
from p4reduce.dataplane.interpreter.primitives import Primitives
from p4reduce.dataplane.interpreter.trace import ConditionEvaluated, TableApplied
from p4reduce.dataplane.model.control import Conditional, MatchTable, Pipeline
from p4reduce.dataplane.model.expressions import FieldRef, Valid
from p4reduce.dataplane.tables import Exact, Lookup, Lpm, Match, Range, Table, TableEntry, Ternary


def run_pipeline(pipeline: Pipeline, phv: Phv, primitives: Primitives) -> None:
    """Runs a control until it ends or an action executes ``exit``. Raises TooManySteps."""
    phv.exit, phv.steps = False, 0
    name = pipeline.start
    while name is not None and not phv.exit:
        if name in pipeline.watched:
            phv.step()
        node = pipeline.nodes[name]
        name = _decide(node, phv, primitives) if isinstance(node, Conditional) else _apply(node, phv, primitives)


def _decide(conditional: Conditional, phv: Phv, primitives: Primitives) -> str | None:
    outcome = Scope(phv).truth(conditional.condition)
    if primitives.listener is not None:
        primitives.listener(ConditionEvaluated(conditional, outcome))
    return conditional.next_true if outcome else conditional.next_false


def _apply(spec: MatchTable, phv: Phv, primitives: Primitives) -> str | None:
    table = primitives.state.tables[spec.name]
    keys = [_bits(key.target, phv) for key in spec.keys]
    found = table.lookup(keys, partial(_selector_hash, spec, phv, primitives))
    if found.hit and spec.direct_meter is not None:
        meter = primitives.program.meters[spec.direct_meter]
        if meter.target is not None:
            color = table.execute_meter(found.ref, meter.unit, phv.ingress_length, primitives.now)
            phv.store(meter.target, color)
    if found.hit and (spec.direct_counter is not None or spec.idle_timeout):
        table.count(found.ref, phv.ingress_length)
    if primitives.listener is not None:
        primitives.listener(_applied(spec, table, keys, found))
    if found.action is not None:
        primitives.run_all(table.actions[found.action].primitives, Scope(phv, found.arguments))
    return spec.next_node(found.hit, found.action)


def _selector_hash(spec: MatchTable, phv: Phv, primitives: Primitives) -> int:
    """The hash by which a group's member is chosen; BMv2 takes 0 where the profile has no selector."""
    selector = None if spec.profile is None else primitives.program.profiles[spec.profile].selector
    return 0 if selector is None else calculate(primitives.program, selector, phv)


def _bits(target: FieldRef | Valid, phv: Phv) -> int:
    return phv.bits(target) if isinstance(target, FieldRef) else int(target.header in phv.valid)


def _applied(spec: MatchTable, table: Table, keys: list[int], found: Lookup) -> TableApplied:
    action = None if found.action is None else table.actions[found.action]
    return TableApplied(
        table=spec.name,
        keys=tuple((key.name, value) for key, value in zip(spec.keys, keys, strict=True)),
        entry=_matching_entry(table, keys) if found.hit else None,
        action=None if action is None else action.name,
        arguments=()
        if action is None
        else tuple((p.name, value) for p, value in zip(action.parameters, found.arguments, strict=True)),
        source=spec.source,
    )


def _matching_entry(table: Table, keys: list[int]) -> TableEntry:
    """The entry that a lookup found: the matching one of highest priority or longest prefix."""
    masked = [value & key.mask for value, key in zip(keys, table.spec.keys, strict=True)]
    widths = [key.width for key in table.spec.keys]
    fitting = [e for e in table.entries() if all(map(_fits, e.match, masked, widths))]
    return max(fitting, key=lambda e: (e.priority, sum(m.prefix for m in e.match if isinstance(m, Lpm))))


def _fits(match: Match, value: int, width: int) -> bool:
    match match:
        case Exact(wanted):
            return value == wanted
        case Lpm(wanted, prefix):
            return value >> (width - prefix) == wanted >> (width - prefix)
        case Ternary(wanted, mask):
            return value & mask == wanted
        case Range(low, high):
            return low <= value <= high
