"""DistributedDataParallel at the hosts of a network in real time, on embedded switches and on BMv2."""

import pytest

from p4reduce.network.real.bmv2 import find_bmv2
from p4reduce.network.real.net import why_not
from tests.support.paths import ROOT
from tests.support.torch_scripts.starting import LONG, WHY_LONG, WHY_NOT, launched

torch = pytest.importorskip("torch", reason=WHY_NOT)
pytestmark = [pytest.mark.torch, pytest.mark.skipif(not LONG, reason=WHY_LONG)]
SCRIPT = str(ROOT / "scripts" / "train_ddp.py")


@pytest.fixture(scope="module")
def of_virtual_time(tmp_path_factory):
    folder = tmp_path_factory.mktemp("virtual")
    return trained(folder)


def trained(folder, *flags):
    launched(
        folder, 2, *flags, "-t", "star:hosts=2", SCRIPT, "--model", "linear", "--steps", "10", "--save", f"{folder}/x"
    )
    return torch.load(folder / "x")


@pytest.mark.parametrize("target", ["embedded", "bmv2"])
def test_training_between_hosts_ends_where_it_ends_in_virtual_time(tmp_path, of_virtual_time, target):
    if (reason := why_not()) is not None:
        pytest.skip(f"no network namespaces here: {reason}")
    if target == "bmv2" and find_bmv2() is None:
        pytest.skip("needs BMv2's simple_switch_grpc: docs/bmv2.md")
    found = trained(tmp_path, "--time", "real", "--target", target, "--rate", "100M", "--lanes", "64")
    assert found["losses"] == pytest.approx(of_virtual_time["losses"], rel=1e-6)
    torch.testing.assert_close(found["parameters"], of_virtual_time["parameters"], rtol=1e-5, atol=1e-7)
