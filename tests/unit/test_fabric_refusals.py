"""Programs that ask more of a driver than the fabric can do."""

from pathlib import Path

import pytest

from p4reduce.dataplane.device import Device
from p4reduce.dataplane.model import load_program
from p4reduce.fabric import FabricError, VirtualNetwork
from p4reduce.topologies import TopologyBuilder

DATA = Path(__file__).parents[1] / "data"


@pytest.mark.parametrize(
    ("name", "said"),
    [("paths", r"'s1' uses clone\(\), resubmit.*, recirculate.*, truncate\(\)"), ("control", r"'s1' uses digest\(\)")],
)
def test_a_program_that_leaves_the_straight_path_is_refused_by_name(name: str, said: str) -> None:
    builder = TopologyBuilder("one")
    builder.host("h1")
    builder.switch("s1")
    builder.link("h1", "s1", "10G", "1us")
    device = Device(load_program(DATA / f"{name}.json"))
    with pytest.raises(FabricError, match=said):
        VirtualNetwork(builder.build(), {"s1": device})
