"""Statements, and declarations that stand among them (P4_16 specification, section 12)."""

from typing import Any

from p4reduce.frontend.diagnostics import SourceFault
from p4reduce.frontend.syntax.declarations import Constant, Function, Instance, Parameter, Variable
from p4reduce.frontend.syntax.parse_expressions import ExpressionParser
from p4reduce.frontend.syntax.tokens import END, NAME, SIGN
from p4reduce.frontend.syntax.tree import (
    Annotation,
    Assign,
    Binary,
    Block,
    Call,
    CallStatement,
    Empty,
    Exit,
    If,
    Return,
    Statement,
    Switch,
    SwitchCase,
)

_COMPOUND = {f"{op}=": op for op in ("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>")}


class StatementParser(ExpressionParser):
    """Parses statements."""

    def block(self) -> Block:
        """``{ … }``; what is wrong with one statement does not keep the others from being read."""
        self.nest()
        at = self.expect("{", "to begin a block")
        items: list[Any] = []
        while self.text != "}" or self.kind != SIGN:
            if self.kind == END:
                raise SourceFault(at, "this block is not closed", "A '}' is missing.")
            begin, depth = self.at, self.depth
            try:
                items.append(self.statement())
            except SourceFault as fault:
                self.diagnostics.error(fault.position, fault.message, fault.hint)
                self.depth = depth
                if self.at == begin:
                    self.at += self.text not in ("}", "{")
                self.skip_statement()
                if self.starts_top_level():
                    break
        else:
            self.at += 1
        self.depth -= 1
        return Block(at, self.ended, items)

    def starts_top_level(self) -> bool:
        """Whether the next word only begins declarations of the program: an earlier block is not closed."""
        return self.kind == END or (
            self.kind == NAME and self.text in ("control", "parser", "header", "struct", "typedef", "package")
        )

    def statement(self) -> Any:
        """A statement or a declaration."""
        kind, text, at = self.tokens[self.at]
        if kind == SIGN:
            if text == "{":
                return self.block()
            if text == ";":
                self.at += 1
                return Empty(at, self.ended)
            if text == "@":
                annotations = self.annotations()
                if self.text == "{":
                    return self.block()
                return self.declaration_or_expression(annotations)
        elif kind == NAME and text in _STATEMENTS:
            return getattr(self, _STATEMENTS[text])(at)
        elif kind == NAME and text in ("for", "break", "continue") and self.ahead() in ("(", ";"):
            self.fail(f"loops ({text!r}) are not taken", "Write the steps out: the target has no loops either.")
        elif text == "table":
            self.fail("a table is declared in a control, before its apply block", "Move it up, and call name.apply().")
        elif text == "action":
            self.fail("an action is declared in a control, before its apply block", "Move it up, and call it by name.")
        elif text == "transition":
            self.fail("'transition' belongs into a parser's state")
        return self.declaration_or_expression([])

    def _if(self, at: int) -> If:
        self.nest()
        self.at += 1
        bracket = self.text == "("
        if not bracket:
            self.fail(f"the condition of 'if' stands in brackets, found {self.shown()}", "Write if (…) { … }.")
        self.at += 1
        condition = self.expression()
        if self.text == "=" and self.kind == SIGN:
            self.fail("'=' assigns; a condition compares", "Write '=='.")
        self.expect(")", "the condition of this 'if'")
        yes = self._branch()
        no = None
        if self.accept("else"):
            no = self._branch()
        self.depth -= 1
        return If(at, self.ended, condition, yes, no)

    def _branch(self) -> Statement:
        found = self.statement()
        if not isinstance(found, Statement):
            raise SourceFault(found.at, "a declaration cannot be a branch of 'if'", "Put it into { … }.")
        return found

    def _return(self, at: int) -> Return:
        self.at += 1
        value = None if self.text == ";" else self.expression()
        self.expect(";", "'return'")
        return Return(at, self.ended, value)

    def _exit(self, at: int) -> Exit:
        self.at += 1
        self.expect(";", "'exit'")
        return Exit(at, self.ended)

    def _switch(self, at: int) -> Switch:
        self.nest()
        self.at += 1
        self.expect("(", "behind 'switch'")
        subject = self.expression()
        self.expect(")", "what 'switch' looks at")
        self.expect("{", "to begin the cases of 'switch'")
        cases: list[SwitchCase] = []
        while not self.accept("}"):
            begin = self.position
            if self.text == "case":
                self.fail("P4 writes a case without 'case'", "Write 'name: { … }'.")
            label = self.expression()
            self.expect(":", "behind the label of a case")
            body = self.block() if self.text == "{" else None
            if (
                body is None and self.kind == NAME and self.ahead() not in (":", "(", ".", ",", ")")
            ) or self.text == ";":
                self.fail("what a case does stands in a block", "Write 'name: { … }'.")
            cases.append(SwitchCase(begin, self.ended, label, body))
        self.depth -= 1
        return Switch(at, self.ended, subject, cases)

    def _constant(self, at: int) -> Constant:
        return self.constant([])

    def constant(self, annotations: list[Annotation]) -> Constant:
        """``const T name = value;``."""
        self.expect("const", "")
        ref = self.type_ref()
        at = self.position
        name = self.name("a constant")
        self.expect("=", f"and a value for the constant {name!r}")
        value = self.expression()
        self.expect(";", f"the constant {name!r}")
        return Constant(at, at + len(name), name, annotations, ref, value)

    def _starts_declaration(self) -> str:
        """``variable``, ``instance`` or nothing, by what follows the type or name here."""
        at = self.at
        if self.starts_type_word() or (self.text == "error" and self.ahead() != "."):
            return "variable"
        if self.tokens[at][1] == "." and self.tokens[at][0] == SIGN:
            at += 1
        if self.tokens[at][0] != NAME:
            return ""
        at += 1
        if self.tokens[at][1] == "<":
            # Type arguments hold names, numbers, commas, brackets and further arguments, up to the one that closes.
            begin, kept = self.at, list(self.tokens[self.at : self.at + 64])
            self.at = at
            types = self._behind_types()
            after = self.at
            self.at = begin
            self.tokens[begin : begin + 64] = kept
            if not types:
                return ""
            at = after
            if self.tokens[at][1].startswith(">"):
                at += 1
        while self.tokens[at][1] == "[" and self.tokens[at][0] == SIGN:
            at = self.matching(at) + 1
        if self.tokens[min(at, len(self.tokens) - 1)][0] == NAME:
            return "variable"
        if self.tokens[at][1] == "(" and self.tokens[at][0] == SIGN:
            close = self.matching(at)
            if self.tokens[min(close + 1, len(self.tokens) - 1)][0] == NAME:
                return "instance"
        return ""

    def _behind_types(self) -> bool:
        self.at += 1
        try:
            self._type_arguments()
        except SourceFault:
            return False
        return True

    def declaration_or_expression(self, annotations: list[Annotation]) -> Any:
        """A variable, an instance, an assignment or a call."""
        what = self._starts_declaration()
        if what == "variable":
            return self.variable(annotations)
        if what == "instance":
            return self.instance(annotations)
        if annotations and self.text == "const":
            return self.constant(annotations)
        at = self.position
        if self.kind == NAME and self.text in ("else", "default", "in", "out", "inout", "state", "key"):
            self.fail(f"a statement cannot begin with {self.text!r}")
        left = self.expression()
        if self.kind == SIGN and (self.text == "=" or self.text in _COMPOUND):
            operator = _COMPOUND.get(self.text)
            self.at += 1
            right = self.expression()
            self.expect(";", "this assignment")
            if operator is not None:
                right = Binary(left.at, right.end, operator, left, right)
            return Assign(at, self.ended, left, right)
        if isinstance(left, Call):
            self.expect(";", "this call")
            return CallStatement(at, self.ended, left)
        if self.text == "++":
            self.fail("P4 has no '++' that counts up", "Write x = x + 1;")
        raise SourceFault(at, "this expression is no statement: it neither assigns nor calls anything")

    def variable(self, annotations: list[Annotation]) -> Variable:
        """``T name;``, ``T name = value;``."""
        ref = self.type_ref()
        at = self.position
        name = self.name("a variable")
        value = self.expression() if self.accept("=") else None
        self.expect(";", f"the variable {name!r}")
        return Variable(at, at + len(name), name, annotations, ref, value)

    def instance(self, annotations: list[Annotation]) -> Instance:
        """``T(arguments) name;``, ``T(arguments) name = { … };``."""
        ref = self.type_ref()
        arguments = self.arguments()
        at = self.position
        name = self.name("an instance")
        members = None
        if self.accept("="):
            self.expect("{", f"to begin what the instance {name!r} is made of")
            members = []
            while not self.accept("}"):
                members.append(self.instance_member())
        self.expect(";", f"the instance {name!r}")
        return Instance(at, at + len(name), name, annotations, ref, arguments, members)

    def instance_member(self) -> Any:
        """A function or an instance within an instance's block."""
        annotations = self.annotations()
        if self._starts_declaration() == "instance":
            return self.instance(annotations)
        return self.function(annotations)

    def function(self, annotations: list[Annotation], abstract: bool = False) -> Function:
        """``T name<types>(parameters) { … }``, or with ``;`` in place of the block."""
        result = self.type_ref()
        at = self.position
        name = "apply" if self.text == "apply" and self.accept("apply") else self.name("a function")
        types = self.type_parameters()
        parameters = self.parameters()
        body = None
        if not self.accept(";"):
            body = self.block()
        return Function(at, at + len(name), name, annotations, result, types, parameters, body, abstract)

    def type_parameters(self) -> list[str]:
        """``<A, B>``, if it stands here."""
        found: list[str] = []
        if self.accept("<"):
            while True:
                found.append(self.name("a type"))
                if not self.accept(","):
                    break
            self.close_angle()
        return found

    def parameters(self) -> list[Parameter]:
        """``(in T a, out U b)``."""
        self.expect("(", "before the parameters")
        found: list[Parameter] = []
        while self.text != ")":
            annotations = self.annotations()
            direction = self.text if self.text in ("in", "out", "inout") else ""
            if direction:
                self.at += 1
            ref = self.type_ref()
            at = self.position
            name = self.name("a parameter")
            default = self.expression() if self.accept("=") else None
            found.append(Parameter(at, at + len(name), name, annotations, direction, ref, default))
            if not self.accept(","):
                break
        self.expect(")", "the parameters")
        return found


_STATEMENTS = {
    "if": "_if",
    "return": "_return",
    "exit": "_exit",
    "switch": "_switch",
    "const": "_constant",
}
