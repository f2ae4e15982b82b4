"""How long a chunk takes there and back, and how many must be in flight."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from p4reduce.control_plane.frames import frame_bytes, frame_time_ps
from p4reduce.control_plane.plans.paths import hops
from p4reduce.control_plane.plans.problem import Layout, MeshLayout, Problem, RingLayout, StarLayout, TreeLayout

Pair = tuple[str, str]
Path = tuple[str, ...]

ACK_EVERY: Final = 16
"""full frames that a ring's receiver acknowledges with one empty frame"""


@dataclass(frozen=True, slots=True)
class PlanTimes:
    """Round trip of a full frame and the time between chunks on the busiest link, both in ps."""

    rtt_ps: int
    chunk_ps: int

    @property
    def window(self) -> int:
        """Chunks in flight that keep the busiest link busy: ceil(rate * RTT / frame)."""
        return max(1, -(-self.rtt_ps // self.chunk_ps))


def all_paths(problem: Problem, layout: Layout) -> dict[Pair, Path]:
    """The path of every overlay hop, both ways."""
    if not isinstance(layout, TreeLayout):
        return dict(layout.paths)
    edges = list(layout.parent.items())
    if problem.server is not None:
        edges.append((layout.root, problem.server))
    found: dict[Pair, Path] = {}
    for edge in edges:
        path = problem.paths.path(*edge) if layout.paths is None else layout.paths[edge]
        found[edge], found[edge[::-1]] = path, path[::-1]
    return found


def timing(problem: Problem, layout: Layout, paths: Mapping[Pair, Path]) -> PlanTimes:
    """Round trip and chunk time of a layout in which every frame is a full one.

    A link that a chunk crosses k times (children behind one port, workers of one server) takes k frame times, and the
    last of them counts. Links are otherwise idle.
    """
    if isinstance(layout, RingLayout):
        return _ring_timing(problem, layout, paths)
    if isinstance(layout, MeshLayout):
        return _mesh_timing(problem, layout)
    if isinstance(layout, StarLayout):
        up = [pair for pair in paths if pair[1] == problem.server]
    else:
        up = list(layout.parent.items()) + ([(layout.root, problem.server)] if problem.server else [])
    down = [(b, a) for a, b in up]
    above = dict(up)
    total = 0
    chunk = 1
    for pairs, towards_top in ((up, True), (down, False)):
        times = _link_times(problem, paths, pairs)
        chunk = max(chunk, *times.values())
        total += max(_climb(problem, worker, above, paths, times=times, up=towards_top) for worker in problem.workers)
    return PlanTimes(total, chunk)


def choose_window(needed: int) -> int:
    """The window for a needed one: a quarter and four chunks of margin, then the next power of two.

    The margin covers frames that wait behind others at merging ports; the power of two makes slots = 2 * window one.
    """
    return power_of_two(with_margin(needed))


def late_slots(needed: int) -> int:
    """Slots with which a chunk may be late by four round trips before it holds up the one that takes its slot next.

    A worker sends a chunk when the result half the slots before it is in; one that was lost is missing for a round trip
    until that is noticed, and for one or two more until it is repaired (docs/performance.md has what they bring).
    """
    return power_of_two(8 * needed)


def with_margin(needed: int) -> int:
    """A window with room for frames that wait behind others."""
    return needed + needed // 4 + 4


def ring_window(needed: int) -> int:
    """The window of a ring: acknowledgements come for :data:`ACK_EVERY` frames at once, so two such runs more."""
    return power_of_two(needed + needed // 4 + 2 * ACK_EVERY)


def power_of_two(least: int) -> int:
    """The smallest power of two that is at least ``least``."""
    return 1 << max(0, least - 1).bit_length()


def _ring_timing(problem: Problem, layout: RingLayout, paths: Mapping[Pair, Path]) -> PlanTimes:
    order = layout.order
    data = [(a, b) for a, b in zip(order, (*order[1:], order[0]), strict=True) if a != b]
    if not data:
        return PlanTimes(1, 1)
    times = _link_times(problem, paths, data)
    there = {pair: _walk(problem, paths[pair], times) for pair in data}
    back = {pair: problem.paths.latency_ps(pair[1], pair[0], problem.frame_bytes) for pair in data}
    return PlanTimes(max(there[pair] + back[pair] for pair in data), max(times.values()))


def _mesh_timing(problem: Problem, layout: MeshLayout) -> PlanTimes:
    """A chunk of every pair: how long the busiest link needs for them, their acknowledgements included."""
    if not layout.paths:
        return PlanTimes(1, 1)
    topology, length = problem.topology, problem.frame_bytes
    streams = Counter(hop for path in layout.paths.values() for hop in hops(topology, path))
    answers = Counter(hop for a, b in layout.paths for hop in hops(topology, layout.paths[b, a]))
    chunk = max(
        count * frame_time_ps(length, rate) + -(-answers[hop] * frame_time_ps(frame_bytes(0), rate) // ACK_EVERY)
        for hop, count in streams.items()
        for rate in (topology.link_at(*hop).rate_bps,)
    )
    there = max(problem.paths.latency_ps(*pair, length) for pair in layout.paths)
    return PlanTimes(2 * there, chunk)


def _link_times(problem: Problem, paths: Mapping[Pair, Path], pairs: Iterable[Pair]) -> dict[tuple[str, int], int]:
    """For every directed link: how long it is busy with a chunk."""
    copies = Counter(hop for pair in pairs for hop in hops(problem.topology, paths[pair]))
    length = problem.frame_bytes
    return {
        hop: count * frame_time_ps(length, problem.topology.link_at(*hop).rate_bps) for hop, count in copies.items()
    }


def _climb(
    problem: Problem,
    worker: str,
    above: Mapping[str, str],
    paths: Mapping[Pair, Path],
    *,
    times: Mapping[tuple[str, int], int],
    up: bool,
) -> int:
    total, name = 0, worker
    while name in above:
        pair = (name, above[name]) if up else (above[name], name)
        total += _walk(problem, paths[pair], times)
        name = above[name]
    return total


def _walk(problem: Problem, path: Path, times: Mapping[tuple[str, int], int]) -> int:
    return sum(times[hop] + problem.topology.link_at(*hop).delay_ps for hop in hops(problem.topology, path))
