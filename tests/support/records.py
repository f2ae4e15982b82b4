"""Record types that the product reads back, found in its sources, and random records drawn by their types.

New record types and new fields are found automatically; neither is listed here.
"""

import ast
import enum
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from hypothesis import strategies as st
from pydantic import BaseModel

from p4reduce.base.errors import PlanError

NAMES = st.text("abcé/' ", min_size=1, max_size=4)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | NAMES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
"""strategy for arbitrary JSON values"""
Seen = dict[str, set[str]]
"""drawn values (repr) of each field, by ``Class.field``"""
Bases = Mapping[type, Any]
"""Base instances of classes that allow few combinations of values (or a strategy), by class.

Each field of an instance is drawn, and the value is kept if the class allows it."""
Record = TypeVar("Record")


ROOT = Path(__file__).parents[2]
READERS = frozenset({"from_plain", "from_json"})
"""functions of `p4reduce.base.records` whose first argument is the record's type"""


def kinds_read() -> dict[str, Any]:
    """Return the record types that the product reads, by the module and the expression that names them there."""
    found: dict[str, Any] = {}
    for folder, package in (
        ("control_plane", "p4reduce.control_plane"),
        ("topologies", "p4reduce.topologies"),
        ("workers", "p4reduce.workers"),
        ("src/p4reduce", "p4reduce"),
        ("studies", "studies"),
        ("packages/course/src/p4reduce_course", "p4reduce_course"),
    ):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if "adapters/torch" in str(path) and find_spec("torch") is None:
                continue  # other modules have its records, too
            text = path.read_text()
            if "base.records import" in text and any(f"{name}(" in text for name in READERS):
                parts = path.relative_to(ROOT / folder).with_suffix("").parts
                module = ".".join((package, *(part for part in parts if part != "__init__")))
                for name, kind in _kinds_in(module, ast.parse(text)):
                    if kind not in found.values():
                        found[f"{module}: {name}"] = kind
    return found


def _kinds_in(module: str, tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """Yield the types that a module reads, directly or through its functions with a parameter ``kind``."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    passing = {one.name for one in functions if any(_first(call) == "kind" for call in _calls(one, READERS))}
    names = {_first(call) for call in _calls(tree, READERS | passing)} - {"kind"}
    for name in sorted(names):
        table, chosen, _ = name.partition("[name]")  # a lookup in a table of types
        kinds = eval(table, vars(import_module(module)))  # noqa: S307  (an expression of the product's sources)
        yield from ((f"{table}[{one!r}]", kinds[one]) for one in kinds) if chosen else ((name, kinds),)


def _calls(tree: ast.AST, names: frozenset[str] | set[str]) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in names and (name not in READERS or isinstance(node.func, ast.Name)):
                yield node


def _first(call: ast.Call) -> str:
    return ast.unparse(call.args[0])


def _names(kind: Any) -> list[str]:
    """Return the fields of a dataclass, a named tuple or a pydantic model."""
    if issubclass(kind, tuple):
        return list(kind._fields)
    return list(kind.model_fields) if issubclass(kind, BaseModel) else [one.name for one in fields(kind) if one.init]


def _replaced(record: Any, name: str, value: Any) -> Any:
    if isinstance(record, BaseModel):
        return type(record)(**{**dict(record), name: value})
    return replace(record, **{name: value})


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def drawn(kind: type[Record], bases: Bases) -> st.SearchStrategy[Record]:
    """Return a strategy for instances of a dataclass, or of any other type that a field has."""
    return _of(kind, bases)


def classes(kind: Any) -> tuple[type, ...]:
    """Return the classes of a type: itself, or the members of a union."""
    if get_origin(kind) in (Union, types.UnionType):
        return get_args(kind)
    return (kind,) if isinstance(kind, type) and get_origin(kind) is None else ()


def note(record: Any, seen: Seen, others: tuple[type, ...] = ()) -> None:
    """Record the field values of a record and of nested records, except instances of ``others``."""
    if isinstance(record, others):
        return
    if is_dataclass(record) or isinstance(record, BaseModel):
        for name in _names(type(record)):
            value = getattr(record, name)
            seen.setdefault(f"{type(record).__name__}.{name}", set()).add(repr(value))
            note(value, seen, others)
    elif isinstance(record, Mapping):
        for value in record.values():
            note(value, seen, others)
    elif isinstance(record, list | tuple):
        for value in record:
            note(value, seen, others)


def _of(kind: Any, bases: Bases) -> st.SearchStrategy[Any]:
    if isinstance(kind, type) and kind in bases:
        base = bases[kind]
        if isinstance(base, st.SearchStrategy):
            return base
        return st.one_of([_varied(one, bases) for one in (base if isinstance(base, list) else [base])])
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _of(arguments[0], bases)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        return st.one_of([_of(one, bases) for one in arguments])
    if origin is tuple:
        if arguments[-1] is ...:
            return st.lists(_of(arguments[0], bases), max_size=3).map(tuple)
        return st.tuples(*(_of(one, bases) for one in arguments))
    if origin is list:
        return st.lists(_of(arguments[0], bases), max_size=2)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return st.dictionaries(_of(arguments[0], bases), _of(arguments[1], bases), max_size=2)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return st.sampled_from(list(kind))
    named = isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")
    if named or (isinstance(kind, type) and (is_dataclass(kind) or issubclass(kind, BaseModel))):
        hints = _hints(kind)
        return st.builds(kind, **{name: _of(hints[name], bases) for name in _names(kind)})
    raise TypeError(f"{kind!r}: say in tests/support/records.py how to draw it")


_SIMPLE: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(0, 9),
    float: st.sampled_from([0.0, 0.25, 0.1, 1.0, 3.5]),
    str: NAMES,
    bool: st.booleans(),
    type(None): st.none(),
    Any: PLAIN,
    object: PLAIN,
}


def _varied(base: Any, bases: Bases) -> st.SearchStrategy[Any]:
    hints = _hints(type(base))

    @st.composite
    def vary(draw: Callable[..., Any]) -> Any:
        found = base
        for name in _names(type(base)):
            if draw(st.booleans()):
                before = getattr(found, name)
                inner = _varied(before, bases) if is_dataclass(before) else _of(hints[name], bases)
                try:
                    found = _replaced(found, name, draw(inner))
                except (PlanError, ValueError):
                    continue
        return found

    return vary()
