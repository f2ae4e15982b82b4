"""Expressions and types (P4_16 specification, sections 7.1, 8 and the grammar in appendix G)."""

from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

from p4switch.p4.diagnostics import Diagnostics, SourceFault
from p4switch.p4.syntax import tree
from p4switch.p4.syntax.preprocessor import END, NAME, NUMBER, SIGN, STRING, Token, literal

# The token stream that all parts of the parser share, with lookahead and backtracking.


RESERVED: Final = {
    "abstract", "action", "bit", "bool", "const", "control", "default", "else", "enum", "error", "exit", "extern",
    "false", "header", "header_union", "if", "in", "inout", "int", "match_kind", "out", "package", "parser", "return",
    "select", "string", "struct", "switch", "table", "this", "transition", "true", "tuple", "typedef", "varbit",
    "void",
}  # fmt: skip
"""Words that cannot be names; ``apply``, ``key``, ``state``, ``type`` and others can, where the grammar allows."""

DEEPEST: Final = 200
"""Deepest nesting of brackets and blocks that is parsed."""

_CLOSING: Final = frozenset("([{")
_CLOSED: Final = frozenset(")]}")

_PRECEDENCE: Final = {
    "||": 1, "&&": 2, "==": 3, "!=": 3, "<": 4, ">": 4, "<=": 4, ">=": 4, "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "++": 9, "|+|": 9, "|-|": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
"""Unlike in C, ``&``, ``^`` and ``|`` bind tighter than comparisons."""

_ADDITIVE: Final = 9
TYPE_WORDS: Final = frozenset({"bit", "int", "varbit", "bool", "tuple", "string", "void", "match_kind"})

T = TypeVar("T")


class ExpressionParser:
    """Reads tokens in order, and parses expressions and types."""

    def __init__(self, tokens: list[Token], diagnostics: Diagnostics) -> None:
        last = tokens[-1][2] + len(tokens[-1][1]) if tokens else 0
        self.tokens = [*tokens, (END, "", last), (END, "", last), (END, "", last)]
        self.at = 0
        self.diagnostics = diagnostics
        self.depth = 0
        self._closing: dict[int, int] | None = None

    @property
    def text(self) -> str:
        """Text of the next token."""
        return self.tokens[self.at][1]

    @property
    def kind(self) -> str:
        """Kind of the next token."""
        return self.tokens[self.at][0]

    @property
    def position(self) -> int:
        """Position of the next token."""
        return self.tokens[self.at][2]

    @property
    def ended(self) -> int:
        """End position of the last token that was taken."""
        token = self.tokens[self.at - 1]
        return token[2] + len(token[1])

    def ahead(self, count: int = 1) -> str:
        """Returns the text of the token ``count`` places ahead."""
        return self.tokens[min(self.at + count, len(self.tokens) - 1)][1]

    def is_name(self, count: int = 0) -> bool:
        """Returns whether the token ``count`` places ahead can be a name."""
        kind, text, _ = self.tokens[min(self.at + count, len(self.tokens) - 1)]
        return kind == NAME and text not in RESERVED

    def accept(self, text: str) -> bool:
        """Takes the next token if it is the sign or word ``text``; returns whether it was."""
        token = self.tokens[self.at]
        if token[1] == text and token[0] != STRING:
            self.at += 1
            return True
        return False

    def expect(self, text: str, after: str) -> int:
        """Takes the sign or word ``text``; returns its position. Raises SourceFault if another token is next."""
        token = self.tokens[self.at]
        if token[1] == text and token[0] != STRING:
            self.at += 1
            return token[2]
        if text in (";", ")", "]", "}") and self.at:
            # A missing token belongs after the last token, not at the beginning of the next line.
            previous = self.tokens[self.at - 1]
            raise SourceFault(
                previous[2] + max(len(previous[1]) - 1, 0),
                f"{text!r} is missing after {after}; what follows is {self.shown()}",
                f"Write {text!r} behind {previous[1]!r}.",
            )
        raise SourceFault(token[2], f"expected {text!r} {after}, found {self.shown()}")

    def close_angle(self) -> None:
        """Takes ``>``; splits it off ``>>``, ``>=`` or ``>>=`` if necessary."""
        _kind, text, position = self.tokens[self.at]
        if text == ">":
            self.at += 1
        elif text in (">>", ">=", ">>="):
            self.tokens[self.at] = (SIGN, text[1:], position + 1)
        else:
            raise SourceFault(position, f"'>' is missing in this type; found {self.shown()}", "Write bit<8>, T<A, B>.")

    def name(self, what: str) -> str:
        """Takes a name and returns it; ``what``: the kind of object that it names, for messages."""
        kind, text, position = self.tokens[self.at]
        if kind == NAME and text not in RESERVED:
            self.at += 1
            return text
        if kind == NAME:
            raise SourceFault(position, f"{text!r} is a word of the language and cannot be the name of {what}")
        if kind == NUMBER:
            raise SourceFault(position, f"the name of {what} cannot begin with a digit: {text!r}")
        raise SourceFault(position, f"expected the name of {what}, found {self.shown()}")

    def named(self, what: str) -> tuple[int, int, str]:
        """Takes the name in a declaration; returns its beginning, its end, and the name."""
        at, name = self.tokens[self.at][2], self.name(what)
        return at, at + len(name), name

    def separated(self, close: str, what: str, read: Callable[[], T]) -> list[T]:
        """Returns items between commas, and takes the closing token; ``what``: the list of items, for messages."""
        parts: list[T] = []
        while self.text != close:
            parts.append(read())
            if not self.accept(","):
                break
        self.expect(close, what)
        return parts

    def shown(self) -> str:
        """Returns the next token as text for messages."""
        return "the end of the file" if self.kind == END else repr(self.text)

    def fail(self, message: str, hint: str = "") -> NoReturn:
        """Raises an error at the next token."""
        raise SourceFault(self.position, message, hint)

    def nest(self) -> None:
        """Enters a level of nesting; the caller lowers ``depth`` again. Raises SourceFault beyond DEEPEST."""
        self.depth += 1
        if self.depth > DEEPEST:
            self.depth = 0
            self.fail(f"brackets and blocks are nested more than {DEEPEST} deep")

    def matching(self, at: int) -> int:
        """Returns the index of the bracket that closes the bracket at ``at``; index of the last token if none does."""
        if self._closing is None:
            self._closing = self._brackets()
        return self._closing.get(at, len(self.tokens) - 1)

    def _brackets(self) -> dict[int, int]:
        """Returns the indices of closing brackets, by the index of the opening bracket."""
        closing: dict[int, int] = {}
        opened: list[int] = []
        for at, (kind, text, _) in enumerate(self.tokens):
            if kind == SIGN:
                if text in _CLOSING:
                    opened.append(at)
                elif text in _CLOSED and opened:
                    closing[opened.pop()] = at
        return closing

    def skip_statement(self) -> None:
        """Skips, after an error, past the next ``;`` or block, or to the ``}`` of the enclosing block."""
        while self.kind != END:
            if self.accept(";"):
                return
            if self.text == "}" and self.kind == SIGN:
                return
            if self.kind == SIGN and self.text in _CLOSING:
                block = self.text == "{"
                self.at = min(self.matching(self.at) + 1, len(self.tokens) - 1)
                if block and self.text not in ("else", ";"):
                    return
            else:
                self.at += 1

    def annotations(self) -> list[tree.Annotation]:
        """Parses any number of annotations: ``@name``, ``@name(…)``, ``@name[…]`` or ``@pragma name …``."""
        annotations: list[tree.Annotation] = []
        if self.tokens[self.at][1] != "@":
            return annotations
        while self.text == "@" and self.kind == SIGN:
            at = self.position
            self.at += 1
            if self.kind != NAME:
                self.fail(f"an annotation needs a name behind '@', found {self.shown()}")
            name = self.text
            self.at += 1
            if name == "pragma":
                annotations.append(self._pragma(at))
                continue
            tokens: list[Token] = []
            brackets = ""
            if self.kind == SIGN and self.text in ("(", "["):
                brackets = self.text
                close = self.matching(self.at)
                if self.tokens[close][0] == END:
                    self.fail("the annotation's bracket is not closed")
                tokens = self.tokens[self.at + 1 : close]
                self.at = close + 1
            annotations.append(tree.Annotation(at, self.ended, name, tokens, brackets))
        return annotations

    def _pragma(self, at: int) -> tree.Annotation:
        """Parses ``@pragma name …`` up to the end of its line."""
        line = at >> 20
        begin = self.at
        while self.kind != END and self.position >> 20 == line:
            self.at += 1
        taken = self.tokens[begin : self.at]
        name = taken[0][1] if taken else "pragma"
        return tree.Annotation(at, self.ended, name, taken[1:], "(")

    # --- types

    def starts_type_word(self) -> bool:
        """Returns whether the next token is a word that begins only types."""
        return self.kind == NAME and self.text in TYPE_WORDS

    def type_ref(self) -> tree.TypeRef:
        """Parses a type."""
        at, text = self.position, self.text
        ref: tree.TypeRef
        if self.kind == NAME and text in ("bit", "int", "varbit"):
            self.at += 1
            width: tree.Expression | None = None
            if self.accept("<"):
                width = self._binary(self._unary(), _ADDITIVE)
                self.close_angle()
            elif text == "varbit":
                self.fail("varbit needs its greatest width", "Write varbit<320>.")
            ref = tree.NumericType(at, self.ended, text, width)
        elif self.kind == NAME and text in ("tuple", "list") and self.ahead() == "<":
            self.at += 2
            ref = tree.TupleTypeRef(at, at, text, self._type_arguments())
        elif self.kind == NAME and text in ("bool", "string", "void", "error", "match_kind"):
            self.at += 1
            ref = tree.NamedType(at, self.ended, text, [])
        else:
            rooted = self.accept(".")
            name = self.name("a type")
            arguments = self._type_arguments() if self.accept("<") else []
            ref = tree.NamedType(at, self.ended, name, arguments, rooted)
        while self.text == "[" and self.kind == SIGN:
            self.at += 1
            size = self.expression()
            self.expect("]", "the size of this stack")
            ref = tree.StackTypeRef(at, self.ended, ref, size)
        return ref

    def _type_arguments(self) -> list[tree.TypeRef]:
        """Parses type arguments after ``<``, and takes ``>``."""
        arguments: list[tree.TypeRef] = []
        if self.text not in (">", ">>"):
            while True:
                if self.text == "_":
                    arguments.append(tree.AnyType(self.position, self.position + 1))
                    self.at += 1
                else:
                    arguments.append(self.type_ref())
                if not self.accept(","):
                    break
        self.close_angle()
        return arguments

    def type_arguments_of_call(self) -> list[tree.TypeRef] | None:
        """Parses ``<types>`` before ``(`` or ``.``; returns None, with nothing taken, if ``<`` is a comparison."""
        begin, kept = self.at, self.tokens[self.at : self.at + 64]
        self.at += 1
        try:
            arguments = self._type_arguments()
        except SourceFault:
            arguments = None
        if arguments is None or self.text not in ("(", "."):
            self.at = begin
            self.tokens[begin : begin + 64] = kept
            return None
        return arguments

    # --- expressions

    def expression(self) -> tree.Expression:
        """Parses an expression."""
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
            condition = tree.Ternary(condition.at, no.end, condition, yes, no)
        self.depth -= 1
        return condition

    def _binary(self, left: tree.Expression, least: int) -> tree.Expression:
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
            left = tree.Binary(left.at, right.end, operator, left, right)

    def _unary(self) -> tree.Expression:
        kind, text, at = self.tokens[self.at]
        if kind == SIGN:
            if text in ("!", "~", "-", "+"):
                self.nest()
                self.at += 1
                operand = self._unary()
                self.depth -= 1
                return tree.Unary(at, operand.end, text, operand)
            if text == "(" and self._is_cast():
                self.nest()
                self.at += 1
                ref = self.type_ref()
                self.expect(")", "the type of this cast")
                operand = self._unary()
                self.depth -= 1
                return tree.Cast(at, operand.end, ref, operand)
        return self._postfix(self._primary())

    def _is_cast(self) -> bool:
        """Returns whether ``(`` begins a cast: the brackets hold a type, and an operand follows them."""
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

    def _primary(self) -> tree.Expression:
        kind, text, at = self.tokens[self.at]
        if kind == NUMBER:
            self.at += 1
            return tree.Number(at, at + len(text), *literal(text, at))
        if kind == STRING:
            self.at += 1
            while self.kind == STRING:
                text = text[:-1] + self.text[1:]
                self.at += 1
            return tree.Text(at, self.ended, text[1:-1])
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
            return tree.Name(at, self.ended, self.tokens[self.at - 1][1], True)
        if text == "..." and kind == SIGN:
            self.at += 1
            return tree.Default(at, self.ended, text)
        self.fail(f"expected an expression, found {self.shown()}")

    def _word(self, text: str, at: int) -> tree.Expression:
        end = at + len(text)
        self.at += 1
        if text in ("true", "false"):
            return tree.Boolean(at, end, text == "true")
        if text in ("default", "_"):
            return tree.Default(at, end, text)
        if text in ("this", "error", "match_kind"):
            return tree.Name(at, end, text)
        self.at -= 1
        if text in TYPE_WORDS:
            ref = self.type_ref()
            return tree.TypeName(at, self.ended, ref)
        return tree.Name(at, end, self.name("a value"))

    def _braces(self, at: int) -> tree.Expression:
        self.nest()
        self.at += 1
        if self.kind == "hash" and self.text == "#":
            self.at += 1
            self.expect("}", "'{#'")
            self.depth -= 1
            return tree.InvalidHeader(at, self.ended)
        expression: tree.Expression
        if self.kind == NAME and self.ahead() == "=":
            fields = self.separated("}", "this list of fields", self._field_value)
            expression = tree.Record(at, self.ended, fields)
        else:
            items = self.separated("}", "this list", self.expression)
            expression = tree.ListOf(at, self.ended, items)
        self.depth -= 1
        return expression

    def _field_value(self) -> tuple[str, tree.Expression]:
        if self.accept("..."):
            return "...", tree.Default(self.ended - 3, self.ended, "...")
        name = self.name("a field")
        self.expect("=", f"behind the field {name!r}")
        return name, self.expression()

    def _postfix(self, base: tree.Expression) -> tree.Expression:
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
                base = tree.Member(base.at, at + len(name), base, name)
            elif text == "(":
                base = self._called(base, [])
            elif text == "[":
                self.at += 1
                index = self.expression()
                if self.accept(":"):
                    low = self.expression()
                    self.expect("]", "this slice")
                    base = tree.Slice(base.at, self.ended, base, index, low)
                elif self.accept("+:"):
                    width = self.expression()
                    self.expect("]", "this slice")
                    high = tree.Number(index.at, width.end, 0, None, False, 10)
                    base = tree.Slice(base.at, self.ended, base, high, index, width)
                else:
                    self.expect("]", "this index")
                    base = tree.Index(base.at, self.ended, base, index)
            elif text == "<" and isinstance(base, tree.Name | tree.Member):
                types = self.type_arguments_of_call()
                if types is None:
                    return base
                if self.text == "(":
                    base = self._called(base, types)
                elif isinstance(base, tree.Name):
                    ref = tree.NamedType(base.at, self.ended, base.name, types, base.rooted)
                    base = tree.TypeName(base.at, self.ended, ref)
            else:
                return base

    def _called(self, callee: tree.Expression, types: list[tree.TypeRef]) -> tree.Call:
        arguments = self.arguments()
        return tree.Call(callee.at, self.ended, callee, types, arguments)

    def arguments(self) -> list[tree.Argument]:
        """Parses the arguments ``(…)`` of a call."""
        self.nest()
        opened = self.expect("(", "before the arguments")
        arguments: list[tree.Argument] = []
        while self.text != ")":
            at = self.position
            name = self.name("a parameter") if self.kind == NAME and self.ahead() == "=" else None
            self.at += name is not None
            if self.text == "_" and self.ahead() in (",", ")"):
                self.at += 1
                arguments.append(tree.Argument(at, self.ended, name, None))
            else:
                value = self.expression()
                arguments.append(tree.Argument(at, value.end, name, value))
            if not self.accept(","):
                break
        if self.kind == "end":
            raise SourceFault(opened, "this bracket is not closed")
        self.expect(")", "the arguments")
        self.depth -= 1
        return arguments
