"""A run as a user describes it: by flags, by one YAML file, or in Python."""

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator, model_validator

PlanName = str
Collective = Literal["all_reduce", "broadcast", "push", "pull", "push_pull"]


class FaultOptions(BaseModel):
    """Faults on every link, as probabilities for each frame."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    loss: float = Field(0.0, ge=0, lt=1)
    duplicate: float = Field(0.0, ge=0, lt=1)
    reorder: float = Field(0.0, ge=0, lt=1)
    corrupt: float = Field(0.0, ge=0, lt=1)


class Experiment(BaseModel):
    """Everything that decides a run. The same values give the same result file, byte for byte."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    topology: str = "leaf-spine-8"
    """A file, a bundled name or a builder with parameters (``leaf-spine:leaves=2,spines=2,hosts=4``)."""
    plan: PlanName = "steiner"
    workers: int | None = Field(None, ge=1)
    """How many hosts take part, in the topology's order; all that are not servers if absent."""
    model: Literal["digits", "tensor"] = "tensor"
    """Train the digits classifier, or move a plain tensor."""
    elements: int = Field(262_144, ge=1)
    """float32 elements of the plain tensor."""
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
    rate: str | None = None
    """Overrides every link's rate, e.g. ``100G``."""
    delay: str | None = None
    """Overrides every link's delay, e.g. ``1us``."""
    window: int | None = Field(None, ge=1)
    """Chunks in flight; chosen from rate * round trip if absent."""
    queue_frames: int = Field(1024, ge=2)
    """Capacity of a switch's output queue for each priority, frames."""
    faults: FaultOptions = FaultOptions()
    seed: int = Field(0, ge=0, lt=2**63)
    p4_json: Path | None = None
    """The user's own program (p4c's JSON); the bundled one for ``lanes`` if absent."""
    p4_info: Path | None = None

    @field_validator("plan")
    @classmethod
    def _known_plan(cls, name: str) -> str:
        from p4reduce.control_plane.plans import PLANS  # noqa: PLC0415  (plans register on import)

        if name not in PLANS:
            raise ValueError(f"unknown plan {name!r}; known: {', '.join(sorted(PLANS))}")
        return name

    @field_validator("rate", "delay")
    @classmethod
    def _known_unit(cls, text: str | None, info: ValidationInfo) -> str | None:
        from p4reduce.topologies import parse_delay, parse_rate  # noqa: PLC0415  (slow to import)

        if text is not None:
            (parse_rate if info.field_name == "rate" else parse_delay)(text)
        return text

    @model_validator(mode="after")
    def _together(self) -> Self:
        if self.numbers == "fixed" and self.scale is None:
            raise ValueError("numbers: fixed needs scale (units of int32 per 1.0)")
        if (self.p4_json is None) != (self.p4_info is None):
            raise ValueError("p4_json and p4_info belong together: give both or neither")
        return self


class ExperimentError(ValueError):
    """A description of a run that cannot be used; the message names file, field and fix."""
