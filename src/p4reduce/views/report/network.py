"""A topology as SVG: links coloured by their load, with the plan's tree drawn over them."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, TypeAlias

from p4reduce.base.output import bytes_text
from p4reduce.topologies import Topology
from p4reduce.views.report.curves import DRAWINGS, HALVINGS, PALETTE, Markup, element, join, load_colour, picture

# Positions of nodes in a drawing: levels of a data centre, the topology's own positions, or a computed layout.


Point = tuple[float, float]

MARGIN: Final = 46.0
ROW_HEIGHT: Final = 104.0
MIN_SPACING: Final = 58.0
"""Least distance between neighbours of one row, pixels."""
MAX_WIDTH: Final = 2400.0
MAP_WIDTH: Final = 860.0
MAX_ROWS: Final = 6
"""Most rows; more different heights are drawn as a map, not as levels."""
HOST_DISTANCE: Final = 26.0
"""Distance of a host from its switch on a map, pixels."""


@dataclass(frozen=True)
class NodePositions:
    """Positions in pixels, y downwards, and the size of the picture."""

    at: Mapping[str, Point]
    width: float
    height: float
    is_map: bool
    """Whether nodes are at map positions, not in rows."""


def place(nodes: Mapping[str, Point | None], hosts: Iterable[str], links: Sequence[tuple[str, str]]) -> NodePositions:
    """Place all nodes.

    ``nodes`` gives each node's own position (y upwards) or None, ``hosts`` names the hosts, ``links`` joins neighbours.
    The same input gives the same picture.
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
    import networkx as nx  # noqa: PLC0415  (slow to import)

    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(switches)
    graph.add_edges_from((a, b) for a, b in links if a not in ends and b not in ends)
    computed = nx.spring_layout(graph, seed=1, iterations=200)
    return _map({name: (float(x), float(y)) for name, (x, y) in computed.items()}, nodes, links)


def _rows(known: Mapping[str, Point]) -> NodePositions:
    """Place nodes in their rows; the x axis is stretched until neighbours do not touch."""
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
    return NodePositions(at, width + 2 * MARGIN, (len(heights) - 1) * ROW_HEIGHT + 2 * MARGIN, is_map=False)


def _map(
    switches: Mapping[str, Point], nodes: Mapping[str, Point | None], links: Sequence[tuple[str, str]]
) -> NodePositions:
    """Place switches at their positions, one scale for both axes; hosts around their switch, away from the middle."""
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
    return NodePositions({name: at[name] for name in nodes if name in at}, width, height, is_map=True)


def _levels(nodes: Iterable[str], hosts: set[str], links: Sequence[tuple[str, str]]) -> dict[str, int] | None:
    """Return the distance of each node from the nearest host; None unless every link joins neighbouring levels."""
    import networkx as nx  # noqa: PLC0415  (slow to import)

    graph: nx.Graph[str] = nx.Graph()
    graph.add_nodes_from(nodes)
    graph.add_edges_from(links)
    distances = nx.multi_source_dijkstra_path_length(graph, hosts) if hosts else {}
    if len(distances) != len(graph) or any(abs(distances[a] - distances[b]) != 1 for a, b in links):
        return None
    levels = {name: int(distances[name]) for name in graph}  # in the order of the nodes
    return levels if max(levels.values()) < MAX_ROWS else None


def _spread(levels: Mapping[str, int], links: Sequence[tuple[str, str]]) -> dict[str, Point]:
    """Place hosts side by side under their switches, and each higher level above the middle of its lower neighbours."""
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
        ties = len(set(wanted.values())) < len(row)  # e.g. spines, which would all be above the middle
        for number, name in enumerate(row):
            x[name] = (number + 0.5) * step if ties else wanted[name]
    return {name: (x[name], float(level)) for name, level in levels.items()}


# Labels on a map that cover neither each other nor the nodes.


Box: TypeAlias = tuple[float, float, float, float]
"""left, top, right, bottom"""
Boxes: TypeAlias = list[Box]

CHARACTER: Final = 6.0
"""Width of a character at 10.5 pixels, rather too large than too small."""
ABOVE, BELOW = 8.5, 2.5
"""Extent of a line of text above and below its baseline, pixels."""
_DISTANCES: Final = (8.0, 14.0, 22.0)


def label_places(names: Sequence[str], at: Mapping[str, Point], taken: Boxes, size: Point) -> dict[str, Point]:
    """Return the start of each name's text, near ``at[name]`` and inside of ``size``; earlier names choose first.

    Names without room are left out.
    """
    used = list(taken)
    places = {}
    for name in names:
        for x, y in _candidates(name, *at[name]):
            box = label_box(name, (x, y))
            inside = box[0] >= 0 and box[1] >= 0 and box[2] <= size[0] and box[3] <= size[1]
            if inside and not any(_overlap(box, other) for other in used):
                used.append(box)
                places[name] = (x, y)
                break
    return places


def label_box(name: str, start: Point) -> Box:
    """Return the box that a name covers if its text begins at ``start``."""
    x, y = start
    return (x, y - ABOVE, x + CHARACTER * len(name), y + BELOW)


def _candidates(name: str, x: float, y: float) -> list[Point]:
    """Return label positions in order of preference: right, left, above and below the node, then farther away."""
    wide = CHARACTER * len(name)
    return [
        place
        for away in _DISTANCES
        for place in (
            (x + away, y - away + 1),
            (x + away, y + 3),
            (x + away, y + away + 4),
            (x - away - wide, y - away + 1),
            (x - away - wide, y + 3),
            (x - away - wide, y + away + 4),
            (x - wide / 2, y - away - 2),
            (x - wide / 2, y + away + 8),
        )
    ]


def _overlap(box: Box, other: Box) -> bool:
    return box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]


Ends = tuple[str, str]
LEGEND_HEIGHT: Final = 46.0
KEY_WIDTH: Final = 4.0
"""Width of one colour of the legend, pixels."""
LANE_OFFSET: Final = 3.0
"""Distance of a direction's line from the middle of its link, pixels."""
LABEL_LENGTH: Final = 9
"""Characters of a name that fit a node."""


@dataclass(frozen=True)
class NodeView:
    """A node as a drawing shows it."""

    name: str
    kind: str
    role: str
    capable: bool
    position: Point | None


@dataclass(frozen=True)
class NetworkDrawing:
    """A topology, with the loads and trees of a run."""

    title: str
    nodes: Sequence[NodeView]
    links: Sequence[Ends]
    loads: Mapping[Ends, int] = field(default_factory=dict)
    """Bytes from the first node to the second."""
    paths: Iterable[Sequence[str]] = ()
    """Paths, node by node, of the tree's (or ring's) edges."""
    aggregators: Collection[str] = ()
    participants: Collection[str] | None = None
    """Hosts that take part; None: all."""
    full_scale: int | None = None
    """Bytes of the darkest colour; None: the busiest link's. Give a value for drawings that are compared."""
    marked: bool = False
    """Whether a script colours it: directions of links, nodes and paths get ``data-`` names, and no inline style."""

    @staticmethod
    def of_topology(topology: Topology, *, title: str, **rest: Any) -> "NetworkDrawing":
        """Return the drawing of a topology."""
        nodes = [NodeView(node.name, node.kind, node.role, node.capable, node.position) for node in topology.nodes]
        return NetworkDrawing(title, nodes, [(link.a, link.b) for link in topology.links], **rest)

    @staticmethod
    def of_result(topology: Mapping[str, Any], *, title: str, **rest: Any) -> "NetworkDrawing":
        """Return the drawing of the topology in a result file."""
        nodes = [
            NodeView(
                str(node["name"]),
                str(node["kind"]),
                str(node.get("role", "")),
                bool(node.get("capable", False)),
                _point(node.get("position")),
            )
            for node in topology["nodes"]
        ]
        return NetworkDrawing(title, nodes, [(str(link["a"]), str(link["b"])) for link in topology["links"]], **rest)


def topology_svg(topology: Topology) -> str:
    """Return a topology by itself as an SVG file."""
    return draw(NetworkDrawing.of_topology(topology, title=topology.name))


def draw(drawing: NetworkDrawing) -> str:
    """Return the drawing as a self-contained SVG file."""
    return str(_draw(drawing, PALETTE + DRAWINGS)) + "\n"


def draw_inline(drawing: NetworkDrawing) -> Markup:
    """Return the drawing for a page that already has the style sheets."""
    return _draw(drawing, "")


def _draw(drawing: NetworkDrawing, style: str) -> Markup:
    hosts = [node.name for node in drawing.nodes if node.kind == "host"]
    placed = place({node.name: node.position for node in drawing.nodes}, hosts, drawing.links)
    busiest = max(drawing.loads.values(), default=0)
    scale = drawing.full_scale or busiest
    legend = bool(scale) and not drawing.marked
    height = placed.height + (LEGEND_HEIGHT if legend else 0.0)
    parts = [element("rect", class_="background", width=placed.width, height=height)] if style else []
    parts.append(element("g", *(_band(path, placed, drawing) for path in drawing.paths), class_="trees"))
    for a, b in drawing.links:
        parts += [_lane(a, b, placed, drawing, scale), _lane(b, a, placed, drawing, scale)]
    named = _named(drawing, placed)
    for node in drawing.nodes:
        mark = {"data_node": node.name, "data_kind": node.kind} if drawing.marked else {}
        parts.append(
            element("g", _node(node, drawing, placed, named.get(node.name)), **mark)
            if mark
            else _node(node, drawing, placed, named.get(node.name))
        )
    if legend:
        parts.append(_legend(placed, scale))
    texts = {"title": drawing.title, "description": _describe(drawing)}
    return picture(placed.width, height, *parts, **texts, style=style, inline=not drawing.marked)


def _describe(drawing: NetworkDrawing) -> str:
    switches = sum(node.kind == "switch" for node in drawing.nodes)
    text = f"{switches} switches, {len(drawing.nodes) - switches} hosts, {len(drawing.links)} links."
    if drawing.aggregators:
        text += f" Switches that aggregate: {', '.join(sorted(drawing.aggregators))}."
    if drawing.loads:
        (a, b), most = max(drawing.loads.items(), key=lambda item: item[1])
        text += f" The busiest link is {a} to {b} with {bytes_text(most)}."
    return text


def _band(path: Sequence[str], placed: NodePositions, drawing: NetworkDrawing) -> Markup:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (placed.at[name] for name in path if name in placed.at))
    ends = f"{path[0]} {path[-1]}" if drawing.marked else None
    return element("polyline", element("title", " > ".join(path)), class_="tree", points=points, data_path=ends)


def _lane(source: str, target: str, placed: NodePositions, drawing: NetworkDrawing, scale: int) -> Markup:
    """Draw one direction of a link, on the right as seen from its sender."""
    load = drawing.loads.get((source, target), 0)
    (x1, y1), (x2, y2) = placed.at[source], placed.at[target]
    length = math.hypot(x2 - x1, y2 - y1) or 1.0
    share = min(1.0, load / scale) if scale else 0.0
    offset = LANE_OFFSET * (0.55 if placed.is_map else 1.0) if scale or drawing.marked else 0.0
    dx, dy = -(y2 - y1) / length * offset, (x2 - x1) / length * offset
    says = f"{source} to {target}: {bytes_text(load)}" if scale else f"{source} - {target}"
    return element(
        "line",
        element("title", says),
        class_="link loaded" if load else "link unloaded",
        style=load_colour(share) if load else None,
        x1=x1 + dx,
        y1=y1 + dy,
        x2=x2 + dx,
        y2=y2 + dy,
        stroke_width=(1.6 + 3.0 * math.sqrt(share)) * (0.7 if placed.is_map else 1.0),
        data_from=source if drawing.marked else None,
        data_to=target if drawing.marked else None,
    )


def _named(drawing: NetworkDrawing, placed: NodePositions) -> dict[str, Point]:
    """Return where switch names begin on a map: none covers another or a node; aggregating switches come first."""
    if not placed.is_map:
        return {}
    switches = sorted(
        (node.name for node in drawing.nodes if node.kind == "switch"),
        key=lambda name: (name not in drawing.aggregators, placed.at[name]),
    )
    nodes: Boxes = [(x - 7, y - 7, x + 7, y + 7) for x, y in placed.at.values()]
    return label_places(switches, placed.at, nodes, (placed.width, placed.height))


def _node(node: NodeView, drawing: NetworkDrawing, placed: NodePositions, named: Point | None) -> Markup:
    x, y = placed.at[node.name]
    aggregates = node.name in drawing.aggregators
    idle = node.kind == "host" and drawing.participants is not None and node.name not in drawing.participants
    marks = [
        "node",
        *(["aggregates"] if aggregates else []),
        *(["incapable"] if node.kind == "switch" and not node.capable else []),
        *(["idle"] if idle else []),
    ]
    class_ = " ".join(marks)
    if placed.is_map:
        return _map_node(node, x, y, class_, named)
    label = node.name if len(node.name) <= LABEL_LENGTH else node.name[: LABEL_LENGTH - 1] + "…"
    text_class = "on-accent" if aggregates else "soft" if idle else None
    text = element("text", label, x=x, y=y + 4, text_anchor="middle", class_=text_class)
    if node.kind == "switch":
        wide = 66.0
        shape = element("rect", class_=class_, x=x - wide / 2, y=y - 15.0, width=wide, height=30.0, rx=6)
    elif node.role == "server":
        wide = max(30.0, 7.0 * len(label) + 8)
        shape = element("rect", class_=class_, x=x - wide / 2, y=y - 14.0, width=wide, height=28.0)
    else:
        wide = max(34.0, 7.0 * len(label) + 12)
        shape = element("rect", class_=class_, x=x - wide / 2, y=y - 14.0, width=wide, height=28.0, rx=14)
    return element("g", element("title", _says(node, aggregates=aggregates)), shape, text)


def _map_node(node: NodeView, x: float, y: float, class_: str, named: Point | None) -> Markup:
    """Draw a node on a map: a small mark, and a switch's name if there is room; all names as tooltips."""
    aggregates = "aggregates" in class_
    title = element("title", _says(node, aggregates=aggregates))
    if node.kind == "host":
        side = 8.0
        shape = element(
            "rect",
            class_=class_,
            x=x - side / 2,
            y=y - side / 2,
            width=side,
            height=side,
            rx=4 if node.role != "server" else 0,
        )
        return element("g", title, shape)
    shape = element("circle", class_=class_, cx=x, cy=y, r=7 if aggregates else 5)
    if named is None:
        return element("g", title, shape)
    return element("g", title, shape, element("text", node.name, x=named[0], y=named[1], class_="small halo"))


def _says(node: NodeView, *, aggregates: bool) -> str:
    if node.kind == "host":
        return f"{node.name}: {'parameter server' if node.role == 'server' else 'worker'}"
    if aggregates:
        return f"{node.name}: switch, aggregates"
    return f"{node.name}: switch, {'only forwards here' if node.capable else 'cannot aggregate'}"


def _legend(placed: NodePositions, scale: int) -> Markup:
    """Draw the colour scale with labels: the full scale at the right, and half of it at each mark to the left."""
    y = placed.height + 2
    box, left = 50.0, 34.0
    right = left + box * HALVINGS
    count = round(box * HALVINGS / KEY_WIDTH)
    parts = [
        element(
            "rect",
            class_="keyed",
            style=load_colour(2.0 ** (HALVINGS * ((number + 0.5) / count - 1))),
            x=left + KEY_WIDTH * number,
            y=y,
            width=KEY_WIDTH + 0.4,  # no gaps where pixels are rounded
            height=9,
        )
        for number in range(count)
    ]
    for halving in range(HALVINGS + 1):
        x = right - box * halving
        says = bytes_text(float(f"{scale / 2**halving:.3g}"))
        parts.append(element("line", class_="axis", x1=x, x2=x, y1=y + 9, y2=y + 12))
        parts.append(element("text", says, x=x, y=y + 23, text_anchor="middle", class_="small soft"))
    parts += [
        element("g", element("line", class_="tree", x1=right + 46, y1=y + 5, x2=right + 68, y2=y + 5), class_="trees"),
        element("text", "the plan's tree", x=right + 82, y=y + 9, class_="small soft"),
    ]
    return join(parts)


def _point(value: Any) -> Point | None:
    return None if value is None else (float(value[0]), float(value[1]))
