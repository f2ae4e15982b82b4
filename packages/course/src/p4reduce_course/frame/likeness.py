"""Finds equal submissions, ignoring the differences that a copyist makes first."""

from __future__ import annotations

import ast
import builtins
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

# A copyist first changes comments, spaces, numbers, names, the order of operands, and adds statements that do nothing.


_P4_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*(?:.*?\*/|.*)', re.DOTALL)
"""a string, which may contain comment marks; or a comment, up to the end of the file if it is not closed"""
_YAML_COMMENT = re.compile(r"(?m)(^|\s)#[^\n]*")
_COMPARED: Final = 1 << 18
"""most bytes of a file that is compared"""
_NUMBER = re.compile(r"\b(?:\d+[ws])?(?:0[xXbBoO][0-9a-fA-F_]+|\d+)\b")


def digest(folder: Path, files: Iterable[str]) -> str:
    """Returns the SHA-256 digest of the files as `plain` reduces them.

    Returns an empty string if a file cannot be read, or is far larger than any file that a lab asks for.
    """
    sha256 = hashlib.sha256()
    for name in files:
        try:
            if (folder / name).stat().st_size > _COMPARED:
                return ""
            text = (folder / name).read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            return ""
        sha256.update(f"{name}\0{plain(name, text)}\0".encode())
    return sha256.hexdigest()


def plain(name: str, text: str) -> str:
    """Returns a file's text without comments, spaces and numbers; the name says whether it is P4, Python or YAML.

    In P4 and Python, the author's names are made equal, operands of commutative operators are sorted, and statements
    that do nothing are left out.
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
    """Returns P4 with a space for each comment, in time proportional to the text's length."""
    return _P4_COMMENT.sub(lambda match: match[1] or " ", text)


_TOKEN = re.compile(r'"[^"\n]*"|\b(?:bit|int|varbit)\s*<\s*\w+\s*>|[A-Za-z_]\w*(?:\.\w+)*|\w+|<<|>>|[=!<>]=|&&|\|\||\S')
_KEPT: Final = frozenset(
    re.findall(
        r"\w+",
        "action actions accept apply bit bool const control default default_action else emit error exact extract false "
        "header hit if in inout isValid key lpm mark_to_drop miss out parser read register reject return select "
        "setInvalid setValid size state struct table ternary transition true typedef write digest hash clone resubmit "
        "recirculate verify_checksum update_checksum push_front pop_front next last count meter counter random",
    )
)
"""names of P4 and its library, which are kept"""
_PASSES: Final = 6
"""passes that remove statements without effect; each may make others removable"""
_CHAINS: Final = ("||", "&&", "|", "^", "&", "==", "!=", "+")
"""commutative operators, the loosest first"""
_LONGEST: Final = 400
"""most tokens of an expression whose operands are sorted"""
_DEEPEST: Final = 20
"""deepest nesting of brackets whose operands are sorted"""


def _p4(text: str) -> str:
    """Returns the tokens of P4 as `plain` reduces them."""
    reduced, statement = list[str](), list[str]()
    for word in _without_unread(_TOKEN.findall(_NUMBER.sub("0", text))):
        if word in "{};":
            reduced += [_in_order(statement, 0), word]
            statement = []
        else:
            statement.append(_renamed(word))
    return " ".join([*reduced, _in_order(statement, 0)])


def _renamed(word: str) -> str:
    """Returns ``v`` for a name that the author chose; fields of ``hdr`` and ``std`` keep their names."""
    if not (word[0].isalpha() or word[0] == "_") or "<" in word:
        return re.sub(r"\s+", "", word)
    first, point, rest = word.partition(".")
    if first in ("hdr", "std", "standard_metadata", "HashAlgorithm", "error"):
        return word
    last = rest.rpartition(".")[2]
    return first if word in _KEPT else f"v{point}{last if last in _KEPT else 'v' * bool(rest)}"


def _in_order(tokens: Sequence[str], depth: int) -> str:
    """Returns an expression or statement with the operands of commutative operators sorted."""
    if depth > _DEEPEST or len(tokens) > _LONGEST:
        return " ".join(tokens)
    levels, level = [], 0
    for word in tokens:
        level -= word in ")]"
        levels.append(level)
        level += word in "(["
    for mark in (",", "=", "?", ":"):
        if mark in tokens and (parts := _split(tokens, levels, mark)):
            return f" {mark} ".join(_in_order(part, depth + 1) for part in parts)
    for mark in _CHAINS:
        if mark in tokens and not (mark == "+" and "-" in tokens) and (parts := _split(tokens, levels, mark)):
            return f" {mark} ".join(sorted(_in_order(part, depth + 1) for part in parts))
    ordered, begin = list[str](), 0
    for place, word in enumerate(tokens):  # brackets of this level, and their contents
        if word in ")]" and levels[place] == 0:
            ordered += [_in_order(tokens[begin:place], depth + 1), word]
        elif levels[place] == 0:
            ordered.append(word)
            begin = place + 1
    return " ".join(ordered)


def _split(tokens: Sequence[str], levels: Sequence[int], mark: str) -> list[Sequence[str]]:
    """Returns the parts between marks outside of brackets; none if there is no such mark."""
    parts, begin = list[Sequence[str]](), 0
    for place, word in enumerate(tokens):
        if word == mark and levels[place] == 0:
            parts.append(tokens[begin:place])
            begin = place + 1
    return [*parts, tokens[begin:]] if parts else []


_LOCAL: Final = re.compile(r"(?:bit|int)<\w+>|(?:bit|int)\s*<.*>|bool")


def _without_unread(tokens: list[str]) -> list[str]:
    """Removes variables that are never read, ``x = x;`` and empty statements, in time that grows with the length."""
    for _ in range(_PASSES):
        statements = _statements(_without_empty(tokens))
        counts = Counter(word for statement in statements for word in statement)
        declared = {
            declaration[1] for declaration in statements if len(declaration) > 2 and _LOCAL.fullmatch(declaration[0])
        }
        writes = Counter[str]()
        for statement in statements:
            if (name := _written(statement)) in declared:
                writes[name] += statement.count(name)
        kept, fields = list[str](), False
        for statement in statements:
            end, name = statement[-1], _written(statement)
            fields = (fields and end != "}") or (end == "{" and statement[0] in ("header", "struct"))
            itself = len(statement) == 4 and statement[1] == "=" and statement[0] == statement[2]
            if fields or not (itself or (name in declared and counts[name] == writes[name])):
                kept += statement
        if len(kept) == len(tokens):
            break
        tokens = kept
    return tokens


def _statements(tokens: Sequence[str]) -> list[list[str]]:
    statements, begin = list[list[str]](), 0
    for end, word in enumerate(tokens, start=1):
        if word in "{};":
            statements.append(list(tokens[begin:end]))
            begin = end
    return [*statements, list(tokens[begin:])] if begin < len(tokens) else statements


def _written(statement: Sequence[str]) -> str:
    """Returns the local variable that a statement only declares or writes; empty if it does anything else."""
    if statement[-1] != ";":
        return ""
    declares = _LOCAL.fullmatch(statement[0]) is not None
    rest = statement[declares:]
    calls = any(word == "(" and before[0].isidentifier() for before, word in pairwise(rest))
    if len(rest) < 2 or calls or not rest[0].isidentifier() or rest[1] not in ("=", ";"):
        return ""
    return rest[0] if declares or rest[1] == "=" else ""


def _without_empty(tokens: Sequence[str]) -> list[str]:
    """Removes lone ``;`` and ``{ }``, and ``if`` without statements whose condition calls nothing."""
    kept: list[str] = []
    for word in tokens:
        if word == ";" and (not kept or kept[-1] in "{};"):
            continue
        kept.append(word)
        if kept[-2:] == ["{", "}"]:
            before = kept[-3] if len(kept) > 2 else "{"
            if before in "{};":
                del kept[-2:]
            elif before == "else":
                del kept[-3:]
            elif before == ")":
                _without_if(kept)
    return kept


def _without_if(tokens: list[str]) -> None:
    """Removes a trailing ``if (...) { }``, if there is one."""
    level, place = 0, len(tokens) - 3
    while place > 0 and len(tokens) - place < _LONGEST:
        level += (tokens[place] == ")") - (tokens[place] == "(")
        if level == 0:
            break
        place -= 1
    inside = tokens[place + 1 : -3]
    if level == 0 and place and tokens[place - 1] == "if" and "(" not in inside:
        del tokens[place - (2 if place > 1 and tokens[place - 2] == "else" else 1) :]


_BUILTIN: Final = frozenset(dir(builtins))


def _python(text: str) -> str:
    """Returns the syntax tree as `plain` reduces it, without documentation and statements that do nothing."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.Module | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    size = -1
    for _ in range(_PASSES):
        if size == (size := sum(1 for _ in ast.walk(tree))):
            break
        tree = _Unread({n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}).visit(
            tree
        )
    own = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id not in _BUILTIN:
            node.id = "v"
        elif isinstance(node, ast.arg):
            node.arg = "v"
        elif isinstance(node, ast.Attribute) and node.attr in own:
            node.attr = "v"
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
            node.value = 0
    return _sorted(tree)


def _sorted(tree: ast.AST) -> str:
    """Returns a digest of a syntax tree that ignores the order of commutative operands; visits each node once."""
    known: dict[int, str] = {}
    chains: dict[int, list[str]] = {}

    def of(value: object) -> str:
        if isinstance(value, list):
            return f"[{','.join(map(of, value))}]"
        return known[id(value)] if isinstance(value, ast.AST) else repr(value)

    def operands(node: ast.BinOp) -> list[str]:
        """Returns the operands of a chain of one operator, whose order a copy may change."""
        return [operand for side in (node.left, node.right)
                for operand in (chains[id(side)] if isinstance(side, ast.BinOp) and type(side.op) is type(node.op)
                            and id(side) in chains else [of(side)])]  # fmt: skip

    for node in reversed(list(ast.walk(tree))):  # inner nodes first
        fields = {name: of(value) for name, value in ast.iter_fields(node)}
        if isinstance(node, ast.BinOp) and isinstance(
            node.op, ast.BitAnd | ast.BitOr | ast.BitXor | ast.Add | ast.Mult
        ):
            listed = operands(node)
            if len(listed) <= _LONGEST:
                chains[id(node)] = sorted(listed)
            fields["left"], fields["right"] = ",".join(sorted(listed)), ""
        elif isinstance(node, ast.BoolOp):
            fields["values"] = ",".join(sorted(map(of, node.values)))
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            fields["left"], fields["comparators"] = sorted((fields["left"], fields["comparators"].strip("[]")))
        shape = f"{type(node).__name__}{fields}"
        known[id(node)] = hashlib.blake2b(shape.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    return known[id(tree)]


class _Unread(ast.NodeTransformer):
    """Removes assignments of plain values to names that are never read, lone values, ``pass``, and ``x = x``."""

    def __init__(self, loaded: set[str]) -> None:
        self._loaded = loaded

    def _kept(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, target: ast.expr) -> ast.AST | None:
        if not isinstance(target, ast.Name) or target.id in self._loaded:
            return node
        return node if node.value is not None and _calls(node.value) else None

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        """Removes an assignment that does nothing."""
        target = node.targets[0]
        if len(node.targets) > 1:
            return node
        itself = isinstance(node.value, ast.Name) and isinstance(target, ast.Name) and node.value.id == target.id
        return None if itself else self._kept(node, target)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        """Removes an annotated assignment that does nothing."""
        return self._kept(node, node.target)

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST | None:
        """Removes an augmented assignment that does nothing."""
        return self._kept(node, node.target)

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Removes an expression statement that calls nothing."""
        return node if _calls(node.value) else None

    def visit_If(self, node: ast.If) -> ast.AST | None:
        """Removes an ``if`` that does nothing."""
        self.generic_visit(node)
        return node if node.body or node.orelse or _calls(node.test) else None

    def visit_Pass(self, _: ast.Pass) -> None:
        """Removes ``pass``."""


def _calls(node: ast.AST) -> bool:
    return any(isinstance(inner, ast.Call | ast.Yield | ast.YieldFrom | ast.Await) for inner in ast.walk(node))
