"""Actions: steps one after the other, with jumps over those that a condition leaves out."""

from collections.abc import Sequence

from p4reduce.frontend.diagnostics import Unexpected
from p4reduce.frontend.lower.code import Apply, Branch, Code, Do, Invoke, Labelled, Leave, Stop
from p4reduce.frontend.lower.sourceinfo import SourceInfo
from p4reduce.frontend.lower.values import Json, as_data, as_parameter, constant


class ActionLayout:
    """Lays out one action."""

    def __init__(self, info: SourceInfo) -> None:
        self.info = info
        self.primitives: list[Json] = []
        self._labels: dict[object, list[Json]] = {}
        self._ends: list[Json] = []

    def run(self, body: Sequence[Code], tail: Sequence[Code], label: object) -> list[Json]:
        """The primitives of ``body``, whose ``return`` goes to ``tail``."""
        self._labels[label] = []
        self._list(body)
        self._land(label, body)
        self._list(tail)
        for jump in self._ends:
            self._aim(jump)
        return self.primitives

    def _list(self, codes: Sequence[Code]) -> None:
        for code in codes:
            self._code(code)

    def _code(self, code: Code) -> None:
        match code:
            case Do():
                self.primitives.append(primitive(code, self.info))
            case Branch():
                self._branch(code)
            case Labelled():
                self._labels[code.label] = []
                self._list(code.body)
                self._land(code.label, code.body)
            case Leave():
                self._labels[code.label].append(self._jump(code))
            case Stop():
                item: Json = {"op": "exit", "parameters": []}
                self.info.put(item, code)
                self.primitives.append(item)
                self._ends.append(self._jump(code))
            case Invoke():
                self._list(code.body)
            case Apply():
                raise Unexpected

    def _branch(self, code: Branch) -> None:
        if not code.yes and not code.no:
            return
        start: Json = {"op": "_jump_if_zero", "parameters": [as_parameter(as_data(code.condition, True)), None]}
        self.info.put(start, code)
        self.primitives.append(start)
        self._list(code.yes)
        if code.no:
            over = self._jump(code)
            self._aim(start)
            self._list(code.no)
            self._aim(over)
        else:
            self._aim(start)

    def _jump(self, code: Code) -> Json:
        item: Json = {"op": "_jump", "parameters": [None]}
        self.info.put(item, code)
        self.primitives.append(item)
        return item

    def _land(self, label: object, body: Sequence[Code]) -> None:
        """Aims the jumps to a label here; a last one that would go to the next primitive is left out."""
        jumps = self._labels.pop(label)
        if jumps and self.primitives and self.primitives[-1] is jumps[-1] and not self._aimed_here():
            self.primitives.pop()
            jumps.pop()
        for jump in jumps:
            self._aim(jump)

    def _aimed_here(self) -> bool:
        """Whether a jump goes behind the last primitive."""
        here = len(self.primitives)
        return any(item["op"] in ("_jump", "_jump_if_zero") and item.get("$to") == here for item in self.primitives)

    def _aim(self, jump: Json) -> None:
        jump["$to"] = len(self.primitives)
        jump["parameters"][-1] = constant(len(self.primitives), 32)


def primitive(code: Do, info: SourceInfo) -> Json:
    """A primitive as the JSON has it."""
    item: Json = {"op": code.operation, "parameters": code.parameters}
    info.put(item, code)
    return item
