"""Figures as people read them."""


def time_text(ps: float) -> str:
    """A virtual time with a fitting unit: '1.234 ms'. ``ps`` in picoseconds."""
    for unit, size in (("s", 1e12), ("ms", 1e9), ("us", 1e6), ("ns", 1e3)):
        if abs(ps) >= size:
            return f"{ps / size:.4g} {unit}"
    return f"{ps:.0f} ps"


def bytes_text(count: float) -> str:
    """A number of bytes, decimal prefixes as for link rates: '12.3 MB'."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(count) >= size:
            return f"{count / size:.4g} {unit}"
    return f"{count:.0f} B"


def rate_text(bits_per_second: float) -> str:
    """A link rate: '10 Gb/s'."""
    for unit, size in (("Tb/s", 1e12), ("Gb/s", 1e9), ("Mb/s", 1e6), ("kb/s", 1e3)):
        if abs(bits_per_second) >= size:
            return f"{bits_per_second / size:.4g} {unit}"
    return f"{bits_per_second:.0f} b/s"


def share_text(value: float | None) -> str:
    """A share as per cent with two digits: '97.22 %'; '-' for none."""
    return "-" if value is None else f"{100 * value:.2f} %"


def small_text(value: float | None) -> str:
    """A small number: '1.2e-09'; '-' for none."""
    return "-" if value is None else f"{value:.2g}"
