"""Jobs that no network can run: one clear error each."""

import pytest

from p4reduce.control_plane.tdm.jobs import TdmError, TdmJob, parse_network
from p4reduce.control_plane.tdm.registry import TurnOptions, make_schedule


def job(name: str = "a", units: int = 2, *hosts: str) -> TdmJob:
    return TdmJob(name, "ps", 4000, 1e-6, units, hosts)


@pytest.mark.parametrize(
    ("spec", "jobs", "policy", "said"),
    [
        ("oxc:pods=2,hosts=2,ports=1", [job("a", 5)], "tdm", "5 units, but the network has 4 GPUs"),
        ("oxc:pods=2,hosts=2,ports=1", [job(x, 4) for x in "abc"], "tdm", "12 units for 4 GPUs"),
        ("oxc:pods=2,hosts=2,ports=0", [job("a", 3)], "tdm", "no port to the OXC"),
        ("oxc:pods=2,hosts=2,ports=1", [job("a", 2, "h1", "h9")], "tdm", "no host 'h9'"),
        ("oxc:pods=2,hosts=2,ports=1", [job("a", 2, "h1", "h1")], "tdm", "named more often|no GPU left|GPUs"),
        ("oxc:pods=2,hosts=2,ports=1", [job(), job()], "tdm", "names are unique"),
        ("oxc:pods=2,hosts=2,ports=1", [], "tdm", "there is none"),
        ("oxc:pods=2,hosts=2,ports=1", [job()], "fastest", "no scheduler 'fastest'; choose one of best, cassini"),
        ("oxc:pods=9,hosts=2,ports=1", [job()], "exact-one-tree", "at most 5 pods"),
        ("oxc:pods=5,hosts=2,ports=1", [job()], "exact", "at most 4 pods"),
    ],
)
def test_what_cannot_be_scheduled(spec: str, jobs: list[TdmJob], policy: str, said: str) -> None:
    with pytest.raises(TdmError, match=said) as caught:
        make_schedule(policy, jobs, parse_network(spec))
    assert "\n" not in str(caught.value)


def test_darkness_longer_than_the_round() -> None:
    jobs = [job("a", 4, "h1", "h2", "h3", "h4"), job("b", 4, "h1", "h2", "h5", "h6")]
    with pytest.raises(TdmError, match="darkness, longer than the round"):
        make_schedule("tdm", jobs, parse_network("oxc:pods=3,hosts=2,ports=2,delta=30ms"))
    assert make_schedule("tdm", jobs, parse_network("oxc:pods=3,hosts=2,ports=2,delta=2us")).switches


@pytest.mark.parametrize("wrong", [{"reading": "my"}, {"clock": "sun"}, {"moves": -1}, {"flows": 0}])
def test_options_that_are_none(wrong: dict[str, object]) -> None:
    with pytest.raises(TdmError, match=next(iter(wrong))):
        TurnOptions(**wrong)  # type: ignore[arg-type]
