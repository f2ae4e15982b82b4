"""Labs 11 to 16, judged by their READMEs: random frames against a few lines of Python each.

No line of the graders, their bench or their references is used.
"""

import random
import re
import struct
import zlib
from pathlib import Path

from p4switch.device import Device
from p4switch.p4.compile import compile_text
from p4switch.program.loader import load_program
from p4switch.trace import EntriesError, parse_entries
from tests.support.labs.judge_p4 import No, said


def number(folder: Path, pattern: str) -> int:
    """From the README or skeleton of the copy."""
    text = (folder / "README.md").read_text() + "".join(path.read_text() for path in (folder / "given").iterdir())
    return int(re.search(pattern, text)[1], 0)


class Switch:
    """A switch with entries in YAML; each frame gives what left, in the order of ports, and digests."""

    def __init__(self, folder: Path, file: str, entries: str) -> None:
        path = folder / "skeleton" / file
        found = compile_text(path.read_text(), path.name, library_only=True)
        said(found.ok and found.json is not None, "does not compile")
        try:
            self.program = load_program(found.json)
        except Exception as error:
            raise No(f"is not run: {error}") from None
        self.device = Device(self.program, executor="interpreted")
        self.told: list[tuple[int, ...]] = []
        self.device.on_digest = lambda digest: self.told.append(digest.values)
        self.put(entries)

    def put(self, entries: str) -> None:
        try:
            parse_entries(entries, self.program).apply(self.device, over=True)
        except EntriesError as error:
            raise No(f"entries: {error}") from None

    def send(self, port: int, frame: bytes, at: int = 0):
        self.told.clear()
        sent = sorted((port, bytes(data)) for port, data in self.device.inject(port, frame, time_us=at))
        return sent, list(self.told)

    def expect(self, port: int, frame: bytes, wanted, why: str, told=(), at: int = 0) -> None:
        found = self.send(port, frame, at)
        said(found == (sorted(wanted), list(told)), f"{why}: {found}, expected {wanted}, {told}")


def ethernet(dst: int, src: int, kind: int) -> bytes:
    return dst.to_bytes(6, "big") + src.to_bytes(6, "big") + kind.to_bytes(2, "big")


def colons(address: int) -> str:
    return ":".join(f"{byte:02x}" for byte in address.to_bytes(6, "big"))


def ones(data: bytes) -> int:
    """The internet checksum of some bytes, not all of which are 0."""
    return 0xFFFF - (sum(struct.unpack(f">{len(data) // 2}H", data)) % 0xFFFF or 0xFFFF)


def judge_11(folder: Path, draw: random.Random) -> None:
    for _ in range(5):
        _judge_11(folder, draw)


def _judge_11(folder: Path, draw: random.Random) -> None:
    own = (0x020000000000 + number(folder, r"48w0x020000000000 \+ 48w(\d+)")).to_bytes(6, "big")
    routes = []
    for length in draw.choice([(0, 8, 12, 16, 20, 24, 30, 31, 32), (7, 9, 16, 23, 28), (8, 16, 32)]):
        base = 0x0A102030 ^ draw.choice([0, 1 << draw.randrange(32)])
        routes.append((base >> 32 - length << 32 - length, length, draw.randrange(2, 400), draw.getrandbits(48)))
    rows = [f"  - {{table: route, match: {{hdr.ipv4.dst: {{value: '{base}', prefix: '{length}'}}}}, action: via,"
            f" params: {{mac: '{colons(mac)}', port: '{port}'}}}}" for base, length, port, mac in routes]  # fmt: skip
    switch = Switch(folder, "router.p4", "tables:\n" + "\n".join(rows))
    for count in range(500):
        to = draw.choice(routes)[0] ^ draw.choice([0, 1, 255, 1 << draw.randrange(32), draw.getrandbits(32)])
        protocol, ttl = draw.choice([17, 17, 17, 6, 1, 17 ^ 1 << draw.randrange(8)]), draw.choice([0, 1, 2, 3, 64, 255])
        tos, ihl, kind = (
            draw.choice([0, 8, 184, 3, 255]),
            draw.choice([5] * 30 + [*range(16)]),
            draw.choice([0x0800] * 27 + [0x0806, 0x86DD, 0x0800 ^ 1 << draw.randrange(16)]),
        )
        near = 9400 ^ 1 << draw.randrange(16)
        ends = draw.choice([9400, 53]), draw.choice([9400, 9400, 9400, 9401, near, near, near, 53])
        payload = struct.pack(">HHHH", *ends, 8, draw.getrandbits(16)) + draw.randbytes(draw.randrange(9))
        head = bytearray(struct.pack(">BBHHHBBHII", 0x40 | ihl, tos, draw.getrandbits(16), draw.getrandbits(16),
                                     draw.getrandbits(16), ttl, protocol, 0, draw.getrandbits(32), to))  # fmt: skip
        right = ones(bytes(head))
        if draw.random() < 0.1:  # by another id, a checksum near its bounds
            near = draw.choice([0, 0xFF00, 0xFFFE])
            head[4:6] = ((int.from_bytes(head[4:6], "big") + right - near) % 0xFFFF).to_bytes(2, "big")
            right = ones(bytes(head))
        bad = draw.choice([right, 1 << draw.randrange(16)])
        good = draw.random() < 0.9 or bad == 0
        head[10:12] = (right if good else right ^ bad).to_bytes(2, "big")
        frame = ethernet(draw.getrandbits(48), draw.getrandbits(48), kind) + bytes(head) + payload
        cut = draw.random() < 0.2
        if cut:
            frame = frame[: draw.choice([14, 20, 33, *((draw.randrange(34, 42), 41) if protocol == 17 else ())])]
        fits = [one for one in routes if (to ^ one[0]) >> 32 - one[1] == 0]
        wanted = []
        if kind == 0x0800 and not cut and good and ihl == 5 and ttl > 1 and fits:
            _, _, port, mac = max(fits, key=lambda one: one[1])
            head[8] -= 1
            head[10:12] = b"\0\0"
            if protocol == 17 and payload[2:4] == struct.pack(">H", 9400):
                head[1] = 184
            head[10:12] = ones(bytes(head)).to_bytes(2, "big")
            wanted = [(port, mac.to_bytes(6, "big") + own + b"\x08\x00" + bytes(head) + payload)]
        port = draw.choice([draw.randrange(1, 9), *(leads for _, _, leads, _ in routes)])
        switch.expect(port, frame, wanted, f"frame {count}")


def judge_12(folder: Path, draw: random.Random) -> None:
    kind, group = number(folder, r"HELLO_TYPE = (0x\w+)"), number(folder, r"EVERYWHERE = (\d+)")
    copies = ", ".join(f"{{port: '{port}'}}" for port in range(1, 7))
    for _ in range(6):
        switch = Switch(folder, "learn.p4", f"multicast:\n  - {{group: '{group}', replicas: [{copies}]}}")
        where, names = {}, {}
        hosts = [draw.getrandbits(48) & ~(1 << 40) for _ in range(5)]
        for count in range(120):
            source, to = draw.choice(hosts), draw.choice([*hosts, (1 << 48) - 1])
            port = where.get(source, draw.randrange(1, 7)) if draw.random() < 0.8 else draw.randrange(1, 7)
            grouped, hello = draw.random() < 0.05, draw.random() < (0.3 if source in where else 0.7)
            sender = source | 1 << 40 if grouped else source
            worker = draw.choice([0, 0, 1, 200, 255, names.get(source, 3)])
            frame = ethernet(to, sender, kind if hello else draw.choice([0x0800, kind ^ 1 << draw.randrange(16)]))
            frame += (
                struct.pack(">HB", draw.getrandbits(16), worker) + bytes(draw.choice([0, 0, 43]))
                if hello
                else draw.randbytes(draw.randrange(9))
            )
            if draw.random() < 0.05:
                frame = frame[: draw.randrange(14, 17) if hello else draw.randrange(1, 14)]
                switch.expect(port, frame, [], f"cut frame {count}")
                continue
            if grouped:
                switch.expect(port, frame, [], f"frame {count} of a group")
                continue
            mine = worker if hello else names.get(source, 0)
            news = where.get(source) != port or names.get(source, 0) != mine
            wanted = []
            if not hello and to in where:
                wanted = [(where[to], frame)] if where[to] != port else []
            elif not hello:
                wanted = [(one, frame) for one in range(1, 7) if one != port]
            switch.expect(port, frame, wanted, f"frame {count}", [(source, port, mine)] if news else [])
            if news:
                where[source], names[source] = port, mine
                switch.put(
                    f"tables:\n  - {{table: known, match: {{hdr.ethernet.src: '{colons(source)}'}}, action: at,"
                    f" params: {{port: '{port}', worker: '{mine}'}}}}\n  - {{table: forward, match: {{hdr.ethernet.dst:"
                    f" '{colons(source)}'}}, action: to, params: {{port: '{port}'}}}}"
                )


def arc(data: bytes) -> int:
    """CRC-16/ARC, by a table."""
    table = [*range(256)]
    for _ in range(8):
        table = [one >> 1 ^ 0xA001 * (one & 1) for one in table]
    found = 0
    for byte in data:
        found = found >> 8 ^ table[(found ^ byte) & 255]
    return found


def judge_13(folder: Path, draw: random.Random) -> None:
    kind, gap = number(folder, r"JOB_TYPE = (0x\w+)"), number(folder, r"GAP = (\d+)")
    for ways in (1, 2, 3, 8, 5, 33):
        ports, used = draw.sample(range(20, 500), ways), [0] * 64
        rows = [
            f"  - {{table: uplink, match: {{meta.way: '{way}'}}, action: to, params: {{port: '{port}'}}}}"
            for way, port in enumerate(ports)
        ]
        switch = Switch(
            folder,
            "spread.p4",
            f"tables:\n  - {{table: spread, default: 'true', action: ways, params: {{count: '{ways}'}}}}\n"
            + "\n".join(rows),
        )
        for _ in range(8):  # fresh registers: the pause of a flow's first frame begins at time 0
            src, dst = draw.getrandbits(16), draw.getrandbits(16)
            at, cell = draw.choice([gap, gap + 1]), arc(struct.pack(">HH", src, dst)) % 64
            if used[cell]:
                continue
            used[cell] = at
            frame = ethernet(3, 4, kind) + struct.pack(">BHHH", 0, 1, src, dst)
            way = arc(struct.pack(">HHH", src, dst, at > gap)) % ways
            switch.expect(1, frame, [(ports[way], frame)], f"{ways} ways, a first frame", at=at)
        seen, counts = used, [int(at > gap) for at in used]
        at, ends = (
            gap + draw.randrange(5, 5000),
            [(draw.getrandbits(16), draw.getrandbits(16)) for _ in range(2 if ways < 4 else 16)],
        )
        latest = ends[0]
        ends += [(ends[0][0], ends[0][0])]
        for count in range(120 if ways != 8 else 900):
            often = ways == 8 and count < 500  # a flow that pauses often
            at += gap + 1 if often else 0
            if count:
                at += draw.choice([0, 1, gap // 3, gap // 2 + 1, gap - 1, gap, gap + 1, 5 * gap])
            what, job, (src, dst) = (
                draw.choice([0, 0, 0, 0, 1, 2, 3, 255, draw.randrange(256)]),
                draw.choice([0, 1, 2, draw.getrandbits(16)]),
                draw.choice(ends),
            )
            if often:
                what, (src, dst) = 0, ends[0]
            elif count and draw.random() < 0.4:  # a pause that is about known, or short when it is cut
                what, (src, dst) = 0, latest
                since = seen[arc(struct.pack(">HH", src, dst)) % 64]
                at = max(at, since + draw.choice([gap // 2 + 1, gap // 2 + 1, gap + 1]))
                if draw.random() < 0.2 and at < 1 << 46:
                    at = max(at, since + (1 << draw.choice([16, 32, 32, 40, 40, 44])) + gap // 2)
            strange = (1 << draw.randrange(16)) * (draw.random() < 0.1)
            frame = (
                ethernet(draw.getrandbits(48), draw.getrandbits(48), kind ^ strange)
                + struct.pack(">BHHH", what, job, src, dst)
                + draw.randbytes(draw.randrange(6))
            )
            if draw.random() < 0.04:
                switch.expect(3, frame[:20], [], "cut", at=at)
                continue
            wanted = []
            if not strange and what in (1, 2):
                wanted = [(ports[arc(struct.pack(">H", job)) % ways], frame)]
            elif not strange and what == 0:
                cell, latest = arc(struct.pack(">HH", src, dst)) % 64, (src, dst)
                counts[cell] += at - seen[cell] > gap
                seen[cell] = at
                wanted = [(ports[arc(struct.pack(">HHH", src, dst, counts[cell])) % ways], frame)]
            port = draw.choice([*range(1, 9), *4 * [port for port, _ in wanted]])
            switch.expect(port, frame, wanted, f"{ways} ways, frame {count}", at=at)


def judge_14(folder: Path, draw: random.Random) -> None:
    kind, limit = number(folder, r"LOAD_TYPE = (0x\w+)"), number(folder, r"LIMIT = (\d+)")
    sizes = [number(folder, rf"CELLS{row} = (\d+)") for row in range(3)]
    for many, most in 3 * ((3, limit // 9), (60, limit // 9), (60, limit), (150, limit)):
        switch = Switch(folder, "heavy.p4", "tables: []")
        rows = [dict.fromkeys(range(size), 0) for size in sizes]
        jobs = [draw.getrandbits(32) for _ in range(many)]
        for count in range(150):
            what, job = draw.choice([1, 1, 1, 1, 2, 0, 3, draw.randrange(256)]), draw.choice(jobs)
            amount = (
                draw.choice([0, 1, limit // 9, limit - 1, limit, (1 << 32) - 9])
                if draw.random() < 0.2
                else draw.randrange(most)
            )
            cells = [zlib.crc32(struct.pack(">I", job)) % size for size in sizes]
            before = min(row[cell] for row, cell in zip(rows, cells, strict=True))
            if before < limit and draw.random() < 0.05:
                amount = limit - before
            if before == limit:
                what = draw.choice([1, 2])
            strange, short = (1 << draw.randrange(16)) * (draw.random() < 0.1), draw.random() < 0.04
            frame = ethernet(1, 2, kind ^ strange) + struct.pack(
                ">BBIII", what, draw.choice([0, 1, 255]), job, amount, draw.getrandbits(32)
            )
            port = draw.choice([draw.randrange(1, 9), 300])
            if strange or short or what not in (1, 2):
                switch.expect(port, frame[:20] if short else frame + b"x", [], f"frame {count}")
                continue
            for row, cell in zip(rows, cells, strict=True):
                row[cell] = min(row[cell] + amount * (what == 1), (1 << 32) - 1)
            after = min(row[cell] for row, cell in zip(rows, cells, strict=True))
            out = frame[:14] + struct.pack(">BBIII", what, after >= limit, job, amount, after) + b"x"
            told = [(job, after)] if before < limit <= after else []
            switch.expect(port, frame + b"x", [(9 if what == 1 else port, out)], f"frame {count}", told)


def judge_15(folder: Path, draw: random.Random) -> None:
    for end in (5, 0):
        _judge_15(folder, draw, end)


def _judge_15(folder: Path, draw: random.Random, end: int) -> None:
    """``end``: the port at which telemetry ends."""
    kind, me = number(folder, r"TEL_TYPE = (0x\w+)"), number(folder, r"ME = (\d+)")
    hosts = {0x020000000051: end, 0x020000000052: 6, 0x020000000053: 7}
    rows = [
        f"  - {{table: way, match: {{hdr.ethernet.dst: '{colons(host)}'}}, action: to, params: {{port: '{port}'}}}}"
        for host, port in hosts.items()
    ]
    rows += [
        "  - {table: source, match: {std.ingress_port: '1'}, action: begin}",
        f"  - {{table: sink, match: {{std.egress_spec: '{end}'}}, action: end}}",
    ]
    switch = Switch(folder, "telemetry.p4", "tables:\n" + "\n".join(rows))
    for count in range(180):
        now, port = draw.getrandbits(40), draw.choice([1, 1, 2, 3, 6, end])
        to = draw.choice([*hosts, 0x0200000000FF])
        begin, inner, payload = (
            to.to_bytes(6, "big") + draw.randbytes(6),
            draw.choice([0x0800, 0x88B5, *2 * (kind ^ 1 << draw.randrange(16),)]),
            draw.randbytes(draw.randrange(9)),
        )
        told, worst = [], (0, 0)
        hops = []
        plain = draw.random() < 0.3
        if plain:
            frame = begin + struct.pack(">H", inner) + payload
        else:
            pauses = [draw.choice([0, 1, 500, draw.getrandbits(32)]) for _ in range(draw.randrange(5))]
            hops = [(draw.getrandbits(16), (now - pause) % (1 << 32)) for pause in pauses]
            worst = (draw.choice([0, 500, 501, draw.getrandbits(32)]), draw.getrandbits(16))
            frame = begin + struct.pack(">HHBIH", kind, inner, len(hops), *worst)
            frame += b"".join(struct.pack(">HI", *hop) for hop in hops) + payload
            if draw.random() < 0.2:
                wrong = frame[: draw.randrange(14, 23 + 6 * len(hops))]
                if draw.random() < 0.3:
                    wrong = frame[:16] + bytes([draw.choice([5, 6, 8, 128, 255])]) + frame[17:] + bytes(2000)
                switch.expect(port, wrong, [], f"frame {count}, which cannot be read", at=now)
                continue
        if to not in hosts:
            switch.expect(port, frame, [], f"frame {count} without a way", at=now)
            continue
        out = hosts[to]
        if plain and port != 1:
            switch.expect(port, frame, [(out, frame)], f"plain frame {count}", at=now)
            continue
        if hops and (gap := (now - hops[0][1]) % (1 << 32)) > worst[0]:
            worst = (gap, me)
        hops = [(me, now % (1 << 32)), *hops][:4]
        if out == end:
            told, left = [(worst[1], worst[0])], begin + struct.pack(">H", inner) + payload
        else:
            left = (
                begin
                + struct.pack(">HHBIH", kind, inner, len(hops), *worst)
                + b"".join(struct.pack(">HI", *hop) for hop in hops)
                + payload
            )
        switch.expect(port, frame, [(out, left)], f"frame {count}", told, at=now)


def judge_16(folder: Path, draw: random.Random) -> None:
    kind = number(folder, r"SUM_TYPE = (0x\w+)")
    for _ in range(4):
        ways = {0x020000000060 + place: tuple(draw.sample(range(16), 2)) for place in range(4)}
        ports = [port for pair in ways.values() for port in pair]
        rows = [
            f"  - {{table: way, match: {{hdr.ethernet.dst: '{colons(to)}'}}, action: ways, params: {{first: '{first}', second: '{second}'}}}}"
            for to, (first, second) in ways.items()
        ]
        switch = Switch(folder, "survive.p4", "tables:\n" + "\n".join(rows))
        down = set()
        for count in range(150):
            to, port = draw.choice([*ways, 0x0200000000FF]), draw.choice([*ports, 20, 510])
            what, detour, about = (
                draw.choice([1, 1, 1, 2, 0, 8, 9, 8, 9, draw.randrange(256)]),
                draw.choice([0, 0, 1]),
                draw.choice([*ports, draw.choice(ports) ^ 8, 15, 16, 256 + ports[0], 5000]),
            )
            if what in (8, 9):
                others = [about % 512, ports[0], 16, 254, 254, 509, 511, 511, 510 ^ 1 << draw.randrange(9)]
                port = draw.choice([510] * 10 + others)
            strange = (1 << draw.randrange(16)) * (draw.random() < 0.1)
            frame = (
                ethernet(to, 3, kind ^ strange)
                + struct.pack(">BBHI", what, detour, about, draw.getrandbits(32))
                + draw.choice([b"lanes", b"lanes", b""])
            )
            if draw.random() < 0.03:
                switch.expect(port, frame[:20], [], "a short frame")
                continue
            wanted, told = [], []
            if not strange and what in (8, 9):
                if port == 510 and about < 16 and (about in down) != (what == 8):
                    down ^= {about}
                    told = [(about, int(what == 8))]
            elif not strange and to in ways:
                first, second = (one if one not in down and one != port else None for one in ways[to])
                if first is not None:
                    wanted = [(first, frame)]
                elif second is not None and not detour:
                    wanted = [(second, frame[:15] + b"\1" + frame[16:])]
            switch.expect(port, frame, wanted, f"frame {count}", told)
