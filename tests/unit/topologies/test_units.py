import pytest

from p4reduce.topologies import format_delay, format_rate, parse_delay, parse_rate


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10G", 10**10),
        ("2.5G", 2_500_000_000),
        ("400M", 4 * 10**8),
        ("100 Mb/s", 10**8),
        ("7bit/s", 7),
        (12, 12),
        ("1k", 1000),
    ],
)
def test_rates(text, rate):
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    ("text", "delay"),
    [
        ("1us", 10**6),
        ("500ns", 500_000),
        ("2.5ms", 2_500_000_000),
        ("0", 0),
        (0, 0),
        ("3ps", 3),
        ("1s", 10**12),
        ("1µs", 10**6),
    ],
)
def test_delays(text, delay):
    assert parse_delay(text) == delay


@pytest.mark.parametrize(
    "text", ["", "fast", "10X", "-1G", "0", "0G", "0.5", "1.0001k", "1e9", True, 1.5, None, "1001T"]
)
def test_what_is_no_rate(text):
    with pytest.raises(ValueError, match=r"'10G'"):
        parse_rate(text)


@pytest.mark.parametrize("text", ["", "1", 1, "1 hour", "-1us", "0.5ps", False, 0.0, None, "1001s"])
def test_what_is_no_delay(text):
    with pytest.raises(ValueError, match=r"'1us'"):
        parse_delay(text)


@pytest.mark.parametrize("rate", [1, 999, 1000, 1001, 2_500_000_000, 10**10, 10**10 + 1, 123_456_789_012, 4 * 10**14])
def test_rates_come_back(rate):
    assert parse_rate(format_rate(rate)) == rate


@pytest.mark.parametrize("delay", [0, 1, 999, 1000, 1500, 10**6, 10**6 + 1, 3_456_789, 10**12, 7 * 10**14])
def test_delays_come_back(delay):
    assert parse_delay(format_delay(delay)) == delay


def test_short_texts():
    assert format_rate(10**10) == "10G"
    assert format_rate(2_500_000_000) == "2.5G"
    assert format_delay(10**6) == "1us"
    assert format_delay(500_000) == "500ns"
