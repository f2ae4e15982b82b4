"""Loading a topology: a YAML file, a bundled name, or a one-line specification."""

from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, NonNegativeInt, PositiveInt, ValidationError, validate_call

from p4reduce.base.registry import Registry
from p4reduce.topologies import datacenter
from p4reduce.topologies.datacenter import CapableSwitches, TopologyBuilder, wan
from p4reduce.topologies.model import Topology, TopologyError
from p4reduce.topologies.optical import oxc
from p4switch.base.files import read_text, write_text
from p4switch.base.safe_yaml import YamlError, read_yaml
from p4switch.base.values import format_delay, format_rate, parse_delay, parse_rate, short

# What a topology file may say, checked by pydantic: explicit nodes and links, or a builder and its parameters.


Rate = Annotated[int, BeforeValidator(parse_rate)]
Delay = Annotated[str, BeforeValidator(lambda value: format_delay(parse_delay(value)))]
CapableField = bool | str | list[str]
_SHOWN: Final = 10
"""faults of one file that are told at once"""


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
    """Rate and delay of links that do not say their own."""

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
        """The topology; ``name`` is used when the file gives none."""
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
        """The topology; ``name`` is used when the file gives none."""
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
        """The topology; ``name`` is used when the file gives none."""
        return datacenter.leaf_spine(**self._arguments() | {"name": self.name or name})


class FatTreeModel(_BuilderModel):
    """``builder: fat-tree``."""

    builder: Literal["fat-tree"]
    k: PositiveInt
    delay: Delay = "1us"

    def build(self, name: str) -> Topology:
        """The topology; ``name`` is used when the file gives none."""
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
        """The topology; ``name`` is used when the file gives none."""
        return wan(**self._arguments() | {"name": self.name or name})


class OxcModel(_Strict):
    """``builder: oxc``. What schedules need besides (gpus, delta, parallel) may stand in the same text."""

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
        """The topology; ``name`` is used when the file gives none."""
        left_out = ("builder", "description", "gpus", "delta", "parallel")
        given: dict[str, Any] = {key: value for key, value in self if key not in left_out}
        return oxc(**given | {"name": self.name or name})


BUILDERS: dict[str, type[StarModel | LeafSpineModel | FatTreeModel | WanModel | OxcModel]] = {
    "star": StarModel,
    "leaf-spine": LeafSpineModel,
    "fat-tree": FatTreeModel,
    "wan": WanModel,
    "oxc": OxcModel,
}
"""The builders by the name that files and spec strings use."""
OTHERS: Registry[Callable[..., Topology]] = Registry("topology", TopologyError)
"""Builders of other distributions, from entry points of ``p4reduce.topologies``: functions whose arguments are the
parameters, converted to their annotations."""


def build(data: Any, name: str) -> Topology:
    """The topology that the content of a file describes.

    Parameters
    ----------
    data : object
        What ``read_yaml`` gave, or a dict of the same shape.
    name : str
        The topology's name when the file gives none.

    Raises
    ------
    TopologyError
        Names the field and the fix; the caller knows the file.
    """
    if not isinstance(data, dict):
        raise TopologyError(
            "a topology is a mapping with 'nodes' and 'links', or with 'builder' and its parameters; "
            f"this is {'empty' if data is None else 'a ' + type(data).__name__}"
        )
    model: type[ExplicitModel | StarModel | LeafSpineModel | FatTreeModel | WanModel | OxcModel] = ExplicitModel
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
    """The explicit form of a topology: ``build(describe(t), "") == t``."""
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
    """The same network with another choice of capable switches (see :data:`builder.Capable`)."""
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
    """One line for each thing that is wrong, with the field as it stands in the file."""
    lines = []
    for problem in error.errors():
        field = ""
        for part in problem["loc"]:
            if isinstance(part, int):
                field += f"[{part}]"
            elif part in ("bool", "str", "float", "list[str]"):
                continue  # which branch of a union pydantic tried: not the user's business
            else:
                field += f".{part}" if field else str(part)
        message = problem["msg"].removeprefix("Value error, ")
        if problem["type"] == "extra_forbidden":
            message = "is not known here; remove it or correct its name"
            if model is not None and len(problem["loc"]) == 1:
                message += f" (known: {', '.join(model.model_fields)})"
        elif problem["type"] == "missing":
            message = "is missing; add it"
        elif (said := short(problem["input"])) not in message:
            message += f" (it says {said})"
        lines.append(f"{field}: {message}")
    shown = list(dict.fromkeys(lines))
    more = [f"... and {len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else []
    return "\n".join(shown[:_SHOWN] + more)


_FILE_LIMIT = 16 * 2**20
"""bytes; far above any network that the address plan admits, far below what would fill the memory"""


def load(source: str | Path) -> Topology:
    """The topology of a file, a bundled name, or a specification.

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
        Names the file, the field and the fix.
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
    """Raise `TopologyError` where there is nothing that :func:`load` could read; reads nothing itself."""
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
    """Whether it is a builder with its parameters."""
    builder, colon, _ = text.partition(":")
    return bool(colon) and (builder in BUILDERS or builder in OTHERS)


def bundled() -> tuple[str, ...]:
    """Names of the topologies that come with the package, sorted."""
    files = resources.files(__package__).iterdir()
    return tuple(sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml")))


def to_yaml(topology: Topology) -> str:
    """The YAML text of a topology, with all nodes and links; :func:`load` gives an equal topology back."""
    data = describe(topology)
    lines = [f"name: {_flow(data['name'])}"]
    for part in ("nodes", "links"):
        lines.append(f"{part}:")
        lines.extend(f"  - {_flow(entry)}" for entry in data[part])
    return "\n".join(lines) + "\n"


def save(topology: Topology, path: str | Path) -> None:
    """Write :func:`to_yaml` to a file."""
    write_text(Path(path), to_yaml(topology))


def _flow(value: Any) -> str:
    """A value on one line of YAML."""
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


def _from_spec(spec: str) -> Topology:
    builder, _, rest = spec.partition(":")
    data: dict[str, Any] = {"builder": builder}
    for item in filter(None, rest.split(",")):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not key or not value:
            raise TopologyError(f"{spec!r}: {item!r} is no 'parameter=value'")
        if key in data:
            raise TopologyError(f"{spec!r}: {key} is given twice")
        data[key] = value.split("+") if key == "capable" else value
    try:
        return build(data, spec)
    except TopologyError as error:
        raise TopologyError("\n".join(f"{spec!r}: {line}" for line in str(error).splitlines())) from None
