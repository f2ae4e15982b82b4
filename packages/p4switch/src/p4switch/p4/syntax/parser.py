"""Whole programs: the declarations at the top level (P4_16 specification, section 7.2)."""

import unicodedata
from difflib import get_close_matches
from typing import Final

from p4switch.p4.diagnostics import Diagnostics, SourceFault
from p4switch.p4.syntax import tree
from p4switch.p4.syntax.preprocessor import END, NAME, OTHER, Token
from p4switch.p4.syntax.statements import StatementParser

_WORDS: Final = (
    "control", "parser", "header", "struct", "header_union", "enum", "typedef", "type", "const", "extern", "action",
    "package", "error", "match_kind",
)  # fmt: skip


def parse(tokens: list[Token], diagnostics: Diagnostics) -> list[tree.Declaration]:
    """Returns the declarations of a program; errors are added to the diagnostics."""
    strays = [(text, at) for kind, text, at in tokens if kind == OTHER and not text.isascii()]
    for text, at in strays:
        hint = (
            "Only comments and strings may hold it. Blanks, quotes and dashes that were copied from a page: type them."
        )
        diagnostics.error(at, f"{text!r} ({unicodedata.name(text, 'no name').lower()}) is no character of P4", hint)
    return [] if strays else Parser(tokens, diagnostics).declarations()


class Parser(StatementParser):
    """Parses a whole program."""

    def declarations(self) -> list[tree.Declaration]:
        """Parses all declarations; after an error, continues with the next declaration."""
        declarations: list[tree.Declaration] = []
        while self.kind != END:
            if self.accept(";"):
                continue
            begin = self.at
            try:
                declarations.append(self._top_level())
            except SourceFault as fault:
                self.diagnostics.fault(fault)
                self.depth = 0
                self._skip(begin)
        return declarations

    def _skip(self, begin: int) -> None:
        """Skips past the declaration that failed, or to the next word that begins a declaration."""
        self.at = max(self.at, begin + 1)
        while self.kind != END:
            if self.text in (";", "}"):
                self.at += 1
                if self.text in _WORDS or self.text in ("@", "") or self.kind == NAME:
                    return
            elif self.text in _WORDS and self.is_name(1) and self.ahead(2) in ("{", "(", "<"):
                return
            else:
                self.at += 1

    def _top_level(self) -> tree.Declaration:
        annotations = self.annotations()
        word = self.text
        if self.kind == NAME:
            match word:
                case "header" | "struct" | "header_union":
                    return self._composite(annotations)
                case "control" | "parser":
                    return self.program(annotations)
                case "const":
                    return self.constant(annotations)
                case "typedef":
                    return self._alias(annotations, False)
                case "type" if self.ahead() not in ("(", "<"):
                    return self._alias(annotations, True)
                case "enum":
                    return self._enum(annotations)
                case "error" | "match_kind" if self.ahead() == "{":
                    return self._members(annotations)
                case "extern":
                    return self._extern(annotations)
                case "action":
                    return self.action(annotations)
                case "package":
                    return self.package(annotations)
                case "table" | "state" | "apply":
                    self.fail(
                        f"{word!r} cannot stand at the top level of a program", "Put it into a control or parser."
                    )
                case "abstract":
                    self.fail("'abstract' belongs to a method of an extern")
        what = self._starts_declaration()
        if what == "instance":
            return self.instance(annotations)
        if what == "variable":
            return self._function_or_variable(annotations)
        close = get_close_matches(word, _WORDS, 1) if self.kind == NAME and self.is_name(1) else []
        hint = f"Did you mean {close[0]!r}?" if close else ""
        if word == "}":
            hint = "There is one '}' too many above, or a '{' is missing."
        self.fail(f"expected a declaration, found {self.shown()}", hint)

    def _function_or_variable(self, annotations: list[tree.Annotation]) -> tree.Declaration:
        begin = self.at
        self.type_ref()
        behind, at = self.ahead(), self.position
        name = self.text
        self.at = begin
        if behind in ("(", "<"):
            function = self.function(annotations)
            if function.body is None:
                raise SourceFault(function.at, f"the function {name!r} has no body", "Only an extern has none.")
            return function
        close = get_close_matches(self.text, _WORDS, 1)
        hint = (
            f"Did you mean {close[0]!r}?" if close and behind in ("{",) else "Put it into a control, or make it const."
        )
        raise SourceFault(at, f"{name!r}: a variable cannot be declared at the top level of a program", hint)

    def _composite(self, annotations: list[tree.Annotation]) -> tree.Composite:
        kind = self.text
        self.at += 1
        at, end, name = self.named(f"a {kind}")
        types = self.type_parameters()
        self.expect("{", f"to begin the {kind} {name!r}")
        fields: list[tree.FieldDecl] = []
        while not self.accept("}"):
            notes = self.annotations()
            if self.kind == END:
                raise SourceFault(at, f"the {kind} {name!r} is not closed", "A '}' is missing.")
            ref = self.type_ref()
            where, behind, field = self.named("a field")
            if self.text == ",":
                self.fail("fields end with ';', not with ','")
            ref = self.declarator(ref)
            if self.text == "=":
                self.fail("a field has no initial value", "Assign to it in a parser or control.")
            self.expect(";", f"the field {field!r}")
            fields.append(tree.FieldDecl(where, behind, field, notes, ref))
        return tree.Composite(at, end, name, annotations, kind, types, fields)

    def _alias(self, annotations: list[tree.Annotation], new: bool) -> tree.Alias:
        self.at += 1
        ref: tree.TypeRef | tree.Composite | tree.Enumeration
        if self.text in ("header", "struct", "header_union"):
            ref = self._composite([])
        elif self.text == "enum":
            ref = self._enum([])
        else:
            ref = self.type_ref()
        at, end, name = self.named("a type")
        self.expect(";", f"the type {name!r}")
        return tree.Alias(at, end, name, annotations, new, ref)

    def _enum(self, annotations: list[tree.Annotation]) -> tree.Enumeration:
        self.at += 1
        ref = self.type_ref() if self.starts_type_word() or self.is_name(1) else None
        at, end, name = self.named("an enum")
        members = self._member_list(f"the enum {name!r}")
        return tree.Enumeration(at, end, name, annotations, "enum", ref, members)

    def _members(self, annotations: list[tree.Annotation]) -> tree.Enumeration:
        at, kind = self.position, self.text
        self.at += 1
        return tree.Enumeration(at, self.ended, kind, annotations, kind, None, self._member_list(f"{kind!r}"))

    def _member_list(self, what: str) -> list[tree.EnumMember]:
        self.expect("{", f"to begin {what}")
        members: list[tree.EnumMember] = []
        while not self.accept("}"):
            annotations = self.annotations()
            at, end, name = self.named("a member")
            value = self.expression() if self.accept("=") else None
            members.append(tree.EnumMember(at, end, name, annotations, value))
            if self.text == ";":
                self.fail(f"the members of {what} are separated by ',', not by ';'")
            if not self.accept(","):
                self.expect("}", f"the members of {what}")
                break
        return members

    def _extern(self, annotations: list[tree.Annotation]) -> tree.Declaration:
        self.at += 1
        begin = self.at
        if self.is_name():
            at, end, name = self.named("an extern")
            try:
                types = self.type_parameters()
            except SourceFault:
                types = []
            if self.accept("{"):
                methods = []
                while not self.accept("}"):
                    methods.append(self._method(name))
                return tree.Extern(at, end, name, annotations, types, methods)
            if self.accept(";"):
                return tree.Extern(at, end, name, annotations, types, [])
            self.at = begin
        function = self.function(annotations)
        if function.body is not None:
            raise SourceFault(
                function.at, f"the extern function {function.name!r} cannot have a body", "Leave out 'extern'."
            )
        return function

    def _method(self, extern: str) -> tree.Function:
        annotations = self.annotations()
        if self.text == extern and self.ahead() == "(":
            at = self.position
            self.at += 1
            parameters = self.parameters()
            self.expect(";", "this constructor")
            return tree.Function(at, at + len(extern), extern, annotations, None, [], parameters, None)
        self.accept("abstract")
        annotations += self.annotations()
        method = self.function(annotations)
        if method.body is not None:
            raise SourceFault(method.at, f"the method {method.name!r} of an extern cannot have a body")
        return method
