"""Machine code and interpreter agree on the aggregation program: random INC packets, entries and sequences."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p4switch import abi
from p4switch.tables import Exact, Lpm, TableEntry, Ternary
from tests.support.effort import examples
from tests.support.executors.twins import Twins

AGGREGATE = "IncIngress.aggregate."
SWITCH, PARENT, STRANGER = 0x0A800001, 0x0A800002, 0x0A0000FF
CHILDREN = (0x0A000001, 0x0A000002, 0x0A000003)
MAC = 0x020000000000
CPU_PORT = 510
SLOTS = 4
TOKEN = 0x123456


def token_of(epoch):
    """Return the token: epoch 1 has tokens, all equal."""
    return (TOKEN,) if epoch == 1 else ()


def entries(generation, epoch, root):
    """Return entries of a job with three children on ports 1..3 in one epoch; a parent, if any, shares port 3."""
    token = token_of(epoch)
    shows = "_with_token" if token else ""
    common = (generation, 8, SLOTS, 0b111, 1, 2)
    job = (Exact(7), Exact(epoch))
    if root:
        yield "job", TableEntry(job, AGGREGATE + "root", common)
    else:
        yield "job", TableEntry(job, AGGREGATE + "inner" + shows, (*common, 3, MAC + PARENT, PARENT, 9400, *token))
        yield "peer", TableEntry((Exact(3), Exact(PARENT), *job), AGGREGATE + "parent" + shows, token)
    for number, child in enumerate(CHILDREN):
        match = (Exact(number + 1), Exact(child), *job)
        yield "peer", TableEntry(match, AGGREGATE + "child" + shows, (1 << number, int(number == 0), *token))


def twins(lanes):
    both = Twins(f"p4src/compiled/p4reduce-{lanes}.json")
    for device in (both.compiled, both.interpreted):
        tables = device.tables
        tables["IncIngress.local_address"].insert(TableEntry((Exact(SWITCH),), "IncIngress.is_local"))
        tables["IncIngress.settings"].set_default("IncIngress.configure", (3, 1))
        tables["IncIngress.forward.route"].insert(
            TableEntry((Lpm(0x0A000000, 8),), "IncIngress.forward.next_hop", (4, MAC + 4))
        )
        for port in (1, 2):
            tables["IncIngress.forward.edge"].insert(
                TableEntry((Exact(port),), "IncIngress.forward.host", (CHILDREN[port - 1],))
            )
        tables["IncIngress.forward.path"].insert(
            TableEntry((Exact(7), Exact(1), Exact(PARENT)), "IncIngress.forward.next_hop", (5, MAC + 5))
        )
        tables["IncIngress.traffic_class"].insert(
            TableEntry((Ternary(7, 0xFFFF), Ternary(3, 15), Ternary(0, 1)), "IncIngress.prioritize", (5,), 10)
        )
        tables["IncIngress.traffic_class"].insert(
            TableEntry((Ternary(7, 0xFFFF), Ternary(0, 0), Ternary(0, 0)), "IncIngress.by_lag", (1, 9, 2, 3), 5)
        )
        tables["IncIngress.dscp_class"].insert(TableEntry((Exact(0),), "IncIngress.prioritize", (6,)))
        device.multicast.set(1, [(1, 1), (2, 2), (3, 3)])
        shows = (("address", ()), ("address_with_token", (TOKEN,)), ("address_or_late", (TOKEN, 4)))
        for rid, (child, (name, more)) in enumerate(zip(CHILDREN, shows, strict=True), start=1):
            to = (MAC + child, child, 9400, *more)
            tables["IncEgress.depart.replica"].insert(TableEntry((Exact(rid),), f"IncEgress.depart.{name}", to))
    return both


def checksum(header):
    total = sum(int.from_bytes(header[i : i + 2], "big") for i in range(0, len(header), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (total ^ 0xFFFF).to_bytes(2, "big")


def frame(inc, lanes, source, destination, *, ecn=2, ttl=64):
    """Return Ethernet / IPv4 / UDP / INC header / lanes with correct lengths."""
    udp_length = 8 + len(inc) + len(lanes)
    ip = bytes([0x45, ecn]) + (20 + udp_length).to_bytes(2, "big") + bytes(4) + bytes([ttl, 17])
    addresses = source.to_bytes(4, "big") + destination.to_bytes(4, "big")
    ip += checksum(ip + bytes(2) + addresses) + addresses
    udp = (9400).to_bytes(2, "big") * 2 + udp_length.to_bytes(2, "big") + bytes(2)
    return (MAC + 1).to_bytes(6, "big") + (MAC + source).to_bytes(6, "big") + b"\x08\0" + ip + udp + inc + lanes


EDGES = [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x40000000, 0xC0000000]


@st.composite
def lane_words(draw, count):
    """Draw few distinct lanes, so that sums reach the limits of int32, at random places."""
    base = draw(st.sampled_from(EDGES) | st.integers(0, 2**32 - 1))
    words = [base] * count
    for at, value in draw(st.lists(st.tuples(st.integers(0, count - 1), st.sampled_from(EDGES)), max_size=4)):
        words[at] = value
    return b"".join(word.to_bytes(4, "big") for word in words)


@st.composite
def inc_packets(draw, lanes):
    """Draw (port, frame): mostly what a child or the parent would send."""
    has_lanes = draw(st.booleans())
    kind = draw(st.sampled_from([1, 1, 1, 2, 3, 0, 4]))
    flags = draw(st.integers(0, 7)) << 1 | has_lanes
    number = 1 if draw(st.integers(0, 19)) else 2
    for width, value in (
        (4, kind),
        (4, 0),
        (4, flags),
        (16, draw(st.sampled_from([7, 7, 7, 8]))),
        (16, draw(st.sampled_from([1, 1, 2, 3]))),
        (16, draw(st.sampled_from([1, 2, 0xFFFF]))),
        (32, draw(st.integers(0, 2 * SLOTS) | st.just(2**32 - 1))),
        (32, draw(st.integers(0, 3))),
        (8, draw(st.integers(0, 255))),
        (24, draw(st.sampled_from([TOKEN, TOKEN, TOKEN, 0]))),
    ):
        number = number << width | value
    payload = draw(lane_words(lanes)) if has_lanes else b""
    port = draw(st.integers(1, 3))
    usual = PARENT if kind == 3 else CHILDREN[port - 1]
    source = draw(st.sampled_from([usual, usual, usual, STRANGER]))
    destination = draw(st.sampled_from([SWITCH, SWITCH, SWITCH, SWITCH, PARENT, 0x0B000000]))
    port = 3 if source == PARENT else port
    whole = frame(
        number.to_bytes(20, "big"),
        payload,
        source,
        destination,
        ecn=draw(st.sampled_from([0, 2, 3])),
        ttl=draw(st.sampled_from([64, 64, 1])),
    )
    return port, draw(damaged(whole))


@st.composite
def damaged(draw, whole):
    match draw(st.integers(0, 19)):
        case 0:
            return whole[: draw(st.integers(0, len(whole)))]
        case 1:
            at = draw(st.integers(0, min(61, len(whole) - 1)))
            return whole[:at] + bytes([whole[at] ^ 1 << draw(st.integers(0, 7))]) + whole[at + 1 :]
        case 2:
            return whole + draw(st.binary(min_size=1, max_size=4))
        case _:
            return whole


def steps(lanes):
    install = st.tuples(st.just("insert"), st.tuples(st.integers(1, 3), st.integers(1, 3), st.booleans()))
    remove = st.tuples(st.just("delete"), st.tuples(st.integers(1, 3), st.integers(1, 3), st.booleans()))
    packet = st.tuples(st.just("packet"), inc_packets(lanes))
    return st.lists(packet | packet | packet | install | remove, min_size=4, max_size=30)


def touched(name, size):
    """Return the cells that the job may change, and their neighbours."""
    return range(min(size, 8 + SLOTS + 4))


def run(lanes, sequence):
    both = twins(lanes)
    for root in (False, True):
        for table, entry in entries(5, 1 + root, root):
            both.both(lambda d, t=table, e=entry: d.tables[AGGREGATE + t].insert(e))
    for kind, what in sequence:
        if kind == "packet":
            both.inject(*what)
        else:
            for table, entry in entries(*what):
                both.both(lambda d, k=kind, t=table, e=entry: getattr(d.tables[AGGREGATE + t], k)(e))
    both.check_state(touched)


@settings(max_examples=examples(50, 120), deadline=None)
@given(steps(64))
def test_any_sequence_of_packets_and_entries(sequence):
    run(64, sequence)


CELLS = st.integers(0, 2**31 - 1)


@settings(max_examples=examples(25, 60), deadline=None)
@given(inc_packets(64), st.lists(st.tuples(st.integers(0, 511), st.integers(0, 4), CELLS, CELLS), max_size=3))
def test_both_read_and_write_the_same_cells(packet, copies):
    """Ports, replication ids, queue depths and times of each copy, as given by a fabric with queues."""
    both = twins(64)
    for table, entry in entries(5, 1, True):
        both.both(lambda d, t=table, e=entry: d.tables[AGGREGATE + t].insert(e))
    port, whole = packet
    given_cells = {abi.IN_PORT: port, abi.IN_TIME_US: 1234567, abi.IN_INSTANCE: 0}
    compiled, interpreted = (both.start(device, whole, given_cells) for device in (both.compiled, both.interpreted))
    for name in ("OUT_EGRESS_SPEC", "OUT_MCAST_GRP", "OUT_PRIORITY", "EG_LENGTH"):
        assert compiled.io[getattr(abi, name)] == interpreted.io[getattr(abi, name)], name
    dropped = compiled.io[abi.OUT_EGRESS_SPEC] == abi.DROP_PORT and compiled.io[abi.OUT_MCAST_GRP] == 0
    for out_port, rid, depth, time_us in [] if dropped else copies:
        cells = {
            abi.EG_PORT: out_port,
            abi.EG_RID: rid,
            abi.EG_INSTANCE: 5,
            abi.EG_ENQ_QDEPTH: depth % 6,
            abi.EG_DEQ_QDEPTH: depth,
            abi.EG_ENQ_TIME_US: time_us,
            abi.EG_DEQ_TIMEDELTA_US: depth,
            abi.EG_TIME_US: time_us + depth,
        }
        assert compiled.leave(cells) == interpreted.leave(cells)
    both.check_state(touched)


@settings(max_examples=20, deadline=None)
@given(steps(256))
def test_any_sequence_with_wide_packets(sequence):
    run(256, sequence)


@pytest.mark.parametrize("root", [True, False])
def test_the_sequences_reach_the_slots(root):
    """The sequences do aggregate: three pushes complete a slot."""
    both = twins(64)
    for table, entry in entries(5, 1, root):
        both.both(lambda d, t=table, e=entry: d.tables[AGGREGATE + t].insert(e))
    inc = (1 << 28 | 1 << 24 | 0b0001 << 16 | 7).to_bytes(4, "big") + bytes([0, 1, 0, 1]) + TOKEN.to_bytes(12, "big")
    sent = [
        both.inject(port, frame(inc, bytes([0, 0, 0, port]) * 64, CHILDREN[port - 1], SWITCH)) for port in (1, 2, 3)
    ]
    assert sent[:2] == [[], []]
    assert [port for port, _ in sent[2]] == ([1, 2, 3] if root else [3])
    assert all(out[-256:] == bytes([0, 0, 0, 6]) * 64 for _, out in sent[2])
    both.check_state(touched)
