"""Hypothesis strategies for random networks."""

from hypothesis import strategies as st

from p4reduce.topologies import TopologyBuilder

GIGA = 10**9
RATE = 10 * GIGA


@st.composite
def loaded_networks(draw, *, switches: int, load: int):
    """Draw a topology, and the load of its links between switches in each direction: up to ``load`` of 10 Gb/s.

    It has one to ``switches`` switches, of which some can aggregate, and two to eight hosts.
    """
    builder = TopologyBuilder("random")
    count = draw(st.integers(1, switches))
    for number in range(count):
        builder.switch(f"s{number}", capable=draw(st.integers(0, 3)) > 0)
    pairs = {(draw(st.integers(0, number - 1)), number) for number in range(1, count)}
    extra = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).map(sorted).map(tuple)
    pairs |= {pair for pair in draw(st.sets(extra, max_size=2 * count)) if pair[0] != pair[1]}
    for a, b in sorted(pairs):
        builder.link(f"s{a}", f"s{b}", RATE, f"{draw(st.integers(0, 5))}us")
    for number in range(draw(st.integers(2, 8))):
        builder.host(f"h{number}")
        builder.link(f"h{number}", f"s{draw(st.integers(0, count - 1))}", RATE, "1us")
    topology = builder.build()
    used = {}
    for a, b in sorted(pairs):
        for x, y in ((a, b), (b, a)):
            used[(f"s{x}", topology.port(f"s{x}", f"s{y}"))] = draw(st.integers(0, load)) * GIGA
    return topology, used
