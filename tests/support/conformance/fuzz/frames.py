"""Random frames for the programs of tests/conformance/programs."""

import random


def small_bytes(rng: random.Random) -> bytes:
    """Return mostly small bytes: at most 79, sometimes too few for the first header."""
    length = rng.randrange(80) if rng.random() < 0.9 else rng.randrange(8)
    return bytes(_byte(rng) for _ in range(max(1, length)))


def _byte(rng: random.Random) -> int:
    draw = rng.random()
    if draw < 0.6:
        return rng.randrange(8)
    return 0xFF if draw < 0.65 else rng.randrange(256)


def operands(rng: random.Random) -> bytes:
    """Return a frame for constructs.p4. Its hashes (second bit of the first byte) read ``first``, which must be valid
    then: BMv2 reads the fields of an invalid header from memory that an earlier packet left."""
    frame = bytearray(small_bytes(rng))
    if frame[0] & 2:
        frame[0] &= 0x3F
        frame += rng.randbytes(max(0, 60 - len(frame)))
    return bytes(frame)


def orders(rng: random.Random) -> bytes:
    """Return a frame for replication.p4 with few of its features, so that copies of copies stay few."""
    switches = sum(1 << bit for bit in range(8) if rng.random() < 0.25)
    rest = bytes((rng.randrange(8), rng.randrange(8) | rng.randrange(8) << 4, rng.randrange(8), rng.randrange(60)))
    passes = rng.choice((0, 0, 64, 128))
    return bytes((switches,)) + rest + bytes((passes,)) + rng.randbytes(rng.randrange(50))


def order_is_open(frame: bytes) -> bool:
    """Return whether replication.p4 sends copies of this frame through several of BMv2's egress threads.

    The order of the copies is up to the scheduler then, even if it is the same in many runs.
    """
    return bool(frame[0] & 0x18)


def tagged(rng: random.Random) -> bytes:
    """Return a frame for stacks.p4: an order and a row of tags; the last tag's lowest bit is set."""
    order = bytes(
        (rng.choice((0x80, 0x80, 0)) | rng.randrange(10), rng.randrange(10), rng.randrange(4), rng.randrange(8))
    )
    count = rng.randrange(1, 6)
    tags = [(rng.choice((0, 0, 2)), rng.randrange(128) << 1) for _ in range(count)]
    row = b"".join(bytes((high, low | (number == count - 1))) for number, (high, low) in enumerate(tags))
    return order + row + small_bytes(rng)


def optioned(rng: random.Random) -> bytes:
    """Return a frame for varbits.p4, mostly with lengths that fit."""
    start = (rng.choice((1, 2, 3, 5, 6, 7, rng.randrange(256))), rng.randrange(8), rng.randrange(32), rng.randrange(8))
    return bytes(start) + small_bytes(rng)


def unaligned(rng: random.Random) -> bytes:
    """Return a frame for unaligned.p4, with lengths that fit or do not, but no operation that crashes BMv2."""
    length = rng.choice((0, 8, 16, 24, 32, 64, 72, 88, 96, 104, 128, 7, 200))
    op = rng.randrange(256) & 0xE7
    return bytes((length, op)) + rng.randbytes(rng.choice((5, 20, 40, 60)))


def united(rng: random.Random) -> bytes:
    """Return a frame for unions.p4: up to four members, each with a byte that tells its kind."""
    members = b"".join(
        bytes((1, rng.randrange(256))) if rng.random() < 0.5 else b"\x02" + rng.randbytes(4)
        for _ in range(rng.randrange(5))
    )
    return bytes((rng.randrange(256), rng.randrange(8))) + members + rng.randbytes(rng.randrange(6))
