"""Pipelines: tables and conditionals, each with what follows it."""

from collections.abc import Callable, Sequence

from p4reduce.frontend.diagnostics import SourceFault, Unexpected
from p4reduce.frontend.lower.code import Apply, Branch, Code, Do, Invoke, Labelled, Leave, Stop
from p4reduce.frontend.lower.sourceinfo import SourceInfo
from p4reduce.frontend.lower.values import Json, operation

AddAction = Callable[[str, list[Json], list[Code], list[Code], object, object], Json]


class PipelineLayout:
    """Lays out ingress or egress, from the last step to the first: what follows must be known.

    Attributes:
        names: taken by tables, actions and nodes of the whole program.
    """

    def __init__(self, info: SourceInfo, add_action: AddAction, names: set[str]) -> None:
        self.info = info
        self.add_action = add_action
        self.names = names
        self.nodes: dict[str, Json] = {}
        self._labels: dict[object, str | None] = {None: None}
        self._known: dict[tuple[int, str | None], str | None] = {}
        self._keep: list[object] = []

    def run(self, body: Sequence[Code], tables: Sequence[Json]) -> tuple[str | None, list[Json], list[Json]]:
        """The first node, the tables and the conditionals."""
        first = self._list(body, None)
        order: dict[str | None, None] = {None: None}
        # A table that no packet reaches is still there for the control plane, and with it what it leads to.
        for begin in (first, *(table["name"] for table in tables if table["name"] in self.nodes)):
            stack = [begin]
            while stack:
                name = stack.pop()
                if name is not None and name not in order:
                    order[name] = None
                    stack += reversed(_following(self.nodes[name]))
        found = [self.nodes[name] for name in order if name is not None]
        found += [table for table in tables if table["name"] not in self.nodes]
        return first, [n for n in found if "key" in n], [n for n in found if "key" not in n]

    def _list(self, codes: Sequence[Code], following: str | None) -> str | None:
        memo = (id(codes), following)
        if memo in self._known:
            return self._known[memo]
        self._keep.append(codes)
        node = following
        at = len(codes)
        while at > 0:
            begin = at
            while begin > 0 and isinstance(codes[begin - 1], Do):
                begin -= 1
            if begin < at:
                node = self._hidden(list(codes[begin:at]), node)
                at = begin
            else:
                at -= 1
                node = self._code(codes[at], node)
        self._known[memo] = node
        return node

    def _code(self, code: Code, following: str | None) -> str | None:
        match code:
            case Branch():
                yes, no = self._list(code.yes, following), self._list(code.no, following)
                return yes if yes == no else self._conditional(code, yes, no)
            case Labelled():
                self._labels[code.label] = following
                return self._list(code.body, following)
            case Leave():
                return self._labels[code.label]
            case Stop():
                return None
            case Invoke():
                return self._invoked(code, following)
            case Apply():
                return self._table(code, following)
        raise Unexpected

    def _unique(self, name: str) -> str:
        found, count = name, 0
        while found in self.names:
            found = f"{name}_{count}"
            count += 1
        self.names.add(found)
        return found

    def _conditional(self, code: Branch, yes: str | None, no: str | None) -> str:
        name = self._unique(f"node_{len(self.names)}")
        condition = code.condition
        if condition["type"] == "field":
            condition = operation("d2b", None, condition)
        node: Json = {"name": name, "id": 0, "expression": condition, "true_next": yes, "false_next": no}
        self.info.put(node, code)
        self.nodes[name] = node
        return name

    def _hidden(self, codes: list[Code], following: str | None) -> str:
        """Primitives outside of any action, as an action of a table without keys."""
        first = codes[0]
        name = self._unique(self.info.stem(first.at))
        return self._keyless(f"tbl_{name}", name, codes, first, following)

    def _invoked(self, code: Invoke, following: str | None) -> str | None:
        if _empty(code.body):
            return following
        short = code.name.split(".", 1)[-1].replace(".", "_")
        return self._keyless(self._unique(f"tbl_{short}"), code.name, code.body, code, following)

    def _keyless(self, table: str, action: str, codes: list[Code], at: Code, following: str | None) -> str:
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
            found: dict[str, str | None] = {}
            for number, name in enumerate(node["actions"]):
                body = code.actions.get(number)
                found[name] = self._list(body, following) if body is not None else other
            node["next_tables"] = found
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


def _empty(codes: Sequence[Code]) -> bool:
    """Whether steps do nothing."""
    for code in codes:
        match code:
            case Labelled() if _empty(code.body):
                continue
            case Leave():
                continue
            case Branch() if _empty(code.yes) and _empty(code.no):
                continue
        return False
    return True


def _following(node: Json) -> list[str | None]:
    if "key" in node:
        return [*node["next_tables"].values(), node["base_default_next"]]
    return [node["true_next"], node["false_next"]]
