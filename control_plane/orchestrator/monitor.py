"""The state of the network, from what its switches counted."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np

from p4reduce.control_plane.controller import Controller
from p4reduce.control_plane.counters import SwitchCounters
from p4reduce.control_plane.errors import PlanError
from p4reduce.control_plane.orchestrator.executor import Executor
from p4reduce.control_plane.orchestrator.history import LinkSample, SwitchSample
from p4reduce.control_plane.orchestrator.store import Store
from p4reduce.control_plane.placement.forecast import Floats, forecast_named, learn
from p4reduce.control_plane.scheduling.policy import NetworkState
from p4reduce.topologies import Topology
from p4reduce.topologies.model import Hop
from p4switch.base.safe_yaml import one_line
from p4switch.base.units import PS_PER_S

# Load that is predicted instead of measured: what links will carry of others when a decision has taken effect.


KEPT: Final = 256
"""newest samples of a link that are learned from"""
LEARN_EVERY: Final = 16
"""samples after which a link's forecast is learned anew"""


class Foresight:
    """Forecasts of background traffic, by directed link, from equally spaced measurements.

    Parameters
    ----------
    name : str
        Of the forecast; '' for none: then what was measured is what is used.
    ahead : int
        Measurements from now that it is for.
    """

    def __init__(self, name: str, ahead: int) -> None:
        """`PlanError` for a forecast that is not known, or no time ahead."""
        if name:
            forecast_named(name)
            if ahead < 1:
                raise PlanError(f"forecast {name!r}: {ahead} samples ahead, must be at least 1")
        self._name, self._ahead = name, ahead
        self._samples = 0
        self._history: dict[Hop, deque[float]] = {}
        self._learned: dict[Hop, tuple[int, Callable[[Floats], float]]] = {}
        self.missing = ""
        """why the newest answer is what was measured; empty where it is a forecast"""

    def predict(self, measured: Mapping[Hop, int]) -> dict[Hop, int]:
        """What links will carry, bit/s, after one more measurement; what was measured where nothing can be learned."""
        if not self._name:
            return dict(measured)
        for hop in measured:
            self._history.setdefault(hop, deque([0.0] * min(self._samples, KEPT), maxlen=KEPT))
        self._samples += 1
        found: dict[Hop, int] = {}
        self.missing = ""
        for hop, history in self._history.items():
            history.append(float(measured.get(hop, 0)))
            try:
                found[hop] = max(0, round(self._of(hop, np.array(history))))
            except PlanError as error:
                self.missing = one_line(error)
                found[hop] = measured.get(hop, 0)
        return {hop: bps for hop, bps in found.items() if bps}

    def _of(self, hop: Hop, history: Floats) -> float:
        known = self._learned.get(hop)
        if known is None or self._samples - known[0] >= LEARN_EVERY:
            known = self._learned[hop] = self._samples, learn(self._name, history, self._ahead)
        return known[1](history)


class Monitor:
    """Measures, writes it down, and says what a policy may use.

    A link's total comes from its interface, what INC has of it from the P4 program's counter ``link_sent`` over
    P4Runtime; the difference is background. (``link_sent`` counts a packet with the length that it came in with, so an
    answer to a resent PULL counts short. A host's uplink has no such counter: hosts say what they sent for tasks.)
    """

    def __init__(
        self,
        topology: Topology,
        controller: Controller,
        executor: Executor,
        store: Store,
        foresight: Foresight | None = None,
    ) -> None:
        self._topology = topology
        self._controller = controller
        self._executor = executor
        self._store = store
        self.background_bps: dict[Hop, int] = {}
        """traffic of others at the last measurement, or predicted from then on, bit/s by directed link"""
        self._foresight = foresight or Foresight("", 1)
        self._missing = ""
        self.measured_ps, self._before = store.history.last_links()
        if store.fact("counters") != executor.instance:  # those of another network, which began at 0
            self.measured_ps, self._before = -1, {}

    def measure(self) -> None:
        """Read all counters now, and write them down."""
        now = self._executor.now()
        if now <= self.measured_ps:
            return
        totals = self._executor.interface_bytes()
        counters = self._controller.read_counters()
        inc = {**_inc_bytes(counters), **self._executor.host_bytes()}
        elapsed = now - max(self.measured_ps, 0)
        samples = []
        background: dict[Hop, int] = {}
        for hop, total in totals.items():
            ours = inc.get(hop, 0)
            before = self._before.get(hop, LinkSample(hop, 0, 0, 0.0))
            sent = total - before.bytes
            sent_inc = ours - before.inc_bytes if ours >= before.inc_bytes else ours  # the switch began anew
            rate = self._topology.link_at(*hop).rate_bps
            samples.append(LinkSample(hop, total, ours, sent * 8 * PS_PER_S / (elapsed * rate)))
            if sent > sent_inc:
                background[hop] = (sent - sent_inc) * 8 * PS_PER_S // elapsed
        with self._store.transaction():
            self._store.history.add_measurement(
                now, samples, [self._sample(name, read) for name, read in counters.items()]
            )
            if self._store.fact("counters") != self._executor.instance:
                self._store.set_fact("counters", self._executor.instance)
        self.background_bps, self.measured_ps = self._foresight.predict(background), now
        if self._foresight.missing != self._missing:
            self._missing = self._foresight.missing
            with self._store.transaction():
                what = "no forecast" if self._missing else "forecast"
                self._store.history.add_decision(now, None, what, "", {"reason": self._missing})
        self._before = {sample.hop: sample for sample in samples}

    def _sample(self, name: str, read: SwitchCounters) -> SwitchSample:
        sent = sum(traffic.frames for traffic in read.link_sent.values())
        resent = sum(traffic.frames for (_, resend), traffic in read.link_sent.items() if resend)
        refused = sum(traffic.frames for traffic in read.refused.values())
        return SwitchSample(name, sent, resent, refused, self._controller.resources.largest(name))

    def state(self, demands: Iterable[Mapping[Hop, int]]) -> NetworkState:
        """What a policy may use: ``demands`` are those of the tasks that run."""
        state = NetworkState(
            self._topology,
            background_bps=dict(self.background_bps),
            down=set(self._executor.links_down()),
            slots={
                switch.name: self._controller.resources.largest(switch.name)
                for switch in self._topology.switches
                if switch.capable
            },
        )
        for demand in demands:
            state.reserve(demand)
        return state


def _inc_bytes(counters: Mapping[str, SwitchCounters]) -> dict[Hop, int]:
    """Bytes of INC by directed link, resends included."""
    found: dict[Hop, int] = {}
    for switch, read in counters.items():
        for (port, _), traffic in read.link_sent.items():
            found[(switch, port)] = found.get((switch, port), 0) + traffic.bytes
    return found
