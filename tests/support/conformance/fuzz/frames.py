"""Frames for the programs of tests/conformance/programs."""

import random


def small_bytes(rng: random.Random) -> bytes:
    """Mostly small bytes, of any length up to 80, sometimes too short for the first header."""
    length = rng.randrange(80) if rng.random() < 0.9 else rng.randrange(8)
    return bytes(_byte(rng) for _ in range(max(1, length)))


def _byte(rng: random.Random) -> int:
    draw = rng.random()
    if draw < 0.6:
        return rng.randrange(8)
    return 0xFF if draw < 0.65 else rng.randrange(256)


def operands(rng: random.Random) -> bytes:
    """For constructs.p4. Its hashes (second bit of the first byte) read ``first``, which must be there then: what BMv2
    reads from a header that is not is what some earlier packet left in the memory that the two share by chance."""
    frame = bytearray(small_bytes(rng))
    if frame[0] & 2:
        frame[0] &= 0x3F
        frame += rng.randbytes(max(0, 60 - len(frame)))
    return bytes(frame)


def orders(rng: random.Random) -> bytes:
    """For replication.p4: few of its switches at once, so that copies of copies stay few."""
    switches = sum(1 << bit for bit in range(8) if rng.random() < 0.25)
    rest = bytes((rng.randrange(8), rng.randrange(8) | rng.randrange(8) << 4, rng.randrange(8), rng.randrange(60)))
    passes = rng.choice((0, 0, 64, 128))
    return bytes((switches,)) + rest + bytes((passes,)) + rng.randbytes(rng.randrange(50))


def order_is_open(frame: bytes) -> bool:
    """Whether replication.p4 sends copies of this frame through several of BMv2's egress threads and on from there:
    then it is up to the scheduler which comes first, even if the same one does time and again."""
    return bool(frame[0] & 0x18)


def tagged(rng: random.Random) -> bytes:
    """For stacks.p4: an order and a row of tags, the last of which has its lowest bit set."""
    order = bytes(
        (rng.choice((0x80, 0x80, 0)) | rng.randrange(10), rng.randrange(10), rng.randrange(4), rng.randrange(8))
    )
    count = rng.randrange(1, 6)
    tags = [(rng.choice((0, 0, 2)), rng.randrange(128) << 1) for _ in range(count)]
    row = b"".join(bytes((high, low | (number == count - 1))) for number, (high, low) in enumerate(tags))
    return order + row + small_bytes(rng)


def optioned(rng: random.Random) -> bytes:
    """For varbits.p4: mostly lengths that fit."""
    start = (rng.choice((1, 2, 3, 5, 6, 7, rng.randrange(256))), rng.randrange(8), rng.randrange(32), rng.randrange(8))
    return bytes(start) + small_bytes(rng)


def unaligned(rng: random.Random) -> bytes:
    """For unaligned.p4: lengths that fit and others; never what BMv2 dies of."""
    length = rng.choice((0, 8, 16, 24, 32, 64, 72, 88, 96, 104, 128, 7, 200))
    op = rng.randrange(256) & 0xE7
    return bytes((length, op)) + rng.randbytes(rng.choice((5, 20, 40, 60)))


def united(rng: random.Random) -> bytes:
    """For unions.p4: members that say what they are."""
    members = b"".join(
        bytes((1, rng.randrange(256))) if rng.random() < 0.5 else b"\x02" + rng.randbytes(4)
        for _ in range(rng.randrange(5))
    )
    return bytes((rng.randrange(256), rng.randrange(8))) + members + rng.randbytes(rng.randrange(6))
