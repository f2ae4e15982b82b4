"""What a submission is without what copying changes first, and which submissions are then the same."""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

# What a submission is without what copying changes first: comments, spaces, numbers, names, order of operands, and
# statements that do nothing.


_P4_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*(?:.*?\*/|.*)', re.DOTALL)
"""a text, which may hold what looks like a comment; or a comment, to the end of the file where it has none"""
_YAML_COMMENT = re.compile(r"(?m)(^|\s)#[^\n]*")
_COMPARED: Final = 1 << 18
"""bytes of a file"""
_NUMBER = re.compile(r"\b(?:\d+[ws])?(?:0[xXbBoO][0-9a-fA-F_]+|\d+)\b")


def digest(folder: Path, files: Iterable[str]) -> str:
    """SHA-256 of the files as `plain` has them.

    Empty where one cannot be read, or is far larger than any that a lab asks for.
    """
    found = hashlib.sha256()
    for name in files:
        try:
            if (folder / name).stat().st_size > _COMPARED:
                return ""
            text = (folder / name).read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return ""
        found.update(f"{name}\0{plain(name, text)}\0".encode())
    return found.hexdigest()


def plain(name: str, text: str) -> str:
    """A file's text without comments, spaces and numbers; by its name a P4, Python or YAML file.

    In P4 and Python names stand for the order of their first use, operands of what commutes are sorted, and variables
    that nothing reads are left out.
    """
    if name.endswith(".py"):
        try:
            return _python(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return text
    if name.endswith(".p4"):
        return _p4(without_comments(text))
    text = _YAML_COMMENT.sub(" ", text)
    return re.sub(r"\s+", "", _NUMBER.sub("0", text))


def without_comments(text: str) -> str:
    """P4 without comments, each of which is a space; in time that grows with the length of the text alone."""
    return _P4_COMMENT.sub(lambda found: found[1] or " ", text)


_TOKEN = re.compile(r'"[^"\n]*"|\w+|<<|>>|[=!<>]=|&&|\|\||\S')
_KEPT: Final = frozenset(
    re.findall(
        r"\w+",
        "action actions accept apply bit bool const control default default_action else emit error exact extract false "
        "header hit if in inout isValid key mark_to_drop miss out parser read register reject return select setInvalid "
        "setValid size state struct table transition true typedef write",
    )
)
"""names of P4 and its library"""
_COMMUTES: Final = frozenset({"&", "|", "^", "+", "==", "!=", "&&", "||"})


def _p4(text: str) -> str:
    """Tokens, as `plain` has them."""
    tokens = _without_unread(_TOKEN.findall(_NUMBER.sub("0", text)))
    names: dict[str, str] = {}
    for place, token in enumerate(tokens):
        if token.isidentifier() and token not in _KEPT:
            tokens[place] = names.setdefault(token, f"v{len(names)}")
    found: list[str] = []
    place = 0
    while place < len(tokens):  # operands: names with points in them
        left, middle = _operand(tokens, place)
        if left and middle < len(tokens) and tokens[middle] in _COMMUTES:
            right, end = _operand(tokens, middle + 1)
            if right:
                found += [*sorted((left, right)), tokens[middle]]
                place = end
                continue
        found.append(left or tokens[place])
        place = max(middle, place + 1)
    return " ".join(found)


def _operand(tokens: Sequence[str], place: int) -> tuple[str, int]:
    """A name, which may have points in it, and where it ends; empty where there is none."""
    end = place
    while end < len(tokens) and (tokens[end].isalnum() or tokens[end] == "_" or tokens[end].isidentifier()):
        end += 1
        if end < len(tokens) and tokens[end] == ".":
            end += 1
        else:
            break
    return "".join(tokens[place:end]), end


_PASSES: Final = 4
"""times that what is not read is taken out: what only that read comes next"""


def _without_unread(tokens: list[str]) -> list[str]:
    """Without declarations of variables that nothing else names, and ``x = x;``; in time that grows with the length."""
    for _ in range(_PASSES):
        counts, found, begin, fields = Counter(tokens), list[str](), 0, False
        for end, word in enumerate(tokens):
            if word not in ("{", "}", ";", ")"):
                continue
            statement = tokens[begin : end + 1]
            begin = end + 1
            fields = (fields and word != "}") or (word == "{" and statement[0] in ("header", "struct"))
            if fields or word != ";" or not _does_nothing("".join(statement), counts):
                found += statement
        found += tokens[begin:]
        if len(found) == len(tokens):
            break
        tokens = found
    return tokens


_DECLARED = re.compile(r"(?:bit<\w{1,9}>|int<\w{1,9}>|bool)([A-Za-z_]\w*)(?:=[^()]*)?;")
_ITSELF = re.compile(r"([A-Za-z_]\w*)=\1;")


def _does_nothing(statement: str, counts: Mapping[str, int]) -> bool:
    declared = _DECLARED.fullmatch(statement)
    return _ITSELF.fullmatch(statement) is not None or (declared is not None and counts[declared[1]] == 1)


def _python(text: str) -> str:
    """The syntax tree, as `plain` has it, without documentation."""
    names: dict[str, str] = {}
    tree = ast.parse(text)
    loaded = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    tree = _Unread(loaded).visit(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.arg):
            word = node.id if isinstance(node, ast.Name) else node.arg
            renamed = names.setdefault(word, f"v{len(names)}")
            if isinstance(node, ast.Name):
                node.id = renamed
            else:
                node.arg = renamed
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            node.value = 0
        elif isinstance(node, ast.FunctionDef | ast.Module | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return _sorted(tree)


def _sorted(tree: ast.AST) -> str:
    """A digest of a syntax tree, whatever the order of operands of what commutes; each node is looked at once."""
    known: dict[int, str] = {}

    def of(value: object) -> str:
        if isinstance(value, list):
            return f"[{','.join(map(of, value))}]"
        return known[id(value)] if isinstance(value, ast.AST) else repr(value)

    for node in reversed(list(ast.walk(tree))):  # inner ones first
        fields = {name: of(value) for name, value in ast.iter_fields(node)}
        if isinstance(node, ast.BinOp) and isinstance(
            node.op, ast.BitAnd | ast.BitOr | ast.BitXor | ast.Add | ast.Mult
        ):
            fields["left"], fields["right"] = sorted((fields["left"], fields["right"]))
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            fields["left"], fields["comparators"] = sorted((fields["left"], fields["comparators"].strip("[]")))
        said = f"{type(node).__name__}{fields}"
        known[id(node)] = hashlib.blake2b(said.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return known[id(tree)]


class _Unread(ast.NodeTransformer):
    """Takes out assignments of plain values to names that nothing reads, ``pass``, and ``x = x``."""

    def __init__(self, loaded: set[str]) -> None:
        self._loaded = loaded

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        """An assignment."""
        target = node.targets[0]
        if len(node.targets) > 1 or not isinstance(target, ast.Name):
            return node
        itself = isinstance(node.value, ast.Name) and node.value.id == target.id
        calls = any(isinstance(inner, ast.Call) for inner in ast.walk(node.value))
        return None if itself or (target.id not in self._loaded and not calls) else node

    def visit_Pass(self, _: ast.Pass) -> None:
        """No statement."""
