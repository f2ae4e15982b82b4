"""Finds where one small change of a student's Python makes all checks pass.

The method is that of culprit.py. Lines that led to what is wrong come first, those of the trail, nearest first. What is
put in the place of something stands elsewhere in the student's text: names, keys, and what loops take. That most
repairs are made of what is there already was shown by E. T. Barr et al., "The Plastic Surgery Hypothesis", 2014.
"""

from __future__ import annotations

import ast
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, takewhile
from pathlib import Path
from typing import Any, Final, Protocol, TypeGuard, TypeVar

from p4reduce_course.culprit import SHOWN, Edit, culprit, lines_left
from p4reduce_course.frame.report import Wrong

MOST: Final = 260
"""most changes that are tried"""
_LONGEST_S: Final = 12.0
"""most seconds of this process's processor time, which only a machine that is far too slow reaches before `MOST`"""
_KINDS: Final = 4
"""kinds of changes of Python"""
_ENDED: Final = 3
"""processes that may end before the search does"""
_NEAR: Final = 3
"""lines of the trail that are as much as a kind"""
_FIRST: Final = -1
"""kind of changes of which a text allows few"""
_FAR: Final = 4
"""kinds by which lines come later that are not of the trail"""


@dataclass(frozen=True)
class Led:
    """What led to a mistake.

    Attributes:
        lines: that have to do with it, nearest first.
        types: by variable, the types of its values, as they were seen.
    """

    lines: Sequence[int] = ()
    types: Mapping[str, Collection[str]] = field(default_factory=dict)

    def fits(self, name: str, other: str) -> bool:
        """Returns whether a variable may stand for another one, as far as their values are known."""
        mine, others = self.types.get(name), self.types.get(other)
        return not mine or not others or not set(mine).isdisjoint(others)

    def counts(self, name: str) -> bool:
        """Returns whether a variable may be a number or an array, as far as its values are known."""
        return not (mine := self.types.get(name)) or not {NUMBER, "["}.isdisjoint(mine)


NUMBER: Final = "0"
"""the type of numbers; that of other values is the first character of their text"""


def type_of(value: str) -> str:
    """Returns what the text of a value tells of its type."""
    return NUMBER if value.lstrip("-")[:1].isdigit() else value[0]


class TextRunner(Protocol):
    """Something that runs a student's Python, and another text in its place."""

    @property
    def ended(self) -> bool:
        """Whether its process has ended."""

    def load(self, text: str) -> None:
        """Loads a text. Raises Wrong."""

    def close(self) -> None:
        """Ends its process."""


T = TypeVar("T", bound=TextRunner)


def in_python(
    file: Path,
    given: str,
    led: Led,
    make: Callable[[], T],
    passes_all: Callable[[T], bool],
    most: int = MOST,
    what: str = "all of it",
) -> str:
    """Returns a sentence about the place in Python where one small change makes all checks pass; empty if none does.

    Args:
        file: the student's file.
        given: text of the skeleton, whose lines are not changed.
        led: what led to the mistake.
        make: returns something that runs the file.
        passes_all: whether it passes all checks with another text.
        most: most changes that are tried.
        what: what a change mends if it passes.
    """
    ended, code = 0, make()

    def mends(text: str) -> bool:
        nonlocal code, ended
        if code.ended:  # a changed loop did not end
            ended += 1
            code.close()
            code = make()
        try:
            code.load(text)
        except Wrong:
            return False
        return passes_all(code)

    try:
        return place_of_change(file, given, led, mends, lambda: ended < _ENDED, most, what)
    finally:
        code.close()


def place_of_change(
    file: Path,
    given: str,
    led: Led,
    mends: Callable[[str], bool],
    goes_on: Callable[[], bool] = lambda: True,
    most: int = MOST,
    what: str = "all of it",
) -> str:
    """Returns a sentence about the line of a file in which one small change mends what is wrong; empty if none does.

    ``mends``: whether a text passes; ``goes_on``: whether the search does. Other arguments as those of `in_python`.
    """
    begun = time.process_time()
    try:
        edits = islice(python_edits(file.read_text("utf-8"), given, led), most)
        soon = takewhile(lambda _: goes_on() and time.process_time() - begun < _LONGEST_S, edits)
        return culprit(file, soon, mends, what)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return ""


# Changes of Python: the syntax tree with one node changed.

_COMPARED: Final = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_OPERATORS: Final = (
    (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv),
    (ast.BitOr, ast.BitAnd, ast.BitXor, ast.Sub),
    (ast.LShift, ast.RShift),
    (ast.Mult, ast.Pow, ast.LShift),
    (ast.Mod, ast.FloorDiv, ast.Div),
)
_FUNCTIONS: Final = (
    ("floor", "ceil", "rint", "trunc", "round"),
    ("max", "min", "sum", "len", "mean"),
    ("any", "all"),
    ("isnan", "isfinite", "isinf"),
    ("int64", "int32", "int16", "int8"),
    ("float64", "float32", "float16"),
    ("append", "extend"),
    ("keys", "values", "items"),
    ("add", "discard"),
)
_MOST_NAMES: Final = 8
"""names in scope that are put in the place of something else"""
_MOST_KEYS: Final = 6
"""names of attributes and keys that are tried in the place of one"""
_MOST_LOOPS: Final = 6
"""what other loops take, in the place of what a loop takes"""

_Change = tuple[float, ast.AST, str, Any]
"""Kind, node, and the field with its new value; without a field, the value replaces the node."""


def python_edits(text: str, given: str = "", led: Led | None = None) -> Iterator[Edit]:
    """Yields changes outside the skeleton, likely kinds first; changes in loops, which may not end, come last.

    Changes of lines that led to the mistake come before those of other lines.
    """
    led = led or Led()
    tree, lines = ast.parse(text), text.removesuffix("\n").split("\n")
    left = lines_left(
        *([line.partition("  #")[0] for line in code] for code in (lines, given.removesuffix("\n").split("\n")))
    )
    looped = {id(inner) for loop in ast.walk(tree) if isinstance(loop, ast.While) for inner in ast.walk(loop)}
    own = (line for line in led.lines if line <= len(lines) and line not in left)
    ranks = {line: place / _NEAR for place, line in enumerate(dict.fromkeys(own))}
    beyond = len(ranks) / _NEAR + _FAR if ranks else 0.0

    def late(candidate: _Change) -> float:
        kind, node, name, change = candidate
        line = getattr(change.node if isinstance(change, _At) else node, "lineno", 1)
        endless = id(node) in looped and name in ("ops", "test")  # its condition turned round
        inside = kind > _FIRST and id(node) in looped
        return kind + ranks.get(line, beyond) + _KINDS * (inside + endless)

    pieces, seen = _pieces(tree, lines), set[str]()
    for _, node, name, change in sorted(_python_changes(tree, led), key=late):
        at, value = (change.node, change.value) if isinstance(change, _At) else (node, change)
        line = getattr(at, "lineno", 1)
        if line in left:
            continue
        was = ast.get_source_segment(text, at) or lines[line - 1].strip()
        mine: Any = node
        kind, fields = node.__class__, dict(vars(node))
        if name:
            setattr(mine, name, value)
        else:  # the node is replaced by another one
            mine.__class__, mine.__dict__ = type(value), dict(vars(value))
        before, part, after = ("", tree, "") if node is tree else pieces.get(line, ("", tree, ""))
        changed = before + ast.unparse(ast.fix_missing_locations(part)) + after
        mine.__class__, mine.__dict__ = kind, fields
        if changed not in seen:
            seen.add(changed)
            moved = isinstance(change, _At) and change.moved
            last = (getattr(at, "end_lineno", None) or line) if moved else 0
            yield Edit(line, " ".join(was.split())[:SHOWN], f"{changed}\n", moved=last)


def _pieces(tree: ast.Module, lines: Sequence[str]) -> dict[int, tuple[str, ast.AST, str]]:
    """Returns by each line the text before its statement of the module, that statement, and the text behind it.

    The syntax tree of one statement is written sooner than that of a module. Lines with several are left out.
    """
    pieces: dict[int, tuple[str, ast.AST, str]] = {}
    for place, node in enumerate(tree.body):
        first = min([node.lineno, *(inner.lineno for inner in getattr(node, "decorator_list", ()))])
        last = node.end_lineno or node.lineno
        beside = [other for other in tree.body[max(0, place - 1) : place + 2] if other is not node]
        if all((other.end_lineno or 0) < first or other.lineno > last for other in beside):
            before = "".join(f"{code}\n" for code in lines[: first - 1])
            after = "".join(f"\n{code}" for code in lines[last:])
            pieces |= dict.fromkeys(range(first, last + 1), (before, node, after))
    return pieces


@dataclass(frozen=True)
class _At:
    """A value, and the node to which it changes the text; ``moved``: whether that is a statement in another place."""

    node: ast.AST
    value: Any
    moved: bool = False


def _python_changes(tree: ast.Module, led: Led) -> Iterator[_Change]:
    for node in ast.walk(tree):
        yield from _of_expression(node)
        yield from _of_call(node)
        yield from _of_statement(node)
    yield from _of_keys(tree)
    yield from _of_names(tree, led)
    yield from _of_loops(tree)


def _of_expression(node: ast.AST) -> Iterator[_Change]:
    match node:
        case ast.BinOp() | ast.AugAssign():
            fitting = dict.fromkeys(other for alike in _OPERATORS if isinstance(node.op, alike) for other in alike)
            yield from ((1, node, "op", other()) for other in fitting if not isinstance(node.op, other))
            if isinstance(node, ast.BinOp):
                yield 1, node, "", ast.BinOp(node.right, node.op, node.left)
                yield from ((2, node, "", operand) for operand in (node.left, node.right))
            else:
                yield 2, node, "", ast.Assign([node.target], node.value, lineno=node.lineno)
        case ast.Compare(ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE() | ast.Eq() | ast.NotEq() as is_]):
            yield from ((0, node, "ops", [operator()]) for operator in _COMPARED if not isinstance(is_, operator))
        case ast.Compare(ops=[ast.In() | ast.NotIn() as is_]):
            yield 0, node, "ops", [ast.NotIn() if isinstance(is_, ast.In) else ast.In()]
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            half = value / 2 if value % 2 else value // 2
            for new in dict.fromkeys((value + 1, value - 1, -value, 2 * value, half)):
                if new != value:
                    yield 0, node, "value", new
        case ast.Constant(value=bool() as value):
            yield 0, node, "value", not value
        case ast.UnaryOp():
            yield 0, node, "", node.operand
        case ast.Attribute(attr=name) | ast.Name(id=name) if any(name in alike for alike in _FUNCTIONS):
            key = "attr" if isinstance(node, ast.Attribute) else "id"
            yield from (
                (0, node, key, other) for alike in _FUNCTIONS if name in alike for other in alike if other != name
            )
        case ast.Dict(keys=[_, _, *_] as labels, values=members):
            for place, member in enumerate(members):
                less = [*labels[:place], *labels[place + 1 :]], [*members[:place], *members[place + 1 :]]
                yield 2, node, "", _At(member, ast.Dict(*less))
        case ast.IfExp():
            yield 1, node, "test", _not(node.test)
        case ast.comprehension(ifs=[_, *_] as ifs):
            yield 1, node, "ifs", _At(node.iter, [])
            yield 1, node, "ifs", _At(node.iter, [_not(ifs[0])])
        case ast.Subscript(value=value, slice=ast.Constant(value=int()), ctx=ast.Load()):
            for name in ("max", "min"):
                yield 2, node, "", ast.Call(ast.Name(name, ast.Load()), [value], [])
        case ast.Subscript(slice=ast.Slice(lower=lower, upper=upper, step=None)):
            yield 1, node, "", node.value
            yield 3, node, "slice", _At(node, ast.Slice(upper, lower, None))
        case ast.Subscript(slice=ast.Slice()):
            yield 1, node, "", node.value
        case ast.BoolOp(values=parts):
            yield 1, node, "op", ast.Or() if isinstance(node.op, ast.And) else ast.And()
            for place, part in enumerate(parts):
                rest = [*parts[:place], *parts[place + 1 :]]
                yield 1, node, "", _At(part, rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest))


def _of_call(node: ast.AST) -> Iterator[_Change]:
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=attr), args=[]) if attr in _FUNCTIONS[1]:
            size = ast.Call(ast.Name("abs", ast.Load()), [owner], [])
            yield 2, node, "func", _At(node, ast.Attribute(size, attr, ast.Load()))
    if not isinstance(node, ast.Call):
        return
    given = node.args
    if isinstance(node.func, ast.Attribute) and node.func.attr == "pop" and not given:
        yield _FIRST, node, "args", [ast.Constant(0)]  # what waits longest, not what came last; loops end as before
    for place, argument in enumerate(given):
        yield 2, node, "args", [*given[:place], ast.UnaryOp(ast.USub(), argument), *given[place + 1 :]]
    if given:
        yield 2, node, "", given[0]
    if isinstance(node.func, ast.Attribute) and given:
        yield 3, node, "", node.func.value
    for place in range(1, len(given)):
        swapped = [*given[: place - 1], given[place], given[place - 1], *given[place + 1 :]]
        yield 1 if len(given) == 2 else 2, node, "args", swapped
    for place, keyword in enumerate(node.keywords):
        yield 2, node, "keywords", _At(keyword, [*node.keywords[:place], *node.keywords[place + 1 :]])


def _of_statement(node: ast.AST) -> Iterator[_Change]:
    match node:
        case ast.Assign(targets=[ast.Name() | ast.Attribute() | ast.Subscript() as target], value=value):
            # what should have grown was replaced
            yield from ((2, node, "", ast.AugAssign(target, how(), value)) for how in (ast.BitOr, ast.Add))
            if isinstance(target, ast.Subscript) and not isinstance(target.slice, ast.Slice):
                yield from _what_it_held(target, value)
        case ast.For(iter=iterable):
            listed = ast.Call(ast.Name("list", ast.Load()), [iterable], [])
            if isinstance(iterable, ast.Call | ast.Name | ast.Attribute | ast.Subscript):
                yield 2, node, "iter", _At(node.iter, ast.Call(ast.Name("sorted", ast.Load()), [iterable], []))
            yield 2, node, "iter", _At(node.iter, ast.Call(ast.Name("reversed", ast.Load()), [listed], []))
        case ast.If():
            yield 1, node, "test", _At(node.test, _not(node.test))
            if not node.orelse:  # a loop's step in an `if` is a loop's
                kind = 0 if _steps(node) else 2 * _KINDS
                yield kind, node, "", ast.While(node.test, node.body, [])
        case ast.While():
            yield 1, node, "test", _At(node.test, _not(node.test))
            yield 1, node, "", ast.If(node.test, node.body, [])
        case ast.Break():
            yield 2, node, "", ast.Continue()
        case ast.Continue():
            yield 2, node, "", ast.Break()
    for name in ("body", "orelse"):
        block = getattr(node, name, None)
        yield from _blocks(node, name, block) if isinstance(block, list) else ()


def _not(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def _steps(node: ast.If) -> bool:
    """Returns whether the body only counts on variables of the condition, as that of a loop does."""
    read = {name.id for name in ast.walk(node.test) if isinstance(name, ast.Name)}
    targets = [inner.target for inner in node.body if isinstance(inner, ast.AugAssign)]
    return len(targets) == len(node.body) and any(isinstance(name, ast.Name) and name.id in read for name in targets)


def _what_it_held(target: ast.Subscript, value: ast.expr) -> Iterator[_Change]:
    """Yields a value in which one name or number counts only where the item held nothing before."""
    if any(isinstance(inner, ast.Subscript | ast.Attribute) for inner in ast.walk(value)):
        return
    for leaf in ast.walk(value):
        if isinstance(leaf, ast.Name | ast.Constant) and isinstance(getattr(leaf, "ctx", ast.Load()), ast.Load):
            held = ast.Attribute(target.value, "get", ast.Load())
            default: ast.expr = type(leaf)(**dict(vars(leaf)))
            yield 2, leaf, "", ast.Call(held, [target.slice, default], [])


def _of_keys(tree: ast.AST) -> Iterator[_Change]:
    """Yields other keys and attributes of the same text."""
    keys = Counter(subscript.slice.value for subscript in ast.walk(tree) if _key(subscript))
    own_ = Counter(attribute.attr for attribute in ast.walk(tree) if _own(attribute))
    for node in ast.walk(tree):
        if _key(node):
            mine = node.slice.value
            yield from ((2, node.slice, "value", other) for other, _ in keys.most_common(_MOST_KEYS) if other != mine)
        elif _own(node) and isinstance(node.ctx, ast.Load):
            yield from ((2, node, "attr", other) for other, _ in own_.most_common(_MOST_KEYS) if other != node.attr)


def _key(node: ast.AST) -> TypeGuard[Any]:
    """Whether it is a subscript by a text."""
    return (
        isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
    )


def _own(node: ast.AST) -> TypeGuard[Any]:
    """Whether it is an attribute of self."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def _of_names(tree: ast.Module, led: Led) -> Iterator[_Change]:
    """Yields names in scope in the place of others, of numbers and of indices, or beside them."""
    held = [
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    ]
    for function in (inner for inner in ast.walk(tree) if isinstance(inner, ast.FunctionDef)):
        inside = list(ast.walk(function))
        names = [inner for inner in inside if isinstance(inner, ast.Name)]
        own = [parameter.arg for parameter in function.args.args if parameter.arg != "self"]
        own = list(dict.fromkeys([*own, *(target.id for target in names if isinstance(target.ctx, ast.Store))]))
        for variable in names:
            if isinstance(variable.ctx, ast.Load):
                others = own if variable.id in own else held if variable.id in held else ()
                fitting = (new for new in others if new != variable.id and led.fits(variable.id, new))
                yield from ((1 if new in _made_of(variable, inside) else 3, variable, "id", new) for new in fitting)
        for node in inside:
            yield from _with_names(node, own[:_MOST_NAMES], [name for name in own if led.counts(name)][:_MOST_NAMES])


def _made_of(variable: ast.Name, inside: Sequence[ast.AST]) -> set[str]:
    """Returns the names that a function sets before a use of a variable to what it makes of that variable."""
    return {
        node.targets[0].id
        for node in inside
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.lineno < variable.lineno
        if any(isinstance(read, ast.Name) and read.id == variable.id for read in ast.walk(node.value))
    }


def _with_names(node: ast.AST, own: Sequence[str], numbers: Sequence[str]) -> Iterator[_Change]:
    """Yields an expression with one more name, or with a name in the place of an index or a number."""
    new, counting = ([ast.Name(name, ast.Load()) for name in names] for names in (own, numbers))
    match node:
        case ast.Subscript(slice=ast.Tuple() as key):
            yield from _keys_beside(key, new)
        case ast.Subscript(slice=slice_) if not isinstance(slice_, ast.Slice):
            yield from ((2, node, "slice", _At(slice_, name)) for name in new)
            if isinstance(slice_, ast.Name):
                step = ast.Constant(1)
                yield from (
                    (2, node, "slice", _At(slice_, ast.BinOp(slice_, how(), step))) for how in (ast.Add, ast.Sub)
                )
        case ast.Call(args=given):
            for place, argument in enumerate(given):
                if isinstance(argument, ast.Tuple):
                    yield from _keys_beside(argument, new)
                if isinstance(argument, ast.Constant) and isinstance(argument.value, int):
                    yield from (
                        (3, node, "args", _At(argument, [*given[:place], name, *given[place + 1 :]]))
                        for name in counting
                    )
        case ast.Dict(keys=labels):
            for label in labels:
                if isinstance(label, ast.Tuple):
                    yield from _keys_beside(label, new)
        case ast.BinOp(op=ast.Add() | ast.Sub()):
            for side in (node.left, node.right):
                if isinstance(side, ast.Name | ast.Attribute | ast.Constant):
                    which = "left" if side is node.left else "right"
                    yield from (
                        (2, node, which, _At(side, ast.BinOp(side, ast.Mult(), name)))
                        for name in counting
                        if not _is(side, name)
                    )
        case ast.Compare(ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()], left=side, comparators=[other]):
            more = (ast.Sub, ast.Add) if isinstance(side, ast.Name) else ()
            yield from (
                (3, node, "left", _At(side, ast.BinOp(side, how(), name)))
                for name in counting
                for how in more
                if not _is(side, name)
            )
            yield from ((3, node, "left", _At(side, ast.BinOp(name, ast.Mult(), side))) for name in counting)
            yield from ((3, node, "comparators", _At(other, [ast.BinOp(name, ast.Mult(), other)])) for name in counting)


def _is(node: ast.AST, name: ast.Name) -> bool:
    return isinstance(node, ast.Name) and node.id == name.id


def _keys_beside(key: ast.Tuple, new: Sequence[ast.Name]) -> Iterator[_Change]:
    """Yields a key of several parts with one part less or one more."""
    parts = key.elts
    for place in range(len(parts)):
        if len(parts) > 2:
            yield 1, key, "elts", _At(key, [*parts[:place], *parts[place + 1 :]])
        else:
            yield 1, key, "", _At(key, parts[1 - place])
    known = {part.id for part in parts if isinstance(part, ast.Name)}
    for name in new:
        if name.id not in known:
            yield 2, key, "elts", _At(key, [*parts, name])


def _of_loops(tree: ast.Module) -> Iterator[_Change]:
    """Yields what other loops of the text take, or what contains it in the same function, in the place of it."""
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.comprehension)]
    texts = Counter(ast.unparse(loop.iter) for loop in loops)
    taken = {ast.unparse(loop.iter): loop.iter for loop in loops}
    for loop in loops:
        others = [other for other, _ in texts.most_common() if other != ast.unparse(loop.iter)]
        for other in others[:_MOST_LOOPS]:
            yield 3, loop, "iter", _At(loop.iter, taken[other])
    for function in (inner for inner in ast.walk(tree) if isinstance(inner, ast.FunctionDef)):
        inside = list(ast.walk(function))
        sums = [node for node in inside if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.BitOr)]
        for loop in (node for node in inside if isinstance(node, ast.For) and isinstance(node.iter, ast.Name)):
            for whole in sums:
                if any(ast.dump(part) == ast.dump(loop.iter) for part in (whole.left, whole.right)):
                    yield _FIRST, loop, "iter", _At(loop.iter, whole)


_AWAY: Final = 4
"""most statements over which one is moved"""


def _gives_up(owner: ast.AST, statement: ast.stmt) -> bool:
    """Returns whether a statement in a block of a function ends it with nothing or a constant."""
    plain = isinstance(statement, ast.Return) and isinstance(statement.value, ast.Constant | None)
    return plain and not isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef)


def _blocks(owner: ast.AST, name: str, block: Sequence[ast.stmt]) -> Iterator[_Change]:
    """Yields a block of statements without one of them, or with two exchanged."""
    plain = (ast.Assign, ast.AugAssign, ast.Expr, ast.Return, ast.If)
    for place, statement in enumerate(block):
        for other in range(max(0, place - _AWAY), min(len(block), place + _AWAY + 1)):
            if abs(other - place) > 1 and isinstance(statement, plain):  # next to it, two are exchanged
                rest = [*block[:place], *block[place + 1 :]]
                yield 3, owner, name, _At(statement, [*rest[:other], statement, *rest[other:]], moved=True)
        if isinstance(statement, plain) and len(block) > 1:
            kind = _FIRST if _gives_up(owner, statement) else 2
            yield kind, owner, name, _At(statement, [*block[:place], *block[place + 1 :]])
        if isinstance(statement, ast.If) and not statement.orelse:
            yield 2, owner, name, _At(statement.test, [*block[:place], *statement.body, *block[place + 1 :]])
        if place and isinstance(statement, plain) and isinstance(block[place - 1], plain):
            exchanged = [*block[: place - 1], statement, block[place - 1], *block[place + 1 :]]
            yield 2, owner, name, _At(statement, exchanged, moved=True)
        if place and isinstance(statement, plain) and isinstance(last := block[place - 1], ast.For | ast.If):
            into: Any = type(last)(**(dict(vars(last)) | {"body": [*last.body, statement]}))
            yield 2, owner, name, _At(statement, [*block[: place - 1], into, *block[place + 1 :]], moved=True)
        if isinstance(statement, ast.For | ast.If) and len(statement.body) > 1:
            less: Any = type(statement)(**(dict(vars(statement)) | {"body": statement.body[:-1]}))
            inner = statement.body[-1]
            yield 2, owner, name, _At(inner, [*block[:place], less, inner, *block[place + 1 :]], moved=True)
