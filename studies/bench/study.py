"""Benchmarks of the switch, the fabric, planning, losses, sockets and starts.

Figures by the clock differ between machines; compare figures of one run only. Times are processor time of one core, the
least of several rounds, so that other load counts little.
"""

import dataclasses
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, make_dataclass
from functools import partial
from typing import Any, Final

from p4reduce.base.errors import BadInput
from p4reduce.group.errors import ClusterError
from p4reduce.network.real.net import enter_command, is_entered, why_not
from p4reduce.runs.experiment import Experiment
from p4switch.native.memory import SEGMENTS
from studies.bench import carrying, exchange, fabric, live, machine, plans, runs, start
from studies.bench.dataplane import bmv2, compilation, packets, tables
from studies.bench.loss import distance, guesses, real, virtual, zeros
from studies.bench.strangers import StrangersCell, StrangersRow, run_strangers
from studies.bench.veth import BenchLab
from studies.frame import Bar, Part, Study, StudyResult, at_least, at_most, column
from studies.pages import StudyDrawing

# Row types made from columns: measurements return mappings.


def number(value: Any) -> str:
    """Format a value for a table; numbers below 2 have three decimals, so that ratios near 1 differ visibly."""
    if isinstance(value, float):
        return f"{value:,.{3 if abs(value) < 2 else 2 if abs(value) < 100 else 0}f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def rows_of(name: str, headings: Mapping[str, str], *more: str) -> type:
    """Return a record type with these columns by field, and ``more`` fields that only files have; defaults are None."""
    fields: list[tuple[str, Any, Any]] = [
        (key, Any, column(heading, number, default=None)) for key, heading in headings.items()
    ]
    return make_dataclass(name, [*fields, *((key, Any, field(default=None)) for key in more)], frozen=True)


Measured = Callable[[], Any]
"""a cell: a function that measures one row as a mapping, or several rows"""


def measured(
    name: str,
    says: str,
    headings: Mapping[str, str],
    cells: Callable[["BenchSettings"], Iterable[Measured]],
    more: Sequence[str] = (),
    **how: Any,
) -> Part:
    """Return a part whose rows are shown without aggregation."""
    kind = rows_of(f"{name.title().replace('-', '')}Row", headings, *more)
    known = [entry.name for entry in dataclasses.fields(kind)]

    def run(cell: Measured) -> Iterator[Any]:
        made = cell()
        for row in [made] if isinstance(made, Mapping) else made:
            yield kind(**{key: row.get(key) for key in known})

    return Part(name, says, cells, run, kind, lists=True, **how)


# The settings: what is measured, and how much of it.


DEVELOPED: Final = range(20)
HELD_OUT: Final = range(100, 120)
"""seeds that were not used to choose bars"""
MAY_BE_ZERO: Final = frozenset(("seeds", "plan_seed", "capable", "networkx_up_to", "target_workers", "target_loss"))
"""settings that may be 0; the others must be more than 0"""


@dataclass(frozen=True)
class BenchSettings:
    """Every parameter.

    Attributes
    ----------
    seeds : tuple of int
        Seeds of lost frames and random arrivals: strangers uses all, loss and heavy --loss-seeds, others the first.
    loss_seeds : int
        Number of seeds, from the first, in the parts loss and heavy.
    lanes : tuple of int
        Lanes a packet, 64 or 256, in the parts about the embedded switch, the fabric and sockets.
    slots : tuple of int
        Slots of the embedded switch's registers, powers of two.
    rounds : int
        Rounds of each measurement of the embedded switch, at least 2; the fastest one counts.
    entries : tuple of int
        Entries of an exact table, in the parts tables and locks.
    scanned : int
        Entries of an LPM or ternary table in the part tables, and entries written in the part writes.
    interpreted_chunks : int
        Chunks of 8 packets that the interpreter processes in the part packets.
    programs : tuple of str
        P4 programs that the part bmv2-push compares: git commits, or folders like p4src/compiled.
    bmv2_chunks : int
        Chunks of 8 packets in each round on BMv2.
    switches : tuple of int
        Numbers of switches in the parts racks and forwarding.
    threaded : tuple of int
        Numbers of switches in the part threads.
    threads : int
        Threads that run the windows of one network in the part threads.
    windows : int
        Windows without frames that the part exchange measures.
    frames : int
        Approximate number of frames in a run of the parts about the fabric.
    best_of : int
        Runs of each measurement of the fabric, veth ports and UDP sockets; the best one counts.
    elements : int
        Elements of the all-reduce in the part large; the default is the size of ResNet-50.
    k : tuple of int
        Ports of a switch in the fat-trees of the part plan-job.
    networkx_up_to : int
        Largest k for which the part plan-job runs networkx, too; 0: never.
    capable : tuple of float
        Shares of switches that can aggregate, 0 to 1, in the part plan-job.
    policy : str
        Scheduling policy in the parts plan-job and plan-tasks.
    tasks : int
        Number of tasks in the part plan-tasks.
    install_switches : int
        Number of switches in the part plan-install.
    plan_runs : int
        Runs of the parts plan-job, plan-install and plan-all; the median counts.
    plan_seed : int
        Seed of the tasks and link loads in the parts plan-job and plan-tasks.
    plans : tuple of str
        Plans in the parts bounds, loss and distance: steiner, ring, ps.
    loss_rounds : int
        Rounds of the parts real-udp and real-veth.
    workers : tuple of int
        Numbers of senders in the part strangers.
    topology : str
        Topology in the part targets.
    plan : str
        Plan in the part targets.
    target_workers : int
        Number of workers in the part targets; 0: all workers of the topology.
    target_elements : int
        Elements of each all-reduce in the part targets.
    target_loss : float
        Loss rate of each link in the part targets, 0 to 1.
    target_runs : int
        Runs in the part targets; the median counts.
    gloo_rounds : int
        Rounds of the part gloo, each with p4reduce first and then the others; medians over rounds count.
    gloo_runs : int
        All-reduces of each system in each round of the part gloo; medians count.
    gloo_python : str
        Python interpreter with PyTorch for the part gloo; default: the one that runs the study.
    ports : int
        Ports of the switch in the parts about veth ports and UDP sockets.
    seconds : float
        Seconds of each run on veth ports and UDP sockets.
    pairs : int
        Rounds of the parts live and live-commands, each with every case once; the part carrying has four times as many.
    live_elements : int
        Elements of each all-reduce in the parts live and live-commands.
    live_topology : str
        Topology in the parts live and live-commands.
    starts : int
        Runs of each quick command in the part start; the median is shown.
    fat_trees : tuple of int
        Ports of a switch (k) in the fat-trees of the part scale.
    large : int
        Elements of the large tensors in the part scale; arrays of the 16 workers take 64 bytes for each element.
    clone : str
        Git repository that the part from-nothing clones and builds a wheel of (needs PyPI); empty: the part is skipped.
    """

    seeds: tuple[int, ...] = tuple(HELD_OUT)
    loss_seeds: int = 5
    lanes: tuple[int, ...] = (64, 256)
    slots: tuple[int, ...] = (1024, 65536)
    rounds: int = 20
    entries: tuple[int, ...] = (10, 1000, 10_000, 100_000)
    scanned: int = 10_000
    interpreted_chunks: int = 8
    programs: tuple[str, ...] = ("cf3f906", "HEAD")
    bmv2_chunks: int = 512
    switches: tuple[int, ...] = (4, 32, 256)
    threaded: tuple[int, ...] = (16, 64, 256)
    threads: int = 2
    windows: int = 20_000
    frames: int = 300_000
    best_of: int = 3
    elements: int = 25_600_000
    k: tuple[int, ...] = (16, 32, 64)
    networkx_up_to: int = 32
    capable: tuple[float, ...] = (0.75, 1.0)
    policy: str = "steiner"
    tasks: int = 30
    install_switches: int = 100
    plan_runs: int = 7
    plan_seed: int = 1
    plans: tuple[str, ...] = ("steiner", "ring", "ps")
    loss_rounds: int = 15
    workers: tuple[int, ...] = (8, 32)
    topology: str = "star:hosts=4"
    plan: str = "steiner"
    target_workers: int = 0
    target_elements: int = 500_000
    target_loss: float = 0.0
    target_runs: int = 5
    gloo_rounds: int = 5
    gloo_runs: int = 5
    gloo_python: str = sys.executable
    ports: int = 4
    seconds: float = 1.0
    pairs: int = 9
    live_elements: int = 8_000_000
    live_topology: str = "leaf-spine-8"
    starts: int = 5
    fat_trees: tuple[int, ...] = (16, 24)
    large: int = 50_000_000
    clone: str = ""

    def __post_init__(self) -> None:
        for name, given, known in (
            ("lanes", self.lanes, (64, 256)),
            ("plans", self.plans, ("steiner", "ring", "ps")),
        ):
            if unknown := [value for value in given if value not in known]:
                raise BadInput(f"--{name}: {unknown[0]!r} is none of {', '.join(map(str, known))}")
        if not self.seeds:
            raise BadInput("--seeds: give at least one")
        for setting in dataclasses.fields(self):
            given, least = getattr(self, setting.name), "at least" if setting.name in MAY_BE_ZERO else "more than"
            for number in given if isinstance(given, tuple) else (given,):
                if isinstance(number, int | float) and not (number > 0 or (number == 0 and least == "at least")):
                    raise BadInput(f"--{setting.name.replace('_', '-')}: {number}: must be {least} 0")
        if self.rounds < 2:
            raise BadInput(f"--rounds: {self.rounds}: at least 2")
        if any(slots < 2 or slots & (slots - 1) for slots in self.slots):
            raise BadInput(f"--slots: {self.slots}: powers of two, at least 2")


QUICK: Final = BenchSettings(
    seeds=(3, 4),
    lanes=(64,),
    slots=(1024,),
    rounds=2,
    entries=(10, 1000),
    scanned=100,
    switches=(4,),
    threaded=(4,),
    windows=200,
    frames=3000,
    best_of=1,
    elements=1_000_000,
    k=(8,),
    tasks=5,
    install_switches=12,
    plan_runs=1,
    plans=("steiner",),
    loss_rounds=2,
    workers=(8,),
    gloo_rounds=1,
    gloo_runs=1,
    seconds=0.1,
    pairs=1,
    live_elements=100_000,
    starts=1,
    fat_trees=(4,),
    large=100_000,
)


# The embedded switch, and BMv2 beside it if it is installed.


def _sizes(settings: BenchSettings) -> list[tuple[int, int]]:
    return [(lanes, slots) for lanes in settings.lanes for slots in settings.slots]


def _packets(settings: BenchSettings, lanes: int, slots: int) -> Iterator[dict[str, Any]]:
    speeds = packets.measure(lanes, slots, settings.rounds)
    if slots == settings.slots[0]:
        speeds.append(packets.interpreted(lanes, settings.interpreted_chunks))
    ceiling = next(speed.nanoseconds for speed in speeds if speed.what == "by hand")
    for speed in speeds:
        row = speed.row
        yield {
            **row,
            "x_by_hand": speed.nanoseconds / ceiling,
            "m_packets": row["packets_per_s"] / 1e6,
            "g_lanes": row["lanes_per_s"] / 1e9,
            "gb_slots": row["slot_bytes_per_s"] / 1e9,
        }


def _memory(lanes: int, slots: int) -> dict[str, Any]:
    memory = compilation.device_memory(lanes, slots)
    return {**memory, **{f"{key}_mb": memory[f"{key}_bytes"] / 1e6 for key in ("device", "slot", "overhead")}}


def _bmv2(settings: BenchSettings, lanes: int) -> dict[str, Any]:
    slots = settings.slots[0]
    theirs = bmv2.measure(lanes, slots, 3, settings.bmv2_chunks)
    speeds = packets.measure(lanes, slots, settings.rounds)
    ours = next(speed.nanoseconds for speed in speeds if speed.what == packets.ALL_REDUCE)
    ratio = theirs["ns_per_packet"] / ours
    return {**theirs, "version": bmv2.version(), "ns_per_packet_ours": ours, "ratio": ratio}


LANES_SLOTS: Final = {"lanes": "lanes", "slots": "slots"}
DATAPLANE: Final = (
    measured(
        "packets",
        "Packets: machine code of the whole P4 program, one core. By hand: a loop over the lanes, nothing else",
        {**LANES_SLOTS, "what": "packet", "ns_per_packet": "ns/packet", "m_packets": "M packets/s",
         "g_lanes": "G lanes/s", "gb_slots": "GB/s of slots", "x_by_hand": "x by hand"},
        lambda settings: [partial(_packets, settings, *size) for size in _sizes(settings)],
        ("packets_per_s", "lanes_per_s", "slot_bytes_per_s"),
    ),
    measured("compilation", "From p4c's JSON to machine code, in a new process",
             {"lanes": "lanes", "cold_s": "cold, CPU s", "cached_s": "cached, CPU s"},
             lambda settings: [partial(compilation.compile_times, lanes) for lanes in settings.lanes]),
    measured("frontend", "From p4src/ to JSON and P4Info, in a new process, without a cache",
             {"lanes": "lanes", "first_ms": "first, CPU ms", "least_ms": "least, CPU ms",
              "loop_ms": f"{compilation.ADDITIONS:,} additions, ms", "x_loop": "least / loop"},
             lambda settings: [partial(compilation.front_end_times, lanes, settings.rounds)
                               for lanes in settings.lanes]),
    measured("frontend-packets", "CPU ns/packet by compiler of p4src/",
             {**LANES_SLOTS, "what": "packet", "p4c_ns": "p4c's, ns", "own_ns": "front end's, ns", "ratio": "ratio"},
             lambda settings: [
                 partial(compilation.packets_of_both, lanes, settings.slots[0], settings.rounds, lambda: None)
                 for lanes in settings.lanes
             ]),
    measured("memory", "Memory of a device, every slot used",
             {**LANES_SLOTS, "device_mb": "device, MB", "slot_mb": "slots, MB", "overhead_mb": "beyond, MB"},
             lambda settings: [partial(_memory, *size) for size in _sizes(settings)],
             ("device_bytes", "slot_bytes", "overhead_bytes")),
    measured("tables", "Lookups that hit, random keys",
             {"kind": "table", "entries": "entries", "ns_per_lookup": "ns/lookup"},
             lambda settings: [
                 partial(tables.measure_lookups, kind, count, settings.rounds)
                 for kind, count in (*(("exact", count) for count in settings.entries),
                                     ("lpm", settings.scanned), ("ternary", settings.scanned))
             ], ("ns_per_packet_without",)),
    measured("writes", "P4Runtime: entries written over gRPC",
             {"kind": "table", "entries": "entries", "entries_per_request": "entries/request", "seconds": "seconds",
              "cpu_s": "CPU s, client and server"},
             lambda settings: [partial(tables.measure_writes, kind, settings.scanned) for kind in tables.TABLES]),
    measured("locks", "P4Runtime: a wildcard read; frames wait for the lock",
             {"kind": "table", "entries": "entries", "held_s": "lock held, CPU s", "cpu_s": "CPU s, client and server"},
             lambda settings: [partial(tables.measure_locks, "exact", count) for count in settings.entries]),
    measured("bmv2", f"BMv2, {packets.ALL_REDUCE}: CPU ns/packet",
             {**LANES_SLOTS, "version": "BMv2", "ns_per_packet_ingress": "ingress", "ns_per_packet_egress": "egress",
              "ns_per_packet": "both", "ns_per_packet_process": "process", "ns_per_packet_ours": "embedded",
              "ratio": "both / embedded"},
             lambda settings: [partial(_bmv2, settings, lanes) for lanes in settings.lanes],
             ("packets",), missing=lambda _settings: bmv2.why_not()),
    measured("bmv2-push", "BMv2: CPU ns for a PUSH, ingress and egress",
             {"program": "program", "lanes": "lanes", "ns_per_push": "least", "ns_per_push_median": "median",
              "ratio": "ratio, median of rounds", "ratio_of_least": "ratio of the least"},
             lambda settings: [
                 partial(bmv2.measure_programs, settings.programs, lanes, settings.rounds, settings.bmv2_chunks)
                 for lanes in settings.lanes
             ], ("rounds",), missing=lambda _settings: bmv2.why_not()),
)  # fmt: skip


# The virtual fabric, with ns-3 beside it if it is installed.
#
# "tree" measures everything: 16 workers quantize, send and receive; leaves and a spine run the whole P4 program,
# ingress and egress, with queues and links around them. "racks" has the same work in a growing number of independent
# switches. "forwarding" measures the fabric alone: switches that only copy frames. Rates are per processor time of one
# core, the best of several runs.


RATES: Final = {
    "lanes": "lanes",
    "switches": "switches",
    "M_passes_per_s": "M ingress passes/s",
    "M_copies_per_s": "M egress copies/s",
    "ns_per_pass": "ns/pass",
    "loop_ns": "of it the event loop",
    "python_ns": "Python",
    "events_per_pass": "events/pass",
}
SMALL_SLOTS: Final = 32
"""a window of 16 chunks: hardly any frames are in flight"""


def _tree(settings: BenchSettings, lanes: int) -> dict[str, Any]:
    return fabric.tree(lanes, max(settings.frames // 24, 16), settings.best_of)  # 24 passes a chunk


def _ns3(settings: BenchSettings) -> list[dict[str, Any]]:
    lanes = min(settings.lanes)
    payload = 20 + 4 * lanes
    theirs = fabric.measure(settings.frames // 4, payload)
    ours = _tree(settings, lanes)
    plain = fabric.forwarding(4, lanes, settings.frames, settings.best_of)
    rows = [theirs]
    # A hop is a pass and the link after it.
    for what, row in (("fabric: tree, whole P4 program", ours), ("fabric: forwarding only", plain)):
        rows.append({"what": what, "payload_bytes": payload, "M_hops_per_s": row["M_passes_per_s"]})
    return [{**row, "x_ns3": row["M_hops_per_s"] / theirs["M_hops_per_s"]} for row in rows]


FABRIC: Final = (
    measured("tree", "16 workers, two-level tree, all-reduce", RATES,
             lambda settings: [partial(_tree, settings, lanes) for lanes in settings.lanes]),
    measured("large", "One all-reduce of a large model, two-level tree",
             {"lanes": "lanes", "elements": "elements", "workers": "workers", "seconds": "seconds", "cpu_s": "CPU s",
              **{name: RATES[name] for name in ("M_passes_per_s", "M_copies_per_s")},
              "beyond_tensors_MB": "MB beyond the tensors"},
             lambda settings: [partial(fabric.large, max(settings.lanes), settings.elements)], ("virtual_s",)),
    measured("racks", "Racks side by side, all-reduce: cost a pass by number of switches",
             {"slots": "slots", **RATES},
             lambda settings: [
                 partial(fabric.racks, switches, lanes, settings.frames, settings.best_of, slots)
                 for slots in (512, SMALL_SLOTS)
                 for lanes in settings.lanes
                 for switches in settings.switches
             ]),
    measured("forwarding", "The fabric alone: leaf-spine, switches that only copy", RATES,
             lambda settings: [
                 partial(fabric.forwarding, switches, lanes, settings.frames, settings.best_of)
                 for lanes in settings.lanes
                 for switches in settings.switches
             ]),
    measured("threads", "Speedup of threads that share the windows of one network",
             {"network": "network", "switches": "switches", "partitions": "partitions", "lanes": "lanes",
              "threads": "threads", "alone_ms": "one thread, ms", "by_clock": "by the clock",
              "by_processor": "by processor time"},
             lambda settings: [
                 partial(fabric.threads, what, switches, lanes, settings.frames, settings.best_of, settings.threads)
                 for what in fabric.THREADED
                 for lanes in settings.lanes
                 for switches in settings.threaded
             ]),
    measured("exchange", "Cost of a window's end between two processes (MPI), by frames in each direction",
             {"lanes": "lanes", "frames": "frames", "kB": "kB", "least_us": "least, us", "median_us": "median, us",
              "p99_us": "99 %, us", "passes": "pays from passes a window"},
             lambda settings: [
                 partial(exchange.measure, lanes, settings.windows, settings.frames, settings.best_of)
                 for lanes in settings.lanes
             ], missing=lambda _settings: exchange.why_not()),
    measured("ns3", "Comparison with ns-3",
             {"what": "what", "payload_bytes": "UDP payload", "M_hops_per_s": "M packet-hops/s", "x_ns3": "x ns-3"},
             lambda settings: [partial(_ns3, settings)], missing=lambda _settings: fabric.why_not()),
)  # fmt: skip


# Planning, with networkx on the same tasks.
#
# "plan-job" plans one task of 16 terminals on fat-trees: both trees, with some and with all switches capable, without
# load and with random load that differs by direction. "plan-tasks" schedules 30 such tasks on germany50. "plan-install"
# writes a plan into 100 switches over P4Runtime, in wall-clock time. "plan-all" makes the plan that `p4reduce run`
# waits for: all workers of a network. Building the topology and its arrays, and networkx' graph, have separate columns.


LIMITS_MS: Final = {"fat-tree-16": 10, "fat-tree-32": 60, "fat-tree-64": 1000, "germany50": 300, "install": 1000}
"""by network or "install": highest planning time allowed"""


def _job(settings: BenchSettings, k: int) -> list[dict[str, Any]]:
    rows = list(
        plans.one_job(
            str(k),
            settings.policy,
            shares=settings.capable,
            runs=settings.plan_runs,
            seed=settings.plan_seed,
            networkx=k <= settings.networkx_up_to,
        )
    )
    theirs = next((row["ms"] for row in rows if row["planner"] == "networkx mehlhorn"), None)
    return [{**row, "ratio": None if theirs is None else row["ms"] / theirs} for row in rows]


PLANNING: Final = (
    measured("plan-job", "Planning one job of 16 terminals (build, arrays and graph are not in the time)",
             {"network": "network", "hosts": "hosts", "switches": "switches", "capable": "capable",
              "planner": "planner", "load": "load", "ms": "ms a job", "ratio": "x mehlhorn", "links": "links",
              "topology_ms": "build ms", "arrays_ms": "arrays ms", "graph_ms": "graph ms"},
             lambda settings: [partial(_job, settings, k) for k in settings.k], ("share",)),
    measured("plan-tasks", "Planning tasks one after the other, with plans",
             {"network": "network", "planner": "planner", "load": "load", "tasks": "tasks", "ms": "ms"},
             lambda settings: [
                 partial(plans.many_jobs, "germany50", settings.policy, load, count=settings.tasks,
                         seed=settings.plan_seed)
                 for load in plans.STATES
             ]),
    measured("plan-install", "Installing a plan over gRPC, wall-clock time",
             {"network": "network", "switches": "switches", "workers": "workers", "ms": "ms"},
             lambda settings: [partial(plans.installing, settings.install_switches, settings.plan_runs)]),
    measured("plan-all", "A plan of all workers of a network",
             {"network": "network", "planner": "planner", "workers": "workers", "ms": "ms"},
             lambda settings: [
                 partial(plans.whole_network, name, "steiner", settings.plan_runs) for name in ("germany50", "8")
             ]),
)  # fmt: skip


def _planning(result: StudyResult) -> Iterator[Bar]:
    """Yield a bar for the slowest time on each network and for the slowest installation."""
    slowest: dict[str, float] = {}
    for part in ("plan-job", "plan-tasks", "plan-install"):
        for row in result.rows(part):
            name = "install" if part == "plan-install" else row.network
            if not str(getattr(row, "planner", "")).startswith("networkx"):
                slowest[name] = max(slowest.get(name, 0.0), row.ms)
    for name, ms in slowest.items():
        if name in LIMITS_MS:
            yield Bar(f"planning, {name}: ms at most", at_most(LIMITS_MS[name]), {None: ms}, "{:.1f}")


# Losses: in virtual time by seed, in real time, in consecutive collectives, with guesses, with zeros, by distance.


def _real(links: str) -> Part:
    return measured(
        f"real-{links}",
        f"Loss in real time over {links}, 4 workers, one switch",
        real.COLUMNS,
        lambda settings: [partial(real.rows, links, settings.loss_rounds, settings.seeds[0])],
        missing=lambda _settings: why_not() if links == "veth" else None,
    )


LOSSES: Final = (
    measured("bounds", "Time over the plan's lower bound, leaf-spine-8, links of 1 us, no loss",
             {"plan": "plan", "rate": "rate", "mib": "MiB", "ratio": "time / bound"},
             lambda settings: [
                 partial(virtual.over_bound, plan, rate, mib, settings.seeds[0])
                 for plan in settings.plans for rate in ("10G", "100G") for mib in (1, 4, 16)
             ]),
    Part("loss", "Loss on every link; load: busiest link of a worker over S/b/(1 - p)", virtual.loss_cells,
         virtual.run_loss, virtual.LossRow, by=("topology", "plan", "rate", "elements", "loss"),
         mean=virtual.MEASURES),
    Part("heavy", "Heavy loss and reordering on five switches", virtual.heavy_cells,
         virtual.run_heavy, virtual.HeavyRow, by=("topology", "rate", "loss", "reorder"),
         mean=("ratio", "times", "asks", "waits", "needless", virtual.MEASURES[-1])),
    *map(_real, real.LINKS),
    measured("row", f"{guesses.COUNT} collectives in a row, each called after the previous one, or announced before",
             {"rate": "rate", "elements": "elements", "numbers": "numbers", "announced": "announced", "ratio": "ratio",
              "bar": "bar", "spared": "frames spared", "differences": "differences"},
             lambda _settings: [partial(guesses.in_a_row, *case) for case in guesses.CASES]),
    measured("guesses", "Guessed exponents: collectives of 1 MiB at 100G, each called after the previous one",
             {"inputs": "inputs", "speculates": "speculates", "ratio": "time / bound", "worst": "the worst",
              "again": "chunks again", "bar": "bar", "differences": "differences"},
             lambda _settings: guesses.guess_cells()),
    measured("wrong-guesses", "Wrong guesses among the first chunks of the digits' gradients",
             {"of": "largest of", "slack": "bits more", "larger": "too small a guess", "smaller": "6 bits too large",
              "operations": "all-reduces with one"},
             lambda _settings: [guesses.wrong_guesses]),
    measured("guesses-loss", "Guessed exponents on links that lose frames: time / bound, 100G",
             {"elements": "elements", "loss": "loss", "guessed": "guessed", "waiting": "waiting"},
             lambda _settings: [
                 partial(guesses.under_loss, elements, loss)
                 for elements in (guesses.ELEMENTS, 4 * guesses.ELEMENTS)
                 for loss in guesses.LOSSES
             ]),
    measured("zeros", f"{zeros.ELEMENTS:,} elements, some chunks of which are zero at all workers",
             {"topology": "topology", "rate": "rate", "window": "window", "dense": "dense", "us": "us",
              "ratio": "of dense", "bar": "bar", "differences": "differences"},
             lambda _settings: [
                 partial(zeros.rows, topology, *case) for topology in zeros.TOPOLOGIES for case in zeros.WINDOWS
             ]),
    measured("distance", f"{distance.ELEMENTS:,} elements, {distance.TOPOLOGY}, 8 workers: time over the bound, by "
             "delay and loss of each link", distance.COLUMNS,
             lambda settings: [
                 partial(distance.row, rate, plan, delay, settings.seeds[0])
                 for rate in distance.RATES
                 for plan in settings.plans
                 for delay in distance.DELAYS
             ]),
    Part("strangers", "Uncoordinated senders on one uplink: frames resent needlessly",
         lambda settings: [StrangersCell(workers, seed) for workers in settings.workers for seed in settings.seeds],
         run_strangers, StrangersRow, by=("workers",), mean=("resent", "over")),
)  # fmt: skip


def _losses(result: StudyResult) -> Iterator[Bar]:
    yield from virtual.bars(result)
    for row in (row for links in real.LINKS for row in result.rows(f"real-{links}")):
        name = f"loss in real time, {row.links}, {row.elements:,} elements"
        yield Bar(f"{name}: time over that without loss, median", at_most(row.bar), {None: row.ratio})
        yield Bar(f"{name}: questions a chunk where nothing is lost", at_most(row.most_asks),
                  {None: max(row.asks, row.clean_asks)})  # fmt: skip
    for part, words in (("row", _in_a_row), ("guesses", _guessed), ("zeros", _dense)):
        for row in result.rows(part):
            yield Bar(f"{words(row)}: links or counters other than predicted", at_most(0), {None: row.differences},
                      "{:.0f}")  # fmt: skip
            if row.bar is not None:
                over = "time over that of a dense tensor" if part == "zeros" else "time over the bound"
                yield Bar(f"{words(row)}: {over}", at_most(row.bar), {None: row.ratio})
    for workers in dict.fromkeys(row.workers for row in result.rows("strangers")):
        value = partial(result.values, "strangers", workers=workers)
        yield Bar(f"{workers} strangers: share of frames sent again", at_most(0.05), value("resent"), every=True)
        yield Bar(f"{workers} strangers: time over that of senders that know of each other", at_most(1.05),
                  value("over"), every=True)  # fmt: skip


def _in_a_row(row: Any) -> str:
    return f"in a row, {row.numbers}, {'announced' if row.announced else 'not announced'}"


def _guessed(row: Any) -> str:
    return f"exponents, {row.inputs}, {'guessed' if row.speculates else 'waiting'}"


def _dense(row: Any) -> str:
    window = "" if row.window == "chosen" else f", window {row.window}"
    return f"{row.topology} at {row.rate}{window}, {row.dense:.0%} dense"


# Sockets, the live page, the first hour.


def _veth(settings: BenchSettings, part: str, lanes: int) -> list[dict[str, Any]]:
    """Measure frames per second through the embedded switch between veth pairs, in a separate network namespace.

    A thread of the same process saturates every port; outgoing frames end at interfaces without a listener.
    Forwarding: UDP from each host to the next. Aggregation: contributions of all workers, whose sums return to each.
    Rates per core divide by the processor time of the switch's thread; compare these on a machine with other load.
    """
    if not is_entered():
        with tempfile.TemporaryDirectory(prefix="p4reduce-veth-") as folder:
            command = [sys.executable, "-m", "studies", "bench", "--json", "--parts", part, "--out", folder]
            for name in ("ports", "seconds", "best_of"):
                command += [f"--{name.replace('_', '-')}", str(getattr(settings, name))]
            command = enter_command([*command, "--lanes", str(lanes)])
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"{part}: in namespaces of its own it ended with {done.returncode}:\n{done.stderr}")
        rows: list[dict[str, Any]] = json.loads(done.stdout)["rows"][part]
        return rows
    with BenchLab(settings.ports, lanes) as lab:
        return [_under_load(settings, lab, pushes=part == "veth-aggregation")]


def _under_load(settings: BenchSettings, lab: BenchLab, *, pushes: bool) -> dict[str, Any]:
    """Return the row of the run with the most frames per core."""
    seen, seq = [], 0
    frames = lab.pushes() if pushes else lab.datagrams()
    for _ in range(settings.best_of):
        seen.append(lab.run(frames, settings.seconds, first=seq if pushes else None))
        seq += seen[-1].frames // settings.ports
    best = max(seen, key=lambda sample: sample.kpps_per_core)
    return {
        "lanes": lab.lanes,
        "ports": settings.ports,
        "kpps": round(best.kpps, 1),
        "kpps_per_core": round(best.kpps_per_core, 1),
        "copies_kpps": round(best.copies / best.seconds / 1e3, 1),
        "goodput_gbps": round(best.kpps * lab.lanes * 32 / 1e6, 3),
        "us_per_frame": round(best.cpu_s / best.frames * 1e6, 3),
        "sleeps": best.sleeps,
        "lost": best.lost,
    }


def _udp(settings: BenchSettings, what: str, lanes: int) -> Iterator[dict[str, Any]]:
    """Measure UDP sockets on loopback: datagrams one by one, then many of one length as one message."""
    alone = 0.0
    for segments in (1, SEGMENTS):
        with BenchLab(settings.ports, lanes, udp=segments) as lab:
            row = _under_load(settings, lab, pushes=what == "aggregation")
        alone = alone or row["kpps_per_core"]
        yield {"frames": what, "together": segments, **row, "times": row["kpps_per_core"] / alone}


VETH: Final = {
    "lanes": "lanes",
    "ports": "ports",
    "kpps": "kpps in",
    "kpps_per_core": "kpps in per core",
    "copies_kpps": "kpps out",
    "goodput_gbps": "Gb/s of lanes in",
    "us_per_frame": "CPU us/frame",
    "sleeps": "sleeps",
    "lost": "lost",
}


def _on_udp(what: str) -> Part:
    return measured(
        f"udp-{what}",
        f"{what.capitalize()} on UDP sockets: datagrams one by one, and many as one message (UDP_SEGMENT, UDP_GRO)",
        {"frames": "frames", "together": "as one message", **VETH, "times": "times as many per core"},
        lambda settings: [partial(_udp, settings, what, lanes) for lanes in settings.lanes],
    )


def _on_veth(what: str) -> Part:
    return measured(
        f"veth-{what}",
        f"{what.capitalize()} on veth ports",
        VETH,
        lambda settings: [partial(_veth, settings, f"veth-{what}", lanes) for lanes in settings.lanes],
        missing=lambda _settings: None if is_entered() else why_not(),
    )


def _live(settings: BenchSettings) -> list[dict[str, Any]]:
    experiment = Experiment(topology=settings.live_topology, elements=settings.live_elements)
    return [dataclasses.asdict(cost) for cost in live.measure(experiment, settings.pairs)]


def _needed(measure: Callable[..., start.CommandNeeds], *what: Any, **how: Any) -> dict[str, Any]:
    return dataclasses.asdict(measure(*what, **how))


def _waited(waits: Iterable[Any]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(waited) for waited in waits]


SOCKETS: Final = (
    measured("targets", "One plan on BMv2 and on the embedded switch, links unshaped", runs.TARGETS,
             lambda settings: [partial(runs.targets, settings, lanes) for lanes in settings.lanes],
             missing=lambda _settings: why_not()),
    measured("gloo", "10 MB, 4 workers, one switch, 200 Mb/s, 256 lanes", runs.GLOO,
             lambda settings: [partial(runs.gloo, settings)], missing=runs.why_no_gloo),
    *map(_on_veth, ("forwarding", "aggregation")),
    *map(_on_udp, ("forwarding", "aggregation")),
    measured("live", "What the live page costs a run",
             {"what": "case", "cpu_s": "CPU s", "clock_s": "clock s", "cpu_ratio": "CPU ratio",
              "clock_ratio": "clock ratio", "least_ratio": "least CPU ratio", "own": "own share", "moments": "moments",
              "views": "views"},
             lambda settings: [partial(_live, settings)]),
    measured("live-commands", "p4reduce run without and with --live, no browser connected",
             {"what": "command", "cpu_s": "CPU s", "ratio": "ratio"},
             lambda settings: [
                 partial(live.measure_commands, settings.live_elements, settings.live_topology, settings.pairs)
             ]),
    measured("carrying", f"{carrying.RANKS} ranks over a Unix socket and over TLS: an all-reduce, wall-clock time",
             carrying.COLUMNS, lambda settings: [lambda: list(carrying.measure(4 * settings.pairs))]),
    measured("start", "Waiting time of a user, from nothing compiled to a warm run", start.COLUMNS,
             lambda settings: [lambda: _waited(start.start_up(settings.starts))]),
    measured("scale", "Resources of a whole run: fat-trees, and large tensors of 16 workers", start.NEEDS,
             lambda settings: [
                 *(partial(_needed, start.fat_tree, k, 20_000) for k in settings.fat_trees),
                 *(partial(_needed, start.large_tensor, settings.large, filed=filed) for filed in (False, True)),
             ]),
    measured("from-nothing", "The first lines of README in a fresh clone, and the wheel in a fresh environment",
             start.COLUMNS,
             lambda settings: [lambda: _waited(start.from_nothing(settings.clone))],
             missing=lambda settings: None if settings.clone else "--clone names no repository"),
)  # fmt: skip


def bars(result: StudyResult) -> Iterator[Bar]:
    """Yield the bars for planning, losses, threads, UDP sockets, the live page and TLS."""
    yield from _planning(result)
    yield from _losses(result)
    for row in result.rows("threads"):
        if row.switches >= fabric.MANY:
            name = f"{row.threads} threads, {row.network} of {row.switches} switches, {row.lanes} lanes"
            least = at_least(fabric.TIMES * row.threads / 2)
            yield Bar(f"{name}: times as fast, by the clock", least, {None: row.by_clock})
    for row in (*result.rows("udp-forwarding"), *result.rows("udp-aggregation")):
        if row.together > 1:
            name = f"{row.frames} on UDP sockets, {row.lanes} lanes: frames per core, times those one by one"
            yield Bar(name, at_least(3), {None: row.times})
    for row in result.rows("live"):
        if row.what in live.BARS:
            yield Bar(f"the live page, {row.what}: processor time over that without it", at_most(live.BARS[row.what]),
                      {None: row.cpu_ratio})  # fmt: skip
    for row in result.rows("carrying"):
        for most, value, what in ((carrying.MOST_ADDED_MS, row.added_ms, "ms more than over a Unix socket"),
                                  (carrying.MOST_RATIO, row.ratio, "times that of a Unix socket")):  # fmt: skip
            if row.elements in most:
                yield Bar(f"TLS, {row.elements:,} elements: {what}", at_most(most[row.elements]), {None: value})


STUDY: Final = Study(
    "bench",
    "Benchmarks",
    (__doc__ or "").partition("\n\n")[0],
    BenchSettings,
    QUICK,
    (*DATAPLANE, *FABRIC, *PLANNING, *LOSSES, *SOCKETS),
    DEVELOPED,
    HELD_OUT,
    bars,
    (StudyDrawing("distance", "What distance costs", distance.draw),),
    lambda _result: " ".join((__doc__ or "").partition("\n\n")[2].split()),
    tables=lambda result: [
        ("Machine", ["commit", *machine()], [[result.provenance["commit"], *map(number, machine().values())]])
    ],
    more=lambda _result: {"machine": machine()},
    timed=True,
)
