"""Machine code and interpreter agree on tables of every kind while entries come and go (entities.p4)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from p4switch.tables import Exact, Lpm, Range, TableEntry, Ternary
from tests.support.effort import examples
from tests.support.executors.twins import Twins

INGRESS = "EntitiesIngress."
PORTS = st.integers(0, 3)
FEW = st.integers(0, 7)
# Low and high bits differ, so that words of 64 bits and byte order matter.
MACS = st.sampled_from([0, 1, 2, 0x020000000001, 0x020000000002, 0x0200000000FF, 0xFFFFFFFFFFFF])
TYPES = st.sampled_from([0, 1, 5, 6, 0x0800, 0x86DD, 0xFFFF])


def actions(table):
    mark = st.tuples(st.just(INGRESS + "mark"), st.tuples(st.integers(0, 0xFFFF), MACS))
    forward = st.tuples(st.just(INGRESS + "forward"), st.tuples(st.sampled_from([0, 1, 510, 511])))
    multicast = st.tuples(st.just(INGRESS + "multicast"), st.tuples(st.integers(0, 3)))
    remember = st.tuples(st.just(INGRESS + "remember"), st.tuples(st.integers(0, 17), st.integers(0, 4095)))
    return {
        "exact_table": forward | multicast | mark,
        "lpm_table": forward,
        "ternary_table": mark | remember,
        "range_table": mark,
        "optional_table": mark,
    }[table]


def prefix(value, length, width):
    return Lpm(value >> (width - length) << (width - length), length)


def masked(value, mask):
    return Ternary(value & mask, mask)


MATCHES = {
    "exact_table": st.tuples(MACS.map(Exact), PORTS.map(Exact)),
    "lpm_table": st.tuples(st.builds(prefix, MACS, st.sampled_from([0, 1, 7, 16, 40, 47, 48]), st.just(48))),
    "ternary_table": st.tuples(
        st.builds(masked, MACS, st.sampled_from([0, 1, 0xFF, 0xFF0000000000, 2**48 - 1])),
        st.builds(masked, TYPES, st.sampled_from([0, 1, 0xFF00, 0xFFFF])),
    ),
    "range_table": st.tuples(st.tuples(TYPES, TYPES).map(lambda pair: Range(min(pair), max(pair))), PORTS.map(Exact)),
    "optional_table": st.tuples(
        st.builds(masked, TYPES, st.sampled_from([0, 0xFFFF])), st.builds(masked, MACS, st.sampled_from([0, 2**48 - 1]))
    ),
}


@st.composite
def entries(draw):
    """Draw a table and an entry for it; ternary and range entries mostly have distinct priorities."""
    table = draw(st.sampled_from(sorted(MATCHES)))
    action, arguments = draw(actions(table))
    priority = 0 if table in ("exact_table", "lpm_table") else draw(st.integers(1, 50))
    return table, TableEntry(draw(MATCHES[table]), action, arguments, priority)


@st.composite
def packets(draw):
    ethernet = draw(MACS) << 64 | draw(MACS) << 16 | draw(TYPES)
    return draw(PORTS), ethernet.to_bytes(14, "big") + draw(st.binary(max_size=4))


CHANGES = st.tuples(st.sampled_from(["insert", "modify", "delete"]), entries())
DEFAULTS = st.tuples(
    st.just("default"), st.sampled_from(sorted(MATCHES)).flatmap(lambda t: st.tuples(st.just(t), actions(t)))
)
STEPS = st.lists(CHANGES | DEFAULTS | st.tuples(st.just("packet"), packets()), min_size=1, max_size=40)


@settings(max_examples=examples(60, 150), deadline=None)
@given(STEPS)
def test_any_sequence_of_changes_and_packets(steps):
    both = Twins("tests/data/entities.json")
    for device in (both.compiled, both.interpreted):
        for group in (1, 2):
            device.multicast.set(group, [(port, port) for port in range(group)])
    for kind, what in steps:
        if kind == "packet":
            both.inject(*what)
        elif kind == "default":
            table, (action, arguments) = what
            both.both(lambda d, t=table, a=action, v=arguments: d.tables[INGRESS + t].set_default(a, v))
        else:
            table, entry = what
            both.both(lambda d, k=kind, t=table, e=entry: getattr(d.tables[INGRESS + t], k)(e))
    both.check_state()
