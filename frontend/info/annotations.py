"""Annotations as P4Info carries them."""

from collections.abc import Iterable, Sequence

from p4reduce.frontend.diagnostics import Diagnostics, SourceFault
from p4reduce.frontend.info.text import Message, Word
from p4reduce.frontend.syntax.numbers import value_of
from p4reduce.frontend.syntax.parse_expressions import ExpressionParser
from p4reduce.frontend.syntax.tokens import NUMBER, STRING, Token
from p4reduce.frontend.syntax.tree import Annotation
from p4reduce.frontend.types.programs import Checker

LARGEST_ID = (1 << 32) - 1
_LEFT_OUT = frozenset({"name", "id", "brief", "description"})


def plain_annotations(notes: Iterable[Annotation], without: Sequence[str] = ()) -> Message:
    """``annotations`` of a message: those in round brackets or none, as text."""
    return [
        ("annotations", spelled(note))
        for note in notes
        if note.brackets != "[" and note.name not in _LEFT_OUT and note.name not in without
    ]


def structured_annotations(notes: Iterable[Annotation]) -> Message:
    """``structured_annotations`` of a message: those in square brackets."""
    return [("structured_annotations", _structured(note)) for note in notes if note.brackets == "["]


def documentation(notes: Iterable[Annotation]) -> Message:
    """``doc`` of a message, from ``@brief`` and ``@description``."""
    found: Message = [
        (note.name, note.string or "") for name in ("brief", "description") for note in notes if note.name == name
    ]
    return [("doc", found)] if found else []


def id_of(notes: Iterable[Annotation]) -> int | None:
    """The number of ``@id``."""
    for note in notes:
        if note.name == "id" and note.tokens and note.tokens[0][0] == NUMBER:
            found = value_of(note.tokens[0])
            if found > LARGEST_ID:
                raise SourceFault(note.at, f"an id has 32 bits, but this is {found}")
            return found
    return None


def spelled(note: Annotation) -> str:
    """An annotation as p4c prints it."""
    if not note.brackets:
        return f"@{note.name}"
    shown = [_token(token) for token in note.tokens]
    text = ""
    for index, word in enumerate(shown):
        if index and word != "," and not (text.endswith(("(", ".", "-")) or word in (")", ".", "(")):
            text += " "
        text += word
    return f"@{note.name}({text})"


def _token(token: Token) -> str:
    return token[1]


def _structured(note: Annotation) -> Message:
    found: Message = [("name", note.name)]
    groups: list[list[Token]] = [[]]
    for token in note.tokens:
        if token[1] == "," and token[0] != STRING:
            groups.append([])
        else:
            groups[-1].append(token)
    groups = [group for group in groups if group]
    if not groups:
        return found
    if len(groups[0]) > 1 and groups[0][1][1] == "=":
        pairs: Message = [("kv_pairs", [("key", g[0][1]), ("value", [_value(g[2:])])]) for g in groups]
        found.append(("kv_pair_list", pairs))
    else:
        found.append(("expression_list", [("expressions", [_value(g)]) for g in groups]))
    return found


def _value(tokens: Sequence[Token]) -> tuple[str, object]:
    """A value of an annotation, which may be an expression of constants."""
    checker = Checker(Diagnostics())
    node = ExpressionParser(list(tokens), checker.diagnostics).expression()
    checker.check(node)
    if isinstance(node.value, bool):
        return "bool_value", Word(str(node.value).lower())
    if isinstance(node.value, int):
        return "int64_value", node.value
    return "string_value", str(node.value)
