"""Files that say what hosts can do: YAML with a profile for each, and one for all others."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from p4reduce.base.safe_yaml import YamlError, one_line, read_yaml
from p4reduce.control_plane.orchestrator.computing import MAX_SLOWDOWN, HostProfile
from p4reduce.control_plane.orchestrator.errors import TaskError
from p4reduce.topologies import Topology, parse_delay

_FOLDER: Final = "hosts"
_FIELDS: Final = {"add": "add_ps"}
"""names in the file that are others in the profile"""


class ProfileEntry(BaseModel):
    """A host's profile in a file; what is left out is as in the file's default."""

    model_config = ConfigDict(extra="forbid")

    slowdown: Annotated[float, Field(strict=True, gt=0, le=MAX_SLOWDOWN, allow_inf_nan=False)] = 1.0
    models: Annotated[int, Field(strict=True, ge=1)] = 1
    most_models: Annotated[int | None, Field(strict=True, ge=1)] = None
    add: Annotated[int, BeforeValidator(parse_delay)] = 0
    """for one element of one model, as in '100ps'"""
    utility: Annotated[float | None, Field(strict=True, ge=0, allow_inf_nan=False)] = None
    slots: Annotated[int, Field(strict=True, ge=0)] = 1


class HostsDocument(BaseModel):
    """A file of hosts."""

    model_config = ConfigDict(extra="forbid")

    default: ProfileEntry = Field(default_factory=ProfileEntry)
    hosts: dict[str, ProfileEntry] = Field(default_factory=dict)


@dataclass(frozen=True)
class HostsFile:
    """What a file says: profiles of hosts by name, and that of all others. ``source`` is how it was named."""

    source: str
    default: HostProfile
    hosts: Mapping[str, HostProfile]

    def of(self, topology: Topology) -> dict[str, HostProfile]:
        """The profile of every host; `TaskError` when the file names one that the topology has not."""
        names = [host.name for host in topology.hosts]
        if unknown := sorted(set(self.hosts) - set(names)):
            raise TaskError(
                f"{self.source}: hosts.{one_line(unknown[0], 60)}: topology {topology.name!r} has no such host; "
                f"it has {one_line(', '.join(names), 100)}"
            )
        return {name: self.hosts.get(name, self.default) for name in names}


def bundled_hosts() -> tuple[str, ...]:
    """Names of the files that come with the package; each is for the topology of that name."""
    files = (resources.files(__package__) / _FOLDER).iterdir()
    return tuple(sorted(file.name.removesuffix(".yaml") for file in files if file.name.endswith(".yaml")))


def read_hosts(source: str | Path) -> HostsFile:
    """A file of hosts, or a bundled one by its name.

    Raises
    ------
    TaskError
        Names the file, the field and the fix.
    """
    path = Path(source)
    if str(source) in bundled_hosts():
        return _parse(f"{source}.yaml", (resources.files(__package__) / _FOLDER / f"{source}.yaml").read_text("utf-8"))
    try:
        return _parse(str(path), path.read_text("utf-8"))
    except OSError as error:
        fix = f"give a YAML file, or one of {', '.join(bundled_hosts())}"
        raise TaskError(f"{path}: {error.strerror}; {fix}") from None
    except UnicodeDecodeError as error:
        raise TaskError(f"{path}: is no UTF-8 text: {error.reason} at byte {error.start}") from None


def _parse(source: str, text: str) -> HostsFile:
    try:
        data = read_yaml(text)
    except YamlError as error:
        raise TaskError(f"{source}: {error}") from None
    if not isinstance(data, dict) or not set(data) <= {"default", "hosts"}:
        raise TaskError(f"{source}: expected the keys 'default' (a profile) and 'hosts' (profiles by host)")
    try:
        document = HostsDocument.model_validate(data)
    except ValidationError as error:
        found = error.errors()[0]
        field = one_line(".".join(map(str, found["loc"])), 80)
        said = one_line(found["msg"].removeprefix("Value error, "))
        if found["type"] == "extra_forbidden":
            said = f"there is no such field; a profile has {', '.join(ProfileEntry.model_fields)}"
        raise TaskError(f"{source}: {field}: {said}") from None
    default = HostProfile(**_given(document.default))
    return HostsFile(
        source, default, {name: replace(default, **_given(entry)) for name, entry in document.hosts.items()}
    )


def _given(entry: ProfileEntry) -> dict[str, Any]:
    """What an entry says, by the names of a profile's fields."""
    return {_FIELDS.get(name, name): value for name, value in entry.model_dump(exclude_unset=True).items()}
