"""Estimates whether a program fits a match-action pipeline, without a vendor's compiler.

Each stage of a target has its own memory and arithmetic (Bosshart et al., SIGCOMM 2013). The keys of a stage and the
operands of its actions must be known when the stage begins, so tables depend on each other by match, by action and by
control (Jose et al., NSDI 2015, section 3). This module finds dependencies between statements. A statement runs in a
later stage than those whose results it uses; each operation of an expression takes a stage, copies take none.
Statements under a branch run in the branch's stage at the earliest. Dependencies that renaming would remove (a field
that is written again) do not count, and memory is packed without gaps, so depth and blocks are lower bounds. The number
of stages under the target's limits comes from a list schedule.

A register is in one stage, and a packet accesses it once: read, compare, compute, write. So all accesses of a register
are one node of the graph. If the graph then has a cycle, no single pass can run the program.
"""

import os
import subprocess
import tempfile
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from heapq import heapify, heappop, heappush
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from p4switch.base.errors import InputError
from p4switch.program import program as model
from p4switch.program.dependencies import Dataflow, Fields, Reads, Site, SiteGraph, components

# Targets, from a table in a file.


class FitsError(InputError, ValueError):
    """An unknown target, or a compiler that cannot be run."""


@dataclass(frozen=True)
class SwitchTarget:
    """The resources of a target; ``targets.toml`` explains each field."""

    name: str
    title: str
    stages: int
    tables: int
    sram_blocks: int
    sram_words: int
    sram_bits: int
    tcam_blocks: int
    tcam_words: int
    tcam_bits: int
    register_units: int
    register_bits: int
    register_compares: int
    register_operations: int
    counter_units: int
    phv_bits: int
    alu_bits: int
    sources: tuple[str, ...]


@cache
def targets() -> dict[str, SwitchTarget]:
    """Returns all targets by name."""
    tables = tomllib.loads(files("p4switch.program").joinpath("targets.toml").read_text("utf-8"))
    return {
        name: SwitchTarget(name, **{**fields, "sources": tuple(fields["sources"])}) for name, fields in tables.items()
    }


def target_of(name: str) -> SwitchTarget:
    """Returns a target by its name. Raises `FitsError`."""
    if name not in targets():
        raise FitsError(f"target: {name!r} is none of {', '.join(targets())}")
    return targets()[name]


# Results.


@dataclass(frozen=True)
class PassProblem:
    """A reason why the program does not fit a single pass, and the statements that cause it."""

    what: str
    where: tuple[str, ...]
    """``file:line`` of each statement that is involved."""


@dataclass(frozen=True)
class TableUse:
    """The memory of a table with a key."""

    name: str
    kind: str
    key_bits: int
    keys: tuple[str, ...]
    entries: int
    data_bits: int
    sram_blocks: int
    tcam_blocks: int
    stage: int
    where: str


@dataclass(frozen=True)
class ArrayUse:
    """The memory of a register or counter, and its accesses."""

    name: str
    kind: str
    cells: int
    bits: int
    units: int
    """Arithmetic units that its cells take."""
    sram_blocks: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    """``file:line`` of each access."""
    stage: int
    one_access: bool
    """Whether a packet accesses the array at most once, as the target requires."""


@dataclass(frozen=True)
class PipelineUse:
    """The stages and resources of ingress or egress."""

    name: str
    depth: int
    """Number of stages if each stage had unlimited resources."""
    stages: int
    """Number of stages with the target's resources in each stage."""
    chain: tuple[str, ...]
    """Statements of a longest chain, each with its stage: ``file:line``."""
    actions: int
    """Number of action calls outside tables, which also take logical tables."""
    live_bits: int
    """Largest number of bits of headers and metadata that are needed at one time."""
    tables: tuple[TableUse, ...]
    arrays: tuple[ArrayUse, ...]
    problems: tuple[PassProblem, ...]


@dataclass(frozen=True)
class FitReport:
    """A program compared with a target."""

    program: str
    target: SwitchTarget
    parser_states: int
    parser_transitions: int
    header_bits: int
    metadata_bits: int
    """Bits of the metadata fields that are used."""
    pipelines: tuple[PipelineUse, ...]

    @property
    def fits(self) -> bool:
        """Whether no problem was found."""
        return not any(pipeline.problems for pipeline in self.pipelines)

    def as_json(self) -> dict[str, Any]:
        """Returns the report as plain data."""
        return asdict(self) | {"fits": self.fits}


# A pipeline compared with a target: problems that no order of stages solves, then stages and memory.


MOST_PLACES: Final = 12
"""maximum number of places that are listed for a problem"""
COUNTER_BITS: Final = 64
"""bits of a counter's cell: packets and bytes"""


def _places(sites: Iterable[Site]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(site.where for site in sites if site.where))[:MOST_PLACES]


def _blocks(entries: int, bits: int, target: SwitchTarget) -> int:
    """Returns SRAM blocks without gaps: several entries fill a word, or an entry takes several words."""
    if bits <= target.sram_bits:
        return -(-entries // (target.sram_words * (target.sram_bits // max(1, bits))))
    return -(-entries // target.sram_words) * -(-bits // target.sram_bits)


class _Judge:
    """Judges one pipeline. A group is a statement, or all accesses of an array with the statements in their stage."""

    def __init__(self, reads: Reads, pipeline: model.Pipeline, target: SwitchTarget, flow: Dataflow) -> None:
        self._reads, self._program, self._target, self._flow = reads, reads.program, target, flow
        self._pipeline, self._sites = pipeline, flow.graph.sites
        self._order = [at for at in flow.order if at != flow.graph.end]
        self._problems: list[PassProblem] = []
        self._accesses: dict[str, list[int]] = defaultdict(list)
        for at in self._order:
            if self._sites[at].array:
                self._accesses[self._sites[at].array].append(at)
        self._apart: set[str] = set()  # arrays with accesses in several stages
        self._group: dict[int, int] = {}
        self._waits: dict[int, dict[int, int]] = {}  # by group: distance in stages from each group that it waits for
        self._takes: dict[int, int] = {}  # stages of a group

    def judge(self) -> PipelineUse:
        """Returns the whole result for the pipeline."""
        for name, accesses in self._accesses.items():
            self._check_paths(name, accesses)
        self._check_cycles()
        self._check_widths()
        self._relate()
        levels, chain = self._levels()
        depth = max((levels[own] + self._takes[own] for own in levels), default=0)
        placed, stages = self._placed(levels)
        target, flow = self._target, self._flow
        if stages > target.stages:
            what = f"{self._pipeline.name} takes {stages} stages, the target has {target.stages}"
            self._problems.append(PassProblem(what, chain[-MOST_PLACES:]))
        if flow.live_bits > target.phv_bits:
            what = f"{flow.live_bits:,} bits of headers and metadata are needed at one time"
            self._problems.append(PassProblem(f"{what}, the target has {target.phv_bits:,}", ()))
        return PipelineUse(
            name=self._pipeline.name,
            depth=depth,
            stages=stages,
            chain=chain,
            actions=sum(self._sites[at].kind == "call" for at in self._order),
            live_bits=flow.live_bits,
            tables=tuple(self._table(at, placed[at]) for at in self._order if self._sites[at].kind == "match"),
            arrays=tuple(self._array(name, placed) for name in sorted(self._accesses)),
            problems=tuple(self._problems),
        )

    # --- arrays: one access for each packet, in one stage

    def _check_paths(self, name: str, accesses: Sequence[int]) -> None:
        """Finds two accesses on one path, except a read followed by a write of the same cell."""
        pairs = []
        for a in accesses:
            for b in accesses:
                if self._flow.reach[a] >> b & 1 or (a == b and a in self._flow.looped):
                    first, other = self._sites[a], self._sites[b]
                    again = a in self._flow.looped
                    updates = first.reading and not other.reading and self._cell(a) == self._cell(b) and not again
                    pairs += [] if updates else [(first, other)]
        if pairs:
            self._apart.add(name)
            kind = "register" if name in self._program.registers else "counter"
            what = f"{kind} {name}: some paths access it more than once, or two cells of it"
            self._problems.append(PassProblem(what, _places(site for pair in pairs for site in pair)))

    def _cell(self, at: int) -> tuple[object, int]:
        index = self._sites[at].index
        return index, self._flow.defines(at, self._reads.of(index))

    def _check_cycles(self) -> None:
        """Finds cycles of dependencies, with all accesses of an array as one group.

        The arrays of a cycle then count as accessed in several stages; the search ends when it finds no further array.
        """
        flow = self._flow
        while True:
            group = {at: at for at in self._order}
            for name, accesses in self._accesses.items():
                if name not in self._apart:
                    group |= dict.fromkeys(accesses, accesses[0])
            before: dict[int, set[int]] = {group[at]: set() for at in self._order}
            for at in self._order:
                before[group[at]] |= {group[earlier] for earlier in (*flow.data[at], *flow.control[at])} - {group[at]}
            loops: list[PassProblem] = []
            grown = False
            for component in components(list(before), before):
                inside = set(component)
                members = [at for at in self._order if group[at] in inside]
                arrays = sorted({self._sites[at].array for at in members} - self._apart - {""})
                problem = self._between(arrays, members) if arrays or len(component) > 1 else None
                if problem is not None and arrays:
                    self._problems.append(problem)
                    self._apart |= set(arrays)
                    grown = True
                elif problem is not None:
                    loops.append(problem)
                group |= dict.fromkeys(members, component[0])
            if not grown:
                self._problems += loops
                self._group = group
                return

    def _between(self, arrays: Sequence[str], members: Sequence[int]) -> PassProblem | None:
        """Returns a problem if the operations between reading and writing a cell exceed one stage of the target."""
        target, sites, flow = self._target, self._sites, self._flow
        if not arrays:
            return PassProblem(
                "statements in a loop need what they computed before", _places(sites[at] for at in members)
            )
        derived: dict[int, int] = {}  # operations since the read
        for at in members:
            if sites[at].reading:
                derived[at] = 0
            before = [derived[earlier] for earlier in (*flow.data[at], *flow.control[at]) if earlier in derived]
            if before and not sites[at].reading:
                derived[at] = max(before) + sites[at].operations
        inner = [at for at in derived if not sites[at].array]
        ends = [at for at in members if sites[at].array]
        places = _places(sites[at] for at in sorted([*ends[:6], *inner[: MOST_PLACES - 6]]))
        if len(arrays) > 1:
            return PassProblem(f"registers {', '.join(arrays)}: each waits for what another one holds", places)
        what = f"register {arrays[0]} is written in a later stage than it is read: in between"
        matches = [sites[at].table for at in inner if sites[at].kind == "match"]
        if matches:
            return PassProblem(f"{what}, the table {matches[0]} is looked up", places)
        branches = sum(sites[at].kind == "branch" for at in inner)
        if branches > target.register_compares:
            return PassProblem(
                f"{what}, {branches} conditions are decided; a stage decides {target.register_compares}", places
            )
        most = max(derived.values(), default=0)
        if most > target.register_operations:
            return PassProblem(
                f"{what}, {most} operations follow each other; a stage has {target.register_operations}", places
            )
        return None

    def _check_widths(self) -> None:
        target = self._target
        for name in sorted(self._accesses):
            register = self._program.registers.get(name)
            if register is not None and register.width > target.register_bits:
                count = -(-register.width // target.register_bits)
                what = (
                    f"register {name} has cells of {register.width:,} bits, the target's have {target.register_bits}: "
                )
                self._problems.append(PassProblem(f"{what}it takes {count} registers", (str(register.source or name),)))
        wide = [self._sites[at] for at in self._order if self._sites[at].width > target.alu_bits]
        if wide:
            most = max(site.width for site in wide)
            what = f"additions and comparisons of up to {most:,} bits; the target's have {target.alu_bits}"
            self._problems.append(PassProblem(what, _places(wide)))

    # --- stages

    def _relate(self) -> None:
        """Computes how many stages each group waits for the groups whose results or decisions it uses."""
        flow, group = self._flow, self._group
        sizes = Counter(group.values())
        for at in self._order:
            own = group[at]
            self._waits.setdefault(own, {})
            # An array's group takes one stage; a statement takes one for each operation of its longest chain.
            takes = 1 if sizes[own] > 1 else self._sites[at].cost
            self._takes[own] = max(self._takes.get(own, 0), takes)
        for at in self._order:
            waits = self._waits[group[at]]
            for earlier in flow.data[at]:
                if group[earlier] != group[at]:
                    late = (
                        0
                        if sizes[group[earlier]] == 1 and flow.passes_on(earlier, at)
                        else max(1, self._takes[group[earlier]])
                    )
                    waits[group[earlier]] = max(waits.get(group[earlier], 0), late)
            for earlier in flow.control[at]:
                if group[earlier] != group[at]:
                    branches = self._sites[earlier].kind == "branch" and sizes[group[earlier]] == 1
                    late = self._takes[group[earlier]] if branches else int(sizes[group[earlier]] > 1)
                    waits[group[earlier]] = max(waits.get(group[earlier], 0), late)
        for own in self._takes:
            self._takes[own] = max(1, self._takes[own])

    def _ordered(self) -> list[int]:
        """Returns the groups, each after those that it waits for."""
        return [
            own for (own,) in components(list(self._waits), {group: set(waits) for group, waits in self._waits.items()})
        ]

    def _levels(self) -> tuple[dict[int, int], tuple[str, ...]]:
        """Returns the first possible stage of each group, and a longest chain."""
        levels: dict[int, int] = {}
        last: dict[int, int | None] = {}
        for own in self._ordered():
            levels[own], last[own] = 0, None
            for earlier, wait in self._waits[own].items():
                if levels[earlier] + wait > levels[own]:
                    levels[own], last[own] = levels[earlier] + wait, earlier
        at: int | None = max(levels, key=lambda own: (levels[own] + self._takes[own], -own), default=None)
        chain = []
        while at is not None:
            if self._sites[at].where:
                chain.append(f"stage {levels[at]}: {self._sites[at].where}")
            at = last[at]
        return levels, tuple(dict.fromkeys(chain[::-1]))

    def _placed(self, levels: Mapping[int, int]) -> tuple[dict[int, int], int]:
        """Returns the stage of each site and the number of stages under the target's limits, by a list schedule.

        Ready groups are placed by first possible stage, then by longest chain. Tables may continue in the next stage.
        """
        target = self._target
        after: dict[int, list[int]] = defaultdict(list)
        for own, waits in self._waits.items():
            for group in waits:
                after[group].append(own)
        height: dict[int, int] = {}
        for own in reversed(
            [own for (own,) in components(list(self._waits), {a: set(b) for a, b in self._waits.items()})]
        ):
            height[own] = max(
                (height[later] + self._waits[later][own] for later in after[own]), default=self._takes[own]
            )
        limits = {"tables": target.tables, "register": target.register_units, "counter": target.counter_units,
                  "sram": target.sram_blocks, "tcam": target.tcam_blocks}  # fmt: skip
        members: dict[int, list[int]] = defaultdict(list)
        for at in self._order:
            members[self._group[at]].append(at)
        room: dict[int, Counter[str]] = defaultdict(Counter)
        ends: dict[int, int] = {}
        left = {own: len(waits) for own, waits in self._waits.items()}
        ready = [(levels[own], -height[own], own) for own, count in left.items() if not count]
        heapify(ready)
        while ready:
            own = heappop(ready)[2]
            stage = max((ends[earlier] + wait for earlier, wait in self._waits[own].items()), default=0)
            needs = self._needs(members[own])
            arrays = "register" in needs or "counter" in needs
            while needs and not self._has_room(room[stage], needs, limits, whole=arrays):
                stage += 1
            last = stage
            for name, wanted in needs.items():
                at, rest = stage, wanted
                while rest > 0:
                    taken = min(rest, max(0, limits[name] - room[at][name]))
                    room[at][name] += taken
                    rest, last, at = rest - taken, max(last, at) if taken else last, at + 1
            ends[own] = last
            for group in after[own]:
                left[group] -= 1
                if not left[group]:
                    heappush(ready, (levels[group], -height[group], group))
        placed = {at: ends[self._group[at]] for at in self._order}
        return placed, max((ends[own] + self._takes[own] for own in ends), default=0)

    @staticmethod
    def _has_room(
        taken: Mapping[str, int], needs: Mapping[str, int], limits: Mapping[str, int], *, whole: bool
    ) -> bool:
        """Returns whether a group may begin in a stage; an array must fit whole unless it exceeds an empty stage."""
        for name, wanted in needs.items():
            splits = name in {"sram", "tcam"} and not whole
            least = 1 if splits else min(wanted, limits[name])
            if taken.get(name, 0) + least > limits[name]:
                return False
        return True

    def _needs(self, members: Sequence[int]) -> dict[str, int]:
        needs: Counter[str] = Counter()
        calls = sum(self._sites[at].kind == "call" for at in members)
        needs["tables"] = min(1, calls)  # all accesses of an array are in one action
        for at in members:
            site = self._sites[at]
            needs["tables"] += site.kind == "match"
            if site.kind == "match":
                table = self._table(at, 0)
                needs["sram"] += table.sram_blocks
                needs["tcam"] += table.tcam_blocks
        for name in sorted({self._sites[at].array for at in members if self._sites[at].array}):
            if self._accesses[name][0] not in members:
                continue  # an array with accesses in several stages counts at its first access
            array = self._array(name, {})
            needs[array.kind] += array.units
            needs["sram"] += array.sram_blocks
        return {name: count for name, count in needs.items() if count}

    # --- memory

    def _table(self, at: int, stage: int) -> TableUse:
        site, target = self._sites[at], self._target
        table = self._pipeline.tables[site.table]
        bits = sum(key.width for key in table.keys)
        actions = [self._program.actions[number] for number in table.actions]
        data = max((sum(parameter.width for parameter in action.parameters) for action in actions), default=0)
        data += max(1, (len(actions) - 1).bit_length())
        entries = max(1, table.max_size)
        if table.kind == "exact":
            sram, tcam = _blocks(entries, bits + data, target), 0
        else:
            sram, tcam = _blocks(entries, data, target), -(-entries // target.tcam_words) * -(-bits // target.tcam_bits)
        if table.direct_counter is not None:
            sram += _blocks(entries, COUNTER_BITS, target) + 1
        keys = tuple(f"{key.name}: {key.width} {key.kind}" for key in table.keys)
        return TableUse(table.name, table.kind, bits, keys, table.max_size, data, sram, tcam, stage, site.where)

    def _array(self, name: str, placed: Mapping[int, int]) -> ArrayUse:
        target, accesses = self._target, [self._sites[at] for at in self._accesses[name]]
        register = self._program.registers.get(name)
        if register is not None:
            kind, cells, bits = "register", register.size, register.width
            units = -(-bits // target.register_bits)
        else:
            kind, cells, bits, units = "counter", self._program.counters[name].size, COUNTER_BITS, 1
        sram = _blocks(cells, bits, target) + units  # and a spare block for each unit
        stage = min((placed[at] for at in self._accesses[name] if at in placed), default=0)
        reads = _places(site for site in accesses if site.reading)
        writes = _places(site for site in accesses if not site.reading)
        return ArrayUse(name, kind, cells, bits, units, sram, reads, writes, stage, name not in self._apart)


def judge(program: model.Program, target: SwitchTarget) -> FitReport:
    """Compares a program with a target."""
    reads = Reads(program)
    widths = {
        f"{name}.{field.name}": field.width for name, header in program.headers.items() for field in header.type.fields
    }
    widths |= {f"{name}.$valid$": 1 for name, header in program.headers.items() if not header.metadata}
    emitted: Fields = frozenset().union(*map(reads.header, program.deparser))
    uses, used = [], set[str]()
    for pipeline in (program.ingress, program.egress):
        flow = Dataflow.of(SiteGraph(reads, pipeline), widths, emitted)
        for at in flow.order:
            used |= flow.graph.sites[at].reads | flow.graph.sites[at].writes
        uses.append(_Judge(reads, pipeline, target, flow).judge())
    states = program.parser.states.values()
    extracted = set(program.deparser)
    for operation in (op for state in states for op in state.operations):
        if isinstance(operation, model.Extract):
            extracted.add(operation.header)
        elif isinstance(operation, model.ExtractNext):
            extracted |= set(operation.headers)
    metadata = {name for name, header in program.headers.items() if header.metadata}
    return FitReport(
        program=program.name,
        target=target,
        parser_states=len(program.parser.states),
        parser_transitions=sum(len(state.transitions) for state in states),
        header_bits=sum(program.headers[name].type.bits for name in extracted),
        metadata_bits=sum(widths.get(name, 0) for name in used if name.rpartition(".")[0] in metadata),
        pipelines=tuple(uses),
    )


# The report as text, for both commands; and a vendor's compiler, if there is one.


def text(report: FitReport) -> str:
    """Returns the report as text."""
    target = report.target
    verdict = "nothing speaks against it" if report.fits else "does not fit a single pass"
    lines = [
        f"{report.program} on {target.title}: {verdict}",
        f"parser: {report.parser_states} states, {report.parser_transitions} transitions; {report.header_bits:,} bits "
        f"of headers, {report.metadata_bits:,} bits of metadata that is used",
    ]
    for pipeline in report.pipelines:
        lines.append("")
        lines.append(
            f"{pipeline.name}: {pipeline.stages} stages of {target.stages} ({pipeline.depth} by dependencies alone), "
            f"{len(pipeline.tables)} tables, {pipeline.actions} actions without one, "
            f"{pipeline.live_bits:,} bits live at once"
        )
        lines += [_table_text(table) for table in pipeline.tables]
        lines += [_array_text(array) for array in pipeline.arrays]
        lines += [f"  longest chain: {', '.join(pipeline.chain)}"] if pipeline.chain else []
    for problem in (fault for part in report.pipelines for fault in part.problems):
        lines += ["", f"problem: {problem.what}", *(f"  {place}" for place in problem.where)]
    lines += [
        "",
        "Depth and blocks are lower bounds; a vendor's compiler has the last word. Figures of the target:",
    ]
    return "\n".join([*lines, *(f"  {source}" for source in target.sources)])


def _table_text(table: TableUse) -> str:
    return (
        f"  stage {table.stage:3}  {table.kind} {table.name}: key of {table.key_bits} bits, {table.entries:,} entries, "
        f"{table.data_bits} bits of action, {table.sram_blocks} SRAM, {table.tcam_blocks} TCAM; {table.where}"
    )


def _array_text(array: ArrayUse) -> str:
    verb = "write" if array.kind == "register" else "count"
    accesses = [*(f"read {place}" for place in array.reads), *(f"{verb} {place}" for place in array.writes)]
    stage = f"stage {array.stage:3}" if array.one_access else "stages   "
    return (
        f"  {stage}  {array.kind} {array.name}: {array.cells:,} cells of {array.bits:,} bits, {array.units} units, "
        f"{array.sram_blocks} SRAM; {', '.join(accesses)}"
    )


COMPILER: Final = "BFP4C"
"""The environment variable that names bf-p4c."""
PATIENCE_S: Final = 900.0
REPORTS: Final = ("**/table_summary.log", "**/phv_allocation_summary_*.log", "**/metrics.json")
MOST_SHOWN: Final = 20_000
"""maximum number of characters of each report"""


def vendor(source: Path, target: SwitchTarget, defines: Mapping[str, str], folders: Sequence[Path]) -> str:
    """Returns bf-p4c's output for a program, with its reports; empty without ``BFP4C``. Raises `FitsError`.

    The compiler runs in a temporary folder.
    """
    compiler = os.environ.get(COMPILER, "")
    if not compiler:
        return ""
    with tempfile.TemporaryDirectory(prefix="p4-fits-") as folder:
        words = [
            compiler, "--std", "p4-16", "--target", target.name, "--arch", "v1model", "--verbose", "2", "-o", folder,
        ]  # fmt: skip
        words += [f"-D{name}={value}" for name, value in defines.items()] + [f"-I{include}" for include in folders]
        try:
            done = subprocess.run(
                [*words, str(source)], capture_output=True, text=True, errors="replace", timeout=PATIENCE_S, check=False
            )
        except OSError as error:
            raise FitsError(f"{COMPILER}: {compiler}: {error.strerror}") from None
        except subprocess.TimeoutExpired:
            raise FitsError(f"{COMPILER}: {compiler} took longer than {PATIENCE_S:g} s") from None
        shown = [
            f"{compiler} ended with exit code {done.returncode}",
            (done.stdout + done.stderr).strip()[-MOST_SHOWN:],
        ]
        for pattern in REPORTS:
            for path in sorted(Path(folder).glob(pattern)):
                shown += [f"--- {path.relative_to(folder)}", path.read_text("utf-8", "replace")[:MOST_SHOWN].strip()]
        return "\n".join(part for part in shown if part)
