"""What goes wrong on a link."""

from dataclasses import dataclass, fields

from p4reduce.base.errors import BadInput

# Errors of the fabric.


class FabricError(BadInput, ValueError):
    """A network that cannot be built or cannot go on; the text names the setting and the fix."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Probabilities for each frame on a link, each in [0, 1].

    A frame that is duplicated reaches the other end twice, one right behind the other; loss, corruption and
    reordering then strike each of the two by itself. A lost frame vanishes; a corrupted one reaches the other end
    with a wrong frame check sequence and is dropped there. A reordered frame is late by 1 to ``reorder_delay_ps``
    picoseconds, evenly distributed, so that frames behind it may overtake.
    """

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    corrupt: float = 0.0
    reorder_delay_ps: int = 10_000_000

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "reorder_delay_ps" and not 0.0 <= value <= 1.0:
                raise FabricError(f"faults: {field.name}={value} is no probability (0 to 1)")
        if not 0 < self.reorder_delay_ps < 1 << 50:
            raise FabricError(f"faults: reorder_delay_ps={self.reorder_delay_ps} is not in 1..2^50-1")

    @property
    def any(self) -> bool:
        """Whether anything can go wrong at all."""
        return max(self.loss, self.duplicate, self.reorder, self.corrupt) > 0
