"""Reading a topology: from a YAML file, a bundled name, a one-line specification, or a file of another program."""

import json
import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, NonNegativeInt, PositiveInt, ValidationError, validate_call

from p4reduce.base.registry import Registry
from p4reduce.topologies import datacenter
from p4reduce.topologies.datacenter import PS_PER_KM, CapableSwitches, TopologyBuilder, plain_name, wan
from p4reduce.topologies.model import MAX_NODES, Topology, TopologyError
from p4reduce.topologies.optical import oxc
from p4reduce.topologies.wdm import Wdm, wdm
from p4switch.base.files import read_text, write_text
from p4switch.base.safe_yaml import YamlError, read_yaml
from p4switch.base.values import format_delay, format_rate, parse_delay, parse_rate, short

if TYPE_CHECKING:
    import networkx as nx

# The content of a topology file, checked by pydantic: explicit nodes and links, or a builder and its parameters.


Rate = Annotated[int, BeforeValidator(parse_rate)]
Delay = Annotated[str, BeforeValidator(lambda value: format_delay(parse_delay(value)))]
CapableField = bool | str | list[str]
_SHOWN: Final = 10
"""largest number of faults reported for one file"""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class NodeModel(_Strict):
    """One entry of ``nodes``."""

    name: str
    kind: Literal["host", "switch", "crossconnect"]
    role: Literal["worker", "server"] | None = None
    capable: bool | None = None
    position: tuple[float, float] | None = None


class LinkModel(_Strict):
    """One entry of ``links``; rate and delay may come from ``defaults``."""

    a: str
    b: str
    rate: Rate | None = None
    delay: Delay | None = None


class DefaultsModel(_Strict):
    """Rate and delay of links that do not give their own."""

    rate: Rate | None = None
    delay: Delay | None = None


class ExplicitModel(_Strict):
    """A file with ``nodes`` and ``links``."""

    name: str | None = None
    description: str = ""
    defaults: DefaultsModel = DefaultsModel()
    nodes: list[NodeModel]
    links: list[LinkModel]

    def build(self, name: str) -> Topology:
        """Build the topology; ``name`` is used when the file gives none."""
        builder = TopologyBuilder(self.name or name)
        for number, node in enumerate(self.nodes):
            field = f"nodes[{number}] ({node.name})"
            if node.kind == "switch":
                if node.role is not None:
                    raise TopologyError(f"{field}.role: only hosts have a role; remove it")
                builder.switch(node.name, capable=node.capable is not False, position=node.position)
            elif node.kind == "crossconnect":
                if node.role is not None or node.capable:
                    raise TopologyError(f"{field}: a cross-connect has no role and cannot aggregate; remove that")
                builder.crossconnect(node.name, position=node.position)
            else:
                if node.capable:
                    raise TopologyError(f"{field}.capable: hosts cannot aggregate; remove it")
                builder.host(node.name, server=node.role == "server", position=node.position)
        for number, link in enumerate(self.links):
            field = f"links[{number}] ({link.a} - {link.b})"
            rate = link.rate if link.rate is not None else self.defaults.rate
            delay = link.delay if link.delay is not None else self.defaults.delay
            if rate is None:
                raise TopologyError(f"{field}.rate: missing; add 'rate: 10G' here or under defaults")
            if delay is None:
                raise TopologyError(f"{field}.delay: missing; add 'delay: 1us' here or under defaults")
            builder.link(link.a, link.b, rate, delay)
        return builder.build()


class _BuilderModel(_Strict):
    name: str | None = None
    description: str = ""
    rate: Rate = 10_000_000_000
    servers: NonNegativeInt = 0
    capable: CapableField = True

    def _arguments(self) -> dict[str, Any]:
        return {key: value for key, value in self if key not in ("builder", "description")}


class StarModel(_BuilderModel):
    """``builder: star``."""

    builder: Literal["star"]
    hosts: PositiveInt
    delay: Delay = "1us"

    def build(self, name: str) -> Topology:
        """Build the topology; ``name`` is used when the file gives none."""
        return datacenter.star(**self._arguments() | {"name": self.name or name})


class LeafSpineModel(_BuilderModel):
    """``builder: leaf-spine``."""

    builder: Literal["leaf-spine"]
    leaves: PositiveInt
    spines: PositiveInt
    hosts: PositiveInt
    delay: Delay = "1us"
    uplink: Rate | None = None
    oversubscription: float | str | None = None

    def build(self, name: str) -> Topology:
        """Build the topology; ``name`` is used when the file gives none."""
        return datacenter.leaf_spine(**self._arguments() | {"name": self.name or name})


class FatTreeModel(_BuilderModel):
    """``builder: fat-tree``."""

    builder: Literal["fat-tree"]
    k: PositiveInt
    delay: Delay = "1us"

    def build(self, name: str) -> Topology:
        """Build the topology; ``name`` is used when the file gives none."""
        return datacenter.fat_tree(**self._arguments() | {"name": self.name or name})


class WanModel(_BuilderModel):
    """``builder: wan``."""

    builder: Literal["wan"]
    graph: str
    hosts: PositiveInt = 1
    access_rate: Rate | None = None
    delay: Delay | None = None
    access_delay: Delay = "1us"

    def build(self, name: str) -> Topology:
        """Build the topology; ``name`` is used when the file gives none."""
        return wan(**self._arguments() | {"name": self.name or name})


class OxcModel(_Strict):
    """``builder: oxc``. The file may also hold settings of schedules: gpus, delta, parallel."""

    builder: Literal["oxc"]
    name: str | None = None
    description: str = ""
    pods: PositiveInt
    hosts: PositiveInt
    ports: PositiveInt
    rate: Rate = 10_000_000_000
    port_rate: Rate | None = None
    delay: Delay = "1us"
    planes: PositiveInt = 1
    capable: CapableField = True
    gpus: PositiveInt = 1
    delta: Delay = "200us"
    parallel: Literal["bonded", "striped"] = "bonded"

    def build(self, name: str) -> Topology:
        """Build the topology; ``name`` is used when the file gives none."""
        left_out = ("builder", "description", "gpus", "delta", "parallel")
        given: dict[str, Any] = {key: value for key, value in self if key not in left_out}
        return oxc(**given | {"name": self.name or name})


class WdmModel(_BuilderModel):
    """``builder: wdm``."""

    builder: Literal["wdm"]
    rate: Rate = 100_000_000_000
    graph: str
    wavelengths: int = 16
    slots: int = 10
    transponders: int = 16
    hosts: PositiveInt = 1
    access_rate: Rate = 40_000_000_000
    access_delay: Delay = "1us"

    def network(self, name: str) -> Wdm:
        """Fibres, wavelengths and transponders; ``name`` is used when the file gives none."""
        return wdm(**self._arguments() | {"name": self.name or name})

    def build(self, name: str) -> Topology:
        """Build the topology: its cross-connect has a port for each transponder."""
        return self.network(name).physical()


Model = StarModel | LeafSpineModel | FatTreeModel | WanModel | OxcModel | WdmModel
BUILDERS: dict[str, type[Model]] = {
    "star": StarModel,
    "leaf-spine": LeafSpineModel,
    "fat-tree": FatTreeModel,
    "wan": WanModel,
    "oxc": OxcModel,
    "wdm": WdmModel,
}
"""builders by the name that files and specifications use"""
OTHERS: Registry[Callable[..., Topology]] = Registry("topology", TopologyError)
"""builders of other distributions (entry points of ``p4reduce.topologies``): functions whose arguments are the
parameters of a file, converted to their annotations"""


def build(data: Any, name: str) -> Topology:
    """Build the topology that the content of a file describes.

    Parameters
    ----------
    data : object
        Result of ``read_yaml``, or a dict of the same shape.
    name : str
        Name of the topology if the file has none.

    Raises
    ------
    TopologyError
        The message names the field and the fix; the caller adds the file.
    """
    if not isinstance(data, dict):
        raise TopologyError(
            "a topology is a mapping with 'nodes' and 'links', or with 'builder' and its parameters; "
            f"this is {'empty' if data is None else 'a ' + type(data).__name__}"
        )
    model: type[ExplicitModel | Model] = ExplicitModel
    if "builder" in data:
        if isinstance(data["builder"], str) and data["builder"] not in BUILDERS and data["builder"] in OTHERS:
            return _build_other(data)
        if not isinstance(data["builder"], str) or data["builder"] not in BUILDERS:
            known = ", ".join([*BUILDERS, *OTHERS])
            raise TopologyError(f"builder: there is no {short(data['builder'])}; choose one of {known}")
        model = BUILDERS[data["builder"]]
    try:
        return model.model_validate(data).build(name)
    except ValidationError as error:
        raise TopologyError(_explain(error, model)) from None
    except TopologyError:
        raise
    except ValueError as error:
        raise TopologyError(str(error)) from error


def _build_other(data: dict[str, Any]) -> Topology:
    name = data["builder"]
    try:
        built = validate_call(OTHERS[name])(**{key: value for key, value in data.items() if key != "builder"})
    except ValidationError as error:
        raise TopologyError(_explain(error, None)) from None
    if not isinstance(built, Topology):
        raise TopologyError(f"builder: {name} gave {short(built)}, which is no Topology")
    return built


def describe(topology: Topology) -> dict[str, Any]:
    """Return the explicit form of a topology: ``build(describe(t), "") == t``."""
    return {
        "name": topology.name,
        "nodes": [
            {"name": node.name, "kind": node.kind}
            | ({"role": "server"} if node.role == "server" else {})
            | ({"capable": node.capable} if node.is_switch else {})
            | ({"position": list(node.position)} if node.position is not None else {})
            for node in topology.nodes
        ],
        "links": [
            {"a": link.a, "b": link.b, "rate": format_rate(link.rate_bps), "delay": format_delay(link.delay_ps)}
            for link in topology.links
        ],
    }


def with_capable(topology: Topology, capable: bool | str | list[str]) -> Topology:
    """Return the same network with other capable switches (see :data:`~p4reduce.topologies.datacenter.Capable`)."""
    chosen = CapableSwitches(capable)
    builder = TopologyBuilder(topology.name)
    for node in topology.nodes:
        if node.is_switch:
            builder.switch(node.name, capable=node.name in chosen, position=node.position)
        elif node.is_crossconnect:
            builder.crossconnect(node.name, position=node.position)
        else:
            builder.host(node.name, server=node.role == "server", position=node.position)
    for link in topology.links:
        builder.link(link.a, link.b, link.rate_bps, format_delay(link.delay_ps))
    chosen.check_used()
    return builder.build()


def _explain(error: ValidationError, model: type[BaseModel] | None) -> str:
    """Return one line for each fault, with the name of the field in the file."""
    lines = []
    for problem in error.errors():
        field = ""
        for part in problem["loc"]:
            if isinstance(part, int):
                field += f"[{part}]"
            elif part in ("bool", "str", "float", "list[str]"):
                continue  # a branch of a union in pydantic, not a field of the file
            else:
                field += f".{part}" if field else str(part)
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            message = "is not known here; remove it or correct its name"
            if model is not None and len(problem["loc"]) == 1:
                message += f" (known: {', '.join(model.model_fields)})"
        elif problem["type"] == "missing":
            message = "is missing; add it"
        elif (value := short(problem["input"])) not in message:
            message += f" (it says {value})"
        lines.append(f"{field}: {message}")
    shown = list(dict.fromkeys(lines))
    more = [f"... and {len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else []
    return "\n".join(shown[:_SHOWN] + more)


_FILE_LIMIT = 16 * 2**20
"""largest file in bytes: far above any network that the address plan allows, but small enough for the memory"""


def load(source: str | Path) -> Topology:
    """Read the topology of a file, a bundled name, or a specification.

    Parameters
    ----------
    source : str or Path
        The path of a YAML file (``my/net.yaml``), a bundled name (``leaf-spine-8``, see :func:`bundled`), or a
        builder and its parameters: ``leaf-spine:leaves=2,spines=2,hosts=4,rate=10G,delay=1us``,
        ``wan:graph=germany50,servers=1``, ``star:hosts=8,capable=none``; several patterns of ``capable`` are
        joined by '+': ``capable=leaf*+spine1``.

    Raises
    ------
    TopologyError
        The message names the file, the field and the fix.
    """
    if isinstance(source, str) and _is_spec(source):
        return _from_spec(source)
    if isinstance(source, str) and source in bundled():
        return _from_yaml((resources.files(__package__) / f"{source}.yaml").read_text("utf-8"), f"{source}.yaml")
    check_source(source)
    path = Path(source)
    if path.stat().st_size > _FILE_LIMIT:
        raise TopologyError(f"{path}: larger than {_FILE_LIMIT} bytes; this is no topology")
    try:
        return _from_yaml(read_text(path), str(path))
    except OSError as error:
        raise TopologyError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise TopologyError(f"{path}: is not UTF-8 text ({error.reason} at byte {error.start})") from None


def check_source(source: str | Path) -> None:
    """Raise `TopologyError` if :func:`load` cannot find ``source``; the file itself is not read."""
    text, path = str(source), Path(source)
    if isinstance(source, str) and (_is_spec(source) or source in bundled()):
        return
    if path.is_file():
        return
    if path.exists() and not path.is_dir():
        raise TopologyError(f"{text}: is a device or a pipe; give a YAML file")
    if path.is_dir() and "/" in text:
        raise TopologyError(f"{text}: is a folder; give a YAML file")
    if path.suffix in (".yaml", ".yml") or "/" in text:
        raise TopologyError(f"{text}: there is no such file")
    builders = ", ".join([*BUILDERS, *OTHERS])
    raise TopologyError(
        f"{text!r} is no topology: give a YAML file, one of {', '.join(bundled())}, "
        f"or a builder ({builders}) and its parameters, as in 'leaf-spine:leaves=2,spines=2,hosts=4'"
    )


def _is_spec(text: str) -> bool:
    """Return whether the text is the name of a builder with its parameters."""
    builder, colon, _ = text.partition(":")
    return bool(colon) and (builder in BUILDERS or builder in OTHERS)


def bundled() -> tuple[str, ...]:
    """Return the names of the topologies in the package, sorted."""
    files = resources.files(__package__).iterdir()
    return tuple(sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml")))


def to_yaml(topology: Topology) -> str:
    """Return the YAML text of a topology, with all nodes and links; :func:`load` reads an equal topology from it."""
    data = describe(topology)
    lines = [f"name: {_flow(data['name'])}"]
    for part in ("nodes", "links"):
        lines.append(f"{part}:")
        lines.extend(f"  - {_flow(entry)}" for entry in data[part])
    return "\n".join(lines) + "\n"


def save(topology: Topology, path: str | Path) -> None:
    """Write the text of :func:`to_yaml` to a file."""
    write_text(Path(path), to_yaml(topology))


def _flow(value: Any) -> str:
    """Return a value as one line of YAML."""
    text = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=10**6, allow_unicode=True)
    return text.removesuffix("...\n").strip()


def _from_yaml(text: str, file: str) -> Topology:
    try:
        data = read_yaml(text, limit=_FILE_LIMIT)
    except YamlError as error:
        raise TopologyError(f"{file}: {error}") from None
    try:
        return build(data, Path(file).stem)
    except TopologyError as error:
        raise TopologyError("\n".join(f"{file}: {line}" for line in str(error).splitlines())) from None


def wdm_of(spec: str) -> Wdm:
    """Return the network of a spec such as ``wdm:graph=nobel-us,wavelengths=16``; `TopologyError` names the fix."""
    if not spec.startswith("wdm:"):
        raise TopologyError(f"{short(spec)} has no fibres; write for example wdm:graph=nobel-us,hosts=2,wavelengths=16")
    try:
        return WdmModel.model_validate(_spec_data(spec)).network(spec)
    except ValidationError as error:
        raise TopologyError(f"{spec!r}: {_explain(error, WdmModel)}") from None


def _from_spec(spec: str) -> Topology:
    data = _spec_data(spec)
    try:
        return build(data, spec)
    except TopologyError as error:
        raise TopologyError("\n".join(f"{spec!r}: {line}" for line in str(error).splitlines())) from None


def _spec_data(spec: str) -> dict[str, Any]:
    builder, _, rest = spec.partition(":")
    data: dict[str, Any] = {"builder": builder}
    for item in filter(None, rest.split(",")):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not key or not value:
            raise TopologyError(f"{spec!r}: {item!r} is no 'parameter=value'")
        if key in data:
            raise TopologyError(f"{spec!r}: {key} is given twice")
        data[key] = value.split("+") if key == "capable" else value
    return data


# Files of other programs: graphs of networkx and of the Internet Topology Zoo, containerlab, ASTRA-sim and SimAI.


FORMATS: Final = {
    "graphml": "GraphML, as of the Internet Topology Zoo",
    "json": "node-link JSON of networkx",
    "containerlab": "topology file of containerlab",
    "links": "list of links of ASTRA-sim's ns-3 back end, or of SimAI",
}
"""formats that :func:`import_file` reads, with a description of each"""
_ENDINGS: Final = {".graphml": "graphml", ".json": "json", ".txt": "links"} | dict.fromkeys(
    (".yml", ".yaml"), "containerlab"
)
_EARTH_KM: Final = 6371.0
_HOST_KINDS: Final = frozenset({"host", "linux", "worker", "server"})


@dataclass
class Imported:
    """The content of a file of another program.

    Attributes:
        nodes: for each node name: whether it is a ``host``, a ``server``, ``capable``, and its ``position``.
        links: ends, rate in bit/s or None, delay in ps or None; parallel links become one with the sum of their rates.
        left_out: descriptions of properties that a topology cannot represent.
    """

    nodes: dict[str, dict[str, Any]] = field(default_factory=dict)
    links: list[tuple[str, str, int | None, int | None]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def topology(self, name: str, *, hosts: int, servers: int, rate: int | str, delay: int | str) -> Topology:
        """Build the network; if the file has no hosts, add workers at each switch and servers at the first switches."""
        builder = TopologyBuilder(name)
        for node, properties in self.nodes.items():
            if properties["host"]:
                builder.host(node, server=properties["server"], position=properties["position"])
            else:
                builder.switch(node, capable=properties["capable"], position=properties["position"])
        switches = [node for node, properties in self.nodes.items() if not properties["host"]]
        if len(switches) == len(self.nodes):
            if hosts < 1 or not 0 <= servers <= len(switches):
                most = len(switches)
                raise TopologyError(f"hosts, servers: the file has none; give 1 or more, and 0 to {most} servers")
            if hosts * len(switches) > MAX_NODES:
                raise TopologyError(
                    f"hosts: {len(switches)} switches with {short(hosts)} workers each are too many: "
                    f"addresses allow {MAX_NODES}; give at most {MAX_NODES // len(switches)}"
                )
            added = [(f"{node}-h{number}", node, False) for node in switches for number in range(1, hosts + 1)]
            added += [(f"{node}-server", node, True) for node in switches[:servers]]
            for host, _, server in added:
                builder.host(host, server=server)
            for host, node, _ in added:
                builder.link(host, node, rate, delay)
        for a, b, link_rate, link_delay in self._merged():
            known = format_delay(link_delay) if link_delay is not None else delay
            builder.link(a, b, rate if link_rate is None else link_rate, known)
        return builder.build()

    def _merged(self) -> Iterable[tuple[str, str, int | None, int | None]]:
        """Yield one link for each pair of nodes, with the sum of the rates and the longest delay of parallel links."""
        together: dict[frozenset[str], list[tuple[str, str, int | None, int | None]]] = {}
        for link in self.links:
            together.setdefault(frozenset(link[:2]), []).append(link)
        for links in together.values():
            a, b, rate, delay = links[0]
            rates = [each[2] for each in links]
            if len(links) > 1:
                rate = None if None in rates else sum(each for each in rates if each is not None)
                delay = max((each[3] for each in links if each[3] is not None), default=None)
                fast = "" if rate is None else ", as fast as all"
                self.left_out.append(f"{len(links)} links {a} - {b} are one{fast}")
            yield a, b, rate, delay


def import_file(
    path: str | Path,
    form: str | None = None,
    *,
    hosts: int = 1,
    servers: int = 0,
    rate: int | str = "10G",
    delay: int | str = "1us",
) -> tuple[Topology, list[str]]:
    """Read a file of another program; return its topology, and descriptions of what the topology leaves out.

    Parameters
    ----------
    path : str or Path
        The file.
    form : str or None
        One of :data:`FORMATS`; None: decided by the ending of the file's name.
    hosts, servers : int
        If the file has no hosts: number of workers added at each switch, and of server hosts added at the first
        switches.
    rate, delay : int or str
        Values for links without them in the file, and for links to added hosts.

    Raises
    ------
    TopologyError
        The message names the file, the place and the fix.
    """
    path = Path(path)
    form = form or _ENDINGS.get(path.suffix.lower())
    if form not in FORMATS:
        raise TopologyError(f"{path}: say of which format it is: {', '.join(FORMATS)}")
    check_source(path)
    if path.stat().st_size > _FILE_LIMIT:
        raise TopologyError(f"{path}: larger than {_FILE_LIMIT} bytes; this is no topology")
    try:
        text = read_text(path)
        imported = _READERS[form](text)
        topology = imported.topology(path.stem, hosts=hosts, servers=servers, rate=rate, delay=delay)
    except OSError as error:
        raise TopologyError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise TopologyError(f"{path}: is not UTF-8 text ({error.reason} at byte {error.start})") from None
    except (TopologyError, YamlError, ValueError) as error:
        raise TopologyError(f"{path}: {error}") from None
    return topology, imported.left_out


def from_networkx(graph: "nx.Graph[Any]") -> Imported:
    """Read nodes and links from a networkx graph.

    Nodes: ``kind`` (host, switch; by default switch), ``role`` (server), ``capable``, ``position``, or ``Longitude``
    and ``Latitude``; a node's name is its ``label`` if it has one. Edges: ``rate`` ('10G', bit/s) or ``LinkSpeedRaw``
    (bit/s); ``delay`` ('1us', '300ns'), else 4.9 us for each km between its ends, where both are known. Optional
    attributes of edges: ``number`` gives their order, ``start`` the end that comes first.
    """
    if graph.is_directed():
        raise TopologyError("links: they are directed; links of a network carry both ways: write an undirected graph")
    names = _unique({node: plain_name(str(data.get("label") or node)) for node, data in graph.nodes(data=True)})
    imported = Imported()
    places: dict[Any, tuple[float, float]] = {}
    for node, data in graph.nodes(data=True):
        where = _numbers(data.get("Longitude"), data.get("Latitude"))
        if where is not None:
            places[node] = where
        position = data.get("position")
        pair = _numbers(*position) if isinstance(position, list | tuple) and len(position) == 2 else where
        imported.nodes[names[node]] = {
            "host": str(data.get("kind", "switch")).lower() in _HOST_KINDS,
            "server": data.get("role") == "server",
            "capable": data.get("capable", True) not in (False, 0, "false", "False"),
            "position": pair,
        }
    edges = sorted(graph.edges(data=True), key=lambda edge: _number(edge[2].get("number")))
    for number, (end, other, data) in enumerate(edges):
        a, b = (other, end) if data.get("start") == names[other] else (end, other)
        where_at = f"links[{number}] ({names[a]} - {names[b]})"
        raw = data.get("rate", data.get("LinkSpeedRaw"))
        try:
            rate = None if raw is None else parse_rate(int(raw) if isinstance(raw, float) and raw.is_integer() else raw)
            delay = None if data.get("delay") is None else parse_delay(data["delay"])
        except (ValueError, OverflowError) as error:
            raise TopologyError(f"{where_at}: {error}") from None
        if delay is None and a in places and b in places:
            delay = round(_distance_km(places[a], places[b]) * PS_PER_KM)
        imported.links.append((names[a], names[b], rate, delay))
    return imported


def to_networkx(topology: Topology) -> "nx.Graph[str]":
    """Convert a topology to a graph with the attributes that :func:`from_networkx` reads."""
    import networkx as nx  # noqa: PLC0415  (slow to import)

    graph: nx.Graph[str] = nx.Graph(name=topology.name)
    described = describe(topology)
    for node in described["nodes"]:
        graph.add_node(node.pop("name"), **node)
    for number, link in enumerate(described["links"]):
        graph.add_edge(link["a"], link["b"], rate=link["rate"], delay=link["delay"], number=number, start=link["a"])
    return graph


def _from_graphml(text: str) -> Imported:
    import networkx as nx  # noqa: PLC0415  (slow to import)

    try:
        with warnings.catch_warnings(action="ignore"):  # networkx warns of keys without a type, which are read as text
            graph = nx.parse_graphml(text)
    except Exception as error:  # errors of XML, of numbers, of missing keys: networkx has no common type for them
        raise TopologyError(f"no GraphML: {type(error).__name__}: {short(str(error))}") from None
    return from_networkx(graph)


def _from_json(text: str) -> Imported:
    import networkx as nx  # noqa: PLC0415  (slow to import)

    try:
        data = json.loads(text)
        if not isinstance(data, dict):
            raise TopologyError("no node-link JSON of networkx: it is no object with 'nodes' and 'edges'")
        edges = "links" if "links" in data and "edges" not in data else "edges"
        graph = nx.node_link_graph(data, edges=edges)
    except TopologyError:
        raise
    except (ValueError, RecursionError) as error:
        raise TopologyError(f"no JSON: {short(str(error))}") from None
    except Exception as error:  # networkx does not check its input
        raise TopologyError(f"no node-link JSON of networkx: {type(error).__name__}: {short(str(error))}") from None
    return from_networkx(graph)


def _from_containerlab(text: str) -> Imported:
    """Read containerlab's YAML: nodes of kind ``linux`` with one link are hosts, all others are switches."""
    data = read_yaml(text, limit=_FILE_LIMIT)
    inside = data.get("topology") if isinstance(data, dict) else None
    if not isinstance(inside, dict) or not isinstance(inside.get("nodes"), dict):
        raise TopologyError("topology: no topology file of containerlab; it has 'topology' with 'nodes' and 'links'")
    links = inside.get("links") or []
    if not isinstance(links, list):
        raise TopologyError("topology.links: is no list")
    ends: list[tuple[str, str]] = []
    for number, link in enumerate(links):
        given = link.get("endpoints") if isinstance(link, dict) else None
        if not isinstance(given, list) or len(given) != 2:
            raise TopologyError(f"topology.links[{number}].endpoints: takes two, as ['s1:eth1', 's2:eth1']")
        pair = [str(end.get("node", "") if isinstance(end, dict) else end).partition(":")[0] for end in given]
        for node in pair:
            if node not in inside["nodes"]:
                raise TopologyError(f"topology.links[{number}].endpoints: there is no node {node!r} in topology.nodes")
        ends.append((pair[0], pair[1]))
    degree = Counter(node for pair in ends for node in pair)
    default = (inside.get("defaults") or {}).get("kind") if isinstance(inside.get("defaults") or {}, dict) else None
    imported = Imported()
    for node, settings in inside["nodes"].items():
        kind = str((settings if isinstance(settings, dict) else {}).get("kind") or default or "")
        host = kind.lower() in _HOST_KINDS and degree[node] == 1
        imported.nodes[str(node)] = {"host": host, "server": False, "capable": True, "position": None}
    imported.links = [(a, b, None, None) for a, b in ends]
    return imported


def _from_links(text: str) -> Imported:
    """Read node numbers, rate, delay and error rate of each link, after one or two lines of counts.

    ASTRA-sim: ``nodes switches links``, then the numbers of the switches. SimAI: ``nodes GPUs-per-server NVSwitches
    switches links type``, then the numbers of NVSwitches and switches. NVSwitches are inside a server and are left out.
    """
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if len(lines) < 2 or len(lines[0]) not in (3, 5, 6):
        fix = "takes 'nodes switches links' (ASTRA-sim), or 'nodes GPUs NVSwitches switches links type' (SimAI)"
        raise TopologyError(f"line 1: {fix}")
    simai = len(lines[0]) > 3
    counts = [_whole(word, 1) for word in lines[0][: 5 if simai else 3]]
    inner = counts[2] if simai else 0
    nodes, switches, count = counts[0], counts[-2], counts[-1]
    listed = [_whole(word, 2) for word in lines[1]]
    if len(listed) != inner + switches:
        raise TopologyError(f"line 2: names {len(listed)} switches; line 1 says {inner + switches}")
    if len(lines) - 2 != count:
        raise TopologyError(f"line 1: says {count} links; {len(lines) - 2} lines follow")
    if nodes > 2 * MAX_NODES:
        raise TopologyError(f"line 1: {nodes} nodes; addresses allow {MAX_NODES} hosts and as many switches")
    nvlink, fabric = set(listed[:inner]), set(listed[inner:])
    names = {number: f"s{number}" if number in fabric else f"h{number}" for number in range(nodes)}
    imported = Imported()
    for number, name in names.items():
        if number not in nvlink:
            imported.nodes[name] = {"host": number not in fabric, "server": False, "capable": True, "position": None}
    dropped = lossy = 0
    for place, words in enumerate(lines[2:], 3):
        if len(words) < 4:
            raise TopologyError(f"line {place}: takes two nodes, a rate, a delay and an error rate")
        a, b = (_whole(word, place) for word in words[:2])
        for end in (a, b):
            if end not in names:
                raise TopologyError(f"line {place}: there is no node {end}; line 1 says {nodes} nodes")
        if {a, b} & nvlink:
            dropped += 1
            continue
        try:
            imported.links.append((names[a], names[b], parse_rate(words[2].removesuffix("bps")), parse_delay(words[3])))
        except ValueError as error:
            raise TopologyError(f"line {place}: {error}") from None
        lossy += len(words) > 4 and bool(words[4].strip("0."))
    if lossy:
        imported.left_out.append(f"error rates of {lossy} link{'s' * (lossy > 1)}: say --loss in a run")
    if dropped:
        imported.left_out.append(f"{inner} NVSwitches with {dropped} links: they are inside of servers")
    return imported


_READERS: Final[Mapping[str, Callable[[str], Imported]]] = {
    "graphml": _from_graphml,
    "json": _from_json,
    "containerlab": _from_containerlab,
    "links": _from_links,
}


def _whole(word: str, line: int) -> int:
    if not word.isascii() or not word.isdecimal() or len(word) > 9:
        raise TopologyError(f"line {line}: {short(word)} is no whole number")
    return int(word)


def _unique(names: Mapping[Any, str]) -> dict[Any, str]:
    """Return names by key; names shared by several nodes are extended by the node's key."""
    times = Counter(names.values())
    return {node: name if times[name] == 1 else f"{name}-{plain_name(str(node))}" for node, name in names.items()}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.inf


def _numbers(x: Any, y: Any) -> tuple[float, float] | None:
    try:
        pair = float(x), float(y)
    except (TypeError, ValueError):
        return None
    return pair if all(map(math.isfinite, pair)) else None


def _distance_km(point: tuple[float, float], other: tuple[float, float]) -> float:
    """Return the great-circle distance in km (haversine formula) of two (longitude, latitude) pairs in degrees."""
    (x1, y1), (x2, y2) = (tuple(map(math.radians, place)) for place in (point, other))
    half = math.sin((y2 - y1) / 2) ** 2 + math.cos(y1) * math.cos(y2) * math.sin((x2 - x1) / 2) ** 2
    return 2 * _EARTH_KM * math.asin(min(1.0, math.sqrt(half)))
