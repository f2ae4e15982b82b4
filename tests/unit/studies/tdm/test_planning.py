"""The table of bars: it says no where a bar is not met."""

from studies.tdm.planning import Unit, bars, run_unit


def test_a_bar_that_is_not_met_is_a_no() -> None:
    table = {
        bar.text: bar for bar in bars({"ours": [1.0, 1.01], "exact": [1.0, 1.04], "pairs 0.8": [1.2], "flips": [1.3]})
    }
    assert table["flips, swaps, restarts over best partition, gangs"].holds is False
    assert table["tdm over joint optimum"].holds is True
    assert table["mean JCT exclusive / pairs, load 0.8"].holds is False
    assert table["flips over best partition, gangs"].holds is None
    assert len(table) == 4


def test_pairs_of_one_seed() -> None:
    found = run_unit(Unit("pairs", 1, quick=True))
    assert 0.48 <= found["pairs models worst"][0] <= found["pairs models"][0] <= 1.0
    assert found["free sigma 0.4"][0] < found["pairs sigma 0.4"][0]
