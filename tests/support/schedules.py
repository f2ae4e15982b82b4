"""``python -m tests.support.schedules``: time of scripts whose messages gloo carries, compared with packets.

Random scripts of pipelines (1F1B, interleaved) and experts (uneven all-to-all), also with concurrent sums of gradients,
on random networks. Each runs in threads, like a script's ranks, with `Communicator.sent` and `moves`, and its result
has the time of its replay (``replay``). The same sends, sums and computation are then played as packets from the
schedule itself. Prints the error of the whole time for each kind, with the 95 % interval of its mean, and the error of
the ranks' clocks. Published figures need a seed that was not used in development.
"""

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import numpy as np

from p4reduce.group.communicator import Communicator
from p4reduce.runs.experiment import Experiment
from p4reduce.runs.replay import play
from p4reduce.runs.runner import result_of_script
from p4reduce.runs.virtual.cluster import Cluster
from p4reduce.runs.workload import Communication, RankTrace, TraceNode, check
from p4switch.base.values import PS_PER_S
from tests.support.flow_error import interval

ALL: Final = ""
MOST: Final = 0.05


@dataclass(frozen=True)
class Do:
    """A step of a rank: 'compute' (ps), 'send', 'recv' (peer, bytes), 'moves' (bytes for each), 'sum' (bytes),
    'wait'."""

    what: str
    number: int = 0
    """ps of computation, or bytes"""
    peer: int = -1
    tag: int = 0
    sent: tuple[int, ...] = ()
    group: str = ALL
    name: str = ""
    """name for a later 'wait'; if empty, the rank waits at once"""


@dataclass
class Schedule:
    """A script: the steps of each rank, groups and network."""

    kind: str
    topology: str
    rate: str
    ranks: list[list[Do]]
    groups: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def experiment(self) -> Experiment:
        """The experiment of script and packets."""
        return Experiment(topology=self.topology, rate=self.rate or None, workers=len(self.ranks))


def wait(*names: str) -> list[Do]:
    """Return steps that wait for the steps of these names."""
    return [Do("wait", name=name) for name in names]


# --- scripts


def one_f_one_b(stages: int, batches: int, octets: int, forward_ps: Sequence[int]) -> list[list[Do]]:
    """Return Megatron's 1F1B order: a warm-up, then alternating forward and backward (which takes twice as long)."""
    ranks = []
    for rank in range(stages):
        own: list[Do] = []
        first, last = rank == 0, rank == stages - 1

        def forward(batch: int, own: list[Do] = own, rank: int = rank, first: bool = first, last: bool = last) -> None:
            if not first:
                own.append(Do("recv", octets, rank - 1, 2 * batch))
            own.append(Do("compute", forward_ps[rank]))
            if not last:
                own.append(Do("send", octets, rank + 1, 2 * batch, name=f"f{batch}"))

        def backward(batch: int, own: list[Do] = own, rank: int = rank, first: bool = first, last: bool = last) -> None:
            if not last:
                own.append(Do("recv", octets, rank + 1, 2 * batch + 1))
            own.append(Do("compute", 2 * forward_ps[rank]))
            if not first:
                own.append(Do("send", octets, rank - 1, 2 * batch + 1, name=f"b{batch}"))

        warm = min(batches, stages - rank - 1)
        for batch in range(warm):
            forward(batch)
        for batch in range(warm, batches):
            forward(batch)
            backward(batch - warm)
        for batch in range(batches - warm, batches):
            backward(batch)
        own += wait(*(step.name for step in own if step.name))
        ranks.append(own)
    return ranks


def interleaved(stages: int, chunks: int, batches: int, octets: int, forward_ps: Sequence[int]) -> list[list[Do]]:
    """Return PyTorch's looped BFS: each rank has several stages; all batches pass each stage, then come back."""
    ranks: list[list[Do]] = [[] for _ in range(stages)]
    deepest = stages * chunks - 1
    for rank, own in enumerate(ranks):
        for stage in range(rank, deepest + 1, stages):
            for batch in range(batches):
                if stage:
                    own.append(Do("recv", octets, (stage - 1) % stages, stage * batches + batch))
                own.append(Do("compute", forward_ps[rank]))
                if stage < deepest:
                    own.append(Do("send", octets, (stage + 1) % stages, (stage + 1) * batches + batch,
                                  name=f"f{stage} {batch}"))  # fmt: skip
        back = (deepest + 1) * batches
        for stage in range(deepest - (stages - 1 - rank), -1, -stages):
            for batch in range(batches):
                if stage < deepest:
                    own.append(Do("recv", octets, (stage + 1) % stages, back + stage * batches + batch))
                own.append(Do("compute", 2 * forward_ps[rank]))
                if stage:
                    own.append(Do("send", octets, (stage - 1) % stages, back + (stage - 1) * batches + batch,
                                  name=f"b{stage} {batch}"))  # fmt: skip
        own.extend(wait(*[step.name for step in own if step.name]))
    return ranks


def experts(draw: Random, size: int, layers: int, octets: int, compute_ps: int, sums: int) -> list[list[Do]]:
    """Return layers with experts: tokens move there and back, unevenly; ``sums`` gradient bytes beside each layer."""
    ranks: list[list[Do]] = [[] for _ in range(size)]
    for layer in range(layers):
        liked = [draw.lognormvariate(0, 0.7) for _ in range(size)]
        there = [[int(octets * liked[to] * draw.uniform(0.6, 1.4) / sum(liked)) // 4 * 4 for to in range(size)]
                 for _ in range(size)]  # fmt: skip
        back = [[there[b][a] for b in range(size)] for a in range(size)]
        for rank, own in enumerate(ranks):
            own.append(Do("compute", int(compute_ps * draw.uniform(0.8, 1.2))))
            own.append(Do("moves", sent=tuple(there[rank]), tag=2 * layer))
            tokens = sum(there[other][rank] for other in range(size))
            own.append(Do("compute", compute_ps * tokens // octets))
            own.append(Do("moves", sent=tuple(back[rank]), tag=2 * layer + 1))
            if sums:
                own.append(Do("sum", sums, name=f"s{layer}"))
    for own in ranks:
        own.extend(wait(*[step.name for step in own if step.what == "sum"]))
    return ranks


def with_replicas(draw: Random, replicas: int, pipeline: list[list[Do]], sums: int) -> Schedule:
    """Return several replicas of a pipeline; each stage sums its gradients at the end.

    The rank is stage * replicas + replica.
    """
    stages = len(pipeline)
    ranks: list[list[Do]] = []
    for stage in range(stages):
        for replica in range(replicas):
            own = []
            for step in pipeline[stage]:
                number = int(step.number * draw.uniform(0.97, 1.03)) if step.what == "compute" else step.number
                peer = step.peer * replicas + replica if step.peer >= 0 else -1
                own.append(Do(step.what, number, peer, step.tag, name=step.name))
            own.append(Do("sum", sums, group=f"stage{stage}"))
            ranks.append(own)
    groups = {f"stage{stage}": tuple(range(stage * replicas, (stage + 1) * replicas)) for stage in range(stages)}
    return Schedule("", "", "", ranks, groups)


KINDS: Final = ("1F1B", "interleaved", "experts", "experts, sums beside", "pipelines that add up")


def drawn(seed: int, number: int) -> Schedule:
    """Return the script of a number; kinds alternate."""
    draw, kind = Random(f"{seed}:{number}"), KINDS[number % len(KINDS)]
    topology = draw.choice(["star8", "leaf-spine-8", "leaf-spine-16", "fat-tree-4", "two-generations",
                            "leaf-spine:leaves=2,spines=2,hosts=4,uplink=25G,rate=10G"])  # fmt: skip
    rate = draw.choice(["10G", "25G", "100G"])
    if ":" in topology or topology == "two-generations":
        rate = ""
    bits = {"": 10e9, "10G": 10e9, "25G": 25e9, "100G": 100e9}[rate]
    octets = int(10 ** draw.uniform(4.5, 6)) // 4 * 4
    wire_ps = octets * 8 / bits * PS_PER_S
    pace = wire_ps * draw.choice([0.2, 0.5, 1, 2, 5])  # computation time for each message
    size = draw.randint(4, 8)
    forward = [int(pace * draw.uniform(0.8, 1.2)) for _ in range(size)]
    schedule = Schedule(kind, topology, rate, [])
    if kind == "1F1B":
        schedule.ranks = one_f_one_b(size, draw.randint(size, 2 * size), octets, forward)
    elif kind == "interleaved":
        schedule.ranks = interleaved(size, draw.randint(2, 3), draw.randint(size, size + 4), octets, forward)
    elif kind.startswith("experts"):
        sums = octets * draw.randint(1, 4) if "sums" in kind else 0
        schedule.ranks = experts(draw, size, draw.randint(2, 4), octets * size, int(pace), sums)
    else:
        stages = draw.randint(2, 4)
        pipeline = one_f_one_b(stages, draw.randint(4, 8), octets, forward)
        whole = with_replicas(draw, 2, pipeline, octets * draw.randint(1, 8))
        schedule.ranks, schedule.groups = whole.ranks, whole.groups
    return schedule


# --- as a script: each rank is a thread


def of_script(schedule: Schedule, pauses: Random | None = None) -> tuple[float, float]:
    """Seconds from the first step to the last rank's end: in the result, and by the ranks' clocks.

    pauses: draws how long ranks sleep on the way, which must not change the result.
    """

    def run(comm: Communicator) -> tuple[float, float]:
        groups = {ALL: comm}
        for name, members in schedule.groups.items():
            if comm.rank in members:
                groups[name] = comm.group(members)
        began = comm.now
        open_: dict[str, Callable[[], Any]] = {}
        for step in schedule.ranks[comm.rank]:
            group = groups[step.group]
            if pauses is not None:
                time.sleep(pauses.choice([0, 0, 0.01]))
            if step.what == "compute":
                comm.compute(step.number / PS_PER_S)
                continue
            if step.what == "wait":
                open_.pop(step.name)()
                continue
            if step.what in {"send", "recv"}:
                waits: Callable[[], Any] = comm.sent(step.peer, step.number, step.tag, sends=step.what == "send")
            elif step.what == "moves":
                sent = {peer: octets for peer, octets in enumerate(step.sent) if peer != comm.rank}
                waits = comm.moves("all_to_all", sent)
            else:
                waits = group.all_reduce(np.ones(step.number // 4, np.float32), start=comm.now).wait
            if step.name:
                open_[step.name] = waits
            else:
                waits()
        return began, comm.now

    with Cluster(schedule.experiment) as cluster:
        times = cluster.run_threads(run)
        replay = result_of_script(cluster).replay
    if replay is None:
        raise ValueError(f"{schedule.kind}: the result has no time of messages and sums together")
    return replay.total_ps / PS_PER_S, max(end for _, end in times) - max(begun for begun, _ in times)


# --- on packets: as a replayed trace


def of_packets(schedule: Schedule, by: str = "virtual") -> float:
    """Seconds; with ``by="flow"`` those of the flow model."""
    ranks = []
    for rank, steps in enumerate(schedule.ranks):
        nodes: list[TraceNode] = []
        last: list[int] = []
        named: dict[str, int] = {}

        def add(after: list[int], name: str, nodes: list[TraceNode] = nodes, **more: Any) -> int:
            nodes.append(TraceNode(len(nodes), name, tuple(dict.fromkeys(after)), **more))
            return len(nodes) - 1

        for step in steps:
            if step.what == "compute":
                last = [add(last, "compute", duration_ps=step.number)] if step.number else last
            elif step.what == "wait":
                last = [*last, named.pop(step.name)]
            elif step.what == "moves":
                every = []
                for turn in range(1, len(step.sent)):
                    to, source = (rank + turn) % len(step.sent), (rank - turn) % len(step.sent)
                    given, got = step.sent[to], _moved(schedule.ranks[source], step.tag)[rank]
                    for what, peer, octets in (("send", to, given), ("recv", source, got)):
                        if octets:
                            call = Communication(what, octets, peer=peer, tag=step.tag)
                            every.append(add(last, what, communication=call))
                last = every or last
            else:
                what = "all_reduce" if step.what == "sum" else step.what
                call = Communication(what, step.number, group=step.group, peer=max(0, step.peer), tag=step.tag)
                node = add(last, step.what, communication=call)
                if step.name:
                    named[step.name] = node
                else:
                    last = [node]
        ranks.append(RankTrace(f"rank {rank}", nodes, dict(schedule.groups)))
    experiment = schedule.experiment.model_copy(update={"time": by})
    return play(check(ranks, {}), experiment).total_ps / PS_PER_S


def _moved(steps: Sequence[Do], tag: int) -> tuple[int, ...]:
    return next(step.sent for step in steps if step.what == "moves" and step.tag == tag)


def main() -> int:
    """Return 1 if a script is off by more than 5 %."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="run only the script with this number, and print all of it")
    parser.add_argument("--flow", action="store_true", help="also run the whole script in the flow model")
    options = parser.parse_args()
    errors: dict[str, list[float]] = defaultdict(list)
    numbers = range(options.count) if options.only is None else [options.only]
    for number in numbers:
        schedule = drawn(options.seed, number)
        (script, clocks), packets = of_script(schedule), of_packets(schedule)
        error = script / packets - 1
        if options.flow:
            print(f"    flow model: {of_packets(schedule, 'flow') / packets - 1:+.2%}")
        errors[schedule.kind].append(error)
        print(f"{number:3d} {schedule.kind:22s} {len(schedule.ranks):2d} ranks {schedule.topology[:20]:20s} "
              f"{schedule.rate:5s} {script * 1e6:10.1f} us, packets {packets * 1e6:10.1f} us, {error:+.2%}, "
              f"by clocks {clocks / packets - 1:+.2%}",
              flush=True)  # fmt: skip
    bad = False
    for kind, own in errors.items():
        low, high = interval(own)
        worst = max(own, key=abs)
        print(f"{kind:22s} {len(own):3d} scripts, mean error {np.mean(np.abs(own)):.2%} ({low:.2%} to {high:.2%}), "
              f"worst {worst:+.2%}, {sum(abs(error) > MOST for error in own)} beyond {MOST:.0%}")  # fmt: skip
        bad |= abs(worst) > MOST
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
