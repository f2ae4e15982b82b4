"""What a student's Python reads, sets and calls: for python_trail.py."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import Final


def parts_about(parts: Sequence[ast.AST], fields: Sequence[str]) -> list[ast.AST]:
    """Returns the parts of some expressions that make some keys: an argument or a member of that name, if there is one.

    A key that stands nowhere may come in by ``**``.
    """
    if not fields:
        return list(parts)
    inside = [inner for part in parts for inner in ast.walk(part)]
    named: list[ast.AST] = [
        keyword.value
        for call in inside
        if isinstance(call, ast.Call)
        for keyword in call.keywords
        if keyword.arg in fields
    ]
    named += [
        value
        for given in inside
        if isinstance(given, ast.Dict)
        for key, value in zip(given.keys, given.values, strict=True)
        if isinstance(key, ast.Constant) and key.value in fields
    ]
    if named:
        return named
    makers = [call for call in inside if isinstance(call, ast.Call) and is_maker(call)]
    if any("." in name or name in ("job", "epoch") for name in fields):
        named = [argument for call in makers for argument in call.args[1:2]]
    elif "root" not in fields and "inner" not in fields:
        named = [keyword.value for call in makers for keyword in call.keywords if keyword.arg is None]
    return named or list(parts)


def is_cut(value: str) -> bool:
    """Returns whether a value is a dict of which only the beginning is known."""
    return value.startswith("{") and not value.endswith("}")


def name_called(call: ast.Call) -> str:
    """Returns the name of the function or method that is called; empty for any other expression."""
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def is_maker(call: ast.Call) -> bool:
    """Returns whether a call makes an entry, by a function of the skeleton."""
    return isinstance(call.func, ast.Name) and call.func.id in ("entry", "group")


def changed_by(node: ast.stmt | None) -> set[str]:
    """Returns the variable that a statement changes and reads, because it adds something to it."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=value, attr=attr))) if attr in _CHANGES:
            return {name for name, _ in names_in(value)}
        case ast.AugAssign(target=target):
            return {name for name, _ in names_in(_loaded(target))}
        case ast.Assign(targets=[ast.Subscript(value=value)]):
            return {name for name, _ in names_in(value)}
    return set()


def read_parts(node: ast.stmt) -> list[ast.AST]:
    """Returns what a statement reads, without its body."""
    match node:
        case ast.Assign():
            return [node.value, *node.targets]
        case ast.For():
            return [node.iter]
        case ast.If() | ast.While():
            return [node.test]
        case ast.AugAssign(value=value, target=target):
            return [value, _loaded(target)]
    return [node]


def _loaded(target: ast.expr) -> ast.AST:
    """Returns a target as what is read from it."""
    return ast.copy_location(ast.Name(target.id, ast.Load()), target) if isinstance(target, ast.Name) else target


def names_in(part: ast.AST) -> list[tuple[str, str]]:
    """Returns the variables and attributes of ``self`` in an expression, each with the key that is read of it.

    The key is empty if there is none. Variables of comprehensions are left out.
    """
    names, own, keyed = list[tuple[str, str]](), set[str](), set[int]()
    for inner in ast.walk(part):
        match inner:
            case ast.Subscript(value=ast.Name() | ast.Attribute() as value, slice=ast.Constant(value=str() as key)):
                if name := _read(value):
                    names.append((name, key))
                    keyed |= {id(value), *map(id, ast.walk(value))}
            case ast.Name() | ast.Attribute():
                if id(inner) not in keyed and (name := _read(inner)):
                    names.append((name, ""))
            case ast.comprehension(target=target):
                own |= {name.id for name in ast.walk(target) if isinstance(name, ast.Name)}
    return [(name, key) for name, key in dict.fromkeys(names) if name not in own]


def _read(node: ast.AST) -> str:
    """Returns the name of a variable, or of an attribute of ``self``; empty for anything else."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=attr):
            return f"self.{attr}"
        case ast.Name(id=name, ctx=ast.Load()) if name != "self":
            return name
    return ""


_CHANGES: Final = ("append", "add", "extend", "insert", "update", "pop", "remove", "discard", "clear", "setdefault")


def is_set_by(node: ast.stmt, name: str) -> bool:
    """Returns whether a statement sets a variable or attribute, or changes what it holds."""
    targets: list[ast.expr] = []
    match node:
        case ast.Assign(targets=several):
            targets = several
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            targets = [target]
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=value, attr=attr))) if attr in _CHANGES:
            targets = [value]
    return any(_base(target) == name for target in targets)


def _base(target: ast.expr) -> str:
    """Returns the name of a variable or attribute of ``self`` that a target is, or is in."""
    while isinstance(target, ast.Subscript):
        target = target.value
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) else ""


def only_moves(node: ast.AST) -> bool:
    """Returns whether a statement only passes values on, and computes none."""
    match node:
        case ast.Assign(targets=targets, value=value):
            return all(map(only_moves, [*targets, value]))
        case ast.Return(value=ast.Subscript(slice=ast.Constant())):
            return True
        case ast.Return(value=ast.Subscript()):
            return False
        case ast.Return(value=ast.Call(func=ast.Name(), args=given, keywords=[])):
            return all(isinstance(argument, ast.Name) for argument in given)
        case ast.Return(value=ast.expr() as value) | ast.For(iter=value) | ast.Starred(value=value):
            return only_moves(value)
        case ast.Call(func=ast.Name(id="zip" | "enumerate" | "reversed"), args=given):
            return all(map(only_moves, given))
        case ast.Subscript(value=value, slice=ast.Name()) | ast.Attribute(value=value):
            return only_moves(value)
        case ast.Tuple(elts=members):
            return all(map(only_moves, members))
    return isinstance(node, ast.Name)


def is_plain(value: ast.expr) -> bool:
    """Returns whether an expression is a constant or empty, or a call of an object of the grader with variables."""
    match value:
        case ast.Constant():
            return True
        case ast.Dict(keys=members) | ast.List(elts=members) | ast.Tuple(elts=members):
            return not members
        case ast.Call(func=ast.Name(id="set" | "dict" | "list"), args=[]):
            return True
        case ast.Call(func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"))), args=given):
            return all(isinstance(argument, ast.Name) for argument in given)
    return False


def last_line(node: ast.stmt) -> int:
    """Returns the last line of a statement, or of the head of one that has a body."""
    body = getattr(node, "body", None)
    return max(node.lineno, body[0].lineno - 1) if body else node.end_lineno or node.lineno


_LEAVE: Final = "leave this as it is"
"""stands above what the grader calls"""


def gone_from(text: str, given: str) -> str:
    """Returns which line of the part that the grader calls is not the skeleton's; empty if all of it is there."""
    _, _, kept = given.partition(_LEAVE)
    own = {line.strip() for line in text.splitlines()}
    gone = [line.strip() for line in kept.splitlines()[1:] if line.strip() and line.strip() not in own]
    return f"The line '{gone[0]}' of the skeleton is not there: the grader calls that part; {_LEAVE}" if gone else ""


_CONTAINERS = frozenset(("Counter", "defaultdict", "deque", "dict", "list", "set"))


def kept_by(tree: ast.Module, function: str) -> list[str]:
    """Returns variables of a module that hold something from call to call, and that a function does not set anew."""
    holds = [node for node in tree.body if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Constant)]
    names = [target.id for node in holds for target in node.targets if isinstance(target, ast.Name)]
    begins = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == function]
    code = "\n".join(ast.unparse(node) for node in begins)
    kept = [name for name in names if not re.search(rf"\b{name}\s*(\.clear\(|=(?!=))|\bdel {name}\b", code)]
    for maker in ast.walk(tree):
        if isinstance(maker, ast.FunctionDef):
            places = [*maker.args.posonlyargs, *maker.args.args][::-1]  # defaults are those of the last ones
            values = zip(places, maker.args.defaults[::-1], strict=False)
            only = zip(maker.args.kwonlyargs, maker.args.kw_defaults, strict=True)
            kept += [
                f"{place.arg} (a default argument of {maker.name})"
                for place, value in (*values, *only)
                if isinstance(value, ast.List | ast.Dict | ast.Set)
                or (isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] in _CONTAINERS)
            ]
    return kept
