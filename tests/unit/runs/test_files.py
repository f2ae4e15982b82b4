"""Messages about a run that has ended."""

from types import SimpleNamespace

from p4reduce.base.output import Output
from p4reduce.runs.files import print_real
from p4reduce.runs.result import RealRun


def test_switches_that_did_not_answer_at_the_end_are_named(capsys):
    """Their counts are unknown, so they are not compared with the prediction."""
    used = {"workers": 0.0, "switches": 0.0, "session": 0.0}
    real = RealRun("bmv2", "veth", "none", 1.0, 1.0, used, 0, 0, {"h1": {"window_mean": 8}}, lost_switches=["s1"])
    print_real(Output(), [SimpleNamespace(flow=None, network=SimpleNamespace(plan="steiner", window=64), real=real)])
    told = capsys.readouterr()
    assert "steiner: s1 gave no counters, so frames were not compared with the prediction" in told.out + told.err
