"""How many of one unit another has. Virtual time is counted in picoseconds."""

from typing import Final

PS_PER_NS: Final = 10**3
PS_PER_US: Final = 10**6
PS_PER_MS: Final = 10**9
PS_PER_S: Final = 10**12
NS_PER_S: Final = 10**9
