"""What a student's Python reads, sets and calls, and where one small change makes all checks pass."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Final, TypeGuard

from p4reduce_course.culprit import SHOWN, Edit, culprit, passes
from p4reduce_course.frame.lab import LabStep
from p4reduce_course.frame.report import Wrong
from p4reduce_course.sandbox.confine import ProcessLimits
from p4reduce_course.sandbox.process import StudentCode

# What statements and expressions read, set and call: for python_trail.py.


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


# The place of one small change. The method is that of culprit.py. Lines that led to what is wrong come first, those of
# the trail, nearest first.


_MOST: Final = 120
_LIMITS: Final = ProcessLimits(cpu_s=2)
"""limits of Python that is searched"""
_KINDS: Final = 4
"""kinds of changes of Python"""
_ENDED: Final = 2
"""processes that may end before the search does"""
_NEAR: Final = 3
"""lines of the trail that are as much as a kind"""
_FAR: Final = 4
"""kinds by which lines come later that are not of the trail"""


def in_python(
    file: Path,
    given: str,
    step: LabStep,
    anew: Callable[[StudentCode], Sequence[LabStep]],
    lines: Sequence[int] = (),
) -> str:
    """Returns a sentence about the place in Python that fails a check; empty if no change helps.

    Args:
        file: the student's file.
        given: text of the skeleton, whose lines are not changed.
        step: the check that fails.
        anew: returns all checks for another process.
        lines: that led to what is wrong, nearest first.
    """
    ended = 0
    code = StudentCode(file, _LIMITS)

    def mends(text: str) -> bool:
        nonlocal code, ended
        if code.ended:  # a changed loop did not end
            ended += 1
            code.close()
            code = StudentCode(file, _LIMITS)
        try:
            code.load(text)
        except Wrong:
            return False
        every = anew(code)
        return passes(new_step for new_step in every if new_step.title == step.title) and passes(every)

    try:
        return culprit(
            file,
            takewhile(lambda _: ended < _ENDED, islice(python_edits(file.read_text("utf-8"), given, lines), _MOST)),
            mends,
        )
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ""
    finally:
        code.close()


# Changes of Python: the syntax tree with one node changed.

_COMPARED: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_ADDED: Final = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv)
_FUNCTIONS: Final = (
    ("floor", "ceil", "rint", "trunc", "round"),
    ("min", "max", "sum", "len"),
    ("any", "all"),
    ("isnan", "isfinite", "isinf"),
)


def python_edits(text: str, given: str = "", near: Sequence[int] = ()) -> Iterator[Edit]:
    """Yields changes outside the skeleton, likely kinds first; changes in loops, which may not end, come last.

    ``near``: lines whose changes come before those of other lines.
    """
    left = {line.strip() for line in given.splitlines()}
    tree, lines = ast.parse(text), text.splitlines()
    looped = {id(inner) for loop in ast.walk(tree) if isinstance(loop, ast.While) for inner in ast.walk(loop)}
    ranks = {line: place / _NEAR for place, line in enumerate(dict.fromkeys(near))}
    beyond = len(ranks) / _NEAR + _FAR if ranks else 0.0

    def late(candidate: tuple[int, ast.AST, str, Any]) -> float:
        kind, node, _, change = candidate
        line = getattr(change.node if isinstance(change, _At) else node, "lineno", 1)
        return kind + ranks.get(line, beyond) + _KINDS * (id(node) in looped)

    for _, node, name, change in sorted(_python_changes(tree), key=late):
        at, value = (change.node, change.value) if isinstance(change, _At) else (node, change)
        line = getattr(at, "lineno", 1)
        if lines[line - 1].strip() in left:
            continue
        was = ast.get_source_segment(text, at) or lines[line - 1].strip()
        mine: Any = node
        kind, fields = node.__class__, dict(vars(node))
        if name:
            setattr(mine, name, value)
        else:  # the node is replaced by another one
            mine.__class__, mine.__dict__ = type(value), dict(vars(value))
        changed = ast.unparse(ast.fix_missing_locations(tree))
        mine.__class__, mine.__dict__ = kind, fields
        yield Edit(line, " ".join(was.split())[:SHOWN], f"{changed}\n")


@dataclass(frozen=True)
class _At:
    """A value, and the node to which it changes the text."""

    node: ast.AST
    value: Any


def _python_changes(tree: ast.AST) -> Iterator[tuple[int, ast.AST, str, Any]]:
    """Yields kind, node, and the field with its new value; without a field, the value replaces the node."""
    for node in ast.walk(tree):
        match node:
            case ast.BinOp() | ast.AugAssign():
                yield from ((1, node, "op", operator()) for operator in _ADDED if not isinstance(node.op, operator))
                if isinstance(node, ast.BinOp):
                    yield 1, node, "", ast.BinOp(node.right, node.op, node.left)
                    yield from ((2, node, "", operand) for operand in (node.left, node.right))
            case ast.Compare(ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE() | ast.Eq() | ast.NotEq() as is_]):
                yield from ((0, node, "ops", [operator()]) for operator in _COMPARED if not isinstance(is_, operator))
            case ast.Compare(ops=[ast.In() | ast.NotIn() as is_]):
                yield 0, node, "ops", [ast.NotIn() if isinstance(is_, ast.In) else ast.In()]
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                half = value / 2 if value % 2 else value // 2
                for new in dict.fromkeys((value + 1, value - 1, -value, 2 * value, half)):
                    if new != value:
                        yield 0, node, "value", new
            case ast.UnaryOp():
                yield 0, node, "", node.operand
            case ast.Constant(value=bool() as value):
                yield 0, node, "value", not value
            case ast.Attribute(attr=name) | ast.Name(id=name) if any(name in alike for alike in _FUNCTIONS):
                key = "attr" if isinstance(node, ast.Attribute) else "id"
                yield from (
                    (0, node, key, other) for alike in _FUNCTIONS if name in alike for other in alike if other != name
                )
            case ast.Call(args=[first, *_] as given):
                for place, argument in enumerate(given):
                    yield 1, node, "args", [*given[:place], ast.UnaryOp(ast.USub(), argument), *given[place + 1 :]]
                yield 2, node, "", first
                for place in range(1, len(given)):
                    swapped = [*given[: place - 1], given[place], given[place - 1], *given[place + 1 :]]
                    yield 1 if len(given) == 2 else 2, node, "args", swapped
            case ast.Assign(targets=[ast.Name() | ast.Attribute() | ast.Subscript() as target], value=value):
                # what should have grown was replaced
                yield from ((2, node, "", ast.AugAssign(target, how(), value)) for how in (ast.BitOr, ast.Add))
            case ast.For(iter=iterable):
                listed = ast.Call(ast.Name("list", ast.Load()), [iterable], [])
                yield 2, node, "iter", _At(node.iter, ast.Call(ast.Name("reversed", ast.Load()), [listed], []))
            case ast.Dict(keys=[_, _, *_] as labels, values=members):
                for place, member in enumerate(members):
                    less = [*labels[:place], *labels[place + 1 :]], [*members[:place], *members[place + 1 :]]
                    yield 2, node, "", _At(member, ast.Dict(*less))
            case ast.If() | ast.While() | ast.IfExp():
                yield 1, node, "test", ast.UnaryOp(ast.Not(), node.test)
                if isinstance(node, ast.If) and not node.orelse:
                    yield 2 * _KINDS, node, "", ast.While(node.test, node.body, [])
                if isinstance(node, ast.While):
                    yield 1, node, "", ast.If(node.test, node.body, [])
            case ast.comprehension(ifs=[_, *_] as ifs):
                yield 1, node, "ifs", _At(node.iter, [])
                yield 1, node, "ifs", _At(node.iter, [ast.UnaryOp(ast.Not(), ifs[0])])
            case ast.Subscript(slice=ast.Slice()):
                yield 1, node, "", node.value
            case ast.BoolOp():
                yield 1, node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And()
    keys = Counter(subscript.slice.value for subscript in ast.walk(tree) if _key(subscript))
    own_ = Counter(attribute.attr for attribute in ast.walk(tree) if _own(attribute))
    for node in ast.walk(tree):
        if _key(node):
            mine = node.slice.value
            yield from ((3, node.slice, "value", other) for other, _ in keys.most_common(_MOST_KEYS) if other != mine)
        elif _own(node) and isinstance(node.ctx, ast.Load):
            yield from ((2, node, "attr", other) for other, _ in own_.most_common(_MOST_KEYS) if other != node.attr)
        for name in ("body", "orelse"):
            block = getattr(node, name, None)
            yield from _blocks(node, name, block) if isinstance(block, list) else ()
    for function in (inner for inner in ast.walk(tree) if isinstance(inner, ast.FunctionDef)):
        names = [inner for inner in ast.walk(function) if isinstance(inner, ast.Name)]
        own = [parameter.arg for parameter in function.args.args]
        own += [target.id for target in names if isinstance(target.ctx, ast.Store)]
        for variable in names:
            if isinstance(variable.ctx, ast.Load) and variable.id in own:
                yield from ((3, variable, "id", new) for new in dict.fromkeys(own) if new != variable.id)


_MOST_KEYS: Final = 6
"""names of attributes and keys that are tried in the place of one"""


def _key(node: ast.AST) -> TypeGuard[Any]:
    """Whether it is a subscript by a text."""
    return (
        isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
    )


def _own(node: ast.AST) -> TypeGuard[Any]:
    """Whether it is an attribute of self."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _blocks(owner: ast.AST, name: str, block: Sequence[ast.stmt]) -> Iterator[tuple[int, ast.AST, str, Any]]:
    """Yields a block of statements without one of them, or with two exchanged."""
    plain = (ast.Assign, ast.AugAssign, ast.Expr, ast.Return, ast.If)
    for place, statement in enumerate(block):
        if isinstance(statement, plain) and len(block) > 1:
            yield 2, owner, name, _At(statement, [*block[:place], *block[place + 1 :]])
        if place and isinstance(statement, plain) and isinstance(block[place - 1], plain):
            exchanged = [*block[: place - 1], statement, block[place - 1], *block[place + 1 :]]
            yield 2, owner, name, _At(statement, exchanged)
        if place and isinstance(statement, plain) and isinstance(last := block[place - 1], ast.For | ast.If):
            into: Any = type(last)(**(dict(vars(last)) | {"body": [*last.body, statement]}))
            yield 2, owner, name, _At(statement, [*block[: place - 1], into, *block[place + 1 :]])
        if isinstance(statement, ast.For | ast.If) and len(statement.body) > 1:
            less: Any = type(statement)(**(dict(vars(statement)) | {"body": statement.body[:-1]}))
            inner = statement.body[-1]
            yield 2, owner, name, _At(inner, [*block[:place], less, inner, *block[place + 1 :]])
