"""Calls: which of the many kinds one is."""

from p4reduce.frontend.diagnostics import SourceFault, Unexpected
from p4reduce.frontend.lower.code import Apply
from p4reduce.frontend.lower.externs import ExternLowering
from p4reduce.frontend.lower.objects import ActionInstance, ProgramInstance
from p4reduce.frontend.lower.places import (
    ChosenHeader,
    HeaderPlace,
    Place,
    StackPlace,
    StructPlace,
    UnionPlace,
    Value,
)
from p4reduce.frontend.lower.values import FALSE, TRUE, as_parameter, constant
from p4reduce.frontend.syntax.declarations import Action, Function, Program, Table
from p4reduce.frontend.syntax.tree import Call, Member, Name
from p4reduce.frontend.types.kinds import BOOL


class CallLowering(ExternLowering):
    """Lowers calls."""

    def call(self, node: Call) -> Place:
        """A call for its value."""
        found = self._call(node)
        if found is None:
            raise SourceFault(node.at, "this call gives no value")
        return found

    def call_statement(self, node: Call) -> None:
        """A call for its effect."""
        self._call(node)

    def _call(self, node: Call) -> Place | None:
        target = node.target
        match target:
            case str():
                return self._on_header(node, target)
            case Action():
                self._action(node, target)
                return None
            case Function(body=None):
                return self.call_extern(node, target)
            case Function():
                return self.call_function(node, target)
            case Table():
                self.apply_table(node)
                return None
            case Program():
                self.call_program(node, self._instance(node, target))
                return None
        raise SourceFault(node.at, "this call is not taken here")

    def _action(self, node: Call, action: Action) -> None:
        instance = self.environment.find(action)
        if not isinstance(instance, ActionInstance):
            instance = ActionInstance(action.name, action, self.program_environment)
        self.call_action(node, instance)

    def _instance(self, node: Call, program: Program) -> ProgramInstance:
        if not isinstance(node.callee, Member):
            raise Unexpected
        base = node.callee.base
        if isinstance(base, Name) and base.target is program:
            return self.direct_instance(node, program)
        found = self.object(base)
        if not isinstance(found, ProgramInstance):
            raise SourceFault(node.at, "this is no parser or control")
        return found

    def direct_instance(self, node: Call, program: Program) -> ProgramInstance:
        """See Programs."""
        raise NotImplementedError

    def apply_table(self, node: Call) -> Apply:
        """See TableLowering."""
        raise NotImplementedError

    def apply_result(self, node: Member) -> Place:
        """``t.apply().hit`` within an expression: a bool that hit and miss set."""
        if not isinstance(node.base, Call):
            raise Unexpected
        result = self.temporary(BOOL)
        apply = self.apply_table(node.base)
        on_hit = node.name == "hit"
        yes = self.collected(lambda: self.assign(result, Value(BOOL, TRUE, True), node))
        no = self.collected(lambda: self.assign(result, Value(BOOL, FALSE, False), node))
        apply.hit, apply.miss = (yes, no) if on_hit else (no, yes)
        return result

    # --- headers and stacks

    def _on_header(self, node: Call, method: str) -> Place | None:
        if not isinstance(node.callee, Member):
            raise Unexpected
        place = self.place(node.callee.base)
        match method:
            case "isValid":
                if isinstance(place, StructPlace):
                    return Value(BOOL, TRUE, True)
                return Value(BOOL, self.validity(place, node))
            case "setValid" | "setInvalid" if isinstance(place, HeaderPlace | ChosenHeader):
                operator = "add_header" if method == "setValid" else "remove_header"
                self.do(node, operator, as_parameter(place.json()))
                return None
            case "push_front" | "pop_front" if isinstance(place, StackPlace):
                count = self.number(node.bound[0], "the count", node.at)
                self.do(node, method.removesuffix("_front"), place.json(), constant(count, 8))
                return None
        if isinstance(place, UnionPlace):
            raise SourceFault(node.at, f"{method!r} cannot be called on a header union")
        raise SourceFault(node.at, f"{method!r} is not taken here")
