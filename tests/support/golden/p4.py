"""The compiled P4 program on the embedded switch, compared with the golden model at every packet."""

from functools import cache
from typing import Final

from p4switch import compile_p4
from p4switch.device import Device
from p4switch.program.loader import load_program
from p4switch.program.program import Program
from p4switch.traffic import ExecutorName
from tests.support.golden.frames import Frame, decode, encode, packet_in
from tests.support.golden.p4_entries import LOCAL_ADDRESS, SETTINGS, TABLES, local_address, peer_counter, write_entry
from tests.support.golden.switch import GoldenSwitch, Outcome, Slot
from tests.support.golden.tables import Entry
from tests.support.paths import ROOT

COMPILED: Final = ROOT / "p4src" / "compiled"
CPU_PORT: Final = 510
SLOTS: Final = 4096
LANES_PER_WORD: Final = 64

_AGGREGATE: Final = "IncIngress.aggregate."
_SLOT_REGISTER: Final = _AGGREGATE + "slot.slots"
_CLOSING_REGISTER: Final = _AGGREGATE + "slot.closings"
_LANE_REGISTER: Final = _AGGREGATE + "slot.lanes_"


@cache
def program(lanes: int, source: bool = False) -> Program:
    """Return the program of ``lanes`` lanes, from p4src/compiled/, or compiled from p4src/ by the P4 front end."""
    if source:
        return compile_p4(ROOT / "p4src" / "p4reduce.p4", {"LANES": str(lanes)})
    return load_program(COMPILED / f"p4reduce-{lanes}.json")


class P4Backend:
    """Embedded switches that run the P4 program, as machine code or in the interpreter, beside the golden model."""

    slots = SLOTS

    def __init__(
        self,
        lanes: int = 64,
        executor: ExecutorName = "compiled",
        model: type[GoldenSwitch] = GoldenSwitch,
        source: bool = False,
    ) -> None:
        self.lanes, self.executor, self.model, self.source = lanes, executor, model, source

    def switch(self, ip: int, mac: int, sample_mask: int) -> "ComparedSwitch":
        """Return a device together with its golden model."""
        device = Device(program(self.lanes, self.source), name=f"{ip:#x}", executor=self.executor)
        return ComparedSwitch(self.model(ip, mac, self.lanes, sample_mask), device)


class ComparedSwitch:
    """A device that must send the same bytes as the golden model, and keep the same state."""

    def __init__(self, golden: GoldenSwitch, device: Device) -> None:
        self.golden, self.device = golden, device
        device.tables[LOCAL_ADDRESS].insert(local_address(golden.ip))
        settings = device.tables[SETTINGS]
        action = settings.default.action
        assert action is not None
        threshold, _ = settings.default.arguments
        settings.set_default(action, (threshold, golden.sample_mask))

    def write(self, entry: Entry, *, insert: bool) -> None:
        """Insert or delete an entry in the model and in the device."""
        self.golden.write(entry, insert=insert)
        write_entry(self.device, entry, insert=insert)

    def receive(self, port: int, frame: Frame) -> Outcome:
        """Hand ``frame`` to the model and the device, and compare the frames that they send. Raises AssertionError."""
        outcome = self.golden.receive(port, frame)
        expected = [(out, encode(sent)) for out, sent in outcome.emitted]
        if outcome.shown:
            assert outcome.refused is not None
            expected = [(CPU_PORT, packet_in(port, outcome.refused, frame))]
        sent = self.device.inject(port, encode(frame), time_us=self.golden.now_us)
        if sorted(sent) != sorted(expected):
            raise AssertionError(self._difference(port, frame, outcome, sent))
        return outcome

    def check(self) -> None:
        """Compare slots, counters and the number of table entries. Raises AssertionError."""
        self._check_slots()
        self._check_counters()
        entries = {name: len(self.device.tables[name]) for name in TABLES}
        golden = self.golden
        tables = (
            golden.jobs,
            golden.peers,
            golden.deadlines,
            golden.replicas,
            golden.edges,
            golden.routes,
            golden.paths,
        )
        lengths = (len(table) for table in tables)
        assert entries == dict(zip(TABLES, lengths, strict=True)), f"{self.device.name} holds {entries}"

    def _check_slots(self) -> None:
        for index, slot in self.golden.slots.items():
            cell = self.device.registers[_SLOT_REGISTER].read(index)
            assert cell == packed(slot), f"slot {index} of {self.device.name}: {cell:#034x}, golden: {slot}"
            closing = self.device.registers[_CLOSING_REGISTER].read(index)
            assert closing == slot.absent << 48 | slot.opened_us, (
                f"closing {index} of {self.device.name}: {closing:#x}, golden: {slot}"
            )
            if slot.lanes is not None:
                found = self._lanes(index, slot.width)
                assert found == slot.lanes, (
                    f"lanes of slot {index} of {self.device.name}: {found}, golden: {slot.lanes}"
                )
        slots = self.golden.slots
        beside = {near for index in slots for near in (index - 1, index + 1) if 0 <= near < SLOTS}
        for index in (beside | set(range(0, SLOTS, 61))) - set(slots):
            cell = self.device.registers[_SLOT_REGISTER].read(index)
            assert cell == 0, f"slot {index} of {self.device.name} is nobody's, but holds {cell:#034x}"

    def _lanes(self, index: int, width: int) -> tuple[int, ...]:
        words = [
            self.device.registers[f"{_LANE_REGISTER}{i}"].read(index)
            for i in range(self.golden.lanes // LANES_PER_WORD)
        ]
        raw = b"".join(word.to_bytes(4 * LANES_PER_WORD, "big") for word in words)
        size = 4 >> width
        return tuple(int.from_bytes(raw[i : i + size], "big", signed=True) for i in range(0, len(raw), size))

    def _check_counters(self) -> None:
        golden = self.golden
        expected = {
            "IncIngress.refuse.refused": {int(reason): n for reason, n in golden.refused.items()},
            _AGGREGATE + "job_received": {8 * s + 2 * k + r: n for (s, k, r), n in golden.received.items()},
            "IncEgress.depart.job_sent": {8 * s + 2 * k + r: n for (s, k, r), n in golden.sent.items()},
            "IncEgress.depart.link_sent": {2 * port + r: n for (port, r), n in golden.link_sent.items()},
        }
        for name, cells in expected.items():
            packets = self.device.counters[name].cells[:, 0]
            found = {int(i): int(packets[i]) for i in packets.nonzero()[0]}
            assert found == cells, f"counter {name} of {self.device.name}: {found}, golden: {cells}"
        for peer in golden.peers.values():
            count = peer_counter(self.device, peer)
            assert count == golden.peer_received[peer], f"{peer} of {self.device.name} counts {count}"

    def _difference(self, port: int, frame: Frame, outcome: Outcome, sent: list[tuple[int, bytes]]) -> str:
        found = [(out, decode(raw, self.golden.lanes)) for out, raw in sent]
        return (
            f"{self.device!r} differs from the golden model\n  in, port {port}: {frame}\n"
            f"  golden: {outcome}\n  P4:     {found}"
        )


def packed(slot: Slot) -> int:
    """Return the 128-bit register cell of ``slot``, with its fields from the most significant bit on."""
    cell = 0
    result_lanes = slot.lanes is not None
    for value, width in (
        (slot.generation, 32), (slot.seq, 32), (slot.children, 32), (slot.count, 16), (slot.exponent, 8),
        (slot.kind == 2, 1), (slot.contributed, 1), (result_lanes, 1), (slot.saturated, 1), (slot.ecn, 1),
        (slot.done, 1), (slot.width, 2),
    ):  # fmt: skip
        cell = cell << width | int(value)
    return cell
