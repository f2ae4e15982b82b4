"""PANAMA's workers: several trees for each job, and a window that follows the ECN marks of results (panama.p4)."""

from bisect import insort
from collections.abc import Mapping

from p4switch import Switch
from studies.compare.pool import PoolWorker, SwitchML
from studies.compare.protocol import HERE, SYSTEMS, AllReduceJob, ReceivedFrame

GAIN = 1 / 16
"""gain of the moving average of the share of marked results (RFC 8257, 4.2)"""
LEAST_WINDOW = 2.0


class MarkedWorker(PoolWorker):
    """A worker whose window in a tree follows DCTCP (RFC 8257, 3.3), with results in place of acknowledgements."""

    def __init__(self, job: AllReduceJob, host: str, pool: int) -> None:
        super().__init__(job, host, pool)
        self.window = float(min(job.window, self.pool))
        self.share = 1.0  # moving average of the share of marked results
        self.came = self.marked = 0  # counts since the window changed

    def offer(self, key: int, *, again: bool = False) -> None:
        """Queue a key by age: otherwise two workers could fill their windows with chunks the other has not sent."""
        if again:
            self._again.add(key)
        insort(self._ready, key)

    def acknowledge(self, frame: ReceivedFrame, now_ps: int) -> None:
        """Take a result, marked on its contributions' paths up or on its own path down, and adapt the window."""
        if frame.tag.slot < self.pool and self.waiting[frame.tag.slot] == frame.tag.seq:
            self.came += 1
            self.marked += frame.marked or frame.tag.ecn_echo
            if self.came >= self.window:
                self.share += GAIN * (self.marked / self.came - self.share)
                larger = self.window * (1 - self.share / 2) if self.marked else self.window + 1
                self.window = min(max(LEAST_WINDOW, larger), float(self.pool))
                self.came = self.marked = 0
        super().acknowledge(frame, now_ps)


class Panama(SwitchML):
    """PANAMA's trees and its congestion control.

    Switches mark packets in queues longer than a seventh of the bandwidth-delay product (Alizadeh et al., "Data Center
    2010, 3.4).
    """

    name = "panama"
    says = "PANAMA (MLSys 2021): its trees and its congestion control"
    source = HERE / "panama.p4"
    worker = MarkedWorker

    def __init__(self, trees: int = 2) -> None:
        self.trees = trees

    def entries(self, switches: Mapping[str, Switch], job: AllReduceJob) -> None:
        """Write the tree's entries and the queue length from which switches mark."""
        super().entries(switches, job)
        for switch in switches.values():
            switch.default("settings", "threshold", (max(2, -(-job.window * job.trees // 7)),))


SYSTEMS.add("panama", Panama)
