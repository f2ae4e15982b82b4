"""A device: one switch that runs a P4 program."""

from __future__ import annotations

from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING, Final

from p4switch import abi
from p4switch.program.program import Program
from p4switch.state import Counter, DeviceState, Multicast, Register
from p4switch.state.device_state import CloneSessions, Meter
from p4switch.state.layout import ValueSetMembers
from p4switch.tables import Table
from p4switch.tables.profile import Profile
from p4switch.traffic import Detours, Digest, DigestListener, ExecutorName, Journey, ProgramExecutor

if TYPE_CHECKING:
    from p4switch.compiler import CompiledProgram

MAX_PRIORITY_QUEUES: Final = 8
"""The number of priorities that v1model's 3 bits can express."""
DEFAULT_PRIORITY_QUEUES: Final = MAX_PRIORITY_QUEUES

KEPT_DIGESTS: Final = 1024


class Device:
    """A switch: a program, its state, and an executor.

    Attributes:
        tables, registers, counters: by full name, as in P4Info. Direct counters belong to their table.
        meters, profiles, value_sets: likewise. Direct meters belong to their table.
        multicast: groups of (port, rid).
        clone_sessions: where clones go.
        on_digest: called with each digest; until it is set, the latest digests are in ``digests``.
    """

    def __init__(
        self,
        program: Program,
        *,
        name: str = "switch",
        device_id: int = 1,
        executor: ExecutorName = "compiled",
        priority_queues: int = DEFAULT_PRIORITY_QUEUES,
    ) -> None:
        """Creates a device with empty tables.

        Args:
            program: from load_program.
            name: for messages.
            device_id: the device's id in P4Runtime.
            executor: ``compiled`` (machine code) or ``interpreted`` (slow, traces); both read and write the same
                state and give the same answers.
            priority_queues: queues of each port, 1 to 8; a packet whose priority is not below this number is lost, as
                in BMv2 (which has one queue by default).

        Raises:
            ValueError: ``priority_queues`` is not in this range.
        """
        if not 1 <= priority_queues <= MAX_PRIORITY_QUEUES:
            raise ValueError(f"{priority_queues} priority queues; a port has 1 to {MAX_PRIORITY_QUEUES}")
        self.program: Final = program
        self.name: Final = name
        self.device_id: Final = device_id
        self.executor: Final = executor
        self.state: Final = DeviceState(program)
        self.tables: Final[dict[str, Table]] = self.state.tables
        self.registers: Final[dict[str, Register]] = self.state.registers
        self.counters: Final[dict[str, Counter]] = self.state.counters
        self.multicast: Final[Multicast] = self.state.multicast
        self.meters: Final[dict[str, Meter]] = self.state.meters
        self.profiles: Final[dict[str, Profile]] = self.state.profiles
        self.value_sets: Final[dict[str, ValueSetMembers]] = self.state.value_sets
        self.clone_sessions: Final[CloneSessions] = self.state.clone_sessions
        self.priority_queues: Final = priority_queues
        self.digests: Final[deque[Digest]] = deque(maxlen=KEPT_DIGESTS)
        self.on_digest: DigestListener = self.digests.append

    def __repr__(self) -> str:
        return f"Device({self.name!r}, {self.program.name!r})"

    # --- machine code

    @cached_property
    def code(self) -> CompiledProgram:
        """The machine code of the program; compiled once for all devices that run the program."""
        from p4switch.compiler import compile_program  # noqa: PLC0415 - llvmlite only where needed

        return compile_program(self.program)

    @property
    def ingress_address(self) -> int:
        """Address of the ingress function; see abi.py."""
        return self.code.ingress_address

    @property
    def egress_address(self) -> int:
        """Address of the egress function; see abi.py."""
        return self.code.egress_address

    @property
    def state_address(self) -> int:
        """Address of this device's state; fixed for the device's lifetime."""
        return self.state.address

    @property
    def phv_bytes(self) -> int:
        """Size of the buffer between ingress and egress, enough for any frame of up to abi.MAX_FRAME_BYTES."""
        return self.code.phv_bytes

    @property
    def out_bytes(self) -> int:
        """Size of the buffer for the frame that egress makes."""
        return self.code.out_bytes

    @cached_property
    def detours(self) -> Detours | None:
        """Buffers and clone sessions for the driver of a program that leaves the path; None for other programs."""
        if not self.program.leaves_path:
            return None
        from p4switch.compiler.data import KeptLayout  # noqa: PLC0415 - llvmlite only where needed

        return Detours(self.program, KeptLayout.of(self.program), self.clone_sessions)

    # --- packets, without time and queues

    @cached_property
    def runner(self) -> ProgramExecutor:
        """The executor that ``executor`` names."""
        if self.executor == "interpreted":
            from p4switch.interpreter import Interpreter  # noqa: PLC0415 - only where needed

            interpreter: ProgramExecutor = Interpreter(self.program, self.state)
            return interpreter
        from p4switch.compiler import CompiledExecutor  # noqa: PLC0415 - llvmlite only where needed

        return CompiledExecutor(self.code, self.state)

    def inject(self, port: int, frame: bytes, *, time_us: int = 0) -> list[tuple[int, bytes]]:
        """Runs a frame through ingress, replication and egress, with empty queues.

        Args:
            port: ingress port, 0..511.
            frame: Ethernet frame without FCS, at most abi.MAX_FRAME_BYTES.
            time_us: every time stamp of the packet, microseconds, below 2^63.

        Raises:
            ValueError: ``port``, the frame's length or ``time_us`` is out of range.

        Returns:
            (port, frame) for each copy that leaves, in the order in which they reach the output queues; [] for a drop.
            A packet that takes more than traffic.MAX_ROUNDS passes is cut off, with a warning.
        """
        if not 0 <= port <= abi.MAX_PORT:
            raise ValueError(f"port {port} is not in 0..{abi.MAX_PORT}")
        if len(frame) > abi.MAX_FRAME_BYTES:
            raise ValueError(f"frame of {len(frame)} bytes; the limit is {abi.MAX_FRAME_BYTES}")
        if not 0 <= time_us < 1 << 63:
            raise ValueError(f"time_us: {time_us} is not in 0..2^63 - 1")
        return Journey(self, time_us).run(port, frame)

    def reset(self) -> None:
        """Clears all entries, groups, registers and counters; the state is then as after loading the program."""
        self.state.reset()
