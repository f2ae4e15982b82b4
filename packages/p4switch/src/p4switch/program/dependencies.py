"""Data and control dependencies between the statements of a pipeline.

The statements are those of the actions in sequence, with table matches and the conditions of controls between them.
Data dependencies follow from reaching definitions, control dependencies from postdominators (Ferrante, Ottenstein and
Warren 1987).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from p4switch.program import program as model
from p4switch.program.errors import SourceInfo

Fields = frozenset[str]
_NONE: Final[Fields] = frozenset()


@dataclass
class Site:
    """A match, a branch or a statement of a pipeline; ``then``: the sites that may follow."""

    kind: str
    """match, call (a table without a key), branch, step, or end of the pipeline"""
    reads: Fields = _NONE
    writes: Fields = _NONE
    cost: int = 0
    """Stages until the result is ready; for a branch, until its condition is evaluated."""
    operations: int = 0
    """Length of the longest chain of operations."""
    source: SourceInfo | None = None
    array: str = ""
    """The register or counter that the site accesses."""
    reading: bool = False
    index: model.Expr | None = None
    moves: bool = False
    """Whether the site copies bits of fields."""
    sure: bool = True
    """Whether the site writes all fields that it may write."""
    table: str = ""
    width: int = 0
    """Largest width in bits that the site adds or compares by size."""
    then: list[int] = field(default_factory=list)

    @property
    def where(self) -> str:
        """``file:line``, or the table's name if the line is unknown."""
        return str(self.source) if self.source is not None else self.table


class Reads:
    """Finds the fields that expressions of a program read, as ``header.field``."""

    def __init__(self, program: model.Program) -> None:
        self._all = {
            name: frozenset([f"{name}.$valid$", *(f"{name}.{member.name}" for member in header.type.fields)])
            for name, header in program.headers.items()
        }
        self.program = program

    def header(self, name: str) -> Fields:
        """Returns all fields of a header, and its validity."""
        return self._all[name]

    def of(self, *exprs: model.Expr | None) -> Fields:
        """Returns the fields that expressions read."""
        fields: set[str] = set()
        for expr in exprs:
            for node in model.walk(expr) if expr is not None else ():
                if isinstance(node, model.FieldRef):
                    fields.add(str(node))
                elif isinstance(node, model.Valid):
                    fields.add(f"{node.header}.$valid$")
                elif isinstance(node, model.HeaderEqual):
                    fields |= self._all[node.left] | self._all[node.right]
        return frozenset(fields)


def _operations(expr: model.Expr) -> int:
    """Returns the length of the longest chain of operations; shifts and masks by constants cost none."""
    inner = max((_operations(child) for child in model.children(expr)), default=0)
    if isinstance(expr, model.Arith):
        moves = expr.op in {"&", "|", "<<", ">>"} and any(
            isinstance(operand, model.Const) for operand in (expr.left, expr.right)
        )
        joins = expr.op == "|" and all(isinstance(operand, model.Arith) for operand in (expr.left, expr.right))
        return inner + (not moves and not joins)
    if isinstance(expr, model.Select):
        return inner + 1
    if isinstance(expr, model.Compare):
        plain = any(isinstance(operand, model.Const) for operand in (expr.left, expr.right)) or expr.op in {"==", "!="}
        return inner + (not plain)  # of two fields: a subtraction and its sign
    return inner


def _has_data(expr: model.Expr) -> bool:
    """Returns whether the expression contains an entry's parameter."""
    return any(isinstance(node, model.Parameter) for node in model.walk(expr))


def _width(expr: model.Expr) -> int:
    """Returns the largest width in bits that an expression adds, subtracts or compares by size."""
    most = 0
    for node in model.walk(expr):
        sized = isinstance(node, model.Compare) and node.op in {"<", "<=", ">", ">="}
        if sized or (isinstance(node, model.Arith) and node.op in {"+", "-", "*"}):
            most = max([most, *map(_bits_of, model.children(node))])
    return most


def _bits_of(expr: model.Expr) -> int:
    """Returns the bits of an expression's value, from its casts, masks and fields; 0 if they are unknown."""
    if isinstance(expr, model.FieldRef | model.Parameter | model.Cast):
        return expr.width
    if isinstance(expr, model.Arith) and isinstance(expr.right, model.Const):
        left, number = _bits_of(expr.left), expr.right.value
        if expr.op == "&" and number >= 0:
            return min(left, number.bit_length()) if left else number.bit_length()
        if expr.op in {"<<", ">>"}:
            return max(0, left + (number if expr.op == "<<" else -number))
    return max(map(_bits_of, model.children(expr)), default=0)


class SiteGraph:
    """The sites of one pipeline, and their order."""

    def __init__(self, reads: Reads, pipeline: model.Pipeline) -> None:
        self._reads, self._program = reads, reads.program
        self.sites: list[Site] = []
        self.entry: dict[str, int] = {}
        """By node of the pipeline: its first site."""
        self.end = self._add(Site("end"))
        for name, node in pipeline.nodes.items():
            self.entry[name] = len(self.sites)
            if isinstance(node, model.Conditional):
                self._add(self._branch(node.condition, node.source))
            else:
                self._add(Site("match" if node.keys else "call", reads.of(*(key.target for key in node.keys)),
                               source=node.source, table=name))  # fmt: skip
        for name, node in pipeline.nodes.items():
            at = self.entry[name]
            if isinstance(node, model.Conditional):
                self.sites[at].then = self._nodes(node.following)
            else:
                self._actions(node, at)
        self.start = self.end if pipeline.start is None else self.entry[pipeline.start]

    def _branch(self, condition: model.Expr, source: SourceInfo | None, table: str = "") -> Site:
        worked = _operations(condition)
        read, width = self._reads.of(condition), _width(condition)
        return Site("branch", read, cost=worked, operations=worked, source=source, table=table, width=width)

    def _add(self, site: Site) -> int:
        self.sites.append(site)
        return len(self.sites) - 1

    def _nodes(self, names: Iterable[str | None]) -> list[int]:
        return list(dict.fromkeys(self.end if name is None else self.entry[name] for name in names))

    def _actions(self, table: model.MatchTable, at: int) -> None:
        then = self.sites[at].then
        chosen = range(len(table.actions))
        if not table.keys and table.default_action is not None:
            chosen = range(table.default_action, table.default_action + 1)
        for number in chosen:
            after = (table.next_hit, table.next_miss) if table.splits_on_hit else (table.next_by_action[number],)
            first = self._action(table, number, self._nodes(after))
            then += [site for site in first if site not in then]
        if table.keys and table.default_action is None:
            then += [site for site in self._nodes((table.next_miss,)) if site not in then]

    def _action(self, table: model.MatchTable, number: int, after: list[int]) -> list[int]:
        """Adds the sites of an action; returns its first sites, or those that follow the action if it has none."""
        primitives = self._program.actions[table.actions[number]].primitives
        if any(isinstance(step, model.Exit) for step in primitives):
            after = list(dict.fromkeys([*after, self.end]))
        begins: list[list[int]] = []
        ends: list[int] = []
        for primitive in primitives:
            chain = [self._add(site) for site in self._sites(primitive, table.name)]
            for a, b in pairwise(chain):
                self.sites[a].then.append(b)
            begins.append(chain[:1])
            ends.append(chain[-1] if chain else -1)

        def reach(place: int) -> list[int]:
            while place < len(primitives):
                if begins[place]:
                    return begins[place]
                skipped = primitives[place]
                place = skipped.to if isinstance(skipped, model.Jump) else place + 1
            return after

        for place, primitive in enumerate(primitives):
            if ends[place] < 0:
                continue
            follows = [place + 1] + ([primitive.to] if isinstance(primitive, model.JumpIfZero) else [])
            then = self.sites[ends[place]].then
            then += [site for to in follows for site in reach(to) if site not in then]
        return reach(0)

    def _sites(self, primitive: model.Primitive, table: str) -> Iterator[Site]:
        """Yields the sites of a primitive with their reads and writes; none for jumps."""
        reads, source = self._reads, getattr(primitive, "source", None)

        def step(read: Fields, *written: str | Fields, cost: int = 1) -> Site:
            names = _NONE.union(*({target} if isinstance(target, str) else target for target in written))
            return Site("step", read, names, cost, source=source, table=table)

        match primitive:
            case model.Several(primitives=several):
                for part in several:
                    yield from self._sites(part, table)
            case model.OneOf(cases=cases):
                inner = [site for _, choice in cases for site in self._sites(choice, table)]
                read = reads.of(*(condition for condition, _ in cases)).union(*(part.reads for part in inner))
                site = step(read, *(part.writes for part in inner))
                site.sure = False
                yield site
            case model.Assign(target=to, value=value):
                site = step(reads.of(value), str(to), cost=max(1, _operations(value)))
                site.operations, site.width = _operations(value), _width(value)
                site.moves = not site.operations and bool(site.reads) and not _has_data(value)
                yield site
            case model.AssignHeader(target=name, origin=origin):
                yield step(reads.header(origin), reads.header(name))
            case model.AddHeader(header=name):
                yield step(_NONE, reads.header(name))
            case model.RemoveHeader(header=name):
                yield step(_NONE, f"{name}.$valid$")
            case model.MoveHeaders(targets=names, origins=origins, cleared=cleared):
                yield step(_NONE.union(*map(reads.header, origins)), *map(reads.header, (*names, *cleared)))
            case model.MarkToDrop(header=name):
                yield step(_NONE, f"{name}.egress_spec", f"{name}.mcast_grp")
            case model.RegisterRead(target=to, register=name, index=index):
                site = step(reads.of(index), str(to))
                site.array, site.reading, site.index = name, True, index
                yield site
            case model.RegisterWrite(register=name, index=index, value=value):
                site = step(reads.of(index, value))
                site.array, site.index, site.operations, site.width = name, index, _operations(value), _width(value)
                yield site
            case model.Count(counter=name, index=index):
                site = step(reads.of(index))
                site.array, site.index = name, index
                yield site
            case model.Hash(target=to, base=base, size=size, calculation=calculation):
                inputs = self._program.calculations[calculation].inputs
                read = reads.of(base, size, *(part.field for part in inputs if isinstance(part, model.FieldInput)))
                whole = (reads.header(part.header) for part in inputs if isinstance(part, model.HeaderInput))
                yield step(read.union(*whole), str(to))
            case model.Random(target=to, low=low, high=high):
                yield step(reads.of(low, high), str(to))
            case model.ExecuteMeter(target=to, index=index):
                yield step(reads.of(index), str(to))
            case model.JumpIfZero(condition=condition):
                yield self._branch(condition, source, table)
            case model.Clone(session=value) | model.Truncate(length=value):
                yield step(reads.of(value), cost=0)
            case model.GenerateDigest(learn_list=number):
                yield step(reads.of(*self._program.learn_lists[number].fields), cost=0)
            case model.Jump() | model.Exit() | model.LogMessage() | model.Assertion():
                return
            case _:
                yield step(_NONE, cost=0)

    def order(self) -> list[int]:
        """Returns the reachable sites, each after its predecessors (back edges of loops in actions are ignored)."""
        seen: set[int] = set()
        postorder: list[int] = []
        stack = [(self.start, False)]
        while stack:
            at, leaves = stack.pop()
            if leaves:
                postorder.append(at)
            elif at not in seen:
                seen.add(at)
                stack.append((at, True))
                stack += [(following, False) for following in self.sites[at].then if following not in seen]
        return postorder[::-1]


@dataclass
class Dataflow:
    """The dependencies of one pipeline. Integers serve as sets: bit n stands for site or definition number n."""

    graph: SiteGraph
    order: list[int]
    data: dict[int, set[int]] = field(default_factory=dict)
    """By site: the sites whose results it uses."""
    control: dict[int, set[int]] = field(default_factory=dict)
    """By site: the branches and matches that decide whether it runs."""
    reach: dict[int, int] = field(default_factory=dict)
    """By site: a bit for each site that may follow it."""
    looped: set[int] = field(default_factory=set)
    """Sites that a packet may reach several times."""
    live_bits: int = 0
    """Largest number of bits of fields that are needed at one time."""
    _came: dict[int, int] = field(default_factory=dict)
    _of_field: dict[str, int] = field(default_factory=dict)
    _site_of: list[int] = field(default_factory=list)

    @classmethod
    def of(cls, graph: SiteGraph, widths: Mapping[str, int], kept: Fields) -> "Dataflow":
        """Computes the dependencies of a graph.

        ``widths``: bits of each field; ``kept``: fields that are needed after the pipeline.
        """
        flow = cls(graph, graph.order())
        flow._define()
        flow._decide()
        flow._loop()
        flow._live(widths, kept)
        return flow

    def defines(self, at: int, read: Fields) -> int:
        """Returns a bit for each definition of these fields that may reach a site."""
        return sum(self._came[at] & self._of_field.get(name, 0) for name in sorted(read))

    def passes_on(self, copy: int, user: int) -> bool:
        """Returns whether a user of a copy may use the original instead: this copy reaches it on every path."""
        site = self.graph.sites[copy]
        return site.moves and all(
            self._site_of[bit] == copy
            for name in site.writes & self.graph.sites[user].reads
            for bit in _bits(self._came[user] & self._of_field[name])
        )

    def _define(self) -> None:
        sites, place = self.graph.sites, {at: number for number, at in enumerate(self.order)}
        pairs = [(at, name) for at in self.order for name in sorted(sites[at].writes)]
        own = {pair: 1 << number for number, pair in enumerate(pairs)}
        self._site_of = [at for at, _ in pairs]
        for pair, bit in own.items():
            self._of_field[pair[1]] = self._of_field.get(pair[1], 0) | bit
        came = dict.fromkeys(self.order, 0)
        again = True
        while again:
            again = False
            for at in self.order:
                out = came[at]
                for name in sites[at].writes:
                    out = (out & ~self._of_field[name] if sites[at].sure else out) | own[at, name]
                for following in sites[at].then:
                    again |= bool(out & ~came[following]) and place[following] <= place[at]  # a loop
                    came[following] |= out
        self._came = came
        for at in self.order:
            self.data[at] = set()
            for name in sites[at].reads:
                self.data[at].update(self._site_of[bit] for bit in _bits(came[at] & self._of_field.get(name, 0)))

    def _decide(self) -> None:
        sites = self.graph.sites
        follows: dict[int, int] = {}
        self.control = {at: set() for at in self.order}
        for at in reversed(self.order):
            then = [later for later in sites[at].then if later in follows]
            common = follows[then[0]] if then else 0
            self.reach[at] = 0
            for following in then:
                common &= follows[following]
                self.reach[at] |= self.reach[following] | 1 << following
            follows[at] = common | 1 << at
        for at in self.order:
            for following in sites[at].then:
                for decided in _bits(follows.get(following, 0) & ~(follows[at] & ~(1 << at))):
                    self.control[decided].add(at)
        for at in self.order:
            table = self.graph.entry.get(sites[at].table) if sites[at].kind in {"step", "branch"} else None
            if table is not None and sites[table].kind == "match":
                self.control[at].add(table)
            self.control[at].discard(at)

    def _loop(self) -> None:
        place = {at: number for number, at in enumerate(self.order)}
        for at in self.order:
            for following in self.graph.sites[at].then:
                if place[following] <= place[at]:  # a back edge to the beginning of a loop
                    around = self.order[place[following] : place[at] + 1]
                    after = self.reach[following] | 1 << following
                    self.looped |= {x for x in around if after >> x & 1 and (x == at or self.reach[x] >> at & 1)}

    def _live(self, widths: Mapping[str, int], kept: Fields) -> None:
        sites = self.graph.sites
        live: dict[int, Fields] = {self.graph.end: kept}
        for at in reversed(self.order):
            out = (
                _NONE.union(*(live[following] for following in sites[at].then if following in live))
                if at != self.graph.end
                else kept
            )
            live[at] = (out - sites[at].writes if sites[at].sure else out) | sites[at].reads
            if sites[at].kind != "step":
                self.live_bits = max(self.live_bits, sum(widths.get(name, 0) for name in live[at]))


def _bits(number: int) -> Iterator[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


def components(nodes: Sequence[int], before: Mapping[int, set[int]]) -> list[list[int]]:
    """Returns strongly connected components (Tarjan 1972); each comes after those that it depends on."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    ordered: list[list[int]] = []
    for root in nodes:
        if root in index:
            continue
        work: list[tuple[int, Iterator[int]]] = [(root, iter(sorted(before[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            at, rest = work[-1]
            for node in rest:
                if node not in index:
                    index[node] = low[node] = len(index)
                    stack.append(node)
                    on_stack.add(node)
                    work.append((node, iter(sorted(before[node]))))
                    break
                if node in on_stack:
                    low[at] = min(low[at], index[node])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[at])
                if low[at] == index[at]:
                    component = []
                    while True:
                        node = stack.pop()
                        on_stack.discard(node)
                        component.append(node)
                        if node == at:
                            break
                    ordered.append(component)
    return ordered
