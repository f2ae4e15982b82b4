"""A stream of tokens with what every part of the parser needs: looking ahead, expecting, going back."""

from typing import Final, NoReturn

from p4reduce.frontend.diagnostics import Diagnostics, SourceFault
from p4reduce.frontend.syntax.tokens import END, NAME, NUMBER, SIGN, STRING, Token
from p4reduce.frontend.syntax.tree import Annotation

RESERVED: Final = frozenset(
    [
        "abstract",
        "action",
        "bool",
        "bit",
        "const",
        "control",
        "default",
        "else",
        "enum",
        "error",
        "exit",
        "extern",
        "false",
        "header",
        "header_union",
        "if",
        "in",
        "inout",
        "int",
        "match_kind",
        "package",
        "parser",
        "out",
        "return",
        "select",
        "string",
        "struct",
        "switch",
        "table",
        "this",
        "transition",
        "true",
        "tuple",
        "typedef",
        "varbit",
        "void",
    ]
)
"""Words that name nothing; ``apply``, ``key``, ``state``, ``type`` and their kin do where the grammar lets them."""

DEEPEST: Final = 200
"""Nesting of brackets and blocks that is still read."""

_CLOSING: Final = frozenset("([{")
_CLOSED: Final = frozenset(")]}")


class TokenStream:
    """Reads tokens one after the other."""

    def __init__(self, tokens: list[Token], diagnostics: Diagnostics) -> None:
        last = tokens[-1][2] + len(tokens[-1][1]) if tokens else 0
        self.tokens = [*tokens, (END, "", last), (END, "", last), (END, "", last)]
        self.at = 0
        self.diagnostics = diagnostics
        self.depth = 0
        self._closing: dict[int, int] | None = None

    @property
    def text(self) -> str:
        """The next token's text."""
        return self.tokens[self.at][1]

    @property
    def kind(self) -> str:
        """The next token's kind."""
        return self.tokens[self.at][0]

    @property
    def position(self) -> int:
        """Where the next token begins."""
        return self.tokens[self.at][2]

    @property
    def ended(self) -> int:
        """Where the last token that was read ends."""
        token = self.tokens[self.at - 1]
        return token[2] + len(token[1])

    def ahead(self, count: int = 1) -> str:
        """The text of a token further on."""
        return self.tokens[min(self.at + count, len(self.tokens) - 1)][1]

    def is_name(self, count: int = 0) -> bool:
        """Whether the token there can name something."""
        kind, text, _ = self.tokens[min(self.at + count, len(self.tokens) - 1)]
        return kind == NAME and text not in RESERVED

    def accept(self, text: str) -> bool:
        """Takes the next token if it is this sign or word."""
        token = self.tokens[self.at]
        if token[1] == text and token[0] != STRING:
            self.at += 1
            return True
        return False

    def expect(self, text: str, after: str) -> int:
        """Takes this sign or word, or fails; its position."""
        token = self.tokens[self.at]
        if token[1] == text and token[0] != STRING:
            self.at += 1
            return token[2]
        if text in (";", ")", "]", "}") and self.at:
            # What is missing is missing where the last token ends, not where the next line begins.
            previous = self.tokens[self.at - 1]
            raise SourceFault(
                previous[2] + max(len(previous[1]) - 1, 0),
                f"{text!r} is missing after {after}; what follows is {self.shown()}",
                f"Write {text!r} behind {previous[1]!r}.",
            )
        raise SourceFault(token[2], f"expected {text!r} {after}, found {self.shown()}")

    def close_angle(self) -> None:
        """Takes ``>``, the first half of ``>>`` if need be."""
        _kind, text, position = self.tokens[self.at]
        if text == ">" or text in (">>", ">=", ">>="):
            if text == ">":
                self.at += 1
            else:
                self.tokens[self.at] = (SIGN, text[1:], position + 1)
            return
        raise SourceFault(position, f"'>' is missing in this type; found {self.shown()}", "Write bit<8>, T<A, B>.")

    def name(self, what: str) -> str:
        """Takes a name; ``what`` it is of, for messages."""
        kind, text, position = self.tokens[self.at]
        if kind == NAME and text not in RESERVED:
            self.at += 1
            return text
        if kind == NAME:
            raise SourceFault(position, f"{text!r} is a word of the language and cannot be the name of {what}")
        if kind == NUMBER:
            raise SourceFault(position, f"the name of {what} cannot begin with a digit: {text!r}")
        raise SourceFault(position, f"expected the name of {what}, found {self.shown()}")

    def shown(self) -> str:
        """The next token for messages."""
        return "the end of the file" if self.kind == END else repr(self.text)

    def fail(self, message: str, hint: str = "") -> NoReturn:
        """An error at the next token."""
        raise SourceFault(self.position, message, hint)

    def nest(self) -> None:
        """One level deeper; ``depth`` is lowered by who called."""
        self.depth += 1
        if self.depth > DEEPEST:
            self.depth = 0
            self.fail(f"brackets and blocks are nested more than {DEEPEST} deep")

    def matching(self, at: int) -> int:
        """The index of the bracket that closes the one at ``at``; that of the end if there is none."""
        if self._closing is None:
            self._closing = self._brackets()
        return self._closing.get(at, len(self.tokens) - 1)

    def _brackets(self) -> dict[int, int]:
        """The index of the closing bracket of each opening one."""
        found: dict[int, int] = {}
        opened: list[int] = []
        for at, (kind, text, _) in enumerate(self.tokens):
            if kind == SIGN:
                if text in _CLOSING:
                    opened.append(at)
                elif text in _CLOSED and opened:
                    found[opened.pop()] = at
        return found

    def skip_statement(self) -> None:
        """Goes behind the next ``;`` or block, or before the ``}`` of the block around it, after an error."""
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

    def annotations(self) -> list[Annotation]:
        """``@name(…)`` and the like, as many as there are."""
        found: list[Annotation] = []
        if self.tokens[self.at][1] != "@":
            return found
        while self.text == "@" and self.kind == SIGN:
            at = self.position
            self.at += 1
            if self.kind != NAME:
                self.fail(f"an annotation needs a name behind '@', found {self.shown()}")
            name = self.text
            self.at += 1
            if name == "pragma":
                found.append(self._pragma(at))
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
            found.append(Annotation(at, self.ended, name, tokens, brackets))
        return found

    def _pragma(self, at: int) -> Annotation:
        """``@pragma name …`` up to the end of its line."""
        line = at >> 20
        begin = self.at
        while self.kind != END and self.position >> 20 == line:
            self.at += 1
        taken = self.tokens[begin : self.at]
        name = taken[0][1] if taken else "pragma"
        return Annotation(at, self.ended, name, taken[1:], "(")
