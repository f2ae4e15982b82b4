"""Statements."""

from typing import Any

from p4reduce.frontend.diagnostics import SourceFault, Unexpected
from p4reduce.frontend.lower.calls import CallLowering
from p4reduce.frontend.lower.code import Apply, Branch, Code, Leave, Stop
from p4reduce.frontend.lower.objects import Environment
from p4reduce.frontend.lower.places import data_of
from p4reduce.frontend.lower.values import operation
from p4reduce.frontend.syntax.declarations import Action, Constant, Function, Program, Variable
from p4reduce.frontend.syntax.tree import (
    Assign,
    Block,
    Call,
    CallStatement,
    Default,
    Empty,
    Exit,
    Expression,
    If,
    Member,
    Return,
    Switch,
    Unary,
)
from p4reduce.frontend.types.kinds import ActionRun


class StatementLowering(CallLowering):
    """Lowers statements."""

    def body_of(self, callee: Action | Function | Program, at: Any) -> None:
        """The code of a callee, with its parameters bound."""
        if isinstance(callee, Program):
            self.program_body(callee, at)
        elif callee.body is not None:
            self.block_of(callee.body)

    def program_body(self, program: Program, at: Any) -> None:
        """See Programs."""
        raise NotImplementedError

    def block_of(self, block: Block) -> None:
        """The statements of a block, with names of their own."""
        outer = self.environment
        self.environment = Environment(outer)
        for item in block.items:
            self.statement(item)
        self.environment = outer

    def statement(self, item: Any) -> None:
        """One statement or declaration."""
        match item:
            case Assign():
                self._assignment(item)
            case CallStatement():
                self.call_statement(item.call)
            case If():
                self._if(item)
            case Block():
                self.block_of(item)
            case Variable():
                self.variable(item)
            case Constant():
                self.environment.bound[item] = self.place(item.initial)
            case Return():
                self._return(item)
            case Exit():
                self._exit(item)
            case Switch():
                self._switch(item)
            case Empty():
                pass
            case _:
                raise SourceFault(item.at, "this is not taken among statements")

    def variable(self, item: Variable) -> None:
        """A variable with its initial value; a header begins invalid."""
        place = self.environment.bound.get(item)
        if place is None:
            place = self.fresh(item)
        if item.initial is not None:
            value = self.place(item.initial)
            self.environment.bound[item] = place
            self.assign(place, value, item)
        else:
            self.environment.bound[item] = place
            self.invalidate(place, item)

    def _assignment(self, item: Assign) -> None:
        self.holds_index = item.right.effects
        target = self.target(item.left)
        self.holds_index = False
        self.assign(target, self.place(item.right), item)

    def _return(self, item: Return) -> None:
        if item.value is not None and self.callees and self.callees[-1].result is not None:
            self.assign(self.callees[-1].result, self.place(item.value), item)
        self.out.append(Leave(item.at, item.end, self.callees[-1].label if self.callees else None))

    def _exit(self, item: Exit) -> None:
        """What was copied in for callees comes out before (specification, section 12.5)."""
        for callee in reversed(self.callees):
            for place, copy in callee.copies:
                self.assign(place, copy, item)
        self.out.append(Stop(item.at, item.end))

    # --- if and switch

    def _if(self, item: If) -> None:
        node, negated = item.condition, False
        while isinstance(node, Unary) and node.operator == "!":
            node, negated = node.operand, not negated
        if (
            isinstance(node, Member)
            and node.name in ("hit", "miss")
            and isinstance(node.base, Call)
            and self.where == "control"
        ):
            self._if_hit(item, node, negated)
            return
        known = self.evaluate(item.condition) if not item.condition.effects else None
        if known is not None:
            if known:
                self.statement(item.yes)
            elif item.no is not None:
                self.statement(item.no)
            return
        condition = self.condition(item.condition)
        yes = self.collected(lambda: self.statement(item.yes))
        no = self.collected(lambda: self.statement(item.no)) if item.no is not None else []
        self.out.append(Branch(item.condition.at, item.condition.end, condition, yes, no))

    def _if_hit(self, item: If, node: Member, negated: bool) -> None:
        if not isinstance(node.base, Call):
            raise Unexpected
        apply = self.apply_table(node.base)
        yes = self.collected(lambda: self.statement(item.yes))
        no = self.collected(lambda: self.statement(item.no)) if item.no is not None else []
        if (node.name == "miss") != negated:
            yes, no = no, yes
        apply.hit, apply.miss = yes, no

    def _switch(self, item: Switch) -> None:
        if isinstance(item.subject.type, ActionRun):
            self._switch_on_action(item)
            return
        subject = self.place(item.subject)
        if item.subject.effects or not subject.fixed:
            subject = self.held(subject, item.subject)
        self._cases(item, subject, 0)

    def _cases(self, item: Switch, subject: Any, first: int) -> None:
        """The cases from one on, as a chain of conditions."""
        labels: list[Expression] = []
        for position in range(first, len(item.cases)):
            case = item.cases[position]
            labels.append(case.label)
            if case.body is None:
                continue
            body = case.body
            if any(isinstance(label, Default) for label in labels):
                self.block_of(body)
                return
            condition = None
            for label in labels:
                value = self.known(self.evaluate(label), subject.type)
                same = operation("==", data_of(subject), data_of(value))
                condition = same if condition is None else operation("or", condition, same)
            if condition is None:
                raise Unexpected
            yes = self.collected(lambda body=body: self.block_of(body))
            no = self.collected(lambda after=position + 1: self._cases(item, subject, after))
            self.out.append(Branch(case.at, case.label.end, condition, yes, no))
            return

    def _switch_on_action(self, item: Switch) -> None:
        if not isinstance(item.subject, Member):
            raise Unexpected
        if not isinstance(item.subject.base, Call):
            raise Unexpected
        apply = self.apply_table(item.subject.base)
        table = apply.table.declaration
        numbers = {ref.name: i for i, ref in enumerate(table.actions)}
        pending: list[Expression] = []
        for case in item.cases:
            pending.append(case.label)
            if case.body is None:
                continue
            body: list[Code] = self.collected(lambda body=case.body: self.block_of(body))
            for label in pending:
                if isinstance(label, Default):
                    apply.otherwise = body
                else:
                    apply.actions[numbers[label.name]] = body  # type: ignore[attr-defined]
            pending = []

    def apply_table(self, node: Call) -> Apply:
        """See TableLowering."""
        raise NotImplementedError
