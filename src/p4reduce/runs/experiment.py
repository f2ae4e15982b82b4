"""A run as a user describes it: by flags, by one YAML file, or in Python."""

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

import p4reduce
from p4reduce.base.errors import BadInput
from p4reduce.base.requirements import requirements
from p4reduce.control_plane.program import P4Program
from p4reduce.group.backend import FloatArray
from p4reduce.network.virtual.faults import Faults
from p4switch.base.units import PS_PER_US

PlanName = str
Collective = Literal["all_reduce", "broadcast", "push", "pull", "push_pull", "all_to_all"]
REAL_TIME_FIELDS = ("target", "time", "links", "unshaped", "budget_s")
"""What has a meaning in real time only; a run in virtual time is described without them."""


class FaultOptions(BaseModel):
    """Faults on every link, as probabilities for each frame."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    loss: float = Field(0.0, ge=0, lt=1)
    duplicate: float = Field(0.0, ge=0, lt=1)
    reorder: float = Field(0.0, ge=0, lt=1)
    corrupt: float = Field(0.0, ge=0, lt=1)

    def on_links(self, **more: int) -> Faults:
        """The same as links of the fabric take them; ``more``: their other fields."""
        return Faults(**self.model_dump(), **more)


class Experiment(BaseModel):
    """Everything that decides a run. In virtual time the same values give the same result file, byte for byte."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topology: str = "leaf-spine-8"
    """A file, a bundled name or a builder with parameters (``leaf-spine:leaves=2,spines=2,hosts=4``)."""
    plan: PlanName = "steiner"
    workers: int | None = Field(None, ge=1)
    """How many hosts take part, in the topology's order; all that are not servers if absent."""
    model: Literal["digits", "tensor"] = "tensor"
    """Train the digits classifier, or move a plain tensor."""
    elements: int = Field(262_144, ge=1)
    """float32 elements of the plain tensor; text may have a unit: ``64k``, ``1M``, ``1Mi``."""
    repeat: int = Field(1, ge=1)
    """How many collectives on the plain tensor, one after the other."""
    collective: Collective = "all_reduce"
    epochs: int = Field(10, ge=1)
    """Passes over the training data (model digits)."""
    target_accuracy: float = Field(0.95, gt=0, le=1)
    lanes: Literal[64, 256] = 256
    numbers: Literal["block", "fixed"] = "block"
    scale: float | None = Field(None, gt=0, allow_inf_nan=False)
    """Fixed scale: units of int32 per 1.0; needed with ``numbers: fixed``."""
    speculate: bool = False
    """Block floating point: an all-reduce guesses its first exponents from those before, and repeats what is wrong."""
    rate: str | None = None
    """Overrides every link's rate, e.g. ``100G``."""
    delay: str | None = None
    """Overrides every link's delay, e.g. ``1us``."""
    window: int | None = Field(None, ge=1)
    """Chunks in flight; chosen from rate * round trip if absent."""
    queue_frames: int = Field(1024, ge=2, lt=2**31)
    """Capacity of a switch's output queue for each priority, frames."""
    faults: FaultOptions = FaultOptions()
    on_failure: Literal["abort", "raise", "shrink"] = "abort"
    """What the others do when a member of a script's group dies: end, hear of it, or go on with the collective."""
    deadline: str | None = None
    """All-reduces are closed without stragglers after this time, e.g. ``5ms``; they wait for all if absent."""
    quorum: int | None = Field(None, ge=1)
    """With a deadline: an all-reduce in which some chunk has fewer contributions is carried again; 1 if absent."""
    seed: int = Field(0, ge=0, lt=2**63)
    p4: Path | None = None
    """The user's own program as P4 source, compiled for ``lanes``."""
    p4_json: Path | None = None
    """The user's own program (p4c's JSON); the bundled one for ``lanes`` if absent."""
    p4_info: Path | None = None
    target: Literal["embedded", "bmv2"] = "embedded"
    """Who executes the P4 program: this package, or BMv2's simple_switch_grpc (real time only)."""
    time: Literal["virtual", "real"] = "virtual"
    """A discrete-event network, or processes with sockets; ``real`` where the target is bmv2 and nothing is said."""
    links: Literal["veth", "udp"] = "veth"
    """Real time: veth pairs between network namespaces, or datagrams on the loopback interface (no root)."""
    unshaped: bool = False
    """Real time: links are as fast as the machine, whatever rates the topology has."""
    budget_s: float = Field(120.0, gt=0, allow_inf_nan=False)
    """Real time: wall-clock seconds after which a run that has not ended is ended."""

    @field_validator("plan")
    @classmethod
    def _known_plan(cls, name: str) -> str:
        from p4reduce.control_plane.plans import PLANS  # noqa: PLC0415  (plans register on import)

        if name not in PLANS:
            raise ValueError(f"unknown plan {name!r}; known: {', '.join(sorted(PLANS))}")
        return name

    @field_validator("elements", mode="before")
    @classmethod
    def _counted(cls, value: Any) -> Any:
        from p4reduce.topologies.model import parse_count  # noqa: PLC0415  (slow to import)

        return parse_count(value) if isinstance(value, str) else value

    @field_validator("rate", "delay", "deadline")
    @classmethod
    def _known_unit(cls, text: str | None, info: ValidationInfo) -> str | None:
        from p4reduce.topologies import parse_delay, parse_rate  # noqa: PLC0415  (slow to import)

        if text is not None:
            (parse_rate if info.field_name == "rate" else parse_delay)(text)
        return text

    @model_validator(mode="before")
    @classmethod
    def _time_of_target(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        if given.get("collective") == "all_to_all":
            given = {"plan": "all-to-all", **given}
        return {"time": "real", **given} if given.get("target") == "bmv2" else given

    @model_serializer(mode="wrap")
    def _described(self, describe: SerializerFunctionWrapHandler) -> dict[str, Any]:
        found: dict[str, Any] = describe(self)
        if self.time == "virtual":
            for field in REAL_TIME_FIELDS:
                found.pop(field, None)
        if self.on_failure == "abort":
            found.pop("on_failure")
        for field in ("deadline", "quorum"):
            if found[field] is None:
                found.pop(field)
        if not self.speculate:
            found.pop("speculate")
        return found

    @property
    def deadline_ps(self) -> int | None:
        """``deadline`` in picoseconds."""
        from p4reduce.topologies import parse_delay  # noqa: PLC0415  (slow to import)

        return None if self.deadline is None else parse_delay(self.deadline)

    @model_validator(mode="after")
    def _of_stragglers(self) -> Self:
        if self.deadline is None:
            if self.quorum is not None:
                raise ValueError("quorum: says what is enough when a deadline has passed; give a deadline, too")
            return self
        if self.deadline_ps is not None and self.deadline_ps < PS_PER_US:
            raise ValueError(f"deadline: {self.deadline}, switches count microseconds: give 1us or more")
        if self.plan in {"ring", "ps", "all-to-all"} or self.collective != "all_reduce":
            raise ValueError("deadline: for all_reduce with a plan in the network: steiner, mst or spt")
        if self.on_failure != "abort":
            raise ValueError(
                "deadline: a group that outlives members waits for its stragglers; on_failure: choose abort"
            )
        if self.quorum is not None and self.workers is not None and self.quorum > self.workers:
            raise ValueError(f"quorum: {self.quorum} of {self.workers} workers cannot be")
        return self

    @model_validator(mode="after")
    def _of_guesses(self) -> Self:
        if not self.speculate:
            return self
        if self.numbers == "fixed":
            raise ValueError("speculate: a fixed scale has no exponents to guess; leave one of them away")
        if self.deadline is not None:
            raise ValueError("speculate: what a deadline closes is not of all, and teaches nothing; choose one of them")
        if self.time == "real":
            raise ValueError("speculate: in virtual time only; leave --time real and --target bmv2 away")
        return self

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.numbers == "fixed" and self.scale is None:
            raise ValueError("numbers: fixed needs scale (units of int32 per 1.0)")
        if self.p4 is not None and self.p4_json is not None:
            raise ValueError("p4 is source, p4_json what a compiler made: give one of them")
        if (self.p4_json is None) != (self.p4_info is None):
            raise ValueError("p4_json and p4_info belong together: give both or neither")
        if (self.plan == "all-to-all") != (self.collective == "all_to_all"):
            raise ValueError("plan: all-to-all carries collective all_to_all, and no other plan does")
        if self.target == "bmv2" and self.time == "virtual":
            raise ValueError("target: bmv2 knows no virtual time; leave time away, or choose the embedded target")
        if self.target == "bmv2" and self.links == "udp":
            raise ValueError("links: bmv2's ports are interfaces; choose veth, or the embedded target for udp")
        return self


class ExperimentError(BadInput, ValueError):
    """A description of a run that cannot be used; the message names file, field and fix."""


# Where a figure comes from: enough to make it again, and nothing that changes from run to run.


def provenance(program: P4Program, seed: int) -> dict[str, str]:
    """Commit, hash of the P4 JSON, versions and seed, as text."""
    found = {
        "p4reduce": p4reduce.__version__,
        "commit": _commit(Path(p4reduce.__file__).parent),
        "p4_json": program.name,
        "p4_json_sha256": program.sha256,
        "seed": str(seed),
        "python": platform.python_version(),
    }
    for library in requirements():
        found[library] = importlib.metadata.version(library)
    return found


def _commit(folder: Path) -> str:
    """The commit of a source checkout, with ``+changes`` where files differ from it; elsewhere the release.

    A checkout is one that holds this very file: an installation may lie within somebody else's repository.
    """

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
        return done.stdout.strip()

    try:
        git("ls-files", "--error-unmatch", "__init__.py")
        commit = git("rev-parse", "HEAD")
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/")
    except (OSError, subprocess.SubprocessError):
        return f"release {p4reduce.__version__}"
    return f"{commit}+changes" if changed else commit


# The plain tensors that a run moves when it trains nothing.


def check_memory(elements: int, workers: int) -> None:
    """Raise `ExperimentError` where the tensors of a run, and their sums, are more than this machine's memory."""
    needed = workers * elements * 2 * np.dtype(np.float32).itemsize
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > there:
        raise ExperimentError(
            f"elements: {elements} for {workers} workers need {needed / 1e9:,.0f} GB of memory, this machine has "
            f"{there / 1e9:,.0f}; give a smaller --elements"
        )


def tensor(seed: int, rank: int, turn: int, elements: int) -> FloatArray:
    """Gradient-like values, float32 of shape (elements,): normal, with a scale that differs from block to block."""
    random = np.random.Generator(np.random.Philox(key=[seed, rank << 32 | turn]))
    values = random.standard_normal(elements, dtype=np.float32)
    blocks = -(-elements // 4096)
    scales = np.exp2(random.integers(-12, 4, blocks)).astype(np.float32)
    values *= np.repeat(scales, 4096)[:elements]
    return values
