"""Loops: jumps within an action (P4_16 specification, section 12.9)."""

from typing import Any

from p4switch.p4.lower.externs import CallLowering
from p4switch.p4.lower.layout import Branch, Code, Invoke, Labelled, Leave, Loop
from p4switch.p4.lower.storage import Environment
from p4switch.p4.lower.values import FALSE, TRUE, FieldPlace, Value
from p4switch.p4.syntax.tree import For
from p4switch.p4.types.kinds import BOOL


class LoopLowering(CallLowering):
    """Lowers loops.

    Attributes:
        loops: where ``break`` and ``continue`` go, of every loop that is being lowered.
    """

    loops: list[dict[str, object]]

    def statement(self, item: Any) -> None:
        """See StatementLowering."""
        raise NotImplementedError

    def loop(self, item: For) -> None:
        """``for``: in an action, or one by itself."""
        outer, self.environment = self.environment, Environment(self.environment)
        for statement in item.initial:
            self.statement(statement)
        labels: dict[str, object] = {"break": object(), "continue": object()}
        self.loops.append(labels)
        steps = self.collected(lambda: self._round(item, labels))
        self.loops.pop()
        loop = Loop(item.at, item.end, steps, labels["break"])
        if self.where == "control" and not self.loops and not self._within:
            self._leave_by_flags(loop)
        else:
            self.out.append(loop)
        self.environment = outer

    def _round(self, item: For, labels: dict[str, object]) -> None:
        """What a loop does each time."""
        leave = [Leave(item.condition.at, item.condition.end, labels["break"])]
        known = self.evaluate(item.condition) if not item.condition.effects else None
        if known is None:
            condition = self.condition(item.condition)
            self.out.append(Branch(item.condition.at, item.condition.end, condition, [], [*leave]))
        elif not known:
            self.out += leave
            return
        body = self.collected(lambda: self.statement(item.body))
        self.out.append(Labelled(item.body.at, item.body.end, body, labels["continue"]))
        for statement in item.updates:
            self.statement(statement)

    def _leave_by_flags(self, loop: Loop) -> None:
        """A loop of a pipeline becomes an action, which ends behind the loop.

        What leaves more than the loop (``return``) sets a flag of its own, and the pipeline goes by it.
        """
        flags: dict[object, FieldPlace] = {}
        loop.steps = self._with_flags(loop.steps, {loop.label}, loop.label, flags)
        for flag in flags.values():
            self.assign(flag, Value(BOOL, FALSE, False), loop)
        self.out.append(loop)
        for label, flag in flags.items():
            self.out.append(Branch(loop.at, loop.end, flag.json(), [Leave(loop.at, loop.end, label)], []))

    def _with_flags(
        self, codes: list[Code], within: set[object], behind: object, flags: dict[object, FieldPlace]
    ) -> list[Code]:
        found: list[Code] = []
        for code in codes:
            match code:
                case Branch():
                    code.yes = self._with_flags(code.yes, within, behind, flags)
                    code.no = self._with_flags(code.no, within, behind, flags)
                case Labelled() | Invoke():
                    inner = within | {code.label} if isinstance(code, Labelled) else within
                    code.body = self._with_flags(code.body, inner, behind, flags)
                case Loop():
                    code.steps = self._with_flags(code.steps, within | {code.label}, behind, flags)
                case Leave() if code.label not in within:
                    flag = flags.setdefault(code.label, self.temporary(BOOL))
                    found += self.collected(lambda flag=flag, at=code: self.assign(flag, Value(BOOL, TRUE, True), at))
                    code.label = behind
            found.append(code)
        return found
