"""The description of a run: by flags, by one YAML file, or in Python."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

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

from p4reduce.base.errors import BadInput
from p4reduce.base.flags import Flag
from p4reduce.control_plane import PLANS
from p4reduce.runs.settings import (
    FAULTS,
    HOST_PLANS,
    NETWORK,
    NUMBERS,
    PLAIN_BITS,
    PROGRAM,
    REAL_TIME,
    REAL_TIME_FIELDS,
    WORK,
    Duplicate,
    Loss,
    Reorder,
    Topology,
)
from p4switch.base.values import PS_PER_US, parse_count, parse_delay, parse_rate


class FaultOptions(BaseModel):
    """Faults on every link, as probabilities for each frame."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    loss: Loss = Field(0.0, ge=0, lt=1)
    duplicate: Duplicate = Field(0.0, ge=0, lt=1)
    reorder: Reorder = Field(0.0, ge=0, lt=1)
    corrupt: Annotated[float, Flag("Probability that a link damages a frame, which is then dropped.",
            panel=FAULTS)] = Field(0.0, ge=0, lt=1)  # fmt: skip

    @property
    def missing(self) -> float:
        """Return the share of frames that do not arrive at the other end of a link."""
        return 1 - (1 - self.loss) * (1 - self.corrupt) if self.loss or self.corrupt else 0.0


class Experiment(BaseModel):
    """All settings of a run. In virtual time the same values give the same result file, byte for byte.

    Each field's meaning, unit and values are in its `Flag`; ``p4reduce run --help`` shows them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    topology: Topology = "leaf-spine-8"
    plan: Annotated[str, Flag("Plan: steiner, mst, spt, exact and striped sum in switches; ring, ps, hierarchical, "
            "halving-doubling and double-binary-tree in hosts; packing and rina in both. best is the fastest of them.",
            "-p", panel=NETWORK)] = "best"  # fmt: skip
    workers: Annotated[int | None, Flag("Number of hosts that take part, in the order of the topology.", "-n",
            panel=NETWORK, default="all that are not servers")] = Field(None, ge=1)  # fmt: skip
    rate: Annotated[str | None, Flag("Rate of every link in bit/s, as in 100G.", panel=NETWORK,
            default="as the topology says")] = None  # fmt: skip
    delay: Annotated[str | None, Flag("Propagation delay of every link, as in 1us.", panel=NETWORK,
            default="as the topology says")] = None  # fmt: skip
    queue_frames: Annotated[int, Flag("Capacity of an output queue of a switch, in frames for each priority.",
            panel=NETWORK)] = Field(1024, ge=2, lt=2**31)  # fmt: skip
    model: Annotated[Literal["digits", "tensor"], Flag("Train the digits classifier, or sum a plain tensor.", "-m",
            panel=WORK)] = "tensor"  # fmt: skip
    collective: Annotated[
        Literal["all_reduce", "broadcast", "push", "pull", "push_pull", "all_to_all"],
        Flag("Collective to run; a training takes all_reduce or push_pull.", panel=WORK),
    ] = "all_reduce"
    elements: Annotated[int, Flag("Number of float32 elements of the tensor, as in 262144, 64k, 1M or 1Mi.", "-e",
            panel=WORK, metavar="COUNT")] = Field(262_144, ge=1)  # fmt: skip
    repeat: Annotated[int, Flag("Number of collectives on the tensor, one after the other.",
            panel=WORK)] = Field(1, ge=1)  # fmt: skip
    epochs: Annotated[int, Flag("Number of passes over the training data (with --model digits).",
            panel=WORK)] = Field(10, ge=1)  # fmt: skip
    target_accuracy: Annotated[float, Flag("Test accuracy up to which time is measured (with --model digits).",
            panel=WORK)] = Field(0.95, gt=0, le=1)  # fmt: skip
    seed: Annotated[int, Flag("Seed of data, weights, tensors and faults.", "-s",
            panel=WORK)] = Field(0, ge=0, lt=2**63)  # fmt: skip
    lanes: Annotated[Literal[64, 256], Flag("Number of int32 values in a full packet.", "-l", panel=NUMBERS)] = 256
    numbers: Annotated[Literal["block", "fixed"], Flag("Block floating point, or fixed point with one --scale.",
            panel=NUMBERS)] = "block"  # fmt: skip
    scale: Annotated[float | None, Flag("Factor from float to int32, which --numbers fixed needs.", panel=NUMBERS,
            default="none")] = Field(None, gt=0, allow_inf_nan=False)  # fmt: skip
    speculate: Annotated[bool, Flag("Guess exponents from earlier all-reduces, which saves a round trip and costs at "
            "most 6 bits of precision.", panel=NUMBERS)] = False  # fmt: skip
    lane_bits: Annotated[Literal[32, 16, 8], Flag("Bits of each number on the wire, for all-reduces that switches "
            "sum.", panel=NUMBERS)] = 32  # fmt: skip
    coarse: Annotated[bool, Flag("Accept lanes that leave fewer than 7 bits for each worker's number.",
            panel=NUMBERS)] = False  # fmt: skip
    window: Annotated[int | None, Flag("Number of chunks in flight.", panel=NUMBERS,
            default="rate times round trip")] = Field(None, ge=1)  # fmt: skip
    threads: Annotated[int | None, Flag("Number of threads that simulate a network in virtual time; they change no "
            "result.", panel=NETWORK, default="one for 32 switches, at most one for each processor")
            ] = Field(None, ge=1, le=64, exclude=True)  # fmt: skip
    faults: FaultOptions = FaultOptions()
    on_failure: Annotated[
        Literal["abort", "raise", "shrink"],
        Flag("When a rank dies: end all ranks, raise an error in each, or continue with the others.", panel=FAULTS),
    ] = "abort"
    deadline: Annotated[str | None, Flag("Time after which an all-reduce is closed without stragglers, as in 5ms.",
            panel=FAULTS, default="none, it waits for all")] = None  # fmt: skip
    quorum: Annotated[int | None, Flag("Number of contributions below which an all-reduce is repeated after its "
            "--deadline.", panel=FAULTS, default="1")] = Field(None, ge=1)  # fmt: skip
    p4: Annotated[Path | None, Flag("P4 source of your own program, which is compiled for --lanes.", panel=PROGRAM,
            default="the bundled program")] = None  # fmt: skip
    p4_json: Annotated[Path | None, Flag("Your own program as BMv2's JSON, with --p4-info.", panel=PROGRAM,
            default="the bundled program")] = None  # fmt: skip
    p4_info: Annotated[Path | None, Flag("P4Info of the program in --p4-json.", panel=PROGRAM, default="none")] = None
    target: Annotated[
        Literal["embedded", "bmv2"],
        Flag("Switch that executes the P4 program; bmv2 implies --time real.", panel=REAL_TIME),
    ] = "embedded"
    time: Annotated[
        Literal["virtual", "real", "flow"],
        Flag("Exact simulation, or processes with sockets, or a fast model without packets.", panel=REAL_TIME),
    ] = "virtual"
    links: Annotated[
        Literal["veth", "udp"],
        Flag(
            "Links in real time: veth pairs between namespaces, or UDP on loopback, which needs no root.",
            panel=REAL_TIME,
        ),
    ] = "veth"
    unshaped: Annotated[bool, Flag("Do not limit links in real time to the rates of the topology.",
            panel=REAL_TIME)] = False  # fmt: skip
    budget_s: Annotated[float, Flag("Wall-clock time in seconds after which a run in real time is ended.",
            panel=REAL_TIME)] = Field(120.0, gt=0, allow_inf_nan=False)  # fmt: skip

    @field_validator("plan")
    @classmethod
    def _known_plan(cls, name: str) -> str:
        if name not in PLANS:
            raise ValueError(f"unknown plan {name!r}; known: {', '.join(PLANS)}")
        return name

    @field_validator("elements", mode="before")
    @classmethod
    def _counted(cls, value: Any) -> Any:
        return parse_count(value) if isinstance(value, str) else value

    @field_validator("rate", "delay", "deadline")
    @classmethod
    def _known_unit(cls, text: str | None, info: ValidationInfo) -> str | None:
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
        described: dict[str, Any] = describe(self)
        if self.time != "real":
            for field in REAL_TIME_FIELDS:
                if field != "time" or self.time == "virtual":
                    described.pop(field, None)
        if self.on_failure == "abort":
            described.pop("on_failure")
        for field in ("deadline", "quorum"):
            if described[field] is None:
                described.pop(field)
        if not self.speculate:
            described.pop("speculate")
        if self.lane_bits == PLAIN_BITS:
            described.pop("lane_bits")
        if not self.coarse:
            described.pop("coarse")
        return described

    @property
    def deadline_ps(self) -> int | None:
        """Return ``deadline`` in picoseconds."""
        return None if self.deadline is None else parse_delay(self.deadline)

    @property
    def typical_elements(self) -> int | None:
        """Return the elements of a collective, by which plan ``best`` chooses; None if the work decides them."""
        return self.elements if self.model == "tensor" else None

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
    def _of_widths(self) -> Self:
        if self.lane_bits == PLAIN_BITS:
            return self
        if self.plan in HOST_PLANS or self.collective != "all_reduce":
            raise ValueError(
                f"lane_bits: {self.lane_bits} is for all_reduce with plans in which switches add; with plan "
                f"{self.plan} and collective {self.collective} numbers travel as float32: choose steiner, mst, spt or "
                "striped, or 32"
            )
        if self.speculate:
            raise ValueError("speculate: a guess costs bits that narrow lanes do not have; leave one of them out")
        if self.on_failure != "abort":
            raise ValueError("lane_bits: a group that outlives members has lanes of 32 bits; on_failure: choose abort")
        return self

    @model_validator(mode="after")
    def _of_flows(self) -> Self:
        if self.time != "flow":
            return self
        unknown = {
            **{name: probability > 0 for name, probability in self.faults},
            "deadline": self.deadline is not None,
            "speculate": self.speculate,
            "lane_bits": self.lane_bits != PLAIN_BITS,
            "on_failure": self.on_failure != "abort",
            "p4": self.p4 is not None,
            "p4_json": self.p4_json is not None,
            "target": self.target != "embedded",
        }
        refused = [name for name, given in unknown.items() if given]
        if refused:
            raise ValueError(
                f"{', '.join(refused)}: the flow model has no packets and no switches, so it does not know what this "
                "does; leave it away, or choose time: virtual"
            )
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
    """A description of a run cannot be used; the message names file, field and fix."""
