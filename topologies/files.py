"""Loading a topology: a YAML file, a bundled name, or a one-line specification."""

from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from p4reduce.base.safe_yaml import YamlError, read_yaml
from p4reduce.base.written import write_text
from p4reduce.topologies import schema
from p4reduce.topologies.model import Topology, TopologyError

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
    text = str(source)
    builder = text.partition(":")[0]
    if isinstance(source, str) and ":" in source and (builder in schema.BUILDERS or builder in schema.OTHERS):
        return _from_spec(source)
    if isinstance(source, str) and source in bundled():
        return _from_yaml((resources.files(__package__) / f"{source}.yaml").read_text("utf-8"), f"{source}.yaml")
    path = Path(source)
    if path.is_file():
        if path.stat().st_size > _FILE_LIMIT:
            raise TopologyError(f"{path}: larger than {_FILE_LIMIT} bytes; this is no topology")
        try:
            return _from_yaml(path.read_text("utf-8"), str(path))
        except UnicodeDecodeError as error:
            raise TopologyError(f"{path}: is not UTF-8 text ({error.reason} at byte {error.start})") from None
    if path.exists() and not path.is_dir():
        raise TopologyError(f"{text}: is a device or a pipe; give a YAML file")
    if path.is_dir() and "/" in text:
        raise TopologyError(f"{text}: is a folder; give a YAML file")
    if path.suffix in (".yaml", ".yml") or "/" in text:
        raise TopologyError(f"{text}: there is no such file")
    builders = ", ".join([*schema.BUILDERS, *schema.OTHERS])
    raise TopologyError(
        f"{text!r} is no topology: give a YAML file, one of {', '.join(bundled())}, "
        f"or a builder ({builders}) and its parameters, as in 'leaf-spine:leaves=2,spines=2,hosts=4'"
    )


def bundled() -> tuple[str, ...]:
    """Names of the topologies that come with the package, sorted."""
    files = resources.files(__package__).iterdir()
    return tuple(sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml")))


def to_yaml(topology: Topology) -> str:
    """The YAML text of a topology, with all nodes and links; :func:`load` gives an equal topology back."""
    data = schema.describe(topology)
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
        return schema.build(data, Path(file).stem)
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
        return schema.build(data, spec)
    except TopologyError as error:
        raise TopologyError("\n".join(f"{spec!r}: {line}" for line in str(error).splitlines())) from None
