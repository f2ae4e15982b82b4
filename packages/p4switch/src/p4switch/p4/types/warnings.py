"""Warnings about legal programs that are probably wrong: mistakes that students most often overlook.

Each check reads only typed trees, and gives no warning where the mistake is not certain.
"""

from collections.abc import Iterator
from typing import Any

from p4switch.p4.diagnostics import Diagnostics
from p4switch.p4.syntax import tree
from p4switch.p4.types import kinds

FOUND_OUT = ("type", "type_variables", "value", "target", "bound", "type_arguments")
"""Attributes of nodes that the checker sets; walks over trees skip them."""
NO_PARTS = frozenset({*FOUND_OUT, "at", "end", "ref", "annotations", "name", "tokens"})
_PARTS: dict[type, list[str]] = {}
_LEAVES = (str, int, bool, type(None))
_CHANGES_PORT = frozenset(
    {"mark_to_drop", "resubmit", "resubmit_preserving_field_list", "recirculate", "recirculate_preserving_field_list"}
)
Calls = dict[tree.Program, list[tree.Call]]


def warn(declarations: list[tree.Declaration], diagnostics: Diagnostics, builtin: Any) -> None:
    """Adds all warnings except those of warn_of_invalid; ``builtin`` tells whether a position is in this package."""
    programs = [d for d in declarations if isinstance(d, tree.Program) and d.body is not None and not builtin(d.at)]
    blocks = package_blocks(declarations)
    calls = {p: [node for node in nodes(p) if isinstance(node, tree.Call)] for p in programs}
    _tables_never_applied(calls, diagnostics)
    _registers(calls, diagnostics)
    if blocks:
        _egress_spec(blocks, declarations, diagnostics, builtin)
        _never_emitted(blocks, diagnostics)


def nodes(root: Any) -> Iterator[tree.Node]:
    """Yields every node of a tree, from the top down."""
    stack = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, tree.Node):
            yield node
            names = _PARTS.get(type(node))
            if names is None:
                names = _PARTS[type(node)] = [n for n in node.__dataclass_fields__ if n not in NO_PARTS]
            for name in names:
                part = getattr(node, name)
                if part and part.__class__ not in _LEAVES:
                    stack.append(part)
        elif isinstance(node, list | tuple):
            stack += reversed(node)
        elif isinstance(node, dict):
            stack += list(node.values())


def package_blocks(declarations: list[tree.Declaration]) -> list[tree.Program]:
    """Returns the package's six parsers and controls in order; empty if its arguments are not constructors."""
    main = next((d for d in declarations if isinstance(d, tree.Instance) and d.name == "main"), None)
    if main is None or len(main.bound) != 6:
        return []
    blocks = []
    for value in main.bound:
        kind = value.type if value is not None else None
        if not isinstance(kind, kinds.DeclaredType) or not isinstance(kind.declaration, tree.Program):
            return []
        blocks.append(kind.declaration)
    return blocks


def _tables_never_applied(programs: Calls, diagnostics: Diagnostics) -> None:
    applied = {n.target for calls in programs.values() for n in calls if isinstance(n.target, tree.Table)}
    for program in programs:
        for local in program.locals:
            if isinstance(local, tree.Table) and local not in applied:
                hint = f"Write {local.name}.apply(); in the apply block, or delete the table."
                diagnostics.warning(local.at, f"the table {local.name!r} is never applied", hint)


def _registers(programs: Calls, diagnostics: Diagnostics) -> None:
    """Warns of registers that are read but never written by a packet."""
    for program, calls in programs.items():
        used: dict[Any, set[str]] = {}
        for node in calls:
            if isinstance(node.callee, tree.Member) and isinstance(node.callee.base, tree.Name):
                used.setdefault(node.callee.base.target, set()).add(node.callee.name)
        for local in program.locals:
            kind = local.type if isinstance(local, tree.Instance) else None
            if isinstance(kind, kinds.DeclaredType) and kind.name == "register" and used.get(local) == {"read"}:
                hint = "Only the control plane can then change it. Is a .write(…) missing?"
                diagnostics.warning(local.at, f"the register {local.name!r} is read, but never written", hint)


def _egress_spec(
    blocks: list[tree.Program], declarations: list[tree.Declaration], diagnostics: Diagnostics, builtin: Any
) -> None:
    """Warns if no statement sets an output port or group, so that all packets leave by port 0."""
    for node in nodes(
        [d for d in declarations if isinstance(d, tree.Program | tree.Action | tree.Function) and not builtin(d.at)]
    ):
        if isinstance(node, tree.Assign) and _names_field(node.left, ("egress_spec", "mcast_grp")):
            return
        if isinstance(node, tree.Call):
            name = getattr(node.target, "name", "")
            if name in _CHANGES_PORT:
                return
            parameters = getattr(node.target, "parameters", [])
            for parameter, value in zip(parameters, node.bound, strict=False):
                if parameter.direction in ("out", "inout") and _names_field(value, ("egress_spec", "mcast_grp")):
                    return
    hint = "Set standard_metadata.egress_spec, standard_metadata.mcast_grp, or call mark_to_drop(standard_metadata)."
    diagnostics.warning(blocks[2].at, "nothing sets egress_spec: every packet leaves by port 0", hint)


def _names_field(node: tree.Expression | None, names: tuple[str, ...]) -> bool:
    while isinstance(node, tree.Slice):
        node = node.base
    return isinstance(node, tree.Member) and node.name in names


def _never_emitted(blocks: list[tree.Program], diagnostics: Diagnostics) -> None:
    """Warns of headers that are extracted or made valid, but that the deparser does not emit."""
    kind = kinds.plain(blocks[0].parameters[1].type) if len(blocks[0].parameters) > 1 else None
    if not isinstance(kind, kinds.CompositeType):
        return
    emitted: set[str] = set()
    for node in nodes(blocks[5]):
        if isinstance(node, tree.Call) and isinstance(node.callee, tree.Member) and node.callee.name == "emit":
            value = node.bound[0] if node.bound else None
            member = first_member(value)
            if member is None:
                return  # all headers, or an expression that is not analysed
            emitted.add(member)
        elif isinstance(node, tree.Call) and isinstance(node.target, tree.Program):
            return
    made: dict[str, int] = {}
    for block in blocks[:4]:
        for node in nodes(block):
            if isinstance(node, tree.Call) and isinstance(node.callee, tree.Member):
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
    """Returns whether the deparser may leave out a type: structs, and headers for the controller."""
    bare = kinds.plain(kind)
    if not isinstance(bare, kinds.CompositeType):
        return False
    return bare.kind == "struct" or bare.declaration.annotation("controller_header") is not None


def first_member(node: tree.Expression | None) -> str | None:
    """Returns ``ethernet`` for ``hdr.ethernet``, ``hdr.ethernet.next``, ``hdr.ethernet[1]``; None for anything else."""
    while isinstance(node, tree.Member | tree.Index):
        if isinstance(node, tree.Member) and isinstance(node.base, tree.Name):
            return node.name
        node = node.base
    return None


# Warnings about headers that are read although they may be invalid (specification, section 8.17).
#
# The analysis follows headers through the parser's states, and in controls through ``if``, ``isValid()`` and
# ``setValid()``. A header is known to be valid if it is valid on every path. Only headers that the parser leaves
# invalid on some path get a warning.


Valid = frozenset[str]


class Validity:
    """Follows the validity of headers; each block names them through its own parameter (``headers``)."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics
        self.headers: Any = None
        self.said: set[str] = set()

    def after_parser(self, parser: tree.Program) -> Valid | None:
        """Returns the headers that are valid on every path to ``accept``; None if the parser cannot be analysed."""
        self.headers = parser.parameters[1]
        states = {state.name: state for state in parser.states}
        known: dict[str, Valid] = {"start": frozenset()}
        work = ["start"]
        ends: list[Valid] = []
        steps = 0
        while work:
            steps += 1
            if steps > 2000:
                return None
            state = states.get(work.pop())
            if state is None:
                continue
            here = self._state(state, known[state.name])
            if here is None:
                return None
            targets = [c.state for c in state.transition.cases] if state.transition is not None else []
            if state.transition is not None and state.transition.target is not None:
                targets.append(state.transition.target)
            for name in targets:
                if name == "accept":
                    ends.append(here)
                elif name in states:
                    before = known.get(name)
                    after = here if before is None else before & here
                    if after != before:
                        known[name] = after
                        work.append(name)
        return frozenset.intersection(*ends) if ends else None

    def _state(self, state: tree.State, valid: Valid) -> Valid | None:
        for item in state.items:
            if not isinstance(item, tree.CallStatement | tree.Assign | tree.Variable):
                return None
            if isinstance(item, tree.CallStatement):
                if isinstance(item.call.target, tree.Program):
                    return None
                valid = self._effect(item.call, valid)
        return valid

    def control(self, program: tree.Program, valid: Valid) -> None:
        """Checks the reads in a control's apply block; ``valid``: headers that are valid before it."""
        self.headers = program.parameters[0] if program.parameters else None
        if program.body is not None:
            self._statement(program.body, valid)

    def _header(self, node: tree.Expression | None) -> str | None:
        """Returns ``ethernet`` for ``hdr.ethernet``."""
        if isinstance(node, tree.Member) and isinstance(node.base, tree.Name) and node.base.target is self.headers:
            kind = kinds.plain(node.type) if node.type is not None else None
            return node.name if kind is not None and kinds.is_header(kind) else None
        return None

    # --- statements: each method returns the headers that are valid after it, None if execution does not continue

    def _statement(self, item: Any, valid: Valid | None) -> Valid | None:
        if valid is None:
            return None
        match item:
            case tree.Block():
                for inner in item.items:
                    valid = self._statement(inner, valid)
                return valid
            case tree.If():
                self._reads(item.condition, valid)
                yes = self._statement(item.yes, valid | self._told(item.condition, True))
                otherwise = valid | self._told(item.condition, False)
                no = self._statement(item.no, otherwise) if item.no is not None else otherwise
                return yes & no if yes is not None and no is not None else no if yes is None else yes
            case tree.Assign():
                self._reads(item.right, valid)
                header = self._header(item.left)
                return valid | {header} if header is not None else valid
            case tree.CallStatement():
                self._reads(item.call, valid)
                return self._effect(item.call, valid)
            case tree.Return() | tree.Exit():
                return None
            case tree.Switch():
                self._reads(item.subject, valid)
                return self._unknown(item, valid)
            case tree.For():
                return self._unknown(item, valid)
            case tree.Variable():
                if item.initial is not None:
                    self._reads(item.initial, valid)
        return valid

    def _unknown(self, node: Any, valid: Valid) -> Valid:
        """Adds all headers that a node names: the analysis does not follow its code, which may make them valid."""
        changed = set()
        for inner in nodes(node):
            if isinstance(inner, tree.Member) and self._header(inner) is not None:
                changed.add(inner.name)
        return valid | changed

    def _effect(self, call: tree.Call, valid: Valid) -> Valid:
        callee = call.callee
        if isinstance(callee, tree.Member) and callee.name in ("setValid", "setInvalid"):
            header = self._header(callee.base)
            if header is not None:
                return valid | {header} if callee.name == "setValid" else valid - {header}
            return valid
        if isinstance(callee, tree.Member) and callee.name == "extract" and call.bound:
            header = self._header(call.bound[0])
            return valid | {header} if header is not None else valid
        target = call.target
        if isinstance(target, tree.Action):
            return self._unknown(target.body, valid)
        if isinstance(target, str) or target is None:
            return valid
        actions = getattr(target, "actions", None)
        if actions is not None:
            for ref in actions:
                if ref.target is not None:
                    valid = self._unknown(ref.target.body, valid)
            return valid
        if any(isinstance(v, tree.Name) and v.target is self.headers for v in call.bound if v is not None):
            # A control that gets all headers may make any of them valid.
            kind = kinds.plain(self.headers.type)
            return frozenset(getattr(kind, "fields", {}))
        return valid

    def _told(self, condition: tree.Expression, truth: bool) -> Valid:
        """Returns the headers that are valid if a condition has the value ``truth``."""
        match condition:
            case tree.Unary(operator="!", operand=operand):
                return self._told(operand, not truth)
            case tree.Binary(operator="&&", left=left, right=right) if truth:
                return self._told(left, True) | self._told(right, True)
            case tree.Binary(operator="||", left=left, right=right) if not truth:
                return self._told(left, False) | self._told(right, False)
            case tree.Call(callee=tree.Member(name="isValid", base=base)) if truth:
                header = self._header(base)
                return frozenset({header}) if header is not None else frozenset()
        return frozenset()

    def _reads(self, node: tree.Expression, valid: Valid) -> None:
        """Warns of fields of headers that are not known to be valid."""
        if isinstance(node, tree.Binary) and node.operator in ("&&", "||"):
            self._reads(node.left, valid)
            self._reads(node.right, valid | self._told(node.left, node.operator == "&&"))
            return
        if isinstance(node, tree.Call) and isinstance(node.target, str):
            return  # isValid, setValid and other methods
        if isinstance(node, tree.Call) and isinstance(node.target, tree.Table):
            self._keys(node.target, valid)
        if isinstance(node, tree.Member):
            header = self._header(node.base)
            if header is not None and header not in valid and header not in self.said:
                self.said.add(header)
                hint = f"Put it into if (….{header}.isValid()) {{ … }}, or look at the parser: not every packet has it."
                self.diagnostics.warning(node.at, f"the header {header!r} may be invalid here", hint)
            if header is not None:
                return
        for name in node.__dataclass_fields__:
            if name in FOUND_OUT:
                continue
            inner = getattr(node, name)
            for part in inner if isinstance(inner, list) else (inner,):
                value = getattr(part, "value", None) if type(part).__name__ == "Argument" else part
                if isinstance(value, tree.Expression) and not isinstance(value, tree.Slice):
                    self._reads(value, valid)
                elif isinstance(value, tree.Slice):
                    self._reads(value.base, valid)

    def _keys(self, table: tree.Table, valid: Valid) -> None:
        """Warns of exact, lpm and range keys, unless the table also has the validity of their header as a key."""
        for key in table.keys:
            valid |= self._told(key.expression, True)
        for key in table.keys:
            if key.match in ("exact", "lpm", "range"):
                self._reads(key.expression, valid)


def warn_of_invalid(blocks: list[tree.Program], diagnostics: Diagnostics) -> None:
    """Warns of reads in ingress of headers that the parser does not always extract."""
    if len(blocks[0].parameters) < 2:
        return
    validity = Validity(diagnostics)
    valid = validity.after_parser(blocks[0])
    if valid is not None:
        validity.control(blocks[2], valid)
