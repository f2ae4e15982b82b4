"""The entry point of the package: a switch that runs a P4 program, with entries by name and frames in and out.

::

    from p4switch import Switch

    switch = Switch("my.p4")
    switch.insert("ipv4_lpm", "10.0.1.0/24", "forward", (2,))
    for port, frame in switch.send(1, packet):
        ...
"""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

from p4switch import abi
from p4switch.base.values import ValueProblem, find_name, parse_number
from p4switch.device import Device
from p4switch.program.actions import Action, MatchTable
from p4switch.program.errors import ProgramError
from p4switch.program.loader import load_program
from p4switch.program.program import Program
from p4switch.state.device_state import Counter
from p4switch.state.layout import Register
from p4switch.tables import Exact, Lpm, Match, Range, TableEntry, Ternary
from p4switch.traffic import ExecutorName

if TYPE_CHECKING:
    from p4switch.p4runtime import P4RuntimeServer
    from p4switch.trace.record import PacketTrace


class FrameLike(Protocol):
    """An object that ``bytes`` converts to a frame: ``bytes`` itself, or a Scapy packet."""

    def __bytes__(self) -> bytes:
        """Return the frame."""


Value: TypeAlias = int | str | bytes
"""An unsigned number: an int; text in decimal, 0x…, 0b…, IPv4 or MAC notation; or bytes, most significant first."""
Field: TypeAlias = Value | tuple[Value, Value] | None
"""A field of a key. Exact: a value. LPM: ``"10.0.0.0/8"`` or (value, bits). Ternary: a value, (value, mask), or None
for any. Range: a value, or (low, high). Optional: a value, or None for any."""
Fields: TypeAlias = Field | Sequence[Field] | Mapping[str, Field]
"""The fields of a key: one field, a list in the table's order, or a mapping by field names."""
Arguments: TypeAlias = Sequence[Value] | Mapping[str, Value]
DEVICE_ID: Final = 1


class Switch:
    """A switch with one program.

    Names of tables, actions, registers and counters may be given by their last parts: ``ipv4_lpm`` for
    ``MyIngress.ipv4_lpm``. Several threads may use one switch.

    Attributes
    ----------
    device : Device
        Runs the program; it has everything that this class does not offer.
    """

    def __init__(
        self,
        program: str | Path | Program,
        *,
        defines: Mapping[str, str] | None = None,
        executor: ExecutorName = "compiled",
    ) -> None:
        """Compile and load a program.

        Parameters
        ----------
        program : str, Path or Program
            P4 source, BMv2's JSON (a name that ends with .json), or a loaded program.
        defines : mapping
            Macros that are defined before the first line of the P4 source.
        executor : str
            ``compiled``: machine code; ``interpreted``: slow, but required by ``trace``.

        Raises
        ------
        P4Error
            The source has errors: the message lists each with its line and how to fix it.
        ProgramError
            The switch does not run this program, or the file is not a program.
        OSError
            The file cannot be read.
        """
        self._p4info: str | None = None
        self._json = ""
        if isinstance(program, Program):
            loaded = program
        elif (path := Path(program)).suffix == ".json":
            loaded = load_program(path)
            info = path.with_suffix(".p4info.txt")
            self._p4info = info.read_text("utf-8") if info.is_file() else None
            self._json = path.read_text("utf-8")
        else:
            from p4switch.p4.compile import compile_file, json_text  # noqa: PLC0415  (loading JSON needs no compiler)

            compilation = compile_file(path, defines).require()
            self._p4info, self._json = compilation.p4info(), json_text(compilation.json or {})
            loaded = load_program(compilation.json or {})
        self.device: Final = Device(loaded, executor=executor, device_id=DEVICE_ID)
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"Switch({self.program.name!r})"

    @property
    def program(self) -> Program:
        """The program that the switch runs."""
        return self.device.program

    # --- packets

    def send(self, port: int, frame: bytes | FrameLike) -> list[tuple[int, bytes]]:
        """Send a frame into a port; return (port, frame) of each copy that leaves, in order.

        Raises ``ValueError`` if the port or the frame's length is out of range.
        """
        with self._lock:
            return self.device.inject(port, bytes(frame))

    def trace(self, port: int, frame: bytes | FrameLike) -> "PacketTrace":
        """Send a frame in; return what the program did: states, keys, matching entries, values before and after.

        ``print(switch.trace(1, frame))`` shows it. Needs ``executor="interpreted"`` and the extra ``p4switch[trace]``.
        """
        from p4switch.trace.record import Packet as Given  # noqa: PLC0415  (an extra)
        from p4switch.trace.record import Recorder  # noqa: PLC0415

        with self._lock:
            return Recorder(self.device).run(Given(bytes(frame), port))

    # --- tables

    def insert(
        self, table: str, key: Fields, action: str, arguments: Arguments = (), *, priority: int | None = None
    ) -> None:
        """Insert an entry.

        Parameters
        ----------
        table, action : str
            Names, or their last parts.
        key : Fields
            One field, a list in the table's order, or a mapping by names of fields.
        arguments : Arguments
            The action's arguments, in order or by name.
        priority : int
            For tables with ternary, range or optional fields, and only for these: the highest number wins.

        Raises
        ------
        ValueError
            The message names the table and the cause: an unknown name, a wrong number of fields, a value that is too
            wide, or an entry that exists already.
        """
        spec = self._table(table)
        chosen = self._action(spec, action)
        entry = TableEntry(
            self._matches(spec, key), chosen.name, self._arguments(chosen, arguments), self._priority(spec, priority)
        )
        with self._lock:
            self.device.tables[spec.name].insert(entry)

    def remove(self, table: str, key: Fields, *, priority: int | None = None) -> None:
        """Remove the entry with this key (and priority). Raises ``ValueError`` if there is none."""
        spec = self._table(table)
        with self._lock:
            self.device.tables[spec.name].delete(
                TableEntry(self._matches(spec, key), "", (), self._priority(spec, priority))
            )

    def default(self, table: str, action: str, arguments: Arguments = ()) -> None:
        """Set a table's default action, for packets that match no entry. Raises ``ValueError`` as ``insert`` does."""
        spec = self._table(table)
        chosen = self._action(spec, action)
        with self._lock:
            self.device.tables[spec.name].set_default(chosen.name, self._arguments(chosen, arguments))

    def multicast(self, group: int, ports: Iterable[int | tuple[int, int]]) -> None:
        """Set the ports of a multicast group; each is a port number or (port, replication id)."""
        replicas = [(port, 0) if isinstance(port, int) else port for port in ports]
        with self._lock:
            self.device.multicast.set(group, replicas)

    def mirror(self, session: int, ports: Iterable[int]) -> None:
        """Set the ports to which a clone session copies packets."""
        with self._lock:
            self.device.clone_sessions.set(session, [(port, 0) for port in ports])

    def register(self, name: str) -> Register:
        """Return a register: ``.read(index)``, ``.write(index, value)``, ``.size``. ``ValueError`` if it is unknown."""
        return self.device.registers[find_name(name, self.device.registers, "register")]

    def counter(self, name: str) -> Counter:
        """Return a counter: ``.read(index)`` gives (packets, bytes). Raises ``ValueError`` if unknown."""
        return self.device.counters[find_name(name, self.device.counters, "counter")]

    def reset(self) -> None:
        """Clear all entries, groups, registers and counters."""
        with self._lock:
            self.device.reset()

    # --- controllers

    @contextmanager
    def serve(self, address: str = "127.0.0.1:0") -> Iterator["P4RuntimeServer"]:
        """Serve P4Runtime for controllers while the context lasts; ``.address`` of the yielded server is its address.

        The program is loaded already, and controllers see the entries of ``insert``. Packets of a controller enter by
        the CPU port. There is no TLS: keep it on the loopback interface. Needs ``pip install 'p4switch[server]'``.

        Raises
        ------
        ProgramError
            The program was loaded without P4Info.
        OSError
            The address cannot be bound.
        """
        from finsy.proto import p4i, p4r  # noqa: PLC0415  (an extra)
        from google.protobuf import text_format  # noqa: PLC0415

        from p4switch.p4runtime import P4RuntimeServer  # noqa: PLC0415

        if self._p4info is None:
            raise ProgramError(f"{self.program.name}: there is no P4Info; give P4 source, or prog.p4info.txt beside it")
        info = text_format.Parse(self._p4info, p4i.P4Info())
        config = p4r.ForwardingPipelineConfig(p4info=info, p4_device_config=self._json.encode())

        def sent(_device: int, frame: bytes) -> None:
            for port, copy in self.device.inject(abi.CPU_PORT, frame):
                if port == abi.CPU_PORT:
                    server.packet_in(DEVICE_ID, copy)

        server = P4RuntimeServer(address, on_pipeline=lambda *_: self.device, on_packet_out=sent, lock=self._lock)
        server.add_device(DEVICE_ID, name=self.device.name)
        server.set_pipeline(DEVICE_ID, config)
        with server:
            yield server

    # --- by name

    def _table(self, name: str) -> MatchTable:
        known = {key: table for key, table in self.program.tables.items() if table.keys or not table.const_default}
        return known[find_name(name, known, "table")]

    def _action(self, spec: MatchTable, name: str) -> Action:
        actions = {self.program.actions[number].name: self.program.actions[number] for number in spec.actions}
        return actions[find_name(name, actions, f"action of table {spec.name}")]

    def _arguments(self, action: Action, given: Arguments) -> tuple[int, ...]:
        names = [parameter.name for parameter in action.parameters]
        values = _in_order(names, given, f"action {action.name}: argument")
        return tuple(
            _number(value, parameter.width, f"action {action.name}: {parameter.name}")
            for parameter, value in zip(action.parameters, values, strict=True)
        )

    def _matches(self, spec: MatchTable, given: Fields) -> tuple[Match, ...]:
        names = [key.name for key in spec.keys]
        given = self._several(given, len(names))
        fields = _in_order(names, given, f"table {spec.name}: field")
        return tuple(
            _match(key.kind, key.width, value, f"table {spec.name}: {key.name}")
            for key, value in zip(spec.keys, fields, strict=True)
        )

    @staticmethod
    def _several(given: Fields, count: int) -> Sequence[Field] | Mapping[str, Field]:
        """Puts one field into a list. For a table with one field, a pair is (value, mask), not two fields."""
        if isinstance(given, Mapping | list):
            return given
        if isinstance(given, tuple) and count != 1:
            return given
        return [cast("Field", given)]

    def _priority(self, spec: MatchTable, given: int | None) -> int:
        wanted = spec.kind in ("ternary", "range")
        if wanted and given is None:
            raise ValueError(f"table {spec.name}: priority is missing; the highest number wins")
        if not wanted and given is not None:
            raise ValueError(f"table {spec.name}: is {spec.kind} and has no priorities")
        return given or 0


def _in_order(names: Sequence[str], given: Sequence[Field] | Mapping[str, Field], what: str) -> list[Field]:
    if isinstance(given, Mapping):
        by_name = {find_name(name, names, what): value for name, value in given.items()}
        if missing := [name for name in names if name not in by_name]:
            raise ValueError(f"{what} {missing[0]!r} is missing")
        return [by_name[name] for name in names]
    if len(given) != len(names):
        raise ValueError(f"{what}s: {len(given)} are given, {len(names)} are wanted: {', '.join(names) or 'none'}")
    return list(given)


def _number(value: Field, width: int, what: str) -> int:
    try:
        if isinstance(value, str):
            return parse_number(value, width)
        if isinstance(value, bytes):
            value = int.from_bytes(value, "big")
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueProblem(f"{value!r} is no number")
        if value < 0 or value >> width:
            raise ValueProblem(f"{value} does not fit {width} bits: 0 to {(1 << width) - 1}")
    except ValueProblem as problem:
        raise ValueError(f"{what}: {problem}") from None
    return value


def _match(kind: str, width: int, given: Field, what: str) -> Match:
    whole = (1 << width) - 1
    if isinstance(given, tuple) and len(given) != 2:
        raise ValueError(f"{what}: {given!r}: a pair is wanted")
    if kind == "exact":
        if given is None or isinstance(given, tuple):
            raise ValueError(f"{what}: is exact; give one value")
        return Exact(_number(given, width, what))
    if kind == "lpm":
        if isinstance(given, str):
            text, slash, bits = given.partition("/")
            given = (text, bits) if slash else (text, width)
        value, bits_ = given if isinstance(given, tuple) else (given, width)
        prefix = _number(bits_, 16, f"{what}: prefix")
        if value is None or prefix > width:
            raise ValueError(f"{what}: is matched by its longest prefix; give 'value/bits' with at most {width} bits")
        mask = whole ^ (whole >> prefix)
        return Lpm(_number(value, width, what) & mask, prefix)
    if kind == "range":
        low, high = given if isinstance(given, tuple) else (given, given)
        if given is None:
            low, high = 0, whole
        bounds = Range(_number(low, width, what), _number(high, width, what))
        if bounds.low > bounds.high:
            raise ValueError(f"{what}: {bounds.low} to {bounds.high} is no range")
        return bounds
    if given is None:
        return Ternary(0, 0)
    value, mask_ = given if isinstance(given, tuple) else (given, whole)
    mask = _number(mask_, width, f"{what}: mask")
    return Ternary(_number(value, width, what) & mask, mask)
