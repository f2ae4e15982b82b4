"""Lowers functions and methods of core.p4 and v1model.p4 to BMv2's primitives."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from p4switch.p4.diagnostics import SourceFault, expect
from p4switch.p4.lower import bmv2
from p4switch.p4.lower.bmv2 import Json
from p4switch.p4.lower.storage import (
    STANDARD,
    ActionInstance,
    LoweredInstance,
    LoweringPart,
    ProgramInstance,
    is_scalar,
    storage_width,
)
from p4switch.p4.syntax import tree
from p4switch.p4.types.kinds import BOOL, VOID, Type


class ExternLowering(LoweringPart):
    """Lowers calls of externs."""

    def call_extern(self, node: tree.Call, function: tree.Function) -> bmv2.StoragePlace | None:
        """Lowers a call of a function or method of the target."""
        if isinstance(node.callee, tree.Member):
            return self._method(node, node.callee, function)
        self.ctx.extern_calls += self.ctx.where != "parser" and function.name != "static_assert"
        lower = _FUNCTIONS.get(function.name)
        if lower is None:
            raise SourceFault(node.at, f"the extern function {function.name!r} is not part of v1model")
        allowed = _WHERE.get(function.name)
        if allowed is not None and self.ctx.where not in allowed:
            raise SourceFault(node.at, f"{function.name!r} cannot be called in {_PLACES.get(self.ctx.where, 'here')}")
        return lower(self, node)

    def _method(self, node: tree.Call, callee: tree.Member, function: tree.Function) -> bmv2.StoragePlace | None:
        extern = getattr(callee.base.type, "name", "")
        if extern in ("packet_in", "packet_out"):
            return self.ctx.packets.on_packet(node, extern, function.name)
        instance = self.ctx.inlining.object(callee.base)
        if not isinstance(instance, LoweredInstance):
            raise SourceFault(node.at, "this is no instance")
        lower = _METHODS.get((extern, function.name))
        if lower is None:
            raise SourceFault(node.at, f"{extern}.{function.name} is not part of v1model")
        if self.ctx.where not in ("control", "action"):
            raise SourceFault(
                node.at, f"{extern}.{function.name} cannot be called in {_PLACES.get(self.ctx.where, 'here')}"
            )
        instance.used = True
        return lower(self, node, instance)

    # --- helpers

    def argument(self, node: tree.Call, index: int) -> tree.Expression:
        """Returns an argument. Raises SourceFault if it is omitted."""
        argument = node.bound[index]
        if argument is None:
            raise SourceFault(node.at, "an argument is missing")
        return argument

    def given(self, node: tree.Call, index: int) -> Json:
        """Returns an argument for a primitive."""
        return bmv2.as_parameter(self.ctx.expressions.data(self.argument(node, index)))

    def into(self, node: tree.Call, index: int, operation: str, *rest: Json, at: int = 0) -> None:
        """Adds a primitive whose parameter ``at`` is an output: the field of argument ``index``, or a temporary."""

        def make(target: Json) -> None:
            self.ctx.do(node, operation, *rest[:at], target, *rest[at:])

        value = node.bound[index]
        if value is None:
            parameter = node.target.parameters[index]
            kind = self.ctx.types.substitute(parameter.type, node.type_arguments)
            make(self.ctx.temporary(kind).target())
            return
        target = self.ctx.expressions.target(value)
        if isinstance(target, bmv2.FieldPlace):
            make(target.target())
            return
        if isinstance(target, bmv2.SlicePlace | bmv2.ChosenField):
            copy = self.ctx.temporary(target.type)
            make(copy.target())
            self.ctx.expressions.assign(target, copy, node)
            return
        raise SourceFault(value.at, "a number comes out here", "Give a field or a variable that holds one number.")

    def leaf_values(self, place: bmv2.StoragePlace, at: Any) -> list[tuple[Json, int, Type]]:
        """Returns JSON, width and type of each scalar in a place, in order."""
        members: list[bmv2.StoragePlace]
        match place:
            case bmv2.StructPlace() | bmv2.UnionPlace():
                members = list(place.members.values())
            case bmv2.HeaderPlace() | bmv2.ChosenHeader():
                layout = (place if isinstance(place, bmv2.HeaderPlace) else place.like).layout
                members = [self.ctx.expressions.header_member(place, name) for name in layout if name != "$order$"]
            case bmv2.StackPlace():
                members = place.elements
            case _:
                return [(bmv2.data_of(place), storage_width(place.type), place.type)]
        return [leaf for member in members for leaf in self.leaf_values(member, at)]

    def copied(self, json: Json, kind: Type, at: Any) -> Json:
        """Returns a new variable with a copy of a value."""
        held = self.ctx.temporary(kind)
        self.ctx.expressions.assign(held, bmv2.Value(kind, json), at)
        return held.target()

    def calculation(
        self, algorithm: str, data: bmv2.StoragePlace, at: Any, payload: bool = False, copy: bool = True
    ) -> str:
        """Adds a hash over data; returns its name. With ``copy``, fields of headers and expressions are copied first.

        Without a copy, BMv2 leaves fields of invalid headers out of the hash, so that later fields move up.
        """
        inputs: list[Json] = []
        for json, width, kind in self.leaf_values(data, at):
            if bmv2.is_constant(json):
                inputs.append({**bmv2.as_parameter(json), "bitwidth": width})
            elif json["type"] == "field" and not (copy and self.ctx.storage.in_header(json) and is_scalar(kind)):
                inputs.append(json)
            elif copy:
                inputs.append(self.copied(json, kind, at))
            else:
                raise SourceFault(at.at, "a checksum is over fields and numbers, not over expressions")
        if payload:
            inputs.append({"type": "payload", "value": None})
        name = "calc" if not self.ctx.calculations else f"calc_{len(self.ctx.calculations) - 1}"
        item = {"name": name, "id": len(self.ctx.calculations), "source_info": at, "algo": algorithm, "input": inputs}
        self.ctx.calculations.append(item)
        return name

    def algorithm(self, node: tree.Expression) -> str:
        """Returns the name of a hash algorithm."""
        algorithm = self.ctx.evaluate(node)
        if not isinstance(algorithm, tree.EnumMember):
            raise SourceFault(node.at, "the algorithm of a hash must be known when the program is compiled")
        if algorithm.name == "random":
            raise SourceFault(node.at, "BMv2 has no hash algorithm 'random'", "Use crc16, crc32, identity or xor16.")
        return algorithm.name

    # --- state

    def _direct_meter(self, node: tree.Call, instance: LoweredInstance) -> None:
        target = self.ctx.expressions.target(self.argument(node, 0))
        if not isinstance(target, bmv2.FieldPlace):
            raise SourceFault(node.at, "a direct meter gives its colour to a field", "Use a field of the metadata.")
        before = instance.extra.get("target")
        if before is not None and before != target.target():
            raise SourceFault(node.at, "a direct meter gives its colour to one field only, wherever it is read")
        instance.extra["target"] = target.target()

    def _register_write(self, node: tree.Call, instance: LoweredInstance) -> None:
        index = self.given(node, 0)
        value = self.ctx.expressions.place(self.argument(node, 1))
        if isinstance(value, bmv2.StructPlace | bmv2.HeaderPlace):
            raise SourceFault(node.at, "a register holds numbers", "Join the fields: a ++ b.")
        self.ctx.do(node, "register_write", _array("register", instance), index, bmv2.as_parameter(bmv2.data_of(value)))

    # --- functions

    def _hash(self, node: tree.Call) -> None:
        algorithm = self.algorithm(self.argument(node, 1))
        base = self.given(node, 2)
        data = self.ctx.expressions.place(self.argument(node, 3))
        most = self.given(node, 4)
        name: Json = {"type": "calculation", "value": self.calculation(algorithm, data, node)}
        self.into(node, 0, "modify_field_with_hash_based_offset", base, name, most)

    def _mark_to_drop(self, node: tree.Call) -> None:
        """Lowers mark_to_drop; moves the values that BMv2 sets in its standard metadata to a copy given as argument."""
        place = expect(
            self.ctx.expressions.place(self.argument(node, 0)) if node.bound else bmv2.StructPlace(VOID, {}),
            bmv2.StructPlace,
        )
        pairs = [
            (bmv2.FieldPlace(member.type, STANDARD, name), member)
            for name, member in place.members.items()
            if name in ("egress_spec", "mcast_grp")
        ]
        copies = [
            (own, member)
            for own, member in pairs
            if not (isinstance(member, bmv2.FieldPlace) and member.header == STANDARD)
        ]
        kept = [self.ctx.temporary(own.type) for own, _ in copies]
        for held, (own, _) in zip(kept, copies, strict=True):
            self.ctx.expressions.assign(held, own, node)
        self.ctx.do(node, "mark_to_drop", {"type": "header", "value": STANDARD})
        for held, (own, member) in zip(kept, copies, strict=True):
            self.ctx.expressions.assign(member, own, node)
            self.ctx.expressions.assign(own, held, node)

    def _digest(self, node: tree.Call) -> None:
        receiver = self.given(node, 0)
        value = self.argument(node, 1)
        data = self.ctx.expressions.place(value)
        named = getattr(node.type_arguments.get(node.target.type_variables[0]), "name", None)
        elements = [
            json if json["type"] in ("field", "hexstr") else self.copied(json, kind, node)
            for json, _, kind in self.leaf_values(data, node)
        ]
        name = named or f"digest_{len(self.ctx.learn_lists)}"
        told = node.type_arguments.get(node.target.type_variables[0])
        if told is not None:
            self.ctx.digests.setdefault(name, told)
        known = next((item for item in self.ctx.learn_lists if item["name"] == name), None)
        if known is None or known["elements"] != elements:
            known = {"id": len(self.ctx.learn_lists) + 1, "name": name, "source_info": node, "elements": elements}
            self.ctx.learn_lists.append(known)
        self.ctx.do(node, "generate_digest", receiver, bmv2.constant(known["id"], 32))

    def list_number(self, node: tree.Call, index: int) -> Json:
        """Returns the id of the field list whose number an argument gives."""
        number = self.ctx.number(self.argument(node, index), "the number of a field list", node.at)
        self.ctx.lists_used.setdefault(number, node)
        return bmv2.constant(self.list_id(number), 32)

    def list_id(self, number: int) -> int:
        """Returns the id of the field list with a number in P4 (-1: the empty list); adds the list if it is new."""
        for item in self.ctx.field_lists:
            if item["number"] == number:
                return int(item["id"])
        item = {"id": len(self.ctx.field_lists) + 1, "number": number, "elements": []}
        self.ctx.field_lists.append(item)
        return int(item["id"])

    def again(self, node: tree.Call, block: str, operation: str) -> None:
        """Lowers ``resubmit`` or ``recirculate``, which is allowed only in ``block``."""
        self._only_in(node, block)
        self.ctx.do(node, operation, self.list_number(node, 0))

    def _only_in(self, node: tree.Call, block: str) -> None:
        if self.ctx.block != block:
            name = getattr(node.target, "name", "this")
            raise SourceFault(node.at, f"{name!r} is for {block} only", f"Call it in the {block} control.")

    def clone_kind(self, node: tree.Call) -> str:
        """Returns the name of the primitive of a clone."""
        kind = self.ctx.evaluate(self.argument(node, 0))
        name = kind.name if isinstance(kind, tree.EnumMember) else ""
        if name not in ("I2E", "E2E"):
            raise SourceFault(node.at, "the type of a clone must be known when the program is compiled")
        if (name == "I2E") != (self.ctx.block == "ingress"):
            where = "ingress" if name == "I2E" else "egress"
            raise SourceFault(node.at, f"CloneType.{name} is for {where}, but this is {self.ctx.block}")
        return f"clone_{'ingress' if name == 'I2E' else 'egress'}_pkt_to_egress"

    def _assertion(self, node: tree.Call) -> None:
        name = node.target.name
        condition = self.ctx.expressions.scalar(self.argument(node, 0))
        self.ctx.do(node, name, {"type": "expression", "value": condition})

    def _log(self, node: tree.Call) -> None:
        text = self.ctx.evaluate(self.argument(node, 0))
        values: list[Json] = []
        if len(node.bound) > 1 and node.bound[1] is not None:
            place = self.ctx.expressions.place(node.bound[1])
            values = [bmv2.as_parameter(json) for json, _, _ in self.leaf_values(place, node)]
        message: Json = {"type": "string", "value": str(text)}
        self.ctx.do(node, "log_msg", message, {"type": "parameters_vector", "value": values})

    def _old_form(self, node: tree.Call) -> None:
        """Lowers old forms such as ``resubmit(data)``, which never kept their data; warns of that."""
        name = node.target.name
        newer = {"clone3": "clone_preserving_field_list"}.get(name, f"{name}_preserving_field_list")
        hint = f"Use {newer}(…, n), and @field_list(n) on the fields of the metadata that are kept."
        self.ctx.diagnostics.warning(node.at, f"{name!r} keeps nothing of the data that it is given", hint)
        none = bmv2.constant(self.list_id(-1), 32)
        if name == "clone3":
            self.ctx.do(node, self.clone_kind(node), self.given(node, 1), none)
        else:
            self._only_in(node, "ingress" if name == "resubmit" else "egress")
            self.ctx.do(node, name, none)


_FUNCTIONS: Final[Mapping[str, Callable[[ExternLowering, tree.Call], bmv2.StoragePlace | None]]] = {
    "hash": ExternLowering._hash,
    "random": lambda s, node: s.into(node, 0, "modify_field_rng_uniform", s.given(node, 1), s.given(node, 2)),
    "mark_to_drop": ExternLowering._mark_to_drop,
    "digest": ExternLowering._digest,
    "truncate": lambda s, node: s.ctx.do(node, "truncate", s.given(node, 0)),
    "resubmit_preserving_field_list": lambda s, node: s.again(node, "ingress", "resubmit"),
    "recirculate_preserving_field_list": lambda s, node: s.again(node, "egress", "recirculate"),
    "clone": lambda s, node: s.ctx.do(node, s.clone_kind(node), s.given(node, 1), bmv2.constant(s.list_id(-1), 32)),
    "clone_preserving_field_list": lambda s, node: s.ctx.do(
        node, s.clone_kind(node), s.given(node, 1), s.list_number(node, 2)
    ),
    "resubmit": ExternLowering._old_form,
    "recirculate": ExternLowering._old_form,
    "clone3": ExternLowering._old_form,
    "assert": ExternLowering._assertion,
    "assume": ExternLowering._assertion,
    "log_msg": ExternLowering._log,
    "verify": lambda self, node: self.ctx.packets.verify(node),
    "static_assert": lambda self, node: None,
    **dict.fromkeys(
        (f"{what}_checksum{payload}" for what in ("verify", "update") for payload in ("", "_with_payload")),
        lambda s, node: s.ctx.checksums.checksum(node),
    ),
}


def _array(kind: str, instance: LoweredInstance) -> Json:
    return {"type": f"{kind}_array", "value": instance.name}


_PIPELINE: Final = ("control", "action")
_WHERE: Final[Mapping[str, tuple[str, ...]]] = {
    "verify": ("parser",),
    **dict.fromkeys(
        (
            "hash", "random", "mark_to_drop", "digest", "truncate", "clone", "clone_preserving_field_list",
            "resubmit_preserving_field_list", "recirculate_preserving_field_list",
        ),
        _PIPELINE,
    ),
}  # fmt: skip
_PLACES: Final = {
    "parser": "a parser", "checksum": "a checksum control", "deparser": "a deparser", "control": "a control",
    "action": "an action",
}  # fmt: skip

_METHODS: Final[
    Mapping[tuple[str, str], Callable[[ExternLowering, tree.Call, LoweredInstance], bmv2.StoragePlace | None]]
] = {
    ("counter", "count"): lambda s, node, instance: s.ctx.do(
        node, "count", _array("counter", instance), s.given(node, 0)
    ),
    ("direct_counter", "count"): lambda s, node, instance: None,  # the table counts every hit
    ("meter", "execute_meter"): lambda s, node, instance: s.into(
        node, 1, "execute_meter", _array("meter", instance), s.given(node, 0), at=2
    ),
    ("direct_meter", "read"): ExternLowering._direct_meter,
    ("register", "read"): lambda s, node, instance: s.into(
        node, 0, "register_read", _array("register", instance), s.given(node, 1)
    ),
    ("register", "write"): ExternLowering._register_write,
}


# Calls of header methods, actions, functions, externs, tables, parsers and controls.


class CallLowering(LoweringPart):
    """Lowers calls."""

    def call(self, node: tree.Call) -> bmv2.StoragePlace:
        """Lowers a call and returns its value."""
        value = self.perform(node)
        if value is None:
            raise SourceFault(node.at, "this call gives no value")
        return value

    def perform(self, node: tree.Call) -> bmv2.StoragePlace | None:
        """Lowers a call; returns its value, or None if it has none."""
        target = node.target
        match target:
            case str():
                return self._on_header(node, target)
            case tree.Action():
                self._action(node, target)
                return None
            case tree.Function(body=None):
                return self.ctx.externs.call_extern(node, target)
            case tree.Function():
                return self.ctx.inlining.call_function(node, target)
            case tree.Table():
                self.ctx.tables.apply_table(node)
                return None
            case tree.Program():
                self.ctx.programs.call_program(node, self._instance(node, target))
                return None
        raise SourceFault(node.at, "this call is not taken here")

    def _action(self, node: tree.Call, action: tree.Action) -> None:
        instance = self.ctx.environment.find(action)
        if not isinstance(instance, ActionInstance):
            instance = ActionInstance(action.name, action, self.ctx.program_environment)
        self.ctx.inlining.call_action(node, instance)

    def _instance(self, node: tree.Call, program: tree.Program) -> ProgramInstance:
        base = expect(node.callee, tree.Member).base
        if isinstance(base, tree.Name) and base.target is program:
            return self.ctx.programs.direct_instance(node, program)
        instance = self.ctx.inlining.object(base)
        if not isinstance(instance, ProgramInstance):
            raise SourceFault(node.at, "this is no parser or control")
        return instance

    def apply_result(self, node: tree.Member) -> bmv2.StoragePlace:
        """Lowers ``t.apply().hit`` or ``.miss`` in an expression; returns a bool that both outcomes set."""
        result = self.ctx.temporary(BOOL)
        apply = self.ctx.tables.apply_table(node.base)
        on_hit = node.name == "hit"
        yes = self.ctx.expressions.collected(
            lambda: self.ctx.expressions.assign(result, bmv2.Value(BOOL, bmv2.TRUE, True), node)
        )
        no = self.ctx.expressions.collected(
            lambda: self.ctx.expressions.assign(result, bmv2.Value(BOOL, bmv2.FALSE, False), node)
        )
        apply.hit, apply.miss = (yes, no) if on_hit else (no, yes)
        return result

    # --- headers and stacks

    def _on_header(self, node: tree.Call, method: str) -> bmv2.StoragePlace | None:
        place = self.ctx.expressions.place(expect(node.callee, tree.Member).base)
        match method:
            case "isValid":
                if isinstance(place, bmv2.StructPlace):
                    return bmv2.Value(BOOL, bmv2.TRUE, True)
                return bmv2.Value(BOOL, self.ctx.expressions.validity(place, node))
            case "setValid" | "setInvalid" if isinstance(place, bmv2.HeaderPlace | bmv2.ChosenHeader):
                operator = "add_header" if method == "setValid" else "remove_header"
                self.ctx.do(node, operator, bmv2.as_parameter(place.json()))
                return None
            case "push_front" | "pop_front" if isinstance(place, bmv2.StackPlace):
                count = self.ctx.number(node.bound[0], "the count", node.at)
                self.ctx.do(node, method.removesuffix("_front"), place.json(), bmv2.constant(count, 8))
                return None
        if isinstance(place, bmv2.UnionPlace):
            raise SourceFault(node.at, f"{method!r} cannot be called on a header union")
        raise SourceFault(node.at, f"{method!r} is not taken here")
