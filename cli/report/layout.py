"""Where nodes stand in a drawing: levels of a data centre, the topology's own positions, or a computed layout."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import networkx as nx

Point = tuple[float, float]

MARGIN: Final = 46.0
ROW_HEIGHT: Final = 104.0
MIN_SPACING: Final = 58.0
"""between neighbours of one row, pixels"""
MAX_WIDTH: Final = 2400.0
MAP_WIDTH: Final = 860.0
MAX_ROWS: Final = 6
"""more different heights than this are a map, not levels"""
HOST_DISTANCE: Final = 26.0
"""of a host from its switch on a map, pixels"""


@dataclass(frozen=True)
class Placed:
    """Positions in pixels, y downwards, and the size of the picture."""

    at: Mapping[str, Point]
    width: float
    height: float
    is_map: bool
    """Nodes stand wherever they are, not in rows."""


def place(nodes: Mapping[str, Point | None], hosts: Iterable[str], links: Sequence[tuple[str, str]]) -> Placed:
    """Place all nodes.

    ``nodes`` gives each node's own position (y upwards) or None, ``hosts`` names those that are hosts, ``links`` their
    neighbours. The same input gives the same picture.
    """
    ends = set(hosts)
    switches = [name for name in nodes if name not in ends]
    known = {name: point for name, point in nodes.items() if point is not None}
    if not switches:
        return _rows({name: (float(number), 0.0) for number, name in enumerate(nodes)})
    levels = _levels(nodes, ends, links)
    if levels is not None:
        return _rows(_spread(levels, links))
    if len(known) == len(nodes) and len({y for _, y in known.values()}) <= MAX_ROWS:
        return _rows(known)
    if all(name in known for name in switches):
        return _map({name: known[name] for name in switches}, nodes, links)
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(switches)
    graph.add_edges_from((a, b) for a, b in links if a not in ends and b not in ends)
    computed = nx.spring_layout(graph, seed=1, iterations=200)
    return _map({name: (float(x), float(y)) for name, (x, y) in computed.items()}, nodes, links)


def _rows(known: Mapping[str, Point]) -> Placed:
    """Rows stay rows; the x axis is stretched until neighbours do not touch."""
    heights = sorted({y for _, y in known.values()}, reverse=True)
    gaps = []
    for height in heights:
        row = sorted(x for x, y in known.values() if y == height)
        gaps += [b - a for a, b in pairwise(row) if b > a]
    left, right = min(x for x, _ in known.values()), max(x for x, _ in known.values())
    scale = MIN_SPACING / min(gaps) if gaps else 1.0
    scale = min(scale, MAX_WIDTH / max(right - left, 1e-9))
    width = max((right - left) * scale, 300.0)
    shift = (width - (right - left) * scale) / 2
    at = {
        name: (MARGIN + shift + (x - left) * scale, MARGIN + heights.index(y) * ROW_HEIGHT)
        for name, (x, y) in known.items()
    }
    return Placed(at, width + 2 * MARGIN, (len(heights) - 1) * ROW_HEIGHT + 2 * MARGIN, is_map=False)


def _map(switches: Mapping[str, Point], nodes: Mapping[str, Point | None], links: Sequence[tuple[str, str]]) -> Placed:
    """Switches where they are, one scale for both axes; hosts around their switch, away from the middle."""
    xs, ys = [x for x, _ in switches.values()], [y for _, y in switches.values()]
    middle = (min(ys) + max(ys)) / 2
    # A degree of longitude is shorter than one of latitude (equirectangular projection about the middle).
    squeeze = math.cos(math.radians(middle)) if max(map(abs, ys)) <= 90 and max(map(abs, xs)) > 2 else 1.0
    across, up = max((max(xs) - min(xs)) * squeeze, 1e-9), max(max(ys) - min(ys), 1e-9)
    scale = min(MAP_WIDTH / across, MAP_WIDTH / up)
    at = {
        name: (MARGIN + (x - min(xs)) * squeeze * scale, MARGIN + (max(ys) - y) * scale)
        for name, (x, y) in switches.items()
    }
    width, height = across * scale + 2 * MARGIN, up * scale + 2 * MARGIN
    below: dict[str, list[str]] = {}
    for a, b in links:
        if a in switches and b not in switches:
            below.setdefault(a, []).append(b)
        elif b in switches and a not in switches:
            below.setdefault(b, []).append(a)
    for switch, own in below.items():
        x, y = at[switch]
        away = math.atan2(y - height / 2, x - width / 2)
        for number, host in enumerate(own):
            angle = away + 0.6 * (number - (len(own) - 1) / 2)
            at[host] = (x + HOST_DISTANCE * math.cos(angle), y + HOST_DISTANCE * math.sin(angle))
    return Placed({name: at[name] for name in nodes if name in at}, width, height, is_map=True)


def _levels(nodes: Iterable[str], hosts: set[str], links: Sequence[tuple[str, str]]) -> dict[str, int] | None:
    """Distance of each node from the nearest host; None unless every link joins neighbouring levels."""
    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(links)
    found = nx.multi_source_dijkstra_path_length(graph, hosts) if hosts else {}
    if len(found) != len(graph) or any(abs(found[a] - found[b]) != 1 for a, b in links):
        return None
    levels = {name: int(found[name]) for name in graph}  # in the order of the nodes
    return levels if max(levels.values()) < MAX_ROWS else None


def _spread(levels: Mapping[str, int], links: Sequence[tuple[str, str]]) -> dict[str, Point]:
    """Hosts side by side under their switches, each higher level above the middle of what it is joined to."""
    neighbours: dict[str, list[str]] = {name: [] for name in levels}
    for a, b in links:
        neighbours[a].append(b)
        neighbours[b].append(a)
    order = {name: number for number, name in enumerate(levels)}
    hosts = [name for name in levels if levels[name] == 0]
    hosts.sort(key=lambda name: (min((order[other] for other in neighbours[name]), default=0), order[name]))
    x = {name: float(number) for number, name in enumerate(hosts)}
    for level in range(1, max(levels.values(), default=0) + 1):
        row = [name for name in levels if levels[name] == level]
        wanted = {}
        for name in row:
            under = [x[other] for other in neighbours[name] if levels[other] == level - 1]
            wanted[name] = sum(under) / len(under)
        row.sort(key=lambda name: (wanted[name], order[name]))
        step = max(len(hosts) - 1, 1) / max(len(row), 1)
        ties = len(set(wanted.values())) < len(row)  # e.g. spines: all stand above the middle
        for number, name in enumerate(row):
            x[name] = (number + 0.5) * step if ties else wanted[name]
    return {name: (x[name], float(level)) for name, level in levels.items()}
