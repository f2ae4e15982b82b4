"""Parsers: states with operations and transitions."""

from collections.abc import Callable, Sequence

from p4reduce.frontend.diagnostics import Unexpected
from p4reduce.frontend.lower.code import Branch, Code, Do, Graph, Invoke, Labelled, Leave, Step
from p4reduce.frontend.lower.places import FieldPlace
from p4reduce.frontend.lower.sourceinfo import SourceInfo
from p4reduce.frontend.lower.values import Json, as_data, as_parameter

_OPERATIONS = ("extract", "extract_VL", "advance", "verify")


class ParserLayout:
    """Lays out the parser; ``temporary`` gives a field of one bit."""

    def __init__(self, info: SourceInfo, temporary: Callable[[], FieldPlace]) -> None:
        self.info = info
        self.temporary = temporary
        self.states: list[Json] = []
        self._names: set[str] = set()
        self._labels: dict[object, str] = {}

    def run(self, codes: Sequence[Code]) -> tuple[str, list[Json]]:
        """The first state and all states."""
        graph = codes[-1] if codes else None
        if isinstance(graph, Graph) and len(codes) == 1:
            return self._graph(graph, None), self.states
        entry = self._state("start_of_parser")
        last = self._list(codes, entry)
        if last is not None:
            self._always(last, None)
        return entry["name"], self.states

    def _state(self, name: str) -> Json:
        unique, count = name, 0
        while unique in self._names:
            unique = f"{name}_{count}"
            count += 1
        self._names.add(unique)
        state: Json = {
            "name": unique,
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

    def _graph(self, graph: Graph, accept: str | None) -> str:
        states = {name: self._state(graph.prefix + name) for name in graph.steps}
        names = {name: str(state["name"]) for name, state in states.items()}
        for name, step in graph.steps.items():
            self._step(step, states[name], names, accept)
        return str(states[graph.first]["name"])

    def _step(self, step: Step, state: Json, names: dict[str, str], accept: str | None) -> None:
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

    def _list(self, codes: Sequence[Code], state: Json) -> Json | None:
        """Runs steps from a state on; the state in which they end, None if they never do."""
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
                case Leave():
                    self._always(current, self._labels[code.label])
                    current = None
                case Invoke():
                    current = self._list(code.body, current)
                case Graph():
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
        condition = as_parameter(as_data(code.condition, True))
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


def _leaves(codes: Sequence[Code], label: object) -> bool:
    """Whether steps go to a label."""
    for code in codes:
        match code:
            case Leave() if code.label is label:
                return True
            case Branch() if _leaves(code.yes, label) or _leaves(code.no, label):
                return True
            case Labelled() | Invoke() if _leaves(code.body, label):
                return True
    return False


def _default(following: str | None) -> Json:
    return {"type": "default", "value": None, "mask": None, "next_state": following}


def _hexstr(keys: Sequence[tuple[int, int]], widths: Sequence[int], following: str | None) -> Json:
    """A value and a mask for keys that are joined, each padded to whole bytes."""
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
