"""First transmissions on links against what plans predict, from one boundary to the next."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from p4reduce.experiments.tdm.parts import Installed, Part
from p4reduce.jobs.network import JobNetwork
from p4reduce.topologies.model import Hop


class Counting:
    """A port's counters sum up all that ever crossed it: what a process sent is the difference of two readings."""

    def __init__(self, network: JobNetwork, jobs: Iterable[Installed]) -> None:
        self._links = network.fabric.links
        passive = {node.name for node in network.fabric.topology.crossconnects}
        self._hops = [hop for hop in self._links if hop[0] not in passive]
        self._places = [place for place, hop in enumerate(self._links) if hop[0] not in passive]
        self._before = self._read()
        self._posted: Counter[int] = Counter()
        self._parts = {id(part): part for one in jobs for part in one.parts}

    def post(self, part: Part) -> None:
        """A part is sent once more."""
        self._posted[id(part)] += 1

    def boundary(self) -> tuple[int, tuple[str, ...]]:
        """Frames since the last boundary, and the links on which they, or their bytes, are not those predicted."""
        now = self._read()
        seen = now - self._before
        self._before = now
        wanted: dict[Hop, list[int]] = {hop: [0, 0] for hop in self._hops}
        for key, times in self._posted.items():
            for hop, traffic in self._parts[key].predicted.items():
                if traffic.frames:
                    wanted[hop][0] += times * traffic.frames
                    wanted[hop][1] += times * traffic.bytes
        self._posted.clear()
        differing = tuple(
            f"{hop[0]} port {hop[1]}: predicted {frames} frames, {octets} bytes, counted {own[0]}, {own[1]}"
            for hop, own, (frames, octets) in zip(self._hops, seen.tolist(), wanted.values(), strict=True)
            if own != [frames, octets]
        )
        return int(seen[:, 0].sum()), differing

    def _read(self) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
        counted = self._links.array()
        return np.stack([counted["inc_first_frames"], counted["inc_first_bytes"]], axis=1)[self._places]
