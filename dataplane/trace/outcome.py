"""What became of a packet, and which statement decided it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from p4reduce.dataplane.device import Device
from p4reduce.dataplane.interpreter import Event
from p4reduce.dataplane.interpreter.trace import Change, PrimitiveRun, StageStarted, TableApplied, Verdict
from p4reduce.dataplane.model import Program
from p4reduce.dataplane.model.errors import SourceInfo
from p4reduce.dataplane.trace.names import Names


@dataclass(frozen=True, slots=True)
class Decision:
    """The last statement that wrote a field.

    Attributes:
        action: full name of the action that held it, None in the parser.
        before, after: the field's values.
    """

    field: str
    before: int
    after: int
    action: str | None
    source: SourceInfo | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How ingress ended.

    Attributes:
        kind: drop, unicast, multicast.
        target: the port, or the multicast group.
        why: a sentence.
        decision: what wrote egress_spec or mcast_grp, None where nothing did.
        replicas: (port, rid) of the group.
    """

    kind: Literal["drop", "unicast", "multicast"]
    target: int
    why: str
    decision: Decision | None
    replicas: tuple[tuple[int, int], ...] = ()


def outcome_of(events: Iterable[Event], device: Device, left: bool) -> Outcome:
    """The outcome of a packet from its events; ``left``: whether any frame left."""
    events = list(events)
    at, verdict = _last_verdict(events)
    if verdict is None:
        return Outcome("drop", 0, "the packet was dropped before ingress had ended", None)
    program = device.program
    if verdict.kind == "multicast":
        return _multicast(verdict.target, _writer(events[:at], program, "mcast_grp"), device, left)
    decision = _writer(events[:at], program, "egress_spec")
    if verdict.kind == "drop":
        rest = "; copies of it left" if left else ""
        return Outcome("drop", 0, f"dropped: egress_spec is the drop port{_by(decision)}{rest}", decision)
    forgotten = "" if decision is not None else ": no statement wrote egress_spec, which starts at 0"
    rest = "" if left else "; egress dropped it"
    return Outcome("unicast", verdict.target, f"to port {verdict.target}{_by(decision)}{forgotten}{rest}", decision)


def _multicast(group: int, decision: Decision | None, device: Device, left: bool) -> Outcome:
    replicas = device.multicast.get(group)
    if group not in device.multicast.groups():
        rest = "; there is no such group, so nothing leaves"
    elif not replicas:
        rest = "; the group has no replicas, so nothing leaves"
    else:
        rest = "" if left else "; egress dropped every copy"
    return Outcome("multicast", group, f"to multicast group {group}{_by(decision)}{rest}", decision, replicas)


def _by(decision: Decision | None) -> str:
    if decision is None:
        return ""
    at = f" ({decision.source})" if decision.source is not None else ""
    who = decision.action if Names.declared(decision.action) else "the statement"
    return f", by {who}{at}"


def _last_verdict(events: list[Event]) -> tuple[int, Verdict | None]:
    """The last decision of ingress: a packet that goes round has several."""
    for at in range(len(events) - 1, -1, -1):
        event = events[at]
        if isinstance(event, Verdict) and event.stage == "ingress":
            return at, event
    return len(events), None


def _writer(events: list[Event], program: Program, name: str) -> Decision | None:
    field = program.intrinsic(name)
    found: Decision | None = None
    action: str | None = None
    for event in events:
        match event:
            case StageStarted("parser"):
                found, action = None, None
            case TableApplied():
                action = event.action
            case PrimitiveRun():
                for change in event.changes:
                    if field is not None and change.what == str(field):
                        found = _decision(change, action, event)
            case _:
                pass
    return found


def _decision(change: Change, action: str | None, event: PrimitiveRun) -> Decision:
    return Decision(change.what, change.before, change.after, action, getattr(event.primitive, "source", None))
