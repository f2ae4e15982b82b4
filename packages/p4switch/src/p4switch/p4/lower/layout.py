"""Lays out lowered code as pipelines, parsers and actions of the JSON."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from p4switch.p4.diagnostics import SourceFault, SourceFiles, Unexpected
from p4switch.p4.lower import bmv2
from p4switch.p4.lower.bmv2 import Json, operation

# Lowered code: statements before they are laid out as a parser, a pipeline or an action.


@dataclass(slots=True, eq=False)
class LoweredCode:
    """One step of lowered code."""

    at: int
    end: int

    @property
    def parts(self) -> tuple[list["LoweredCode"], ...]:
        """Lists of the steps nested in this step."""
        return ()


@dataclass(slots=True, eq=False)
class Do(LoweredCode):
    """A primitive."""

    operation: str
    parameters: list[Json]


@dataclass(slots=True, eq=False)
class Branch(LoweredCode):
    """``if``; the condition is a bool."""

    condition: Json
    yes: list[LoweredCode]
    no: list[LoweredCode]

    @property
    def parts(self) -> tuple[list[LoweredCode], ...]:
        """Both branches."""
        return self.yes, self.no


@dataclass(slots=True, eq=False)
class Body(LoweredCode):
    """A sequence of steps."""

    body: list[LoweredCode]

    @property
    def parts(self) -> tuple[list[LoweredCode], ...]:
        """The steps."""
        return (self.body,)


@dataclass(slots=True, eq=False)
class Labelled(Body):
    """Steps that ``Leave`` can end early."""

    label: object


@dataclass(slots=True, eq=False)
class Loop(Body):
    """Steps that repeat until a ``Leave`` goes to this label or to an outer label."""

    label: object


@dataclass(slots=True, eq=False)
class Leave(LoweredCode):
    """A jump to the end of the steps with this label."""

    label: object


@dataclass(slots=True, eq=False)
class StopCode(LoweredCode):
    """``exit``: the end of the pipeline."""


@dataclass(slots=True, eq=False)
class Invoke(Body):
    """An action that is called by name; it remains an action, so that traces show it."""

    name: str


@dataclass(slots=True, eq=False)
class Apply(LoweredCode):
    """A table with the steps after a hit, a miss, each action (by index in the table's list), or any other action."""

    table: Any
    hit: list[LoweredCode] | None = None
    miss: list[LoweredCode] | None = None
    actions: dict[int, list[LoweredCode]] = field(default_factory=dict)
    otherwise: list[LoweredCode] | None = None


@dataclass(slots=True, eq=False)
class LoweredCase:
    """A case of a select: (value, mask) of each key, or a value set; without both, it matches anything."""

    keys: list[tuple[int, int]] | None
    value_set: str | None
    state: str


@dataclass(slots=True, eq=False)
class ParserStep:
    """A state of a parser: operations, then the next state.

    Attributes:
        keys: the keys of its select with their widths; empty if its only case is always taken.
    """

    name: str
    at: int
    end: int
    body: list[LoweredCode]
    keys: list[tuple[Json, int]]
    cases: list[LoweredCase]


@dataclass(slots=True, eq=False)
class ParserGraph(LoweredCode):
    """A parser: ``accept`` continues with the next step, ``reject`` ends all parsing."""

    steps: dict[str, ParserStep]
    prefix: str
    first: str = "start"


# ``source_info`` of the JSON: places in the source.


LONGEST = 200


class SourceInfoMaker:
    """Makes ``source_info`` from positions."""

    def __init__(self, sources: SourceFiles) -> None:
        self.sources = sources
        self._lines: dict[int, list[str]] = {}

    def of(self, at: int, end: int) -> Json | None:
        """Returns ``source_info`` for the text between two positions; None outside the program's own files."""
        if at >> 44 == 0 or at >> 44 in self.sources.builtin:
            return None
        file, line, column = at >> 44, (at >> 20) & 0xFFFFFF, at & 0xFFFFF
        lines = self._lines.get(file)
        if lines is None:
            lines = self._lines[file] = self.sources.texts[file].split("\n")
        text = lines[line - 1] if line <= len(lines) else ""
        one_line = at >> 20 == end >> 20 and end > at
        fragment = text[column : end & 0xFFFFF] if one_line else text[column:].rstrip()
        if len(fragment) > LONGEST:
            fragment = fragment[:LONGEST] + "..."
        return {"filename": self.sources.names[file], "line": line, "column": column, "source_fragment": fragment}

    def put(self, item: Json, node: Any) -> None:
        """Sets ``source_info`` of an object to a node's position; removes it if there is none."""
        info = self.of(node.at, node.end) if node is not None else None
        if info is None:
            item.pop("source_info", None)
        else:
            item["source_info"] = info

    def finish(self, items: list[Json]) -> list[Json]:
        """Replaces nodes in ``source_info`` by their positions; returns the items."""
        for item in items:
            node = item.get("source_info")
            if node is not None and not isinstance(node, dict):
                self.put(item, node)
        return items

    def stem(self, at: int) -> str:
        """Returns the first part of a hidden action's name: the name of the file, and the line."""
        name = self.sources.names[at >> 44].rsplit("/", 1)[-1].split(".")[0]
        clean = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
        return f"{clean}{(at >> 20) & 0xFFFFFF}"


# Actions: primitives in sequence, with jumps past the branches that are not taken.


class ActionLayout:
    """Lays out one action."""

    def __init__(self, info: SourceInfoMaker) -> None:
        self.info = info
        self.primitives: list[Json] = []
        self._labels: dict[object, list[Json]] = {}
        self._ends: list[Json] = []

    def run(self, body: Sequence[LoweredCode], tail: Sequence[LoweredCode], label: object) -> list[Json]:
        """Returns the primitives of ``body`` and ``tail``; ``Leave`` with ``label`` (``return``) goes to ``tail``."""
        self._labels[label] = []
        self._list(body)
        self._land(label)
        self._list(tail)
        for jump in self._ends:
            self._aim(jump)
        return self.primitives

    def _list(self, codes: Sequence[LoweredCode]) -> None:
        for code in codes:
            self._code(code)

    def _code(self, code: LoweredCode) -> None:
        match code:
            case Do():
                self.primitives.append(primitive(code, self.info))
            case Branch():
                self._branch(code)
            case Labelled():
                self._labels[code.label] = []
                self._list(code.body)
                self._land(code.label)
            case Loop():
                self._loop(code)
            case Leave():
                self._labels[code.label].append(self._jump(code))
            case StopCode():
                item: Json = {"op": "exit", "parameters": []}
                self.info.put(item, code)
                self.primitives.append(item)
                self._ends.append(self._jump(code))
            case Invoke():
                self._list(code.body)
            case Apply():
                hint = "The target's pipelines have no loops: apply it before or behind, or once for each time."
                raise SourceFault(code.at, f"the table {code.table.name!r} is applied in a loop", hint)

    def _loop(self, code: Loop) -> None:
        self._labels[code.label] = []
        begin = len(self.primitives)
        self._list(code.body)
        self._aim(self._jump(code), begin)
        self._land(code.label)

    def _branch(self, code: Branch) -> None:
        if not code.yes and not code.no:
            return
        start: Json = {
            "op": "_jump_if_zero",
            "parameters": [bmv2.as_parameter(bmv2.as_data(code.condition, True)), None],
        }
        self.info.put(start, code)
        self.primitives.append(start)
        self._list(code.yes)
        if code.no:
            over = self._jump(code)
            self._aim(start)
            self._list(code.no)
            self._aim(over)
        else:
            self._aim(start)

    def _jump(self, code: LoweredCode) -> Json:
        item: Json = {"op": "_jump", "parameters": [None]}
        self.info.put(item, code)
        self.primitives.append(item)
        return item

    def _land(self, label: object) -> None:
        """Aims the jumps to a label at the next primitive; removes the last jump if it would have no effect."""
        jumps = self._labels.pop(label)
        if jumps and self.primitives and self.primitives[-1] is jumps[-1] and not self._aimed_here():
            self.primitives.pop()
            jumps.pop()
        for jump in jumps:
            self._aim(jump)

    def _aimed_here(self) -> bool:
        """Returns whether a jump goes to the position after the last primitive."""
        here = len(self.primitives)
        return any(item["op"] in ("_jump", "_jump_if_zero") and item.get("$to") == here for item in self.primitives)

    def _aim(self, jump: Json, to: int | None = None) -> None:
        """Sets the target of a jump; by default the next primitive."""
        jump["$to"] = len(self.primitives) if to is None else to
        jump["parameters"][-1] = bmv2.constant(jump["$to"], 32)


def primitive(code: Do, info: SourceInfoMaker) -> Json:
    """Returns a primitive as JSON."""
    item: Json = {"op": code.operation, "parameters": code.parameters}
    info.put(item, code)
    return item


def unique(name: str, taken: set[str]) -> str:
    """Returns a name that is not taken yet, and marks it as taken."""
    free, count = name, 0
    while free in taken:
        free, count = f"{name}_{count}", count + 1
    taken.add(free)
    return free


# Parsers: states with operations and transitions.


_OPERATIONS = ("extract", "extract_VL", "advance", "verify")


class ParserLayout:
    """Lays out the parser; ``temporary`` allocates a field of one bit."""

    def __init__(self, info: SourceInfoMaker, temporary: Callable[[], bmv2.FieldPlace]) -> None:
        self.info = info
        self.temporary = temporary
        self.states: list[Json] = []
        self._names: set[str] = set()
        self._labels: dict[object, str] = {}

    def run(self, codes: Sequence[LoweredCode]) -> tuple[str, list[Json]]:
        """Returns the name of the first state, and all states."""
        graph = codes[-1] if codes else None
        if isinstance(graph, ParserGraph) and len(codes) == 1:
            return self._graph(graph, None), self.states
        entry = self._state("start_of_parser")
        last = self._list(codes, entry)
        if last is not None:
            self._always(last, None)
        return entry["name"], self.states

    def _state(self, name: str) -> Json:
        state: Json = {
            "name": unique(name, self._names),
            "id": len(self.states),
            "parser_ops": [],
            "transitions": [],
            "transition_key": [],
        }
        self.states.append(state)
        return state

    def _always(self, state: Json, following: str | None) -> None:
        state["transitions"].append(_default(following))

    # --- graphs of states

    def _graph(self, graph: ParserGraph, accept: str | None) -> str:
        states = {name: self._state(graph.prefix + name) for name in graph.steps}
        names = {name: str(state["name"]) for name, state in states.items()}
        for name, step in graph.steps.items():
            self._step(step, states[name], names, accept)
        return str(states[graph.first]["name"])

    def _step(self, step: ParserStep, state: Json, names: dict[str, str], accept: str | None) -> None:
        last = self._list(step.body, state)
        if last is None:
            return
        keys = [json for json, _ in step.keys]
        widths = [width for _, width in step.keys]
        last["transition_key"] = keys
        for case in step.cases:
            following = accept if case.state == "accept" else None if case.state == "reject" else names[case.state]
            if case.value_set is not None:
                item = {"type": "parse_vset", "value": case.value_set, "mask": None, "next_state": following}
            elif case.keys is None or all(mask == 0 for _, mask in case.keys):
                item = _default(following)
            else:
                item = _hexstr(case.keys, widths, following)
            last["transitions"].append(item)
            if item["type"] == "default":
                break

    # --- steps

    def _list(self, codes: Sequence[LoweredCode], state: Json) -> Json | None:
        """Lays out steps from a state on; returns the state in which they end, or None if every path leaves them."""
        current: Json | None = state
        for code in codes:
            if current is None:
                return None
            match code:
                case Do():
                    current["parser_ops"].append(self._operation(code))
                case Branch():
                    current = self._branch(code, current)
                case Labelled():
                    current = self._labelled(code, current)
                case Loop():
                    current = self._loop(code, current)
                case Leave():
                    self._always(current, self._labels[code.label])
                    current = None
                case Invoke():
                    current = self._list(code.body, current)
                case ParserGraph():
                    behind = self._state("behind")
                    self._always(current, self._graph(code, behind["name"]))
                    current = behind
                case _:
                    raise Unexpected
        return current

    def _branch(self, code: Branch, state: Json) -> Json:
        if not code.yes and not code.no:
            return state
        bit = self.temporary()
        condition = bmv2.as_parameter(bmv2.as_data(code.condition, True))
        state["parser_ops"].append({"parameters": [bit.target(), condition], "op": "set"})
        join, yes = self._state("behind"), self._state("if_true")
        no = self._state("if_false") if code.no else join
        state["transition_key"] = [bit.target()]
        state["transitions"] = [_hexstr([(1, 1)], [1], yes["name"]), _default(no["name"])]
        for begin, codes in ((yes, code.yes), (no, code.no)):
            last = self._list(codes, begin) if begin is not join else None
            if last is not None:
                self._always(last, join["name"])
        return join

    def _loop(self, code: Loop, state: Json) -> Json:
        head, behind = self._state("loop"), self._state("behind")
        self._labels[code.label] = behind["name"]
        self._always(state, head["name"])
        last = self._list(code.body, head)
        if last is not None:
            self._always(last, head["name"])
        return behind

    def _labelled(self, code: Labelled, state: Json) -> Json | None:
        body = list(code.body)
        while body and isinstance(body[-1], Leave) and body[-1].label is code.label:
            body.pop()
        if not _leaves(body, code.label):
            return self._list(body, state)
        join = self._state("behind")
        self._labels[code.label] = join["name"]
        last = self._list(body, state)
        if last is not None:
            self._always(last, join["name"])
        return join

    def _operation(self, code: Do) -> Json:
        if code.operation in _OPERATIONS:
            return {"parameters": code.parameters, "op": code.operation}
        if code.operation in ("assign", "assign_VL") and code.parameters[0]["type"] == "field":
            return {"parameters": code.parameters, "op": "set"}
        inner: Json = {"op": code.operation, "parameters": code.parameters}
        self.info.put(inner, code)
        return {"parameters": [inner], "op": "primitive"}


def _leaves(codes: Sequence[LoweredCode], label: object) -> bool:
    """Returns whether any step goes to a label."""
    return any(
        (isinstance(code, Leave) and code.label is label) or any(_leaves(part, label) for part in code.parts)
        for code in codes
    )


def _default(following: str | None) -> Json:
    return {"type": "default", "value": None, "mask": None, "next_state": following}


def _hexstr(keys: Sequence[tuple[int, int]], widths: Sequence[int], following: str | None) -> Json:
    """Returns a transition on the value and mask of concatenated keys, each padded to whole bytes."""
    value = mask = digits = 0
    exact = True
    for (number, bits), width in zip(keys, widths, strict=True):
        size = 8 * -(-width // 8)
        value = (value << size) | (number & bits)
        mask = (mask << size) | bits
        digits += size // 4
        exact = exact and bits == (1 << width) - 1
    shown = None if exact else f"0x{mask:0{digits}x}"
    return {"type": "hexstr", "value": f"0x{value:0{digits}x}", "mask": shown, "next_state": following}


AddAction = Callable[[str, list[Json], list[LoweredCode], list[LoweredCode], object, object], Json]


class PipelineLayout:
    """Lays out ingress or egress, from the last step to the first, because each step names the next one.

    Attributes:
        names: names taken by tables, actions and nodes of the whole program.
    """

    def __init__(self, info: SourceInfoMaker, add_action: AddAction, names: set[str]) -> None:
        self.info = info
        self.add_action = add_action
        self.names = names
        self.nodes: dict[str, Json] = {}
        self._labels: dict[object, str | None] = {None: None}
        self._known: dict[tuple[int, str | None], str | None] = {}
        self._keep: list[object] = []

    def run(self, body: Sequence[LoweredCode], tables: Sequence[Json]) -> tuple[str | None, list[Json], list[Json]]:
        """Returns the first node, the tables and the conditionals."""
        first = self._list(body, None)
        order: dict[str | None, None] = {None: None}
        # The control plane also sees tables that no packet reaches, and the nodes after them.
        for begin in (first, *(table["name"] for table in tables if table["name"] in self.nodes)):
            stack = [begin]
            while stack:
                name = stack.pop()
                if name is not None and name not in order:
                    order[name] = None
                    stack += reversed(_following(self.nodes[name]))
        nodes = [self.nodes[name] for name in order if name is not None]
        nodes += [table for table in tables if table["name"] not in self.nodes]
        return first, [n for n in nodes if "key" in n], [n for n in nodes if "key" not in n]

    def _list(self, codes: Sequence[LoweredCode], following: str | None) -> str | None:
        memo = (id(codes), following)
        if memo in self._known:
            return self._known[memo]
        self._keep.append(codes)
        node = following
        at = len(codes)
        while at > 0:
            begin = at
            while begin > 0 and isinstance(codes[begin - 1], Do | Loop):
                begin -= 1
            if begin < at:
                node = self._hidden(list(codes[begin:at]), node)
                at = begin
            else:
                at -= 1
                node = self._code(codes[at], node)
        self._known[memo] = node
        return node

    def _code(self, code: LoweredCode, following: str | None) -> str | None:
        match code:
            case Branch():
                yes, no = self._list(code.yes, following), self._list(code.no, following)
                return yes if yes == no else self._conditional(code, yes, no)
            case Labelled():
                self._labels[code.label] = following
                return self._list(code.body, following)
            case Leave():
                return self._labels[code.label]
            case StopCode():
                return None
            case Invoke():
                return self._invoked(code, following)
            case Apply():
                return self._table(code, following)
        raise Unexpected

    def _conditional(self, code: Branch, yes: str | None, no: str | None) -> str:
        name = unique(f"node_{len(self.names)}", self.names)
        condition = code.condition
        if condition["type"] == "field":
            condition = operation("d2b", None, condition)
        node: Json = {"name": name, "id": 0, "expression": condition, "true_next": yes, "false_next": no}
        self.info.put(node, code)
        self.nodes[name] = node
        return name

    def _hidden(self, codes: list[LoweredCode], following: str | None) -> str:
        """Adds a table without keys for primitives that are in no action; returns the table's name."""
        first = codes[0]
        name = unique(self.info.stem(first.at), self.names)
        return self._keyless(f"tbl_{name}", name, codes, first, following)

    def _invoked(self, code: Invoke, following: str | None) -> str | None:
        if _empty(code.body):
            return following
        short = code.name.split(".", 1)[-1].replace(".", "_")
        return self._keyless(unique(f"tbl_{short}", self.names), code.name, code.body, code, following)

    def _keyless(
        self, table: str, action: str, codes: list[LoweredCode], at: LoweredCode, following: str | None
    ) -> str:
        made = self.add_action(action, [], codes, [], object(), None)
        node: Json = {
            "name": table,
            "id": 0,
            "key": [],
            "match_type": "exact",
            "type": "simple",
            "max_size": 1024,
            "with_counters": False,
            "support_timeout": False,
            "direct_meters": None,
            "action_ids": [made["id"]],
            "actions": [action],
            "base_default_next": following,
            "next_tables": {action: following},
            "default_entry": {
                "action_id": made["id"],
                "action_const": True,
                "action_data": [],
                "action_entry_const": True,
            },
        }
        self.info.put(node, at)
        self.nodes[table] = node
        return table

    def _table(self, code: Apply, following: str | None) -> str:
        node: Json = code.table.json
        before = (node.get("next_tables"), node.get("base_default_next")) if node["name"] in self.nodes else None
        node["base_default_next"] = following
        if code.hit is not None or code.miss is not None:
            hit, miss = self._list(code.hit or [], following), self._list(code.miss or [], following)
            node["next_tables"] = {"__HIT__": hit, "__MISS__": miss} if hit != miss else self._same(node, hit)
            node["base_default_next"] = None if hit != miss else hit
        elif code.actions or code.otherwise is not None:
            other = self._list(code.otherwise, following) if code.otherwise is not None else following
            node["base_default_next"] = other
            next_tables: dict[str, str | None] = {}
            for number, name in enumerate(node["actions"]):
                body = code.actions.get(number)
                next_tables[name] = self._list(body, following) if body is not None else other
            node["next_tables"] = next_tables
        else:
            node["next_tables"] = self._same(node, following)
        if before is not None and before != (node["next_tables"], node["base_default_next"]):
            message = f"the table {node['name']!r} is applied in two places, and something else follows each"
            raise SourceFault(code.at, message, "The target has one next step for a table: declare a second table.")
        self.nodes[node["name"]] = node
        return str(node["name"])

    @staticmethod
    def _same(node: Json, following: str | None) -> dict[str, str | None]:
        return dict.fromkeys(node["actions"], following)


def _empty(codes: Sequence[LoweredCode]) -> bool:
    """Returns whether steps do nothing."""
    return all(
        isinstance(code, Leave) or (isinstance(code, Labelled | Branch) and all(map(_empty, code.parts)))
        for code in codes
    )


def _following(node: Json) -> list[str | None]:
    if "key" in node:
        return [*node["next_tables"].values(), node["base_default_next"]]
    return [node["true_next"], node["false_next"]]
