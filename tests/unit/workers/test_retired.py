"""A retired endpoint sends nothing more, whatever it still owed, as its memory is freed."""

import numpy as np

from p4reduce.workers.endpoints import Endpoints
from p4reduce.workers.kernels.endpoint import deadline, expire, transmit
from p4reduce.workers.operation import Post
from p4reduce.workers.records import NEVER, Collective
from p4reduce.workers.specs import HostAddress, RingSpec


def test_a_ring_with_lost_frames_has_nothing_to_send_once_it_is_retired() -> None:
    endpoints = Endpoints()
    here, there = HostAddress(mac=1, ip=1), HostAddress(mac=2, ip=2)
    spec = RingSpec(here, there, there, rank=0, size=2, job=1, epoch=0, lanes=64, window=4, ack_every=2)
    index = endpoints.add(spec)
    array = np.ones(512, np.float32)
    endpoints.post(index, Post(Collective.ALL_REDUCE, array, array))
    out, now = np.zeros(1600, np.uint8), 0
    while transmit(endpoints.records, index, now, out):
        now += 1
    now = int(deadline(endpoints.records, index))
    expire(endpoints.records, index, now)
    assert endpoints.records["lost"][index] > 0
    endpoints.give_up(index)
    endpoints.retire(index, here)
    assert transmit(endpoints.records, index, now, out) == 0
    assert deadline(endpoints.records, index) == NEVER
