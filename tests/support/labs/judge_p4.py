"""Labs 02, 03 and 05's switch, judged by their READMEs: random frames against a few lines of Python each.

No line of the graders is used. A program is right where every frame of some hundred schedules is answered as the README
says.
"""

import random
import re
import struct
from pathlib import Path

from p4switch.device import Device
from p4switch.p4.compile import compile_text
from p4switch.program.loader import load_program
from p4switch.tables import Exact, TableEntry

ETHERNET = bytes.fromhex("0200000000aa0200000000bb")
WRAP = 1 << 32


class No(Exception):
    """What the README does not allow."""


def said(condition: bool, why: str) -> None:
    if not condition:
        raise No(why)


def loaded(path: Path):
    """The program. Raises No."""
    found = compile_text(path.read_text(), path.name, library_only=True)
    said(found.ok and found.json is not None, "does not compile")
    try:
        return load_program(found.json)
    except Exception as error:
        raise No(f"is not run: {error}") from None


# Lab 02.


def numbers_02(folder: Path):
    """EtherType, fields and ports as the copy of the lab says them."""
    readme, skeleton = (folder / "README.md").read_text(), (folder / "given" / "header.p4").read_text()
    ether_type = int(re.search(r"EtherType (0x\w+)", readme)[1], 16)
    fields = [(name, int(bits)) for name, bits in re.findall(r"^\| `(\w+)` \| (\d+) \|$", readme, re.M)]
    other, hop = re.findall(r"egress_spec = (\d+);", skeleton)
    return ether_type, fields, int(other), int(hop)


def elsewhere_02(text: str, number: int) -> str:
    """A program as another switch runs it: `reject` is an error, and a field that was never written holds a number."""

    def state(found: re.Match) -> str:
        body = re.sub(r"(:|\btransition)\s*reject\s*;", r"\1 lost_;", found[2])
        return f"{found[1]}{body}" + ("}" if "transition" in body else "transition lost_; }")

    text = re.sub(r"(\bstate\s+\w+\s*\{)((?:[^{}]|\{[^{}]*\})*)\}", state, text)
    if "lost_" in text:
        lost = "state lost_ { verify(false, error.ParserInvalidArgument); transition accept; }"
        text = re.sub(r"\bstate\s+start\b", f"{lost} state start", text)

    def new(found: re.Match) -> str:
        return f"if (!{found[1]}.isValid()) {{ {found[1]}.setValid(); {found[1]}.total = {number}; }}"

    names = "|".join({"value", *re.findall(r"\bvalue_t\s+(\w+)", text)})
    text = re.sub(rf"((?:\w+\.)*\b(?:{names}))\.setValid\(\);", new, text)
    rules = re.search(r"\bcontrol\s+Rules\s*\(inout headers_t (\w+).*?\bapply\s*\{", text, re.S)
    if rules is None:
        return text
    value = f"{rules[1]}.value"
    return f"{text[: rules.end()]} if (!{value}.isValid()) {{ {value}.total = {number}; }}{text[rules.end() :]}"


def judge_02(folder: Path, draw: random.Random) -> None:
    """Raises No where the program is not what README and skeleton ask for."""
    ether_type, fields, other_port, hop_port = numbers_02(folder)
    path = folder / "skeleton" / "header.p4"
    program = loaded(path)
    headers = {name: [(f.name, f.width) for f in one.type.fields] for name, one in program.headers.items()}
    said(headers.get("hop") == fields, "other fields")
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", path.read_text(), flags=re.S)
    for body in re.findall(r"\bselect\s*\([^{]*\)\s*\{([^}]*)\}", text):
        both = re.search(r"\b0\s*:", body) and re.search(r"\b1\s*:", body)  # of one bit
        said(bool(re.search(r"\b(default|_)\s*:", body) or both), "a select without a default")

    def packed(values):
        number = 0
        for name, bits in fields:
            number = number << bits | values[name]
        return number.to_bytes(8, "big")

    device = Device(program, executor="interpreted")
    other_text = compile_text(elsewhere_02(text, draw.getrandbits(32)), path.name, library_only=True)
    elsewhere = Device(load_program(other_text.json), executor="interpreted") if other_text.ok else device
    for count in range(300):
        values = {name: draw.choice([0, 1, (1 << bits) - 1, draw.getrandbits(bits)]) for name, bits in fields}
        payload = draw.randbytes(draw.choice([0, 1, 3, 4, 20]))
        total = draw.choice([0, 1, WRAP - 1, draw.getrandbits(32)])
        kind, addresses = count % 4, draw.randbytes(12)
        if kind == 0:
            other = draw.choice([*[ether_type ^ 1 << count // 4 % 16] * 2, 0x0800, 0])
            frame = addresses + other.to_bytes(2, "big") + payload
            wanted = [(other_port, frame)]
        else:
            begin = addresses + ether_type.to_bytes(2, "big")
            has = values["flags"] & 1
            frame = begin + packed(values) + (total.to_bytes(4, "big") if has else b"") + payload
            after = {**values, "hops": (values["hops"] + 1) % 256, "flags": values["flags"] | 1}
            new = (total + values["worker"]) % WRAP if has else values["seq"]
            wanted = [(hop_port, begin + packed(after) + new.to_bytes(4, "big") + payload)]
            if kind == 3:
                most = 14 + 8 + (4 if has else 0)
                frame = frame[: draw.choice([13, draw.randrange(14, most), draw.randrange(14, most)])]
                wanted = []
        for switch in (device, elsewhere):
            found = [(port, bytes(data)) for port, data in switch.inject(draw.randrange(1, 8), frame)]
            said(found == wanted, f"frame {count}" + (" on another switch" if switch is elsewhere else ""))


# Labs 03 and 05.


class Switch:
    """A device with workers, to which the controller gives any bits."""

    def __init__(self, program, workers: int, draw: random.Random):
        high = [31, *draw.sample(range(31), workers - 1)]
        places = draw.choice([range(workers), draw.sample(high, workers), draw.sample(high, workers)])
        self.bits = {worker: 1 << place for worker, place in enumerate(places, start=1)}
        self.full = sum(self.bits.values())
        self.device = Device(program, executor="interpreted")
        tables = [name for name in self.device.tables if name.rpartition(".")[2] == "worker"]
        actions = [a.name for a in program.actions.values() if a.name.rpartition(".")[2] == "member"]
        said(len(tables) == len(actions) == 1, "no table worker, or no action member")
        for worker in range(1, workers + 1):
            entry = TableEntry((Exact(worker),), actions[0], (self.bits[worker], self.full))
            self.device.tables[tables[0]].insert(entry)
        self.device.multicast.set(1, [(port, 0) for port in range(1, workers + 1)])

    def send(self, port: int, frame: bytes):
        return sorted((port, bytes(data)) for port, data in self.device.inject(port, frame))

    def register(self, name: str):
        found = [one for full, one in self.device.registers.items() if full.rpartition(".")[2] == name]
        said(len(found) == 1, f"no register {name}")
        return found[0]


def framed(ether_type: int, kind: int, seq: int, lanes) -> bytes:
    return ETHERNET + ether_type.to_bytes(2, "big") + struct.pack(">BI4I", kind, seq, *lanes)


def numbers_of(folder: Path):
    """EtherType and slots."""
    skeleton = next((folder / "given").glob("*.p4")).read_text()
    slots = re.search(r"The switch has (\d+) slots", (folder / "README.md").read_text())
    return int(re.search(r"ETHER_TYPE = 16w(0x\w+)", skeleton)[1], 16), int(slots[1])


def judge_03(folder: Path, draw: random.Random) -> None:
    """Raises No where a frame, a sum or a register is not as README says."""
    ether_type, slots = numbers_of(folder)
    program = loaded(folder / "skeleton" / "slot.p4")
    names = ["bitmaps", *(f"sums{lane}" for lane in range(4))]
    for workers in (2, 3, 8, 5, 4, 2, 6, 7):
        switch = Switch(program, workers, draw)
        registers = {name: switch.register(name) for name in names}
        said(all(one.size >= slots for one in registers.values()), "a short register")
        bitmaps, sums = [0] * slots, [(0,) * 4 for _ in range(slots)]
        first = draw.choice([0, 0, slots, draw.randrange(WRAP // slots - 300) * slots, WRAP - 300 * slots])
        following = {slot: first + slot for slot in range(slots)}  # the chunk that a slot takes next
        lanes, alike = {}, tuple(draw.getrandbits(32) for _ in range(4))
        for _ in range(min(60 * workers, 260)):
            slot = draw.choice([0, 1, slots - 1, draw.randrange(slots)])
            worker = draw.randrange(1, workers + 1)
            seq = following[slot]
            drawn = tuple(draw.choice([0, 1, WRAP - 1, draw.getrandbits(32)]) for _ in range(4))
            mine = lanes.setdefault((worker, seq), draw.choice([drawn, drawn, (0,) * 4, alike]))
            if draw.random() < 0.2:
                kind = draw.choice([0, 2, 2, 3, 129, 1 ^ 1 << draw.randrange(8)])
                port, frame = draw.choice([
                    (workers + 1, framed(ether_type, 1, seq, mine)),
                    (worker, framed(ether_type, kind, seq, mine)),
                    (worker, framed(ether_type ^ 1 << draw.randrange(16), 1, seq, mine)),
                ])  # fmt: skip
                said(switch.send(port, frame) == [], "a stranger's frame left")
            else:
                found = switch.send(worker, framed(ether_type, 1, seq, mine))
                bit = switch.bits[worker]
                wanted = []
                if not bitmaps[slot] & bit:
                    old = sums[slot] if bitmaps[slot] else (0,) * 4
                    sums[slot] = tuple((a + b) % WRAP for a, b in zip(old, mine, strict=True))
                    bitmaps[slot] |= bit
                    if bitmaps[slot] == switch.full:
                        bitmaps[slot] = 0
                        following[slot] += slots
                        wanted = [(port, framed(ether_type, 2, seq, sums[slot])) for port in range(1, workers + 1)]
                said(found == wanted, f"{workers} workers, chunk {seq}")
            for place in range(slots):
                said(int(registers["bitmaps"].read(place)) == bitmaps[place], "a bitmap")
                if bitmaps[place]:
                    read = tuple(int(registers[f"sums{lane}"].read(place)) for lane in range(4))
                    said(read == sums[place], "a sum so far")


def judge_05_switch(folder: Path, draw: random.Random) -> None:
    """Raises No where a RESULT is not where README wants it, with workers that keep to its rules under loss."""
    ether_type, slots = numbers_of(folder)
    program = loaded(folder / "skeleton" / "loss.p4")
    for workers in (2, 3, 4, 3, 2, 5):
        switch = Switch(program, workers, draw)
        gathered, results = {}, {}  # by chunk: who is in, and the sum
        there = {worker: set() for worker in range(1, workers + 1)}
        newest = dict.fromkeys(there, -1)
        lanes = {}
        first = draw.choice([0, WRAP - 4096])  # number of the first chunk, which uses cell 0
        for _ in range(90 * workers):
            worker = draw.randrange(1, workers + 1)
            oldest = next(chunk for chunk in range(10**6) if chunk not in there[worker])
            may = list(range(oldest, oldest + slots))
            # A worker that uses a cell has the RESULT of the other, and never sends that chunk again.
            may = [c for c in may if c > newest[worker] - slots]
            seq = draw.choice([oldest, oldest, may[-1], draw.choice(may)])
            if seq not in may:
                continue
            if draw.random() < 0.1:
                kind = draw.choice([2, 1 ^ 1 << draw.randrange(8)])
                port, frame = draw.choice([
                    (workers + 1, framed(ether_type, 1, first + seq, (1, 2, 3, 4))),
                    (worker, framed(ether_type, kind, first + seq, (1, 2, 3, 4))),
                    (worker, framed(ether_type ^ 1 << draw.randrange(16), 1, first + seq, (1, 2, 3, 4))),
                ])  # fmt: skip
                said(switch.send(port, frame) == [], "a stranger's frame left")
                continue
            newest[worker] = max(newest[worker], seq)
            drawn = tuple(draw.choice([0, 1, WRAP - 1, draw.getrandbits(32)]) for _ in range(4))
            mine = lanes.setdefault((worker, seq), (0,) * 4 if seq % 5 == 1 else drawn)
            found = switch.send(worker, framed(ether_type, 1, first + seq, mine))
            wanted = []
            if worker not in gathered.setdefault(seq, set()):
                gathered[seq].add(worker)
                if len(gathered[seq]) == workers:
                    total = tuple(sum(lanes[w, seq][n] for w in there) % WRAP for n in range(4))
                    results[seq] = framed(ether_type, 2, first + seq, total)
                    wanted = [(port, results[seq]) for port in there]
            elif seq in results:
                wanted = [(worker, results[seq])]
            said(found == wanted, f"{workers} workers, chunk {seq}")
            for port, _ in found:
                if draw.random() < 0.6:
                    there[port].add(seq)
