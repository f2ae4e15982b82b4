"""Warnings where a program is legal but hardly meant so: what students most often overlook.

Each looks at trees only, after the types are known, and says nothing where it cannot be sure.
"""

from collections.abc import Iterator
from typing import Any

from p4reduce.frontend.diagnostics import Diagnostics
from p4reduce.frontend.syntax.declarations import Action, Declaration, Function, Instance, Program, Table
from p4reduce.frontend.syntax.tree import Assign, Call, Expression, Index, Member, Name, Node, Slice
from p4reduce.frontend.types.kinds import CompositeType, DeclaredType, plain

FOUND_OUT = ("type", "value", "target", "bound", "type_arguments")
"""Attributes of nodes that the checker wrote; trees are followed without them."""
NO_PARTS = frozenset({*FOUND_OUT, "at", "end", "ref", "annotations", "name", "tokens"})
_PARTS: dict[type, list[str]] = {}
_LEAVES = (str, int, bool, type(None))
_CHANGES_PORT = frozenset(
    {"mark_to_drop", "resubmit", "resubmit_preserving_field_list", "recirculate", "recirculate_preserving_field_list"}
)
Calls = dict[Program, list[Call]]


def warn(declarations: list[Declaration], diagnostics: Diagnostics, builtin: Any) -> None:
    """All warnings; ``builtin`` says whether a position lies in the package's own files."""
    programs = [d for d in declarations if isinstance(d, Program) and d.body is not None and not builtin(d.at)]
    blocks = _blocks(declarations)
    calls = {p: [node for node in nodes(p) if isinstance(node, Call)] for p in programs}
    _tables_never_applied(calls, diagnostics)
    _registers(calls, diagnostics)
    if blocks:
        _egress_spec(blocks, declarations, diagnostics, builtin)
        _never_emitted(blocks, diagnostics)


def package_blocks(declarations: list[Declaration]) -> list[Program]:
    """The six parsers and controls of the package, in its order; none if they are not made right in it."""
    return _blocks(declarations)


def nodes(root: Any) -> Iterator[Node]:
    """Every node of a tree, from the top down."""
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, Node):
            yield node
            names = _PARTS.get(type(node))
            if names is None:
                names = _PARTS[type(node)] = [n for n in node.__dataclass_fields__ if n not in NO_PARTS]
            for name in names:
                part = getattr(node, name)
                if part.__class__ not in _LEAVES:
                    stack.append(part)
        elif isinstance(node, list | tuple):
            stack += reversed(node)
        elif isinstance(node, dict):
            stack += list(node.values())


def _blocks(declarations: list[Declaration]) -> list[Program]:
    """The six parsers and controls of the package, if they are made right in it."""
    main = next((d for d in declarations if isinstance(d, Instance) and d.name == "main"), None)
    if main is None or len(main.bound) != 6:
        return []
    found = []
    for value in main.bound:
        kind = value.type if value is not None else None
        if not isinstance(kind, DeclaredType) or not isinstance(kind.declaration, Program):
            return []
        found.append(kind.declaration)
    return found


def _tables_never_applied(programs: Calls, diagnostics: Diagnostics) -> None:
    applied = {n.target for calls in programs.values() for n in calls if isinstance(n.target, Table)}
    for program in programs:
        for local in program.locals:
            if isinstance(local, Table) and local not in applied:
                hint = f"Write {local.name}.apply(); in the apply block, or delete the table."
                diagnostics.warning(local.at, f"the table {local.name!r} is never applied", hint)


def _registers(programs: Calls, diagnostics: Diagnostics) -> None:
    """Registers that are read, but that no packet ever writes."""
    for program, calls in programs.items():
        used: dict[Any, set[str]] = {}
        for node in calls:
            if isinstance(node.callee, Member) and isinstance(node.callee.base, Name):
                used.setdefault(node.callee.base.target, set()).add(node.callee.name)
        for local in program.locals:
            kind = local.type if isinstance(local, Instance) else None
            if isinstance(kind, DeclaredType) and kind.name == "register" and used.get(local) == {"read"}:
                hint = "Only the control plane can then change it. Is a .write(…) missing?"
                diagnostics.warning(local.at, f"the register {local.name!r} is read, but never written", hint)


def _egress_spec(
    blocks: list[Program], declarations: list[Declaration], diagnostics: Diagnostics, builtin: Any
) -> None:
    """Nothing ever says where packets go: they all leave by port 0."""
    for node in nodes([d for d in declarations if isinstance(d, Program | Action | Function) and not builtin(d.at)]):
        if isinstance(node, Assign) and _names_field(node.left, ("egress_spec", "mcast_grp")):
            return
        if isinstance(node, Call):
            name = getattr(node.target, "name", "")
            if name in _CHANGES_PORT:
                return
            parameters = getattr(node.target, "parameters", [])
            for parameter, value in zip(parameters, node.bound, strict=False):
                if parameter.direction in ("out", "inout") and _names_field(value, ("egress_spec", "mcast_grp")):
                    return
    hint = "Set standard_metadata.egress_spec, standard_metadata.mcast_grp, or call mark_to_drop(standard_metadata)."
    diagnostics.warning(blocks[2].at, "nothing sets egress_spec: every packet leaves by port 0", hint)


def _names_field(node: Expression | None, names: tuple[str, ...]) -> bool:
    while isinstance(node, Slice):
        node = node.base
    return isinstance(node, Member) and node.name in names


def _never_emitted(blocks: list[Program], diagnostics: Diagnostics) -> None:
    """Headers that the parser extracts or a control makes valid, and that the deparser leaves out."""
    kind = plain(blocks[0].parameters[1].type) if len(blocks[0].parameters) > 1 else None
    if not isinstance(kind, CompositeType):
        return
    emitted: set[str] = set()
    for node in nodes(blocks[5]):
        if isinstance(node, Call) and isinstance(node.callee, Member) and node.callee.name == "emit":
            value = node.bound[0] if node.bound else None
            member = first_member(value)
            if member is None:
                return  # all of the headers, or something that is not to be told here
            emitted.add(member)
        elif isinstance(node, Call) and isinstance(node.target, Program):
            return
    made: dict[str, int] = {}
    for block in blocks[:4]:
        for node in nodes(block):
            if isinstance(node, Call) and isinstance(node.callee, Member):
                name = node.callee.name
                value = node.bound[0] if name == "extract" and node.bound else None
                value = node.callee.base if name == "setValid" else value
                member = first_member(value)
                if member is not None and member in kind.fields:
                    made.setdefault(member, node.at)
    for member, at in made.items():
        if member not in emitted and not _is_left_out(kind.fields[member]):
            hint = f"Add packet.emit(hdr.{member}); to the deparser, unless it is to be taken off."
            diagnostics.warning(at, f"the header {member!r} is valid here, but never emitted: it is gone", hint)


def _is_left_out(kind: Any) -> bool:
    """Structs, whose headers are emitted one by one, and headers that only the controller sends."""
    bare = plain(kind)
    if not isinstance(bare, CompositeType):
        return False
    return bare.kind == "struct" or bare.declaration.annotation("controller_header") is not None


def first_member(node: Expression | None) -> str | None:
    """``ethernet`` of ``hdr.ethernet``, ``hdr.ethernet.next``, ``hdr.ethernet[1]``; None for anything else."""
    while isinstance(node, Member | Index):
        if isinstance(node, Member) and isinstance(node.base, Name):
            return node.name
        node = node.base
    return None
