"""Expressions and types (P4_16 specification, sections 7.1, 8 and the grammar in appendix G)."""

from typing import Final

from p4reduce.frontend.diagnostics import SourceFault
from p4reduce.frontend.syntax.numbers import literal
from p4reduce.frontend.syntax.stream import TokenStream
from p4reduce.frontend.syntax.tokens import NAME, NUMBER, SIGN, STRING
from p4reduce.frontend.syntax.tree import (
    AnyType,
    Argument,
    Binary,
    Boolean,
    Call,
    Cast,
    Default,
    Expression,
    Index,
    InvalidHeader,
    ListOf,
    Member,
    Name,
    NamedType,
    Number,
    NumericType,
    Record,
    Slice,
    StackTypeRef,
    Ternary,
    Text,
    TupleTypeRef,
    TypeName,
    TypeRef,
    Unary,
)

_PRECEDENCE: Final = {
    "||": 1, "&&": 2, "==": 3, "!=": 3, "<": 4, ">": 4, "<=": 4, ">=": 4, "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "++": 9, "|+|": 9, "|-|": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
"""Unlike in C, ``&``, ``^`` and ``|`` bind closer than comparisons."""

_ADDITIVE: Final = 9
TYPE_WORDS: Final = frozenset({"bit", "int", "varbit", "bool", "tuple", "string", "void", "match_kind"})


class ExpressionParser(TokenStream):
    """Parses expressions and types."""

    # --- types

    def starts_type_word(self) -> bool:
        """Whether the next token is a word that only types begin with."""
        return self.kind == NAME and self.text in TYPE_WORDS

    def type_ref(self) -> TypeRef:
        """A type."""
        at, text = self.position, self.text
        found: TypeRef
        if self.kind == NAME and text in ("bit", "int", "varbit"):
            self.at += 1
            width: Expression | None = None
            if self.accept("<"):
                width = self._binary(self._unary(), _ADDITIVE)
                self.close_angle()
            elif text == "varbit":
                self.fail("varbit needs its greatest width", "Write varbit<320>.")
            found = NumericType(at, self.ended, text, width)
        elif self.kind == NAME and text in ("tuple", "list") and self.ahead() == "<":
            self.at += 2
            found = TupleTypeRef(at, at, text, self._type_arguments())
        elif self.kind == NAME and text in ("bool", "string", "void", "error", "match_kind"):
            self.at += 1
            found = NamedType(at, self.ended, text, [])
        else:
            rooted = self.accept(".")
            name = self.name("a type")
            arguments = self._type_arguments() if self.accept("<") else []
            found = NamedType(at, self.ended, name, arguments, rooted)
        while self.text == "[" and self.kind == SIGN:
            self.at += 1
            size = self.expression()
            self.expect("]", "the size of this stack")
            found = StackTypeRef(at, self.ended, found, size)
        return found

    def _type_arguments(self) -> list[TypeRef]:
        """Behind ``<``, up to and with ``>``."""
        found: list[TypeRef] = []
        if self.text not in (">", ">>"):
            while True:
                if self.text == "_":
                    found.append(AnyType(self.position, self.position + 1))
                    self.at += 1
                else:
                    found.append(self.type_ref())
                if not self.accept(","):
                    break
        self.close_angle()
        return found

    def type_arguments_of_call(self) -> list[TypeRef] | None:
        """``<types>`` in front of ``(``, or None, with nothing taken, where ``<`` compares."""
        begin, kept = self.at, self.tokens[self.at : self.at + 64]
        self.at += 1
        try:
            found = self._type_arguments()
        except SourceFault:
            found = None
        if found is None or self.text not in ("(", "."):
            self.at = begin
            self.tokens[begin : begin + 64] = kept
            return None
        return found

    # --- expressions

    def expression(self) -> Expression:
        """An expression."""
        self.nest()
        condition = self._unary()
        kind, text, _ = self.tokens[self.at]
        if kind == SIGN and text in _PRECEDENCE:
            condition = self._binary(condition, 1)
        if self.text == "?" and self.kind == SIGN:
            self.at += 1
            yes = self.expression()
            self.expect(":", "between the two results of '?'")
            no = self.expression()
            condition = Ternary(condition.at, no.end, condition, yes, no)
        self.depth -= 1
        return condition

    def _binary(self, left: Expression, least: int) -> Expression:
        while True:
            kind, operator, _ = self.tokens[self.at]
            precedence = _PRECEDENCE.get(operator, 0) if kind == SIGN else 0
            if precedence < least or not precedence:
                return left
            self.at += 1
            right = self._unary()
            while True:
                following = self.tokens[self.at]
                tighter = _PRECEDENCE.get(following[1], 0) if following[0] == SIGN else 0
                if tighter <= precedence:
                    break
                right = self._binary(right, tighter)
            left = Binary(left.at, right.end, operator, left, right)

    def _unary(self) -> Expression:
        kind, text, at = self.tokens[self.at]
        if kind == SIGN:
            if text in ("!", "~", "-", "+"):
                self.nest()
                self.at += 1
                operand = self._unary()
                self.depth -= 1
                return Unary(at, operand.end, text, operand)
            if text == "(" and self._is_cast():
                self.nest()
                self.at += 1
                ref = self.type_ref()
                self.expect(")", "the type of this cast")
                operand = self._unary()
                self.depth -= 1
                return Cast(at, operand.end, ref, operand)
        return self._postfix(self._primary())

    def _is_cast(self) -> bool:
        """Whether ``(`` begins a cast: a type stands in the brackets, and an operand behind them."""
        first = self.tokens[self.at + 1]
        if first[0] == NAME and first[1] in TYPE_WORDS:
            return True
        close = self.matching(self.at)
        following = self.tokens[min(close + 1, len(self.tokens) - 1)]
        operand = following[0] in (NAME, NUMBER, STRING) or following[1] in ("(", "!", "~", "{")
        inner = self.at + (2 if first[1] == "." else 1)
        if not operand or following[1] in ("in",) or self.tokens[inner][0] != NAME:
            return False
        behind = self.tokens[inner + 1]
        if inner + 1 == close:
            return True
        return behind[1] in ("<", "[") and self.tokens[close - 1][1] in (">", ">>", "]") and following[1] in "({"

    def _primary(self) -> Expression:
        kind, text, at = self.tokens[self.at]
        if kind == NUMBER:
            self.at += 1
            return self._number(text, at)
        if kind == STRING:
            self.at += 1
            while self.kind == STRING:
                text = text[:-1] + self.text[1:]
                self.at += 1
            return Text(at, self.ended, text[1:-1])
        if kind == NAME:
            return self._word(text, at)
        if text == "(" and kind == SIGN:
            self.at += 1
            inner = self.expression()
            self.expect(")", "this bracket")
            return inner
        if text == "{" and kind == SIGN:
            return self._braces(at)
        if text == "." and kind == SIGN and self.is_name(1):
            self.at += 2
            return Name(at, self.ended, self.tokens[self.at - 1][1], True)
        if text == "..." and kind == SIGN:
            self.at += 1
            return Default(at, self.ended, text)
        self.fail(f"expected an expression, found {self.shown()}")

    def _word(self, text: str, at: int) -> Expression:
        if text in ("true", "false"):
            self.at += 1
            return Boolean(at, self.ended, text == "true")
        if text in ("default", "_"):
            self.at += 1
            return Default(at, self.ended, text)
        if text in ("this", "error", "match_kind"):
            self.at += 1
            return Name(at, self.ended, text)
        if text in TYPE_WORDS:
            ref = self.type_ref()
            return TypeName(at, self.ended, ref)
        return Name(at, at + len(text), self.name("a value"))

    def _number(self, text: str, at: int) -> Number:
        return Number(at, at + len(text), *literal(text, at))

    def _braces(self, at: int) -> Expression:
        self.nest()
        self.at += 1
        if self.kind == "hash" and self.text == "#":
            self.at += 1
            self.expect("}", "'{#'")
            self.depth -= 1
            return InvalidHeader(at, self.ended)
        found: Expression
        if self.kind == NAME and self.ahead() == "=":
            fields: list[tuple[str, Expression]] = []
            while self.text != "}":
                if self.accept("..."):
                    fields.append(("...", Default(self.ended - 3, self.ended, "...")))
                else:
                    name = self.name("a field")
                    self.expect("=", f"behind the field {name!r}")
                    fields.append((name, self.expression()))
                if not self.accept(","):
                    break
            self.expect("}", "this list of fields")
            found = Record(at, self.ended, fields)
        else:
            items: list[Expression] = []
            while self.text != "}":
                items.append(self.expression())
                if not self.accept(","):
                    break
            self.expect("}", "this list")
            found = ListOf(at, self.ended, items)
        self.depth -= 1
        return found

    def _postfix(self, base: Expression) -> Expression:
        while True:
            kind, text, _ = self.tokens[self.at]
            if kind != SIGN:
                return base
            if text == ".":
                self.at += 1
                kind, name, at = self.tokens[self.at]
                if kind != NAME:
                    self.fail(f"expected the name of a field or method behind '.', found {self.shown()}")
                self.at += 1
                base = Member(base.at, at + len(name), base, name)
            elif text == "(":
                arguments = self.arguments()
                base = Call(base.at, self.ended, base, [], arguments)
            elif text == "[":
                self.at += 1
                index = self.expression()
                if self.accept(":"):
                    low = self.expression()
                    self.expect("]", "this slice")
                    base = Slice(base.at, self.ended, base, index, low)
                else:
                    self.expect("]", "this index")
                    base = Index(base.at, self.ended, base, index)
            elif text == "<" and isinstance(base, Name | Member):
                types = self.type_arguments_of_call()
                if types is None:
                    return base
                if self.text == "(":
                    arguments = self.arguments()
                    base = Call(base.at, self.ended, base, types, arguments)
                elif isinstance(base, Name):
                    base = TypeName(base.at, self.ended, NamedType(base.at, self.ended, base.name, types, base.rooted))
            else:
                return base

    def arguments(self) -> list[Argument]:
        """``(…)`` of a call."""
        self.nest()
        opened = self.expect("(", "before the arguments")
        found: list[Argument] = []
        while self.text != ")":
            at = self.position
            if self.kind == NAME and self.ahead() == "=":
                name: str | None = self.name("a parameter")
                self.at += 1
            else:
                name = None
            if self.text == "_" and self.ahead() in (",", ")"):
                self.at += 1
                found.append(Argument(at, self.ended, name, None))
            else:
                value = self.expression()
                found.append(Argument(at, value.end, name, value))
            if not self.accept(","):
                break
        if self.kind == "end":
            raise SourceFault(opened, "this bracket is not closed")
        self.expect(")", "the arguments")
        self.depth -= 1
        return found
